/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers and consumers of a service: they connect, register, commit, and leave.
 */
#ifndef PFL_SERVICE_REGISTRY_H
#define PFL_SERVICE_REGISTRY_H

#include "service/core/service.h"

/* PFL_ELIMIT (too many), PFL_EPERM (locked down), PFL_EINVAL (name), PFL_ENOMEM. */
PFL_MUST_USE int pfl_registry_add_producer(struct pfl_service *self,
                                           const struct pfl_producer_conf *conf,
                                           struct pfl_producer **ret_producer);
/*
 * Ends its instances. Frees it when its memory is scraped; its port is not called again. False:
 * scraping takes further turns of the loop. Until then the producer keeps its memory, its id and
 * what was counted for them; with `is_counted` also what was counted for its connection.
 */
bool pfl_registry_remove_producer(struct pfl_service *self, struct pfl_producer *producer);

/* Ignored, as documented: no name, or an id in use. PFL_ELIMIT, PFL_ENOMEM, PFL_EPARSE. */
PFL_MUST_USE int pfl_registry_register_source(struct pfl_service *self,
                                              struct pfl_producer *producer,
                                              struct pfl_span descriptor);
PFL_MUST_USE int pfl_registry_update_source(struct pfl_service *self, struct pfl_producer *producer,
                                            struct pfl_span descriptor);
void pfl_registry_unregister_source(struct pfl_service *self, struct pfl_producer *producer,
                                    struct pfl_span name);

/* The caller replies to the request after this. Codes of pfl_commit_apply. PFL_EAGAIN: it takes
 * too long for this turn; call again with the same bytes, before any other request of the producer.
 */
PFL_MUST_USE int pfl_registry_commit(struct pfl_service *self, struct pfl_producer *producer,
                                     struct pfl_span request);

/* Registers a writer: pfl_producer_set_writer. PFL_ELIMIT: the user's share of memory is used
 * up. */
PFL_MUST_USE int pfl_registry_set_writer(struct pfl_service *self, struct pfl_producer *producer,
                                         uint32_t writer_id_untrusted,
                                         uint32_t buffer_id_untrusted);

/* Caller's storage; uid, ops and port are set. */
void pfl_registry_add_consumer(struct pfl_service *self, struct pfl_consumer *consumer);
/* Frees its session. */
void pfl_registry_remove_consumer(struct pfl_service *self, struct pfl_consumer *consumer);

#endif
