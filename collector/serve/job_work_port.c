/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps in threads: see job_work_port.h. Happy path: call the engine, leave the result in the job.
 * Failures: its code, and its sentence. Allocates nothing. Limits: one page, one piece of
 * PFL_JOB_HASH_BYTES, PFL_JOB_CHANGES traces a step, so that others have their turn.
 */
#include "collector/serve/job_work_port.h"

#include <stdio.h>

#include "base/shares.h"

#define KEEP_NS (UINT64_C(86400) * 1000000000) /* what is fetched by who may pin it stays a day */

/* ---- the index ---- */

static int find_once(struct pfl_job *j, struct pfl_index *index, const Perfleet__TraceQuery *query)
{
    const struct pfl_index_find find = {.query = query,
                                        .is_visible = pfl_job_may_see,
                                        .on_row =
                                            j->sum != NULL ? pfl_job_sum_trace : pfl_job_add_trace,
                                        .user = j};
    int rc = pfl_index_find(index, &find, &j->cursor);

    return j->rc != 0 ? j->rc : rc == PFL_ECLOSED ? 0 : rc;
}

static int find_ids(struct pfl_job *j, struct pfl_index *index, Perfleet__TraceQuery *query)
{
    const Perfleet__TraceQuery *all = j->checked.query;
    size_t end =
        all->n_id - j->next_id > PFL_JOB_IDS_MAX ? j->next_id + PFL_JOB_IDS_MAX : all->n_id;
    int rc = 0;

    while (rc == 0 && j->next_id < end && j->rows < j->rows_left &&
           j->page_room - j->page_len >= PFL_JOB_ROW_BYTES) {
        query->n_id = 1;
        query->id = all->id + j->next_id;
        rc = find_once(j, index, query);
        j->next_id++;
    }
    j->cursor.len = 0;
    j->is_over = j->next_id == all->n_id;
    return rc;
}

static int find(struct pfl_job *j, struct pfl_index *index)
{
    Perfleet__TraceQuery query = *j->checked.query;
    uint8_t cursor[PFL_INDEX_CURSOR_BYTES];
    int rc;

    j->page_len = 0;
    j->rows = 0;
    if (query.n_id != 0)
        return find_ids(j, index, &query);
    memcpy(cursor, j->cursor.bytes, sizeof(cursor));
    query.after = (ProtobufCBinaryData){j->cursor.len, cursor};
    query.limit = j->rows_left < PFL_INDEX_LIMIT_MAX ? (uint32_t)j->rows_left : PFL_INDEX_LIMIT_MAX;
    query.look_at = j->look_left < PFL_INDEX_SCAN_MAX ? (uint32_t)j->look_left : 0;
    rc = find_once(j, index, &query);
    j->look_left -= j->cursor.looked_at < j->look_left ? j->cursor.looked_at : j->look_left;
    j->is_over = j->cursor.len == 0 || j->look_left == 0;
    if (j->cursor.len != 0 && j->look_left == 0)
        j->looked_to_unix_ns = j->cursor.looked_to_unix_ns;
    return rc;
}

static int change_one(struct pfl_job *j, struct pfl_index *index)
{
    const struct pfl_index_deletion deletion = {
        .who = j->operator_name, .reason = "an operator removed it", .now_unix_ns = j->now_unix_ns};
    Perfleet__StoredTrace__Pin pin;

    if (j->checked.kind == PFL_REQUEST_UNPIN)
        return pfl_index_unpin(index, j->trace.id);
    if (j->checked.kind == PFL_REQUEST_REMOVE)
        return pfl_index_tombstone(index, j->trace.id, &deletion);
    pin = *j->request->pin->pin;
    pin.who = (char *)(uintptr_t)j->operator_name; /* not the one in the message */
    return pfl_index_pin(index, j->trace.id, &pin);
}

/* One that is not there any more was removed meanwhile. */
static int change(struct pfl_job *j, struct pfl_index *index)
{
    j->changed_len = 0;
    for (unsigned n = 0; n < PFL_JOB_CHANGES && pfl_job_next_trace(j); n++) {
        int rc = change_one(j, index);

        if (rc == 0) {
            memcpy(j->changed_ids[j->changed_len++], j->trace.id, sizeof(j->trace.id));
            j->changed++;
        } else if (rc == PFL_EPERM) {
            j->pinned++;
        } else if (rc != PFL_ENOENT) {
            return rc;
        }
    }
    return 0;
}

static int look_up(struct pfl_job *j, struct pfl_index *index)
{
    int rc = pfl_index_get(index, j->request->get->trace, pfl_job_take_trace, j);

    if (rc == 0 && j->may_keep && j->request->get->offset == 0)
        rc = pfl_index_keep(index, j->trace.id, j->now_unix_ns + KEEP_NS);
    return rc;
}

