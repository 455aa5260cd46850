/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question of the BigTrace page, with a collector over a socket in place of the relay's stream,
 * and a played Trace Processor: rows, what is partial, cancel, and each allocation failing once.
 */
#include "consumer/web/bigtrace/bigtrace_execution_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "consumer/text.h"
#include "perfleet/collector.pb-c.h"
#include "tests/support/sweep.h"
#include "tunnel/client.h"

#define TRACES 3u

static struct world {
    uv_loop_t loop;
    struct pfl_web_conf web;
    struct pfl_bigtrace_execution *execution;
    bool is_over;
    int far_end; /* the collector's; -1: none */
    uint8_t in[4096];
    size_t in_len;
    bool has_junk; /* as the first trace */
    bool is_silent;
} w;

int pfl_tunnel_client_dial(struct pfl_tunnel_client *self, const struct pfl_tunnel_place *place,
                           const struct pfl_stream_conf *conf, struct pfl_stream **ret_stream)
{
    int fds[2];
    int rc;

    (void)self;
    (void)place;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    rc = pfl_fdsock_open(conf, fds[0], ret_stream);
    if (rc != 0)
        (void)close(fds[0]);
    if (w.far_end >= 0)
        (void)close(w.far_end);
    w.far_end = fds[1];
    return rc;
}

const char *pfl_tunnel_stream_get_error(const struct pfl_stream *stream)
{
    (void)stream;
    return "";
}

/* ---- the collector: it has memory of its own ---- */

static void send_reply(Perfleet__CollectorReply *r, uint32_t id)
{
    uint8_t frame[2048];
    size_t len;

    r->has_id = 1;
    r->id = id;
    len = protobuf_c_message_pack(&r->base, frame + 4);
    for (unsigned i = 0; i < 4; i++)
        frame[i] = (uint8_t)(len >> (8 * i));
    (void)!write(w.far_end, frame, len + 4);
}

static void send_list(uint32_t id)
{
    static char ids[TRACES][27] = {"01JDK8V2R7X0000000000000AA", "01JDK8V2R7X0000000000000AB",
                                   "01JDK8V2R7X0000000000000AC"};
    static char hosts[TRACES][4] = {"db1", "web", "db1"};
    Perfleet__CollectorReply r = PERFLEET__COLLECTOR_REPLY__INIT;
    Perfleet__StoredTrace traces[TRACES];
    Perfleet__Segment segments[TRACES];
    Perfleet__StoredTrace *list[TRACES];

    for (size_t i = 0; i < TRACES; i++) {
        perfleet__segment__init(&segments[i]);
        perfleet__stored_trace__init(&traces[i]);
        segments[i].host = hosts[i];
        segments[i].has_bytes = segments[i].has_begin_unix_ns = 1;
        segments[i].bytes = 2;
        segments[i].begin_unix_ns = i + 1;
        traces[i].id = ids[i];
        traces[i].segment = &segments[i];
        list[i] = &traces[i];
    }
    r.trace = list;
    r.n_trace = TRACES;
    send_reply(&r, id);
}

static void send_piece(uint32_t id, const char *trace)
{
    static uint8_t whole[] = {'\n', 0};
    static uint8_t junk[] = {'x', 'x'};
    Perfleet__CollectorReply r = PERFLEET__COLLECTOR_REPLY__INIT;
    bool is_junk = w.has_junk && trace[25] == 'A';

    r.has_data = 1;
    r.data = (ProtobufCBinaryData){2, is_junk ? junk : whole};
    send_reply(&r, id);
}

static void serve_one(size_t len)
{
    Perfleet__CollectorRequest *request = perfleet__collector_request__unpack(NULL, len, w.in + 4);

    assert_non_null(request);
    if (request->list != NULL)
        send_list(request->id);
    else
        send_piece(request->id, request->get->trace);
    perfleet__collector_request__free_unpacked(request, NULL);
}

