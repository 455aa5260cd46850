/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and their queue: see worker.h.
 *
 * Happy path: submit appends to the queue and wakes a thread, or starts one while all are busy and
 * there are fewer than all; the thread takes the first work whose user may have one more thread,
 * runs it, appends it to the list of completed work and posts one note to the loop (wakeup.h),
 * which calls on_done for the whole list. Failures: without a thread submit fails, and run does the
 * work at once. Closing: the threads finish the queue and are joined; on_done is called for
 * completed work; the worker is freed when its descriptor's handle is closed. Order: the lock makes
 * the loop's writes before submit visible to the thread, and the thread's writes in run visible to
 * the loop. Ownership: work is its owner's, from submit to on_done the worker's. Limits:
 * threads_max, and PFL_WORKER_SPARE_THREADS; each owner has one work or two.
 */
#include "base/io/worker.h"

#include <assert.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/io/wakeup.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/shares.h"

struct queue {
    struct pfl_work *first;
    struct pfl_work *last;
};

struct pfl_worker {
    struct pfl_wakeup wakeup; /* first: on_closed casts */
    struct pfl_wakeup_note note;
    struct pfl_worker_conf conf;
    uv_mutex_t lock; /* for what follows, the threads' array excepted */
    uv_cond_t wake;
    struct queue waiting;
    struct queue done;
    struct pfl_shares running; /* works, by user */
    struct pfl_shares spare;   /* works on spare threads */
    unsigned waiting_len;
    unsigned idle; /* threads */
    bool is_posted;
    bool is_closing;
    uv_thread_t threads[PFL_WORKER_THREADS_MAX + PFL_WORKER_SPARE_THREADS];
    unsigned threads_len;
    struct queue handing; /* the loop's: works whose on_done is next */
};

static void append(struct queue *queue, struct pfl_work *work)
{
    work->next = NULL;
    if (queue->first == NULL)
        queue->first = work;
    else
        queue->last->next = work;
    queue->last = work;
}

/* ---- in a thread ---- */

static bool may_run(struct pfl_worker *w, struct pfl_work *work)
{
    if (w->conf.threads_max == 1 || (work->is_void != NULL && work->is_void(work)))
        return true;
    if (pfl_shares_take(&w->running, work->who, 1))
        work->share = PFL_WORK_SHARE;
    else if (pfl_shares_get(&w->running, work->who) == 0 &&
             pfl_shares_get(&w->spare, work->who) == 0 && pfl_shares_take(&w->spare, work->who, 1))
        work->share = PFL_WORK_SPARE;
    return work->share != PFL_WORK_WITHOUT_SHARE;
}

/* The first work whose user may have one more thread, or that was cancelled; NULL: none. */
static struct pfl_work *take_work(struct pfl_worker *w)
{
    struct pfl_work *before = NULL;
    struct pfl_work *work = w->waiting.first;

    while (work != NULL && !may_run(w, work)) {
        before = work;
        work = work->next;
    }
    if (work == NULL)
        return NULL;
    if (before == NULL)
        w->waiting.first = work->next;
    else
        before->next = work->next;
    if (w->waiting.last == work)
        w->waiting.last = before;
    w->waiting_len--;
    return work;
}

/* NULL: the thread shall end. */
static struct pfl_work *wait_for_work(struct pfl_worker *w)
{
    struct pfl_work *work;

    uv_mutex_lock(&w->lock);
    w->idle++;
    while ((work = take_work(w)) == NULL && !(w->is_closing && w->waiting_len == 0))
        uv_cond_wait(&w->wake, &w->lock);
    w->idle--;
    uv_mutex_unlock(&w->lock);
    return work;
}

static void give_back(struct pfl_worker *w, struct pfl_work *work)
{
    bool must_post;

    uv_mutex_lock(&w->lock);
    if (work->share != PFL_WORK_WITHOUT_SHARE)
        pfl_shares_give(work->share == PFL_WORK_SHARE ? &w->running : &w->spare, work->who, 1);
    append(&w->done, work);
    must_post = !w->is_posted;
    w->is_posted = true;
    if (w->waiting_len != 0 || w->is_closing)
        uv_cond_broadcast(&w->wake);
    uv_mutex_unlock(&w->lock);
    if (must_post)
        pfl_wakeup_post(&w->wakeup, &w->note);
}

static void run_thread(void *user)
{
    struct pfl_worker *w = user;
    struct pfl_work *work;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    /* On Linux this is the calling thread's alone; refused, it stays as it is. */
    if (w->conf.nice != 0)
        (void)setpriority(PRIO_PROCESS, 0, w->conf.nice);
    while ((work = wait_for_work(w)) != NULL) {
        work->run(work);
        give_back(w, work);
    }
}

