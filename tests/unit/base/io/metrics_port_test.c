/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics listener: who gets metrics, when, and what is left when memory runs out. */
#include "base/io/metrics_port.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/endpoint.h"
#include "tests/unit/base/io/pki.h"

#define REQUEST "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

static uv_loop_t loop;
static struct endpoint client;
static struct endpoint others[PFL_METRICS_PORT_MAX_OF_ONE + 1]; /* where all places are taken */
static struct pfl_metrics_port *port;
static char folder[64];
static char path[96];
static bool is_fresh;
static bool is_refusing;
static unsigned refreshes;
static unsigned collects;
static char viewer[256]; /* of the last collect: a URI, or "" at the socket */

static bool refresh(void *user, const struct pfl_tls_identity *who)
{
    assert_ptr_equal(user, &loop);
    (void)who;
    refreshes++;
    return is_fresh;
}

static void collect(void *user, const struct pfl_tls_identity *who, struct pfl_metrics *metrics)
{
    assert_ptr_equal(user, &loop);
    (void)snprintf(viewer, sizeof(viewer), "%s", who != NULL ? who->uri : "");
    collects++;
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_test", "Of a test.", 7);
}

static const char *refuse(void *user, const struct pfl_tls_identity *who)
{
    assert_ptr_equal(user, &loop);
    return strstr(who->uri, "/operator/") != NULL && !is_refusing ? NULL : "not you";
}

static int open_port(bool has_tls)
{
    static char ca[256]; /* borrowed by the port */
    static char cert[256];
    static char key[256];
    struct pfl_metrics_port_conf conf = {.loop = &loop,
                                         .listen_address = has_tls ? "127.0.0.1:0" : NULL,
                                         .socket_path = path,
                                         .refuse = refuse,
                                         .refresh = refresh,
                                         .collect = collect,
                                         .user = &loop};

    (void)snprintf(ca, sizeof(ca), "%s", pki_path("ca.pem"));
    (void)snprintf(cert, sizeof(cert), "%s", pki_path("host-a.pem"));
    (void)snprintf(key, sizeof(key), "%s", pki_path("host-a.key"));
    conf.files.ca_path = ca;
    conf.files.cert_path = cert;
    conf.files.key_path = key;
    return pfl_metrics_port_open(&conf, &port);
}

