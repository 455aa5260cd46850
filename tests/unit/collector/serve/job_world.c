/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/collector/serve/job_world.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/gate/policy.h"
#include "proto/ipc/frame.h"
#include "proto/unpack.h"
#include "tests/support/recorded.h"

static const char policy[] =
    "rule { name: \"web\" operator: \"ann\" host: \"*\" label: \"role=web\" role: \"all\" }\n"
    "role { name: \"all\" traces: true manage_traces: true order: true }\n";

struct world world;

static char folder[64];
static unsigned ids;

/* ---- what was answered ---- */

void world_drop_replies(void)
{
    for (size_t i = 0; i < world.replies_len; i++)
        pfl_proto_free(&world.replies[i]->base);
    world.replies_len = 0;
    memset(world.steps, 0, sizeof(world.steps));
    world.changed_len = 0;
}

const Perfleet__CollectorReply *world_last(void)
{
    assert_true(world.replies_len != 0);
    return world.replies[world.replies_len - 1];
}

unsigned world_status(void)
{
    return world_last()->status;
}

size_t world_count_traces(void)
{
    size_t n = 0;

    for (size_t i = 0; i < world.replies_len; i++)
        n += world.replies[i]->n_trace;
    return n;
}

static int on_frame(void *user, struct pfl_span payload)
{
    ProtobufCMessage *message = NULL;
    int rc = pfl_proto_unpack(&perfleet__collector_reply__descriptor, payload, &message);

    (void)user;
    assert_true(world.replies_len < WORLD_REPLIES);
    if (rc == 0)
        world.replies[world.replies_len++] = (Perfleet__CollectorReply *)message;
    return rc;
}

int world_read_replies(const struct pfl_buf *out)
{
    struct pfl_frame_reader reader;
    int rc;

    pfl_frame_reader_init_large(&reader);
    rc = pfl_frame_reader_feed(&reader, pfl_buf_get(out), on_frame, NULL);
    pfl_frame_reader_fini(&reader);
    return rc;
}

/* ---- a job from its first step to its last ---- */

static void note_changed(const struct pfl_job *job, enum pfl_job_step step)
{
    for (unsigned i = 0; step == PFL_JOB_CHANGE && i < job->changed_len; i++) {
        assert_true(world.changed_len < WORLD_CHANGED);
        memcpy(world.changed[world.changed_len++], job->changed_ids[i], PFL_INDEX_ID_BYTES);
    }
}

static int run_job(struct pfl_job *job, struct pfl_buf *out)
{
    for (unsigned n = 0; n < 100000; n++) {
        enum pfl_job_step step = pfl_job_take(job);
        int rc = 0;

        assert_int_not_equal(step, PFL_JOB_WAIT);
        assert_int_equal(pfl_job_take(job), PFL_JOB_WAIT);
        world.steps[step]++;
        pfl_record("step %d", (int)step);
        if (step == PFL_JOB_END)
            return 0;
        if (step == PFL_JOB_REPLY) {
            rc = pfl_job_reply(job, world.hosts, out);
        } else if (step == world.fail_at) {
            pfl_job_fail(job, PFL_EAGAIN);
        } else {
            if (world.on_step != NULL)
                world.on_step(world.steps[step]);
            assert_true(pfl_job_is_of_index(step) != pfl_job_is_of_store(step));
            pfl_job_work_run(job, &world.engines);
            note_changed(job, step);
            pfl_job_on_done(job);
        }
        if (rc != 0)
            return rc;
    }
    fail_msg("the request has no end");
    return 0;
}

int world_run_packed(struct pfl_span packed)
{
    const struct pfl_job_conf conf = {
        .packed = packed, .scope = world.scope, .operator_name = "ann", .now_unix_ns = WORLD_NOW};
    struct pfl_job *job = NULL;
    struct pfl_buf out;
    int rc = pfl_job_new(&conf, &job);

    world_drop_replies();
    pfl_buf_init(&out, 64u << 20);
    if (rc == 0)
        rc = pfl_job_work_prepare(job);
    if (rc == 0)
        rc = run_job(job, &out);
    pfl_record("rc %d", rc);
    /* A signature is of a time. */
    if (out.len == 0 || memmem(out.data, out.len, "X-Amz-", 6) == NULL)
        pfl_record_bytes("replies", pfl_buf_get(&out));
    if (rc == 0)
        rc = world_read_replies(&out);
    if (job != NULL)
        pfl_job_work_release(job);
    pfl_job_free(job);
    pfl_buf_fini(&out);
    return rc;
}

int world_run_request(Perfleet__CollectorRequest *request)
{
    struct pfl_buf packed;
    int rc;

    request->has_id = 1;
    request->id = 7;
    pfl_buf_init(&packed, 1u << 20);
    rc = pfl_proto_pack(&request->base, &packed);
    if (rc == 0)
        rc = world_run_packed(pfl_buf_get(&packed));
    pfl_buf_fini(&packed);
    return rc;
}

