/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for traces against a real store and a real index, step by step. */
#include "tests/unit/collector/serve/job_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/unpack.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

/* ---- lists ---- */

static void a_list_has_what_the_policy_lets_the_operator_see(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *invisible[1];
    char id[PFL_INDEX_ID_BYTES];

    (void)state;
    q.list = &query;
    world_ask(&q);
    assert_int_equal(world_count_traces(), 0);
    world_store_web(1, 10);
    (void)snprintf(id, sizeof(id), "%s", world_store_db(1));
    world_store(&(struct world_trace){"web1", "role=web", 2, 0, 3, NULL});
    world_ask(&q);
    assert_int_equal(world.replies_len, 1);
    assert_int_equal(world_count_traces(), 2);
    assert_string_equal(world.replies[0]->trace[0]->segment->host, "web1");
    assert_non_null(world.replies[0]->trace[0]->segment->gap);
    assert_string_equal(world.replies[0]->trace[1]->segment->label[0], "role=web");
    assert_false(world.replies[0]->has_cursor);
    invisible[0] = id;
    query.id = invisible;
    query.n_id = 1;
    world_ask(&q);
    assert_int_equal(world_count_traces(), 0);
}

/* Each has some 2 KiB: a page holds a part of them. */
static void a_list_in_parts_misses_none(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char source[2001];
    uint32_t number = 0;

    (void)state;
    memset(source, 's', sizeof(source) - 1);
    source[sizeof(source) - 1] = '\0';
    for (uint32_t i = 1; i <= 300; i++)
        world_store(&(struct world_trace){"web1", "role=web", i, 1, 0, source});
    q.list = &query;
    query.oldest_first = query.has_oldest_first = 1;
    world_ask(&q);
    assert_in_range(world.replies_len, 2, 20);
    for (size_t i = 0; i < world.replies_len; i++) {
        for (size_t k = 0; k < world.replies[i]->n_trace; k++)
            assert_int_equal(world.replies[i]->trace[k]->segment->number, ++number);
    }
    assert_int_equal(number, 300);
    assert_false(world_last()->has_cursor);
}

static void a_cursor_continues_after_the_limit(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    uint8_t cursor[PFL_INDEX_CURSOR_BYTES];

    (void)state;
    for (uint32_t i = 1; i <= 5; i++)
        world_store_web(i, 1);
    q.list = &query;
    query.has_limit = 1;
    query.limit = 3;
    world_ask(&q);
    assert_int_equal(world_count_traces(), 3);
    assert_int_equal(world.replies[0]->trace[0]->segment->number, 5);
    assert_true(world_last()->has_cursor && world_last()->cursor.len <= sizeof(cursor));
    memcpy(cursor, world_last()->cursor.data, world_last()->cursor.len);
    query.has_after = 1;
    query.after = (ProtobufCBinaryData){world_last()->cursor.len, cursor};
    world_ask(&q);
    assert_int_equal(world_count_traces(), 2);
    assert_int_equal(world.replies[0]->trace[1]->segment->number, 1);
    assert_false(world_last()->has_cursor);
    cursor[0] = 9;
    world_ask(&q);
    assert_int_equal(world_status(), 400);
}

/* What the operator may not see counts: it is looked at. */
static void a_list_says_how_far_it_looked(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    uint8_t cursor[PFL_INDEX_CURSOR_BYTES];

    (void)state;
    for (uint32_t i = 1; i <= 3; i++)
        world_store_web(i, 1);
    world_store_db(4);
    q.list = &query;
    query.has_look_at = 1;
    query.look_at = 3;
    world_ask(&q);
    assert_int_equal(world.replies_len, 1);
    assert_int_equal(world_count_traces(), 2);
    assert_true(world_last()->has_cursor && world_last()->cursor.len <= sizeof(cursor));
    assert_int_equal(world_last()->looked_to_unix_ns, WORLD_T0 + 2 * WORLD_S);
    memcpy(cursor, world_last()->cursor.data, world_last()->cursor.len);
    query.has_after = 1;
    query.after = (ProtobufCBinaryData){world_last()->cursor.len, cursor};
    world_ask(&q);
    assert_int_equal(world_count_traces(), 1);
    assert_int_equal(world.replies[0]->trace[0]->segment->number, 1);
    assert_false(world_last()->has_cursor || world_last()->has_looked_to_unix_ns);
    /* The limit comes first: how far it looked is not said, as the cursor does. */
    query.has_after = 0;
    query.after.len = 0;
    query.has_limit = 1;
    query.limit = 1;
    world_ask(&q);
    assert_true(world_last()->has_cursor && !world_last()->has_looked_to_unix_ns);
}

