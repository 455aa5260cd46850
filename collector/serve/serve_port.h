/* SPDX-License-Identifier: Apache-2.0 */
/* A collector's second connections to relays, on which they make requests for operators. */
#ifndef PFL_COLLECTOR_SERVE_SERVE_PORT_H
#define PFL_COLLECTOR_SERVE_SERVE_PORT_H

#include "collector/serve/operator_streams_port.h"

struct pfl_serve;

struct pfl_serve_conf {
    uv_loop_t *loop;
    struct pfl_engines *engines;           /* borrowed until pfl_serve_stop and their close */
    struct pfl_relays *relays;             /* borrowed until pfl_serve_stop */
    struct pfl_tls_files files;            /* the strings are borrowed until on_closed */
    const char *addresses[PFL_RELAYS_MAX]; /* borrowed until open returns */
    size_t len;
    void (*on_orders_changed)(void *user); /* in the index. May be NULL */
    void (*on_closed)(void *user);         /* last callback */
    void *user;
};

/* Logs failures. Errors of pfl_tls_conf_new; PFL_ENOMEM. */
PFL_MUST_USE int pfl_serve_open(const struct pfl_serve_conf *conf, struct pfl_serve **ret_serve);
/* What a relay says of a host, as pfl_relays_conf has it. */
void pfl_serve_on_host(struct pfl_serve *self, unsigned relay, const struct pfl_spool_host *host);
void pfl_serve_on_relay_lost(struct pfl_serve *self, unsigned relay);
void pfl_serve_get_figures(const struct pfl_serve *self, struct pfl_operator_figures *ret_figures);
void pfl_serve_reload(struct pfl_serve *self); /* certificates; the old ones stay if it fails */
/* Ends all streams, begins no more work; NULL is legal. Before engines are closed. */
void pfl_serve_stop(struct pfl_serve *self);
/* After engines are closed, and before relays are. Asynchronous; NULL is legal. */
void pfl_serve_close(struct pfl_serve *self);

#endif
