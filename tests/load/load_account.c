/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Account of a trace, writer by writer.
 *
 * Happy path: each packet's text is found, checked against its checksum, and its number compared
 * with the last one of its writer. Missing numbers are split by what the packets carry: `dropped`
 * tells how many of them the writer's own library dropped, the rest the service lost; the packet
 * after them must say that something was lost.
 *
 * Failures: a fault is counted, its first ones printed; the program continues. No memory: exit.
 * Ownership: the account owns its table of writers. Limits: 2^20 writers, one level of compression,
 * 64 MiB for an unpacked batch.
 */
#include "tests/load/load_account.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "tests/load/load_packet.h"

#define WRITERS_MAX  (1u << 20)
#define UNPACKED_MAX (64u << 20)
#define FAULTS_SHOWN 20u

enum {
    PACKET_TIME = 8,
    PACKET_SEQUENCE = 10,
    PACKET_STATS = 35,
    PACKET_PREVIOUS_DROPPED = 42,
    PACKET_DEFLATE = 50,
    PACKET_ZSTD = 133,
    PACKET_TEST = 900,
    TRACE_PACKET = 1,
    STATS_FINAL_FLUSH = 15,
};

struct writer {
    uint32_t producer, life, slot, sequence;
    uint64_t delivered; /* 0: the place is free */
    uint64_t first, last;
    uint64_t dropped_at_first, dropped_at_last;
    uint32_t chunk_of_first, chunk_of_last;
    uint64_t lost_inside, dropped_inside;
    uint64_t false_alarms;
    uint64_t *before_mark; /* owned; packets before each mark */
};

struct pfl_load_account {
    uint32_t session;
    uint64_t packets;
    uint32_t final_flush; /* TraceStats.FinalFlushOutcome, the last one */
    uint64_t faults[PFL_LOAD_FAULTS];
    struct writer *table; /* owned; open addressing */
    size_t table_size;
    size_t writers;
    uint64_t marks[PFL_LOAD_MARKS_MAX];
    size_t marks_len;
    uint8_t *unpacked; /* owned; UNPACKED_MAX, or NULL */
};

/* The fields of a packet that count here. */
struct seen {
    uint64_t time_ns;
    uint32_t sequence;
    uint32_t previous_dropped;
    struct pfl_span test;
    struct pfl_span stats;
    struct pfl_span packed;
    bool is_zstd;
};

static void die(const char *what)
{
    fprintf(stderr, "load_account: %s\n", what);
    exit(1);
}

static void fault(struct pfl_load_account *self, enum pfl_load_fault kind,
                  const struct pfl_load_text *text)
{
    static const char *const names[] = {"parse",  "checksum", "session", "order",
                                        "untold", "dropped",  "sequence"};

    if (self->faults[kind]++ < FAULTS_SHOWN)
        fprintf(stderr,
                "fault %s: session=%u in_trace_of=%u producer=%u life=%u slot=%u number=%llu\n",
                names[kind], text->session, self->session, text->producer, text->life, text->slot,
                (unsigned long long)text->number);
}

struct pfl_load_account *pfl_load_account_new(uint32_t session)
{
    struct pfl_load_account *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        die("no memory");
    self->session = session;
    self->table_size = 256;
    self->table = pfl_mem_calloc(self->table_size, sizeof(*self->table));
    if (self->table == NULL)
        die("no memory");
    return self;
}

void pfl_load_account_free(struct pfl_load_account *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->table_size; i++)
        pfl_mem_free(self->table[i].before_mark);
    pfl_mem_free(self->table);
    pfl_mem_free(self->unpacked);
    pfl_mem_free(self);
}

/* --- writers ----------------------------------------------------------------------------- */

static struct writer *place_of(struct writer *table, size_t size, const struct writer *key)
{
    uint64_t hash = ((uint64_t)key->producer << 40) ^ ((uint64_t)key->life << 20) ^ key->slot;
    size_t i;

    hash *= 0x9e3779b97f4a7c15ull;
    for (i = (size_t)(hash >> 32) & (size - 1); table[i].delivered != 0; i = (i + 1) & (size - 1)) {
        if (table[i].producer == key->producer && table[i].life == key->life &&
            table[i].slot == key->slot)
            break;
    }
    return &table[i];
}

