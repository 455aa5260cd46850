/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that work.
 *
 * submit queues a request and wakes a thread, or makes one while all are busy and there are not yet
 * PFL_WORKERS_MAX; the thread runs the work and posts the request to the loop, which says that it
 * is done. Users share the threads: a user has at most as many as he leaves free, so that whose
 * work takes long holds up nobody else's. The threads step back behind the main loop (nice), so
 * that on a busy machine compressing costs a client of another session nothing but what the
 * kernel's scheduler can't help; and the loop never waits for one of them (base/io/wakeup.h).
 * Failures: no memory, or no thread at all; then the work was not taken. Each request is freed when
 * its work is back.
 */
#include "service/port/worker_port.h"

#include <assert.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/mem.h"

#define WORKER_NICE 10

struct pfl_worker_request {
    struct pfl_wakeup_note note; /* first: on_note casts */
    struct pfl_worker_port *port;
    struct pfl_worker_request *next;
    struct pfl_work *work; /* borrowed until it is back */
    uint64_t who;
    bool has_share; /* of the workers */
};

static void on_note(struct pfl_wakeup_note *note)
{
    struct pfl_worker_request *request = (struct pfl_worker_request *)(void *)note;
    struct pfl_worker_port *port = request->port;
    struct pfl_work *work = request->work;

    pfl_mem_free(request);
    pfl_wakeup_release(port->wakeup);
    work->done(work);
}

/* Under the lock. The first one whose user may have one more of the workers, or that nobody wants
 * any more; NULL: there is none. */
static struct pfl_worker_request *take_request(struct pfl_worker_port *port)
{
    struct pfl_worker_request *before = NULL;
    struct pfl_worker_request *r = port->first;

    while (r != NULL && !(r->work->is_void != NULL && r->work->is_void(r->work))) {
        r->has_share = pfl_shares_take(&port->running, r->work->who, 1);
        if (r->has_share)
            break;
        before = r;
        r = r->next;
    }
    if (r == NULL)
        return NULL;
    if (before == NULL)
        port->first = r->next;
    else
        before->next = r->next;
    if (port->last == r)
        port->last = before;
    port->queued--;
    return r;
}

/* The next request; NULL: the thread shall leave. */
static struct pfl_worker_request *wait_for_request(struct pfl_worker_port *port)
{
    struct pfl_worker_request *request;

    uv_mutex_lock(&port->lock);
    port->waiting++;
    while ((request = take_request(port)) == NULL && !port->is_closing)
        uv_cond_wait(&port->wake, &port->lock);
    port->waiting--;
    uv_mutex_unlock(&port->lock);
    return request;
}

static void give_share_back(struct pfl_worker_port *port, const struct pfl_worker_request *request)
{
    if (!request->has_share)
        return;
    uv_mutex_lock(&port->lock);
    pfl_shares_give(&port->running, request->who, 1);
    if (port->queued != 0)
        uv_cond_broadcast(&port->wake);
    uv_mutex_unlock(&port->lock);
}

static void run_thread(void *user)
{
    struct pfl_worker_port *port = user;
    struct pfl_worker_request *request;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    /* On Linux this is the calling thread's alone; refused, it stays as it is. */
    (void)setpriority(PRIO_PROCESS, 0, WORKER_NICE);
    while ((request = wait_for_request(port)) != NULL) {
        request->work->run(request->work);
        give_share_back(port, request);
        pfl_wakeup_post(port->wakeup, &request->note);
    }
}

int pfl_worker_port_open(struct pfl_worker_port *self, struct pfl_wakeup *wakeup)
{
    *self = (struct pfl_worker_port){.wakeup = wakeup};
    self->running = (struct pfl_shares){.max = PFL_WORKERS_MAX};
    if (uv_mutex_init(&self->lock) != 0)
        return PFL_ENOMEM;
    if (uv_cond_init(&self->wake) == 0)
        return 0;
    uv_mutex_destroy(&self->lock);
    return PFL_ENOMEM;
}

void pfl_worker_port_set_owner(struct pfl_worker_port *self, uint32_t uid)
{
    self->running.owner = uid;
}

void pfl_worker_port_close(struct pfl_worker_port *self)
{
    assert(self->queued == 0);
    uv_mutex_lock(&self->lock);
    self->is_closing = true;
    uv_cond_broadcast(&self->wake);
    uv_mutex_unlock(&self->lock);
    for (unsigned i = 0; i < self->threads_len; i++)
        (void)uv_thread_join(&self->threads[i]);
    uv_cond_destroy(&self->wake);
    uv_mutex_destroy(&self->lock);
}

/* Under the lock. False: there is no thread, and none can be made. */
static bool has_thread(struct pfl_worker_port *port)
{
    if (port->waiting <= port->queued && port->threads_len < PFL_WORKERS_MAX &&
        uv_thread_create(&port->threads[port->threads_len], run_thread, port) == 0)
        port->threads_len++;
    return port->threads_len != 0;
}

static void append(struct pfl_worker_port *port, struct pfl_worker_request *request)
{
    request->next = NULL;
    if (port->first == NULL)
        port->first = request;
    else
        port->last->next = request;
    port->last = request;
    port->queued++;
}

int pfl_worker_port_submit(struct pfl_worker_port *self, struct pfl_work *work)
{
    struct pfl_worker_request *request = pfl_mem_zalloc(sizeof(*request));
    bool is_taken;

    if (request == NULL)
        return PFL_ENOMEM;
    request->note.on_note = on_note;
    request->port = self;
    request->work = work;
    request->who = work->who;
    uv_mutex_lock(&self->lock);
    is_taken = has_thread(self);
    if (is_taken) {
        append(self, request);
        uv_cond_signal(&self->wake);
    }
    uv_mutex_unlock(&self->lock);
    if (!is_taken) {
        pfl_mem_free(request);
        return PFL_EIO;
    }
    pfl_wakeup_hold(self->wakeup);
    return 0;
}
