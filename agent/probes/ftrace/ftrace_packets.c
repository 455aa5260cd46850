/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of linux.ftrace.
 *
 *     TracePacket { ftrace_events { pieces of the bundle, clock }, interned_data { names } }
 *
 * Happy path: a bundle's pieces go to the writer as they are; another clock than boot time is told
 * with both times of now; addresses met since the last bundle get their functions' names. Names
 * are told anew after every drain, so that a trace that lost its beginning has them too.
 * Failure: an address without a function has no name.
 */
#include "agent/probes/ftrace/ftrace_packets.h"

#include <stdlib.h>
#include <unistd.h>

#define PACKET_BUNDLE      1u
#define PACKET_TIMESTAMP   8u
#define PACKET_INTERNED    12u
#define PACKET_FLAGS       13u
#define PACKET_STATS       34u
#define FLAG_CLEARED       1u
#define INTERNED_KSYMS     26u
#define BUNDLE_CLOCK       5u
#define BUNDLE_CLOCK_TIME  6u
#define BUNDLE_BOOT_TIME   7u
#define CLOCK_MAX_BYTES    32u
#define STATS_SYMBOLS      3u
#define STATS_SYMBOLS_KB   4u
#define STATS_PARSE_ERRORS 9u
#define STATS_PRESERVED    8u
#define STATS_KPROBES      10u
#define STATS_BUFFER_PAGES 11u

static void put_clock(struct pfl_writer *w, const struct pfl_ftrace_instance *in)
{
    pfl_writer_field_varint(w, BUNDLE_CLOCK, in->clock);
    pfl_writer_field_varint(w, BUNDLE_CLOCK_TIME, in->clock_ns[0]);
    pfl_writer_field_varint(w, BUNDLE_BOOT_TIME, in->clock_ns[1]);
}

static void put_symbol(struct perfleet_writer *writer, uint64_t number, struct pfl_span name)
{
    perfleet_begin(writer, INTERNED_KSYMS);
    perfleet_uint(writer, 1, number);
    perfleet_bytes(writer, 2, name.data, name.len);
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
            if (!s->has_told_symbols)
                perfleet_uint(s->writer, PACKET_FLAGS, FLAG_CLEARED);
            perfleet_begin(s->writer, PACKET_INTERNED);
        }
        has_begun = true;
        s->has_told_symbols = true;
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
    pfl_writer_field_header(&w, PACKET_BUNDLE, bytes + (sizeof(clock) - c.left));
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
    pfl_probe_message_begin(message, STATS_KPROBES);
    pfl_probe_message_uint(message, 1, sums[0]);
    pfl_probe_message_uint(message, 2, sums[1]);
    pfl_probe_message_end(message);
}

void pfl_ftrace_packets_write_preserved(struct pfl_ftrace_session *s)
{
    perfleet_packet_begin(s->writer);
    perfleet_uint(s->writer, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(s->writer, PACKET_STATS);
    perfleet_uint(s->writer, PFL_FTRACE_STATS_PHASE, PFL_FTRACE_PHASE_START);
    perfleet_uint(s->writer, STATS_PRESERVED, 1);
    perfleet_end(s->writer);
    perfleet_packet_end(s->writer);
}

/* A CPU's buffers are told as one. */
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
    pfl_probe_message_uint(message, PFL_FTRACE_STATS_PHASE, phase);
    add_cpu_stats(s, message);
    pfl_probe_message_uint(message, STATS_BUFFER_PAGES,
                           (uint64_t)s->main.in->buffer_size_kb * 1024 /
                               (uint64_t)sysconf(_SC_PAGESIZE));
    if (s->kprobe_types != NULL)
        add_kprobe_stats(self, message);
    if (s->main.reader.symbols != NULL) {
        pfl_probe_message_uint(message, STATS_SYMBOLS, self->ksyms.count);
        pfl_probe_message_uint(
            message, STATS_SYMBOLS_KB,
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
    perfleet_uint(s->writer, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(s->writer, PACKET_STATS);
    perfleet_raw(s->writer, part.data, part.len);
    if (!is_end && !s->unknown.failed)
        perfleet_raw(s->writer, unknown.data, unknown.len);
    for (uint32_t status = 0; is_end && status < 32; status++) {
        if ((status_seen >> status & 1) != 0)
            perfleet_uint(s->writer, STATS_PARSE_ERRORS, status);
    }
    perfleet_end(s->writer);
    perfleet_packet_end(s->writer);
}
