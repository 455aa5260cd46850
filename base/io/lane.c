/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread and its queue: see lane.h.
 *
 * Happy path: submit appends to the queue; the thread takes the first, runs it and posts it to the
 * loop (wakeup.h), where on_done is called. Failures: without a thread nothing is taken.
 * Closing: the thread finishes the queue and is joined; its notes are handed out; the lane is freed
 * when its descriptor's handle is closed. Order: what the loop wrote before submit the thread sees
 * by the lock; what the thread wrote before run ended the loop sees by the note (wakeup.c).
 * Ownership: jobs are their owners', from submit to on_done the lane's. Limits: none of its own;
 * each owner has one job or two.
 */
#include "base/io/lane.h"

#include <signal.h>
#include <stdbool.h>

#include "base/mem.h"

struct pfl_lane {
    struct pfl_wakeup wakeup; /* first: on_closed casts */
    uv_thread_t thread;
    uv_mutex_t lock; /* first, last, is_ending */
    uv_cond_t wake;
    struct pfl_lane_job *first;
    struct pfl_lane_job *last;
    bool is_ending;
    bool has_thread;
};

static struct pfl_lane_job *wait_for_job(struct pfl_lane *l)
{
    struct pfl_lane_job *job;

    uv_mutex_lock(&l->lock);
    while (l->first == NULL && !l->is_ending)
        uv_cond_wait(&l->wake, &l->lock);
    job = l->first;
    if (job != NULL)
        l->first = job->next;
    uv_mutex_unlock(&l->lock);
    return job;
}

static void run_thread(void *user)
{
    struct pfl_lane *l = user;
    struct pfl_lane_job *job;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    while ((job = wait_for_job(l)) != NULL) {
        job->run(job);
        pfl_wakeup_post(&l->wakeup, &job->note);
    }
}

static void on_note(struct pfl_wakeup_note *note)
{
    struct pfl_lane_job *job = (struct pfl_lane_job *)(void *)note;

    pfl_wakeup_release(&job->lane->wakeup);
    job->on_done(job);
}

static void on_closed(struct pfl_wakeup *wakeup)
{
    pfl_mem_free((struct pfl_lane *)(void *)wakeup);
}

static int init_locks(struct pfl_lane *l)
{
    if (uv_mutex_init(&l->lock) != 0)
        return PFL_ENOMEM;
    if (uv_cond_init(&l->wake) == 0)
        return 0;
    uv_mutex_destroy(&l->lock);
    return PFL_ENOMEM;
}

int pfl_lane_open(uv_loop_t *loop, struct pfl_lane **ret_lane)
{
    struct pfl_lane *l = pfl_mem_zalloc(sizeof(*l));
    int rc;

    if (l == NULL)
        return PFL_ENOMEM;
    rc = pfl_wakeup_open(&l->wakeup, loop);
    if (rc != 0) {
        pfl_mem_free(l);
        return rc;
    }
    rc = init_locks(l);
    if (rc != 0) {
        pfl_wakeup_close_to(&l->wakeup, on_closed);
        return rc;
    }
    *ret_lane = l;
    return 0;
}

void pfl_lane_close(struct pfl_lane *self)
{
    if (self == NULL)
        return;
    uv_mutex_lock(&self->lock);
    self->is_ending = true;
    uv_cond_signal(&self->wake);
    uv_mutex_unlock(&self->lock);
    if (self->has_thread)
        (void)uv_thread_join(&self->thread);
    pfl_wakeup_hand_out(&self->wakeup);
    uv_cond_destroy(&self->wake);
    uv_mutex_destroy(&self->lock);
    pfl_wakeup_close_to(&self->wakeup, on_closed);
}

int pfl_lane_submit(struct pfl_lane *self, struct pfl_lane_job *job)
{
    if (self->is_ending)
        return PFL_ESTATE;
    if (!self->has_thread && uv_thread_create(&self->thread, run_thread, self) != 0)
        return PFL_EIO;
    self->has_thread = true;
    job->note.on_note = on_note;
    job->lane = self;
    job->next = NULL;
    pfl_wakeup_hold(&self->wakeup);
    uv_mutex_lock(&self->lock);
    if (self->first == NULL)
        self->first = job;
    else
        self->last->next = job;
    self->last = job;
    uv_cond_signal(&self->wake);
    uv_mutex_unlock(&self->lock);
    return 0;
}
