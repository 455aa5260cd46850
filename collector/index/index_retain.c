/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What retention asks of the index: the time that it went by last; sums by kind, host and trigger;
 * the oldest trace that may go; live traces one after the other; what nothing refers to any more.
 * Each list is a page with a limit. Fails as the database does. Owns nothing.
 */
#include <stdio.h>
#include <string.h>

#include "collector/index/index_impl.h"
#include "collector/index/index_row.h"

struct asked {
    pfl_index_on_kind on_kind;
    pfl_index_on_use on_use;
    void *user;
};

static bool on_number(void *user, const struct pfl_sql_row *row)
{
    *(uint64_t *)user = pfl_sql_row_int(row, 0);
    return true;
}

int pfl_index_get_clock(struct pfl_index *self, uint64_t *ret_unix_ns)
{
    struct pfl_sql_call call = {
        .statement = PFL_SQL_GET_CLOCK, .on_row = on_number, .user = ret_unix_ns};

    return pfl_index_run(self, &call);
}

int pfl_index_note_clock(struct pfl_index *self, uint64_t unix_ns)
{
    struct pfl_sql_call call = {PFL_SQL_NOTE_CLOCK, PFL_INDEX_PARAMS(pfl_sql_int(unix_ns)), NULL,
                                NULL, 0};

    return pfl_index_run(self, &call);
}

static bool on_kind_row(void *user, const struct pfl_sql_row *row)
{
    const struct asked *asked = user;
    struct pfl_index_row_texts texts;
    const struct pfl_index_kind kind = {
        .id = pfl_sql_row_int(row, 0),
        .class_name = pfl_index_row_text(row, 1, texts.host, sizeof(texts.host)),
        .orderer = pfl_index_row_text(row, 2, texts.orderer, sizeof(texts.orderer)),
        .order = pfl_index_row_text(row, 3, texts.order, sizeof(texts.order)),
        .bytes = (int64_t)pfl_sql_row_int(row, 4) > 0 ? pfl_sql_row_int(row, 4) : 0,
        .traces = pfl_sql_row_int(row, 5),
    };

    return asked->on_kind(asked->user, &kind);
}

int pfl_index_list_kinds(struct pfl_index *self, pfl_index_on_kind on_kind, void *user)
{
    struct asked asked = {.on_kind = on_kind, .user = user};
    struct pfl_sql_call call = {PFL_SQL_LIST_KINDS,
                                PFL_INDEX_PARAMS(pfl_sql_int(PFL_INDEX_KINDS_MAX)), on_kind_row,
                                &asked, 0};

    return pfl_index_run(self, &call);
}

static bool on_use_row(void *user, const struct pfl_sql_row *row)
{
    const struct asked *asked = user;
    char name[PFL_INDEX_NAME_BYTES];
    const struct pfl_index_use use = {
        .host_id = pfl_sql_row_int(row, 0),
        .name = pfl_index_row_text(row, 1, name, sizeof(name)),
        .amount = pfl_sql_row_int(row, 2),
    };

    return asked->on_use(asked->user, &use);
}

int pfl_index_list_host_use(struct pfl_index *self, const struct pfl_index_use_query *query,
                            pfl_index_on_use on_use, void *user)
{
    struct asked asked = {.on_use = on_use, .user = user};
    struct pfl_sql_call call = {
        PFL_SQL_LIST_HOST_USE,
        PFL_INDEX_PARAMS(pfl_sql_text(query->class_name), pfl_sql_int(query->above),
                         pfl_sql_int(query->after_host), pfl_sql_int(query->limit)),
        on_use_row, &asked, 0};

    return pfl_index_run(self, &call);
}

int pfl_index_list_trigger_use(struct pfl_index *self, const struct pfl_index_use_query *query,
                               pfl_index_on_use on_use, void *user)
{
    struct asked asked = {.on_use = on_use, .user = user};
    struct pfl_sql_call call = {
        PFL_SQL_LIST_TRIGGER_USE,
        PFL_INDEX_PARAMS(pfl_sql_int(query->kind), pfl_sql_int(query->after_host),
                         pfl_sql_text(query->after_trigger), pfl_sql_int(query->limit)),
        on_use_row, &asked, 0};

    return pfl_index_run(self, &call);
}

