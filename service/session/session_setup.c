/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches a plan's data sources with producers.
 *
 * One match makes one instance: permission to write to the buffer, its VM, shared memory if the
 * producer has none yet (setup_tracing is sent once per connection), setup_data_source, and start
 * if the session runs already. A match that fails, for lack of memory or because of a limit, is
 * logged and left out; the session continues without it.
 *
 * A request looks up and sorts the data sources of a name once, however often the config has it.
 * What is not matched (a share is used up, or memory) leaves that list, so the pairs that are tried
 * are bounded: by the session's instances, and, with filters, by the budget for matching.
 */
#include "service/session/session_setup.h"

#include <stdlib.h>

#include "abi/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/core/command.h"
#include "service/session/session_instances.h"
#include "service/session/session_vms.h"

/* What does not fit into the user's share becomes the smallest memory there is. */
static int create_some_smb(struct pfl_service *service, struct pfl_producer *producer,
                           struct pfl_smb_size size)
{
    int rc = pfl_service_create_smb(service, producer, size);

    if (rc == PFL_ELIMIT) {
        size = (struct pfl_smb_size){PFL_SMB_DEFAULT_BYTES, PFL_SMB_PAGE_DEFAULT_BYTES};
        rc = pfl_service_create_smb(service, producer, size);
    }
    return rc;
}

static int open_smb(struct pfl_service *service, struct pfl_producer *producer,
                    const struct pfl_session *session)
{
    struct pfl_smb_size size;
    uint32_t page_kb;
    uint32_t size_kb;
    int rc = 0;

    if (!pfl_smb_map_is_open(&producer->smb) && !producer->is_setup) {
        pfl_session_plan_get_shm(session->plan, pfl_span_of(producer->name, strlen(producer->name)),
                                 &page_kb, &size_kb);
        size = pfl_limits_choose_smb(size_kb, page_kb, producer->smb_hint_bytes,
                                     producer->page_hint_bytes);
        /* A producer without shared memory still needs the size of its pages. */
        if (producer->is_emulated)
            producer->smb.smb.page_bytes = size.page_bytes;
        else
            rc = create_some_smb(service, producer, size);
    }
    if (rc == 0 && !producer->is_setup)
        pfl_command_setup_tracing(producer);
    return rc;
}

static int set_up(struct pfl_service *service, struct pfl_session *session,
                  struct pfl_producer *producer, const struct pfl_data_source *source,
                  size_t plan_source)
{
    uint16_t buffer_id = session->buffers[session->plan->sources[plan_source].target_buffer].id;
    struct pfl_instance *instance;
    int rc = PFL_ELIMIT;

    if (pfl_session_has_room_for(session, producer))
        rc = pfl_service_allow(service, producer, buffer_id);
    if (rc == 0)
        pfl_session_vms_set_up(service, session, producer, source, plan_source);
    if (rc == 0)
        rc = open_smb(service, producer, session);
    if (rc == 0)
        rc = pfl_session_add_instance(session, producer, source, plan_source, &instance);
    if (rc != 0)
        return rc;
    pfl_service_add_instance(service, instance);
    pfl_command_setup_source(instance);
    pfl_session_tell_instance(session, instance);
    if (session->state == PFL_SESSION_STARTED) {
        pfl_session_start_instance(session, instance);
        pfl_session_check_all_started(service, session);
    }
    return 0;
}

/* Of the budget for matching, besides the patterns: 50 ns each. */
#define MATCH_UNITS    4u
#define FILTERS_A_UNIT 8u

enum match {
    MATCH_NO,
    MATCH_YES,
    MATCH_NEVER, /* nor any data source of the plan, now */
};

