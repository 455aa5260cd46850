/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector that is killed at any step, hundreds of times, against a model of a host and the real
 * store and index: at the end each number is stored once with its own bytes, or a gap; the host has
 * removed only what was live; and nothing is missing.
 *
 * Each round is a process that opens both engines, makes a visit and kills itself before or after a
 * random step. The host is in memory that the rounds share; it finishes segments meanwhile, and its
 * quota makes gaps.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/sha256.h"
#include "base/mem.h"
#include "base/ulid.h"
#include "collector/describe/description.h"
#include "collector/index/index.h"
#include "collector/pull/reservation.h"
#include "collector/pull/visit.h"
#include "collector/store/store.h"
#include "proto/unpack.h"

#define ROUNDS      200u
#define NUMBERS_MAX 400u
#define PIECE       700u
#define INCARNATION "01JD0000000000000000000000"

enum fate {
    FATE_AT_HOST = 0,
    FATE_RELEASED, /* the collector said so */
    FATE_IN_GAP,   /* the quota removed it unread */
};

struct model_host {
    unsigned lives; /* of collectors */
    uint32_t len;   /* numbers 1 to len were finished */
    uint8_t fates[NUMBERS_MAX + 1];
    bool is_gap_released[NUMBERS_MAX + 1];
};

struct round {
    struct model_host *host;
    struct pfl_store *store;
    struct pfl_index *index;
    struct pfl_store_put *put;
    struct pfl_visit *visit;
    struct pfl_index_place place;
    Perfleet__Segment segment;
    uint8_t data[PIECE];
    size_t data_len;
    int kill_in; /* steps; below 0: never */
};

static char folder[64];

/* ---- the host ---- */

static uint64_t size_of(uint32_t number)
{
    return number % 9 == 0 ? 0 : number * 37 % 3000;
}

