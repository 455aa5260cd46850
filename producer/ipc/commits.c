/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When finished memory is committed, and by which thread.
 *
 * Happy path: the writer that fills the memory to a quarter commits it in its own thread. Smaller
 * amounts wait for the timer of the library's thread, which the first chunk of a batch starts.
 * Bytes that the socket does not accept stay in the connection's queue, and only the library's
 * thread waits for it. Failures: those of the connection; the library's thread detects and handles
 * them. Ownership: none. The arbiter's send_lock guards the connection's outgoing half (requests.c
 * takes it).
 */
#include "producer/ipc/commits.h"

#include <poll.h>

#include "producer/ipc/requests.h"
#include "producer/platform/clock.h"

void pfl_commits_drain(struct perfleet *p, uint64_t ms)
{
    uint64_t until = pfl_clock_monotonic_ms() + ms;

    while (pfl_requests_send(p) > 0 && !p->connection.has_failed) {
        struct pollfd fd = {.fd = p->connection.fd, .events = POLLOUT};
        uint64_t now = pfl_clock_monotonic_ms();

        if (now >= until)
            return;
        poll(&fd, 1, (int)(until - now));
    }
}

bool pfl_commits_now(void *user)
{
    struct perfleet *p = user;

    if (p->state != PFL_CLIENT_READY)
        return false; /* startup: there is no service that makes room */
    pfl_requests_commit(p);
    pfl_commits_drain(p, 100);
    return !p->connection.has_failed;
}

bool pfl_commits_here(void *user)
{
    struct perfleet *p = user;
    bool is_rest = false;

    if (!pfl_requests_try_commit(p, &is_rest))
        return false;
    if (is_rest) /* only this library's thread waits for the socket, and ends the connection */
        pfl_client_wake(p);
    return true;
}

/* The timer expired: commits what was due then. */
static bool is_time_over(struct perfleet *p)
{
    if (p->commit_at_ms == 0 || pfl_clock_monotonic_ms() < p->commit_at_ms)
        return false;
    p->commit_at_ms = 0;
    pfl_arbiter_set_timed(p->arbiter, false);
    return true;
}

/*
 * The queue goes first and a commit only after all of it. So what is due was either looked at with
 * an empty queue, or the socket is full and wakes us: nothing else would, the wake-up is spent.
 */
void pfl_commits_turn(struct perfleet *p)
{
    enum pfl_arbiter_due due;
    bool is_over;

    if (pfl_requests_send(p) > 0 || p->arbiter == NULL || p->state != PFL_CLIENT_READY)
        return;
    is_over = is_time_over(p);
    due = pfl_arbiter_get_due(p->arbiter);
    if (due == PFL_ARBITER_NOW || (due == PFL_ARBITER_LATER && is_over)) {
        pfl_requests_commit(p);
        pfl_requests_send(p);
    } else if (due == PFL_ARBITER_LATER && p->commit_at_ms == 0) {
        p->commit_at_ms = pfl_clock_monotonic_ms() + p->conf.batch_ms;
        pfl_arbiter_set_timed(p->arbiter, true);
    }
}
