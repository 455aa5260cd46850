/* SPDX-License-Identifier: Apache-2.0 */
/* A clone that is being made; for the files of its name alone. */
#ifndef PFL_SERVICE_CLONE_INNER_H
#define PFL_SERVICE_CLONE_INNER_H

#include "service/session/clone.h"

struct pfl_clone {
    struct pfl_list node;        /* in the service */
    struct pfl_service *service; /* borrowed */
    uint64_t id;
    uint64_t session_id;
    struct pfl_consumer *consumer;     /* borrowed; NULL once it is gone */
    struct pfl_trace_buffer **buffers; /* owned, and each that is not NULL */
    uint64_t *cloned_ns;               /* owned */
    size_t buffers_len;
    bool is_flushed[2]; /* its buffers that are copied, that are transferred */
    bool is_taken[2];
    int fd; /* owned: where the file of the source is copied to; -1: it writes none */
    bool is_flush_failed;
    bool skips_filter;
    uint64_t started_ns;
    struct pfl_buf trigger; /* owned: its packet, or empty */
    uint32_t who;           /* the consumer's */
    uint64_t held_bytes;    /* counted in the service's buffer_bytes */
};

/* A session of the source's config, with its triggers and no buffers yet. PFL_ENOMEM. */
PFL_MUST_USE int pfl_clone_session_new(struct pfl_service *service,
                                       const struct pfl_session *source,
                                       const struct pfl_clone *clone,
                                       struct pfl_session **ret_session);
/* The clone's buffers are the session's from now on. */
void pfl_clone_session_take_buffers(struct pfl_session *copy, struct pfl_clone *clone);
/* What the source has to tell, and what happened since. */
void pfl_clone_session_copy_story(struct pfl_service *service, struct pfl_session *copy,
                                  const struct pfl_session *source, const struct pfl_clone *clone);

/* Whose buffers are copied next: one of these, or neither. */
struct pfl_clone_next {
    struct pfl_session *session;
    struct pfl_clone *clone;
    uint32_t distance; /* from the user whose turn was last */
};

/* Users take turns; of one user's, in the order they were asked for. */
struct pfl_clone_next pfl_clone_turns_find_next(const struct pfl_service *service);
/* Copies of the session's buffers what this turn has left. True: they are whole. */
bool pfl_clone_turns_copy(struct pfl_service *service, const struct pfl_session *copy);

#endif
