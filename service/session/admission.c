/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a new session against the existing ones: exclusiveness, names, semaphores, the guardrail's
 * minimum distance, numbers per user and in all. First failure wins, in the documented order. The
 * guardrail table keeps the last PFL_SERVICE_GUARD_NAMES names by hash, each for its user.
 */
#include "service/session/admission.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "service/session/rotation.h"
#include "service/session/session_parts.h"

static int refuse(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *why, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(why, PFL_PLAN_WHY_BYTES, fmt, args);
    va_end(args);
    return PFL_EINVAL;
}

static struct pfl_session *session_at(struct pfl_list *it)
{
    return PFL_CONTAINER_OF(it, struct pfl_session, node);
}

static int check_exclusive(struct pfl_service *service, const struct pfl_session_plan *plan,
                           char *why)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        uint32_t prio = session_at(it)->plan->exclusive_prio;

        if (prio > 0 && prio >= plan->exclusive_prio)
            return refuse(why,
                          "exclusive_prio: %u; session %llu runs exclusively with priority %u: "
                          "stop it, or ask for a higher one",
                          plan->exclusive_prio, (unsigned long long)session_at(it)->id, prio);
    }
    return 0;
}

/* Rights for what affects other users' sessions and producers, and for files that the service's
 * user writes. */
static int check_rights(const struct pfl_service *service, const struct pfl_consumer *consumer,
                        const struct pfl_session_plan *plan, char *why)
{
    uint32_t uid = service->conf.facts->uid;
    bool acts_on_others = plan->exclusive_prio != 0 || plan->lockdown != PFL_LOCKDOWN_UNCHANGED;
    bool names_file = plan->file.is_wanted && plan->file.path.len != 0;

    if (consumer->uid == 0 || consumer->uid == uid)
        return 0;
    if (acts_on_others && !consumer->is_privileged)
        return refuse(why,
                      "%s: it acts on what others trace, so only root, user %u, whose service this "
                      "is, and the group of --privileged-group may set it; remove it",
                      plan->exclusive_prio != 0 ? "exclusive_prio" : "lockdown_mode", uid);
    if (names_file && plan->file.segment_max_bytes == 0 && plan->file.segment_period_ms == 0 &&
        pfl_rotation_may_name(plan->file.path))
        return refuse(why,
                      "output_path: the name ends as those of segments do, so the file could be in "
                      "the way of another user's perfleet_rotation; choose another ending than "
                      ".index, and than a dot and %u digits or more",
                      PFL_ROTATION_NUMBER_DIGITS);
    if (names_file && !service->conf.has_output_dirs)
        return refuse(why,
                      "output_path: the file would be user %u's, so only that user and root may "
                      "name one; pass a descriptor, or give the service a folder: --output-dir",
                      uid);
    return 0;
}

static struct pfl_session *find_other(const struct pfl_service *service,
                                      const struct pfl_session *session)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        if (session_at(it) != session)
            return session_at(it);
    }
    return NULL;
}

/* Other users' sessions may have the name: nobody takes it from them. */
static int check_name(const struct pfl_service *service, const struct pfl_session_plan *plan,
                      uint32_t who, char *why)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        if (session_at(it)->state != PFL_SESSION_CLONED && session_at(it)->who == who &&
            plan->session_name.len != 0 &&
            pfl_span_eq(session_at(it)->plan->session_name, plan->session_name))
            return refuse(
                why,
                "unique_session_name: %s is the name of session %llu; free it or choose "
                "another name",
                pfl_log_quote((const char *)plan->session_name.data, plan->session_name.len),
                (unsigned long long)session_at(it)->id);
    }
    return 0;
}

/* How many live sessions of this user and of root hold the semaphore; lowers `max_others` to the
 * smallest they allow. Those of other users hold nothing up. */
static uint64_t count_holders(const struct pfl_service *service, struct pfl_span name, uint32_t who,
                              uint64_t *max_others)
{
    struct pfl_list *it;
    uint64_t holders = 0;

    PFL_LIST_EACH (it, &service->sessions) {
        const struct pfl_plan_index *index = &session_at(it)->plan->index;

        if (session_at(it)->state == PFL_SESSION_DISABLED ||
            session_at(it)->state == PFL_SESSION_CLONED ||
            (session_at(it)->who != who && session_at(it)->who != 0))
            continue;
        for (size_t i = 0; i < index->semaphores_len; i++) {
            const struct pfl_plan_semaphore *held = &index->semaphores[i];

            if (!pfl_span_eq(held->name, name))
                continue;
            holders++;
            *max_others = held->max_others < *max_others ? held->max_others : *max_others;
        }
    }
    return holders;
}

static int check_semaphores(const struct pfl_service *service, const struct pfl_session_plan *plan,
                            uint32_t who, char *why)
{
    for (size_t i = 0; i < plan->index.semaphores_len; i++) {
        struct pfl_span name = plan->index.semaphores[i].name;
        uint64_t max_others = plan->index.semaphores[i].max_others;
        uint64_t holders = count_holders(service, name, who, &max_others);

        if (holders > max_others)
            return refuse(why,
                          "session_semaphores: %s is held by %llu sessions and allows %llu others; "
                          "wait until one of them ends",
                          pfl_log_quote((const char *)name.data, name.len),
                          (unsigned long long)holders, (unsigned long long)max_others);
    }
    return 0;
}

