/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cores of the hub need from their shell: clocks, the HTTP/2 connections of peers, a
 * timer, the audit log and the log. hub_port.c is the shell; unit tests have one of their own. The
 * functions may not call back.
 */
#ifndef PFL_RELAY_HUB_HUB_SHELL_H
#define PFL_RELAY_HUB_HUB_SHELL_H

#include <stdbool.h>
#include <stdint.h>

#include "relay/hub/traffic.h"
#include "relay/policy/audit_log_entry.h"

struct pfl_audit_context;
struct pfl_h2;
struct pfl_hub_peer;
struct pfl_stream_splice_stats;

/* Events for the log. Each has a context: its host, and its operator and stream where it has any.
 */
enum pfl_hub_event {
    PFL_HUB_STREAM_ENDED,       /* `stats` */
    PFL_HUB_STREAM_DETACHED,    /* `number`: bytes of memory that it held */
    PFL_HUB_HOST_FORGOTTEN,     /* `number`: seconds since it left; no operator: for its age */
    PFL_HUB_TRIGGER_NOT_PASSED, /* `detail` */
    PFL_HUB_EVENTS_ENDED,       /* `number`: the code of HTTP/2 */
    PFL_HUB_EVENTS_UNHEARD,     /* `detail`: why the agent was not asked */
    PFL_HUB_HELLO_NOT_ASKED,
    PFL_HUB_HELLO_UNUSABLE, /* `number`: status of the answer */
    PFL_HUB_CLOCK_UNUSABLE,
};

struct pfl_hub_report {
    enum pfl_hub_event event;
    const struct pfl_audit_context *context;
    const struct pfl_stream_splice_stats *stats;
    uint64_t number;
    const char *detail;
};

/* The relay's own figures: relay_state.h. */
struct pfl_relay_figures {
    int64_t certificate_end_s; /* UNIX time, of its own certificate */
    int64_t crl_end_s;         /* of the revocation list that ends first; 0: it has none */
    uint64_t cpu_ns;           /* of the process, user and system */
    struct pfl_traffic traffic;
};

struct pfl_hub_shell {
    uint64_t (*get_now_ms)(void *user); /* of the loop: monotonic */
    int64_t (*get_boot_ns)(void *user); /* CLOCK_BOOTTIME */
    int64_t (*get_unix_ns)(void *user); /* CLOCK_REALTIME */
    /* NULL while the connection is being closed. */
    struct pfl_h2 *(*get_h2)(void *user, const struct pfl_hub_peer *peer);
    /* pfl_throttle_run for this peer in a few ms. Idempotent until then. */
    void (*pace)(void *user, struct pfl_hub_peer *peer);
    void (*get_figures)(void *user, struct pfl_relay_figures *ret_figures);
    /* False: no line of the audit log can be written, so nothing that is audited may begin. */
    bool (*can_audit)(void *user);
    bool (*audit)(void *user, const struct pfl_audit_log_entry *entry);
    void (*report)(void *user, const struct pfl_hub_report *report);
    void *user; /* borrowed */
};

#endif
