/* SPDX-License-Identifier: Apache-2.0 */
/* The relays that a collector dials: which hosts they have, kept current, and streams to them. */
#ifndef PFL_COLLECTOR_RELAY_RELAYS_PORT_H
#define PFL_COLLECTOR_RELAY_RELAYS_PORT_H

#include "collector/relay/spool_list.h"
#include "collector/relay/spool_stream_port.h"

#define PFL_RELAYS_MAX 8u

struct pfl_relays;

struct pfl_relays_conf {
    uv_loop_t *loop;
    struct pfl_tls_files files;            /* the strings are borrowed until on_closed */
    const char *addresses[PFL_RELAYS_MAX]; /* borrowed until open returns */
    size_t len;
    /* An entry of a host at a relay (by its index) is new or changed. */
    void (*on_host)(void *user, unsigned relay, const struct pfl_spool_host *host);
    /* All of an answer was reported; `is_whole`: that is all that the relay knows now. */
    void (*on_listed)(void *user, unsigned relay, bool is_whole);
    void (*on_lost)(void *user,
                    unsigned relay); /* its hosts are unknown until it lists them again */
    void (*on_closed)(void *user);   /* last callback */
    void *user;
};

/* Logs failures. PFL_EINVAL: the certificate is no operator's; errors of pfl_tls_conf_new. */
PFL_MUST_USE int pfl_relays_open(const struct pfl_relays_conf *conf,
                                 struct pfl_relays **ret_relays);
const char *pfl_relays_get_fleet(const struct pfl_relays *self);
const char *pfl_relays_get_name(const struct pfl_relays *self); /* of the own certificate */
unsigned pfl_relays_count(const struct pfl_relays *self);
unsigned pfl_relays_count_connected(const struct pfl_relays *self);
/* NULL while it is not connected. */
struct pfl_tunnel_client *pfl_relays_get_client(struct pfl_relays *self, unsigned relay);
const struct pfl_tls_conf *pfl_relays_get_tls(const struct pfl_relays *self);
void pfl_relays_reload(struct pfl_relays *self); /* certificates; the old ones stay if it fails */
void pfl_relays_close(struct pfl_relays *self);  /* asynchronous, idempotent */

#endif
