/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines: see engines_port.h.
 *
 * Happy path: open the store, open the index, join it under the collector's name, and beat.
 * Failures: an engine that does not open is logged; a beat that fails is tried at the next, and one
 * that says that another process has the name ends this one. Ownership: all of the struct.
 */
#include "collector/engines/engines_port.h"

#include <stdio.h>

#include "base/log.h"

_Static_assert(PFL_INDEX_VOID_MS >= 4 * PFL_INDEX_BEAT_MS,
               "a collector that misses three beats keeps its leases");

static void run_beat(struct pfl_work *work)
{
    struct pfl_engines *e = PFL_CONTAINER_OF(work, struct pfl_engines, beat);

    e->beat_rc = pfl_index_beat(e->index);
    if (e->beat_rc == 0)
        e->beat_rc = pfl_index_count_leases(e->index, &e->leases);
    if (e->beat_rc != 0)
        (void)snprintf(e->why, sizeof(e->why), "%s", pfl_index_get_error(e->index));
}

static void look_at_others(struct pfl_engines *e)
{
    bool is_one_lost = e->leases.collectors < e->collectors;

    e->collectors = e->leases.collectors;
    if (!is_one_lost)
        return;
    pfl_log_warn("collector-lost", "alive=%llu effect=\"their orders are taken over\"",
                 (unsigned long long)e->collectors);
    e->conf.on_collector_lost(e->conf.user);
}

static void on_beat_done(struct pfl_work *work)
{
    struct pfl_engines *e = PFL_CONTAINER_OF(work, struct pfl_engines, beat);

    e->is_beating = false;
    if (e->is_closing)
        return;
    if (e->beat_rc == 0) {
        look_at_others(e);
        return;
    }
    pfl_log_warn("index-beat-failed", "reason=%s", pfl_log_quote_reason(e->why));
    if (e->beat_rc == PFL_ESTATE)
        e->conf.on_replaced(e->conf.user);
}

static void on_beat(uv_timer_t *timer)
{
    struct pfl_engines *e = timer->data;

    if (!e->is_beating)
        e->is_beating = pfl_worker_submit(e->index_worker, &e->beat) == 0;
}

static int open_store(struct pfl_engines *e)
{
    char why[PFL_STORE_WHY_BYTES] = "";
    int rc = pfl_store_open(&e->conf.store, why, &e->store);

    if (rc != 0)
        pfl_log_error("store-unusable", "store=%s reason=%s",
                      pfl_log_quote_str(e->conf.store.where), pfl_log_quote_reason(why));
    return rc;
}

static int open_index(struct pfl_engines *e)
{
    char why[PFL_INDEX_WHY_BYTES] = "";
    struct pfl_index_conf conf = {.where = e->conf.index, .may_create = true};
    uint64_t generation;
    int rc = pfl_index_open(&conf, why, &e->index);

    if (rc == 0) {
        rc = pfl_index_join(e->index, e->conf.name, &generation);
        if (rc != 0)
            (void)snprintf(why, sizeof(why), "%s", pfl_index_get_error(e->index));
    }
    if (rc != 0)
        pfl_log_error("index-unusable", "index=%s reason=%s", pfl_log_quote_str(e->conf.index),
                      pfl_log_quote_reason(why));
    return rc;
}

static int open_workers(struct pfl_engines *e)
{
    struct pfl_worker_conf conf = {.loop = e->conf.loop, .threads_max = 1};
    int rc = pfl_worker_open(&conf, &e->index_worker);

    conf.threads_max = PFL_ENGINES_STORE_THREADS;
    if (rc == 0)
        rc = pfl_worker_open(&conf, &e->store_worker);
    return rc;
}

int pfl_engines_open(const struct pfl_engines_conf *conf, struct pfl_engines *ret_self)
{
    struct pfl_engines *e = ret_self;
    int rc;

    *e = (struct pfl_engines){.conf = *conf, .beat = {.run = run_beat, .on_done = on_beat_done}};
    rc = open_store(e);
    if (rc == 0)
        rc = open_index(e);
    if (rc == 0)
        rc = open_workers(e);
    if (rc != 0) {
        pfl_worker_close(e->index_worker);
        pfl_worker_close(e->store_worker);
        pfl_index_close(e->index);
        pfl_store_close(e->store);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &e->beat_timer);
    e->beat_timer.data = e;
    (void)uv_timer_start(&e->beat_timer, on_beat, PFL_INDEX_BEAT_MS, PFL_INDEX_BEAT_MS);
    return 0;
}

void pfl_engines_close(struct pfl_engines *self)
{
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->beat_timer, NULL);
    pfl_store_cancel(self->store);
    pfl_index_cancel(self->index);
    pfl_worker_close(self->store_worker);
    pfl_worker_close(self->index_worker);
    if (pfl_index_leave(self->index) != 0)
        pfl_log_warn("leases-not-returned", "reason=%s effect=\"they end by themselves\"",
                     pfl_log_quote_reason(pfl_index_get_error(self->index)));
    pfl_index_close(self->index);
    pfl_store_close(self->store);
}