static void traces_are_found_by_their_ids(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char list[3][PFL_INDEX_ID_BYTES];
    char *all[] = {list[0], list[1], list[2], world_text("01JD0000000000000000000000")};

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        (void)snprintf(list[i], sizeof(list[i]), "%s", world_store_web(i + 1, 1));
    q.list = &query;
    query.id = all;
    query.n_id = 4;
    world_ask(&q);
    assert_int_equal(world_count_traces(), 3);
    assert_string_equal(world.replies[0]->trace[2]->id, list[2]);
}

/* ---- sums ---- */

static void a_sum_has_what_the_policy_lets_the_operator_see(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__SumRequest part = PERFLEET__COLLECTOR_REQUEST__SUM_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    const Perfleet__TraceSum *row;

    (void)state;
    for (uint32_t i = 1; i <= 3; i++)
        world_store_web(i, 10 * i);
    (void)world_store_db(2);
    world_store(&(struct world_trace){"web1", "role=web", 9, 0, 9, NULL});
    q.sum = &part;
    part.what = &query;
    part.has_cells = query.has_begin_unix_ns = query.has_end_unix_ns = 1;
    part.cells = 5;
    query.begin_unix_ns = WORLD_T0;
    query.end_unix_ns = WORLD_T0 + 10 * WORLD_S;
    world_ask(&q);
    assert_int_equal(world_status(), 0);
    assert_int_equal(world_last()->n_sum, 1);
    row = world_last()->sum[0];
    assert_string_equal(row->name, "web1");
    assert_false(row->is_rest);
    assert_int_equal(row->n_cell, 3);
    assert_int_equal(row->cell[0]->index, 0);
    assert_int_equal(row->cell[0]->traces, 1);
    assert_int_equal(row->cell[0]->bytes, 10);
    assert_int_equal(row->cell[1]->index, 1);
    assert_int_equal(row->cell[1]->traces, 2);
    assert_int_equal(row->cell[1]->bytes, 50);
    assert_int_equal(row->cell[2]->index, 4);
    assert_int_equal(row->cell[2]->gaps, 1);
    assert_int_equal(row->cell[2]->traces, 0);
    part.label = world_text("role");
    world_ask(&q);
    assert_int_equal(world_last()->n_sum, 1);
    assert_string_equal(world_last()->sum[0]->name, "web");
    query.has_lossy = query.lossy = 1;
    world_ask(&q);
    assert_int_equal(world_last()->sum[0]->n_cell, 1);
}

/* More than one step of the index finds. */
static void a_sum_of_many_is_made_in_steps(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__SumRequest part = PERFLEET__COLLECTOR_REQUEST__SUM_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    for (uint32_t i = 1; i <= PFL_INDEX_LIMIT_MAX + 5; i++)
        world_store(&(struct world_trace){"web1", "role=web", i, 0, i, NULL});
    q.sum = &part;
    part.what = &query;
    part.has_cells = query.has_end_unix_ns = 1;
    part.cells = 1;
    query.end_unix_ns = INT64_MAX;
    world_ask(&q);
    assert_int_equal(world.replies_len, 1);
    assert_int_equal(world.steps[PFL_JOB_FIND], 2);
    assert_int_equal(world_last()->sum[0]->cell[0]->gaps, PFL_INDEX_LIMIT_MAX + 5);
}