struct look {
    const struct pfl_index_oldest *query;
    struct pfl_index_look *at;
    pfl_index_on_row on_row;
    void *user;
    uint64_t passed;
    bool is_found;
};

static bool is_held(const struct pfl_index_row *row, uint64_t now_unix_ns)
{
    return row->keep_unix_ns > now_unix_ns ||
           (row->pin_who[0] != '\0' &&
            (row->pin_end_unix_ns == 0 || row->pin_end_unix_ns > now_unix_ns));
}

static bool on_old(void *user, const struct pfl_sql_row *sql_row)
{
    struct look *look = user;
    struct pfl_index_row_texts texts;
    struct pfl_index_row row;

    pfl_index_row_read(sql_row, &texts, &row);
    if (!is_held(&row, look->query->now_unix_ns)) {
        look->is_found = true;
        (void)look->on_row(look->user, &row);
        return false;
    }
    look->passed++;
    look->at->after_unix_ns =
        look->query->of == PFL_INDEX_OF_HOST ? row.begin_unix_ns : row.stored_unix_ns;
    (void)snprintf(look->at->after_id, sizeof(look->at->after_id), "%s", row.id);
    return true;
}

struct live {
    struct pfl_index_look *look;
    pfl_index_on_row on_row;
    void *user;
    uint64_t len;
};

static bool on_live_row(void *user, const struct pfl_sql_row *sql_row)
{
    struct live *live = user;
    struct pfl_index_row_texts texts;
    struct pfl_index_row row;

    pfl_index_row_read(sql_row, &texts, &row);
    live->len++;
    live->look->after_unix_ns = row.begin_unix_ns;
    (void)snprintf(live->look->after_id, sizeof(live->look->after_id), "%s", row.id);
    return live->on_row(live->user, &row);
}

/* Of each kind so many are sorted. */
#define OF_HOST_LOOK_MAX 64u

static int look_on(struct pfl_index *self, struct look *look)
{
    const struct pfl_index_oldest *q = look->query;
    uint64_t limit = q->of == PFL_INDEX_OF_HOST && look->at->limit > OF_HOST_LOOK_MAX
                         ? OF_HOST_LOOK_MAX
                         : look->at->limit;
    const struct pfl_index_look after = *look->at; /* it moves with each row */
    struct pfl_sql_value params[6] = {pfl_sql_int(after.after_unix_ns),
                                      pfl_sql_text(after.after_id), pfl_sql_int(limit)};
    struct pfl_sql_call call = {PFL_SQL_OLDEST_PLAIN, params, 5, on_old, look, 0};
    int rc;

    if (q->of == PFL_INDEX_OF_HOST) {
        call.statement = PFL_SQL_OLDEST_OF_HOST;
        call.len = 6;
        params[3] = pfl_sql_int(q->host_id);
        params[4] = pfl_sql_text(q->class_name);
        params[5] = pfl_sql_int(q->is_triggered);
    } else if (q->of == PFL_INDEX_OF_TRIGGER) {
        call.statement = PFL_SQL_OLDEST_OF_TRIGGER;
        call.len = 6;
        params[3] = pfl_sql_int(q->kind);
        params[4] = pfl_sql_int(q->host_id);
        params[5] = pfl_sql_text(q->trigger);
    } else {
        call.statement = q->is_triggered ? PFL_SQL_OLDEST_TRIGGERED : PFL_SQL_OLDEST_PLAIN;
        params[3] = pfl_sql_int(q->kind);
        params[4] = pfl_sql_int(q->before_unix_ns);
    }
    look->passed = 0;
    rc = pfl_index_run(self, &call);
    look->at->has_more = !look->is_found && look->passed == limit;
    return rc;
}

