/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a session: enabled, started, stopped, ended. Called by ports and service. */
#ifndef PFL_SERVICE_SESSION_RUN_H
#define PFL_SERVICE_SESSION_RUN_H

#include "service/core/service.h"

struct pfl_session_enable_conf {
    struct pfl_span config;
    int *fd; /* for write_into_file; -1: none; set to -1 when it was taken */
};

/*
 * Checks the config and makes the consumer's session. Sets up data sources, and starts them unless
 * the config defers that. PFL_EINVAL: refused, `ret_why` has the reason; PFL_EPARSE: not a config;
 * PFL_ENOMEM, with `ret_why` too.
 */
PFL_MUST_USE int pfl_session_enable(struct pfl_service *service, struct pfl_consumer *consumer,
                                    const struct pfl_session_enable_conf *conf,
                                    char ret_why[PFL_PLAN_WHY_BYTES]);
/* False if the session is not waiting for its start. */
bool pfl_session_start(struct pfl_service *service, struct pfl_session *session);
/* Stops gracefully; no effect if it is over already. */
void pfl_session_disable(struct pfl_service *service, struct pfl_session *session);
/* Stops at once and frees session and buffers; abort: its consumer gets the reason. */
void pfl_session_end(struct pfl_service *service, struct pfl_session *session);
void pfl_session_abort(struct pfl_service *service, struct pfl_session *session, const char *why);

void pfl_session_on_started(struct pfl_service *service, struct pfl_producer *producer,
                            uint64_t instance_id_untrusted);
void pfl_session_on_stopped(struct pfl_service *service, struct pfl_producer *producer,
                            uint64_t instance_id_untrusted);
/* The data source was unregistered, or its producer disconnected (then instance->producer is NULL):
 * stops the instance and frees it. */
void pfl_session_drop_instance(struct pfl_service *service, struct pfl_instance *instance);

/* The stop timeout expired: waits no longer. */
void pfl_session_finish_stop(struct pfl_service *service, struct pfl_session *session);

#endif
