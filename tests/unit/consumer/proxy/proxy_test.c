/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of a proxy before a played host: what is still under way when a client goes, and the
 * host answers it nevertheless. The files that a proxy writes: tests/integration/tunnel_test.sh.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/proxy/proxy.h"
#include "proto/ipc/rpc_client.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define CLIENTS 3u

struct client {
    struct world *world;
    struct pfl_stream *stream; /* NULL: closed */
    struct pfl_rpc_client *rpc;
    bool is_bound;
    unsigned replies;
    bool is_refused; /* the last one says so */
};

struct world {
    uv_loop_t loop;
    struct fake_host host;
    struct pfl_host_spec spec;
    struct pfl_proxy *proxy; /* NULL: closed */
    struct client clients[CLIENTS];
    unsigned gone;
    char path[32];
};

/* ---- a client ---- */

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    return pfl_stream_writev(((struct client *)user)->stream, iov, iov_len, fd);
}

static void on_data(void *user, struct pfl_span data)
{
    assert_int_equal(pfl_rpc_client_feed(((struct client *)user)->rpc, data), 0);
}

static void on_eof(void *user)
{
    pfl_stream_close(((struct client *)user)->stream);
}

static void on_closed(void *user, int err)
{
    struct client *c = user;

    (void)err;
    pfl_rpc_client_free(c->rpc);
    c->rpc = NULL;
    c->stream = NULL;
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static int on_bound(void *user, bool is_bound)
{
    ((struct client *)user)->is_bound = is_bound;
    return 0;
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct client *c = user;

    c->replies++;
    c->is_refused = !reply->success;
    return 0;
}

static struct client *join(struct world *w, unsigned i)
{
    struct client *c = &w->clients[i];
    struct pfl_rpc_client_conf rpc = {.user = c, .send = send_frame};
    struct pfl_stream_conf conf = {
        .loop = &w->loop, .ops = &ops, .user = c, .queue_max_bytes = 65536};
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets),
                     0);
    c->world = w;
    assert_int_equal(pfl_fdsock_open(&conf, sockets[0], &c->stream), 0);
    assert_int_equal(pfl_rpc_client_new(&rpc, &c->rpc), 0);
    pfl_proxy_adopt(w->proxy, sockets[1]);
    assert_int_equal(pfl_rpc_client_bind(c->rpc, "ConsumerPort", on_bound, c), 0);
    while (!c->is_bound)
        uv_run(&w->loop, UV_RUN_ONCE);
    return c;
}

static void say(struct client *c, const char *method, const void *args, size_t len)
{
    assert_int_equal(pfl_rpc_client_invoke(c->rpc, method, pfl_span_of(args, len), -1, on_reply, c),
                     0);
}

/* And its answer; what was said before gets none. */
static void ask(struct client *c, const char *method, const char *args)
{
    unsigned had = c->replies;

    say(c, method, args, strlen(args));
    while (c->replies == had)
        uv_run(&c->world->loop, UV_RUN_ONCE);
}

/* A session whose file is written here: write_into_file, no period that matters. */
static void record(struct client *c)
{
    static const char config[] = "\x0a\x06\x40\x01\x48\xc0\xcf\x24";
    FILE *file = fopen(c->world->path, "w+e");

    assert_non_null(file);
    assert_int_equal(pfl_rpc_client_invoke(c->rpc, "EnableTracing",
                                           pfl_span_of(config, sizeof(config) - 1), fileno(file),
                                           on_reply, c),
                     0);
    ask(c, "QueryServiceState", "");
    assert_int_equal(fclose(file), 0);
}

static void leave(struct client *c)
{
    unsigned had = c->world->gone;

    pfl_stream_close(c->stream);
    while (c->world->gone == had)
        uv_run(&c->world->loop, UV_RUN_ONCE);
}

/* ---- the world ---- */

static void on_client_gone(void *user, const char *why)
{
    struct world *w = user;

    (void)why;
    w->gone++;
}

static void on_proxy_closed(void *user)
{
    struct world *w = user;

    w->proxy = NULL;
    fake_host_close(&w->host);
}