int pfl_index_get_oldest(struct pfl_index *self, const struct pfl_index_oldest *query,
                         pfl_index_on_row on_row, void *user)
{
    struct pfl_index_look all = {.limit = PFL_INDEX_LOOK_MAX};
    struct look look = {.query = query,
                        .at = query->look != NULL ? query->look : &all,
                        .on_row = on_row,
                        .user = user};
    int rc;

    do
        rc = look_on(self, &look);
    while (rc == 0 && query->look == NULL && all.has_more);
    return rc;
}

int pfl_index_list_live(struct pfl_index *self, bool is_long, struct pfl_index_look *look,
                        pfl_index_on_row on_row, void *user)
{
    const struct pfl_index_look after = *look; /* it moves with each row */
    struct live live = {.look = look, .on_row = on_row, .user = user};
    struct pfl_sql_call call = {PFL_SQL_LIST_LIVE,
                                PFL_INDEX_PARAMS(pfl_sql_int(after.after_unix_ns),
                                                 pfl_sql_text(after.after_id),
                                                 pfl_sql_int(after.limit), pfl_sql_int(is_long)),
                                on_live_row, &live, 0};
    int rc = pfl_index_run(self, &call);

    look->has_more = rc == 0 && live.len == after.limit;
    if (rc != 0)
        *look = after;
    return rc;
}

int pfl_index_postpone(struct pfl_index *self, const char *id)
{
    struct pfl_sql_call call = {PFL_SQL_PUT_OFF, PFL_INDEX_PARAMS(pfl_sql_text(id)), NULL, NULL, 0};

    return pfl_index_run(self, &call);
}

int pfl_index_count_tombstones(struct pfl_index *self, uint64_t *ret_count)
{
    struct pfl_sql_call call = {
        .statement = PFL_SQL_COUNT_TOMBSTONES, .on_row = on_number, .user = ret_count};

    return pfl_index_run(self, &call);
}

static bool on_any(void *user, const struct pfl_sql_row *row)
{
    (void)row;
    *(bool *)user = true;
    return false;
}

int pfl_index_has_number(struct pfl_index *self, const Perfleet__Segment *segment, const char *id,
                         bool *ret_has)
{
    struct pfl_sql_call call = {
        PFL_SQL_HAS_NUMBER,
        PFL_INDEX_PARAMS(pfl_sql_text(segment->host),
                         pfl_sql_text(segment->orderer != NULL ? segment->orderer : ""),
                         pfl_sql_text(segment->order), pfl_sql_text(segment->incarnation),
                         pfl_sql_int(segment->number), pfl_sql_text(id)),
        on_any, ret_has, 0};

    *ret_has = false;
    return pfl_index_run(self, &call);
}

struct forget {
    uint64_t before_unix_ns;
    uint64_t count;
};

static int forget_steps(struct pfl_index *self, void *arg)
{
    struct forget *forget = arg;
    struct pfl_sql_call calls[] = {
        {PFL_SQL_FORGET_RUNS,
         PFL_INDEX_PARAMS(pfl_sql_int(forget->before_unix_ns), pfl_sql_int(PFL_INDEX_FORGET_MAX)),
         NULL, NULL, 0},
        {PFL_SQL_FORGET_LEASES, PFL_INDEX_PARAMS(pfl_sql_int(self->void_ms)), NULL, NULL, 0},
        {PFL_SQL_FORGET_COLLECTORS,
         PFL_INDEX_PARAMS(pfl_sql_int(PFL_INDEX_FORGET_COLLECTORS_MS),
                          pfl_sql_text(self->collector)),
         NULL, NULL, 0},
        {.statement = PFL_SQL_FORGET_HOSTS},
        {.statement = PFL_SQL_FORGET_KINDS},
    };
    int rc = 0;

    forget->count = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(calls) / sizeof(calls[0]); i++) {
        rc = pfl_index_run(self, &calls[i]);
        forget->count += calls[i].changed;
    }
    return rc;
}

int pfl_index_forget_runs(struct pfl_index *self, uint64_t before_unix_ns, uint64_t *ret_count)
{
    struct forget forget = {.before_unix_ns = before_unix_ns};
    int rc = pfl_index_transact(self, forget_steps, &forget);

    if (rc == 0)
        *ret_count = forget.count;
    return rc;
}
