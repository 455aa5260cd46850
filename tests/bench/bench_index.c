/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_index WHERE ROWS FINDS [HOSTS]: how long a search takes in an index of many segments.
 *
 * WHERE is sqlite:PATH or postgres:CONNINFO, of an empty database. The index makes its schema and
 * takes one segment of each of HOSTS hosts (1000), through its interface. SQL then copies these
 * until there are ROWS, a minute each, one after the other. Prints a JSON object: the median and
 * the most milliseconds of FINDS searches that begin at a random moment: ten minutes of a host, an
 * hour of a host, the next 100 traces of a host, two minutes of all hosts. Failures: in words,
 * exit 1. The schema is that of collector/index/statements.c.
 */
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collector/index/index.h"

#define HOSTS_MAX 1000u
#define S         UINT64_C(1000000000)
#define T0        (UINT64_C(1780000000) * S)
#define FINDS_MAX 100000u

struct search {
    const char *name;
    uint64_t window_s; /* 0: from there to the end */
    bool is_of_host;
    uint32_t limit;
};

static const struct search searches[] = {
    {"10 min of a host", 600, true, 1000},
    {"1 h of a host", 3600, true, 1000},
    {"100 traces of a host", 0, true, 100},
    {"2 min of all hosts", 120, false, 10000},
};

static double times_ms[FINDS_MAX];
static unsigned hosts = HOSTS_MAX;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_index: %s: %s\n", what, why);
    exit(1);
}

static double now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- what is in it ---- */

static void store_first(struct pfl_index *index, unsigned host)
{
    static char *labels[] = {"role=web", "zone=b"};
    static char *sources[] = {"linux.ftrace", "track_event"};
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    enum pfl_index_reserve reserved;
    struct pfl_index_place place;
    uint8_t sha256[32] = {1};
    char name[16];

    (void)snprintf(name, sizeof(name), "host%04u", host);
    (void)snprintf(place.id, sizeof(place.id), "00%014u%010u", 0u, host);
    (void)snprintf(place.key, sizeof(place.key), "v1/fleet/2026/11/23/14/%s/%s.pftrace", name,
                   place.id);
    segment.host = name;
    segment.orderer = "me";
    segment.order = "cpu";
    segment.incarnation = "01JD0000000000000000000009";
    segment.has_number = segment.has_bytes = segment.has_sha256 = 1;
    segment.number = 1;
    segment.bytes = 1 << 20;
    segment.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
    segment.has_begin_unix_ns = segment.has_end_unix_ns = 1;
    segment.begin_unix_ns = T0;
    segment.end_unix_ns = T0 + 60 * S;
    segment.label = labels;
    segment.n_label = 2;
    segment.data_source = sources;
    segment.n_data_source = 2;
    if (pfl_index_reserve(index, &segment, T0, &place, &reserved) != 0 ||
        pfl_index_set_live(index, place.id, T0) != 0)
        die("cannot store", pfl_index_get_error(index));
}

#define MAKE_FIRST "CREATE TEMPORARY TABLE first AS SELECT * FROM segment"

/* Of each host the numbers n.v, copies of its first segment. */
static void write_copy(char *dst, size_t room, const char *numbers)
{
    (void)snprintf(
        dst, room,
        "INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
        " end_ns, bytes, sha256, object_key, definition, collector, generation, changed_ns,"
        " stored_ns) SELECT substr(CAST(10000000000000000 + n.v AS TEXT), 2) || substr(s.id, 17),"
        " run_id, host_id, n.v, n.v, 0, 0, 1, begin_ns + (n.v - 1) * 60000000000,"
        " end_ns + (n.v - 1) * 60000000000, bytes, sha256, object_key, definition, collector,"
        " generation, changed_ns, stored_ns FROM %s CROSS JOIN first s",
        numbers);
}

static void fill_sqlite(const char *path, uint64_t last)
{
    char numbers[256];
    char text[2048];
    char *why = NULL;
    sqlite3 *db = NULL;

    (void)snprintf(numbers, sizeof(numbers),
                   "(WITH RECURSIVE c(v) AS (SELECT 2 UNION ALL SELECT v + 1 FROM c WHERE v < %llu)"
                   " SELECT v FROM c) AS n",
                   (unsigned long long)last);
    write_copy(text, sizeof(text), numbers);
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000;" MAKE_FIRST, NULL,
                     NULL, &why) != SQLITE_OK ||
        sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, &why) != SQLITE_OK)
        die(path, why != NULL ? why : "it does not open");
    (void)sqlite3_close(db);
}

