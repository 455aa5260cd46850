/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guardrails: see guardrails.h. Memory is over the limit if two measurements in a row say so; CPU
 * time, if the average since the oldest remembered measurement says so. Failures: none.
 */
#include "service/control/guardrails.h"

#include "service/buffer/gather.h"
#include "service/buffer/retired_rings.h"

static uint64_t sum_buffers(const struct pfl_list *sessions)
{
    uint64_t sum = 0;
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions) {
        const struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        for (size_t i = 0; i < session->plan->buffers_len; i++) {
            struct pfl_trace_buffer_stats stats;

            if (session->buffers[i].ring == NULL)
                continue;
            pfl_trace_buffer_stats_get(session->buffers[i].ring, &stats);
            sum += stats.buffer_size + pfl_trace_buffer_get_vm_bytes(session->buffers[i].ring);
            if (session->state == PFL_SESSION_CLONED) /* of others it is in writer_bytes */
                sum += pfl_trace_buffer_get_table_bytes(session->buffers[i].ring);
        }
    }
    return sum;
}

uint64_t pfl_guardrails_get_limit(const struct pfl_service *service)
{
    uint64_t sum = PFL_GUARDRAILS_MEMORY_BYTES + sum_buffers(&service->sessions) +
                   sum_buffers(&service->closing);
    struct pfl_list *it;

    sum += service->shares.peer_bytes.used + service->shares.writer_bytes.used +
           service->shares.sequence_id_bytes.used;
    PFL_LIST_EACH (it, &service->producers) {
        sum += PFL_CONTAINER_OF(it, struct pfl_producer, node)->smb.bytes;
    }
    PFL_LIST_EACH (it, &service->leaving) {
        sum += PFL_CONTAINER_OF(it, struct pfl_producer, node)->smb.bytes;
    }
    PFL_LIST_EACH (it, &service->copying) {
        sum += PFL_CONTAINER_OF(it, struct pfl_producer, node)->smb.bytes;
    }
    return sum + pfl_retired_rings_get_bytes() + pfl_long_packets_get_bytes();
}

static bool is_busy(const struct pfl_guardrails *self, const struct pfl_guardrails_look *look)
{
    const struct pfl_guardrails_look *oldest = &self->looks[self->count % PFL_GUARDRAILS_CPU_LOOKS];

    return self->count >= PFL_GUARDRAILS_CPU_LOOKS &&
           (look->cpu_ms - oldest->cpu_ms) * 100 >
               (look->now_ms - oldest->now_ms) * PFL_GUARDRAILS_CPU_PERCENT;
}

enum pfl_guardrails_verdict pfl_guardrails_judge(struct pfl_guardrails *self,
                                                 const struct pfl_guardrails_look *look,
                                                 uint64_t limit_bytes)
{
    bool is_over = look->resident_bytes > limit_bytes;
    bool is_over_again = is_over && self->was_over;
    bool has_no_time = is_busy(self, look);

    self->was_over = is_over;
    self->looks[self->count++ % PFL_GUARDRAILS_CPU_LOOKS] = *look;
    if (is_over_again)
        return PFL_GUARDRAILS_MEMORY;
    return has_no_time ? PFL_GUARDRAILS_CPU : PFL_GUARDRAILS_WELL;
}