static uint64_t hash_name(struct pfl_span name)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ name.data[i]) * 0x100000001b3ull;
    return hash;
}

static uint64_t get_guard_now_ms(const struct pfl_service *service)
{
    return pfl_service_boottime_ns(service) / 1000000;
}

/* NULL: that name is none of the last of this user. */
static const struct pfl_service_guard *find_guard(const struct pfl_service *service, uint64_t hash,
                                                  uint32_t who)
{
    for (size_t i = 0; i < PFL_SERVICE_GUARD_NAMES; i++) {
        if (service->guards[i].hash == hash && service->guards[i].who == who)
            return &service->guards[i];
    }
    return NULL;
}

static int check_guard_gap(const struct pfl_service *service, const struct pfl_session_plan *plan,
                           uint32_t who, char *why)
{
    const struct pfl_service_guard *guard;

    if (!plan->extra_guardrails)
        return 0;
    guard = find_guard(service, hash_name(plan->session_name), who);
    if (guard == NULL || get_guard_now_ms(service) - guard->boottime_ms >= PFL_SERVICE_GUARD_GAP_MS)
        return 0;
    return refuse(why,
                  "enable_extra_guardrails: a session of this unique_session_name started less "
                  "than %u s ago; wait",
                  PFL_SERVICE_GUARD_GAP_MS / 1000);
}

/* Once nothing can refuse the session any more. */
static void note_guard(struct pfl_service *service, const struct pfl_session_plan *plan,
                       uint32_t who)
{
    uint64_t hash = hash_name(plan->session_name);
    const struct pfl_service_guard *found = find_guard(service, hash, who);
    size_t at = found != NULL ? (size_t)(found - service->guards)
                              : service->guards_next++ % PFL_SERVICE_GUARD_NAMES;

    service->guards[at] = (struct pfl_service_guard){
        .hash = hash, .who = who, .boottime_ms = get_guard_now_ms(service)};
}

static int check_numbers(const struct pfl_service *service, const struct pfl_consumer *consumer,
                         char *why)
{
    struct pfl_list *it;
    unsigned of_who = 0;
    unsigned all = 0;

    PFL_LIST_EACH (it, &service->sessions) {
        bool is_own = session_at(it)->who == consumer->who;

        of_who += is_own;
        all += is_own || session_at(it)->state != PFL_SESSION_CLONED; /* which have no number */
    }
    if (of_who >= service->conf.sessions_per_uid_max)
        return refuse(why, "user %u has %u sessions already, the most a user may have; free one",
                      consumer->who, of_who);
    if (all >= service->conf.sessions_max)
        return refuse(why, "there are %u sessions already, the most there may be; free one", all);
    if (!pfl_session_may_have(service, consumer->who, of_who, all))
        return refuse(
            why,
            "there are %u sessions already; of the last ones a user may have one, and the "
            "very last is for root and user %u; free one",
            all, service->conf.facts->uid);
    return 0;
}

void pfl_admission_apply(struct pfl_service *service, const struct pfl_session *session,
                         void (*abort_other)(struct pfl_service *service, struct pfl_session *other,
                                             const char *why))
{
    const struct pfl_session_plan *plan = session->plan;
    char reason[PFL_PLAN_WHY_BYTES];
    struct pfl_session *other;

    if (plan->extra_guardrails)
        note_guard(service, plan, session->who);
    if (plan->lockdown != PFL_LOCKDOWN_UNCHANGED)
        service->is_locked_down = plan->lockdown == PFL_LOCKDOWN_SET;
    if (plan->exclusive_prio == 0)
        return;
    (void)snprintf(reason, sizeof(reason), "ended by a session with exclusive_prio %u",
                   plan->exclusive_prio);
    while ((other = find_other(service, session)) != NULL) {
        pfl_log_info("session-ended", "session=%llu reason=\"%s\"", (unsigned long long)other->id,
                     reason);
        abort_other(service, other, reason);
    }
}

int pfl_admission_check(struct pfl_service *service, const struct pfl_consumer *consumer,
                        const struct pfl_session_plan *plan, char ret_why[PFL_PLAN_WHY_BYTES])
{
    bool has_others = plan->exclusive_prio == 0; /* else they end before it begins */
    int rc = check_rights(service, consumer, plan, ret_why);

    if (rc == 0)
        rc = check_exclusive(service, plan, ret_why);
    if (rc == 0 && has_others)
        rc = check_name(service, plan, consumer->who, ret_why);
    if (rc == 0 && has_others)
        rc = check_semaphores(service, plan, consumer->who, ret_why);
    if (rc == 0 && has_others)
        rc = check_numbers(service, consumer, ret_why);
    if (rc == 0)
        rc = check_guard_gap(service, plan, consumer->who, ret_why);
    return rc;
}

bool pfl_admission_may_clone(const struct pfl_service *service, uint32_t who)
{
    struct pfl_list *it;
    size_t all = 0;
    size_t of_who = 0;

    PFL_LIST_EACH (it, &service->sessions) {
        const struct pfl_session *session = session_at(it);

        all += session->state == PFL_SESSION_CLONED;
        of_who += session->state == PFL_SESSION_CLONED && session->who == who;
    }
    if (who == 0 || who == service->conf.facts->uid)
        return all < PFL_SERVICE_MAX_CLONES;
    return pfl_shares_allow(PFL_SERVICE_MAX_CLONES, all, of_who, 1);
}
