/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session as an object of the service: made with buffers and pipeline, taken out of the lists,
 * freed with its file. Failures: PFL_ENOMEM; then there is none.
 */
#include "service/session/session_parts.h"

#include "service/session/boost.h"
#include "service/session/session_file.h"

int pfl_session_make_parts(struct pfl_service *service, uint32_t who, struct pfl_session_plan *plan,
                           struct pfl_session **ret_session)
{
    const struct pfl_pipeline_job_conf conf = {.submit = service->conf.submit,
                                               .now_ns = service->conf.now_ns,
                                               .user = service->conf.user,
                                               .who = who,
                                               .charged = &service->shares.peer_bytes};
    struct pfl_pipeline_job *output;
    int rc = pfl_pipeline_job_new(plan, &conf, &output);

    if (rc != 0)
        return rc;
    rc = pfl_session_new(plan, &service->hash_key, &service->shares.writer_bytes, ret_session);
    if (rc != 0) {
        pfl_pipeline_job_free(output);
        return rc;
    }
    (*ret_session)->output = output;
    (*ret_session)->sequences.charged = &service->shares.sequence_id_bytes;
    return 0;
}

struct pfl_trace_uuid pfl_session_make_uuid(struct pfl_service *service)
{
    struct pfl_trace_uuid uuid;

    service->conf.random(service->conf.user, &uuid, sizeof(uuid));
    uuid.msb = (uuid.msb & ~0xf000ull) | 0x4000ull; /* RFC 4122, version 4 */
    uuid.lsb = (uuid.lsb & ~(3ull << 62)) | (2ull << 62);
    return uuid;
}

bool pfl_session_may_have(const struct pfl_service *service, uint32_t who, unsigned of_who,
                          size_t all)
{
    size_t max = service->conf.sessions_max;
    size_t spare = max / 5 < PFL_SERVICE_SPARE_SESSIONS ? max / 5 : PFL_SERVICE_SPARE_SESSIONS;

    if (of_who >= service->conf.sessions_per_uid_max || all >= max)
        return false;
    if (service->conf.sessions_per_uid_max >= max || max - all > spare ||
        !pfl_shares_is_bound(&service->shares.consumers, who))
        return true;
    return of_who == 0 && max - all > 1;
}

bool pfl_session_may_close_later(const struct pfl_service *service, uint32_t who)
{
    struct pfl_list *it;
    unsigned of_who = 0;

    PFL_LIST_EACH (it, &service->closing) {
        of_who += PFL_CONTAINER_OF(it, struct pfl_session, node)->who == who;
    }
    return pfl_session_may_have(service, who, of_who, service->closing_len);
}

/* Out of the service, with nothing left that refers to it from there but its buffers. */
void pfl_session_take_out(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_consumer *consumer = session->consumer;

    consumer->ops->on_session_gone(consumer->port);
    consumer->session = NULL;
    pfl_list_remove(&session->node);
    service->sessions_len--;
    pfl_boost_lower(service);
}

void pfl_session_drop(struct pfl_service *service, struct pfl_session *session)
{
    pfl_shares_give(&service->shares.buffer_bytes, session->who, session->held_bytes);
    pfl_session_file_free(session->file);
    session->file = NULL;
    pfl_session_free(session);
}

void pfl_session_remove(struct pfl_service *service, struct pfl_session *session)
{
    pfl_session_take_out(service, session);
    pfl_service_remove_buffers(service, session);
    pfl_session_drop(service, session);
}