static void grow_table(struct pfl_load_account *self)
{
    size_t size = self->table_size * 2;
    struct writer *table = pfl_mem_calloc(size, sizeof(*table));

    if (table == NULL || self->writers >= WRITERS_MAX)
        die("too many writers");
    for (size_t i = 0; i < self->table_size; i++) {
        if (self->table[i].delivered != 0)
            *place_of(table, size, &self->table[i]) = self->table[i];
    }
    pfl_mem_free(self->table);
    self->table = table;
    self->table_size = size;
}

static void begin_writer(struct pfl_load_account *self, struct writer *w,
                         const struct pfl_load_text *text)
{
    w->producer = text->producer;
    w->life = text->life;
    w->slot = text->slot;
    w->first = text->number;
    w->dropped_at_first = text->dropped;
    w->chunk_of_first = text->chunk;
    self->writers++;
    if (self->marks_len != 0)
        w->before_mark = pfl_mem_calloc(PFL_LOAD_MARKS_MAX, sizeof(*w->before_mark));
}

/* Numbers between the last packet and this one. */
static void count_gap(struct pfl_load_account *self, struct writer *w,
                      const struct pfl_load_text *text, const struct seen *seen)
{
    uint64_t missing = text->number - w->last - 1;
    uint64_t dropped = text->dropped - w->dropped_at_last;

    if (dropped > missing) {
        fault(self, PFL_LOAD_FAULT_DROPPED, text);
        return;
    }
    w->dropped_inside += dropped;
    w->lost_inside += missing - dropped;
    if (missing != 0 && seen->previous_dropped == 0)
        fault(self, PFL_LOAD_FAULT_UNTOLD, text);
    w->false_alarms += missing == 0 && seen->previous_dropped != 0;
}

static void count_packet(struct pfl_load_account *self, const struct pfl_load_text *text,
                         const struct seen *seen)
{
    struct writer key = {.producer = text->producer, .life = text->life, .slot = text->slot};
    struct writer *w;

    if (self->writers * 2 >= self->table_size)
        grow_table(self);
    w = place_of(self->table, self->table_size, &key);
    if (w->delivered == 0) {
        begin_writer(self, w, text);
        w->sequence = seen->sequence;
        if (text->number != 0 && seen->previous_dropped == 0)
            fault(self, PFL_LOAD_FAULT_UNTOLD, text);
    } else if (text->number <= w->last) {
        fault(self, PFL_LOAD_FAULT_ORDER, text);
        return;
    } else {
        count_gap(self, w, text, seen);
    }
    if (w->sequence != seen->sequence)
        fault(self, PFL_LOAD_FAULT_SEQUENCE, text);
    w->delivered++;
    w->last = text->number;
    w->dropped_at_last = text->dropped;
    w->chunk_of_last = text->chunk;
    for (size_t i = 0; i < self->marks_len && w->before_mark != NULL; i++)
        w->before_mark[i] += seen->time_ns < self->marks[i];
}

/* --- packets ----------------------------------------------------------------------------- */

/* for_testing {str {text, filler}} */
static void check_test(struct pfl_load_account *self, const struct seen *seen)
{
    struct pfl_load_text text = {0};
    struct pfl_reader r = pfl_reader_of(seen->test);
    struct pfl_field field = {.id = 0};

    if (!pfl_reader_field(&r, &field) || field.id != PFL_LOAD_FIELD_STR ||
        field.bytes.len < sizeof(text)) {
        fault(self, PFL_LOAD_FAULT_PARSE, &text);
        return;
    }
    memcpy(&text, field.bytes.data, sizeof(text));
    if (text.magic != PFL_LOAD_MAGIC || text.filler_bytes != field.bytes.len - sizeof(text) ||
        text.checksum != pfl_load_checksum(&text, field.bytes.data + sizeof(text)))
        fault(self, PFL_LOAD_FAULT_CHECKSUM, &text);
    else if (text.session != self->session)
        fault(self, PFL_LOAD_FAULT_SESSION, &text);
    else
        count_packet(self, &text, seen);
}

