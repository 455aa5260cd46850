/* SPDX-License-Identifier: Apache-2.0 */
/* Played servers that let clients in, and then do not answer, do not read, or answer as none does.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "collector/index/index.h"
#include "collector/index/sql.h"
#include "tests/support/sweep.h"

#define WATCHDOG_S 240
#define SHORT_MS   300u
#define LONG_MS    600000u /* the watchdog is faster */
#define TEXT_BYTES (32u << 20)

static pid_t server = -1;
static int request_pipe = -1; /* a byte comes when the server got a request */
static char conninfo[128];
static bool is_local; /* over a UNIX socket, in a folder of its own */
static char folder[] = "/tmp/perfleet-silent-XXXXXX";
static enum {
    SENDS_NOTHING,
    SENDS_NOTICES,
    SENDS_PARAMETERS_FIRST, /* it does not let in before them */
    SENDS_ROWS,
    SENDS_RESULTS,
    SENDS_COPY,
    SENDS_NOTIFICATION,
    SENDS_PARAMETERS,
} sends = SENDS_NOTHING;
static char copy_kind;        /* the message's type */
static unsigned parameters;   /* of an answer */
static unsigned *connections; /* that the server accepted; shared with it */

/* ---- the server ---- */

/* The same message, until the client has enough. */
static void send_on(int fd, const void *message, size_t len)
{
    while (send(fd, message, len, MSG_NOSIGNAL) > 0)
        continue;
}

static void send_rows(int fd)
{
    static const uint8_t begin[] = {'T', 0, 0, 0, 26, 0,    1,    'a',  0,    0,    0,    0, 0, 0,
                                    0,   0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0};
    static char row[5 + 6 + 65536] = {'D', 0, 1, 0, 10, 0, 1, 0, 1, 0, 0};

    (void)!send(fd, begin, sizeof(begin), MSG_NOSIGNAL);
    send_on(fd, row, sizeof(row));
}

/* Of no rows each. */
static void send_results(int fd)
{
    static const char end[] = {'C', 0, 0, 0, 10, 'B', 'E', 'G', 'I', 'N', 0};
    static char ends[4096 * sizeof(end)];

    for (size_t i = 0; i < sizeof(ends); i += sizeof(end))
        memcpy(ends + i, end, sizeof(end));
    send_on(fd, ends, sizeof(ends));
}

/* Each with a name that no other one has, before the answer that is asked for. */
static void send_parameters(int fd)
{
    static unsigned names = 0;
    static char value[4096] = {'S', 0, 0, sizeof(value) / 256 - 1, '\xff'};

    memset(value + 5, 'x', sizeof(value) - 6);
    value[17] = '\0';
    for (unsigned i = 0; i < parameters; i++) {
        char name[13];

        (void)snprintf(name, sizeof(name), "%012u", names++);
        memcpy(value + 5, name, sizeof(name) - 1);
        (void)!send(fd, value, sizeof(value), MSG_NOSIGNAL);
    }
}

static void send_answer(int fd)
{
    static const char notification[] = {'A', 0, 0, 0, 13, 0, 0, 0, 1, 'a', 0, 'x', 'x', 0};
    static const char done[] = {'C', 0,   0,   0, 13,  'R', 'O', 'L', 'L', 'B',
                                'A', 'C', 'K', 0, 'Z', 0,   0,   0,   5,   'I'};

    const char copy[] = {copy_kind, 0, 0, 0, 7, 0, 0, 0};

    if (sends == SENDS_ROWS)
        send_rows(fd);
    if (sends == SENDS_RESULTS)
        send_results(fd);
    if (sends == SENDS_COPY)
        (void)!send(fd, copy, sizeof(copy), MSG_NOSIGNAL);
    if (sends == SENDS_NOTIFICATION)
        (void)!send(fd, notification, sizeof(notification), MSG_NOSIGNAL);
    if (sends == SENDS_PARAMETERS)
        send_parameters(fd);
    if (sends == SENDS_NOTIFICATION || sends == SENDS_PARAMETERS)
        (void)!send(fd, done, sizeof(done), MSG_NOSIGNAL);
}

