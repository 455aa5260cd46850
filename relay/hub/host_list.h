/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to GET /v1/hosts: the hosts that an operator may know, as JSON. A core. */
#ifndef PFL_RELAY_HUB_HOST_LIST_H
#define PFL_RELAY_HUB_HOST_LIST_H

#include "base/token_bucket.h"
#include "proto/h2/h2.h"
#include "relay/hub/peer_table.h"

/* Operators whose names hash to the same bucket share a rate. */
#define PFL_HOST_LIST_BUCKETS 1024u
/* What one operator's lists take of a turn of the loop, plus the hosts of one bucket of 1024. */
#define PFL_HOST_LIST_TURN_NS 2000000

struct pfl_host_list_account {
    struct pfl_token_bucket looks; /* hosts that were looked at, a second */
    uint64_t turn_ms;              /* the last turn in which there was one */
    int64_t taken_ns;              /* of it */
};

struct pfl_host_list {
    char relay[PFL_IDENTITY_NAME_BYTES];
    char fleet[PFL_IDENTITY_NAME_BYTES];
    struct pfl_host_list_account listed[PFL_HOST_LIST_BUCKETS];
};

/* Names are copied. */
void pfl_host_list_init(struct pfl_host_list *self, const char *relay, const char *fleet);
/* May the operator's list look at one more host in this turn? */
bool pfl_host_list_may_look(struct pfl_host_list_account *account, uint64_t now_ms);
/* Answers in pieces, as the operator reads, and rate and turns allow. */
void pfl_host_list_send(struct pfl_host_list *self, struct pfl_hub_peer *peer,
                        struct pfl_h2_stream *h2_stream);

#endif
