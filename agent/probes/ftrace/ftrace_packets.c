/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of linux.ftrace.
 *
 *     TracePacket { ftrace_events { pieces of the bundle, clock }, interned_data { names } }
 *
 * Happy path: a bundle's pieces are written unchanged; if the clock is not boot time, both current
 * times are added; addresses met since the last bundle get their functions' names. Names are
 * written again after every drain, so that a trace that lost its beginning has them too. Failure:
 * an address without a function has no name.
 */
#include "agent/probes/ftrace/ftrace_packets.h"

#include <stdlib.h>
#include <unistd.h>

#include "perfetto/ftrace_events.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "perfetto/track_event.fields.h"

#define CLOCK_MAX_BYTES 32u

static void put_clock(struct pfl_writer *w, const struct pfl_ftrace_instance *in)
{
    pfl_writer_field_varint(w, FTRACE_EVENT_BUNDLE__FTRACE_CLOCK, in->clock);
    pfl_writer_field_varint(w, FTRACE_EVENT_BUNDLE__FTRACE_TIMESTAMP, in->clock_ns[0]);
    pfl_writer_field_varint(w, FTRACE_EVENT_BUNDLE__BOOT_TIMESTAMP, in->clock_ns[1]);
}

static void put_symbol(struct perfleet_writer *writer, uint64_t number, struct pfl_span name)
{
    perfleet_begin(writer, INTERNED_DATA__KERNEL_SYMBOLS);
    perfleet_uint(writer, INTERNED_STRING__IID, number);
    perfleet_bytes(writer, INTERNED_STRING__STR, name.data, name.len);
    perfleet_end(writer);
}

static void put_symbols(struct pfl_ftrace_session *s)
{
    struct pfl_ksym_set *set = s->main.reader.symbols;
    bool has_begun = false;

    for (size_t i = 0; i < set->fresh_count; i++) {
        struct pfl_span name = pfl_ksyms_find(s->ksyms, set->fresh[i]);

        if (name.len == 0)
            continue;
        if (!has_begun) {
            if (!s->has_sent_symbols)
                perfleet_uint(s->writer, TRACE_PACKET__SEQUENCE_FLAGS,
                              TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED);
            perfleet_begin(s->writer, TRACE_PACKET__INTERNED_DATA);
        }
        has_begun = true;
        s->has_sent_symbols = true;
        put_symbol(s->writer, pfl_event_hide_address(s->address_key, set->fresh[i]), name);
    }
    if (has_begun)
        perfleet_end(s->writer);
    set->fresh_count = 0;
}