/* ---- on the loop ---- */

/* An on_done may close the worker. Then pfl_worker_close hands out the others, and nothing is left
 * here; the worker's memory stays for this turn of the loop. */
static void hand_out(struct pfl_worker *w)
{
    struct pfl_work *work;

    while ((work = w->handing.first) != NULL) {
        w->handing.first = work->next;
        pfl_wakeup_release(&w->wakeup);
        work->on_done(work);
    }
}

static void on_note(struct pfl_wakeup_note *note)
{
    struct pfl_worker *w = PFL_CONTAINER_OF(note, struct pfl_worker, note);
    struct queue done;

    uv_mutex_lock(&w->lock);
    done = w->done;
    w->done = (struct queue){0};
    w->is_posted = false;
    uv_mutex_unlock(&w->lock);
    if (w->handing.first == NULL) {
        w->handing = done;
    } else if (done.first != NULL) {
        w->handing.last->next = done.first;
        w->handing.last = done.last;
    }
    hand_out(w);
}

static void on_closed(struct pfl_wakeup *wakeup)
{
    pfl_mem_free((struct pfl_worker *)(void *)wakeup);
}

static int init_locks(struct pfl_worker *w)
{
    if (uv_mutex_init(&w->lock) != 0)
        return PFL_ENOMEM;
    if (uv_cond_init(&w->wake) == 0)
        return 0;
    uv_mutex_destroy(&w->lock);
    return PFL_ENOMEM;
}

int pfl_worker_open(const struct pfl_worker_conf *conf, struct pfl_worker **ret_worker)
{
    struct pfl_worker *w = pfl_mem_zalloc(sizeof(*w));
    int rc;

    assert(conf->threads_max >= 1 && conf->threads_max <= PFL_WORKER_THREADS_MAX);
    if (w == NULL)
        return PFL_ENOMEM;
    w->conf = *conf;
    w->note.on_note = on_note;
    w->running.max = conf->threads_max;
    w->spare.max = PFL_WORKER_SPARE_THREADS;
    rc = pfl_wakeup_open(&w->wakeup, conf->loop);
    if (rc != 0) {
        pfl_mem_free(w);
        return rc;
    }
    rc = init_locks(w);
    if (rc != 0) {
        pfl_wakeup_close_to(&w->wakeup, on_closed);
        return rc;
    }
    *ret_worker = w;
    return 0;
}

void pfl_worker_set_owner(struct pfl_worker *self, uint32_t uid)
{
    self->running.owner = uid;
    self->spare.owner = uid;
}

void pfl_worker_close(struct pfl_worker *self)
{
    if (self == NULL)
        return;
    uv_mutex_lock(&self->lock);
    self->is_closing = true;
    uv_cond_broadcast(&self->wake);
    uv_mutex_unlock(&self->lock);
    for (unsigned i = 0; i < self->threads_len; i++)
        (void)uv_thread_join(&self->threads[i]);
    pfl_wakeup_hand_out(&self->wakeup);
    hand_out(self); /* if on_done called this: the works behind it */
    uv_cond_destroy(&self->wake);
    uv_mutex_destroy(&self->lock);
    pfl_wakeup_close_to(&self->wakeup, on_closed);
}

/* Under the lock. False: there is no thread, and none can be started. */
static bool has_thread(struct pfl_worker *w)
{
    unsigned max = w->conf.threads_max == 1 ? 1 : w->conf.threads_max + PFL_WORKER_SPARE_THREADS;

    if (w->idle <= w->waiting_len && w->threads_len < max &&
        uv_thread_create(&w->threads[w->threads_len], run_thread, w) == 0)
        w->threads_len++;
    return w->threads_len != 0;
}

int pfl_worker_submit(struct pfl_worker *self, struct pfl_work *work)
{
    bool is_taken;

    if (self->is_closing)
        return PFL_ESTATE;
    work->share = PFL_WORK_WITHOUT_SHARE;
    uv_mutex_lock(&self->lock);
    is_taken = has_thread(self);
    if (is_taken) {
        append(&self->waiting, work);
        self->waiting_len++;
        uv_cond_signal(&self->wake);
    }
    uv_mutex_unlock(&self->lock);
    if (!is_taken)
        return PFL_EIO;
    pfl_wakeup_hold(&self->wakeup);
    return 0;
}

void pfl_worker_run(struct pfl_worker *self, struct pfl_work *work)
{
    if (pfl_worker_submit(self, work) == 0)
        return;
    assert(!self->is_closing);
    work->run(work);
    give_back(self, work);
    pfl_wakeup_hold(&self->wakeup);
}
