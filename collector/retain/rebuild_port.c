/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rebuild: see rebuild_port.h.
 *
 * Happy path: join the index under a name of its own, walk the store in pages, read each
 * description, look for its object, add the trace. Every BEAT_S: a beat, a line about the progress,
 * and the question whether a collector came meanwhile. Failures: a description that cannot be read,
 * an object that is missing or has another length, and a number that another trace has are logged
 * and counted; an engine's failure ends it. Owns both engines meanwhile. Limits: one page, one
 * description of PFL_DESCRIPTION_MAX_BYTES.
 */
#include "collector/retain/rebuild_port.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "collector/describe/description.h"
#include "proto/unpack.h"

#define PAGE   256u
#define NAME   "/rebuild" /* no collector has such a name */
#define BEAT_S 5u
#define S      UINT64_C(1000000000)

struct rebuild {
    struct pfl_store *store; /* owned */
    struct pfl_index *index; /* owned */
    struct pfl_buf text;
    struct pfl_store_object page[PAGE];
    uint64_t beat_ns;
    struct pfl_rebuild_figures figures;
};

static void log_progress(const struct rebuild *r, const char *event)
{
    pfl_log_info(event,
                 "added=%" PRIu64 " bytes=%" PRIu64 " known=%" PRIu64 " conflicts=%" PRIu64
                 " broken=%" PRIu64,
                 r->figures.added, r->figures.bytes, r->figures.known, r->figures.conflicts,
                 r->figures.broken);
}

static int fail_index(const struct rebuild *r, int rc)
{
    pfl_log_error("index-failed", "reason=%s", pfl_log_quote_reason(pfl_index_get_error(r->index)));
    return rc;
}

static int fail_store(int rc)
{
    pfl_log_error("store-failed", "reason=%s", pfl_log_quote_reason(pfl_store_get_error()));
    return rc;
}

/* A collector that uses the index is alive. */
static int check_alone(struct rebuild *r)
{
    struct pfl_index_leases leases;
    int rc = pfl_index_count_leases(r->index, &leases);

    if (rc != 0)
        return fail_index(r, rc);
    if (leases.collectors <= 1)
        return 0;
    pfl_log_error("index-in-use",
                  "collectors=%" PRIu64
                  " reason=\"a collector uses the index\" remedy=\"stop it; one that was killed "
                  "counts for 15 s\"",
                  leases.collectors - 1);
    return PFL_ESTATE;
}

static int beat(struct rebuild *r)
{
    uint64_t now = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    int rc;

    if (now - r->beat_ns < BEAT_S * S)
        return 0;
    r->beat_ns = now;
    rc = pfl_index_beat(r->index);
    if (rc != 0)
        return fail_index(r, rc);
    log_progress(r, "rebuilding");
    return check_alone(r);
}

static int leave(uint64_t *count, const char *key, const char *reason)
{
    (*count)++;
    pfl_log_warn("trace-left-out", "key=%s reason=%s", pfl_log_quote_str(key),
                 pfl_log_quote_reason(reason));
    return 0;
}

static bool on_text(void *user, struct pfl_span bytes)
{
    return pfl_buf_append(user, bytes.data, bytes.len) == 0;
}

struct known {
    bool is_there;
    enum pfl_index_state state;
};

static bool on_known(void *user, const struct pfl_index_row *row)
{
    struct known *known = user;

    known->is_there = true;
    known->state = row->state;
    return true;
}

/* A reservation whose object and description are there, or one that was lost, is live. */
static int add_trace(struct rebuild *r, const Perfleet__StoredTrace *trace, const char *key,
                     const char *description)
{
    struct known known = {.is_there = false};
    int rc = pfl_index_get(r->index, trace->id, on_known, &known);

    if (rc != 0 && rc != PFL_ENOENT)
        return fail_index(r, rc);
    if (!known.is_there)
        rc = pfl_index_restore(r->index, trace, key);
    else if (known.state == PFL_INDEX_RESERVED)
        rc = pfl_index_set_live(r->index, trace->id, trace->stored_unix_ns);
    else if (known.state == PFL_INDEX_LOST)
        rc = pfl_index_set_found(r->index, trace->id, trace->stored_unix_ns);
    else {
        r->figures.known++;
        return 0;
    }
    if (rc == PFL_EEXIST)
        return leave(&r->figures.conflicts, description, "another trace has its number");
    if (rc == PFL_EINVAL || rc == PFL_ELIMIT)
        return leave(&r->figures.broken, description, pfl_index_get_error(r->index));
    if (rc != 0)
        return fail_index(r, rc);
    r->figures.added++;
    r->figures.bytes += trace->segment->gap == NULL ? trace->segment->bytes : 0;
    return 0;
}