static int list_runs(struct pfl_job *j, struct pfl_index *index)
{
    const struct pfl_job_place after = j->after; /* it moves with each row */
    const struct pfl_index_run_query query = {.after_host = after.host,
                                              .after_incarnation = after.incarnation,
                                              .after_orderer = after.orderer,
                                              .after_order = after.order,
                                              .limit = PFL_JOB_RUNS_MAX};
    int rc;

    j->page_len = j->rows = j->seen = 0;
    rc = pfl_index_list_runs(index, &query, pfl_job_add_run, j);
    j->is_over = j->rows == j->seen && j->seen < PFL_JOB_RUNS_MAX;
    return rc == PFL_ECLOSED ? 0 : rc;
}

/* Behind `after.host`, as many as there is room for. */
static int list_states_of(struct pfl_job *j, struct pfl_index *index,
                          const struct pfl_job_order *order)
{
    char host[PFL_INDEX_NAME_BYTES]; /* `after` moves with each row */
    const struct pfl_index_host_state_query query = {.orderer = order->orderer,
                                                     .name = order->name,
                                                     .after_host = host,
                                                     .limit = PFL_JOB_ORDERS_STEP};
    int rc;

    do {
        memcpy(host, j->after.host, sizeof(host));
        j->is_cut = false;
        j->seen = 0;
        rc = pfl_index_list_host_states(index, &query, pfl_job_add_state, j);
        rc = rc == PFL_ECLOSED ? 0 : rc;
    } while (rc == 0 && !j->is_cut && j->seen == PFL_JOB_ORDERS_STEP);
    return rc;
}

/* The page ends behind its n-th order. */
static void cut_orders(struct pfl_job *j, size_t page_len, uint64_t n)
{
    j->page_len = page_len;
    j->rows = n;
    j->is_over = false;
}

/* What hosts say of each order of the page. An order whose hosts have no room is left for the next
 * reply; if it is the first one, its further hosts are. */
static int list_states(struct pfl_job *j, struct pfl_index *index)
{
    struct pfl_job_order order;
    size_t begin = 0;
    int rc = 0;

    j->page_pos = j->extra_len = 0;
    for (uint64_t n = 0; rc == 0 && pfl_job_next_order(j, &order); n++) {
        size_t extra_len = j->extra_len;

        if (!j->is_inside || !pfl_job_is_at(j, order.orderer, order.name))
            j->after.host[0] = '\0';
        rc = list_states_of(j, index, &order);
        if (j->is_cut && n != 0) {
            j->extra_len = extra_len;
            cut_orders(j, begin, n);
            return rc;
        }
        j->is_inside = j->is_cut;
        memcpy(j->after.orderer, order.orderer, sizeof(order.orderer));
        memcpy(j->after.order, order.name, sizeof(order.name));
        begin = j->page_pos;
        if (j->is_cut)
            cut_orders(j, begin, 1);
    }
    return rc;
}

static int list_orders(struct pfl_job *j, struct pfl_index *index)
{
    const Perfleet__CollectorRequest__OrderRef *q = j->checked.order;
    const bool is_one = q->name != NULL && q->name[0] != '\0';
    const bool is_own = q->orderer == NULL || q->orderer[0] == '\0';
    const struct pfl_job_place after = j->after; /* it moves with each row */
    const struct pfl_index_order_query query = {.from_orderer = !is_one  ? after.orderer
                                                                : is_own ? j->operator_name
                                                                         : q->orderer,
                                                .from_name = is_one ? q->name : after.order,
                                                .limit = is_one ? 1 : PFL_JOB_ORDERS_STEP};
    int rc;

    j->page_len = j->rows = j->seen = 0;
    j->is_cut = false;
    rc = pfl_index_list_orders_from(index, &query, pfl_job_add_order, j);
    j->is_over = !j->is_cut && (is_one || j->seen < PFL_JOB_ORDERS_STEP);
    if (rc == 0 || rc == PFL_ECLOSED)
        rc = list_states(j, index);
    return rc;
}

struct count {
    const char *orderer;
    const char *name;
    unsigned own;
    unsigned all;
    size_t own_bytes;
    size_t bytes;
};

static bool on_order(void *user, const struct pfl_index_order *order)
{
    struct count *c = user;
    bool is_own = strcmp(order->orderer, c->orderer) == 0;

    if (is_own && strcmp(order->name, c->name) == 0)
        return true; /* it is replaced */
    c->own += is_own;
    c->all++;
    c->own_bytes += is_own ? order->order.len : 0;
    c->bytes += order->order.len;
    return true;
}

