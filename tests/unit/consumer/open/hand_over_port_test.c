/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files handed to a browser, on loopback: whole, once; cut short when they become shorter; files of
 * a UI from its folder alone; and nothing is left at the end.
 */
#include "consumer/open/hand_over_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

#define UI         "https://ui.perfetto.dev"
#define FILE_BYTES (12u << 20) /* more than is queued */
#define TEXT_MAX   (FILE_BYTES + 4096)
#define TURNS      400000u
#define TURN_US    20 /* while nothing comes: so that all turns are some seconds */

struct world {
    uv_loop_t loop;
    struct pfl_hand_over_port *port;
    char folder[64];
    char trace[128];
    size_t fetched;
    const char *why;
    unsigned refused;
    bool is_done;
    bool is_closed;
};

static char text[TEXT_MAX];

static void on_fetched(void *user, size_t trace, const char *why)
{
    struct world *w = user;

    assert_int_equal(trace, 0);
    w->fetched += why == NULL;
    w->why = why;
}

static void on_refused(void *user, const char *why)
{
    assert_non_null(why);
    ((struct world *)user)->refused++;
}

static void on_done(void *user)
{
    ((struct world *)user)->is_done = true;
}

static void on_closed(void *user)
{
    ((struct world *)user)->is_closed = true;
}

static void write_file(const char *folder, const char *name, size_t bytes, char *ret_path)
{
    static const char head[] = "\x0a\x02\x40\x01";
    int fd;

    (void)snprintf(ret_path, 128, "%s/%s", folder, name);
    fd = open(ret_path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, head, 4), 4);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    (void)close(fd);
}

static void prepare(struct world *w)
{
    memset(w, 0, sizeof(*w));
    (void)snprintf(w->folder, sizeof(w->folder), "/tmp/pfl-hand-over-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    write_file(w->folder, "t.pftrace", FILE_BYTES, w->trace);
    assert_int_equal(pfl_loop_init(&w->loop), 0);
}

static int open_port(struct world *w, enum pfl_hand_over_way way, uint64_t wait_ms)
{
    struct pfl_hand_over_port_conf conf = {.loop = &w->loop,
                                           .way = way,
                                           .ui_url = UI,
                                           .ui_dir = w->folder,
                                           .wait_ms = wait_ms,
                                           .on_fetched = on_fetched,
                                           .on_refused = on_refused,
                                           .on_done = on_done,
                                           .on_closed = on_closed,
                                           .user = w};
    struct pfl_hand_over_problem problem;
    enum pfl_file_kind kind;
    int rc = pfl_hand_over_port_new(&conf, &w->port, &problem);

    if (rc != 0)
        return rc;
    rc = pfl_hand_over_port_add(w->port, w->trace, &kind, &problem);
    assert_true(rc != 0 || kind == PFL_FILE_KIND_PACKETS);
    return rc == 0 ? pfl_hand_over_port_start(w->port) : rc;
}

static void remove_file(const struct world *w, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", w->folder, name);
    (void)unlink(path);
}

static void close_world(struct world *w)
{
    if (w->port != NULL)
        pfl_hand_over_port_close(w->port);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_true(w->is_closed == (w->port != NULL));
    assert_int_equal(uv_loop_close(&w->loop), 0);
    remove_file(w, "t.pftrace");
    remove_file(w, "index.html");
    remove_file(w, "out");
    (void)rmdir(w->folder);
    pfl_closer_wait();
    pfl_sweep_assert_no_leak();
}

static int dial(const struct world *w)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(pfl_hand_over_port_get(w->port)->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Sends a request for `path`, with further lines. */
static int ask(const struct world *w, const char *method, const char *path, const char *lines)
{
    char request[512];
    int fd = dial(w);
    int len = snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: 127.0.0.1:1\r\n%s\r\n",
                       method, path, lines);

    assert_int_equal(send(fd, request, (size_t)len, MSG_NOSIGNAL), len);
    return fd;
}

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
    (void)close(fd);
    for (unsigned i = 0; i < 100; i++)
        uv_run(&w->loop, UV_RUN_NOWAIT);
    return len;
}

static size_t fetch(struct world *w, const char *method, const char *path, const char *lines)
{
    return read_all(w, ask(w, method, path, lines));
}

static const char *path_of_trace(const struct world *w)
{
    static char path[128];
    const struct pfl_hand_over_trace *trace = &pfl_hand_over_port_get(w->port)->traces[0];

    (void)snprintf(path, sizeof(path), "/%s/%s", trace->key, trace->name);
    return path;
}