static void a_sum_says_how_far_it_looked(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__SumRequest part = PERFLEET__COLLECTOR_REQUEST__SUM_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    for (uint32_t i = 1; i <= PFL_INDEX_LIMIT_MAX + 5; i++)
        world_store(&(struct world_trace){"web1", "role=web", i, 0, i, NULL});
    q.sum = &part;
    part.what = &query;
    part.has_cells = query.has_end_unix_ns = query.has_look_at = 1;
    part.cells = 1;
    query.end_unix_ns = INT64_MAX;
    query.look_at = PFL_INDEX_LIMIT_MAX + 2; /* more than one step */
    world_ask(&q);
    assert_int_equal(world_last()->sum[0]->cell[0]->gaps, PFL_INDEX_LIMIT_MAX + 2);
    assert_int_equal(world_last()->looked_to_unix_ns, WORLD_T0 + 4 * WORLD_S);
    query.look_at = PFL_INDEX_LIMIT_MAX + 6;
    world_ask(&q);
    assert_int_equal(world_last()->sum[0]->cell[0]->gaps, PFL_INDEX_LIMIT_MAX + 5);
    assert_false(world_last()->has_looked_to_unix_ns);
}

/* ---- bytes ---- */

static void get(const char *id, uint64_t offset, uint64_t length)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Get part = PERFLEET__COLLECTOR_REQUEST__GET__INIT;

    q.get = &part;
    part.trace = world_text(id);
    part.has_offset = part.has_length = 1;
    part.offset = offset;
    part.length = length;
    world_ask(&q);
}

static void assert_data(uint64_t offset, uint64_t length)
{
    uint64_t at = offset;

    assert_int_equal(world_status(), 0);
    for (size_t i = 0; i < world.replies_len; i++) {
        const ProtobufCBinaryData *data = &world.replies[i]->data;

        assert_true(data->len <= PFL_JOB_PAGE_BYTES);
        assert_true(at + data->len <= world.made.len);
        assert_memory_equal(data->data, world.made.bytes + at, data->len);
        at += data->len;
    }
    assert_int_equal(at - offset, length);
}

static void bytes_come_in_parts_and_in_order(void **state)
{
    const char *id = world_store_web(1, sizeof(world.made.bytes));

    (void)state;
    get(id, 0, 0);
    assert_data(0, sizeof(world.made.bytes));
    assert_int_equal(world.replies_len, 3);
    get(id, 1000, 300000);
    assert_data(1000, 300000);
    get(id, sizeof(world.made.bytes) - 5, 100);
    assert_data(sizeof(world.made.bytes) - 5, 5);
    get(id, sizeof(world.made.bytes), 100);
    assert_data(sizeof(world.made.bytes), 0);
    get(id, UINT64_MAX, UINT64_MAX);
    assert_int_equal(world_status(), 0);
    assert_int_equal(world_last()->data.len, 0);
}

static bool on_kept(void *user, const struct pfl_index_row *row)
{
    *(uint64_t *)user = row->keep_unix_ns;
    return true;
}

static void what_is_fetched_is_kept_for_a_day(void **state)
{
    const char *id = world_store_web(1, 10);
    uint64_t keep_unix_ns = 0;

    (void)state;
    get(id, 5, 0);
    assert_int_equal(pfl_index_get(world.engines.index, id, on_kept, &keep_unix_ns), 0);
    assert_int_equal(keep_unix_ns, 0);
    get(id, 0, 0);
    assert_data(0, 10);
    assert_int_equal(pfl_index_get(world.engines.index, id, on_kept, &keep_unix_ns), 0);
    assert_int_equal(keep_unix_ns, WORLD_NOW + 86400 * WORLD_S);
}

/* A reader of all traces would stop retention. */
static void what_a_reader_fetches_is_not_kept(void **state)
{
    static const char rules[] =
        "rule { name: \"web\" operator: \"ann\" host: \"*\" role: \"read\" }\n"
        "role { name: \"read\" traces: true }\n";
    const char *id = world_store_web(1, 10);
    uint64_t keep_unix_ns = 1;

    (void)state;
    pfl_scope_free(world.scope);
    assert_int_equal(world_open_scope(rules), 0);
    get(id, 0, 1);
    assert_data(0, 1);
    assert_int_equal(pfl_index_get(world.engines.index, id, on_kept, &keep_unix_ns), 0);
    assert_int_equal(keep_unix_ns, 0);
}

/* Those that are not there are no rows, and end no step by themselves. */
static void many_ids_are_looked_up_in_steps(void **state)
{
    static char ids[4 * PFL_JOB_IDS_MAX][PFL_INDEX_ID_BYTES];
    char *list[4 * PFL_JOB_IDS_MAX];
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;

    (void)state;
    for (unsigned i = 0; i < 4 * PFL_JOB_IDS_MAX; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "01JZ%022u", i);
        list[i] = ids[i];
    }
    query.id = list;
    query.n_id = 4 * PFL_JOB_IDS_MAX;
    request.list = &query;
    world_ask(&request);
    assert_int_equal(world_count_traces(), 0);
    assert_int_equal(world.steps[PFL_JOB_FIND], 4);
}

