/* SPDX-License-Identifier: Apache-2.0 */
/* A clone in progress; for clone*.c alone. */
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
    bool is_flushed[2]; /* over: the flush of the copied buffers, of the transferred ones */
    bool is_taken[2];
    int fd; /* owned: the file for a copy of the source's; -1: it has none */
    bool is_flush_failed;
    bool skips_filter;
    bool is_compressed; /* as the source is */
    uint64_t started_ns;
    struct pfl_buf trigger; /* owned: the trigger's packet, or empty */
    uint32_t who;           /* the consumer's user */
    uint64_t subject;       /* as of struct pfl_consumer */
    uint64_t held_bytes;    /* counted in the service's buffer_bytes */
};

/* Makes a session of the source's config, with its triggers and without buffers. PFL_ENOMEM,
 * PFL_EPERM: its user's share of memory for configs is used up. */
PFL_MUST_USE int pfl_clone_session_new(struct pfl_service *service,
                                       const struct pfl_session *source,
                                       const struct pfl_clone *clone,
                                       struct pfl_session **ret_session);
/* Moves the clone's buffers to the session. */
void pfl_clone_session_take_buffers(struct pfl_session *copy, struct pfl_clone *clone);
/* Copies the source's events and counters, and records what happened since. */
void pfl_clone_session_copy_history(struct pfl_service *service, struct pfl_session *copy,
                                    const struct pfl_session *source,
                                    const struct pfl_clone *clone);

/* The object whose buffers are copied next: one of these, or neither. */
struct pfl_clone_next {
    struct pfl_session *session;
    struct pfl_clone *clone;
    uint32_t distance; /* from the user of the last turn */
};

/* Users take turns; those of one user are served in the order of their requests. */
struct pfl_clone_next pfl_clone_turns_find_next(const struct pfl_service *service);
/* Copies buffers of the session with what is left of this turn. True: they are whole. */
bool pfl_clone_turns_copy(struct pfl_service *service, const struct pfl_session *copy);

#endif
