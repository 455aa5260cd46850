/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases of every engine on a PostgreSQL of the test's own; then a server that dies under load,
 * and two collectors that store the same segments. Skipped where PostgreSQL is not installed. A
 * server that ends by itself (no memory, no room on the disk) is started again. When the test fails
 * it prints the server's log.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collector/index/index.h"
#include "tests/support/sweep.h"
#include "tests/unit/collector/index/index_cases.h"

#define SKIPPED    77
#define WATCHDOG_S 240
#define NUMBERS    1000u
#define KILLS      8
#define TRIES      5     /* of initdb: the disk may be full for a moment */
#define LOG_BYTES  16384 /* the end of the server's log that is printed */

static char bin[128];
static char folder[64];
static char data[96];
static char log_path[96];
static char where[160];
static pid_t server = -1;

static bool find_server(void)
{
    glob_t found;
    bool is_found = glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0;

    if (is_found) {
        const char *path = found.gl_pathv[found.gl_pathc - 1];

        (void)snprintf(bin, sizeof(bin), "%.*s", (int)(strlen(path) - strlen("/initdb")), path);
        globfree(&found);
    }
    return is_found;
}

/* PostgreSQL does not run as root. */
static void drop_root(void)
{
    const struct passwd *user = getpwnam("postgres");

    if (getuid() == 0 && (user == NULL || setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 ||
                          setuid(user->pw_uid) != 0))
        _exit(1);
}

/* args[0] becomes the program's path, because these programs look for each other beside it. */
static pid_t start(const char *program, char *args[])
{
    char path[192];
    pid_t parent = getpid();
    pid_t child = fork();
    int null;
    int log;

    if (child != 0)
        return child;
    (void)snprintf(path, sizeof(path), "%s/%s", bin, program);
    drop_root();
    (void)prctl(PR_SET_PDEATHSIG, SIGQUIT);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    log = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (getppid() != parent || chdir(folder) != 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
        dup2(log, 2) < 0)
        _exit(1);
    args[0] = path;
    (void)execv(path, args);
    _exit(127);
}

static int run_to_end(const char *program, char *args[])
{
    pid_t child = start(program, args);
    int status = -1;

    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        return 0;
    printf("%s/%s ended with status 0x%x\n", bin, program, (unsigned)status);
    return -1;
}

/* Needs little memory, and none of /dev/shm, which is small in containers. */
static void start_server(void)
{
    char *args[] = {"postgres", "-D",
                    data,       "-k",
                    folder,     "-h",
                    "",         "-F",
                    "-c",       "dynamic_shared_memory_type=mmap",
                    "-c",       "shared_buffers=16MB",
                    NULL};

    server = start("postgres", args);
}

/* The end of the server's log, on stdout. */
static void print_log(void)
{
    static char text[LOG_BYTES];
    FILE *file = fopen(log_path, "re");
    size_t len;

    if (file == NULL)
        return;
    (void)fseek(file, 0, SEEK_END);
    (void)fseek(file, ftell(file) > LOG_BYTES ? -(long)LOG_BYTES : -ftell(file), SEEK_END);
    len = fread(text, 1, sizeof(text), file);
    (void)fclose(file);
    printf("the end of %s:\n%.*s\n", log_path, (int)len, text);
}

static void end_server(int sig)
{
    (void)kill(server, sig);
    (void)waitpid(server, NULL, 0);
    server = -1;
}

/* As a crash: without a checkpoint. */
static void kill_server(void)
{
    end_server(SIGQUIT);
}

static void start_server_again_if_ended(void)
{
    int status;

    if (server <= 0 || waitpid(server, &status, WNOHANG) != server)
        return;
    printf("the server ended with status 0x%x, and is started again\n", (unsigned)status);
    (void)usleep(500000);
    start_server();
}

/* Until the server answers. */
static PGconn *connect_server(void)
{
    time_t end = time(NULL) + WATCHDOG_S;
    PGconn *conn;

    for (;;) {
        conn = PQconnectdb(where + strlen("postgres:"));
        if (PQstatus(conn) == CONNECTION_OK)
            return conn;
        if (time(NULL) > end) {
            printf("the server does not answer: %s\n", PQerrorMessage(conn));
            return conn;
        }
        PQfinish(conn);
        start_server_again_if_ended();
        (void)usleep(20000);
    }
}

