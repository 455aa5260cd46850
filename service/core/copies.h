/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copiers: processes that read producers' shared memory for the service, one for each user
 * (service/buffer/copy_area.h, docs/adr/0065). Whatever keeps a copier waiting, only its user's
 * producers wait. Root's producers, and those of the service's user, have none: the service maps
 * their memory.
 *
 * A copier has one area. A job gets it, asks for a copy, uses that, and gives the area back; the
 * user's other jobs wait. A core: processes are started by `ops`.
 */
#ifndef PFL_SERVICE_COPIES_H
#define PFL_SERVICE_COPIES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "service/buffer/copy_area.h"

#define PFL_COPIES_MAX       256u    /* half of them for users from PFL_COPIES_MANY_IDS on */
#define PFL_COPIES_MANY_IDS  100000u /* a container or a directory has many of these ids */
#define PFL_COPIES_IN_FLIGHT 64u     /* ATTACH and DETACH of one; a socket takes some 270 */
#define PFL_COPIES_IDLE      8u      /* above it, those without producers end */
/* A copier that does not answer for so long is ended, if it does not in the time after that,
 * either: the service may have been stopped as long. */
#define PFL_COPIES_LIMIT_MS 10000u
#define PFL_COPIES_LAST_MS  1000u

struct pfl_copies;
struct pfl_copy_job;

/* Of one user. */
struct pfl_copier {
    struct pfl_list node;
    struct pfl_copies *copies;
    uint64_t who;
    void *process;              /* owned */
    struct pfl_copy_area *area; /* the process' */
    size_t memories;            /* attached, or about to be */
    uint32_t in_flight;         /* ATTACH and DETACH that have no answer */
    uint64_t *left;             /* owned: bitmap of maps that are to be detached; NULL: none */
    uint32_t left_len;
    struct pfl_list waiting;    /* pfl_copy_job */
    struct pfl_copy_job *owner; /* of the area; NULL: free, or its job is gone */
    bool is_asked;              /* the area is the copier's */
    uint64_t waited_ms;         /* by passes of sessions, since waits_from_ms */
    uint64_t waits_from_ms;
    bool has_answered; /* ever */
    uint64_t asked_ms;
    bool is_late; /* that limit is over */
    uint64_t late_ms;
};

struct pfl_copies_ops {
    /* Starts a process. NULL: none can be. */
    void *(*open)(void *user, struct pfl_copier *copier, struct pfl_copy_area **ret_area);
    /* Never waits. `fd` is sent with it; -1: none. */
    int (*send)(void *process, const struct pfl_copy_message *message, int fd);
    /* For when the loop has no more turns: waits for an answer, and handles it. */
    void (*wait)(void *process, uint32_t limit_ms);
    void (*close)(void *process); /* ends it */
};

struct pfl_copies_conf {
    const struct pfl_copies_ops *ops; /* NULL: there are no copiers */
    void *ops_user;                   /* borrowed */
    uint64_t (*now_ms)(void *user);
    /* The copier of this user has ended, and with it all that it had attached. */
    void (*on_lost)(void *user, const struct pfl_copier *copier);
    void *user; /* borrowed */
};

struct pfl_copies {
    struct pfl_copies_conf conf;
    struct pfl_list copiers; /* owned */
    size_t len;
    size_t of_many_ids;
};

enum pfl_copy_job_state {
    PFL_COPY_JOB_IDLE,
    PFL_COPY_JOB_WAITS, /* for the area */
    PFL_COPY_JOB_OWNS,  /* the area */
    PFL_COPY_JOB_ASKED,
    PFL_COPY_JOB_DONE, /* the area has the copies */
    PFL_COPY_JOB_LOST, /* the copier has ended, or does not have that memory */
};

/* Zero-initialized. */
struct pfl_copy_job {
    struct pfl_list node; /* while it waits */
    struct pfl_copier *copier;
    enum pfl_copy_job_state state;
    enum pfl_copy_kind kind;     /* what it asked for last */
    uint32_t used;               /* entries of the area, so far */
    struct pfl_copy_entry entry; /* the last of them: the copier may write to the area */
    /* It owns the area, or has its copies, or is lost: not from inside a call. */
    void (*on_change)(struct pfl_copy_job *self);
};

void pfl_copies_init(struct pfl_copies *self, const struct pfl_copies_conf *conf);
void pfl_copies_fini(struct pfl_copies *self);

/* The user's copier, for one memory more; NULL: there can be none. */
struct pfl_copier *pfl_copies_open(struct pfl_copies *self, uint64_t who);
/* For one memory less: it was not attached. */
void pfl_copies_close(struct pfl_copier *copier);
/* Ends those that were asked for too long. */
void pfl_copies_check(struct pfl_copies *self);
uint64_t pfl_copies_get_due_ms(const struct pfl_copies *self); /* UINT64_MAX: never */

/* `map` names the memory. The descriptor stays the caller's. PFL_EAGAIN: many others are in flight:
 * attach it later, at last with `is_needed`, before a job asks for it. PFL_EIO: the copier has
 * ended. */
PFL_MUST_USE int pfl_copier_attach(struct pfl_copier *self, uint32_t map, uint32_t page_bytes,
                                   int fd, bool is_needed);
/* And closes, as pfl_copies_close. */
void pfl_copier_detach(struct pfl_copier *self, uint32_t map);

/* For the ops: an answer came; the process has ended. */
void pfl_copier_on_answer(struct pfl_copier *self, const struct pfl_copy_message *answer);
void pfl_copier_on_end(struct pfl_copier *self);

/* An idle job: it owns the area, or waits for it. */
void pfl_copy_job_begin(struct pfl_copy_job *self, struct pfl_copier *copier);
/* Of one that owns it: its entries are set (COMMIT), or it begins at `page` (SCRAPE). It may be
 * lost afterwards. */
void pfl_copy_job_ask(struct pfl_copy_job *self, enum pfl_copy_kind kind, uint32_t map,
                      uint32_t page);
/* Of one that has its copies: the next entry, checked; NULL after the last. */
const struct pfl_copy_entry *pfl_copy_job_next(struct pfl_copy_job *self);
bool pfl_copy_job_has_more(const struct pfl_copy_job *self);
/* Whatever its state is. */
void pfl_copy_job_end(struct pfl_copy_job *self);
/* Waits for the area or the answer, while the loop has no turns. */
void pfl_copy_job_wait(struct pfl_copy_job *self, uint32_t limit_ms);

#endif
