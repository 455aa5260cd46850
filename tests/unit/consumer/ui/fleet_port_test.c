/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages before the port of all hosts, with two played hosts: what they record, what they receive
 * of hosts that fail, and what is left when they go at any moment: nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"
#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/ui/fleet_port.h"
#include "proto/ipc/rpc_client.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define HOSTS     2u
#define PACKETS   50u
#define PREAMBLE  5u /* clock, two names, one clock point, one clock quality */
#define TEXT_MAX  4096u
#define TRACE_MAX 65536u
#define MOMENTS   60u

/* EnableTracingRequest { trace_config { buffers { size_kb: 64 } data_sources { config {} } } } */
static const char enable[] = "\x0a\x08\x0a\x02\x08\x40\x12\x02\x0a\x00";
/* The same without data sources. */
static const char enable_bare[] = "\x0a\x04\x0a\x02\x08\x40";

struct page {
    struct world *world;
    struct pfl_stream *stream; /* NULL: closed */
    struct pfl_rpc_client *rpc;
    bool is_bound;
    unsigned replies; /* last ones */
    bool was_success; /* the last of them */
    char error[TEXT_MAX];
    uint8_t body[TRACE_MAX]; /* of the last request's replies */
    size_t body_len;
    unsigned packets; /* that ended in replies, of ReadBuffers */
};

struct world {
    uv_loop_t loop;
    struct fake_host fakes[HOSTS];
    struct pfl_host_spec specs[HOSTS];
    struct pfl_fleet *fleet; /* NULL: closed */
    struct page page;
    char said[TEXT_MAX]; /* of on_client_gone: the last that is not empty */
    unsigned gone;
    uint64_t max_trace_bytes;
};

/* ---- a page ---- */

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    return pfl_stream_writev(((struct page *)user)->stream, iov, iov_len, fd);
}

static void on_data(void *user, struct pfl_span data)
{
    struct page *p = user;

    if (pfl_rpc_client_feed(p->rpc, data) != 0)
        pfl_stream_close(p->stream);
}

static void on_eof(void *user)
{
    pfl_stream_close(((struct page *)user)->stream);
}

static void on_closed(void *user, int err)
{
    struct page *p = user;

    (void)err;
    pfl_rpc_client_free(p->rpc);
    p->rpc = NULL;
    p->stream = NULL;
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static int on_bound(void *user, bool is_bound)
{
    ((struct page *)user)->is_bound = is_bound;
    return 0;
}

static unsigned count_ends(struct pfl_span body)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field slice;
    struct pfl_field f;
    unsigned ends = 0;

    while (pfl_reader_field(&r, &slice)) {
        struct pfl_reader s = pfl_reader_of(slice.bytes);

        while (slice.id == 2 && slice.type == PFL_WIRE_BYTES && pfl_reader_field(&s, &f))
            ends += f.id == 2 && f.value != 0;
    }
    return ends;
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct page *p = user;

    p->packets += count_ends(reply->body);

    if (reply->body.len <= sizeof(p->body) - p->body_len) {
        if (reply->body.len != 0)
            memcpy(p->body + p->body_len, reply->body.data, reply->body.len);
        p->body_len += reply->body.len;
    }
    p->was_success = reply->success;
    p->replies += !reply->has_more;
    return 0;
}

/* False: without memory. */
static bool come(struct world *w)
{
    struct page *p = &w->page;
    struct pfl_rpc_client_conf rpc = {.user = p, .send = send_frame};
    struct pfl_stream_conf conf = {
        .loop = &w->loop, .ops = &ops, .user = p, .queue_max_bytes = 65536};
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets),
                     0);
    memset(p, 0, sizeof(*p));
    p->world = w;
    if (pfl_fdsock_open(&conf, sockets[0], &p->stream) != 0) {
        close(sockets[0]);
        close(sockets[1]);
        return false;
    }
    pfl_fleet_adopt(w->fleet, sockets[1]);
    if (pfl_rpc_client_new(&rpc, &p->rpc) != 0 ||
        pfl_rpc_client_bind(p->rpc, "ConsumerPort", on_bound, p) != 0) {
        pfl_stream_close(p->stream);
        while (p->stream != NULL)
            uv_run(&w->loop, UV_RUN_ONCE);
        return false;
    }
    while (!p->is_bound && p->stream != NULL)
        uv_run(&w->loop, UV_RUN_ONCE);
    return p->stream != NULL;
}