static int make_empty(void)
{
    PGconn *conn = connect_server();
    PGresult *result = PQexec(conn, "SET client_min_messages = error; DROP SCHEMA public CASCADE; "
                                    "CREATE SCHEMA public");
    int rc = PQresultStatus(result) == PGRES_COMMAND_OK ? 0 : -1;

    if (rc != 0)
        printf("the schema is not emptied: %s\n", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
    return rc;
}

static unsigned count(const char *table)
{
    PGconn *conn = connect_server();
    char text[64];
    PGresult *result;
    unsigned rows;

    (void)snprintf(text, sizeof(text), "SELECT COUNT(*) FROM %s", table);
    result = PQexec(conn, text);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    rows = (unsigned)strtoul(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(conn);
    return rows;
}

static void script(const char *text)
{
    PGconn *conn = connect_server();
    PGresult *result = PQexec(conn, text);

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static int set_up(void)
{
    char *args[] = {"initdb", "-D", data,   "-U",         "perfleet", "-A",
                    "trust",  "-E", "UTF8", "--locale=C", "-N",       NULL};
    const struct passwd *user = getpwnam("postgres");

    (void)snprintf(folder, sizeof(folder), "/tmp/perfleet-test-XXXXXX");
    if (mkdtemp(folder) == NULL ||
        (getuid() == 0 && (user == NULL || chown(folder, user->pw_uid, user->pw_gid) != 0)))
        return -1;
    (void)snprintf(data, sizeof(data), "%s/data", folder);
    (void)snprintf(log_path, sizeof(log_path), "%s/log", folder);
    (void)snprintf(where, sizeof(where), "postgres:host=%s user=perfleet dbname=postgres", folder);
    for (int tries = 1; run_to_end("initdb", args) != 0; tries++) {
        if (tries == TRIES)
            return -1;
        (void)sleep(2);
    }
    start_server();
    return make_empty();
}

static void tear_down(void)
{
    char *args[] = {"rm", "-rf", data, log_path, NULL};

    if (server > 0)
        end_server(SIGINT); /* which leaves no shared memory behind */
    (void)snprintf(bin, sizeof(bin), "/bin");
    (void)run_to_end("rm", args);
    (void)rmdir(folder);
}

static struct pfl_index *open_index(void)
{
    const struct pfl_index_conf conf = {.where = where, .may_create = true};
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index;
    time_t end = time(NULL) + WATCHDOG_S;

    while (pfl_index_open(&conf, why, &index) != 0) {
        if (time(NULL) > end) {
            printf("the index does not open: %s\n", why);
            return NULL;
        }
        (void)usleep(20000);
    }
    return index;
}

static bool is_for_now(int rc)
{
    if (rc == PFL_EAGAIN)
        (void)usleep(20000);
    return rc == PFL_EAGAIN;
}

/* Stores a segment as a collector does, again and again until it is stored. False: it cannot be. */
static bool store(struct pfl_index *index, uint32_t number, unsigned *ids)
{
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    enum pfl_index_reserve result = PFL_INDEX_RESERVE_BUSY;
    struct pfl_index_place place;
    uint8_t sha256[32] = {(uint8_t)number, (uint8_t)(number >> 8)};
    int rc = PFL_EAGAIN;

    segment.host = "a";
    segment.order = "cpu";
    segment.incarnation = "01JD0000000000000000000009";
    segment.has_number = 1;
    segment.number = number;
    segment.has_sha256 = 1;
    segment.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
    while (result != PFL_INDEX_RESERVE_STORED) {
        (void)snprintf(place.id, sizeof(place.id), "%010d%016u", (int)getpid(), ++*ids);
        (void)snprintf(place.key, sizeof(place.key), "v1/%s", place.id);
        rc = pfl_index_reserve(index, &segment, 1000, &place, &result);
        if (is_for_now(rc))
            continue;
        if (rc == 0 && (result == PFL_INDEX_RESERVE_NEW || result == PFL_INDEX_RESERVE_AGAIN))
            rc = pfl_index_set_live(index, place.id, 2000);
        if (rc != 0 && rc != PFL_ENOENT && !is_for_now(rc)) {
            printf("segment %u is not stored: %d, %s\n", number, rc, pfl_index_get_error(index));
            return false;
        }
    }
    return true;
}

static void store_all(const char *collector)
{
    struct pfl_index *index = open_index();
    uint64_t generation;
    unsigned ids = 0;

    (void)alarm(WATCHDOG_S);
    if (index == NULL)
        _exit(1);
    while (is_for_now(pfl_index_join(index, collector, &generation)))
        continue;
    for (uint32_t i = 1; i <= NUMBERS; i++)
        if (!store(index, i, &ids)) {
            (void)fflush(stdout);
            _exit(1);
        }
    pfl_index_close(index);
    _exit(0);
}

static const struct pfl_index_run_query all_runs = {.after_host = "",
                                                    .after_incarnation = "",
                                                    .after_orderer = "",
                                                    .after_order = "",
                                                    .limit = 1000};

static bool on_run(void *user, const struct pfl_index_run *run)
{
    *(struct pfl_index_run *)user = *run;
    return true;
}

static void assert_all_stored_once(void)
{
    struct pfl_index *index = open_index();
    struct pfl_index_run run = {.last = 0};

    assert_non_null(index);
    while (is_for_now(pfl_index_list_runs(index, &all_runs, on_run, &run)))
        continue;
    pfl_index_close(index);
    assert_int_equal(run.last, NUMBERS);
    assert_int_equal(run.stored, NUMBERS);
    assert_int_equal(run.holes, 0);
}

static bool has_ended(pid_t child, int *status)
{
    return waitpid(child, status, WNOHANG) == child;
}

static void a_server_that_dies_loses_and_repeats_nothing(void **state)
{
    int status = -1;
    bool is_over = false;
    unsigned kills = 0;
    pid_t child;

    (void)state;
    assert_int_equal(make_empty(), 0);
    child = fork();
    if (child == 0)
        store_all("c1");
    for (int i = 0; i < KILLS && !is_over; i++) {
        (void)usleep(30000u + 25000u * (unsigned)i);
        kill_server();
        kills++;
        start_server();
        PQfinish(connect_server());
        is_over = has_ended(child, &status);
    }
    if (!is_over)
        assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_in_range(kills, 1, KILLS);
    assert_all_stored_once();
}

static void two_collectors_store_each_segment_once(void **state)
{
    int status[2] = {-1, -1};
    pid_t child[2];

    (void)state;
    assert_int_equal(make_empty(), 0);
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0)
            store_all(i == 0 ? "c1" : "c2");
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(child[i], &status[i], 0), child[i]);
        assert_int_equal(status[i], 0);
    }
    assert_all_stored_once();
}

