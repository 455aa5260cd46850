/* SPDX-License-Identifier: Apache-2.0 */
/* What relays say of hosts: labels, and whether they are connected. Pure. */
#ifndef PFL_COLLECTOR_SERVE_KNOWN_HOSTS_H
#define PFL_COLLECTOR_SERVE_KNOWN_HOSTS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"

struct pfl_known_hosts;

PFL_MUST_USE int pfl_known_hosts_new(const struct pfl_hash_key *hash_key,
                                     struct pfl_known_hosts **ret_hosts);
void pfl_known_hosts_free(struct pfl_known_hosts *self); /* NULL is legal */

struct pfl_known_host {
    const char *name;
    unsigned relay; /* who says it, below PFL_HOST_MAP_RELAYS */
    bool is_connected;
    char *const *labels; /* "name=value" */
    size_t labels_len;
};
/* Above PFL_HOST_MAP_MAX the host that left first is forgotten. PFL_EINVAL: this is no
 * host's name; PFL_ELIMIT: all are connected; PFL_ENOMEM. Then what was known stays. */
PFL_MUST_USE int pfl_known_hosts_set(struct pfl_known_hosts *self,
                                     const struct pfl_known_host *host);
/* None of its hosts is connected by this relay. */
void pfl_known_hosts_forget_relay(struct pfl_known_hosts *self, unsigned relay);

bool pfl_known_hosts_is_connected(const struct pfl_known_hosts *self, const char *name);
/* The labels as fields Segment.label; borrowed until the next change. False: it is unknown. */
bool pfl_known_hosts_get_labels(const struct pfl_known_hosts *self, const char *name,
                                struct pfl_span *ret_labels);

#endif