static bool say(struct page *p, const char *method, const char *args, size_t len)
{
    p->body_len = 0;
    return p->stream != NULL &&
           pfl_rpc_client_invoke(p->rpc, method, pfl_span_of(args, len), -1, on_reply, p) == 0;
}

static bool ask(struct page *p, const char *method, const char *args, size_t len)
{
    unsigned had = p->replies;

    if (!say(p, method, args, len))
        return false;
    while (p->replies == had && p->stream != NULL)
        uv_run(&p->world->loop, UV_RUN_ONCE);
    return p->replies != had;
}

#define ASK(page, method, args) ask(page, method, args, sizeof(args) - 1)

/* EnableTracing until its end; the error, "" if there is none. */
static const char *record(struct page *p, const char *args, size_t len)
{
    struct pfl_reader r;
    struct pfl_field f;

    p->error[0] = '\0';
    if (!ask(p, "EnableTracing", args, len) || !p->was_success)
        return "no answer";
    r = pfl_reader_of(pfl_span_of(p->body, p->body_len));
    while (pfl_reader_field(&r, &f))
        if (f.id == 3)
            (void)snprintf(p->error, sizeof(p->error), "%.*s", (int)f.bytes.len,
                           (const char *)f.bytes.data);
    assert_false(r.failed);
    return p->error;
}

static void leave(struct page *p)
{
    unsigned had = p->world->gone;

    if (p->stream == NULL)
        return;
    pfl_stream_close(p->stream);
    while (p->stream != NULL || p->world->gone == had)
        uv_run(&p->world->loop, UV_RUN_ONCE);
}

/* Packets, and whether one of their slices has this text. */
static unsigned count_packets(const struct page *p, const char *text, bool *ret_has_text)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(p->body, p->body_len));
    struct pfl_field slice;
    struct pfl_field f;
    unsigned packets = 0;

    *ret_has_text = false;
    while (pfl_reader_field(&r, &slice)) {
        struct pfl_reader s = pfl_reader_of(slice.bytes);

        assert_int_equal(slice.id, 2);
        while (pfl_reader_field(&s, &f)) {
            packets += f.id == 2 && f.value != 0;
            if (f.id == 1 && memmem(f.bytes.data, f.bytes.len, text, strlen(text)) != NULL)
                *ret_has_text = true;
        }
        assert_false(s.failed);
    }
    assert_false(r.failed);
    return packets;
}

/* ---- the world ---- */

static void on_client_gone(void *user, const char *why)
{
    struct world *w = user;

    if (why[0] != '\0')
        (void)snprintf(w->said, sizeof(w->said), "%s", why);
    w->gone += strncmp(why, "hosts that", 10) != 0;
}

static void on_fleet_closed(void *user)
{
    struct world *w = user;

    w->fleet = NULL;
    for (size_t i = 0; i < HOSTS; i++)
        fake_host_close(&w->fakes[i]);
}

static int open_fleet(struct world *w, size_t quorum)
{
    struct pfl_fleet_conf conf = {
        .recording = {.each_host = {.conn = {.loop = &w->loop}, .step_timeout_ms = 60000},
                      .specs = w->specs,
                      .specs_len = HOSTS,
                      .quorum = quorum},
        .max_trace_bytes = w->max_trace_bytes,
        .version = "1.2.3",
        .on_client_gone = on_client_gone,
        .on_closed = on_fleet_closed,
        .user = w,
    };
    int rc = pfl_loop_init(&w->loop) == 0 ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < HOSTS; i++) {
        rc = fake_host_open(&w->fakes[i], &w->loop);
        w->specs[i] = (struct pfl_host_spec){.kind = PFL_HOST_UNIX, .is_named = true};
        (void)snprintf(w->specs[i].name, sizeof(w->specs[i].name), "h%zu", i);
        (void)snprintf(w->specs[i].address, sizeof(w->specs[i].address), "%s", w->fakes[i].address);
        (void)snprintf(w->specs[i].text, sizeof(w->specs[i].text), "fake");
    }
    return rc != 0 ? rc : pfl_fleet_open(&conf, &w->fleet);
}

static void prepare(struct world *w)
{
    memset(w, 0, sizeof(*w));
    pfl_log_set_level(PFL_LOG_ERROR);
    for (size_t i = 0; i < HOSTS; i++) {
        w->fakes[i].packets = PACKETS;
        w->fakes[i].packet_bytes = 100;
        w->fakes[i].trick = FAKE_ENDS;
    }
}

