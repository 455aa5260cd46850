/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/collector/retain/store_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/sha256.h"
#include "collector/describe/description.h"

void store_world_make(struct store_world *w)
{
    *w = (struct store_world){.store = NULL};
    (void)snprintf(w->folder, sizeof(w->folder), "/tmp/pfl-clean-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    (void)snprintf(w->where, sizeof(w->where), "sqlite:%s/index.sqlite", w->folder);
}

void store_world_remove(struct store_world *w)
{
    char *const argv[] = {(char *)(uintptr_t) "rm", (char *)(uintptr_t) "-rf", w->folder, NULL};
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        (void)execvp("rm", argv);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

void store_world_open(struct store_world *w, const char *collector)
{
    const struct pfl_store_conf store = {.where = w->folder};
    const struct pfl_index_conf index = {.where = w->where, .may_create = true};
    char why[PFL_INDEX_WHY_BYTES + PFL_STORE_WHY_BYTES];
    uint64_t generation;

    assert_int_equal(pfl_store_open(&store, why, &w->store), 0);
    assert_int_equal(pfl_index_open(&index, why, &w->index), 0);
    assert_int_equal(pfl_index_join(w->index, collector, &generation), 0);
}

void store_world_close(struct store_world *w)
{
    assert_int_equal(pfl_index_leave(w->index), 0);
    pfl_index_close(w->index);
    pfl_store_close(w->store);
    w->index = NULL;
    w->store = NULL;
}

static void hash(const uint8_t *bytes, size_t len, uint8_t sha[32])
{
    struct pfl_sha256 *running = NULL;

    assert_int_equal(pfl_sha256_new(&running), 0);
    pfl_sha256_add(running, pfl_span_of(bytes, len));
    assert_int_equal(pfl_sha256_end(running, sha), 0);
    pfl_sha256_free(running);
}

static void describe(struct store_world *w, struct pfl_store_put *put,
                     const struct store_world_trace *t, Perfleet__Segment *segment)
{
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    struct pfl_buf text;

    (void)w;
    trace.id = (char *)(uintptr_t)t->id;
    trace.segment = segment;
    trace.has_stored_unix_ns = true;
    trace.stored_unix_ns = t->stored_ns;
    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    assert_int_equal(pfl_description_write(&trace, &text), 0);
    assert_int_equal(pfl_store_put_all(put, t->description, pfl_buf_get(&text)), 0);
    pfl_buf_fini(&text);
}

static void add_row(struct store_world *w, const struct store_world_trace *t,
                    const Perfleet__Segment *segment)
{
    struct pfl_index_place place;
    enum pfl_index_reserve result;

    (void)snprintf(place.id, sizeof(place.id), "%s", t->id);
    (void)snprintf(place.key, sizeof(place.key), "%s", t->key);
    assert_int_equal(pfl_index_reserve(w->index, segment, t->stored_ns, &place, &result), 0);
    if (result == PFL_INDEX_RESERVE_NEW && !t->is_gap)
        assert_int_equal(pfl_index_set_live(w->index, t->id, t->stored_ns), 0);
}

static void make_segment(const struct store_world_trace *t, const uint8_t *sha,
                         Perfleet__Segment *segment)
{
    perfleet__segment__init(segment);
    segment->host = "web1";
    segment->orderer = "ann";
    segment->order = "cpu";
    segment->incarnation = "01JD0000000000000000000000";
    segment->has_number = true;
    segment->number = t->number;
    segment->has_begin_unix_ns = segment->has_end_unix_ns = true;
    segment->begin_unix_ns = T0 + t->number * S;
    segment->end_unix_ns = segment->begin_unix_ns + S;
    if (t->is_gap)
        return;
    segment->has_bytes = segment->has_sha256 = true;
    segment->bytes = t->bytes;
    segment->sha256 = (ProtobufCBinaryData){32, (uint8_t *)(uintptr_t)sha};
}

void store_world_put(struct store_world *w, struct store_world_trace *t, unsigned parts,
                     unsigned life)
{
    static uint8_t bytes[4096];
    struct pfl_store_key_parts key = {"demo", "web1", t->id, "pftrace", T0 + t->number * S};
    Perfleet__SegmentTrigger trigger = PERFLEET__SEGMENT_TRIGGER__INIT;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    struct pfl_store_put *put = NULL;
    Perfleet__Segment segment;
    uint8_t sha[32];

    assert_true(t->bytes <= sizeof(bytes));
    memset(bytes, (int)t->number, t->bytes);
    hash(bytes, t->bytes, sha);
    (void)snprintf(t->id, sizeof(t->id), "01JC%010u%012u", life, t->number);
    assert_int_equal(pfl_store_key_make(&key, t->key), 0);
    key.suffix = "json";
    assert_int_equal(pfl_store_key_make(&key, t->description), 0);
    make_segment(t, sha, &segment);
    trigger.name = (char *)(uintptr_t)t->trigger;
    segment.trigger = t->trigger != NULL ? &trigger : NULL;
    gap.has_last = true;
    gap.last = t->number;
    segment.gap = t->is_gap ? &gap : NULL;
    if (t->is_gap)
        t->key[0] = '\0';
    assert_int_equal(pfl_store_put_new(w->store, &put), 0);
    if ((parts & STORE_WORLD_OBJECT) != 0 && !t->is_gap)
        assert_int_equal(pfl_store_put_all(put, t->key, pfl_span_of(bytes, t->bytes)), 0);
    if ((parts & STORE_WORLD_DESCRIPTION) != 0)
        describe(w, put, t, &segment);
    if ((parts & STORE_WORLD_ROW) != 0)
        add_row(w, t, &segment);
    pfl_store_put_free(put);
}

bool store_world_has(struct store_world *w, const char *key)
{
    struct pfl_store_object object;

    return pfl_store_head(w->store, key, &object) == 0;
}

static bool on_row(void *user, const struct pfl_index_row *row)
{
    *(int *)user = (int)row->state;
    return true;
}

int store_world_state(struct store_world *w, const char *id)
{
    int state = -1;
    int rc = pfl_index_get(w->index, id, on_row, &state);

    assert_true(rc == 0 || rc == PFL_ENOENT);
    return state;
}
