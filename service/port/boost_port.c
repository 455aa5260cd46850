/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's side of priority_boost: policy, real-time priority and nice value of the calling
 * thread. SCHED_RESET_ON_FORK keeps threads that are created meanwhile (disk, work) at the default.
 * Needs CAP_SYS_NICE or RLIMIT_RTPRIO and RLIMIT_NICE for everything above the default. Failures:
 * if the kernel refuses a call, the change is undone: PFL_EPERM.
 */
#include "service/port/boost_port.h"

#include <sched.h>
#include <sys/resource.h>

struct schedule {
    int policy;
    int priority;
    int nice;
};

static int set_schedule(const struct schedule *s)
{
    const struct sched_param param = {.sched_priority = s->priority};

    if (sched_setscheduler(0, s->policy, &param) != 0)
        return PFL_EPERM;
    if (s->priority == 0 && setpriority(PRIO_PROCESS, 0, s->nice) != 0)
        return PFL_EPERM;
    return 0;
}

static struct schedule get_schedule(void)
{
    struct sched_param param = {0};
    struct schedule s = {.policy = sched_getscheduler(0)};

    if (s.policy < 0 || sched_getparam(0, &param) != 0)
        return (struct schedule){.policy = SCHED_OTHER};
    s.priority = param.sched_priority;
    s.nice = s.priority == 0 ? getpriority(PRIO_PROCESS, 0) : 0;
    return s;
}

int pfl_boost_port_set(const struct pfl_boost *boost)
{
    static struct schedule initial;
    static bool has_initial;
    struct schedule before = get_schedule();
    struct schedule wanted = initial;
    int rc;

    if (!has_initial) {
        initial = before;
        has_initial = true;
    }
    if (boost->policy == PFL_BOOST_NONE)
        wanted = initial;
    else if (boost->policy == PFL_BOOST_FIFO)
        wanted = (struct schedule){.policy = SCHED_FIFO | SCHED_RESET_ON_FORK,
                                   .priority = (int)boost->priority};
    else
        wanted = (struct schedule){.policy = SCHED_OTHER | SCHED_RESET_ON_FORK,
                                   .nice = -(int)boost->priority};
    rc = set_schedule(&wanted);
    if (rc != 0)
        (void)set_schedule(&before);
    return rc;
}
