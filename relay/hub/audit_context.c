/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes audit lines with the requester's name and address, host and stream. Owns nothing; cannot
 * fail. Limits: those of the audit log.
 */
#include "relay/hub/audit_context.h"

#include <stdio.h>
#include <string.h>

#include "relay/hub/peer_table.h"
#include "relay/hub/stream_splice.h"

void pfl_audit_context_set(struct pfl_audit_context *self, const struct pfl_hub_peer *peer,
                           const struct pfl_route *route)
{
    self->shell = peer->table->shell;
    memcpy(self->who, peer->identity.name, sizeof(self->who));
    memcpy(self->address, peer->address, sizeof(self->address));
    memcpy(self->host, route->host, sizeof(self->host));
    memcpy(self->stream, route->stream, sizeof(self->stream));
}

void pfl_audit_context_set_agent(struct pfl_audit_context *self, const struct pfl_hub_peer *agent)
{
    *self = (struct pfl_audit_context){.shell = agent->table->shell};
    memcpy(self->host, agent->identity.name, sizeof(self->host));
    memcpy(self->address, agent->address, sizeof(self->address));
}

bool pfl_audit_context_write(const struct pfl_audit_context *self, const char *action,
                             unsigned status, const struct pfl_audit_context_more *more)
{
    const struct pfl_stream_splice_stats *stats = more != NULL ? more->stats : NULL;
    struct pfl_audit_log_entry entry = {
        .who = self->who,
        .address = self->address,
        .action = action,
        .host = self->host,
        .stream = self->stream,
        .status = status,
        .bytes_to_host = stats != NULL ? stats->bytes_to_host : 0,
        .bytes_to_operator = stats != NULL ? stats->bytes_to_operator : 0,
        .method = more != NULL ? more->method : NULL,
        .detail = more != NULL ? more->detail : NULL,
        .is_refused = more != NULL && more->is_refused,
    };

    return self->shell->audit(self->shell->user, &entry);
}

void pfl_audit_context_describe(enum pfl_route_kind kind, const char *other, char *dst, size_t room)
{
    bool is_for = other != NULL && other[0] != '\0';

    if (kind == PFL_ROUTE_SPOOL)
        (void)snprintf(dst, room, "spool%s%s", is_for ? " for=" : "", is_for ? other : "");
    else if (kind == PFL_ROUTE_COLLECTOR)
        (void)snprintf(dst, room, "collector=%s", other);
    else
        (void)snprintf(dst, room, "%s", "");
}

void pfl_audit_context_report(const struct pfl_audit_context *self, enum pfl_hub_event event,
                              uint64_t number, const char *detail)
{
    struct pfl_hub_report report = {
        .event = event, .context = self, .number = number, .detail = detail};

    self->shell->report(self->shell->user, &report);
}

void pfl_audit_context_write_forgotten(const struct pfl_audit_context *self,
                                       const struct pfl_host *host)
{
    unsigned long long away_s = (self->shell->get_now_ms(self->shell->user) - host->seen_ms) / 1000;
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "left %llu s ago", away_s);
    pfl_audit_context_write(self, "forget", 204,
                            &(struct pfl_audit_context_more){.detail = detail});
    pfl_audit_context_report(self, PFL_HUB_HOST_FORGOTTEN, away_s, NULL);
}