static int put_order(struct pfl_job *j, struct pfl_index *index)
{
    const Perfleet__Order *order = j->request->put_order;
    struct count count = {.orderer = j->operator_name, .name = order->name};
    uint32_t generation;
    int rc = pfl_index_list_orders(index, on_order, &count);

    if (rc != 0)
        return rc;
    if (count.own >= PFL_JOB_ORDERS_OF_ONE || count.all >= PFL_JOB_ORDERS_MAX ||
        !pfl_shares_allow(PFL_JOB_ORDERS_SUM_BYTES, count.bytes, count.own_bytes,
                          protobuf_c_message_get_packed_size(&order->base))) {
        (void)snprintf(j->why, sizeof(j->why),
                       "a collector has at most %u orders of one operator, %u of all, and %u MiB "
                       "of them, half of what is free for one: remove some (perfleet order rm)",
                       PFL_JOB_ORDERS_OF_ONE, PFL_JOB_ORDERS_MAX, PFL_JOB_ORDERS_SUM_BYTES >> 20);
        return PFL_ELIMIT;
    }
    return pfl_index_put_order(index, j->operator_name, order, &generation);
}

static int set_order(struct pfl_job *j, struct pfl_index *index)
{
    int rc;

    if (j->checked.kind == PFL_REQUEST_PUT_ORDER)
        rc = put_order(j, index);
    else if (j->checked.kind == PFL_REQUEST_REMOVE_ORDER)
        rc = pfl_index_remove_order(index, j->operator_name, j->checked.order->name);
    else
        rc = pfl_index_pause_order(index, j->operator_name, j->checked.order->name,
                                   j->checked.kind == PFL_REQUEST_PAUSE_ORDER);
    j->changed = rc == 0;
    return rc;
}

static int run_index(struct pfl_job *j, struct pfl_index *index)
{
    switch (j->step) {
    case PFL_JOB_FIND:
        return find(j, index);
    case PFL_JOB_CHANGE:
        return change(j, index);
    case PFL_JOB_LOOK_UP:
        return look_up(j, index);
    case PFL_JOB_RUNS:
        return list_runs(j, index);
    case PFL_JOB_ORDERS:
        return list_orders(j, index);
    default:
        return set_order(j, index);
    }
}

/* ---- the store ---- */

static bool on_data(void *user, struct pfl_span bytes)
{
    struct pfl_job *j = user;
    size_t room = j->page_room - j->page_len;
    size_t len = bytes.len < room ? bytes.len : room;

    if (len != 0)
        memcpy(j->page + j->page_len, bytes.data, len);
    j->page_len += len;
    return true;
}

static int read_piece(struct pfl_job *j, struct pfl_store *store)
{
    struct pfl_store_range range = {j->offset, j->left < j->page_room ? j->left : j->page_room};

    j->page_len = 0;
    return pfl_store_get(store, j->trace.key, &range, on_data, j);
}

static bool on_hashed(void *user, struct pfl_span bytes)
{
    struct pfl_job *j = user;

    pfl_sha256_add(j->hash, bytes);
    j->offset += bytes.len;
    return true;
}

static int hash_piece(struct pfl_job *j, struct pfl_store *store)
{
    struct pfl_store_range range = {j->offset, PFL_JOB_HASH_BYTES};
    uint64_t before = j->offset;
    uint8_t sha256[PFL_SHA256_BYTES];
    int rc = pfl_store_get(store, j->trace.key, &range, on_hashed, j);
    bool is_end = rc != 0 || j->offset == before || j->offset >= j->trace.bytes;

    if (!is_end)
        return 0;
    /* Ended in any case, so that the next one starts again. */
    if (pfl_sha256_end(j->hash, sha256) != 0)
        return PFL_ENOMEM;
    j->is_sound = rc == 0 && j->offset == j->trace.bytes &&
                  memcmp(sha256, j->trace.sha256, sizeof(sha256)) == 0;
    if (j->offset < j->trace.bytes)
        j->offset = j->trace.bytes; /* it is shorter: there is nothing more to read */
    return rc;
}

static int make_link(struct pfl_job *j, struct pfl_store *store)
{
    int rc =
        pfl_store_presign(store, j->trace.key, PFL_JOB_LINK_S, (char *)j->extra, j->extra_room);

    j->extra_len = rc == 0 ? strlen((const char *)j->extra) : 0;
    return rc;
}

static int run_store(struct pfl_job *j, struct pfl_store *store)
{
    if (j->step == PFL_JOB_READ)
        return read_piece(j, store);
    return j->step == PFL_JOB_HASH ? hash_piece(j, store) : make_link(j, store);
}

/* ---- both ---- */

int pfl_job_work_prepare(struct pfl_job *job)
{
    return job->checked.kind == PFL_REQUEST_VERIFY ? pfl_sha256_new(&job->hash) : 0;
}

void pfl_job_work_release(struct pfl_job *job)
{
    pfl_sha256_free(job->hash);
    job->hash = NULL;
}

void pfl_job_work_run(struct pfl_job *job, const struct pfl_job_work_engines *engines)
{
    bool is_index = pfl_job_is_of_index(job->step);

    job->why[0] = '\0';
    job->rc = is_index ? run_index(job, engines->index) : run_store(job, engines->store);
    if (job->rc != 0 && job->why[0] == '\0')
        (void)snprintf(job->why, sizeof(job->why), "%s",
                       is_index ? pfl_index_get_error(engines->index) : pfl_store_get_error());
}
