/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a segment in the index.
 *
 *              reserve          set_live          tombstone           set_gone         forget
 *     nothing ---------> RESERVED -------> LIVE ------------> TOMBSTONE ------> GONE ------->
 * nothing |  drop          ^ v                | reserve of a gap, restore nothing          nothing
 *
 * LIVE to LOST: set_lost. From there set_found makes it LIVE, and reserve RESERVED.
 *
 * A run counts what it has: numbers that are live, that are in gaps, and that were removed. The
 * first statement of each transaction locks the run, so counts and rows always agree. A number in a
 * gap that is stored as well counts as stored.
 *
 * Failures: the database's; a segment that is malformed. Owns nothing. Limits: those of index.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/shares.h"
#include "collector/index/index_impl.h"
#include "collector/index/index_row.h"

#define LONG_NS UINT64_C(900000000000) /* statements.c has the same number */

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

/* -- runs -- */

struct run {
    const Perfleet__Segment *segment;
    uint64_t now_unix_ns;
    uint64_t host_id;
    uint64_t id;
    uint64_t kind;
};

static bool on_id(void *user, const struct pfl_sql_row *row)
{
    *(uint64_t *)user = pfl_sql_row_int(row, 0);
    return true;
}

static int find_host(struct pfl_index *self, const char *name, uint64_t *ret_id)
{
    struct pfl_sql_call add = {PFL_SQL_ADD_HOST, PFL_INDEX_PARAMS(pfl_sql_text(name)), NULL, NULL,
                               0};
    struct pfl_sql_call get = {PFL_SQL_GET_HOST, PFL_INDEX_PARAMS(pfl_sql_text(name)), on_id,
                               ret_id, 0};
    int rc;

    *ret_id = 0;
    rc = pfl_index_run(self, &get);
    if (rc != 0 || *ret_id != 0)
        return rc;
    rc = pfl_index_run(self, &add);
    return rc != 0 ? rc : pfl_index_run(self, &get);
}

struct host_kinds {
    uint64_t all;
    uint64_t of_orderer;
};

static bool on_kinds(void *user, const struct pfl_sql_row *row)
{
    struct host_kinds *kinds = user;

    kinds->all = pfl_sql_row_int(row, 0);
    kinds->of_orderer = pfl_sql_row_int(row, 1);
    return true;
}

/* A host that invents too many kinds shares the first one. So does an orderer with too many orders
 * there: half of what is free is left to others. */
static int add_kind(struct pfl_index *self, const struct run *run,
                    const struct pfl_sql_value *names, uint64_t *ret_kind)
{
    const struct pfl_sql_value params[] = {names[0], names[1], names[2],
                                           pfl_sql_int(PFL_INDEX_KINDS_MAX)};
    struct pfl_sql_call add = {PFL_SQL_ADD_KIND, params, 4, NULL, NULL, 0};
    struct pfl_sql_call get = {PFL_SQL_GET_KIND, names, 3, on_id, ret_kind, 0};
    struct host_kinds kinds = {0};
    struct pfl_sql_call count = {PFL_SQL_COUNT_KINDS,
                                 PFL_INDEX_PARAMS(pfl_sql_int(run->host_id), names[1]), on_kinds,
                                 &kinds, 0};
    int rc = pfl_index_run(self, &count);

    if (rc == 0 && !pfl_shares_allow(PFL_INDEX_OWN_KINDS_MAX, kinds.all, kinds.of_orderer, 1))
        return 0;
    if (rc == 0)
        rc = pfl_index_run(self, &add);
    return rc != 0 ? rc : pfl_index_run(self, &get);
}

static int find_kind(struct pfl_index *self, const struct run *run, uint64_t *ret_kind)
{
    const Perfleet__Segment *s = run->segment;
    const struct pfl_sql_value names[] = {
        pfl_sql_text(s->retention != NULL ? s->retention : "default"),
        pfl_sql_text(text_of(s->orderer)), pfl_sql_text(s->order)};
    struct pfl_sql_call get = {PFL_SQL_GET_KIND, names, 3, on_id, ret_kind, 0};
    int rc;

    *ret_kind = 0;
    rc = pfl_index_run(self, &get);
    if (rc == 0 && *ret_kind == 0)
        rc = add_kind(self, run, names, ret_kind);
    if (*ret_kind == 0)
        *ret_kind = 1;
    return rc;
}