static void run_postgres(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die(text, PQerrorMessage(conn));
    PQclear(result);
}

static void fill_postgres(const char *where, uint64_t last)
{
    char numbers[96];
    char text[2048];
    PGconn *conn = PQconnectdb(where);

    (void)snprintf(numbers, sizeof(numbers), "generate_series(2, %llu) AS n(v)",
                   (unsigned long long)last);
    write_copy(text, sizeof(text), numbers);
    run_postgres(conn, MAKE_FIRST);
    run_postgres(conn, text);
    run_postgres(conn, "VACUUM ANALYZE segment"); /* as autovacuum does after a while */
    PQfinish(conn);
}

static void fill(struct pfl_index *index, const char *where, uint64_t rows)
{
    uint64_t last = rows / hosts;
    const char *colon = strchr(where, ':');

    for (unsigned i = 0; i < hosts; i++)
        store_first(index, i);
    if (strncmp(where, "sqlite:", 7) == 0)
        fill_sqlite(colon + 1, last);
    else
        fill_postgres(colon + 1, last);
}

/* ---- searches ---- */

static bool count_row(void *user, const struct pfl_index_row *row)
{
    (void)row;
    ++*(uint64_t *)user;
    return true;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

/* The traces that were found. */
static uint64_t run_search(struct pfl_index *index, const struct search *s, uint64_t minutes)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct pfl_index_cursor cursor = {.len = 0};
    uint64_t found = 0;
    struct pfl_index_find find = {.query = &query, .on_row = count_row, .user = &found};
    char name[16];
    char *host = name;

    (void)snprintf(name, sizeof(name), "host%04u", (unsigned)random() % hosts);
    query.n_host = s->is_of_host ? 1 : 0;
    query.host = &host;
    query.has_begin_unix_ns = 1;
    query.begin_unix_ns = T0 + (uint64_t)random() % minutes * 60 * S + 7 * S;
    query.has_end_unix_ns = s->window_s != 0;
    query.end_unix_ns = query.begin_unix_ns + s->window_s * S;
    query.has_limit = 1;
    query.limit = s->limit;
    if (pfl_index_find(index, &find, &cursor) != 0)
        die(s->name, pfl_index_get_error(index));
    return found;
}

static void measure(struct pfl_index *index, const struct search *s, uint64_t minutes,
                    unsigned finds)
{
    uint64_t found = 0;

    for (unsigned i = 0; i < finds; i++) {
        double begin = now_ms();

        found += run_search(index, s, minutes);
        times_ms[i] = now_ms() - begin;
    }
    qsort(times_ms, finds, sizeof(times_ms[0]), compare);
    printf(", \"%s, ms\": \"%.2f (most: %.2f)\"", s->name, times_ms[finds / 2],
           times_ms[finds - 1]);
    if (found == 0)
        die(s->name, "nothing was found");
}

int main(int argc, char **argv)
{
    struct pfl_index_conf conf = {.may_create = true};
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index;
    uint64_t generation;
    uint64_t rows;
    unsigned finds;
    double begin;

    if (argc != 4 && argc != 5)
        die("usage", "bench_index WHERE ROWS FINDS [HOSTS]");
    conf.where = argv[1];
    rows = strtoull(argv[2], NULL, 10);
    finds = (unsigned)strtoul(argv[3], NULL, 10);
    if (argc == 5)
        hosts = (unsigned)strtoul(argv[4], NULL, 10);
    if (hosts == 0 || hosts > HOSTS_MAX || rows < 2 * (uint64_t)hosts || finds == 0 ||
        finds > FINDS_MAX)
        die("usage", "at least 2 rows of a host, 1 to 1000 hosts, 1 to 100000 finds");
    if (pfl_index_open(&conf, why, &index) != 0)
        die(argv[1], why);
    if (pfl_index_join(index, "bench", &generation) != 0)
        die(argv[1], pfl_index_get_error(index));
    begin = now_ms();
    fill(index, argv[1], rows);
    printf("{\"filled, s\": %.1f", (now_ms() - begin) / 1e3);
    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++)
        measure(index, &searches[i], rows / hosts, finds);
    printf("}\n");
    pfl_index_close(index);
    return 0;
}