static void end(struct world *w)
{
    if (w->fleet != NULL)
        pfl_fleet_close(w->fleet);
    else
        on_fleet_closed(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_null(w->fleet);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    pfl_closer_wait();
    pfl_sweep_assert_no_leak();
}

static struct world world;

static struct page *begin(size_t quorum)
{
    assert_int_equal(open_fleet(&world, quorum), 0);
    assert_true(come(&world));
    return &world.page;
}

/* ---- claims ---- */

static void a_page_gets_one_trace_of_both_hosts(void **state)
{
    struct page *p;
    bool has_note;

    (void)state;
    prepare(&world);
    p = begin(HOSTS);
    assert_string_equal(record(p, enable, sizeof(enable) - 1), "");
    assert_true(ASK(p, "ReadBuffers", ""));
    assert_int_equal(count_packets(p, "hosts that the trace lacks", &has_note),
                     HOSTS * PACKETS + PREAMBLE);
    assert_false(has_note);
    assert_string_equal(world.said, "");
    assert_true(ASK(p, "ReadBuffers", "")); /* once */
    assert_int_equal(p->body_len, 0);
    assert_string_equal(record(p, enable, sizeof(enable) - 1), ""); /* and another one */
    assert_true(ASK(p, "FreeBuffers", ""));
    assert_true(ASK(p, "ReadBuffers", ""));
    assert_int_equal(p->body_len, 0);
    end(&world);
}

static void a_host_that_is_not_ready_is_named_in_the_error(void **state)
{
    struct page *p;

    (void)state;
    prepare(&world);
    world.fakes[1].trick = FAKE_FAILS;
    world.fakes[1].method = "EnableTracing";
    p = begin(HOSTS);
    assert_non_null(
        strstr(record(p, enable, sizeof(enable) - 1), "only 1 of 2 hosts are ready, 2 are needed"));
    assert_non_null(strstr(p->error, ": h1 ("));
    assert_null(strstr(p->error, "h0"));
    end(&world);
}

static void a_host_that_dies_later_is_named_in_the_trace(void **state)
{
    struct page *p;
    bool has_note;

    (void)state;
    prepare(&world);
    world.fakes[1].trick = FAKE_DIES;
    world.fakes[1].method = "StartTracing";
    p = begin(HOSTS);
    assert_string_equal(record(p, enable, sizeof(enable) - 1), "");
    assert_non_null(strstr(world.said, "hosts that the trace lacks"));
    assert_non_null(strstr(world.said, "h1 ("));
    assert_true(ASK(p, "ReadBuffers", ""));
    assert_true(count_packets(p, "h1 (", &has_note) >= PACKETS);
    end(&world);
}

static void what_cannot_be_recorded_is_refused_at_once(void **state)
{
    struct page *p;

    (void)state;
    prepare(&world);
    p = begin(HOSTS);
    assert_non_null(strstr(record(p, enable_bare, sizeof(enable_bare) - 1), "no data_sources"));
    assert_non_null(strstr(record(p, "", 0), "no trace config"));
    assert_true(ASK(p, "CloneSession", ""));
    assert_non_null(memmem(p->body, p->body_len, "unique_session_name", 19));
    assert_true(ASK(p, "GetTraceStats", ""));
    assert_false(p->was_success);
    assert_true(say(p, "EnableTracing", enable, sizeof(enable) - 1));
    assert_non_null(strstr(record(p, enable, sizeof(enable) - 1), "has a recording already"));
    end(&world);
}

static void a_trace_that_is_too_large_is_refused_with_the_remedy(void **state)
{
    struct page *p;

    (void)state;
    prepare(&world);
    world.max_trace_bytes = HOSTS * PACKETS * 100;
    p = begin(HOSTS);
    assert_non_null(strstr(record(p, enable, sizeof(enable) - 1), "take smaller buffers"));
    assert_true(ASK(p, "ReadBuffers", ""));
    assert_int_equal(p->body_len, 0);
    end(&world);
}

/* The page is held back in the middle: nothing is lost, and nothing is kept for it in memory. */
static void a_page_that_reads_slowly_gets_all_of_it(void **state)
{
    struct page *p;
    unsigned had;

    (void)state;
    prepare(&world);
    world.fakes[0].packets = world.fakes[1].packets = 5000;
    world.fakes[0].packet_bytes = world.fakes[1].packet_bytes = 400;
    p = begin(HOSTS);
    assert_string_equal(record(p, enable, sizeof(enable) - 1), "");
    had = p->replies;
    p->packets = 0;
    assert_true(say(p, "ReadBuffers", "", 0));
    while (p->replies == had) {
        pfl_stream_read_stop(p->stream);
        for (unsigned i = 0; i < 20; i++)
            uv_run(&world.loop, UV_RUN_NOWAIT);
        pfl_stream_read_start(p->stream);
        uv_run(&world.loop, UV_RUN_ONCE);
    }
    assert_int_equal(p->packets, HOSTS * 5000 + PREAMBLE);
    end(&world);
}

static void the_state_names_who_is_missing(void **state)
{
    struct page *p;

    (void)state;
    prepare(&world);
    world.fakes[1].trick = FAKE_DIES;
    world.fakes[1].method = "QueryServiceState";
    p = begin(HOSTS);
    assert_true(ASK(p, "QueryServiceState", ""));
    assert_non_null(
        memmem(p->body, p->body_len, "perfleet 1.2.3: 1 of 2 hosts; missing: h1 (", 43));
    end(&world);
}

static void a_page_that_asks_for_the_state_again_gets_it_again(void **state)
{
    struct page *p;

    (void)state;
    prepare(&world);
    p = begin(HOSTS);
    for (unsigned i = 0; i < PFL_FLEET_MAX_STATE_REQUESTS; i++)
        assert_true(say(p, "QueryServiceState", "", 0));
    while (p->replies < PFL_FLEET_MAX_STATE_REQUESTS) {
        uv_run(&world.loop, UV_RUN_ONCE);
        assert_true(p->replies == 0 || p->was_success);
    }
    assert_true(ASK(p, "QueryServiceState", ""));
    assert_true(p->was_success);
    for (unsigned i = 0; i < PFL_FLEET_MAX_STATE_REQUESTS; i++)
        assert_true(say(p, "QueryServiceState", "", 0));
    assert_true(ASK(p, "QueryServiceState", "")); /* one too many is refused before the others */
    assert_false(p->was_success);
    end(&world);
}

static void a_page_that_goes_at_any_moment_leaves_nothing(void **state)
{
    (void)state;
    for (unsigned moment = 0; moment < MOMENTS; moment++) {
        struct page *p;

        prepare(&world);
        p = begin(HOSTS);
        assert_true(say(p, "QueryServiceState", "", 0));
        assert_true(say(p, "EnableTracing", enable, sizeof(enable) - 1));
        for (unsigned i = 0; i < moment; i++)
            uv_run(&world.loop, UV_RUN_NOWAIT);
        leave(p);
        assert_true(come(&world));
        assert_string_equal(record(&world.page, enable, sizeof(enable) - 1), "");
        end(&world);
    }
}

static void the_fleet_can_be_closed_at_any_moment(void **state)
{
    (void)state;
    for (unsigned moment = 0; moment < MOMENTS; moment++) {
        struct page *p;

        prepare(&world);
        p = begin(HOSTS);
        assert_true(say(p, "EnableTracing", enable, sizeof(enable) - 1));
        assert_true(say(p, "QueryServiceState", "", 0));
        for (unsigned i = 0; i < moment; i++)
            uv_run(&world.loop, UV_RUN_NOWAIT);
        end(&world);
    }
}

static int use_once(void *arg)
{
    struct world *w = arg;
    int rc;

    prepare(w);
    rc = open_fleet(w, 1);
    if (rc == 0 && come(w)) {
        (void)ASK(&w->page, "QueryServiceState", "");
        if (record(&w->page, enable, sizeof(enable) - 1)[0] == '\0')
            (void)ASK(&w->page, "ReadBuffers", "");
        leave(&w->page);
    }
    end(w);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(use_once, &world, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_gets_one_trace_of_both_hosts),
        cmocka_unit_test(a_host_that_is_not_ready_is_named_in_the_error),
        cmocka_unit_test(a_host_that_dies_later_is_named_in_the_trace),
        cmocka_unit_test(what_cannot_be_recorded_is_refused_at_once),
        cmocka_unit_test(a_trace_that_is_too_large_is_refused_with_the_remedy),
        cmocka_unit_test(a_page_that_reads_slowly_gets_all_of_it),
        cmocka_unit_test(the_state_names_who_is_missing),
        cmocka_unit_test(a_page_that_asks_for_the_state_again_gets_it_again),
        cmocka_unit_test(a_page_that_goes_at_any_moment_leaves_nothing),
        cmocka_unit_test(the_fleet_can_be_closed_at_any_moment),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