static void serve(void)
{
    ssize_t n = w.far_end >= 0 && !w.is_silent
                    ? read(w.far_end, w.in + w.in_len, sizeof(w.in) - w.in_len)
                    : -1;

    w.in_len += n > 0 ? (size_t)n : 0;
    while (w.in_len > 4 && w.in_len >= 4u + w.in[0] + 256u * w.in[1]) {
        size_t len = w.in[0] + 256u * w.in[1];

        serve_one(len);
        w.in_len -= 4 + len;
        memmove(w.in, w.in + 4 + len, w.in_len);
    }
}

/* ---- the page ---- */

static void on_end(void *user, struct pfl_bigtrace_execution *execution)
{
    (void)user;
    (void)execution;
    w.is_over = true;
}

static int open_world(const char *self, const char *sql, const char *members)
{
    const struct pfl_bigtrace_execution_conf conf = {
        .web = &w.web, .is_kept = true, .on_end = on_end};
    struct pfl_bigtrace_request request;
    char body[512];
    const char *why = NULL;
    int rc;

    w.execution = NULL;
    w.is_over = false;
    w.far_end = -1;
    w.in_len = 0;
    assert_int_equal(pfl_loop_init(&w.loop), 0);
    w.web = (struct pfl_web_conf){.conn = {.loop = &w.loop},
                                  .timeout_ms = 20000,
                                  .collector = "keep",
                                  .ask = {.engine = {.program = "/bin/false",
                                                     .self = self,
                                                     .sandbox = PFL_SANDBOX_OFF,
                                                     .jobs = 2,
                                                     .max_mib = 2048,
                                                     .max_time_ms = 60000}}};
    (void)snprintf(body, sizeof(body), "{\"perfetto_sql\":\"%s\",\"limit\":1000%s}", sql, members);
    rc = pfl_bigtrace_request_parse(PFL_BIGTRACE_EXECUTE, pfl_span_of(body, strlen(body)), &request,
                                    &why);
    if (rc == 0)
        rc = pfl_bigtrace_execution_open(&conf, &request, &w.execution, &why);
    if (w.execution == NULL)
        pfl_bigtrace_request_fini(&request);
    return rc;
}

static void run(void)
{
    while (w.execution != NULL && !w.is_over) {
        serve();
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    }
}

static void close_world(void)
{
    run();
    pfl_bigtrace_execution_free(w.execution);
    if (w.far_end >= 0)
        (void)close(w.far_end);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    w.has_junk = w.is_silent = false;
    pfl_sweep_assert_no_leak();
}

static struct pfl_bigtrace_facts facts_of(void)
{
    struct pfl_bigtrace_facts facts;

    pfl_bigtrace_execution_get_facts(w.execution, &facts);
    return facts;
}

/* ---- */

static void rows_of_all_traces_come_with_what_is_known_of_these(void **state)
{
    size_t columns[PFL_BIGTRACE_COLUMNS_MAX];
    const struct pfl_bigtrace_table *t;
    struct pfl_cell cell;

    (void)state;
    assert_int_equal(open_world(PFL_PLAYED_PROCESSOR, "packets",
                                ",\"trace_metadata_columns\":[\"host\"],\"trace_filters\":[{"
                                "\"field\":\"host\",\"op\":\"=\",\"value\":\"web\"}]"),
                     0);
    assert_int_equal(facts_of().status, PFL_BIGTRACE_IN_PROGRESS);
    run();
    assert_int_equal(facts_of().status, PFL_BIGTRACE_SUCCESS);
    assert_string_equal(facts_of().error, "");
    assert_int_equal(facts_of().rows, 1);
    assert_int_equal(facts_of().traces, 1);
    assert_int_equal(facts_of().total, 1);
    t = pfl_bigtrace_execution_get_table(w.execution);
    assert_int_equal(pfl_bigtrace_execution_get_columns(w.execution, columns), 6);
    assert_string_equal(pfl_bigtrace_table_get_name(t, columns[0]), "packets");
    assert_string_equal(pfl_bigtrace_table_get_name(t, columns[5]), "host");
    cell = pfl_bigtrace_table_get_cell(t, 0, columns[5]);
    assert_memory_equal(cell.bytes.data, "web", 3);
    pfl_bigtrace_execution_drop_rows(w.execution);
    assert_int_equal(facts_of().rows, 1);
    close_world();
}