static void what_is_not_there_has_no_bytes(void **state)
{
    char db[PFL_INDEX_ID_BYTES];
    const char *id;

    (void)state;
    get("01JD0000000000000000000000", 0, 0);
    assert_int_equal(world_status(), 404);
    (void)snprintf(db, sizeof(db), "%s", world_store_db(1));
    get(db, 0, 0);
    assert_int_equal(world_status(), 404); /* as if there were none */
    assert_string_equal(world_last()->why, "there is no such trace");
    id = world_store(&(struct world_trace){"web1", "role=web", 1, 0, 1, NULL});
    get(id, 0, 0);
    assert_int_equal(world_status(), 404);
    id = world_store_web(2, 10);
    assert_int_equal(pfl_store_delete(world.engines.store, world.made.place.key), 0);
    get(id, 0, 0);
    assert_int_equal(world_status(), 404);
    assert_non_null(strstr(world_last()->why, "not in the store"));
}

static void an_object_that_is_shorter_is_a_failure(void **state)
{
    const char *id = world_store_web(1, 100);

    (void)state;
    assert_int_equal(pfl_store_put_all(world.put, world.made.place.key, pfl_span_of("short", 5)),
                     0);
    get(id, 0, 0);
    assert_int_equal(world_status(), 500);
    assert_non_null(strstr(world_last()->why, id));
}

static void a_folder_has_no_links(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    q.presign = &query;
    query.has_begin_unix_ns = 1;
    query.begin_unix_ns = 1;
    world_ask(&q);
    assert_int_equal(world_status(), 0); /* there is nothing */
    world_store_web(1, 10);
    world_ask(&q);
    assert_int_equal(world_status(), 501);
}

/* A link is made without a word to the server. */
static void links_are_of_what_the_operator_may_see(void **state)
{
    const struct pfl_store_conf conf = {.where = "s3://traces/fleet",
                                        .endpoint = "http://127.0.0.1:9",
                                        .has_path_style = true,
                                        .staging_dir = "/tmp"};
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct pfl_store *folder = world.engines.store;
    char why[PFL_STORE_WHY_BYTES];
    size_t links = 0;

    (void)state;
    assert_int_equal(setenv("AWS_ACCESS_KEY_ID", "id", 1), 0);
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "secret", 1), 0);
    world_store_db(1);
    world_store_web(2, 10);
    world_store_web(3, 10);
    world_store(&(struct world_trace){"web1", "role=web", 4, 0, 5, NULL}); /* a gap has none */
    assert_int_equal(pfl_store_open(&conf, why, &world.engines.store), 0);
    q.presign = &query;
    query.has_begin_unix_ns = 1;
    query.begin_unix_ns = 1;
    world_ask(&q);
    pfl_store_close(world.engines.store);
    world.engines.store = folder;
    assert_int_equal(world_status(), 0);
    for (size_t i = 0; i < world.replies_len; i++) {
        const char *url = world.replies[i]->url;

        if (url == NULL)
            continue;
        assert_memory_equal(url, "http://127.0.0.1:9/traces/fleet/v1/", 35);
        assert_null(strstr(url, "/db1/"));
        assert_null(strstr(url, "secret"));
        assert_non_null(strstr(url, "X-Amz-Expires=3600"));
        links++;
    }
    assert_int_equal(links, 2);
}

static void verify(void)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    q.verify = &query;
    world_ask(&q);
    assert_int_equal(world_status(), 0);
}