static int add_run(struct pfl_index *self, const struct run *run, const struct pfl_sql_value *names)
{
    uint64_t runs = 0;
    uint64_t kind;
    struct pfl_sql_call count = {PFL_SQL_COUNT_RUNS, names, 1, on_id, &runs, 0};
    struct pfl_sql_value params[5];
    struct pfl_sql_call add = {PFL_SQL_ADD_RUN, params, 5, NULL, NULL, 0};
    int rc = pfl_index_run(self, &count);

    if (rc == 0 && runs >= PFL_INDEX_RUNS_MAX)
        return pfl_index_fail(self, PFL_ELIMIT, "the host has %u runs of orders",
                              PFL_INDEX_RUNS_MAX);
    if (rc == 0)
        rc = find_kind(self, run, &kind);
    if (rc != 0)
        return rc;
    memcpy(params, names, 4 * sizeof(params[0]));
    params[4] = pfl_sql_int(kind);
    return pfl_index_run(self, &add);
}

static bool on_run(void *user, const struct pfl_sql_row *row)
{
    struct run *run = user;

    run->id = pfl_sql_row_int(row, 0);
    run->kind = pfl_sql_row_int(row, 1);
    return true;
}

static int lock_run(struct pfl_index *self, struct run *run)
{
    const struct pfl_sql_value names[] = {
        pfl_sql_int(run->host_id), pfl_sql_text(text_of(run->segment->orderer)),
        pfl_sql_text(run->segment->order), pfl_sql_text(run->segment->incarnation),
        pfl_sql_int(run->now_unix_ns)};
    struct pfl_sql_call lock = {PFL_SQL_LOCK_RUN, names, 5, on_run, run, 0};
    int rc;

    run->id = 0;
    rc = pfl_index_run(self, &lock);
    if (rc != 0 || run->id != 0)
        return rc;
    rc = add_run(self, run, names);
    return rc != 0 ? rc : pfl_index_run(self, &lock);
}

static int find_run(struct pfl_index *self, struct run *run)
{
    int rc = find_host(self, run->segment->host, &run->host_id);

    return rc != 0 ? rc : lock_run(self, run);
}

/* How many numbers of a range something stands for already. */
struct cover {
    uint64_t first;
    uint64_t last;
    uint64_t next; /* the first that is not looked at */
    uint64_t len;
    unsigned rows;
};

static bool on_range(void *user, const struct pfl_sql_row *row)
{
    struct cover *cover = user;
    uint64_t first = pfl_sql_row_int(row, 0);
    uint64_t last = pfl_sql_row_int(row, 1);

    cover->rows++;
    first = first < cover->next ? cover->next : first;
    last = last > cover->last ? cover->last : last;
    if (first <= last) {
        cover->len += last - first + 1;
        cover->next = last + 1;
    }
    return true;
}

static int count_cover(struct pfl_index *self, uint64_t run_id, struct cover *cover)
{
    struct pfl_sql_call call = {PFL_SQL_LIST_RANGE,
                                PFL_INDEX_PARAMS(pfl_sql_int(run_id), pfl_sql_int(cover->first),
                                                 pfl_sql_int(cover->last),
                                                 pfl_sql_int(PFL_INDEX_COVER_MAX)),
                                on_range, cover, 0};
    int rc;

    cover->next = cover->first;
    cover->len = 0;
    cover->rows = 0;
    rc = pfl_index_run(self, &call);
    if (rc == 0 && cover->rows >= PFL_INDEX_COVER_MAX)
        rc = pfl_index_fail(self, PFL_ELIMIT, "it is over %u numbers that are known", cover->rows);
    return rc;
}

/* -- reserve -- */

struct known {
    bool is_there;
    struct pfl_index_place place;
    uint64_t state;
    bool is_gap;
    uint64_t last;
    uint8_t sha256[32];
    size_t sha256_len;
    char collector[PFL_INDEX_NAME_BYTES];
    uint64_t generation;
    uint64_t note_len;
};

struct reserve {
    const Perfleet__Segment *segment;
    uint64_t now_unix_ns;
    struct pfl_index_place *place;
    enum pfl_index_reserve result;
    enum pfl_index_state state; /* of a new row */
    uint64_t stored_unix_ns;
    struct run run;
    struct known known;
};