static void answer_without_a_trace_is_partial_and_keeps_its_rows(void **state)
{
    (void)state;
    w.has_junk = true;
    assert_int_equal(open_world(PFL_PLAYED_PROCESSOR, "packets", ""), 0);
    run();
    assert_int_equal(facts_of().status, PFL_BIGTRACE_FAILED);
    assert_non_null(strstr(facts_of().error, "0000AA of db1 is passed over: it cannot be read"));
    assert_non_null(strstr(facts_of().error, "partial: 1 of 3 traces are passed over"));
    assert_int_equal(facts_of().rows, 2);
    close_world();
}

static void limit_ends_it(void **state)
{
    (void)state;
    assert_int_equal(open_world(PFL_PLAYED_PROCESSOR, "rows 5000", ""), 0);
    run();
    assert_int_equal(facts_of().status, PFL_BIGTRACE_SUCCESS);
    assert_int_equal(facts_of().rows, 1000);
    close_world();
}

static void what_cannot_be_chosen_is_said(void **state)
{
    (void)state;
    assert_int_equal(open_world("/bin/false", "x", ",\"trace_order_by\":\"shoe asc\""), 0);
    run();
    assert_int_equal(facts_of().status, PFL_BIGTRACE_FAILED);
    assert_string_equal(facts_of().error, "Traces have no column shoe.");
    close_world();
    assert_int_equal(open_world("/bin/false", "x",
                                ",\"trace_filters\":[{\"field\":\"host\",\"op\":\"is null\"}]"),
                     0);
    run();
    assert_string_equal(facts_of().error, "No trace is selected.");
    close_world();
}

static void cancelled_it_ends_at_once(void **state)
{
    (void)state;
    w.is_silent = true;
    assert_int_equal(open_world("/bin/false", "x", ""), 0);
    pfl_bigtrace_execution_cancel(w.execution);
    pfl_bigtrace_execution_cancel(w.execution);
    run();
    assert_int_equal(facts_of().status, PFL_BIGTRACE_CANCELLED);
    close_world();
    assert_int_equal(open_world(PFL_PLAYED_PROCESSOR, "wait", ""), 0);
    while (facts_of().total == 0) {
        serve();
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    }
    for (unsigned i = 0; i < 5; i++)
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    pfl_bigtrace_execution_cancel(w.execution);
    run();
    assert_int_equal(facts_of().status, PFL_BIGTRACE_CANCELLED);
    close_world();
}

static void collector_that_leaves_is_said(void **state)
{
    (void)state;
    w.is_silent = true;
    assert_int_equal(open_world("/bin/false", "x", ""), 0);
    (void)shutdown(w.far_end, SHUT_RDWR);
    run();
    assert_int_equal(facts_of().status, PFL_BIGTRACE_FAILED);
    assert_non_null(strstr(facts_of().error, "The collector: "));
    close_world();
}

static void every_allocation_may_fail(void **state)
{
    struct pfl_mem_stats stats;
    bool has_failed = true;

    (void)state;
    for (uint64_t n = 1; has_failed; n++) {
        pfl_mem_fail_at(n);
        (void)open_world("/bin/false", "x", "");
        run();
        pfl_mem_stats_get(&stats);
        has_failed = stats.allocations >= n;
        pfl_mem_fail_at(0);
        if (w.execution != NULL)
            assert_int_equal(facts_of().status, PFL_BIGTRACE_FAILED);
        close_world();
    }
}

static int set_up(void **state)
{
    (void)state;
    pfl_text_init_json();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_traces_come_with_what_is_known_of_these),
        cmocka_unit_test(answer_without_a_trace_is_partial_and_keeps_its_rows),
        cmocka_unit_test(limit_ends_it),
        cmocka_unit_test(what_cannot_be_chosen_is_said),
        cmocka_unit_test(cancelled_it_ends_at_once),
        cmocka_unit_test(collector_that_leaves_is_said),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
