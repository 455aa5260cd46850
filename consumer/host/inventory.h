/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay's list of hosts (docs/protocol-tunnel.md section 2), and the hosts that a selection
 * matches. Pure. Only names are the relay's word: everything else is a host's own claim.
 */
#ifndef PFL_CONSUMER_INVENTORY_H
#define PFL_CONSUMER_INVENTORY_H

#include <jansson.h>

#include "base/bytes.h"
#include "consumer/host/host_spec.h"

#define PFL_INVENTORY_MAX_HOSTS 65536u
/* Of the whole list. Hosts with 40 labels each fill an answer of 16 MiB with fewer. */
#define PFL_INVENTORY_MAX_VALUES (1u << 20)
#define PFL_SELECTOR_MAX_BYTES   1024u

struct pfl_inventory;

/* The body of GET /v1/hosts. PFL_EPARSE (also for too many hosts or values), PFL_ENOMEM. */
PFL_MUST_USE int pfl_inventory_parse(struct pfl_span body, struct pfl_inventory **ret_inventory);
void pfl_inventory_free(struct pfl_inventory *self); /* NULL is legal */
size_t pfl_inventory_get_len(const struct pfl_inventory *self);

struct pfl_inventory_host {
    const char *name;
    const char
        *address; /* strings are "" if the relay does not send them; untrusted except `name` */
    const char *version;
    const char *tls; /* version of its agent's connection */
    double last_seen_s;
    uint64_t streams;
    bool is_connected;
    bool has_clock;
    int64_t offset_ns; /* its boot clock - the relay's */
    int64_t error_ns;
    int64_t certificate_end_s; /* of its agent's, UNIX time; 0: not known */
    const json_t *entry;       /* as the relay sent it */
};

/* Borrowed until free. */
void pfl_inventory_get_host(const struct pfl_inventory *self, size_t host,
                            struct pfl_inventory_host *ret_host);
/* It is not connected, for longer than an agent needs to restart. */
#define PFL_INVENTORY_LEFT_S 60u
bool pfl_inventory_has_left(const struct pfl_inventory_host *host);
/* SIZE_MAX: not found. */
size_t pfl_inventory_find(const struct pfl_inventory *self, const char *name);

/*
 * Does the selection match this host? Terms with commas between them, all of which must be true:
 * label=value, label!=value, label (it has one), !label; values may have * and ?. The label `name`
 * is the host's name. "" and "*" match every host.
 */
bool pfl_inventory_is_selected(const struct pfl_inventory_host *host, const char *selection);
/* PFL_EINVAL with `ret_why` (room for why_len): the error and the remedy. */
PFL_MUST_USE int pfl_selection_check(const char *selection, char *ret_why, size_t why_len);

#endif