static bool on_known(void *user, const struct pfl_sql_row *row)
{
    struct known *known = user;
    struct pfl_span sha256 = pfl_sql_row_bytes(row, 5);

    known->is_there = true;
    (void)pfl_index_row_text(row, 0, known->place.id, sizeof(known->place.id));
    (void)pfl_index_row_text(row, 1, known->place.key, sizeof(known->place.key));
    known->state = pfl_sql_row_int(row, 2);
    known->is_gap = pfl_sql_row_int(row, 3) != 0;
    known->last = pfl_sql_row_int(row, 4);
    known->sha256_len = sha256.len <= sizeof(known->sha256) ? sha256.len : 0;
    if (known->sha256_len != 0)
        memcpy(known->sha256, sha256.data, known->sha256_len);
    (void)pfl_index_row_text(row, 6, known->collector, sizeof(known->collector));
    known->generation = pfl_sql_row_int(row, 7);
    known->note_len = pfl_sql_row_int(row, 8);
    known->place.begin_unix_ns = pfl_sql_row_int(row, 9);
    return true;
}

static uint64_t last_of(const Perfleet__Segment *segment)
{
    return segment->gap != NULL && segment->gap->last > segment->number ? segment->gap->last
                                                                        : segment->number;
}

static uint64_t end_of(const Perfleet__Segment *segment)
{
    return segment->end_unix_ns > segment->begin_unix_ns ? segment->end_unix_ns
                                                         : segment->begin_unix_ns;
}

/* As pfl_index_row_count_bytes, before it is a row. */
static int64_t count_bytes_of(const Perfleet__Segment *s)
{
    return (int64_t)(PFL_INDEX_TRACE_BYTES + (s->gap == NULL ? s->bytes : 0) +
                     PFL_INDEX_NOTE_WEIGHT * protobuf_c_message_get_packed_size(&s->base));
}

/* How long it is is the host's word, and each search for a window looks at all long ones: of a host
 * that has many, further ones count as short, and are found where they begin. */
static int judge_length(struct pfl_index *self, const struct reserve *r, bool *ret_is_long)
{
    uint64_t others = 0;
    struct pfl_sql_call count = {
        PFL_SQL_COUNT_LONG,
        PFL_INDEX_PARAMS(pfl_sql_int(r->run.host_id), pfl_sql_int(PFL_INDEX_LONG_MAX)), on_id,
        &others, 0};
    int rc;

    *ret_is_long = end_of(r->segment) - r->segment->begin_unix_ns > LONG_NS;
    if (!*ret_is_long)
        return 0;
    rc = pfl_index_run(self, &count);
    *ret_is_long = others < PFL_INDEX_LONG_MAX;
    return rc;
}

static int add_row(struct pfl_index *self, const struct reserve *r)
{
    const Perfleet__Segment *s = r->segment;
    bool is_gap = s->gap != NULL;
    bool is_long = false;
    struct pfl_span packed;
    int rc = judge_length(self, r, &is_long);
    struct pfl_sql_call call;

    if (rc == 0)
        rc = pfl_index_pack(self, &s->base, PFL_INDEX_SEGMENT_BYTES, &packed);
    if (rc != 0)
        return rc;
    call = (struct pfl_sql_call){
        PFL_SQL_ADD_SEGMENT,
        PFL_INDEX_PARAMS(
            pfl_sql_text(r->place->id), pfl_sql_int(r->run.id), pfl_sql_int(r->run.host_id),
            pfl_sql_int(s->number), pfl_sql_int(last_of(s)), pfl_sql_int(is_gap),
            pfl_sql_int(is_long), pfl_sql_int(r->state), pfl_sql_int(s->begin_unix_ns),
            pfl_sql_int(end_of(s)), pfl_sql_int(is_gap ? 0 : s->bytes),
            is_gap ? pfl_sql_null() : pfl_sql_blob(pfl_span_of(s->sha256.data, s->sha256.len)),
            pfl_sql_text(is_gap ? "" : r->place->key), pfl_sql_blob(packed),
            pfl_sql_text(self->collector), pfl_sql_int(self->generation),
            pfl_sql_int(r->now_unix_ns), pfl_sql_int(r->stored_unix_ns), pfl_sql_int(r->run.kind),
            pfl_sql_text(s->trigger != NULL && text_of(s->trigger->name)[0] != '\0'
                             ? s->trigger->name
                         : s->trigger != NULL ? "?"
                                              : "")),
        NULL, NULL, 0};
    return pfl_index_run(self, &call);
}

