/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of wake-ups by user: see wake_cost.h.
 *
 * The clock is read around each call. After one that took PFL_WAKE_COST_NS, perhaps because others
 * had the processor, the thread's CPU time is read, too, for a while: that costs a call of the
 * kernel. Root's and our own user's sockets never wait. No failures, no allocation.
 */
#include "base/io/wake_cost.h"

#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t get_cpu_ns(void)
{
    struct timespec ts = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct pfl_wake_cost_call pfl_wake_cost_begin(const struct pfl_wake_cost *self)
{
    struct pfl_wake_cost_call call = {.began_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC)};

    if (call.began_ns < self->watched_until_ns)
        call.cpu_ns = get_cpu_ns();
    return call;
}

bool pfl_wake_cost_end(struct pfl_wake_cost *self, uint32_t uid, struct pfl_wake_cost_call call)
{
    uint64_t now_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    uint64_t cpu_ns;

    if (now_ns - call.began_ns < PFL_WAKE_COST_NS || uid == 0 || uid == getuid())
        return false;
    self->watched_until_ns = now_ns + PFL_WAKE_COST_WATCH_NS;
    if (call.cpu_ns == 0)
        return false;
    cpu_ns = get_cpu_ns() - call.cpu_ns;
    if (cpu_ns < PFL_WAKE_COST_NS)
        return false;
    pfl_wake_cost_charge(self, uid, cpu_ns, now_ns);
    return true;
}

void pfl_wake_cost_charge(struct pfl_wake_cost *self, uint32_t uid, uint64_t cpu_ns,
                          uint64_t now_ns)
{
    struct pfl_wake_cost_user *u = &self->users[0];

    for (size_t i = 0; i < PFL_WAKE_COST_USERS && u->uid != uid; i++) {
        if (self->users[i].uid == uid || self->users[i].due_ns < u->due_ns)
            u = &self->users[i];
    }
    if (u->uid != uid || u->due_ns < now_ns)
        *u = (struct pfl_wake_cost_user){.uid = uid, .due_ns = now_ns};
    u->due_ns += cpu_ns * PFL_WAKE_COST_TIMES;
    if (self->due_ns < u->due_ns)
        self->due_ns = u->due_ns;
}

uint64_t pfl_wake_cost_get_wait_ms(const struct pfl_wake_cost *self, uint32_t uid, uint64_t now_ns)
{
    if (now_ns >= self->due_ns)
        return 0;
    for (size_t i = 0; i < PFL_WAKE_COST_USERS; i++) {
        const struct pfl_wake_cost_user *u = &self->users[i];

        if (u->uid == uid && u->due_ns > now_ns)
            return (u->due_ns - now_ns) / 1000000 + 1;
    }
    return 0;
}
