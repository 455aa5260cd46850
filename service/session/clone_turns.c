/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the buffers to copy in a turn of the loop: those of the next user, in the order of user
 * ids. Copied are buffers of sessions that are not whole, and of clones that wait for the flush of
 * other buffers. Nothing can fail; owns nothing.
 */
#include "service/session/clone_inner.h"

/* The clone is being made, and what it has of buffers is not whole. */
static bool is_early(const struct pfl_clone *clone)
{
    for (size_t i = 0; i < clone->buffers_len; i++) {
        if (clone->buffers[i] != NULL && !pfl_trace_buffer_is_whole(clone->buffers[i]))
            return true;
    }
    return false;
}

static bool is_nearer(const struct pfl_service *service, const struct pfl_clone_next *next,
                      uint32_t who, uint32_t *ret_distance)
{
    uint32_t distance = who - service->last_copied_who - 1;

    if ((next->session != NULL || next->clone != NULL) && distance >= next->distance)
        return false;
    *ret_distance = distance;
    return true;
}

struct pfl_clone_next pfl_clone_turns_find_next(const struct pfl_service *service)
{
    struct pfl_clone_next next = {0};
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->is_copied && is_nearer(service, &next, session->who, &next.distance))
            next.session = session;
    }
    PFL_LIST_EACH (it, &service->clones) {
        struct pfl_clone *clone = PFL_CONTAINER_OF(it, struct pfl_clone, node);

        if (is_early(clone) && is_nearer(service, &next, clone->who, &next.distance)) {
            next.session = NULL;
            next.clone = clone;
        }
    }
    return next;
}

bool pfl_clone_turns_copy(struct pfl_service *service, const struct pfl_session *copy)
{
    bool is_whole = true;

    for (size_t i = 0; i < copy->plan->buffers_len; i++) {
        pfl_trace_buffer_copy_more(copy->buffers[i].ring, &service->copy_bytes_left);
        is_whole = is_whole && pfl_trace_buffer_is_whole(copy->buffers[i].ring);
    }
    return is_whole;
}