static int count_gap(struct pfl_index *self, uint64_t host_id)
{
    uint64_t gaps = 0;
    int rc = pfl_index_count_gaps(self, host_id, 1, &gaps);

    if (rc == 0 && gaps > PFL_INDEX_GAPS_MAX)
        rc = pfl_index_fail(self, PFL_ELIMIT, "the host has %u gaps", PFL_INDEX_GAPS_MAX);
    return rc;
}

static int reserve_new(struct pfl_index *self, struct reserve *r)
{
    struct cover cover = {.first = r->segment->number, .last = last_of(r->segment)};
    struct pfl_index_counts counts = {.last = cover.last};
    int rc = count_cover(self, r->run.id, &cover);

    if (rc == 0 && r->segment->gap != NULL)
        rc = count_gap(self, r->run.host_id);
    if (rc == 0)
        rc = add_row(self, r);
    if (rc != 0)
        return rc;
    r->result = PFL_INDEX_RESERVE_NEW;
    if (r->segment->gap != NULL) {
        counts.in_gaps = (int64_t)(cover.last - cover.first + 1 - cover.len);
    } else if (r->state == PFL_INDEX_LIVE) {
        counts.stored = 1;
        counts.in_gaps = -(int64_t)cover.len;
    }
    if (r->state == PFL_INDEX_LIVE)
        counts.bytes = count_bytes_of(r->segment);
    return pfl_index_count(self, r->run.id, r->run.host_id, &counts);
}

static int extend_gap(struct pfl_index *self, struct reserve *r)
{
    struct cover cover = {.first = r->known.last + 1, .last = last_of(r->segment)};
    struct pfl_index_counts counts = {.last = cover.last};
    struct pfl_span packed;
    struct pfl_sql_call call;
    int rc = count_cover(self, r->run.id, &cover);

    if (rc == 0)
        rc = pfl_index_pack(self, &r->segment->base, PFL_INDEX_SEGMENT_BYTES, &packed);
    if (rc != 0)
        return rc;
    counts.in_gaps = (int64_t)(cover.last - cover.first + 1 - cover.len);
    if (r->known.state == PFL_INDEX_LIVE)
        counts.bytes = count_bytes_of(r->segment) -
                       (int64_t)(PFL_INDEX_TRACE_BYTES + PFL_INDEX_NOTE_WEIGHT * r->known.note_len);
    call = (struct pfl_sql_call){PFL_SQL_EXTEND_GAP,
                                 PFL_INDEX_PARAMS(pfl_sql_text(r->known.place.id),
                                                  pfl_sql_int(cover.last), pfl_sql_blob(packed),
                                                  pfl_sql_int(end_of(r->segment))),
                                 NULL, NULL, 0};
    rc = pfl_index_run(self, &call);
    return rc != 0 ? rc : pfl_index_count(self, r->run.id, r->run.host_id, &counts);
}

static bool on_any(void *user, const struct pfl_sql_row *row)
{
    (void)row;
    *(bool *)user = true;
    return true;
}

/* Whether the collector that reserved it is another one, and alive. */
static int is_busy(struct pfl_index *self, const struct known *known, bool *ret_is_busy)
{
    struct pfl_sql_call call = {PFL_SQL_IS_ALIVE,
                                PFL_INDEX_PARAMS(pfl_sql_text(known->collector),
                                                 pfl_sql_int(known->generation),
                                                 pfl_sql_int(self->void_ms)),
                                on_any, ret_is_busy, 0};

    *ret_is_busy = false;
    return strcmp(known->collector, self->collector) == 0 ? 0 : pfl_index_run(self, &call);
}

