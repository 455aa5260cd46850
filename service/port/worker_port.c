/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uv_queue_work around a piece of work.
 *
 * The pool's threads step back behind the main loop (nice), so that on a busy machine compressing
 * costs a client of another session nothing but what the kernel's scheduler can't help. Failures:
 * no memory; then the work was not taken. Each request is freed when its work is back.
 */
#include "service/port/worker_port.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "base/mem.h"

#define WORKER_NICE 10

struct request {
    uv_work_t uv;
    struct pfl_work *work; /* borrowed until it is back */
};

static void run(uv_work_t *uv)
{
    static _Thread_local bool is_nice;
    struct request *request = uv->data;

    /* On Linux this is the calling thread's alone; refused, it stays as it is. */
    if (!is_nice)
        (void)setpriority(PRIO_PROCESS, 0, WORKER_NICE);
    is_nice = true;
    request->work->run(request->work);
}

static void on_back(uv_work_t *uv, int status)
{
    struct request *request = uv->data;
    struct pfl_work *work = request->work;

    (void)status; /* nobody cancels requests */
    pfl_mem_free(request);
    work->done(work);
}

int pfl_worker_port_submit(uv_loop_t *loop, struct pfl_work *work)
{
    struct request *request = pfl_mem_zalloc(sizeof(*request));

    if (request == NULL)
        return PFL_ENOMEM;
    request->work = work;
    request->uv.data = request;
    if (uv_queue_work(loop, &request->uv, run, on_back) == 0)
        return 0;
    pfl_mem_free(request);
    return PFL_EIO;
}