static void no_server_is_said_so(void **state)
{
    const struct pfl_index_conf conf = {.where = "postgres:host=/nowhere dbname=x"};
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index;

    (void)state;
    assert_int_equal(pfl_index_open(&conf, why, &index), PFL_EAGAIN);
    assert_non_null(strstr(why, "No such file or directory"));
}

static void a_newer_schema_is_refused_in_words(void **state)
{
    const struct pfl_index_conf conf = {.where = where, .may_create = true};
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = open_index();
    PGconn *conn = connect_server();

    (void)state;
    assert_non_null(index);
    pfl_index_close(index);
    PQclear(PQexec(conn, "UPDATE perfleet_schema SET version = 9"));
    PQfinish(conn);
    assert_int_equal(pfl_index_open(&conf, why, &index), PFL_ENEWER);
    assert_non_null(strstr(why, "the index has version 9"));
    assert_int_equal(make_empty(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_server_is_said_so),
        cmocka_unit_test(a_newer_schema_is_refused_in_words),
        cmocka_unit_test(two_collectors_store_each_segment_once),
        cmocka_unit_test(a_server_that_dies_loses_and_repeats_nothing),
    };
    const struct index_cases_engine engine = {"every engine: PostgreSQL", where, make_empty, count,
                                              script};
    int failed;

    if (!find_server()) {
        printf("skipped: PostgreSQL is not installed\n");
        return SKIPPED;
    }
    if (set_up() != 0) {
        printf("PostgreSQL does not start in %s\n", folder);
        print_log();
        tear_down();
        return 1;
    }
    failed = index_cases_run(&engine);
    failed += cmocka_run_group_tests_name("PostgreSQL", tests, NULL, NULL);
    if (failed != 0)
        print_log();
    tear_down();
    pfl_sweep_assert_no_leak();
    return failed;
}
