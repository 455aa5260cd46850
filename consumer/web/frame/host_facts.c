/* SPDX-License-Identifier: Apache-2.0 */
/* A row's part of a service's state: see host_facts.h. Failure: malformed bytes, no memory. */
#include "consumer/web/frame/host_facts.h"

#include <stdio.h>

#include "perfetto/service_state.pb-c.h"
#include "proto/unpack.h"

typedef Perfetto__Protos__TracingServiceState state_t;
typedef Perfetto__Protos__TracingServiceState__PerfleetFigures figures_t;

static void take_figures(const figures_t *f, struct pfl_host_facts *facts)
{
    facts->has_figures = true;
    facts->lost = f->lost_by_writers + f->malformed_chunks + f->discarded_chunks +
                  f->chunks_without_buffer + f->failed_patches + f->invalid_packets;
    facts->losses[PFL_HOST_LOSS_WRITER_DROPPED] = f->lost_by_writers;
    facts->losses[PFL_HOST_LOSS_MALFORMED] = f->malformed_chunks;
    facts->losses[PFL_HOST_LOSS_NO_BUFFER] = f->chunks_without_buffer;
    facts->losses[PFL_HOST_LOSS_PATCH_WITHOUT_BUFFER] = f->patches_without_buffer;
    facts->losses[PFL_HOST_LOSS_NOT_COMMITTED] = f->mismatched_entries;
    facts->losses[PFL_HOST_LOSS_INVALID_PACKET] = f->invalid_packets;
    facts->losses[PFL_HOST_LOSS_OVERWRITTEN] = f->overwritten_chunks;
    facts->losses[PFL_HOST_LOSS_DISCARDED] = f->discarded_chunks;
    facts->losses[PFL_HOST_LOSS_PATCH_FAILED] = f->failed_patches;
    facts->ring_bytes = f->ring_bytes + f->discard_bytes;
    facts->ring_used_bytes = f->ring_used_bytes + f->discard_used_bytes;
}

int pfl_host_facts_parse(struct pfl_span state, struct pfl_host_facts *ret_facts)
{
    struct pfl_host_facts facts = {.why = ""};
    ProtobufCMessage *message;
    const state_t *s;
    int rc =
        pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, state, &message);

    if (rc != 0)
        return rc;
    s = (const state_t *)message;
    (void)snprintf(facts.service, sizeof(facts.service), "%s",
                   s->tracing_service_version != NULL ? s->tracing_service_version : "");
    facts.producers = s->n_producers;
    facts.sources = s->n_data_sources;
    facts.sessions = s->num_sessions > 0 ? (uint64_t)s->num_sessions : 0;
    if (s->perfleet_left_out != NULL) {
        facts.producers += s->perfleet_left_out->producers;
        facts.sources += s->perfleet_left_out->data_sources;
    }
    if (s->perfleet_figures != NULL)
        take_figures(s->perfleet_figures, &facts);
    pfl_proto_free(message);
    *ret_facts = facts;
    return 0;
}
