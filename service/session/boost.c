/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The priority of the service's thread.
 *
 * The thread runs at the highest boost of all sessions that asked for one; real time is above all
 * nice values. After the last of them ends, the original priority is restored. The shell sets it
 * (conf.boost).
 *
 * Failures: a host that does not allow a priority refuses the session that asks for it. If a
 * priority cannot be lowered, it stays, which is logged.
 */
#include "service/session/boost.h"

#include "base/log.h"

static bool is_higher(const struct pfl_boost *a, const struct pfl_boost *b)
{
    return a->policy != b->policy ? a->policy > b->policy : a->priority > b->priority;
}

static struct pfl_boost find_highest(const struct pfl_service *service)
{
    struct pfl_boost highest = {0};
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        const struct pfl_session *s = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (s->is_boosted && is_higher(&s->plan->boost, &highest))
            highest = s->plan->boost;
    }
    return highest;
}

int pfl_boost_apply(struct pfl_service *service, const struct pfl_boost *more)
{
    struct pfl_boost highest = find_highest(service);
    int rc;

    if (more != NULL && is_higher(more, &highest))
        highest = *more;
    if (highest.policy == service->boost.policy && highest.priority == service->boost.priority)
        return 0;
    if (service->conf.boost == NULL)
        return PFL_EPERM;
    rc = service->conf.boost(service->conf.user, &highest);
    if (rc != 0)
        return rc;
    service->boost = highest;
    pfl_log_info("priority-set", "policy=%s priority=%u",
                 highest.policy == PFL_BOOST_FIFO    ? "fifo"
                 : highest.policy == PFL_BOOST_OTHER ? "other"
                                                     : "default",
                 highest.priority);
    return 0;
}

void pfl_boost_lower(struct pfl_service *service)
{
    if (pfl_boost_apply(service, NULL) != 0)
        pfl_log_warn("priority-not-lowered", "policy=%d", (int)service->boost.policy);
}