/* Each reply has the id, only the last one is the last, and a failure is the only one. */
void world_ask(Perfleet__CollectorRequest *request)
{
    assert_int_equal(world_run_request(request), 0);
    for (size_t i = 0; i < world.replies_len; i++) {
        assert_int_equal(world.replies[i]->id, 7);
        assert_int_equal(world.replies[i]->has_more, i + 1 < world.replies_len);
    }
    assert_true((world_status() == 0) == (world_last()->why == NULL));
}

char *world_text(const char *string)
{
    return (char *)(uintptr_t)string;
}

/* ---- what is stored ---- */

static void hash_of(struct pfl_span bytes, uint8_t sha256[32])
{
    struct pfl_sha256 *hash;

    assert_int_equal(pfl_sha256_new(&hash), 0);
    pfl_sha256_add(hash, bytes);
    assert_int_equal(pfl_sha256_end(hash, sha256), 0);
    pfl_sha256_free(hash);
}

const char *world_store(const struct world_trace *what)
{
    Perfleet__Segment s = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    enum pfl_index_reserve result;
    struct world_made *m = &world.made;
    char *labels[] = {world_text(what->label)};
    char *sources[] = {world_text(what->source)};
    uint8_t sha256[32];

    m->len = what->len;
    for (size_t i = 0; i < m->len; i++)
        m->bytes[i] = (uint8_t)(i * 7 + what->number + (i >> 8));
    hash_of(pfl_span_of(m->bytes, m->len), sha256);
    s.host = world_text(what->host);
    s.orderer = world_text("ann");
    s.order = world_text("cpu");
    s.incarnation = world_text("01JD0000000000000000000009");
    s.has_number = s.has_begin_unix_ns = s.has_end_unix_ns = 1;
    s.number = what->number;
    s.begin_unix_ns = WORLD_T0 + what->number * WORLD_S;
    s.end_unix_ns = s.begin_unix_ns + WORLD_S;
    s.label = labels;
    s.n_label = 1;
    s.data_source = sources;
    s.n_data_source = what->source != NULL;
    if (what->gap_last != 0) {
        gap.has_last = 1;
        gap.last = what->gap_last;
        s.gap = &gap;
    } else {
        s.has_bytes = s.has_sha256 = 1;
        s.bytes = m->len;
        s.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
    }
    (void)snprintf(m->place.id, sizeof(m->place.id), "01JD%022u", ++ids);
    m->place.key[0] = '\0';
    if (what->gap_last == 0)
        (void)snprintf(m->place.key, sizeof(m->place.key), "v1/lab/%s.pftrace", m->place.id);
    assert_int_equal(pfl_index_reserve(world.engines.index, &s, WORLD_T0, &m->place, &result), 0);
    assert_int_equal(result, PFL_INDEX_RESERVE_NEW);
    if (what->gap_last != 0)
        return m->place.id;
    assert_int_equal(pfl_store_put_all(world.put, m->place.key, pfl_span_of(m->bytes, m->len)), 0);
    assert_int_equal(pfl_index_set_live(world.engines.index, m->place.id, WORLD_T0), 0);
    return m->place.id;
}

const char *world_store_web(uint32_t number, size_t len)
{
    return world_store(&(struct world_trace){"web1", "role=web", number, len, 0, NULL});
}

const char *world_store_db(uint32_t number)
{
    return world_store(&(struct world_trace){"db1", "role=db", number, 100, 0, NULL});
}

void world_know(const char *name, const char *label, bool is_connected)
{
    char *labels[] = {world_text(label)};
    const struct pfl_known_host host = {
        .name = name, .is_connected = is_connected, .labels = labels, .labels_len = 1};

    assert_int_equal(pfl_known_hosts_set(world.hosts, &host), 0);
}

/* ---- fixtures ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

int world_open_scope(const char *rules)
{
    char why[PFL_POLICY_WHY_BYTES];

    return pfl_scope_new(pfl_span_of(rules, strlen(rules)), "ann", why, &world.scope);
}

int world_begin(void **state)
{
    char why[PFL_INDEX_WHY_BYTES > PFL_STORE_WHY_BYTES ? PFL_INDEX_WHY_BYTES : PFL_STORE_WHY_BYTES];
    char where[128];
    const struct pfl_index_conf index = {.where = where, .may_create = true, .may_lose_last = true};
    const struct pfl_store_conf conf = {.where = folder};
    uint64_t generation;

    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/perfleet-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(where, sizeof(where), "sqlite:%s/index.sqlite", folder);
    ids = 0;
    world.fail_at = PFL_JOB_WAIT;
    world.on_step = NULL;
    if (pfl_store_open(&conf, why, &world.engines.store) != 0 ||
        pfl_index_open(&index, why, &world.engines.index) != 0)
        return -1;
    if (pfl_store_put_new(world.engines.store, &world.put) != 0 ||
        pfl_known_hosts_new(&(struct pfl_hash_key){{3, 5}}, &world.hosts) != 0 ||
        world_open_scope(policy) != 0)
        return -1;
    return pfl_index_join(world.engines.index, "c1", &generation);
}

int world_end(void **state)
{
    (void)state;
    world_drop_replies();
    pfl_scope_free(world.scope);
    pfl_known_hosts_free(world.hosts);
    pfl_store_put_free(world.put);
    pfl_index_close(world.engines.index);
    pfl_store_close(world.engines.store);
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