static void verify_lists_what_is_not_as_it_was(void **state)
{
    (void)state;
    world_store_web(1, sizeof(world.made.bytes));
    world_store_web(2, 0);
    world_store_db(1);
    world_store(&(struct world_trace){"web1", "role=web", 3, 0, 3, NULL});
    verify();
    assert_int_equal(world_last()->count, 2);
    assert_int_equal(world_count_traces(), 0);
    world_store_web(4, 100); /* altered */
    world.made.bytes[50] ^= 1;
    assert_int_equal(
        pfl_store_put_all(world.put, world.made.place.key, pfl_span_of(world.made.bytes, 100)), 0);
    world_store_web(5, 100); /* cut */
    assert_int_equal(
        pfl_store_put_all(world.put, world.made.place.key, pfl_span_of(world.made.bytes, 99)), 0);
    world_store_web(6, 100); /* gone */
    assert_int_equal(pfl_store_delete(world.engines.store, world.made.place.key), 0);
    world_store_web(7, 100);
    verify();
    assert_int_equal(world_last()->count, 3);
    assert_int_equal(world_count_traces(), 3);
    assert_int_equal(world.replies_len, 4);
    assert_int_equal(world.replies[0]->trace[0]->segment->number, 6);
    assert_int_equal(world.replies[2]->trace[0]->segment->number, 4);
}

/* ---- changes ---- */

/* Moments inside the first one and at the beginning of the last one. */
static Perfleet__TraceQuery query_of_numbers(uint32_t first, uint32_t last_number)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    query.has_begin_unix_ns = query.has_end_unix_ns = 1;
    query.begin_unix_ns = WORLD_T0 + first * WORLD_S + 1;
    query.end_unix_ns = WORLD_T0 + last_number * WORLD_S + 1;
    return query;
}

static void pin(Perfleet__TraceQuery query)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__PinRequest part = PERFLEET__COLLECTOR_REQUEST__PIN_REQUEST__INIT;
    Perfleet__StoredTrace__Pin what = PERFLEET__STORED_TRACE__PIN__INIT;

    q.pin = &part;
    part.what = &query;
    part.pin = &what;
    what.who = world_text("mallory");
    what.reason = world_text("the outage");
    world_ask(&q);
}

static void unpin(Perfleet__TraceQuery query)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;

    q.unpin = &query;
    world_ask(&q);
}

static void remove_traces(Perfleet__TraceQuery query)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;

    q.remove = &query;
    world_ask(&q);
}

static void list_all(void)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    q.list = &query;
    world_ask(&q);
}

static void a_pin_has_the_operators_own_name(void **state)
{
    (void)state;
    world_store_web(1, 1);
    world_store_web(2, 1);
    pin(query_of_numbers(2, 2));
    assert_int_equal(world_last()->count, 1);
    list_all();
    assert_string_equal(world_last()->trace[0]->pin->who, "ann");
    assert_string_equal(world_last()->trace[0]->pin->reason, "the outage");
    assert_null(world_last()->trace[1]->pin);
    unpin(query_of_numbers(1, 2));
    assert_int_equal(world_last()->count, 2);
    list_all();
    assert_null(world_last()->trace[0]->pin);
}

/* In two steps; what is pinned is not named by a removal. */
static void each_change_names_its_traces(void **state)
{
    char ids[PFL_JOB_CHANGES + 1][PFL_INDEX_ID_BYTES];

    (void)state;
    for (uint32_t i = 0; i <= PFL_JOB_CHANGES; i++)
        (void)snprintf(ids[i], sizeof(ids[i]), "%s", world_store_web(i + 1, 1));
    pin(query_of_numbers(3, 3));
    assert_int_equal(world.changed_len, 1);
    assert_string_equal(world.changed[0], ids[2]);
    remove_traces(query_of_numbers(2, 4));
    assert_int_equal(world.changed_len, 2);
    unpin(query_of_numbers(1, PFL_JOB_CHANGES + 1));
    assert_int_equal(world.changed_len, PFL_JOB_CHANGES - 1);
    assert_string_equal(world.changed[0], ids[PFL_JOB_CHANGES]); /* the newest first */
    assert_string_equal(world.changed[PFL_JOB_CHANGES - 2], ids[0]);
}

static bool on_deleted(void *user, const struct pfl_index_deleted *deleted)
{
    assert_string_equal(deleted->who, "ann");
    (*(unsigned *)user)++;
    return true;
}

static bool on_tombstone(void *user, const struct pfl_index_row *row)
{
    (void)row;
    (*(unsigned *)user)++;
    return true;
}