/* AuthenticationOk and ReadyForQuery, then nothing. */
static void let_in(int fd, int heard_by, bool is_reading)
{
    static const char welcome[] = {'R', 0, 0, 0, 8, 0, 0, 0, 0, 'Z', 0, 0, 0, 5, 'I'};
    static const char notice[] = {'N', 0,   0, 0,   20,  'S', 'W', 0, 'V', 'W', 0,
                                  'C', '0', 0, 'M', 'l', 'o', 'g', 0, 0,   0};
    char bytes[65536];
    bool is_kept_out = sends == SENDS_NOTICES || sends == SENDS_PARAMETERS_FIRST;

    if (recv(fd, bytes, sizeof(bytes), 0) <= 0 ||
        send(fd, welcome, is_kept_out ? 9 : sizeof(welcome), 0) < 0)
        return;
    if (sends == SENDS_PARAMETERS_FIRST)
        send_parameters(fd);
    if (sends == SENDS_NOTICES)
        send_on(fd, notice, sizeof(notice));
    while (sends > SENDS_PARAMETERS_FIRST && recv(fd, bytes, sizeof(bytes), 0) > 0)
        send_answer(fd);
    while (is_reading && recv(fd, bytes, sizeof(bytes), 0) > 0)
        (void)!write(heard_by, "q", 1);
}

/* Connections stay open until the client has closed them, or for ever. */
static void serve(int listener, int heard_by, bool is_reading)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int fd = accept(listener, NULL, NULL);

        if (fd < 0)
            _exit(1);
        ++*connections;
        let_in(fd, heard_by, is_reading);
    }
}

/* Tells where it listens. */
static int listen_at_loopback(unsigned *ret_port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    *ret_port = ntohs(addr.sin_port);
    return listener;
}

static int listen_in_folder(unsigned *ret_port)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *ret_port = 5432;
    memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/.s.PGSQL.5432", folder);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 8), 0);
    return listener;
}

static void play(bool is_reading)
{
    unsigned port;
    int listener = is_local ? listen_in_folder(&port) : listen_at_loopback(&port);
    int ends[2];

    connections =
        mmap(NULL, sizeof(*connections), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(connections != MAP_FAILED);
    assert_int_equal(pipe(ends), 0);
    server = fork();
    if (server == 0)
        serve(listener, ends[1], is_reading);
    (void)close(listener);
    (void)close(ends[1]);
    request_pipe = ends[0];
    sends = SENDS_NOTHING; /* of the next one */
    (void)snprintf(conninfo, sizeof(conninfo),
                   "host=%s port=%u user=a dbname=a sslmode=disable gssencmode=disable",
                   is_local ? folder : "127.0.0.1", port);
    (void)alarm(WATCHDOG_S);
}

static int end(void **state)
{
    (void)state;
    (void)alarm(0);
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)close(request_pipe);
    (void)munmap(connections, sizeof(*connections));
    if (is_local) {
        char path[64];

        (void)snprintf(path, sizeof(path), "%s/.s.PGSQL.5432", folder);
        (void)unlink(path);
        (void)rmdir(folder);
    }
    is_local = false;
    pfl_sweep_assert_no_leak();
    return 0;
}

/* ---- the client ---- */

static struct pfl_sql *open_sql(unsigned answer_ms)
{
    char why[PFL_SQL_WHY_BYTES];
    struct pfl_sql *sql;

    assert_int_equal(pfl_sql_postgres_open(conninfo, answer_ms, why, &sql), 0);
    return sql;
}

static void a_server_that_does_not_answer_is_given_up(void **state)
{
    char where[160];
    struct pfl_index_conf conf = {.where = where, .may_create = true, .answer_ms = SHORT_MS};
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index;

    (void)state;
    play(true);
    (void)snprintf(where, sizeof(where), "postgres:%s", conninfo);
    assert_int_equal(pfl_index_open(&conf, why, &index), PFL_EAGAIN);
    assert_non_null(strstr(why, "the server does not answer"));
}

static void a_server_that_does_not_read_is_given_up(void **state)
{
    char *text = pfl_mem_alloc(TEXT_BYTES);
    struct pfl_sql *sql;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', TEXT_BYTES - 1);
    text[TEXT_BYTES - 1] = '\0';
    play(false);
    sql = open_sql(SHORT_MS);
    assert_int_equal(sql->engine->script(sql, text), PFL_EAGAIN);
    assert_non_null(strstr(sql->why, "the server does not answer"));
    sql->engine->close(sql);
    pfl_mem_free(text);
}