static void prepare(struct world *w)
{
    struct pfl_proxy_conf conf = {.host = {.loop = &w->loop, .spec = &w->spec},
                                  .on_client_gone = on_client_gone,
                                  .on_closed = on_proxy_closed,
                                  .user = w};

    pfl_log_set_level(PFL_LOG_ERROR);
    *w = (struct world){.host = {.packets = 2, .packet_bytes = 10, .trick = FAKE_TELLS_ON},
                        .spec = {.kind = PFL_HOST_UNIX}};
    (void)snprintf(w->path, sizeof(w->path), "/tmp/perfleet-test-XXXXXX");
    assert_int_equal(close(mkstemp(w->path)), 0);
    assert_int_equal(pfl_loop_init(&w->loop), 0);
    assert_int_equal(fake_host_open(&w->host, &w->loop), 0);
    (void)snprintf(w->spec.address, sizeof(w->spec.address), "%s", w->host.address);
    assert_int_equal(pfl_proxy_open(&conf, &w->proxy), 0);
}

static void end(struct world *w)
{
    pfl_proxy_close(w->proxy);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_null(w->proxy);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    assert_int_equal(unlink(w->path), 0);
    pfl_sweep_assert_no_leak();
}

static long file_bytes(const struct world *w)
{
    FILE *file = fopen(w->path, "re");
    long bytes;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    bytes = ftell(file);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

/* ---- claims ---- */

static void an_answer_right_behind_the_end_of_the_file_of_who_left_goes_nowhere(void **state)
{
    struct world w;
    struct client *c;

    (void)state;
    prepare(&w);
    c = join(&w, 0);
    record(c);
    say(c, "ObserveEvents", "", 0);
    ask(c, "QueryServiceState", ""); /* so the one before is at the host */
    leave(c);
    assert_true(file_bytes(&w) > 0);
    end(&w);
}

static void what_a_guest_asked_before_is_answered_after_its_host_is_gone(void **state)
{
    static const char first[] = "\x0a\x01"
                                "k";
    static const char second[] = "\x0a\x01"
                                 "l";
    struct world w;
    struct client *guest;
    unsigned replies;

    (void)state;
    prepare(&w);
    record(join(&w, 0));
    ask(&w.clients[0], "Detach", first);
    guest = join(&w, 1);
    say(guest, "ObserveEvents", "", 0);
    ask(guest, "Attach", first);
    ask(guest, "Detach", second);
    ask(join(&w, 2), "Attach", second);
    leave(&w.clients[2]); /* ends the session, and the connection that it was recorded on */
    while (w.clients[0].stream != NULL)
        uv_run(&w.loop, UV_RUN_ONCE);
    replies = guest->replies;
    say(guest, "ReadBuffers", "", 0);
    while (guest->replies < replies + w.host.packets + 2)
        uv_run(&w.loop, UV_RUN_ONCE);
    leave(guest);
    end(&w);
}

static void who_detached_a_session_cannot_detach_it_again(void **state)
{
    static const char key[] = "\x0a\x01"
                              "k";
    struct world w;
    struct client *c;

    (void)state;
    prepare(&w);
    c = join(&w, 0);
    record(c);
    ask(c, "Detach", key);
    assert_false(c->is_refused);
    ask(c, "Detach",
        "\x0a\x01"
        "l");
    assert_true(c->is_refused);
    ask(join(&w, 1), "Attach", key);
    assert_false(w.clients[1].is_refused);
    ask(c, "Detach", key); /* or another guest could come, and the first be forgotten */
    assert_true(c->is_refused);
    ask(join(&w, 2), "Attach", key); /* the host knows no such session either */
    leave(&w.clients[2]);
    leave(&w.clients[1]);
    while (c->stream != NULL)
        uv_run(&w.loop, UV_RUN_ONCE);
    end(&w);
}

static void a_file_that_has_no_room_ends_with_a_whole_packet(void **state)
{
    const struct rlimit small = {.rlim_cur = 35, .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    struct world w;
    struct client *c;
    uint8_t head[2] = {0};
    FILE *file;

    (void)state;
    prepare(&w);
    c = join(&w, 0);
    record(c);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_ptr_not_equal(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    leave(c); /* two packets of some 25 bytes are read out */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    file = fopen(w.path, "re");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, 2, file), 2);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(head[0], 0x0a);
    assert_int_equal(file_bytes(&w), 2 + head[1]);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_right_behind_the_end_of_the_file_of_who_left_goes_nowhere),
        cmocka_unit_test(who_detached_a_session_cannot_detach_it_again),
        cmocka_unit_test(a_file_that_has_no_room_ends_with_a_whole_packet),
        cmocka_unit_test(what_a_guest_asked_before_is_answered_after_its_host_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
