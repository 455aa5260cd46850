/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the log about streams, hosts and agents: see hub_log_port.h. Cannot fail. Limits:
 * PFL_LOG_LIMIT_LINES of each kind that strangers can cause at will.
 */
#include "relay/hub/hub_log_port.h"

#include "relay/hub/audit_context.h"
#include "relay/hub/stream_splice.h"

static void log_stream_ended(struct pfl_hub_log *self, const struct pfl_hub_report *r,
                             uint64_t now_ms)
{
    const struct pfl_stream_splice_stats *stats = r->stats;

    if (stats->status != 200 && !pfl_log_limit_take(&self->refused, "stream-ended", now_ms))
        return;
    pfl_log_info("stream-ended",
                 "operator=%s host=%s stream=%s status=%u bytes_to_host=%llu "
                 "bytes_to_operator=%llu operator_side=%u host_side=%u",
                 r->context->who, r->context->host, r->context->stream, stats->status,
                 (unsigned long long)stats->bytes_to_host,
                 (unsigned long long)stats->bytes_to_operator, stats->operator_code,
                 stats->host_code);
}

static void log_stream_detached(struct pfl_hub_log *self, const struct pfl_hub_report *r,
                                uint64_t now_ms)
{
    if (pfl_log_limit_take(&self->detached, "stream-detached", now_ms))
        pfl_log_warn("stream-detached",
                     "operator=%s host=%s stream=%s held_bytes=%llu reason=\"the operator has not "
                     "read the data that waits here\" remedy=\"see --max-unread-mib\"",
                     r->context->who, r->context->host, r->context->stream,
                     (unsigned long long)r->number);
}

static void log_host_forgotten(const struct pfl_hub_report *r)
{
    unsigned long long away_s = r->number;

    if (r->context->who[0] != '\0')
        pfl_log_info("host-forgotten", "host=%s operator=%s away_s=%llu", r->context->host,
                     r->context->who, away_s);
    else
        pfl_log_info("host-forgotten", "host=%s reason=age away_s=%llu", r->context->host, away_s);
}

static void log_of_agent(const struct pfl_hub_report *r)
{
    const struct pfl_audit_context *c = r->context;

    switch (r->event) {
    case PFL_HUB_TRIGGER_NOT_PASSED:
        pfl_log_warn("trigger-not-passed", "host=%s operator=%s %s", c->host, c->who, r->detail);
        return;
    case PFL_HUB_EVENTS_ENDED:
        pfl_log_warn("events-ended", "host=%s code=%llu", c->host, (unsigned long long)r->number);
        return;
    case PFL_HUB_EVENTS_UNHEARD:
        pfl_log_warn("events-not-received", "was=events-unheard host=%s reason=\"%s\"", c->host,
                     r->detail);
        return;
    case PFL_HUB_HELLO_NOT_ASKED:
        pfl_log_warn("hello-unusable", "address=%s host=%s reason=\"it could not be asked\"",
                     c->address, c->host);
        return;
    case PFL_HUB_HELLO_UNUSABLE:
        pfl_log_warn("hello-unusable", "address=%s host=%s status=%llu", c->address, c->host,
                     (unsigned long long)r->number);
        return;
    default:
        pfl_log_debug("clock-unusable", "address=%s host=%s", c->address, c->host);
        return;
    }
}

void pfl_hub_log_write(struct pfl_hub_log *self, const struct pfl_hub_report *report,
                       uint64_t now_ms)
{
    if (report->event == PFL_HUB_STREAM_ENDED)
        log_stream_ended(self, report, now_ms);
    else if (report->event == PFL_HUB_STREAM_DETACHED)
        log_stream_detached(self, report, now_ms);
    else if (report->event == PFL_HUB_HOST_FORGOTTEN)
        log_host_forgotten(report);
    else
        log_of_agent(report);
}

void pfl_hub_log_flush(struct pfl_hub_log *self)
{
    pfl_log_limit_flush(&self->refused, "stream-ended");
    pfl_log_limit_flush(&self->detached, "stream-detached");
}
