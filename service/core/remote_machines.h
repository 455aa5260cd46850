/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machines behind this host as their relays describe them: system information and pairs of
 * clock readings (docs/abi/service.md section 13), and the packets about them in a trace. A core:
 * clock readings are arguments.
 */
#ifndef PFL_SERVICE_REMOTE_MACHINES_H
#define PFL_SERVICE_REMOTE_MACHINES_H

#include "base/list.h"
#include "service/core/machine_set.h"
#include "service/core/service_packets.h"

#define PFL_RELAY_MAX            256u  /* connected relays, and remembered ones */
#define PFL_RELAY_INFO_MAX_BYTES 8192u /* of a SystemInfo */
#define PFL_RELAY_CLOCKS         16u   /* of one reading; the rest is ignored */
#define PFL_RELAY_PAIRS          5u    /* readings that are kept */

struct pfl_relay_clocks {
    struct pfl_clock_reading clocks[PFL_RELAY_CLOCKS];
    size_t len;
};

struct pfl_relay {
    struct pfl_list node; /* in pfl_remote_machines.relays */
    uint32_t machine_id;
    uint64_t who;  /* the user whose share it uses: base/shares.h */
    uint8_t *info; /* owned: SystemInfo as it came */
    size_t info_len;
    struct pfl_relay_clocks client[PFL_RELAY_PAIRS]; /* oldest first */
    struct pfl_relay_clocks host[PFL_RELAY_PAIRS];   /* read when client's arrived */
    size_t pairs_len;
    bool is_gone; /* its connection is over; kept for the current sessions */
};

struct pfl_remote_machines {
    struct pfl_list relays; /* owned; oldest first */
    size_t len;
};

void pfl_remote_machines_init(struct pfl_remote_machines *self);
void pfl_remote_machines_fini(struct pfl_remote_machines *self);
/* PFL_EINVAL: machine 0, which is this host and needs no relay. PFL_ELIMIT: in all, or of this
 * peer. PFL_ENOMEM. */
PFL_MUST_USE int pfl_remote_machines_add(struct pfl_remote_machines *self, uint32_t machine_id,
                                         uint64_t who, struct pfl_relay **ret_relay);
/* The relay's connection is over. `is_kept`: sessions may still need what it reported. */
void pfl_remote_machines_leave(struct pfl_remote_machines *self, struct pfl_relay *relay,
                               bool is_kept);
/* Forgets relays that are gone: no session is left. */
void pfl_remote_machines_forget_gone(struct pfl_remote_machines *self);

/* Replaces its system information. PFL_EPARSE, PFL_ELIMIT (too large), PFL_ENOMEM: the old one
 * stays. */
PFL_MUST_USE int pfl_relay_set_info(struct pfl_relay *self, struct pfl_span info);
/* Past PFL_RELAY_PAIRS the oldest pair is dropped. */
void pfl_relay_add_pair(struct pfl_relay *self, const struct pfl_relay_clocks *client,
                        const struct pfl_relay_clocks *host);

/* Appends one packet for each machine that is not in `sent` yet, and adds it there. If a machine
 * has several relays, the newest one with data is used. */
void pfl_remote_machines_encode_infos(const struct pfl_remote_machines *self, struct pfl_message *m,
                                      const struct pfl_service_facts *facts,
                                      struct pfl_machine_set *sent);
void pfl_remote_machines_encode_clocks(const struct pfl_remote_machines *self,
                                       struct pfl_message *m, const struct pfl_service_facts *facts,
                                       struct pfl_machine_set *sent);

#endif