static const char from_ui[] = "Origin: " UI "\r\n";

/* ---- */

static void a_file_goes_over_whole_and_once(void **state)
{
    struct world w;
    size_t len;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_DIRECT, 60000), 0);
    (void)fetch(&w, "HEAD", path_of_trace(&w), from_ui);
    assert_non_null(strstr(text, "Content-Length: 12582912\r\n"));
    assert_int_equal(w.fetched, 0);
    assert_false(w.is_done);
    len = fetch(&w, "GET", path_of_trace(&w), from_ui);
    assert_non_null(strstr(text, "Access-Control-Allow-Origin: " UI "\r\n"));
    assert_memory_equal(text + len - FILE_BYTES, "\x0a\x02\x40\x01", 4);
    assert_int_equal(text[len - FILE_BYTES - 1], '\n');
    assert_int_equal(w.fetched, 1);
    assert_true(w.is_done);
    (void)fetch(&w, "GET", path_of_trace(&w), from_ui);
    assert_non_null(strstr(text, "HTTP/1.1 410 "));
    assert_int_equal(w.refused, 1);
    close_world(&w);
}

static void a_browser_that_left_may_come_again(void **state)
{
    struct world w;
    int fd;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_DIRECT, 60000), 0);
    fd = ask(&w, "GET", path_of_trace(&w), from_ui);
    for (unsigned i = 0; i < 1000; i++)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    (void)fetch(&w, "GET", path_of_trace(&w), from_ui);
    assert_non_null(strstr(text, "HTTP/1.1 409 "));
    (void)close(fd);
    for (unsigned i = 0; i < 10000 && w.why == NULL; i++)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_non_null(w.why);
    (void)fetch(&w, "GET", path_of_trace(&w), from_ui);
    assert_int_equal(w.fetched, 1);
    close_world(&w);
}

static void a_file_that_becomes_shorter_breaks_the_answer(void **state)
{
    struct world w;
    size_t len;
    int fd;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_DIRECT, 60000), 0);
    fd = ask(&w, "GET", path_of_trace(&w), from_ui);
    for (unsigned i = 0; i < 1000; i++)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_int_equal(truncate(w.trace, 1000), 0);
    len = read_all(&w, fd);
    assert_true(len < FILE_BYTES);
    assert_int_equal(w.fetched, 0);
    assert_string_equal(w.why, "the file became shorter while it was read");
    assert_false(w.is_done);
    close_world(&w);
}

static void a_file_that_is_written_to_meanwhile_is_reported(void **state)
{
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct world w;
    int fd;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_DIRECT, 60000), 0);
    fd = ask(&w, "GET", path_of_trace(&w), from_ui);
    for (unsigned i = 0; i < 1000; i++)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_int_equal(utimensat(AT_FDCWD, w.trace, times, 0), 0);
    (void)read_all(&w, fd);
    assert_non_null(w.why);
    assert_true(w.is_done);
    close_world(&w);
}

static void what_is_no_file_is_refused_with_a_reason(void **state)
{
    struct pfl_hand_over_problem problem;
    enum pfl_file_kind kind;
    char empty[128];
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_DIRECT, 60000), 0);
    assert_int_equal(pfl_hand_over_port_add(w.port, "/nowhere", &kind, &problem), PFL_EINVAL);
    assert_string_equal(problem.why, "No such file or directory");
    assert_int_equal(pfl_hand_over_port_add(w.port, w.folder, &kind, &problem), PFL_EINVAL);
    assert_string_equal(problem.why, "it is a folder");
    assert_int_equal(pfl_hand_over_port_add(w.port, "/dev/zero", &kind, &problem), PFL_EINVAL);
    write_file(w.folder, "out", 0, empty);
    assert_int_equal(truncate(empty, 0), 0);
    assert_int_equal(pfl_hand_over_port_add(w.port, empty, &kind, &problem), PFL_EINVAL);
    assert_string_equal(problem.why, "it is empty");
    close_world(&w);
}