void pfl_ftrace_packets_bundle(void *user, const struct pfl_span *parts, size_t count,
                               uint64_t bytes)
{
    const struct pfl_ftrace_feed *feed = user;
    struct pfl_ftrace_session *s = feed->session;
    uint8_t head[2 * PFL_VARINT_MAX_BYTES];
    uint8_t clock[CLOCK_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    struct pfl_writer c = pfl_writer_of(clock, sizeof(clock));

    if (feed->in->clock != 0)
        put_clock(&c, feed->in);
    pfl_writer_field_header(&w, TRACE_PACKET__FTRACE_EVENTS, bytes + (sizeof(clock) - c.left));
    perfleet_packet_begin(s->writer);
    perfleet_raw(s->writer, head, sizeof(head) - w.left);
    for (size_t i = 0; i < count; i++)
        perfleet_raw(s->writer, parts[i].data, parts[i].len);
    perfleet_raw(s->writer, clock, sizeof(clock) - c.left);
    if (s->main.reader.symbols != NULL)
        put_symbols(s);
    perfleet_packet_end(s->writer);
}

/* kprobe_profile: "name hits misses" a line, of all kprobes of the kernel. */
static void add_kprobe_stats(struct pfl_ftrace *self, struct pfl_probe_message *message)
{
    uint64_t sums[2] = {0, 0};
    const char *at;

    if (pfl_tracefs_read(self->fs.root_fd, "kprobe_profile", &self->scratch) != 0 ||
        pfl_buf_append(&self->scratch, "", 1) != 0)
        return;
    at = (const char *)pfl_buf_get(&self->scratch).data;
    while (at != NULL && *(at += strspn(at, " \n")) != '\0') {
        char *end = (char *)at + strcspn(at, " \n");

        for (size_t i = 0; i < 2; i++)
            sums[i] += strtoull(end, &end, 10);
        at = end + strcspn(end, "\n");
    }
    if ((sums[0] | sums[1]) == 0)
        return;
    pfl_probe_message_begin(message, FTRACE_STATS__KPROBE_STATS);
    pfl_probe_message_uint(message, FTRACE_KPROBE_STATS__HITS, sums[0]);
    pfl_probe_message_uint(message, FTRACE_KPROBE_STATS__MISSES, sums[1]);
    pfl_probe_message_end(message);
}

void pfl_ftrace_packets_write_preserved(struct pfl_ftrace_session *s)
{
    perfleet_packet_begin(s->writer);
    perfleet_uint(s->writer, TRACE_PACKET__TIMESTAMP, perfleet_time_ns());
    perfleet_begin(s->writer, TRACE_PACKET__FTRACE_STATS);
    perfleet_uint(s->writer, FTRACE_STATS__PHASE, FTRACE_STATS__START_OF_TRACE);
    perfleet_uint(s->writer, FTRACE_STATS__PRESERVE_FTRACE_BUFFER, 1);
    perfleet_end(s->writer);
    perfleet_packet_end(s->writer);
}

/* Reports a CPU's two buffers as one. */
static void add_cpu_stats(const struct pfl_ftrace_session *s, struct pfl_probe_message *message)
{
    const struct pfl_cpu_buffers *buffers = &s->main.in->buffers;
    const struct pfl_cpu_buffers *more = s->markers.in != NULL ? &s->markers.in->buffers : NULL;

    for (size_t i = 0; i < buffers->count; i++) {
        struct pfl_cpu_stats stats;
        struct pfl_cpu_stats other;

        pfl_cpu_buffers_read_stats(buffers, i, &stats);
        for (size_t k = 0; more != NULL && k < more->count; k++) {
            if (more->cpus[k].cpu != buffers->cpus[i].cpu)
                continue;
            pfl_cpu_buffers_read_stats(more, k, &other);
            pfl_cpu_stats_add(&stats, &other);
        }
        if (stats.has != 0)
            pfl_cpu_stats_encode(&stats, buffers->cpus[i].cpu, message);
    }
}

void pfl_ftrace_packets_add_stats(struct pfl_ftrace *self, const struct pfl_ftrace_session *s,
                                  uint32_t phase, struct pfl_probe_message *message)
{
    pfl_probe_message_clear(message);
    pfl_probe_message_uint(message, FTRACE_STATS__PHASE, phase);
    add_cpu_stats(s, message);
    pfl_probe_message_uint(message, FTRACE_STATS__CPU_BUFFER_SIZE_PAGES,
                           (uint64_t)s->main.in->buffer_size_kb * 1024 /
                               (uint64_t)sysconf(_SC_PAGESIZE));
    if (s->kprobe_types != NULL)
        add_kprobe_stats(self, message);
    if (s->main.reader.symbols != NULL) {
        pfl_probe_message_uint(message, FTRACE_STATS__KERNEL_SYMBOLS_PARSED, self->ksyms.count);
        pfl_probe_message_uint(
            message, FTRACE_STATS__KERNEL_SYMBOLS_MEM_KB,
            (self->ksyms.room * sizeof(*self->ksyms.symbols) + self->ksyms.names_room) / 1024);
    }
}

void pfl_ftrace_packets_write_stats(struct pfl_ftrace_session *s,
                                    const struct pfl_probe_message *stats, bool is_end)
{
    struct pfl_span part = pfl_buf_get(&stats->buf);
    struct pfl_span unknown = pfl_buf_get(&s->unknown.buf);
    uint32_t status_seen = s->main.reader.status_seen | s->markers.reader.status_seen;

    if (stats->failed)
        return;
    perfleet_packet_begin(s->writer);
    perfleet_uint(s->writer, TRACE_PACKET__TIMESTAMP, perfleet_time_ns());
    perfleet_begin(s->writer, TRACE_PACKET__FTRACE_STATS);
    perfleet_raw(s->writer, part.data, part.len);
    if (!is_end && !s->unknown.failed)
        perfleet_raw(s->writer, unknown.data, unknown.len);
    for (uint32_t status = 0; is_end && status < 32; status++) {
        if ((status_seen >> status & 1) != 0)
            perfleet_uint(s->writer, FTRACE_STATS__FTRACE_PARSE_ERRORS, status);
    }
    perfleet_end(s->writer);
    perfleet_packet_end(s->writer);
}
