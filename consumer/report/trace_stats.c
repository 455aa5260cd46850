/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's GetTraceStats: how full its buffers are and what was lost. Happy path: one line per
 * host, one per buffer. Failure: malformed counters are reported in their place.
 */
#include "consumer/report/trace_stats.h"

#include <inttypes.h>

#include "consumer/host/losses.h"
#include "perfetto/consumer_port.pb-c.h"
#include "proto/unpack.h"

typedef Perfetto__Protos__GetTraceStatsResponse response_t;
typedef Perfetto__Protos__TraceStats__BufferStats buffer_t;

static const char malformed[] = "its counters are malformed";

static int unpack(const struct pfl_trace_stats_host *host, response_t **ret_response,
                  struct pfl_losses *ret_losses)
{
    ProtobufCMessage *message;
    int rc = pfl_losses_parse(host->response, ret_losses);

    if (rc == 0)
        rc = pfl_proto_unpack(&perfetto__protos__get_trace_stats_response__descriptor,
                              host->response, &message);
    if (rc == 0)
        *ret_response = (response_t *)message;
    return rc;
}

/* Roughly: what was written and neither overwritten nor read yet. */
static uint64_t held_bytes(const buffer_t *b)
{
    uint64_t gone = b->bytes_overwritten + b->bytes_read;
    uint64_t held = b->bytes_written > gone ? b->bytes_written - gone : 0;

    return held < b->buffer_size ? held : b->buffer_size;
}

static int add_buffer(size_t index, const buffer_t *b, struct pfl_buf *out)
{
    double share = b->buffer_size != 0 ? 100.0 * (double)held_bytes(b) / (double)b->buffer_size : 0;

    return pfl_text_add(out,
                        "  buffer %zu: %" PRIu64 " KiB, %.0f%% full, %" PRIu64
                        " bytes written, %" PRIu64 " overwritten\n",
                        index, b->buffer_size / 1024, share, b->bytes_written,
                        b->bytes_overwritten);
}

int pfl_trace_stats_text(const struct pfl_trace_stats_host *host, struct pfl_buf *out)
{
    struct pfl_losses losses;
    response_t *response;
    int rc;

    if (host->why[0] != '\0')
        return pfl_text_add(out, "host %s: FAILED: %s\n", host->name, host->why);
    rc = unpack(host, &response, &losses);
    if (rc != 0)
        return rc == PFL_EPARSE ? pfl_text_add(out, "host %s: FAILED: %s\n", host->name, malformed)
                                : rc;
    rc = pfl_text_add(out,
                      "host %s: losses %" PRIu64 " (%" PRIu64 " chunks overwritten, %" PRIu64
                      " discarded, %" PRIu64 " packets dropped by producers)\n",
                      host->name, pfl_losses_sum(&losses), losses.chunks_overwritten,
                      losses.chunks_discarded, losses.writer_losses);
    for (size_t i = 0;
         rc == 0 && response->trace_stats != NULL && i < response->trace_stats->n_buffer_stats; i++)
        rc = add_buffer(i, response->trace_stats->buffer_stats[i], out);
    pfl_proto_free(&response->base);
    return rc;
}

static json_t *json_buffer(const buffer_t *b)
{
    json_t *o = json_object();

    pfl_text_json_number(o, "size_bytes", b->buffer_size);
    pfl_text_json_number(o, "held_bytes", held_bytes(b));
    pfl_text_json_number(o, "written_bytes", b->bytes_written);
    pfl_text_json_number(o, "overwritten_bytes", b->bytes_overwritten);
    return o;
}

json_t *pfl_trace_stats_json(const struct pfl_trace_stats_host *host)
{
    struct pfl_losses losses;
    response_t *response;
    json_t *buffers;
    json_t *o;

    if (host->why[0] != '\0')
        return pfl_text_json_outcome(host->name, host->why);
    if (unpack(host, &response, &losses) != 0)
        return pfl_text_json_outcome(host->name, malformed);
    o = pfl_text_json_outcome(host->name, "");
    buffers = json_array();
    pfl_text_json_number(o, "losses", pfl_losses_sum(&losses));
    pfl_text_json_number(o, "chunks_overwritten", losses.chunks_overwritten);
    pfl_text_json_number(o, "chunks_discarded", losses.chunks_discarded);
    pfl_text_json_number(o, "writer_losses", losses.writer_losses);
    for (size_t i = 0; response->trace_stats != NULL && i < response->trace_stats->n_buffer_stats;
         i++)
        json_array_append_new(buffers, json_buffer(response->trace_stats->buffer_stats[i]));
    json_object_set_new(o, "buffers", buffers);
    pfl_proto_free(&response->base);
    return o;
}
