/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches a plan's data sources with producers.
 *
 * One match makes one instance: permission to write to the buffer, its VM, shared memory if the
 * producer has none yet (setup_tracing is sent once per connection), setup_data_source, and start
 * if the session runs already. A match that fails, for lack of memory or because of a limit, is
 * logged and left out; the session continues without it.
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
static int create_smb(struct pfl_service *service, struct pfl_producer *producer,
                      struct pfl_smb_size size)
{
    int rc = pfl_service_take_smb(service, producer, size.smb_bytes);

    if (rc != 0) {
        size = (struct pfl_smb_size){PFL_SMB_DEFAULT_BYTES, PFL_SMB_PAGE_DEFAULT_BYTES};
        rc = pfl_service_take_smb(service, producer, size.smb_bytes);
    }
    if (rc == 0)
        rc = pfl_smb_map_create(&producer->smb, size);
    if (rc != 0)
        pfl_service_give_smb(service, producer);
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
            rc = create_smb(service, producer, size);
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
    instance->id = ++service->last_instance_id;
    pfl_command_setup_source(instance);
    pfl_session_tell_instance(session, instance);
    if (session->state == PFL_SESSION_STARTED) {
        pfl_session_start_instance(session, instance);
        pfl_session_check_all_started(service, session);
    }
    return 0;
}

static bool is_wanted_by(const struct pfl_service *service, struct pfl_session *session,
                         const struct pfl_producer *producer, const struct pfl_data_source *source,
                         const struct pfl_plan_source *plan_source)
{
    const struct pfl_service_facts *facts = service->conf.facts;
    const char *machine_name =
        producer->machine_name != NULL ? producer->machine_name : facts->machine_name;
    const struct pfl_plan_producer who = {
        .name = pfl_span_of(producer->name, strlen(producer->name)),
        .machine_name = pfl_span_of(machine_name, strlen(machine_name)),
        .machine_id = producer->machine_id,
    };
    uint64_t credit;
    bool is_wanted;

    if (!pfl_span_eq(source->info.name, plan_source->name))
        return false;
    if (service->is_locked_down && (producer->is_emulated || producer->uid != facts->uid))
        return false;
    if (plan_source->filters_len == 0)
        return pfl_session_plan_wants(session->plan, plan_source, &who, NULL);
    credit = pfl_judging_begin(&session->judging, facts->uid, producer->who,
                               pfl_service_now_ms(service));
    is_wanted = pfl_session_plan_wants(session->plan, plan_source, &who, &credit);
    pfl_judging_end(&session->judging, session->id, producer, credit);
    return is_wanted;
}

static void try_set_up(struct pfl_service *service, struct pfl_session *session,
                       struct pfl_producer *producer, const struct pfl_data_source *source,
                       size_t plan_source)
{
    int rc;

    if (!is_wanted_by(service, session, producer, source, &session->plan->sources[plan_source]))
        return;
    rc = set_up(service, session, producer, source, plan_source);
    if (rc == PFL_ELIMIT && session->left_out++ != 0)
        return; /* only the first of thousands is logged */
    if (rc != 0)
        pfl_log_error("data-source-not-set-up", "session=%llu producer=%s source=%s reason=\"%s\"",
                      (unsigned long long)session->id, pfl_log_quote_str(producer->name),
                      pfl_log_quote((const char *)source->info.name.data, source->info.name.len),
                      pfl_err_str(rc));
}

void pfl_session_setup_in_producer(struct pfl_service *service, struct pfl_session *session,
                                   struct pfl_producer *producer, size_t plan_source)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &producer->sources) {
        try_set_up(service, session, producer, PFL_CONTAINER_OF(it, struct pfl_data_source, node),
                   plan_source);
    }
}

static int compare_sources(const void *a, const void *b)
{
    const struct pfl_data_source *x = *(struct pfl_data_source *const *)a;
    const struct pfl_data_source *y = *(struct pfl_data_source *const *)b;

    if (x->producer->serial != y->producer->serial)
        return x->producer->serial < y->producer->serial ? -1 : 1;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* Those of that name: by producer, as they came, for which memory is needed; else as they came. */
static void set_up_named(struct pfl_service *service, struct pfl_session *session,
                         size_t plan_source)
{
    struct pfl_span name = session->plan->sources[plan_source].name;
    const struct pfl_list *named = pfl_service_get_named(service, name);
    struct pfl_data_source **found = NULL;
    struct pfl_list *it;
    size_t len = 0;
    size_t i = 0;

    PFL_LIST_EACH (it, named) {
        len += pfl_span_eq(PFL_CONTAINER_OF(it, struct pfl_data_source, of_name)->info.name, name);
    }
    if (len > 1)
        found = pfl_mem_calloc(len, sizeof(struct pfl_data_source *));
    PFL_LIST_EACH (it, named) {
        struct pfl_data_source *source = PFL_CONTAINER_OF(it, struct pfl_data_source, of_name);

        if (!pfl_span_eq(source->info.name, name))
            continue;
        if (found != NULL)
            found[i++] = source;
        else
            try_set_up(service, session, source->producer, source, plan_source);
    }
    if (found == NULL)
        return;
    qsort(found, len, sizeof(struct pfl_data_source *), compare_sources);
    for (i = 0; i < len; i++)
        try_set_up(service, session, found[i]->producer, found[i], plan_source);
    pfl_mem_free(found);
}

void pfl_session_setup_all(struct pfl_service *service, struct pfl_session *session)
{
    for (size_t i = 0; i < session->plan->sources_len; i++)
        set_up_named(service, session, i);
}

void pfl_session_setup_source(struct pfl_service *service, struct pfl_producer *producer,
                              const struct pfl_data_source *source)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->state != PFL_SESSION_CONFIGURED && session->state != PFL_SESSION_STARTED)
            continue;
        for (size_t i = 0; i < session->plan->sources_len; i++)
            try_set_up(service, session, producer, source, i);
    }
}