static void *ask(void *user)
{
    struct pfl_sql *sql = user;

    return sql->engine->script(sql, "BEGIN") == PFL_EAGAIN ? sql : NULL;
}

static void what_is_cancelled_waits_no_longer_and_connects_no_more(void **state)
{
    struct pfl_sql *sql;
    pthread_t thread;
    void *result = NULL;
    char byte;

    (void)state;
    play(true);
    sql = open_sql(LONG_MS);
    assert_int_equal(pthread_create(&thread, NULL, ask, sql), 0);
    assert_int_equal(read(request_pipe, &byte, 1), 1);
    sql->engine->cancel(sql);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, sql);
    assert_int_equal(sql->engine->script(sql, "BEGIN"), PFL_EAGAIN);
    assert_non_null(strstr(sql->why, "no longer needed"));
    sql->engine->close(sql);
}

/* During the connect. None of it is written to the log. */
static void a_server_that_sends_notices_without_end_is_given_up(void **state)
{
    char why[PFL_SQL_WHY_BYTES];
    struct pfl_sql *sql;
    int log = dup(STDERR_FILENO);
    int seen = memfd_create("stderr", MFD_CLOEXEC);
    int rc;

    (void)state;
    assert_true(log >= 0 && seen >= 0);
    sends = SENDS_NOTICES;
    play(true);
    assert_true(dup2(seen, STDERR_FILENO) >= 0);
    rc = pfl_sql_postgres_open(conninfo, LONG_MS, why, &sql);
    assert_true(dup2(log, STDERR_FILENO) >= 0);
    assert_int_equal(rc, PFL_EAGAIN);
    assert_int_equal(lseek(seen, 0, SEEK_END), 0);
    (void)close(seen);
    (void)close(log);
}

/* qemu-user does not tell what a connection has received. */
static bool is_received_counted(void)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_counted;

    assert_true(fd >= 0);
    is_counted = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
                 len > offsetof(struct tcp_info, tcpi_bytes_received);
    (void)close(fd);
    return is_counted;
}

static void a_server_that_sends_rows_without_end_is_given_up(void **state)
{
    struct pfl_sql *sql;

    (void)state;
    sends = SENDS_ROWS;
    play(true);
    if (!is_received_counted())
        skip();
    sql = open_sql(LONG_MS);
    assert_int_equal(sql->engine->script(sql, "BEGIN"), PFL_EAGAIN);
    assert_non_null(strstr(sql->why, "the server's answer has no end"));
    sql->engine->close(sql);
}

/* In the state of COPY libpq gives the same result again and again, and never waits. */
static void a_server_that_answers_by_copy_is_given_up(void **state)
{
    static const char kinds[] = {'G', 'H', 'W'}; /* CopyInResponse, CopyOut-, CopyBoth- */

    for (size_t i = 0; i < sizeof(kinds); i++) {
        struct pfl_sql *sql;

        sends = SENDS_COPY;
        copy_kind = kinds[i];
        play(true);
        sql = open_sql(LONG_MS);
        assert_int_equal(sql->engine->script(sql, "BEGIN"), PFL_EAGAIN);
        assert_non_null(strstr(sql->why, "the server answers with what was not asked for"));
        sql->engine->close(sql);
        if (i + 1 < sizeof(kinds))
            (void)end(state);
    }
}

/* The answer itself is right. libpq would keep the notification until the connection ends. */
static void a_server_that_notifies_is_given_up(void **state)
{
    struct pfl_sql *sql;

    (void)state;
    sends = SENDS_NOTIFICATION;
    play(true);
    sql = open_sql(LONG_MS);
    assert_int_equal(sql->engine->script(sql, "ROLLBACK"), PFL_EAGAIN);
    assert_non_null(strstr(sql->why, "the server answers with what was not asked for"));
    sql->engine->close(sql);
}

static void expect_parameters_are_refused(void)
{
    struct pfl_sql *sql;

    sends = SENDS_PARAMETERS;
    parameters = 9216; /* 36 MiB: over a UNIX socket a part of it is counted */
    play(true);
    sql = open_sql(LONG_MS);
    assert_int_equal(sql->engine->script(sql, "ROLLBACK"), PFL_EAGAIN);
    assert_non_null(strstr(sql->why, "the server answers with what was not asked for"));
    sql->engine->close(sql);
}

