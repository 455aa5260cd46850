/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The asking: see asking_port.h.
 *
 *     traces -> pieces -> job's Trace Processor -> rows -> owner
 *
 * Happy path: each of `jobs` places takes the next trace, starts a process, gives it the trace
 * piece by piece, the next one when it has taken the last, then the question; rows go to the owner
 * as they come; then the process is killed, and the place takes another trace. While the owner is
 * congested, no process is read from, and their time stands still.
 *
 * Failures: a trace that cannot be read, is too large or too slow, or whose process dies, is passed
 * over. An error of the question itself, shown by the traces of two hosts if there are two, ends
 * the asking. Ownership: a trace's process belongs to its place, which is a trace_job. Limits:
 * those of the headers.
 */
#include "consumer/ask/asking_port.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define TICK_MS       200u
#define STARTS_A_TURN 256u /* of traces that are passed over at once */

struct pfl_asking {
    struct pfl_asking_conf conf;
    struct pfl_trace_job_conf job_conf;
    struct pfl_trace_job jobs[PFL_ASKING_JOBS_MAX];
    size_t next;                          /* trace */
    const struct pfl_asked_trace *faulty; /* the first one with a fault as of all; NULL: none */
    uint64_t answered;
    uint64_t tick_ms;
    bool is_ending;
    bool is_paused;
    bool is_closing;
    uv_timer_t timer;
};

static void on_tick(uv_timer_t *timer);

/* The places are filled, or the asking ends, from the loop. */
static void wake(struct pfl_asking *a)
{
    (void)uv_timer_start(&a->timer, on_tick, 0, TICK_MS);
}

/* ---- what is passed over ---- */

/* `why` NULL: it is answered. */
static void note_trace(struct pfl_asking *a, const struct pfl_trace_job *j, const char *why)
{
    const struct pfl_answer_store_trace end = {.trace = j->trace->name,
                                               .host = j->host,
                                               .start = j->start,
                                               .rows = j->rows,
                                               .problem = why};

    if (why == NULL)
        a->answered++;
    a->conf.ops->on_trace(a->conf.user, j->trace, &end);
}

static void pause_all(struct pfl_asking *a, bool is_paused)
{
    a->is_paused = is_paused;
    for (size_t i = 0; i < a->conf.question.engine.jobs; i++)
        pfl_trace_job_pause(&a->jobs[i], is_paused);
}

void pfl_asking_resume(struct pfl_asking *self)
{
    pause_all(self, false);
}

/* Of another host; each file counts as one. */
static bool is_of_other(const struct pfl_asking *a, const struct pfl_asked_trace *t,
                        const struct pfl_asked_trace *u)
{
    return a->conf.is_files ? t != u : strcmp(t->host, u->host) != 0;
}

/* A fault that any trace would have, when none has been answered: one host could make it by what
 * is in its traces, and so end what is asked of the others; two have to show it. */
static bool is_fault_of_all(struct pfl_asking *a, const struct pfl_trace_job *j)
{
    if (a->answered != 0 || a->is_ending)
        return false;
    if (a->faulty != NULL)
        return is_of_other(a, j->trace, a->faulty);
    a->faulty = j->trace;
    for (size_t i = 0; i < a->conf.traces->len; i++)
        if (is_of_other(a, &a->conf.traces->all[i], j->trace))
            return false;
    return true;
}

static void judge_fault(struct pfl_asking *a, const struct pfl_trace_job *j, const char *words)
{
    if (j->fault == PFL_TRACE_JOB_FAULT_NONE || !is_fault_of_all(a, j))
        return;
    pfl_asking_stop(a);
    a->conf.ops->on_fault(a->conf.user, j->fault, words);
}

/* ---- of the jobs ---- */

static uint32_t request_piece(void *user, const struct pfl_asked_trace *trace, uint64_t offset,
                              size_t len)
{
    struct pfl_asking *a = user;

    return a->conf.ops->request_piece(a->conf.user, trace, offset, len);
}

static int on_columns(void *user, const struct pfl_span *names, size_t len)
{
    struct pfl_asking *a = user;

    return a->conf.ops->on_columns(a->conf.user, names, len);
}

static int on_row(void *user, const struct pfl_asked_trace *trace, const struct pfl_answer_row *row,
                  size_t cells_len)
{
    struct pfl_asking *a = user;

    return a->conf.ops->on_row(a->conf.user, trace, row, cells_len);
}

static void on_rows_end(void *user)
{
    struct pfl_asking *a = user;

    if (a->conf.ops->on_rows_end(a->conf.user) && !a->is_paused)
        pause_all(a, true);
}

static void on_over(void *user, struct pfl_trace_job *job, const char *words)
{
    struct pfl_asking *a = user;

    judge_fault(a, job, words);
    if (job->why[0] != '\0' && !a->is_ending)
        note_trace(a, job, job->why);
    else if (job->is_answered)
        note_trace(a, job, NULL);
    pfl_trace_job_leave(job);
    wake(a);
}

