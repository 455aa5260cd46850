/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loopback WebSocket for the Perfetto UI's recording page: the bytes of a host's consumer
 * socket, as binary messages of any size. Each WebSocket is one client of that host's proxy, or of
 * the port of all hosts (fleet_port.h).
 */
#ifndef PFL_CONSUMER_UI_PORT_H
#define PFL_CONSUMER_UI_PORT_H

#include "consumer/ui/fleet_port.h"
#include "consumer/ui/ui_access.h"

#define PFL_UI_MAX_CONNECTIONS 32u
/* Connections without a request yet, or refused ones; past the limit the oldest is closed. */
#define PFL_UI_MAX_ARRIVALS 64u
#define PFL_UI_MAX_HOSTS    256u

struct pfl_ui;

struct pfl_ui_conf {
    struct pfl_host_conn_conf
        host; /* of all hosts; the port sets spec, on_ready, on_closed, user */
    const struct pfl_host_spec *specs; /* borrowed until on_closed */
    /* For all hosts together: step timeout, quorum and wait; the port sets the rest. */
    struct pfl_recording_conf recording;
    const char *version;        /* borrowed until on_closed; this program's */
    struct pfl_ui_access rules; /* borrowed likewise; hosts are the specs' names, in order */
    uint16_t port;              /* 0: any */
    /* A client's connection ended, with a reason; "" if the client disconnected. */
    void (*on_client_gone)(void *user, const char *why);
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* PFL_EIO (the port is taken; logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_ui_open(const struct pfl_ui_conf *conf, struct pfl_ui **ret_ui);
uint16_t pfl_ui_get_port(const struct pfl_ui *self);
/* Asynchronous, idempotent: files of clients are finished first. */
void pfl_ui_close(struct pfl_ui *self);

#endif