static uint8_t byte_of(uint32_t number, uint64_t at)
{
    return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static void hash_of(uint32_t number, uint8_t sha[32])
{
    static uint8_t bytes[3000];
    struct pfl_sha256 *hash = NULL;

    for (uint64_t i = 0; i < size_of(number); i++)
        bytes[i] = byte_of(number, i);
    assert_int_equal(pfl_sha256_new(&hash), 0);
    pfl_sha256_add(hash, pfl_span_of(bytes, size_of(number)));
    assert_int_equal(pfl_sha256_end(hash, sha), 0);
    pfl_sha256_free(hash);
}

static void pack_list(const struct model_host *h, const struct pfl_visit *visit,
                      Perfleet__SpoolReply **ret_reply)
{
    static Perfleet__Segment segments[256];
    static Perfleet__Segment *list[256];
    static Perfleet__SegmentGap gaps[256];
    static uint8_t shas[256][32];
    Perfleet__SpoolReply reply = PERFLEET__SPOOL_REPLY__INIT;
    Perfleet__SpoolRequest__ListSegments ask;
    struct pfl_buf packed;
    uint32_t number;

    pfl_visit_get_list(visit, &ask);
    number = ask.after_incarnation != NULL ? ask.after_number + 1 : 1;
    reply.segment = list;
    for (; number <= h->len && reply.n_segment < 7; number++) {
        size_t n = reply.n_segment;
        Perfleet__Segment *s = &segments[n];

        if (h->fates[number] == FATE_RELEASED || h->is_gap_released[number])
            continue;
        perfleet__segment__init(s);
        s->incarnation = (char *)(uintptr_t)INCARNATION;
        s->has_number = true;
        s->number = number;
        s->orderer = (char *)(uintptr_t) "ann";
        s->order = (char *)(uintptr_t) "web";
        s->has_begin_unix_ns = s->has_end_unix_ns = true;
        s->begin_unix_ns = UINT64_C(1700000000000000000) + number * UINT64_C(1000000000);
        s->end_unix_ns = s->begin_unix_ns + 1000000000;
        if (h->fates[number] == FATE_IN_GAP) {
            perfleet__segment_gap__init(&gaps[n]);
            gaps[n].has_last = true;
            gaps[n].last = number; /* each its own, as they come */
            s->gap = &gaps[n];
        } else {
            hash_of(number, shas[n]);
            s->has_sha256 = s->has_bytes = true;
            s->sha256 = (ProtobufCBinaryData){32, shas[n]};
            s->bytes = size_of(number);
        }
        list[reply.n_segment++] = s;
    }
    reply.has_has_more = true;
    reply.has_more = number <= h->len;
    pfl_buf_init(&packed, 1u << 20);
    assert_int_equal(pfl_proto_pack(&reply.base, &packed), 0);
    assert_int_equal(pfl_proto_unpack(&perfleet__spool_reply__descriptor, pfl_buf_get(&packed),
                                      (ProtobufCMessage **)ret_reply),
                     0);
    pfl_buf_fini(&packed);
}

static void release(struct round *r)
{
    uint32_t number = pfl_visit_get_segment(r->visit)->number;
    uint32_t last = r->segment.gap != NULL ? r->segment.gap->last : 0;

    if (r->segment.gap == NULL)
        r->host->fates[number] = FATE_RELEASED;
    for (; r->segment.gap != NULL && number <= last; number++)
        r->host->is_gap_released[number] = true;
    pfl_visit_on_status(r->visit, 0);
}

/* ---- the collector ---- */

static int reserve(struct round *r, enum pfl_visit_reserve *ret_result)
{
    uint8_t random[PFL_ULID_RANDOM_BYTES];
    enum pfl_index_reserve result = PFL_INDEX_RESERVE_BUSY;
    struct pfl_store_key_parts parts = {"demo", "web1", r->place.id, "pftrace", 0};
    int rc;

    for (size_t i = 0; i < sizeof(random); i++)
        random[i] = (uint8_t)rand();
    r->segment = *pfl_visit_get_segment(r->visit);
    r->segment.host = (char *)(uintptr_t) "web1";
    parts.unix_ns = r->segment.begin_unix_ns;
    pfl_ulid_write(1700000000000, random, r->place.id);
    r->place.key[0] = '\0';
    if (r->segment.gap == NULL)
        assert_int_equal(pfl_store_key_make(&parts, r->place.key), 0);
    rc = pfl_reservation_make(r->index, &r->segment, parts.unix_ns, &r->place, &result);
    *ret_result = result == PFL_INDEX_RESERVE_STORED     ? PFL_VISIT_IS_LIVE
                  : result == PFL_INDEX_RESERVE_CONFLICT ? PFL_VISIT_CONFLICT
                  : result == PFL_INDEX_RESERVE_BUSY     ? PFL_VISIT_BUSY
                                                         : PFL_VISIT_RESERVED;
    return rc;
}

static int describe(struct round *r)
{
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    struct pfl_store_key_parts parts = {"demo", "web1", r->place.id, "json",
                                        r->segment.begin_unix_ns};
    char key[PFL_STORE_KEY_BYTES];
    struct pfl_buf text;
    int rc;

    trace.id = r->place.id;
    trace.segment = &r->segment;
    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    assert_int_equal(pfl_description_write(&trace, &text), 0);
    assert_int_equal(pfl_store_key_make(&parts, key), 0);
    rc = pfl_store_put_all(r->put, key, pfl_buf_get(&text));
    pfl_buf_fini(&text);
    return rc;
}

static void read_on(struct round *r)
{
    uint64_t at = pfl_visit_get_offset(r->visit);
    uint64_t left = r->segment.bytes - at;

    r->data_len = left < PIECE ? (size_t)left : PIECE;
    for (size_t i = 0; i < r->data_len; i++)
        r->data[i] = byte_of(r->segment.number, at + i);
    pfl_visit_on_data(r->visit, pfl_span_of(r->data, r->data_len), left > PIECE);
}

static int call_engine(struct round *r, enum pfl_visit_step step)
{
    if (step == PFL_VISIT_BEGIN)
        return pfl_store_put_begin(r->put, r->place.key, r->segment.bytes, r->segment.sha256.data);
    if (step == PFL_VISIT_WRITE)
        return pfl_store_put_write(r->put, pfl_span_of(r->data, r->data_len));
    if (step == PFL_VISIT_COMMIT)
        return pfl_store_put_commit(r->put);
    if (step == PFL_VISIT_DESCRIBE)
        return describe(r);
    if (step == PFL_VISIT_SET_LIVE)
        return pfl_index_set_live(r->index, r->place.id, 1);
    if (step == PFL_VISIT_ABORT)
        pfl_store_put_abort(r->put);
    return 0; /* CONNECT */
}

static void do_step(struct round *r, enum pfl_visit_step step)
{
    enum pfl_visit_reserve result = PFL_VISIT_BUSY;
    Perfleet__SpoolReply *reply = NULL;
    int rc;

    if (step == PFL_VISIT_LIST) {
        pack_list(r->host, r->visit, &reply);
        pfl_visit_on_list(r->visit, reply);
    } else if (step == PFL_VISIT_RESERVE) {
        rc = reserve(r, &result);
        pfl_visit_on_reserve(r->visit, rc, result);
    } else if (step == PFL_VISIT_READ || step == PFL_VISIT_READ_MORE) {
        read_on(r);
    } else if (step == PFL_VISIT_RELEASE) {
        release(r);
    } else {
        pfl_visit_on_done(r->visit, call_engine(r, step));
    }
}

static void kill_self(struct round *r)
{
    if (r->kill_in-- == 0)
        (void)raise(SIGKILL);
}

/* One life of a collector; its end, if it is not killed. */
static enum pfl_visit_end live(struct model_host *host, int kill_in)
{
    static struct round r;
    static struct pfl_corrupt_segments corrupt;
    static const struct pfl_visit_conf conf = {.host = "web1", .corrupt = &corrupt};
    struct pfl_store_conf store = {.where = folder};
    char where[128];
    struct pfl_index_conf index = {.where = where, .may_create = true};
    char why[PFL_INDEX_WHY_BYTES + PFL_STORE_WHY_BYTES];
    enum pfl_visit_step step;
    enum pfl_visit_end end;
    uint64_t generation;

    (void)snprintf(where, sizeof(where), "sqlite:%s/index.sqlite", folder);
    r = (struct round){.host = host, .kill_in = kill_in};
    srand(1000 + ++host->lives); /* each has its own ids */
    assert_int_equal(pfl_store_open(&store, why, &r.store), 0);
    assert_int_equal(pfl_index_open(&index, why, &r.index), 0);
    assert_int_equal(pfl_index_join(r.index, "keeper", &generation), 0);
    assert_int_equal(pfl_store_put_new(r.store, &r.put), 0);
    assert_int_equal(pfl_visit_new(&conf, &r.visit), 0);
    while ((step = pfl_visit_take(r.visit)) != PFL_VISIT_END) {
        kill_self(&r);
        do_step(&r, step);
        kill_self(&r);
    }
    end = pfl_visit_get_end(r.visit);
    pfl_visit_free(r.visit);
    pfl_store_put_free(r.put);
    pfl_index_close(r.index);
    pfl_store_close(r.store);
    return end;
}

/* ---- what must hold ---- */

struct seen {
    struct pfl_store *store;
    const struct model_host *host;
    unsigned live[NUMBERS_MAX + 1];
    uint32_t number;
    uint64_t read;
    unsigned objects;
};

static bool compare(void *user, struct pfl_span bytes)
{
    struct seen *seen = user;

    for (size_t i = 0; i < bytes.len; i++)
        assert_int_equal(bytes.data[i], byte_of(seen->number, seen->read + i));
    seen->read += bytes.len;
    return true;
}

static bool on_row(void *user, const struct pfl_index_row *row)
{
    static const struct pfl_store_range whole = {0, UINT64_MAX};
    struct seen *seen = user;
    uint8_t sha[32];

    seen->live[row->number]++;
    if (row->sha256.len == 0) {
        assert_int_equal(seen->host->fates[row->number], FATE_IN_GAP);
        return true;
    }
    hash_of((uint32_t)row->number, sha);
    assert_memory_equal(row->sha256.data, sha, sizeof(sha));
    seen->objects++;
    seen->number = (uint32_t)row->number;
    seen->read = 0;
    assert_int_equal(pfl_store_get(seen->store, row->key, &whole, compare, seen), 0);
    assert_int_equal(seen->read, size_of(seen->number));
    return true;
}

static const struct pfl_index_run_query all_runs = {.after_host = "",
                                                    .after_incarnation = "",
                                                    .after_orderer = "",
                                                    .after_order = "",
                                                    .limit = 1000};

static bool on_run(void *user, const struct pfl_index_run *run)
{
    const struct model_host *host = user;

    assert_int_equal(run->last, host->len);
    assert_int_equal(run->holes, 0);
    assert_int_equal(run->stored + run->in_gaps, host->len);
    return true;
}

static unsigned count_objects(struct pfl_store *store, const char *suffix)
{
    static struct pfl_store_object objects[3 * NUMBERS_MAX];
    struct pfl_store_listing all = {"v1/", ""};
    unsigned count = 0;
    size_t len = 0;

    assert_int_equal(pfl_store_list(store, &all, objects, 3 * (size_t)NUMBERS_MAX, &len), 0);
    for (size_t i = 0; i < len; i++)
        count += strstr(objects[i].key, suffix) != NULL;
    return count;
}

static void check_all(const struct model_host *host)
{
    static struct seen seen;
    struct pfl_store_conf store = {.where = folder};
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct pfl_index_find find = {.query = &query, .on_row = on_row, .user = &seen};
    struct pfl_index_cursor cursor = {.len = 0};
    char where[128];
    struct pfl_index_conf conf = {.where = where};
    char why[PFL_INDEX_WHY_BYTES + PFL_STORE_WHY_BYTES];
    struct pfl_index *index;
    unsigned in_gaps = 0;

    seen = (struct seen){.host = host};
    query.has_limit = true;
    query.limit = PFL_INDEX_LIMIT_MAX;
    (void)snprintf(where, sizeof(where), "sqlite:%s/index.sqlite", folder);
    assert_int_equal(pfl_store_open(&store, why, &seen.store), 0);
    assert_int_equal(pfl_index_open(&conf, why, &index), 0);
    assert_int_equal(pfl_index_find(index, &find, &cursor), 0);
    assert_int_equal(cursor.len, 0);
    for (uint32_t n = 1; n <= host->len; n++) {
        in_gaps += host->fates[n] == FATE_IN_GAP;
        if (host->fates[n] == FATE_RELEASED)
            assert_int_equal(seen.live[n], 1);
        assert_true(host->fates[n] != FATE_AT_HOST);
    }
    /* A quota may take what was already stored and not live: the sweeper removes such objects. */
    assert_in_range(count_objects(seen.store, ".pftrace"), seen.objects, seen.objects + in_gaps);
    assert_int_equal(pfl_index_list_runs(index, &all_runs, on_run, (void *)(uintptr_t)host), 0);
    pfl_index_close(index);
    pfl_store_close(seen.store);
}

static void work_meanwhile(struct model_host *host)
{
    unsigned more = (unsigned)rand() % 3;

    while (more-- != 0 && host->len < NUMBERS_MAX)
        host->fates[++host->len] = FATE_AT_HOST;
    if (rand() % 8 != 0) /* a full quota, now and then */
        return;
    for (uint32_t n = 1; n <= host->len; n++) {
        if (host->fates[n] == FATE_AT_HOST && rand() % 2 == 0) {
            host->fates[n] = FATE_IN_GAP;
            return;
        }
    }
}

static void nothing_is_lost_or_stored_twice_when_killed_at_any_step(void **state)
{
    struct model_host *host =
        mmap(NULL, sizeof(*host), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned killed = 0;

    (void)state;
    assert_true(host != MAP_FAILED);
    memset(host, 0, sizeof(*host));
    srand(20);
    for (unsigned round = 0; round < ROUNDS; round++) {
        int kill_in = rand() % 60;
        int status = 0;
        pid_t pid;

        work_meanwhile(host);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)live(host, kill_in);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        killed += WIFSIGNALED(status);
        assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    }
    assert_true(killed > ROUNDS / 4);
    for (unsigned i = 0; i < 100 && live(host, -1) == PFL_VISIT_MORE; i++)
        ;
    check_all(host);
    (void)munmap(host, sizeof(*host));
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pfl-pull-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    char *const argv[] = {(char *)(uintptr_t) "rm", (char *)(uintptr_t) "-rf", folder, NULL};
    pid_t pid = fork();
    int status = 0;

    (void)state;
    if (pid == 0) {
        (void)execvp("rm", argv);
        _exit(1);
    }
    return waitpid(pid, &status, 0) == pid ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_lost_or_stored_twice_when_killed_at_any_step,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
