/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets as lines (see outcome.h).
 *
 * A packet is the service's when its sequence id is 1 or missing. A producer's packet ends in the
 * fields that the service appended, the first of which is trusted_uid: producers may not write
 * that one, so what precedes it is the producer's, byte for byte, and goes into the hash.
 * Of a session's clock snapshots the first is listed.
 * A packet whose sequence cannot be found, because it cannot be parsed so far, is "unreadable".
 */
#include "tests/differential/outcome.h"

#include <unistd.h>

#include "perfetto/trace_packet.fields.h"
#include "tests/differential/connection.h"
#include "tests/differential/payload.h"

enum {
    SEQUENCE_SERVICE = 1,
    IDS_SHOWN = 24,
};

struct packet {
    struct pfl_span bytes;
    size_t own_bytes; /* before trusted_uid */
    uint64_t sequence;
    uint64_t loss;     /* behind trusted_uid */
    uint64_t own_loss; /* before it */
    uint64_t uid, pid;
    bool has_own_loss, has_first, is_trusted, is_odd, is_cut;
};

static void note_trusted(struct packet *p, const struct pfl_field *field)
{
    switch (field->id) {
    case TRACE_PACKET__TRUSTED_UID:
        p->uid = field->value;
        break;
    case TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID:
        p->sequence = field->value;
        break;
    case TRACE_PACKET__TRUSTED_PID:
        p->pid = field->value;
        break;
    case TRACE_PACKET__PREVIOUS_PACKET_DROPPED:
        p->loss = field->value;
        break;
    default:
        p->is_odd = true;
    }
}

static void note_own(struct packet *p, const struct pfl_field *field)
{
    if (field->id == TRACE_PACKET__PREVIOUS_PACKET_DROPPED) {
        p->own_loss = field->value;
        p->has_own_loss = true;
    }
    p->has_first |= field->id == TRACE_PACKET__FIRST_PACKET_ON_SEQUENCE;
    if (field->id == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID)
        p->sequence = field->value;
}

static void look_at(struct packet *p, struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field field;

    *p = (struct packet){.bytes = bytes, .own_bytes = bytes.len};
    while (pfl_reader_field(&r, &field)) {
        if (field.id == TRACE_PACKET__TRUSTED_UID && !p->is_trusted) {
            p->is_trusted = true;
            p->own_bytes = (size_t)(field.raw.data - bytes.data);
        }
        if (p->is_trusted)
            note_trusted(p, &field);
        else
            note_own(p, &field);
    }
    p->is_cut = r.failed;
}

static void print_ids(struct diff_text *out, const struct packet *p)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(p->bytes.data, p->own_bytes));
    struct pfl_field field;
    unsigned shown = 0;

    while (pfl_reader_field(&r, &field)) {
        if (field.id == TRACE_PACKET__TIMESTAMP && shown++ < IDS_SHOWN)
            diff_text_add(out, "%c%llu", shown == 1 ? ' ' : '+', (unsigned long long)field.value);
    }
}

unsigned diff_outcome_find_name(const struct diff_baseline *baseline, uint64_t sequence)
{
    for (unsigned i = 0; i < baseline->names_len; i++) {
        if (baseline->names[i] == sequence)
            return i + 1;
    }
    return 0;
}

static void print_producers(struct diff_text *out, const struct packet *p,
                            struct diff_baseline *baseline)
{
    if (diff_outcome_find_name(baseline, p->sequence) == 0 && baseline->names_len < DIFF_NAMES)
        baseline->names[baseline->names_len++] = p->sequence;
    diff_text_add(out, " %u %zu", diff_outcome_find_name(baseline, p->sequence), p->own_bytes);
    print_ids(out, p);
    diff_text_add(out, " %08x",
                  diff_hash(DIFF_HASH_BEGIN, pfl_span_of(p->bytes.data, p->own_bytes)));
    if (p->has_own_loss)
        diff_text_add(out, " own=%llu", (unsigned long long)p->own_loss);
    if (p->has_first)
        diff_text_add(out, " first");
    if (p->is_odd || p->is_cut || p->uid != getuid() || p->pid != (uint64_t)getpid())
        diff_text_add(out, " trusted=odd");
    if (p->loss != 0)
        diff_text_add(out, " loss=%llu", (unsigned long long)p->loss);
    diff_text_add(out, "\n");
}

/* TracingServiceEvent: the kinds in order, with what tells them apart. */
static void print_event(struct diff_text *out, struct pfl_span event)
{
    struct pfl_reader r = pfl_reader_of(event);
    struct pfl_field field;

    while (pfl_reader_field(&r, &field))
        diff_text_add(out, " event %u", field.id);
}

/* TraceProvenance: for each buffer how many sequences. */
static void print_provenance(struct diff_text *out, struct pfl_span provenance)
{
    struct pfl_reader r = pfl_reader_of(provenance);
    struct pfl_field buffer, sequence;

    while (pfl_reader_field(&r, &buffer)) {
        struct pfl_reader s = pfl_reader_of(buffer.bytes);
        unsigned count = 0;

        while (pfl_reader_field(&s, &sequence))
            count++;
        diff_text_add(out, " %u", count);
    }
}

static void print_service_field(struct diff_text *out, const struct pfl_field *field, bool is_clone)
{
    switch (field->id) {
    case TRACE_PACKET__TRUSTED_UID:
    case TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID:
    case TRACE_PACKET__TIMESTAMP:
        break;
    case TRACE_PACKET__TRACE_CONFIG:
        diff_text_add(out, " config %08x", diff_hash(DIFF_HASH_BEGIN, field->bytes));
        break;
    case TRACE_PACKET__SERVICE_EVENT:
        print_event(out, field->bytes);
        break;
    case TRACE_PACKET__TRACE_PROVENANCE:
        diff_text_add(out, " provenance");
        if (!is_clone)
            print_provenance(out, field->bytes);
        break;
    default:
        diff_text_add(out, " %u", field->id);
    }
}

void diff_outcome_packet(struct diff_text *out, struct pfl_span packet,
                         struct diff_baseline *baseline)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field field;
    struct packet p;

    look_at(&p, packet);
    if (p.sequence != SEQUENCE_SERVICE && p.sequence != 0) {
        print_producers(out, &p, baseline);
        return;
    }
    if (p.is_cut) {
        diff_text_add(out, " unreadable\n");
        return;
    }
    if (diff_find_field(packet, TRACE_PACKET__CLOCK_SNAPSHOT, &field)) {
        if (!baseline->has_clocks)
            diff_text_add(out, " svc clocks\n");
        baseline->has_clocks = true;
        return;
    }
    diff_text_add(out, " svc");
    while (pfl_reader_field(&r, &field)) {
        if (field.id == TRACE_PACKET__TRACE_STATS) {
            diff_text_add(out, " stats\n");
            diff_outcome_stats(out, field.bytes, baseline);
            return;
        }
        print_service_field(out, &field, baseline->is_clone);
    }
    diff_text_add(out, "\n");
}