/* Filters are judged within a budget of the producer's user. */
static enum match judge(struct pfl_service *service, struct pfl_session *session,
                        const struct pfl_producer *producer,
                        const struct pfl_plan_source *plan_source,
                        const struct pfl_plan_producer *who)
{
    const struct pfl_judging_match match = {
        .all = &service->judging,
        .session_id = session->id,
        .session_who = session->who,
        .producer = producer,
        .plain_units = MATCH_UNITS + plan_source->filters_len / FILTERS_A_UNIT,
    };
    uint64_t cost = match.plain_units;
    uint64_t credit = pfl_judging_begin(&session->judging, &match, pfl_service_now_ms(service));
    bool is_wanted = false;

    credit = credit > cost ? credit - cost : 0;
    if (credit != 0)
        is_wanted = pfl_session_plan_wants(session->plan, plan_source, who, &credit);
    pfl_judging_end(&session->judging, &match, credit);
    if (is_wanted)
        return MATCH_YES;
    return credit != 0 ? MATCH_NO : MATCH_NEVER;
}

static enum match match(struct pfl_service *service, struct pfl_session *session,
                        const struct pfl_data_source *source,
                        const struct pfl_plan_source *plan_source)
{
    const struct pfl_producer *producer = source->producer;
    const struct pfl_service_facts *facts = service->conf.facts;
    const char *machine_name =
        producer->machine_name != NULL ? producer->machine_name : facts->machine_name;
    const struct pfl_plan_producer who = {
        .name = pfl_span_of(producer->name, strlen(producer->name)),
        .machine_name = pfl_span_of(machine_name, strlen(machine_name)),
        .machine_id = producer->machine_id,
    };

    if (service->is_locked_down && (producer->is_emulated || producer->uid != facts->uid))
        return MATCH_NEVER;
    if (plan_source->filters_len != 0 || producer->machine_id != 0)
        return judge(service, session, producer, plan_source, &who);
    return pfl_session_plan_wants(session->plan, plan_source, &who, NULL) ? MATCH_YES : MATCH_NO;
}

static enum match try_set_up(struct pfl_service *service, struct pfl_session *session,
                             const struct pfl_data_source *source, size_t plan_source)
{
    struct pfl_producer *producer = source->producer;
    enum match matched = match(service, session, source, &session->plan->sources[plan_source]);
    int rc;

    if (matched != MATCH_YES)
        return matched;
    rc = set_up(service, session, producer, source, plan_source);
    if (rc == 0)
        return MATCH_YES;
    if (rc != PFL_ELIMIT || session->left_out++ == 0) /* only the first of thousands is logged */
        pfl_log_error("data-source-not-set-up", "session=%llu producer=%s source=%s reason=\"%s\"",
                      (unsigned long long)session->id, pfl_log_quote_str(producer->name),
                      pfl_log_quote((const char *)source->info.name.data, source->info.name.len),
                      pfl_err_str(rc));
    return MATCH_NEVER;
}

/* ---- all that are registered ---- */

/* Those of one name that may still be set up. */
struct candidates {
    struct pfl_data_source **sources; /* owned */
    size_t len;
    bool is_made;
};

struct setup {
    struct pfl_service *service;
    struct pfl_session *session;
    struct candidates *names; /* owned: at the index of the plan's first data source of the name */
    uint64_t members;         /* pfl_producer.walk of those that take no further part; 0: of none */
    uint64_t pass;            /* the same, of those that came with the current one of the plan */
};

static bool is_member(const struct setup *self, const struct pfl_producer *producer)
{
    return self->members != 0 && producer->walk >= self->members && producer->walk < self->pass;
}