/* More than one step changes; what another operator alone may see stays. */
static void what_is_removed_is_a_tombstone(void **state)
{
    unsigned deleted = 0;
    unsigned tombstones = 0;

    (void)state;
    for (uint32_t i = 1; i <= 100; i++)
        world_store_web(i, 1);
    world_store_db(50);
    remove_traces(query_of_numbers(1, 90));
    assert_int_equal(world_status(), 0);
    assert_int_equal(world_last()->count, 90);
    assert_true(world.steps[PFL_JOB_CHANGE] > 1);
    list_all();
    assert_int_equal(world_count_traces(), 10);
    assert_int_equal(pfl_index_list_deleted(world.engines.index, 0, on_deleted, &deleted), 0);
    assert_int_equal(deleted, 90);
    assert_int_equal(pfl_index_find_state(world.engines.index, PFL_INDEX_TOMBSTONE,
                                          UINT64_C(1) << 62, on_tombstone, &tombstones),
                     0);
    assert_int_equal(tombstones, 90);
}

static void what_is_pinned_stays_and_is_said(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= 4; i++)
        world_store_web(i, 1);
    pin(query_of_numbers(2, 3));
    remove_traces(query_of_numbers(1, 4));
    assert_int_equal(world_status(), 409);
    assert_non_null(strstr(world_last()->why, "2 traces are removed; 2 are pinned"));
    list_all();
    assert_int_equal(world_count_traces(), 2);
}

static void a_limit_holds_for_changes(void **state)
{
    Perfleet__TraceQuery query = query_of_numbers(1, 9);

    (void)state;
    for (uint32_t i = 1; i <= 5; i++)
        world_store_web(i, 1);
    query.has_limit = 1;
    query.limit = 2;
    remove_traces(query);
    assert_int_equal(world_last()->count, 2);
    list_all();
    assert_int_equal(world_count_traces(), 3);
}

/* ---- refusals and failures ---- */

static void what_the_policy_does_not_give_is_refused(void **state)
{
    (void)state;
    pfl_scope_free(world.scope);
    assert_int_equal(world_open_scope(""), 0);
    world_store_web(1, 1);
    list_all();
    assert_int_equal(world_status(), 403);
    assert_int_equal(world_count_traces(), 0);
}

static void a_step_that_cannot_be_done_is_said(void **state)
{
    static const enum pfl_job_step steps[] = {PFL_JOB_FIND, PFL_JOB_CHANGE};

    (void)state;
    world_store_web(1, 1);
    for (size_t i = 0; i < 2; i++) {
        world.fail_at = steps[i];
        remove_traces(query_of_numbers(1, 1));
        assert_int_equal(world_status(), 503);
    }
    world.fail_at = PFL_JOB_READ;
    get(world.made.place.id, 0, 0);
    assert_int_equal(world_status(), 503);
    assert_non_null(strstr(world_last()->why, world.made.place.id));
    assert_non_null(strstr(world_last()->why, "store is busy"));
    world.fail_at = PFL_JOB_WAIT;
    list_all();
    assert_int_equal(world_count_traces(), 1);
}

static void what_is_no_request_is_refused(void **state)
{
    (void)state;
    assert_int_equal(world_run_packed(pfl_span_of("\x0a", 1)), PFL_EPARSE);
    assert_int_equal(world_run_packed(pfl_span_of("", 0)), 0);
    assert_int_equal(world_status(), 400);
}

static void an_empty_part_says_that_work_goes_on(void **state)
{
    struct pfl_buf out;
    const struct pfl_job job = {.id = 9};

    (void)state;
    world_drop_replies();
    pfl_buf_init(&out, 1024);
    assert_int_equal(pfl_job_reply_empty(&job, &out), 0);
    assert_int_equal(pfl_job_reply_refusal(10, 429, "too many", &out), 0);
    assert_int_equal(world_read_replies(&out), 0);
    assert_int_equal(world.replies_len, 2);
    assert_int_equal(world.replies[0]->id, 9);
    assert_true(world.replies[0]->has_more);
    assert_int_equal(world.replies[1]->status, 429);
    assert_false(world.replies[1]->has_more);
    pfl_buf_fini(&out);
    pfl_buf_init(&out, 8);
    assert_int_equal(pfl_job_reply_refusal(10, 429, "too many", &out), PFL_ELIMIT);
    assert_int_equal(out.len, 0);
    pfl_buf_fini(&out);
}

/* ---- the allocation sweep ---- */

