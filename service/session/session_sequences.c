/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer is gone when its producer has disconnected (and is scraped completely) and no buffer of
 * the session knows it. Without memory for the list of producers nothing is forgotten now.
 */
#include "service/session/session_sequences.h"

#include "base/mem.h"

struct kept {
    struct pfl_sequence_ids *ids;
    size_t count;
};

static void keep(void *user, const struct pfl_trace_buffer_source *source)
{
    struct kept *kept = user;

    kept->count++;
    pfl_sequence_ids_keep(kept->ids, source);
}

static void note_producers(const struct pfl_list *producers, uint32_t *serials)
{
    const struct pfl_list *it;

    PFL_LIST_EACH (it, producers) {
        const struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);

        serials[producer->id] = (uint32_t)producer->serial;
    }
}

static void forget_gone(const struct pfl_service *service, struct pfl_session *session)
{
    uint32_t *serials = pfl_mem_calloc(PFL_SERVICE_PRODUCER_IDS, sizeof(*serials));
    struct kept kept = {.ids = &session->sequences};

    for (size_t i = 0; i < session->plan->buffers_len; i++)
        pfl_trace_buffer_each_source(session->buffers[i].ring, keep, &kept);
    if (serials != NULL) {
        note_producers(&service->producers, serials);
        note_producers(&service->leaving, serials);
    }
    pfl_sequence_ids_forget(&session->sequences, serials, kept.count);
    pfl_mem_free(serials);
}

int pfl_session_sequences_get(const struct pfl_service *service, struct pfl_session *session,
                              const struct pfl_trace_buffer_source *source, uint32_t *ret_id)
{
    if (pfl_sequence_ids_is_due(&session->sequences))
        forget_gone(service, session);
    return pfl_sequence_ids_get(&session->sequences, source, ret_id);
}
