/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning on a loop: see cleaner_port.h.
 *
 * Happy path: the timer begins a cycle; each step runs on the worker of its engine, its report is
 * logged, and the next one follows; then the timer again. One step is under way at a time, so that
 * other work of the engines has its turns in between. One that deletes objects runs in parts, each
 * of which has a thread of the store. Failures: those of a step are its report; a worker that takes
 * none ends the cycle. Owns the timer and the steps. Limits: PFL_CLEAN_PARTS works.
 */
#include "collector/retain/cleaner_port.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define WHO 100u /* and up, for each part: shares of the store's threads; visits count from 1 */

struct part {
    struct pfl_work work; /* first: its callbacks cast */
    struct pfl_cleaner *cleaner;
};

struct pfl_cleaner {
    struct part parts[PFL_CLEAN_PARTS];
    unsigned parts_len; /* of the step that is under way */
    unsigned running;   /* of them */
    struct pfl_cleaner_conf conf;
    struct pfl_keep_rules rules;
    struct pfl_clean *clean; /* owned */
    uv_timer_t timer;
    struct pfl_cleaner_figures figures;
    bool is_stopped;
};

static void advance(struct pfl_cleaner *c);

static void run_part(struct pfl_work *work)
{
    struct part *part = (struct part *)(void *)work;
    struct pfl_cleaner *c = part->cleaner;

    if (c->parts_len == 1)
        pfl_clean_run(c->clean);
    else
        pfl_clean_run_part(c->clean, (unsigned)(part - c->parts));
}

static void log_report(const struct pfl_clean_report *report)
{
    pfl_log(report->is_warning ? PFL_LOG_WARN : PFL_LOG_INFO, report->event,
            "what=%s host=%s bytes=%" PRIu64 " cause=%s reason=%s effect=\"%s\"",
            pfl_log_quote_str(report->what), pfl_log_quote_str(report->host), report->bytes,
            report->cause != NULL ? report->cause : "none", pfl_log_quote_reason(report->reason),
            report->effect);
}

/* The figures are copied here, as a step may change them. */
static void end_step(struct pfl_cleaner *c)
{
    const struct pfl_clean_report *report = pfl_clean_get_report(c->clean);

    if (report != NULL)
        log_report(report);
    c->figures.clean = *pfl_clean_get_figures(c->clean);
    c->figures.retention = *pfl_clean_get_retention(c->clean);
}

static void on_part_done(struct pfl_work *work)
{
    struct pfl_cleaner *c = ((struct part *)(void *)work)->cleaner;

    if (--c->running != 0)
        return;
    if (c->parts_len != 1)
        pfl_clean_end_parts(c->clean);
    end_step(c);
    advance(c);
}

static void on_timer(uv_timer_t *timer)
{
    struct pfl_cleaner *c = timer->data;

    pfl_clean_begin(c->clean, pfl_clock_now_ns(PFL_CLOCK_REALTIME),
                    pfl_clock_now_ns(PFL_CLOCK_BOOTTIME));
    advance(c);
}

static void wait(struct pfl_cleaner *c, uint64_t ms)
{
    (void)uv_timer_start(&c->timer, on_timer, ms, 0);
}

/* False: none of it runs. */
static bool submit(struct pfl_cleaner *c, struct pfl_worker *worker)
{
    c->parts_len = pfl_clean_get_parts(c->clean);
    for (unsigned i = 0; i < c->parts_len; i++)
        c->running += pfl_worker_submit(worker, &c->parts[i].work) == 0;
    return c->running != 0;
}

static void advance(struct pfl_cleaner *c)
{
    enum pfl_clean_thread on = pfl_clean_get_thread(c->clean);

    while (!c->is_stopped && on == PFL_CLEAN_ON_LOOP) {
        pfl_clean_run(c->clean);
        end_step(c);
        on = pfl_clean_get_thread(c->clean);
    }
    if (c->is_stopped)
        return;
    if (on == PFL_CLEAN_IDLE)
        wait(c, pfl_clean_is_cut(c->clean) ? 1 : PFL_CLEANER_EVERY_MS);
    else if (!submit(c, on == PFL_CLEAN_ON_INDEX ? c->conf.engines->index_worker
                                                 : c->conf.engines->store_worker))
        wait(c, PFL_CLEANER_EVERY_MS);
}

int pfl_cleaner_open(const struct pfl_cleaner_conf *conf, struct pfl_cleaner **ret_cleaner)
{
    struct pfl_cleaner *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_clean_conf clean = {
        .store = conf->engines->store, .index = conf->engines->index, .fleet = conf->fleet};
    int rc;

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    c->rules = *conf->rules;
    c->figures.bound_bytes = c->rules.bytes;
    clean.rules = &c->rules;
    rc = pfl_clean_new(&clean, &c->clean);
    if (rc != 0) {
        pfl_mem_free(c);
        return rc;
    }
    for (unsigned i = 0; i < PFL_CLEAN_PARTS; i++)
        c->parts[i] = (struct part){
            .work = {.run = run_part, .on_done = on_part_done, .who = WHO + i}, .cleaner = c};
    (void)uv_timer_init(conf->loop, &c->timer);
    c->timer.data = c;
    wait(c, 0); /* the index is asked for its newest trace before one is stored */
    *ret_cleaner = c;
    return 0;
}

void pfl_cleaner_stop(struct pfl_cleaner *self)
{
    if (self == NULL)
        return;
    self->is_stopped = true;
    (void)uv_timer_stop(&self->timer);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_cleaner *c = handle->data;

    pfl_clean_free(c->clean);
    pfl_mem_free(c);
}

void pfl_cleaner_close(struct pfl_cleaner *self)
{
    if (self != NULL)
        uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

void pfl_cleaner_get_figures(const struct pfl_cleaner *self,
                             struct pfl_cleaner_figures *ret_figures)
{
    *ret_figures = self->figures;
}