static void files_that_are_open_have_the_title_that_they_are_given(void **state)
{
    const struct pfl_hand_over *h;
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_DIRECT, 60000), 0);
    h = pfl_hand_over_port_get(w.port);
    assert_int_equal(
        pfl_hand_over_port_add_file(w.port, open(w.trace, O_RDONLY | O_CLOEXEC), "a b.pftrace"), 0);
    assert_int_equal(h->traces_len, 2);
    assert_string_equal(h->traces[1].title, "a b.pftrace");
    assert_string_equal(h->traces[1].name, "trace-2.pftrace");
    assert_int_equal(h->traces[1].bytes, h->traces[0].bytes);
    assert_string_not_equal(h->traces[1].key, h->traces[0].key);
    while (h->traces_len < PFL_HAND_OVER_MAX_TRACES)
        assert_int_equal(
            pfl_hand_over_port_add_file(w.port, open(w.trace, O_RDONLY | O_CLOEXEC), "c"), 0);
    assert_int_equal(pfl_hand_over_port_add_file(w.port, open(w.trace, O_RDONLY | O_CLOEXEC), "c"),
                     PFL_ELIMIT);
    close_world(&w);
}

static void an_own_ui_is_served_from_its_folder_alone(void **state)
{
    char path[128];
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_OWN, 60000), PFL_EINVAL); /* no index.html */
    uv_run(&w.loop, UV_RUN_DEFAULT);
    w.port = NULL;
    write_file(w.folder, "index.html", 100, path);
    (void)snprintf(path, sizeof(path), "%s/out", w.folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_OWN, 60000), 0);
    (void)fetch(&w, "GET", "/", "");
    assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"));
    assert_non_null(strstr(text, "connect-src 'self' "));
    (void)fetch(&w, "GET", "/out", "");
    assert_non_null(strstr(text, "HTTP/1.1 404 "));
    (void)fetch(&w, "GET", "/nothing", "");
    assert_non_null(strstr(text, "HTTP/1.1 404 "));
    (void)fetch(&w, "GET", path_of_trace(&w), "Sec-Fetch-Site: same-origin\r\n");
    assert_int_equal(w.fetched, 1);
    assert_false(w.is_done); /* the UI may want more of its files */
    close_world(&w);
}

static void a_page_is_served_with_its_policy(void **state)
{
    char path[128];
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_PAGE, 60000), 0);
    (void)snprintf(path, sizeof(path), "/%s/", pfl_hand_over_port_get(w.port)->page_key);
    (void)fetch(&w, "GET", path, "");
    assert_non_null(strstr(text, "Content-Security-Policy: default-src 'none'"));
    assert_non_null(strstr(text, "<!doctype html>"));
    (void)snprintf(path, sizeof(path), "/%s/hand-over.js",
                   pfl_hand_over_port_get(w.port)->page_key);
    (void)fetch(&w, "GET", path, "");
    assert_non_null(strstr(text, "PING"));
    (void)snprintf(path, sizeof(path), "/%s/hand-over.css",
                   pfl_hand_over_port_get(w.port)->page_key);
    (void)fetch(&w, "GET", path, "");
    assert_non_null(strstr(text, "text/css"));
    (void)snprintf(path, sizeof(path), "/%s/traces.json", pfl_hand_over_port_get(w.port)->page_key);
    (void)fetch(&w, "GET", path, "Sec-Fetch-Site: same-origin\r\n");
    assert_non_null(strstr(text, "\"t.pftrace\""));
    close_world(&w);
}

static void time_ends_it(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(open_port(&w, PFL_HAND_OVER_DIRECT, 1), 0);
    while (!w.is_done)
        uv_run(&w.loop, UV_RUN_NOWAIT); /* ONCE might wait after the timer */
    assert_int_equal(w.fetched, 0);
    close_world(&w);
}

static void every_allocation_may_fail(void **state)
{
    struct pfl_mem_stats stats;
    bool has_failed = true;

    (void)state;
    for (uint64_t n = 1; has_failed; n++) {
        struct world w;
        int rc;

        prepare(&w);
        assert_int_equal(truncate(w.trace, 100), 0);
        pfl_mem_fail_at(n);
        rc = open_port(&w, PFL_HAND_OVER_DIRECT, 60000);
        if (rc == 0)
            (void)fetch(&w, "GET", path_of_trace(&w), from_ui);
        pfl_mem_stats_get(&stats);
        has_failed = stats.allocations >= n;
        pfl_mem_fail_at(0);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_goes_over_whole_and_once),
        cmocka_unit_test(a_browser_that_left_may_come_again),
        cmocka_unit_test(a_file_that_becomes_shorter_breaks_the_answer),
        cmocka_unit_test(a_file_that_is_written_to_meanwhile_is_reported),
        cmocka_unit_test(what_is_no_file_is_refused_with_a_reason),
        cmocka_unit_test(files_that_are_open_have_the_title_that_they_are_given),
        cmocka_unit_test(an_own_ui_is_served_from_its_folder_alone),
        cmocka_unit_test(a_page_is_served_with_its_policy),
        cmocka_unit_test(time_ends_it),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