void pfl_asking_take_reply(struct pfl_asking *self, const Perfleet__CollectorReply *reply)
{
    for (size_t i = 0; reply->id != 0 && i < self->conf.question.engine.jobs; i++) {
        if (self->jobs[i].request_id != reply->id)
            continue;
        pfl_trace_job_take_piece(&self->jobs[i], reply);
        return;
    }
}

/* ---- traces ---- */

/* The next trace takes a free place, or is passed over. */
static void start_next(struct pfl_asking *a, struct pfl_trace_job *j)
{
    if (pfl_trace_job_start(j, &a->conf.traces->all[a->next++])) {
        if (a->is_paused)
            pfl_trace_job_pause(j, true);
        return;
    }
    note_trace(a, j, j->why);
    pfl_trace_job_leave(j);
}

/* True: traces were passed over at once, and there are more. */
static bool start_all(struct pfl_asking *a)
{
    unsigned starts = 0;

    for (size_t i = 0; i < a->conf.question.engine.jobs; i++)
        while (a->jobs[i].trace == NULL && pfl_asking_has_next(a) && !a->is_ending) {
            if (starts++ == STARTS_A_TURN)
                return true;
            start_next(a, &a->jobs[i]);
        }
    return false;
}

static void check_time(struct pfl_asking *a, uint64_t passed_ms)
{
    char why[PFL_TRACE_JOB_WHY_BYTES];

    for (size_t i = 0; !a->is_paused && i < a->conf.question.engine.jobs; i++) {
        struct pfl_trace_job *j = &a->jobs[i];

        pfl_trace_job_check_threads(j);
        if (j->port == NULL || j->request_id != 0)
            continue; /* the collector has a time limit of its own */
        j->active_ms += passed_ms;
        if (j->active_ms < a->conf.question.engine.max_time_ms)
            continue;
        (void)snprintf(why, sizeof(why), "no answer within %" PRIu32 " s (--max-time)",
                       (a->conf.question.engine.max_time_ms + 999) / 1000);
        pfl_trace_job_give_up(j, why);
    }
}

static bool has_jobs(const struct pfl_asking *a)
{
    for (size_t i = 0; i < a->conf.question.engine.jobs; i++)
        if (a->jobs[i].trace != NULL)
            return true;
    return false;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_asking *a = handle->data;

    a->conf.ops->on_over(a->conf.user);
}

static void on_tick(uv_timer_t *timer)
{
    struct pfl_asking *a = timer->data;
    uint64_t now_ms = uv_now(a->conf.loop);
    uint64_t passed_ms = now_ms - a->tick_ms;

    a->tick_ms = now_ms;
    check_time(a, passed_ms);
    if (start_all(a))
        wake(a);
    if (has_jobs(a) || (pfl_asking_has_next(a) && !a->is_ending))
        return;
    a->is_closing = true;
    uv_close((uv_handle_t *)&a->timer, on_timer_closed);
}

/* ---- all of it ---- */

int pfl_asking_open(const struct pfl_asking_conf *conf, struct pfl_asking **ret_asking)
{
    struct pfl_asking *a = pfl_mem_zalloc(sizeof(*a));

    if (a == NULL)
        return PFL_ENOMEM;
    a->conf = *conf;
    a->job_conf = (struct pfl_trace_job_conf){.question = conf->question,
                                              .loop = conf->loop,
                                              .is_files = conf->is_files,
                                              .request_piece = request_piece,
                                              .on_columns = on_columns,
                                              .on_row = on_row,
                                              .on_rows_end = on_rows_end,
                                              .on_over = on_over,
                                              .user = a};
    for (size_t i = 0; i < conf->question.engine.jobs; i++)
        pfl_trace_job_init(&a->jobs[i], &a->job_conf);
    (void)signal(SIGPIPE, SIG_IGN); /* a process may end while it is given its trace */
    (void)uv_timer_init(conf->loop, &a->timer);
    a->timer.data = a;
    a->tick_ms = uv_now(conf->loop);
    (void)uv_timer_start(&a->timer, on_tick, 0, TICK_MS);
    *ret_asking = a;
    return 0;
}

void pfl_asking_stop(struct pfl_asking *self)
{
    if (self->is_ending || self->is_closing)
        return;
    self->is_ending = true;
    for (size_t i = 0; i < self->conf.question.engine.jobs; i++)
        pfl_trace_job_stop(&self->jobs[i]);
    wake(self);
}

bool pfl_asking_is_waiting(const struct pfl_asking *self)
{
    for (size_t i = 0; i < self->conf.question.engine.jobs; i++)
        if (self->jobs[i].request_id != 0)
            return true;
    return false;
}

bool pfl_asking_has_next(const struct pfl_asking *self)
{
    return self->next < self->conf.traces->len;
}

void pfl_asking_free(struct pfl_asking *self)
{
    pfl_mem_free(self);
}
