/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs before the HTTP port, on loopback: what they get, who is kept out, and what is left when
 * they leave at any moment: nothing.
 */
#include "consumer/http/http_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

#define TEXT_MAX   (8u << 20)
#define TURNS      200000u
#define TURN_US    20 /* while nothing comes: so that all turns are some seconds */
#define PART_BYTES (512u << 10)
#define PARTS      8u
#define PROXY_UID  54321u
#define STALL_MS   200u

enum manner {
    MANNER_NOW,
    MANNER_LATER,
    MANNER_PARTS,
    MANNER_SIZED,
    MANNER_SHORT,
    MANNER_ENDLESS,
    MANNER_IDLE, /* a body of which no part comes */
};

struct world {
    uv_loop_t loop;
    struct pfl_http_port *port;
    bool is_closed;
    enum manner manner;
    uint64_t long_linger_ms; /* 0: as in real life */
    unsigned requests;
    struct pfl_http_exchange *waiting; /* for an answer */
    unsigned parts;
    unsigned gone;
    bool was_whole;
    char said[256]; /* of the last request */
};

static bool are_peers_ours = true;
static char text[TEXT_MAX];
static uint8_t part[PART_BYTES];

static bool judge_peer(int fd, uint16_t own_port)
{
    assert_true(fd >= 0 && own_port != 0);
    return are_peers_ours;
}

/* ---- the handler ---- */

static void on_writable(void *user)
{
    struct world *w = user;

    while (w->parts != 0 && pfl_http_exchange_write(w->waiting, pfl_span_of(part, PART_BYTES)) == 0)
        w->parts--;
    if (w->parts == 0)
        pfl_http_exchange_end(w->waiting);
}

static void on_gone(void *user, bool is_whole)
{
    struct world *w = user;

    w->gone++;
    w->was_whole = is_whole;
    w->waiting = NULL;
}

static const struct pfl_http_body_ops body_ops = {.on_writable = on_writable, .on_gone = on_gone};

static void answer(struct pfl_http_exchange *x)
{
    static const char body[] = "hello";

    pfl_http_exchange_answer(x, &(struct pfl_http_answer){.status = 200,
                                                          .type = "text/plain",
                                                          .fields = "X-Test: yes\r\n",
                                                          .body = pfl_span_of(body, 5)});
}

static void on_request(void *user, struct pfl_http_exchange *x, const struct pfl_http_request *r)
{
    struct world *w = user;
    bool is_chunked = w->manner == MANNER_PARTS || w->manner >= MANNER_ENDLESS;
    int64_t length = is_chunked ? -1 : (int64_t)PARTS * PART_BYTES;

    w->requests++;
    (void)snprintf(w->said, sizeof(w->said), "%s %s %zu", r->method, r->path, r->body.len);
    if (w->manner == MANNER_NOW) {
        answer(x);
        return;
    }
    w->waiting = x;
    if (w->manner == MANNER_LATER)
        return;
    w->parts = w->manner == MANNER_SHORT     ? PARTS - 1
               : w->manner == MANNER_ENDLESS ? 100 * PARTS
                                             : PARTS;
    if (pfl_http_exchange_begin(x, &(struct pfl_http_answer){.status = 200, .type = "a/b"}, length,
                                &body_ops, w) == 0 &&
        w->manner != MANNER_IDLE)
        on_writable(w);
}

static void on_closed(void *user)
{
    ((struct world *)user)->is_closed = true;
}

/* ---- the world ---- */

static int open_world(struct world *w)
{
    struct pfl_http_port_conf conf = {.loop = &w->loop,
                                      .body_max_bytes = 100,
                                      .long_linger_ms = w->long_linger_ms,
                                      .is_peer_ours = judge_peer,
                                      .on_request = on_request,
                                      .on_closed = on_closed,
                                      .user = w};

    are_peers_ours = true;
    assert_int_equal(pfl_loop_init(&w->loop), 0);
    return pfl_http_port_open(&conf, &w->port);
}

static void close_world(struct world *w, bool is_open)
{
    if (is_open && !w->is_closed)
        pfl_http_port_close(w->port);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_true(w->is_closed == is_open);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    pfl_closer_wait();
    pfl_sweep_assert_no_leak();
}

