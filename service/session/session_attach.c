/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detach and attach.
 *
 * detach: a pending read of the consumer fails. The session then belongs to the service's `nobody`
 * consumer, under a key in the namespace of its user. The consumer's flushes continue, and it is
 * answered. attach: a consumer of the same user takes the session, with all its data. A detached
 * session that ends by itself is freed (session_flush.c), because nothing could read it.
 * Failures leave everything unchanged. The session owns its key.
 */
#include "service/session/session_attach.h"

#include "base/mem.h"
#include "service/session/session_run.h"

static struct pfl_session *find_detached(const struct pfl_service *service, uint32_t uid,
                                         struct pfl_span key)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->uid == uid && pfl_session_is_detached(session) &&
            pfl_span_eq(pfl_span_of(session->detach_key, session->detach_key_len), key))
            return session;
    }
    return NULL;
}

int pfl_session_detach(struct pfl_service *service, struct pfl_consumer *consumer,
                       struct pfl_span key)
{
    struct pfl_session *session = consumer->session;
    uint8_t *copy;

    if (session == NULL || session->is_copied)
        return PFL_ENOENT;
    if (key.len == 0)
        return PFL_EINVAL;
    if (find_detached(service, consumer->uid, key) != NULL)
        return PFL_EEXIST;
    copy = pfl_mem_alloc(key.len);
    if (copy == NULL)
        return PFL_ENOMEM;
    memcpy(copy, key.data, key.len);
    consumer->ops->on_session_gone(consumer->port);
    consumer->session = NULL;
    session->consumer = &service->nobody;
    session->detach_key = copy;
    session->detach_key_len = key.len;
    return 0;
}

int pfl_session_attach(struct pfl_service *service, struct pfl_consumer *consumer,
                       struct pfl_span key)
{
    struct pfl_session *session;

    if (consumer->session != NULL)
        return PFL_EEXIST;
    if (key.len == 0)
        return PFL_EINVAL;
    session = find_detached(service, consumer->uid, key);
    if (session == NULL)
        return PFL_ENOENT;
    pfl_mem_free(session->detach_key);
    session->detach_key = NULL;
    session->consumer = consumer;
    consumer->session = session;
    return 0;
}

void pfl_session_end_detached(struct pfl_service *service)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (pfl_session_is_detached(session))
            pfl_session_end(service, session);
    }
}
