/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TraceStats as lines: numbers by their field's number, zeros left out, because one service writes
 * them and another does not.
 *
 * Left out, because they count over the life of a service: producers_seen, data_sources_seen.
 * chunks_discarded and patches_discarded do too and are listed relative to the baseline.
 * readaheads_failed counts once a pass, and the stock service makes several passes of a long read:
 * left out then. writer_stats come in no order: they are sorted by buffer, sequence (0: it had no
 * packets yet) and numbers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/differential/outcome.h"

enum {
    BUFFER_READAHEADS_FAILED = 8,
    STATS_BUFFER = 1,
    STATS_PRODUCERS_SEEN = 3,
    STATS_SOURCES_SEEN = 5,
    STATS_CHUNKS_DISCARDED = 8,
    STATS_PATCHES_DISCARDED = 9,
    STATS_WRITER = 18,
    WRITER_SEQUENCE = 1,
    WRITER_COUNTS = 2,
    WRITER_SUMS = 3,
    WRITER_BUFFER = 4,
    WRITERS_MAX = 256,
    USAGE_MAX = 16,
};

struct writer_stats {
    uint64_t buffer;
    uint64_t counts[USAGE_MAX], sums[USAGE_MAX];
    uint64_t sequence; /* the last in order: its name may be the peer's fault (compare.h) */
};

void diff_outcome_take_baseline(struct pfl_span stats, struct diff_baseline *ret_baseline)
{
    struct pfl_reader r = pfl_reader_of(stats);
    struct pfl_field field;

    memset(ret_baseline, 0, sizeof(*ret_baseline));
    while (pfl_reader_field(&r, &field)) {
        if (field.id == STATS_CHUNKS_DISCARDED)
            ret_baseline->chunks_discarded = field.value;
        if (field.id == STATS_PATCHES_DISCARDED)
            ret_baseline->patches_discarded = field.value;
    }
}

static void read_packed(struct pfl_span packed, uint64_t ret_values[USAGE_MAX])
{
    struct pfl_reader r = pfl_reader_of(packed);

    for (size_t i = 0; i < USAGE_MAX && r.left > 0; i++)
        ret_values[i] = pfl_reader_varint(&r);
}

static struct writer_stats read_writer(struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct writer_stats writer = {0};
    struct pfl_field field;

    while (pfl_reader_field(&r, &field)) {
        if (field.id == WRITER_SEQUENCE)
            writer.sequence = field.value;
        else if (field.id == WRITER_BUFFER)
            writer.buffer = field.value;
        else if (field.id == WRITER_COUNTS)
            read_packed(field.bytes, writer.counts);
        else if (field.id == WRITER_SUMS)
            read_packed(field.bytes, writer.sums);
    }
    return writer;
}

static int compare_writers(const void *a, const void *b)
{
    const struct writer_stats *x = a, *y = b;

    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    return memcmp(x, y, sizeof(*x));
}

static void print_writers(struct diff_text *out, struct pfl_span stats,
                          const struct diff_baseline *baseline)
{
    static struct writer_stats writers[WRITERS_MAX];
    struct pfl_reader r = pfl_reader_of(stats);
    struct pfl_field field;
    size_t len = 0;

    while (pfl_reader_field(&r, &field)) {
        if (field.id != STATS_WRITER || len == WRITERS_MAX)
            continue;
        writers[len] = read_writer(field.bytes);
        writers[len].sequence = diff_outcome_find_name(baseline, writers[len].sequence);
        len++;
    }
    qsort(writers, len, sizeof(*writers), compare_writers);
    for (size_t i = 0; i < len; i++) {
        diff_text_add(out, "  writer %llu %llu:", (unsigned long long)writers[i].buffer,
                      (unsigned long long)writers[i].sequence);
        for (size_t u = 0; u < USAGE_MAX; u++) {
            if (writers[i].counts[u] != 0)
                diff_text_add(out, " %zu=%llu/%llu", u, (unsigned long long)writers[i].counts[u],
                              (unsigned long long)writers[i].sums[u]);
        }
        diff_text_add(out, "\n");
    }
}

static void print_buffer(struct diff_text *out, struct pfl_span message, bool has_batches)
{
    uint64_t values[32] = {0};
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field field;

    while (pfl_reader_field(&r, &field)) {
        if (field.type == PFL_WIRE_VARINT && field.id < 32)
            values[field.id] = field.value;
    }
    if (has_batches)
        values[BUFFER_READAHEADS_FAILED] = 0;
    for (unsigned i = 0; i < 32; i++) {
        if (values[i] != 0)
            diff_text_add(out, " %u=%llu", i, (unsigned long long)values[i]);
    }
    diff_text_add(out, "\n");
}

static uint64_t session_value(const struct pfl_field *field, const struct diff_baseline *baseline)
{
    if (field->id == STATS_CHUNKS_DISCARDED)
        return field->value - baseline->chunks_discarded;
    if (field->id == STATS_PATCHES_DISCARDED)
        return field->value - baseline->patches_discarded;
    if (field->id == STATS_PRODUCERS_SEEN || field->id == STATS_SOURCES_SEEN)
        return 0;
    return field->value;
}

void diff_outcome_stats(struct diff_text *out, struct pfl_span stats,
                        const struct diff_baseline *baseline)
{
    struct pfl_reader r = pfl_reader_of(stats);
    uint64_t values[17] = {0};
    struct pfl_field field;
    unsigned buffer = 0;

    while (pfl_reader_field(&r, &field)) {
        if (field.id == STATS_BUFFER) {
            diff_text_add(out, "  buffer %u:", buffer++);
            print_buffer(out, field.bytes, baseline->has_batches);
        } else if (field.type == PFL_WIRE_VARINT && field.id < 17) {
            values[field.id] = session_value(&field, baseline);
        }
    }
    diff_text_add(out, "  session:");
    for (unsigned i = 0; i < 17; i++) {
        if (values[i] != 0)
            diff_text_add(out, " %u=%llu", i, (unsigned long long)values[i]);
    }
    diff_text_add(out, "\n");
    if (!baseline->is_clone)
        print_writers(out, stats, baseline);
}