static int compare_sources(const void *a, const void *b)
{
    const struct pfl_data_source *x = *(struct pfl_data_source *const *)a;
    const struct pfl_data_source *y = *(struct pfl_data_source *const *)b;

    if (x->producer->serial != y->producer->serial)
        return x->producer->serial < y->producer->serial ? -1 : 1;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* By producer, as they came. */
static int make_candidates(const struct setup *self, struct pfl_span name,
                           struct candidates *candidates)
{
    const struct pfl_list *named = pfl_service_get_named(self->service, name);
    struct pfl_list *it;
    size_t len = 0;

    PFL_LIST_EACH (it, named) {
        len += pfl_span_eq(PFL_CONTAINER_OF(it, struct pfl_data_source, of_name)->info.name, name);
    }
    candidates->sources = pfl_mem_calloc(len + 1, sizeof(struct pfl_data_source *));
    if (candidates->sources == NULL)
        return PFL_ENOMEM;
    PFL_LIST_EACH (it, named) {
        struct pfl_data_source *source = PFL_CONTAINER_OF(it, struct pfl_data_source, of_name);

        if (pfl_span_eq(source->info.name, name))
            candidates->sources[candidates->len++] = source;
    }
    qsort(candidates->sources, candidates->len, sizeof(struct pfl_data_source *), compare_sources);
    candidates->is_made = true;
    return 0;
}

/* False: it leaves the candidates. */
static bool set_up_candidate(const struct setup *self, const struct pfl_data_source *source,
                             size_t plan_source)
{
    enum match matched;

    if (is_member(self, source->producer))
        return false;
    matched = try_set_up(self->service, self->session, source, plan_source);
    if (matched == MATCH_YES)
        source->producer->walk = self->pass;
    return matched != MATCH_NEVER;
}

/* Without memory, as they came. */
static void set_up_unsorted(const struct setup *self, struct pfl_span name, size_t plan_source)
{
    const struct pfl_list *named = pfl_service_get_named(self->service, name);
    struct pfl_list *it;

    PFL_LIST_EACH (it, named) {
        const struct pfl_data_source *source =
            PFL_CONTAINER_OF(it, struct pfl_data_source, of_name);

        if (pfl_span_eq(source->info.name, name))
            (void)set_up_candidate(self, source, plan_source);
    }
}

static void set_up_named(struct setup *self, size_t plan_source)
{
    const struct pfl_session_plan *plan = self->session->plan;
    struct pfl_span name = plan->sources[plan_source].name;
    struct candidates *candidates = NULL;
    size_t kept = 0;

    self->pass = ++self->service->producer_walks;
    if (self->names != NULL)
        candidates = &self->names[pfl_session_plan_find_source(plan, name) - plan->sources];
    if (candidates == NULL ||
        (!candidates->is_made && make_candidates(self, name, candidates) != 0)) {
        set_up_unsorted(self, name, plan_source);
        return;
    }
    for (size_t i = 0; i < candidates->len; i++) {
        struct pfl_data_source *source = candidates->sources[i];

        if (set_up_candidate(self, source, plan_source))
            candidates->sources[kept++] = source;
    }
    candidates->len = kept;
}

static void begin_setup(struct setup *self)
{
    self->names = pfl_mem_calloc(self->session->plan->sources_len + 1, sizeof(self->names[0]));
}

static void end_setup(struct setup *self)
{
    for (size_t i = 0; self->names != NULL && i < self->session->plan->sources_len; i++)
        pfl_mem_free(self->names[i].sources);
    pfl_mem_free(self->names);
}

void pfl_session_setup_all(struct pfl_service *service, struct pfl_session *session)
{
    struct setup setup = {.service = service, .session = session};

    begin_setup(&setup);
    for (size_t i = 0; i < session->plan->sources_len; i++)
        set_up_named(&setup, i);
    end_setup(&setup);
}

void pfl_session_setup_new(struct pfl_service *service, struct pfl_session *session,
                           const struct pfl_session_plan *update)
{
    struct setup setup = {.service = service, .session = session};
    struct pfl_session_producers members = pfl_session_begin_producers(service, session);

    setup.members = members.walk;
    while (pfl_session_next_producer(&members) != NULL)
        ; /* now they have that number */
    begin_setup(&setup);
    for (size_t i = 0; i < session->plan->sources_len; i++) {
        if (pfl_session_plan_find_source(update, session->plan->sources[i].name) != NULL)
            set_up_named(&setup, i);
    }
    end_setup(&setup);
}

void pfl_session_setup_source(struct pfl_service *service, const struct pfl_data_source *source)
{
    const struct pfl_plan_name *wanted;
    struct pfl_list *it;
    size_t len;

    PFL_LIST_EACH (it, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->state != PFL_SESSION_CONFIGURED && session->state != PFL_SESSION_STARTED)
            continue;
        wanted = pfl_session_plan_find_sources(session->plan, source->info.name, &len);
        for (size_t i = 0; i < len; i++) {
            if (try_set_up(service, session, source, wanted[i].at) == MATCH_NEVER)
                break;
        }
    }
}