static int reserve_again(struct pfl_index *self, struct reserve *r)
{
    struct pfl_sql_call call = {
        PFL_SQL_TAKE_OVER,
        PFL_INDEX_PARAMS(pfl_sql_text(r->known.place.id), pfl_sql_text(self->collector),
                         pfl_sql_int(self->generation), pfl_sql_int(r->now_unix_ns)),
        NULL, NULL, 0};
    bool is_others = false;
    int rc = r->known.state == PFL_INDEX_LOST ? 0 : is_busy(self, &r->known, &is_others);

    if (rc != 0)
        return rc;
    r->result = is_others ? PFL_INDEX_RESERVE_BUSY : PFL_INDEX_RESERVE_AGAIN;
    if (is_others)
        return 0;
    *r->place = r->known.place;
    return pfl_index_run(self, &call);
}

/* The gap is known. Its description is written again, as a death may have come before it; but not a
 * longer one than is counted. Its begin is in the key of that, and stays. */
static int note_again(struct pfl_index *self, struct reserve *r)
{
    int64_t counted = (int64_t)(PFL_INDEX_TRACE_BYTES + PFL_INDEX_NOTE_WEIGHT * r->known.note_len);
    const Perfleet__Segment *said = r->segment;
    Perfleet__Segment segment = *said;
    int rc = 0;

    segment.has_begin_unix_ns = true;
    segment.begin_unix_ns = r->known.place.begin_unix_ns;
    r->segment = &segment;
    if (r->known.state != PFL_INDEX_LIVE)
        r->result = PFL_INDEX_RESERVE_STORED;
    else if (last_of(&segment) > r->known.last || count_bytes_of(&segment) <= counted)
        r->result = PFL_INDEX_RESERVE_NOTED;
    if (last_of(&segment) > r->known.last)
        rc = extend_gap(self, r);
    r->segment = said;
    return rc;
}

static int reserve_known(struct pfl_index *self, struct reserve *r)
{
    const Perfleet__Segment *s = r->segment;
    bool is_same =
        r->known.is_gap == (s->gap != NULL) &&
        (s->gap != NULL || (s->sha256.len == r->known.sha256_len &&
                            memcmp(s->sha256.data, r->known.sha256, s->sha256.len) == 0));

    /* It was stored, and the host lost it before it could release it: what is stored holds. */
    if (s->gap != NULL && !r->known.is_gap && r->known.state != PFL_INDEX_RESERVED &&
        last_of(s) == s->number)
        is_same = true;
    if (!is_same) {
        r->result = PFL_INDEX_RESERVE_CONFLICT;
        return 0;
    }
    if (r->known.state == PFL_INDEX_RESERVED ||
        (r->known.state == PFL_INDEX_LOST && s->gap == NULL))
        return reserve_again(self, r);
    r->result = PFL_INDEX_RESERVE_STORED;
    *r->place = r->known.place;
    return r->known.is_gap ? note_again(self, r) : 0;
}

/* The host removed unread what was reserved and not live: the gap takes its place. What the store
 * may have of it is an orphan. */
static int replace_by_gap(struct pfl_index *self, struct reserve *r)
{
    struct pfl_sql_call drop = {PFL_SQL_DROP, PFL_INDEX_PARAMS(pfl_sql_text(r->known.place.id)),
                                NULL, NULL, 0};
    bool is_others = false;
    int rc = is_busy(self, &r->known, &is_others);

    if (rc == 0 && is_others)
        r->result = PFL_INDEX_RESERVE_BUSY;
    if (rc != 0 || is_others)
        return rc;
    rc = pfl_index_run(self, &drop);
    return rc != 0 ? rc : reserve_new(self, r);
}

static int reserve_steps(struct pfl_index *self, void *arg)
{
    struct reserve *r = arg;
    struct pfl_sql_call get = {PFL_SQL_GET_NUMBER, NULL, 2, on_known, &r->known, 0};
    struct pfl_sql_value number[2];
    int rc;

    r->run = (struct run){.segment = r->segment, .now_unix_ns = r->now_unix_ns};
    r->known = (struct known){.is_there = false};
    rc = find_run(self, &r->run);
    if (rc != 0)
        return rc;
    number[0] = pfl_sql_int(r->run.id);
    number[1] = pfl_sql_int(r->segment->number);
    get.params = number;
    rc = pfl_index_run(self, &get);
    if (rc != 0)
        return rc;
    r->place->begin_unix_ns = r->segment->begin_unix_ns;
    if (!r->known.is_there)
        return reserve_new(self, r);
    if (r->segment->gap != NULL && !r->known.is_gap && r->known.state == PFL_INDEX_RESERVED)
        return replace_by_gap(self, r);
    return reserve_known(self, r);
}