static int sweep_one(void *arg)
{
    int rc = world_run_request(arg);

    world_drop_replies();
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    Perfleet__CollectorRequest find = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest check = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest read = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest sum = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Get part = PERFLEET__COLLECTOR_REQUEST__GET__INIT;
    Perfleet__CollectorRequest__SumRequest cells = PERFLEET__COLLECTOR_REQUEST__SUM_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    Perfleet__TraceQuery what = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    world_store_web(1, 100);
    sum.sum = &cells;
    cells.what = &what;
    cells.has_cells = what.has_end_unix_ns = 1;
    cells.cells = 1;
    what.end_unix_ns = INT64_MAX;
    pfl_sweep(sweep_one, &sum, false);
    find.list = &query;
    check.verify = &query;
    read.get = &part;
    part.trace = world.made.place.id;
    pfl_sweep(sweep_one, &find, false);
    pfl_sweep(sweep_one, &check, false);
    pfl_sweep(sweep_one, &read, false);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)

/* How many rows a request may have when it begins. */
static uint64_t rows_of(Perfleet__CollectorRequest *request)
{
    struct pfl_job_conf conf = {
        .scope = world.scope, .operator_name = "ann", .now_unix_ns = WORLD_NOW};
    struct pfl_job *job = NULL;
    struct pfl_buf packed;
    uint64_t rows;

    request->has_id = 1;
    request->id = 7;
    pfl_buf_init(&packed, 1u << 20);
    assert_int_equal(pfl_proto_pack(&request->base, &packed), 0);
    conf.packed = pfl_buf_get(&packed);
    assert_int_equal(pfl_job_new(&conf, &job), 0);
    assert_int_equal(pfl_job_work_prepare(job), 0);
    rows = job->rows_left;
    pfl_job_work_release(job);
    pfl_job_free(job);
    pfl_buf_fini(&packed);
    return rows;
}

static void only_a_list_without_ids_and_a_limit_has_the_usual_one(void **state)
{
    Perfleet__CollectorRequest list = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest check = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *one[] = {world_text("01J0000000000000000000000A")};

    (void)state;
    list.list = &query;
    check.verify = &query;
    assert_int_equal(rows_of(&list), PFL_INDEX_LIMIT);
    assert_true(rows_of(&check) == UINT64_MAX);
    query.id = one;
    query.n_id = 1;
    assert_true(rows_of(&list) == UINT64_MAX);
    query.has_limit = 1;
    query.limit = 5;
    assert_int_equal(rows_of(&list), 5);
    assert_int_equal(rows_of(&check), 5);
    world_drop_replies();
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x82ccabb22e4414e9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_list_has_what_the_policy_lets_the_operator_see),
        CASE(a_list_in_parts_misses_none),
        CASE(a_cursor_continues_after_the_limit),
        CASE(traces_are_found_by_their_ids),
        CASE(many_ids_are_looked_up_in_steps),
        CASE(a_sum_has_what_the_policy_lets_the_operator_see),
        CASE(a_sum_of_many_is_made_in_steps),
        CASE(what_a_reader_fetches_is_not_kept),
        CASE(bytes_come_in_parts_and_in_order),
        CASE(what_is_fetched_is_kept_for_a_day),
        CASE(what_is_not_there_has_no_bytes),
        CASE(an_object_that_is_shorter_is_a_failure),
        CASE(a_folder_has_no_links),
        CASE(links_are_of_what_the_operator_may_see),
        CASE(verify_lists_what_is_not_as_it_was),
        CASE(a_pin_has_the_operators_own_name),
        CASE(each_change_names_its_traces),
        CASE(what_is_removed_is_a_tombstone),
        CASE(what_is_pinned_stays_and_is_said),
        CASE(a_limit_holds_for_changes),
        CASE(what_the_policy_does_not_give_is_refused),
        CASE(a_step_that_cannot_be_done_is_said),
        CASE(what_is_no_request_is_refused),
        CASE(an_empty_part_says_that_work_goes_on),
        cmocka_unit_test(all_of_this_is_as_recorded),
        CASE(every_allocation_may_fail),
        CASE(a_list_says_how_far_it_looked),
        CASE(a_sum_says_how_far_it_looked),
        CASE(only_a_list_without_ids_and_a_limit_has_the_usual_one),
    };
    pfl_record_begin();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
