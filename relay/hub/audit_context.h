/* SPDX-License-Identifier: Apache-2.0 */
/* The requester's name and address, host and stream: the common part of lines of the audit log and
 * the log. A core; it is a copy, because the peer may be freed before the line is written. */
#ifndef PFL_RELAY_HUB_AUDIT_CONTEXT_H
#define PFL_RELAY_HUB_AUDIT_CONTEXT_H

#include "proto/tunnel/route.h"
#include "relay/hub/hub_shell.h"

struct pfl_host;

struct pfl_audit_context {
    const struct pfl_hub_shell *shell; /* borrowed: outlives all contexts */
    char who[PFL_IDENTITY_NAME_BYTES]; /* the operator; "": none */
    char address[80];
    char host[PFL_IDENTITY_NAME_BYTES];
    char stream[PFL_TUNNEL_STREAM_ID_BYTES]; /* "": none */
};

/* What some lines have besides; zeroed: nothing. */
struct pfl_audit_context_more {
    const struct pfl_stream_splice_stats *stats;
    const char *method;
    const char *detail;
    bool is_refused;
};

/* Of an operator's request. */
void pfl_audit_context_set(struct pfl_audit_context *self, const struct pfl_hub_peer *peer,
                           const struct pfl_route *route);
/* Of an agent, without an operator. */
void pfl_audit_context_set_agent(struct pfl_audit_context *self, const struct pfl_hub_peer *agent);
/* A line of the audit log. `more` may be NULL. False: it was not written, and what it is about may
 * not begin. */
bool pfl_audit_context_write(const struct pfl_audit_context *self, const char *action,
                             unsigned status, const struct pfl_audit_context_more *more);
/* The detail of a stream's lines: "" of a consumer's; "spool", "spool for=NAME"; "collector=NAME".
 * `other`: that name; NULL, "": none. */
void pfl_audit_context_describe(enum pfl_route_kind kind, const char *other, char *dst,
                                size_t room);
/* The same for a host that is being forgotten, and a line of the log; `who` "": for its age. */
void pfl_audit_context_write_forgotten(const struct pfl_audit_context *self,
                                       const struct pfl_host *host);
/* A line of the log about this context. */
void pfl_audit_context_report(const struct pfl_audit_context *self, enum pfl_hub_event event,
                              uint64_t number, const char *detail);

#endif