static void a_server_that_sends_parameters_without_end_is_given_up(void **state)
{
    (void)state;
    if (!is_received_counted())
        skip();
    expect_parameters_are_refused();
}

static void one_at_a_unix_socket_that_does_is_given_up(void **state)
{
    (void)state;
    is_local = true;
    expect_parameters_are_refused();
}

static void one_that_does_before_it_lets_in_is_given_up(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        char why[PFL_SQL_WHY_BYTES];
        struct pfl_sql *sql;

        is_local = i == 0;
        sends = SENDS_PARAMETERS_FIRST;
        parameters = UINT_MAX;
        play(true);
        assert_int_equal(pfl_sql_postgres_open(conninfo, LONG_MS, why, &sql), PFL_EAGAIN);
        assert_non_null(strstr(why, "the server answers with what was not asked for"));
        if (i == 0)
            (void)end(state);
    }
}

/* It accepts connections and says nothing; the next one is tried, and from then on first. */
static void a_silent_host_leaves_the_connection_to_the_next_one(void **state)
{
    char hosts[160];
    struct pfl_sql *sql;
    unsigned silent_port;
    unsigned port;
    int silent = listen_at_loopback(&silent_port);
    char why[PFL_SQL_WHY_BYTES];

    (void)state;
    play(true);
    assert_int_equal(sscanf(strstr(conninfo, "port="), "port=%u", &port), 1);
    (void)snprintf(hosts, sizeof(hosts),
                   "host=127.0.0.1,localhost hostaddr=127.0.0.1,127.0.0.1 port=%u,%u user=a "
                   "dbname=a sslmode=disable gssencmode=disable connect_timeout=2",
                   silent_port, port);
    assert_int_equal(pfl_sql_postgres_open(hosts, LONG_MS, why, &sql), 0);
    assert_int_equal(*connections, 2); /* one is only begun */
    sql->engine->close(sql);
    (void)snprintf(hosts, sizeof(hosts),
                   "host=127.0.0.1 port=%u user=a dbname=a connect_timeout=2 sslmode=disable",
                   silent_port);
    assert_int_equal(pfl_sql_postgres_open(hosts, LONG_MS, why, &sql), PFL_EAGAIN);
    assert_non_null(strstr(why, "the server does not answer"));
    (void)close(silent);
}

/* 16 statements, each with 1 MiB: no more than 5 on a connection. */
static void a_connection_that_received_much_is_made_again(void **state)
{
    struct pfl_sql *sql;
    unsigned begun;

    (void)state;
    sends = SENDS_PARAMETERS;
    parameters = 256;
    play(true);
    if (!is_received_counted())
        skip();
    sql = open_sql(LONG_MS);
    begun = *connections;
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(sql->engine->script(sql, "ROLLBACK"), 0);
    assert_int_equal(*connections - begun, 3);
    sql->engine->close(sql);
}

/* The time counts also while there is a result. */
static void a_server_that_sends_results_without_end_is_given_up(void **state)
{
    struct pfl_sql *sql;

    (void)state;
    sends = SENDS_RESULTS;
    play(true);
    sql = open_sql(SHORT_MS);
    assert_int_equal(sql->engine->script(sql, "BEGIN"), PFL_EAGAIN);
    assert_non_null(strstr(sql->why, "the server"));
    sql->engine->close(sql);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(a_server_that_does_not_answer_is_given_up),
        TEST(a_server_that_does_not_read_is_given_up),
        TEST(a_server_that_sends_notices_without_end_is_given_up),
        TEST(a_server_that_sends_rows_without_end_is_given_up),
        TEST(a_server_that_sends_results_without_end_is_given_up),
        TEST(a_server_that_answers_by_copy_is_given_up),
        TEST(a_server_that_notifies_is_given_up),
        TEST(a_server_that_sends_parameters_without_end_is_given_up),
        TEST(one_at_a_unix_socket_that_does_is_given_up),
        TEST(one_that_does_before_it_lets_in_is_given_up),
        TEST(a_silent_host_leaves_the_connection_to_the_next_one),
        TEST(a_connection_that_received_much_is_made_again),
        TEST(what_is_cancelled_waits_no_longer_and_connects_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