static int dial(const struct world *w)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(pfl_http_port_get_number(w->port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void send_text(int fd, const char *what)
{
    assert_int_equal(send(fd, what, strlen(what), MSG_NOSIGNAL), strlen(what));
}

/* All that comes until the end, with the loop's turns between. */
static size_t read_all(struct world *w, int fd)
{
    size_t len = 0;

    for (unsigned i = 0; i < TURNS; i++) {
        ssize_t n;

        uv_run(&w->loop, UV_RUN_NOWAIT);
        n = recv(fd, text + len, sizeof(text) - len - 1, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        if (n < 0)
            (void)usleep(TURN_US);
        len += n > 0 ? (size_t)n : 0;
    }
    text[len] = '\0';
    return len;
}

static size_t visit(struct world *w, const char *request)
{
    int fd = dial(w);
    size_t len;

    send_text(fd, request);
    len = read_all(w, fd);
    (void)close(fd);
    return len;
}

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
    uv_close((uv_handle_t *)timer, NULL);
}

static void run_for(uv_loop_t *loop, uint64_t ms)
{
    bool is_over = false;
    uv_timer_t timer = {.data = &is_over};

    uv_update_time(loop);
    assert_int_equal(uv_timer_init(loop, &timer), 0);
    assert_int_equal(uv_timer_start(&timer, on_time, ms, 0), 0);
    while (!is_over)
        (void)uv_run(loop, UV_RUN_ONCE);
    (void)uv_run(loop, UV_RUN_NOWAIT); /* the timer is closed */
}

static const char get[] = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

/* ---- */

static void request_is_answered_and_the_connection_ends(void **state)
{
    struct world w = {0};

    (void)state;
    assert_int_equal(open_world(&w), 0);
    (void)visit(&w, get);
    assert_string_equal(text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
                              "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                              "Referrer-Policy: same-origin\r\nConnection: close\r\n"
                              "X-Test: yes\r\n\r\nhello");
    (void)visit(&w, "HEAD /y HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_non_null(strstr(text, "Content-Length: 5\r\n"));
    assert_null(strstr(text, "hello"));
    assert_string_equal(w.said, "HEAD /y 0");
    (void)visit(&w, "POST /z HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    assert_string_equal(w.said, "POST /z 3");
    close_world(&w, true);
}

static void refusals_do_not_reach_the_handler(void **state)
{
    struct world w = {0};

    (void)state;
    assert_int_equal(open_world(&w), 0);
    (void)visit(&w, "BREW /x HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_non_null(strstr(text, "HTTP/1.1 501 Not Implemented\r\n"));
    (void)visit(&w, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n");
    assert_non_null(strstr(text, "HTTP/1.1 413 "));
    assert_int_equal(w.requests, 0);
    close_world(&w, true);
}

static void programs_of_other_users_are_closed_before_a_byte_is_read(void **state)
{
    struct world w = {0};
    int fd;

    (void)state;
    assert_int_equal(open_world(&w), 0);
    are_peers_ours = false;
    fd = dial(&w);
    assert_int_equal(read_all(&w, fd), 0);
    (void)close(fd);
    assert_int_equal(w.requests, 0);
    are_peers_ours = true;
    assert_true(visit(&w, get) != 0);
    close_world(&w, true);
}

/* Bytes that a program of `uid` gets from the socket; it is a process of its own. */
static size_t visit_as(struct world *w, const char *path, uid_t uid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int ends[2];
    pid_t child;
    size_t len;

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char bytes[4096];
        ssize_t n;

        if ((uid != geteuid() && setuid(uid) != 0) ||
            connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
            _exit(1);
        (void)send(fd, get, sizeof(get) - 1, MSG_NOSIGNAL);
        n = recv(fd, bytes, sizeof(bytes), MSG_WAITALL);
        if (n > 0)
            (void)send(ends[1], bytes, (size_t)n, MSG_NOSIGNAL);
        _exit(0);
    }
    (void)close(ends[1]);
    len = read_all(w, ends[0]);
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return len;
}

static void socket_is_for_the_proxys_user_root_and_ours(void **state)
{
    char path[64];
    struct world w = {0};
    struct pfl_http_port_conf conf = {.loop = &w.loop,
                                      .body_max_bytes = 100,
                                      .socket = path,
                                      .proxy_uid = PROXY_UID,
                                      .on_request = on_request,
                                      .on_closed = on_closed,
                                      .user = &w};

    (void)state;
    memset(&w, 0, sizeof(w));
    assert_int_equal(pfl_loop_init(&w.loop), 0);
    (void)snprintf(path, sizeof(path), "/tmp/http_port_test.%d", (int)getpid());
    assert_int_equal(pfl_http_port_open(&conf, &w.port), 0);
    assert_int_equal(pfl_http_port_get_number(w.port), 0);
    assert_true(visit_as(&w, path, geteuid()) != 0);
    assert_non_null(strstr(text, "hello"));
    assert_int_equal(w.requests, 1);
    if (geteuid() == 0) {
        assert_true(visit_as(&w, path, PROXY_UID) != 0);
        assert_int_equal(w.requests, 2);
        assert_int_equal(visit_as(&w, path, PROXY_UID + 1), 0);
        assert_int_equal(w.requests, 2);
    } else {
        print_message("not root: other users were not tried\n");
    }
    close_world(&w, true);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void late_answer_finds_the_browser_or_nobody(void **state)
{
    struct world w = {0};
    int fd;

    (void)state;
    assert_int_equal(open_world(&w), 0);
    w.manner = MANNER_LATER;
    fd = dial(&w);
    send_text(fd, get);
    while (w.waiting == NULL)
        uv_run(&w.loop, UV_RUN_ONCE);
    answer(w.waiting);
    assert_true(read_all(&w, fd) != 0);
    (void)close(fd);

    w.waiting = NULL;
    fd = dial(&w);
    send_text(fd, get);
    while (w.waiting == NULL)
        uv_run(&w.loop, UV_RUN_ONCE);
    (void)close(fd); /* it leaves */
    for (unsigned i = 0; i < 100; i++)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    answer(w.waiting);
    close_world(&w, true);
}

static void closed_port_waits_for_the_handler(void **state)
{
    struct world w = {0};
    int fd;

    (void)state;
    assert_int_equal(open_world(&w), 0);
    w.manner = MANNER_LATER;
    fd = dial(&w);
    send_text(fd, get);
    while (w.waiting == NULL)
        uv_run(&w.loop, UV_RUN_ONCE);
    pfl_http_port_close(w.port);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_false(w.is_closed);
    assert_int_equal(pfl_http_exchange_begin(w.waiting, &(struct pfl_http_answer){.status = 200}, 0,
                                             &body_ops, &w),
                     PFL_ECLOSED);
    assert_false(w.is_closed); /* no callback from inside a call */
    (void)close(fd);
    close_world(&w, true);
}

static void body_in_parts_is_held_back_by_a_slow_browser_and_whole(void **state)
{
    struct world w = {0};
    size_t len;

    (void)state;
    memset(part, 'x', sizeof(part));
    assert_int_equal(open_world(&w), 0);
    w.manner = MANNER_PARTS;
    len = visit(&w, get);
    assert_non_null(strstr(text, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(text, "\r\n\r\n80000\r\nxxx"));
    assert_true(len > PARTS * PART_BYTES);
    assert_memory_equal(text + len - 7, "\r\n0\r\n\r\n", 7);
    while (w.gone == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_true(w.was_whole);

    w.manner = MANNER_SIZED;
    len = visit(&w, get);
    assert_non_null(strstr(text, "Content-Length: 4194304\r\n"));
    assert_int_equal(text + len - (strstr(text, "\r\n\r\n") + 4), PARTS * PART_BYTES);
    while (w.gone == 1)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_true(w.was_whole);
    close_world(&w, true);
}

static void body_that_breaks_off_is_not_whole(void **state)
{
    struct world w = {0};
    int fd;

    (void)state;
    assert_int_equal(open_world(&w), 0);
    w.manner = MANNER_SHORT;
    assert_true(visit(&w, get) < PARTS * PART_BYTES);
    assert_int_equal(w.gone, 1);
    assert_false(w.was_whole);

    w.manner = MANNER_SIZED;
    fd = dial(&w);
    send_text(fd, get);
    while (w.waiting == NULL)
        uv_run(&w.loop, UV_RUN_ONCE);
    (void)close(fd); /* with bytes that it has not read */
    while (w.gone == 1)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_false(w.was_whole);
    close_world(&w, true);
}

/* Its connection takes no more of the body, which may have GiB. */
static void body_ends_where_the_browser_breaks_off(void **state)
{
    const struct linger reset = {.l_onoff = 1};
    struct world w = {0};
    unsigned left;
    int fd;

    (void)state;
    assert_int_equal(open_world(&w), 0);
    w.manner = MANNER_ENDLESS;
    fd = dial(&w);
    send_text(fd, get);
    while (w.waiting == NULL)
        uv_run(&w.loop, UV_RUN_ONCE);
    left = w.parts;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    (void)close(fd);
    while (w.gone == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_int_equal(w.parts, left);
    assert_false(w.was_whole);
    close_world(&w, true);
}

/* While there is nothing to be read the connection stays, however long that is. */
static void browser_that_takes_nothing_of_a_body_in_parts_is_closed(void **state)
{
    struct world w = {.long_linger_ms = STALL_MS};
    int fd;

    (void)state;
    assert_int_equal(open_world(&w), 0);
    w.manner = MANNER_ENDLESS;
    fd = dial(&w);
    send_text(fd, get);
    for (unsigned i = 0; i < TURNS && w.gone == 0; i++)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_int_equal(w.gone, 1);
    assert_false(w.was_whole);
    assert_true(w.parts != 0);
    (void)close(fd);

    w.manner = MANNER_IDLE;
    fd = dial(&w);
    send_text(fd, get);
    run_for(&w.loop, 5 * STALL_MS);
    assert_int_equal(w.gone, 1);
    assert_non_null(w.waiting);
    (void)close(fd);
    while (w.gone == 1)
        uv_run(&w.loop, UV_RUN_ONCE);
    close_world(&w, true);
}

static void connections_without_a_request_give_way(void **state)
{
    int idle[PFL_HTTP_MAX_CONNECTIONS + 8];
    struct world w = {0};

    (void)state;
    assert_int_equal(open_world(&w), 0);
    for (unsigned i = 0; i < PFL_HTTP_MAX_CONNECTIONS + 8; i++) {
        idle[i] = dial(&w);
        for (unsigned k = 0; k < 10; k++)
            uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    assert_true(visit(&w, get) != 0);
    assert_non_null(strstr(text, "hello"));
    for (unsigned i = 0; i < PFL_HTTP_MAX_CONNECTIONS + 8; i++)
        (void)close(idle[i]);
    close_world(&w, true);
}

static void every_allocation_may_fail(void **state)
{
    struct pfl_mem_stats stats;
    bool has_failed = true;

    (void)state;
    for (uint64_t n = 1; has_failed; n++) {
        struct world w = {0};
        int rc;

        pfl_mem_fail_at(n);
        rc = open_world(&w);
        if (rc == 0)
            (void)visit(&w, get);
        pfl_mem_stats_get(&stats);
        has_failed = stats.allocations >= n;
        pfl_mem_fail_at(0);
        close_world(&w, rc == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_is_answered_and_the_connection_ends),
        cmocka_unit_test(refusals_do_not_reach_the_handler),
        cmocka_unit_test(programs_of_other_users_are_closed_before_a_byte_is_read),
        cmocka_unit_test(socket_is_for_the_proxys_user_root_and_ours),
        cmocka_unit_test(late_answer_finds_the_browser_or_nobody),
        cmocka_unit_test(closed_port_waits_for_the_handler),
        cmocka_unit_test(body_in_parts_is_held_back_by_a_slow_browser_and_whole),
        cmocka_unit_test(body_that_breaks_off_is_not_whole),
        cmocka_unit_test(body_ends_where_the_browser_breaks_off),
        cmocka_unit_test(browser_that_takes_nothing_of_a_body_in_parts_is_closed),
        cmocka_unit_test(connections_without_a_request_give_way),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