static int check_object(struct rebuild *r, const Perfleet__StoredTrace *trace,
                        const char *description)
{
    struct pfl_store_object object;
    char key[PFL_STORE_KEY_BYTES];
    int rc;

    if (trace->segment->gap != NULL)
        return add_trace(r, trace, "", description);
    (void)snprintf(key, sizeof(key), "%.*s.pftrace", (int)(strlen(description) - strlen(".json")),
                   description);
    rc = pfl_store_head(r->store, key, &object);
    if (rc == PFL_ENOENT)
        return leave(&r->figures.broken, description, "its object is missing");
    if (rc != 0)
        return fail_store(rc);
    if (object.bytes != trace->segment->bytes)
        return leave(&r->figures.broken, description, "its object has another length");
    return add_trace(r, trace, key, description);
}

static bool has_its_name(const Perfleet__StoredTrace *trace, const char *key)
{
    const char *name = strrchr(key, '/');

    return trace->id != NULL && trace->segment != NULL && name != NULL &&
           strncmp(name + 1, trace->id, strlen(trace->id)) == 0 &&
           strcmp(name + 1 + strlen(trace->id), ".json") == 0;
}

static int take_description(struct rebuild *r, const char *key)
{
    static const struct pfl_store_range whole = {0, PFL_DESCRIPTION_MAX_BYTES + 1};
    Perfleet__StoredTrace *trace = NULL;
    int rc;

    pfl_buf_clear(&r->text);
    rc = pfl_store_get(r->store, key, &whole, on_text, &r->text);
    if (rc == PFL_ENOENT || rc == PFL_ECLOSED)
        return leave(&r->figures.broken, key, "its description cannot be read");
    if (rc != 0)
        return fail_store(rc);
    rc = pfl_description_parse(pfl_buf_get(&r->text), &trace);
    if (rc == PFL_ENOMEM)
        return rc;
    if (rc != 0)
        return leave(&r->figures.broken, key, "its description is malformed");
    rc = has_its_name(trace, key)
             ? check_object(r, trace, key)
             : leave(&r->figures.broken, key, "its description is another one's");
    pfl_proto_free(&trace->base);
    return rc;
}

static int walk(struct rebuild *r)
{
    char after[PFL_STORE_KEY_BYTES] = "";
    size_t len = PAGE;
    int rc = 0;

    while (rc == 0 && len == PAGE) {
        const struct pfl_store_listing what = {"v1/", after};

        rc = pfl_store_list(r->store, &what, r->page, PAGE, &len);
        if (rc != 0)
            return fail_store(rc);
        for (size_t i = 0; rc == 0 && i < len; i++) {
            const char *end = strrchr(r->page[i].key, '.');

            if (end != NULL && strcmp(end, ".json") == 0)
                rc = take_description(r, r->page[i].key);
            if (rc == 0)
                rc = beat(r);
        }
        if (len != 0)
            memcpy(after, r->page[len - 1].key, sizeof(after));
    }
    return rc;
}

static int open_engines(struct rebuild *r, const struct pfl_store_conf *store, const char *index)
{
    const struct pfl_index_conf conf = {.where = index, .may_create = true, .may_lose_last = true};
    char why[PFL_INDEX_WHY_BYTES + PFL_STORE_WHY_BYTES] = "";
    uint64_t generation;
    int rc = pfl_store_open(store, why, &r->store);

    if (rc == 0)
        rc = pfl_index_open(&conf, why, &r->index);
    if (rc != 0) {
        pfl_log_error(r->store == NULL ? "store-unusable" : "index-unusable", "reason=%s",
                      pfl_log_quote_reason(why));
        return rc;
    }
    rc = pfl_index_join(r->index, NAME, &generation);
    return rc != 0 ? fail_index(r, rc) : check_alone(r);
}

int pfl_rebuild_run(const struct pfl_store_conf *store, const char *index,
                    struct pfl_rebuild_figures *ret_figures)
{
    struct rebuild *r = pfl_mem_zalloc(sizeof(*r));
    int rc;

    if (r == NULL)
        return PFL_ENOMEM;
    pfl_buf_init(&r->text, PFL_DESCRIPTION_MAX_BYTES);
    r->beat_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    rc = open_engines(r, store, index);
    if (rc == 0)
        rc = walk(r);
    if (rc == 0)
        log_progress(r, "rebuilt");
    if (r->index != NULL && pfl_index_leave(r->index) != 0)
        pfl_log_warn("index-not-left", "reason=%s",
                     pfl_log_quote_reason(pfl_index_get_error(r->index)));
    *ret_figures = r->figures;
    pfl_index_close(r->index);
    pfl_store_close(r->store);
    pfl_buf_fini(&r->text);
    pfl_mem_free(r);
    return rc;
}