static int set_up(void **state)
{
    (void)state;
    pfl_log_set_level(PFL_LOG_ERROR);
    is_fresh = true;
    is_refusing = false;
    refreshes = collects = 0;
    port = NULL;
    (void)snprintf(folder, sizeof(folder), "/tmp/pfl-metrics-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/s", folder);
    assert_int_equal(pfl_loop_init(&loop), 0);
    endpoint_init(&client, &loop);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    endpoint_close(&client);
    pfl_metrics_port_close(port);
    pfl_metrics_port_close(NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    endpoint_fini(&client);
    endpoint_end_loop(&loop);
    (void)unlink(path);
    assert_int_equal(rmdir(folder), 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void connect_client(void)
{
    int fd;

    assert_int_equal(pfl_fdsock_connect_unix(path, &fd), 0);
    endpoint_open(&client, fd, 65536, 0);
}

/* What came, as text, until the peer's end. */
static const char *take_answer(void)
{
    struct pfl_span got;

    endpoint_run_until(&loop, &client.eofs, 1);
    assert_int_equal(pfl_buf_append(&client.received, "", 1), 0);
    got = pfl_buf_get(&client.received);
    return (const char *)got.data;
}

static void write_text(const char *text)
{
    assert_int_equal(endpoint_write(&client, text, strlen(text), -1), 0);
}

static void who_asks_gets_the_owners_figures_and_those_of_the_loop(void **state)
{
    const char *answer;
    struct stat st;

    (void)state;
    assert_int_equal(open_port(false), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_int_equal(pfl_metrics_port_get_number(port), 0);
    connect_client();
    write_text(REQUEST);
    answer = take_answer();
    assert_ptr_equal(strstr(answer, "HTTP/1.1 200 "), answer);
    assert_non_null(strstr(answer, "\nperfleet_test 7\n"));
    assert_non_null(strstr(answer, "\nperfleet_loop_busy_seconds_total "));
    assert_non_null(strstr(answer, "\nperfleet_scrapes_total 1\n"));
    assert_int_equal(collects, 1);
    assert_string_equal(viewer, "");
}

static void a_request_in_pieces_is_one(void **state)
{
    (void)state;
    assert_int_equal(open_port(false), 0);
    connect_client();
    for (const char *at = REQUEST; *at != '\0'; at++) {
        assert_int_equal(endpoint_write(&client, at, 1, -1), 0);
        endpoint_run_ready(&loop);
        assert_int_equal(refreshes, at[1] == '\0');
    }
    assert_non_null(strstr(take_answer(), "perfleet_test 7"));
}

static void who_waits_for_fresh_figures_gets_them_when_they_are_there(void **state)
{
    (void)state;
    is_fresh = false;
    assert_int_equal(open_port(false), 0);
    connect_client();
    write_text(REQUEST REQUEST); /* the second is not read */
    endpoint_run_ready(&loop);
    assert_int_equal(refreshes, 1);
    assert_int_equal(collects, 0);
    assert_int_equal(client.received_bytes, 0);
    pfl_metrics_port_proceed(port); /* those of another viewer */
    assert_int_equal(refreshes, 2);
    assert_int_equal(collects, 0);
    is_fresh = true;
    pfl_metrics_port_proceed(port);
    pfl_metrics_port_proceed(port);
    assert_int_equal(refreshes, 3);
    assert_non_null(strstr(take_answer(), "perfleet_test 7"));
    assert_int_equal(collects, 1);
}

/* A question that waits until there is something to answer it with. */
static void open_and_ask_early(void)
{
    is_fresh = false;
    assert_int_equal(open_port(false), 0);
    connect_client();
    write_text(REQUEST);
}

static void who_ends_its_direction_while_it_waits_is_answered_and_closed(void **state)
{
    (void)state;
    open_and_ask_early();
    pfl_stream_shutdown(client.stream);
    endpoint_run_ready(&loop);
    assert_int_equal(client.eofs, 0);
    is_fresh = true;
    pfl_metrics_port_proceed(port);
    assert_non_null(strstr(take_answer(), "perfleet_test 7"));
}

static void who_leaves_while_it_waits_is_forgotten(void **state)
{
    (void)state;
    open_and_ask_early();
    endpoint_run_ready(&loop);
    endpoint_close(&client);
    endpoint_run_ready(&loop);
    is_fresh = true;
    pfl_metrics_port_proceed(port); /* it may have ended its direction only */
    endpoint_run_ready(&loop);
    pfl_metrics_port_proceed(port);
    assert_int_equal(refreshes, 2);
}

static void a_door_that_closes_cuts_who_waits(void **state)
{
    (void)state;
    open_and_ask_early();
    endpoint_run_ready(&loop);
    pfl_metrics_port_close(port);
    pfl_metrics_port_close(port); /* idempotent while it lives */
    pfl_metrics_port_proceed(port);
    port = NULL;
    endpoint_run_until(&loop, &client.eofs, 1);
    assert_int_equal(client.received_bytes, 0);
    assert_int_equal(collects, 0);
}

static void other_requests_get_a_status_and_no_figures(void **state)
{
    static const char *const requests[][2] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 "},
        {"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 "},
        {"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 400 "},
        {"nonsense\r\n\r\n", "HTTP/1.1 400 "},
    };

    (void)state;
    assert_int_equal(open_port(false), 0);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const char *answer;

        connect_client();
        write_text(requests[i][0]);
        answer = take_answer();
        assert_ptr_equal(strstr(answer, requests[i][1]), answer);
        endpoint_close(&client);
        endpoint_fini(&client);
        endpoint_init(&client, &loop);
    }
    assert_int_equal(refreshes, 0);
}

/* ---- TLS ---- */

static void connect_tls_as(struct endpoint *e, const char *who)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(pfl_metrics_port_get_number(port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct pfl_tls_conf *tls = pki_conf(who, "ca.pem", NULL, false);
    struct pfl_tls_handshake handshake = {.conf = tls, .timeout_ms = 60000};
    struct pfl_stream_conf conf = endpoint_conf(e, 65536, 0);
    int fd;

    assert_int_equal(pfl_fdsock_connect_addr((struct sockaddr *)&in, sizeof(in), &fd), 0);
    e->is_inside_call = true;
    assert_int_equal(pfl_tls_stream_open(&conf, &handshake, fd, &e->stream), 0);
    e->is_inside_call = false;
    pfl_tls_conf_unref(tls);
}

static void connect_tls(const char *who)
{
    connect_tls_as(&client, who);
}

static void over_tls_an_operator_is_answered_before_and_after_a_reload(void **state)
{
    (void)state;
    assert_int_equal(open_port(true), 0);
    for (int turn = 0; turn < 2; turn++) {
        connect_tls("operator-eve");
        endpoint_run_until(&loop, &client.readies, 1);
        write_text(REQUEST);
        assert_non_null(strstr(take_answer(), "perfleet_test 7"));
        endpoint_close(&client);
        endpoint_fini(&client);
        endpoint_init(&client, &loop);
        pfl_metrics_port_reload(port);
    }
    assert_int_equal(collects, 2);
    assert_non_null(strstr(viewer, "/operator/eve"));
}

static void over_tls_whom_the_owner_refuses_is_cut(void **state)
{
    (void)state;
    is_refusing = true;
    assert_int_equal(open_port(true), 0);
    connect_tls("operator-eve");
    endpoint_run_until(&loop, &client.closes, 1);
    assert_int_equal(client.received_bytes, 0);
    assert_int_equal(refreshes, 0);
}

/* ---- as many as there are places ---- */

/* The 17th is there, and its handshake done over TLS, and is answered when one of the others goes.
 * False: this machine is too slow to see it wait. */
static bool see_the_next_one_wait(bool has_tls)
{
    uint64_t begin_ms = uv_hrtime() / 1000000;
    bool is_too_slow;
    int fd;

    assert_int_equal(open_port(has_tls), 0);
    for (unsigned i = 0; i < PFL_METRICS_PORT_MAX_CONNECTIONS; i++) {
        endpoint_init(&others[i], &loop);
        if (has_tls) {
            connect_tls_as(&others[i], "operator-eve");
            endpoint_run_until(&loop, &others[i].readies, 1);
        } else {
            assert_int_equal(pfl_fdsock_connect_unix(path, &fd), 0);
            endpoint_open(&others[i], fd, 65536, 0);
        }
        endpoint_run_ready(&loop);
    }
    if (has_tls)
        connect_tls("operator-eve");
    else
        connect_client();
    if (has_tls)
        endpoint_run_until(&loop, &client.readies, 1);
    write_text(REQUEST);
    for (unsigned i = 0; i < 100; i++)
        endpoint_run_ready(&loop);
    /* Where handshakes take so long, as under an emulator, the first one's time is up. */
    is_too_slow = uv_hrtime() / 1000000 - begin_ms >= PFL_METRICS_PORT_LIFETIME_MS;
    if (!is_too_slow)
        assert_int_equal(refreshes, 0);
    endpoint_close(&others[3]);
    assert_non_null(strstr(take_answer(), "perfleet_test 7"));
    for (unsigned i = 0; i < PFL_METRICS_PORT_MAX_CONNECTIONS; i++) {
        endpoint_close(&others[i]);
        endpoint_fini(&others[i]);
    }
    return !is_too_slow;
}

static void the_seventeenth_at_the_socket_waits_until_one_goes(void **state)
{
    (void)state;
    assert_true(see_the_next_one_wait(false));
}

static void the_seventeenth_over_tls_waits_until_one_goes(void **state)
{
    (void)state;
    if (!see_the_next_one_wait(true))
        skip();
}

/* What was logged from here to end_log. */
static int begin_log(int *ret_stderr)
{
    int log = memfd_create("log", MFD_CLOEXEC);

    pfl_log_set_level(PFL_LOG_WARN);
    *ret_stderr = dup(STDERR_FILENO);
    assert_int_equal(dup2(log, STDERR_FILENO), STDERR_FILENO);
    return log;
}

static void end_log(int log, int old_stderr, char *text, size_t size)
{
    ssize_t len = pread(log, text, size - 1, 0);

    assert_int_equal(dup2(old_stderr, STDERR_FILENO), STDERR_FILENO);
    (void)close(old_stderr);
    (void)close(log);
    assert_true(len >= 0);
    text[len] = '\0';
}

/* One certificate has all places and asks nothing; another's request is still answered.
 * (The port has no revocation list: to it operator-gone is one as any other.) */
static void over_tls_the_certificate_that_has_most_gives_way(void **state)
{
    char said[4096];
    int old_stderr;
    int log;

    (void)state;
    assert_int_equal(open_port(true), 0);
    for (unsigned i = 0; i < PFL_METRICS_PORT_MAX_CONNECTIONS; i++) {
        endpoint_init(&others[i], &loop);
        connect_tls_as(&others[i], "operator-eve");
        endpoint_run_until(&loop, &others[i].readies, 1);
        endpoint_run_ready(&loop);
    }
    log = begin_log(&old_stderr);
    connect_tls("operator-gone");
    endpoint_run_until(&loop, &client.readies, 1);
    write_text(REQUEST);
    assert_non_null(strstr(take_answer(), "perfleet_test 7"));
    end_log(log, old_stderr, said, sizeof(said));
    assert_non_null(strstr(viewer, "/operator/gone"));
    /* Where handshakes take so long, as under an emulator, the first ones' time is up. */
    if (strstr(said, "took its place") == NULL && others[0].closes != 0 && others[8].closes != 0)
        skip();
    assert_non_null(strstr(said, "took its place"));
    for (unsigned i = 0; i < PFL_METRICS_PORT_MAX_CONNECTIONS; i++) {
        endpoint_close(&others[i]);
        endpoint_fini(&others[i]);
    }
}

/* Connections of one certificate that wait take no places from who comes later. */
static void over_tls_a_certificate_has_so_many_connections(void **state)
{
    struct endpoint *last = &others[PFL_METRICS_PORT_MAX_OF_ONE];
    uint64_t begin_ms = uv_hrtime() / 1000000;

    (void)state;
    assert_int_equal(open_port(true), 0);
    for (unsigned i = 0; i <= PFL_METRICS_PORT_MAX_OF_ONE; i++) {
        endpoint_init(&others[i], &loop);
        connect_tls_as(&others[i], "operator-eve");
        endpoint_run_until(&loop, &others[i].readies, 1);
        endpoint_run_ready(&loop);
    }
    endpoint_run_until(&loop, &last->closes, 1);
    /* Where handshakes take so long, as under an emulator, the first ones' time is up. */
    if (uv_hrtime() / 1000000 - begin_ms < PFL_METRICS_PORT_LIFETIME_MS)
        assert_int_equal(others[0].closes + others[PFL_METRICS_PORT_MAX_OF_ONE - 1].closes, 0);
    connect_tls("operator-gone");
    endpoint_run_until(&loop, &client.readies, 1);
    write_text(REQUEST);
    assert_non_null(strstr(take_answer(), "perfleet_test 7"));
    for (unsigned i = 0; i <= PFL_METRICS_PORT_MAX_OF_ONE; i++) {
        endpoint_close(&others[i]);
        endpoint_fini(&others[i]);
    }
}

/* ---- memory ---- */

static int scrape_once(void *arg)
{
    int rc = open_port(false);
    int fd = -1;

    (void)arg;
    collects = 0;
    if (rc == 0 && pfl_fdsock_connect_unix(path, &fd) == 0) {
        (void)!write(fd, REQUEST, sizeof(REQUEST) - 1);
        endpoint_run_ready(&loop);
        (void)close(fd);
        endpoint_run_ready(&loop);
    }
    if (rc == 0)
        pfl_metrics_port_close(port);
    port = NULL;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(scrape_once, NULL, true);
    assert_int_equal(collects, 1); /* of the run that met no failure */
}

static void a_folder_that_is_not_there_is_said_and_leaves_nothing(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "%s/none/s", folder);
    assert_true(open_port(false) < 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(who_asks_gets_the_owners_figures_and_those_of_the_loop),
        TEST(a_request_in_pieces_is_one),
        TEST(who_waits_for_fresh_figures_gets_them_when_they_are_there),
        TEST(who_ends_its_direction_while_it_waits_is_answered_and_closed),
        TEST(who_leaves_while_it_waits_is_forgotten),
        TEST(a_door_that_closes_cuts_who_waits),
        TEST(other_requests_get_a_status_and_no_figures),
        TEST(over_tls_an_operator_is_answered_before_and_after_a_reload),
        TEST(over_tls_whom_the_owner_refuses_is_cut),
        TEST(the_seventeenth_at_the_socket_waits_until_one_goes),
        TEST(the_seventeenth_over_tls_waits_until_one_goes),
        TEST(over_tls_the_certificate_that_has_most_gives_way),
        TEST(over_tls_a_certificate_has_so_many_connections),
        TEST(every_allocation_may_fail),
        TEST(a_folder_that_is_not_there_is_said_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