static bool read_packet(struct pfl_span packet, struct seen *ret_seen)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == PACKET_TIME)
            ret_seen->time_ns = f.value;
        else if (f.id == PACKET_SEQUENCE)
            ret_seen->sequence = (uint32_t)f.value;
        else if (f.id == PACKET_PREVIOUS_DROPPED) /* the last one counts */
            ret_seen->previous_dropped = (uint32_t)f.value;
        else if (f.id == PACKET_TEST)
            ret_seen->test = f.bytes;
        else if (f.id == PACKET_STATS)
            ret_seen->stats = f.bytes;
        else if (f.id == PACKET_DEFLATE || f.id == PACKET_ZSTD)
            ret_seen->packed = f.bytes;
        ret_seen->is_zstd |= f.id == PACKET_ZSTD;
    }
    return !r.failed;
}

static void read_stats(struct pfl_load_account *self, struct pfl_span stats)
{
    struct pfl_reader r = pfl_reader_of(stats);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == STATS_FINAL_FLUSH)
            self->final_flush = (uint32_t)f.value;
    }
}

static void unpack(struct pfl_load_account *self, const struct seen *seen)
{
    struct pfl_load_text nobody = {0};
    uLongf inflated = UNPACKED_MAX;
    size_t len;

    if (self->unpacked == NULL)
        self->unpacked = pfl_mem_alloc(UNPACKED_MAX);
    if (self->unpacked == NULL)
        die("no memory");
    if (seen->is_zstd) {
        len = ZSTD_decompress(self->unpacked, UNPACKED_MAX, seen->packed.data, seen->packed.len);
        if (ZSTD_isError(len)) {
            fault(self, PFL_LOAD_FAULT_PARSE, &nobody);
            return;
        }
    } else {
        if (uncompress(self->unpacked, &inflated, seen->packed.data, seen->packed.len) != Z_OK) {
            fault(self, PFL_LOAD_FAULT_PARSE, &nobody);
            return;
        }
        len = inflated;
    }
    pfl_load_account_trace(self, pfl_span_of(self->unpacked, len));
}

void pfl_load_account_packet(struct pfl_load_account *self, struct pfl_span packet)
{
    struct pfl_load_text nobody = {0};
    struct seen seen = {0};

    self->packets++;
    if (!read_packet(packet, &seen))
        fault(self, PFL_LOAD_FAULT_PARSE, &nobody);
    else if (seen.packed.len != 0)
        unpack(self, &seen);
    else if (seen.test.len != 0)
        check_test(self, &seen);
    else if (seen.stats.len != 0)
        read_stats(self, seen.stats);
}

void pfl_load_account_trace(struct pfl_load_account *self, struct pfl_span trace)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_load_text nobody = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_PACKET)
            pfl_load_account_packet(self, f.bytes);
    }
    if (r.failed)
        fault(self, PFL_LOAD_FAULT_PARSE, &nobody);
}

/* --- results ----------------------------------------------------------------------------- */

void pfl_load_account_add_mark(struct pfl_load_account *self, uint64_t boottime_ns)
{
    if (self->marks_len == PFL_LOAD_MARKS_MAX || self->writers != 0)
        die("a mark too many, or too late");
    self->marks[self->marks_len++] = boottime_ns;
}

uint64_t pfl_load_account_packets(const struct pfl_load_account *self)
{
    return self->packets;
}

uint32_t pfl_load_account_final_flush(const struct pfl_load_account *self)
{
    return self->final_flush;
}

uint64_t pfl_load_account_fault(const struct pfl_load_account *self, enum pfl_load_fault kind)
{
    return self->faults[kind];
}

void pfl_load_account_report(const struct pfl_load_account *self, FILE *to)
{
    for (size_t i = 0; i < self->table_size; i++) {
        const struct writer *w = &self->table[i];

        if (w->delivered == 0)
            continue;
        fprintf(to, "%u %u %u %llu %llu %llu %llu %llu %u %u %llu %llu %llu", w->producer, w->life,
                w->slot, (unsigned long long)w->delivered, (unsigned long long)w->first,
                (unsigned long long)w->last, (unsigned long long)w->dropped_at_first,
                (unsigned long long)w->dropped_at_last, w->chunk_of_first, w->chunk_of_last,
                (unsigned long long)w->lost_inside, (unsigned long long)w->dropped_inside,
                (unsigned long long)w->false_alarms);
        for (size_t k = 0; k < self->marks_len && w->before_mark != NULL; k++)
            fprintf(to, " %llu", (unsigned long long)w->before_mark[k]);
        fprintf(to, "\n");
    }
}