static int check_segment(struct pfl_index *self, const Perfleet__Segment *segment)
{
    const char *const names[] = {segment->host, segment->orderer, segment->order,
                                 segment->incarnation, segment->retention};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int rc = pfl_index_check_name(self, "a name of a segment", names[i]);

        if (rc != 0)
            return rc;
    }
    if (segment->host == NULL || segment->order == NULL || segment->incarnation == NULL ||
        segment->number == 0)
        return pfl_index_fail(self, PFL_EINVAL,
                              "a segment needs host, order, incarnation and number");
    if (segment->trigger != NULL) {
        int rc = pfl_index_check_name(self, "a trigger", segment->trigger->name);

        if (rc != 0)
            return rc;
    }
    if (segment->gap == NULL && segment->sha256.len != 32)
        return pfl_index_fail(self, PFL_EINVAL, "a segment needs a SHA-256");
    return 0;
}

int pfl_index_reserve(struct pfl_index *self, const Perfleet__Segment *segment,
                      uint64_t now_unix_ns, struct pfl_index_place *place,
                      enum pfl_index_reserve *ret_result)
{
    struct reserve r = {.segment = segment, .now_unix_ns = now_unix_ns, .place = place};
    int rc = check_segment(self, segment);

    r.state = segment->gap != NULL ? PFL_INDEX_LIVE : PFL_INDEX_RESERVED;
    r.stored_unix_ns = segment->gap != NULL ? now_unix_ns : 0;
    if (rc == 0)
        rc = pfl_index_transact(self, reserve_steps, &r);
    if (rc == 0)
        *ret_result = r.result;
    return rc;
}

static bool on_stored(void *user, const struct pfl_sql_row *row)
{
    uint64_t *next = user;

    if (pfl_sql_row_int(row, 0) != *next)
        return false;
    ++*next;
    return true;
}

int pfl_index_find_hole(struct pfl_index *self, const Perfleet__Segment *segment,
                        uint64_t *ret_number)
{
    uint64_t next = segment->number;
    struct pfl_sql_call call = {
        PFL_SQL_LIST_STORED,
        PFL_INDEX_PARAMS(pfl_sql_text(segment->host), pfl_sql_text(text_of(segment->orderer)),
                         pfl_sql_text(segment->order), pfl_sql_text(segment->incarnation),
                         pfl_sql_int(next), pfl_sql_int(last_of(segment)),
                         pfl_sql_int(PFL_INDEX_COVER_MAX)),
        on_stored, &next, 0};
    int rc = check_segment(self, segment);

    if (rc == 0)
        rc = pfl_index_run(self, &call);
    if (rc == 0)
        *ret_number = next;
    return rc;
}

static int restore_steps(struct pfl_index *self, void *arg)
{
    struct reserve *r = arg;
    int rc = reserve_steps(self, arg);

    return rc == 0 && r->result != PFL_INDEX_RESERVE_NEW ? PFL_EEXIST : rc;
}

int pfl_index_restore(struct pfl_index *self, const Perfleet__StoredTrace *trace, const char *key)
{
    struct pfl_index_place place;
    struct reserve r = {.segment = trace->segment, .place = &place, .state = PFL_INDEX_LIVE};
    int rc;

    if (trace->segment == NULL || trace->id == NULL || strlen(trace->id) >= sizeof(place.id) ||
        strlen(key) >= sizeof(place.key))
        return pfl_index_fail(self, PFL_EINVAL, "a description needs a segment and an id");
    (void)snprintf(place.id, sizeof(place.id), "%s", trace->id);
    (void)snprintf(place.key, sizeof(place.key), "%s", key);
    r.now_unix_ns = trace->stored_unix_ns;
    r.stored_unix_ns = trace->stored_unix_ns;
    rc = check_segment(self, trace->segment);
    if (rc == 0)
        rc = pfl_index_transact(self, restore_steps, &r);
    return rc == 0 && trace->pin != NULL ? pfl_index_pin(self, place.id, trace->pin) : rc;
}
