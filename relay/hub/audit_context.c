/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes audit lines with the requester's name and address, host and stream. Owns nothing; cannot
 * fail. Limits: those of the audit log.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "relay/hub/hub_impl.h"

void pfl_audit_context_set(struct pfl_audit_context *self, const struct pfl_hub_peer *p,
                           const struct pfl_route *route)
{
    self->hub = p->hub;
    memcpy(self->who, p->identity.name, sizeof(self->who));
    memcpy(self->address, p->address, sizeof(self->address));
    memcpy(self->host, route->host, sizeof(self->host));
    memcpy(self->stream, route->stream, sizeof(self->stream));
}

void pfl_audit_context_write(const struct pfl_audit_context *self, const char *action,
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

    pfl_audit_log_write(self->hub->audit, &entry);
}

void pfl_audit_context_write_forgotten(const struct pfl_audit_context *self,
                                       const struct pfl_host *host)
{
    unsigned long long away_s = (uv_now(self->hub->loop) - host->seen_ms) / 1000;
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "left %llu s ago", away_s);
    pfl_audit_context_write(self, "forget", 204,
                            &(struct pfl_audit_context_more){.detail = detail});
    if (self->who[0] != '\0')
        pfl_log_info("host-forgotten", "host=%s operator=%s away_s=%llu", host->name, self->who,
                     away_s);
    else
        pfl_log_info("host-forgotten", "host=%s reason=age away_s=%llu", host->name, away_s);
}
