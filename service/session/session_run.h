/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a session: enabled, started, stopped, ended; its timers. Called by ports and service.
 */
#ifndef PFL_SERVICE_SESSION_RUN_H
#define PFL_SERVICE_SESSION_RUN_H

#include "service/core/service.h"

#define PFL_SESSION_SLOW_START_MS 20000u
#define PFL_SESSION_SLOW_MAX      32u /* data sources named in a warning */

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

void pfl_session_start_instance(struct pfl_session *session, struct pfl_instance *instance);
/* Once per session, when all data sources run: informs the consumer and the trace. */
void pfl_session_check_all_started(struct pfl_service *service, struct pfl_session *session);
void pfl_session_on_started(struct pfl_service *service, struct pfl_producer *producer,
                            uint64_t instance_id_untrusted);
void pfl_session_on_stopped(struct pfl_service *service, struct pfl_producer *producer,
                            uint64_t instance_id_untrusted);
/* The data source was unregistered, or its producer disconnected (then instance->producer is NULL):
 * stops the instance and frees it. */
void pfl_session_drop_instance(struct pfl_service *service, struct pfl_instance *instance);

/* Removes it from the service and frees it; only on_session_gone is called. */
/* False if the files of ended sessions that are still being written reach the limit of all users,
 * or of this one. */
bool pfl_session_may_close_later(const struct pfl_service *service, uint32_t who);
void pfl_session_remove(struct pfl_service *service, struct pfl_session *session);
/* The file is closed: the session is disabled if it still runs, else that is reported now; one that
 * ended is freed. */
void pfl_session_on_file_closed(struct pfl_service *service, struct pfl_session *session);

/* The session is finishing, and all its producers' data is in its buffers. May free it. */
void pfl_session_on_last_scraped(struct pfl_service *service, struct pfl_session *session);

/* The stop timeout expired: waits no longer. */
void pfl_session_finish_stop(struct pfl_service *service, struct pfl_session *session);

/* All clocks of a snapshot, now. */
struct pfl_clock_snapshot pfl_session_read_clocks(const struct pfl_service *service);
/* Makes the object with its buffers and, if the plan needs one, its pipeline; not yet in a list.
 * Takes `plan` on success. PFL_ENOMEM. */
PFL_MUST_USE int pfl_session_make_parts(struct pfl_service *service, uint32_t who,
                                        struct pfl_session_plan *plan,
                                        struct pfl_session **ret_session);
struct pfl_trace_uuid pfl_session_make_uuid(struct pfl_service *service);
/* Adds a clock snapshot if a clock drifted. */
void pfl_session_snapshot_clocks(struct pfl_service *service, struct pfl_session *session);
/* The next read begins like the first: clocks, config, uuid, system info, statistics. */
void pfl_session_tell_again(struct pfl_service *service, struct pfl_session *session);
/* Records a service event, now. */
void pfl_session_record(struct pfl_service *service, struct pfl_session *session,
                        enum pfl_session_event_kind kind, struct pfl_span payload);
/* One DataSources entry. */
void pfl_session_encode_slow(struct pfl_message *m, const struct pfl_session *session,
                             const struct pfl_instance *instance);

#endif
