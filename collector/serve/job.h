/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of an operator, from the question to its last reply. Pure: it says what to do, and
 * the shell does it.
 *
 *     while ((step = pfl_job_take(job)) != PFL_JOB_WAIT)
 *         PFL_JOB_REPLY: when there is room, pfl_job_reply(job, hosts, out)
 *         PFL_JOB_END:   the last reply is out; free it
 *         another:       pfl_job_work_run (job_work_port.h) on a thread; then pfl_job_on_done(job)
 *
 * A step on a thread reads and writes the fields of `struct pfl_job` that say so; nobody else
 * touches the job meanwhile. A trace is seen only by an operator whose scope gives the right at the
 * host that it came from; for others it does not exist.
 */
#ifndef PFL_COLLECTOR_SERVE_JOB_H
#define PFL_COLLECTOR_SERVE_JOB_H

#include "base/buf.h"
#include "collector/index/index.h"
#include "collector/serve/known_hosts.h"
#include "collector/serve/request.h"
#include "collector/serve/trace_sum.h"
#include "collector/store/store_key.h"

#define PFL_JOB_PAGE_BYTES       (256u << 10) /* rows, or data, of one reply */
#define PFL_JOB_ORDERS_BYTES     (448u << 10) /* the same of orders; of what hosts say of them */
#define PFL_JOB_LINK_BYTES       4096u
#define PFL_JOB_ROW_BYTES        (PFL_INDEX_SEGMENT_BYTES + 2048u) /* at most */
#define PFL_JOB_ORDERS_STEP      32u         /* orders, and hosts of one, of one call */
#define PFL_JOB_RUNS_MAX         512u        /* that are read in one step */
#define PFL_JOB_IDS_MAX          256u        /* ids that are looked up in one step */
#define PFL_JOB_HASH_BYTES       (16u << 20) /* read of an object in one step */
#define PFL_JOB_CHANGES          32u         /* traces that are changed in one step */
#define PFL_JOB_REPLY_BYTES      (1u << 20)  /* at most, with its prefix */
#define PFL_JOB_ORDERS_OF_ONE    64u         /* of one operator, in a collector */
#define PFL_JOB_ORDERS_MAX       1024u       /* of all */
#define PFL_JOB_ORDERS_SUM_BYTES (12u << 20) /* all together */
#define PFL_JOB_LINK_S           3600u       /* a link to a trace is valid so long */

enum pfl_job_step {
    PFL_JOB_WAIT = 0,  /* one is under way */
    PFL_JOB_FIND,      /* index: the next traces of the query, into `page`, or into `sum` */
    PFL_JOB_CHANGE,    /* index: pin, unpin or remove some traces of the page */
    PFL_JOB_LOOK_UP,   /* index: the trace of a get, into `trace` */
    PFL_JOB_RUNS,      /* index: the next runs, into `page` */
    PFL_JOB_ORDERS,    /* index: the next orders, into `page` and `extra` */
    PFL_JOB_SET_ORDER, /* index: put, pause, resume or remove one */
    PFL_JOB_READ,      /* store: the next bytes of `trace`, into `page` */
    PFL_JOB_LINK,      /* store: a link to `trace`, into `extra` */
    PFL_JOB_HASH,      /* store: reads on in `trace` */
    PFL_JOB_REPLY,
    PFL_JOB_END,
};
bool pfl_job_is_of_index(enum pfl_job_step step);
bool pfl_job_is_of_store(enum pfl_job_step step);

/* A trace, as a page has it. */
struct pfl_job_trace {
    char id[PFL_INDEX_ID_BYTES];
    char key[PFL_STORE_KEY_BYTES]; /* "": a gap */
    uint64_t bytes;
    uint8_t sha256[32];
    struct pfl_span stored; /* perfleet.StoredTrace, serialized; in the page */
};

/* A run in the index, or an order. */
struct pfl_job_place {
    char host[PFL_INDEX_NAME_BYTES];
    char incarnation[PFL_INDEX_NAME_BYTES];
    char orderer[PFL_INDEX_NAME_BYTES];
    char order[PFL_INDEX_NAME_BYTES];
};

struct pfl_sha256;

struct pfl_job {
    /* What is asked; constant. */
    uint32_t id;
    struct pfl_checked_request checked;
    Perfleet__CollectorRequest *request; /* owned */
    const struct pfl_scope *scope;       /* borrowed until the job is freed */
    const char *operator_name;           /* likewise */
    uint64_t now_unix_ns;                /* when it began */

    /* Of steps on threads: their result, and what they continue with. */
    int rc;
    char why[PFL_REQUEST_WHY_BYTES];
    uint8_t *page; /* owned */
    size_t page_room;
    size_t page_len;
    size_t page_pos; /* read up to here */
    uint8_t *extra;  /* owned; of ORDERS: what hosts say of them; of LINK: the link */
    size_t extra_room;
    size_t extra_len;
    struct pfl_trace_sum *sum;      /* owned; of a sum */
    struct pfl_index_cursor cursor; /* of FIND; empty: from the first */
    struct pfl_job_place after;     /* of RUNS and ORDERS; empty: from the first */
    size_t next_id;                 /* of FIND by ids */
    uint64_t rows_left;             /* of the query's limit */
    uint64_t look_left;             /* of the query's look_at */
    uint64_t looked_to_unix_ns;     /* 0: all were looked at */
    uint64_t rows;                  /* of this page */
    bool is_cut;                    /* ORDERS: there was no room for the last one */
    bool is_inside;                 /* ORDERS: the order of `after` has hosts behind its host */
    bool is_over;                   /* FIND, RUNS, ORDERS: there are no more */
    bool may_keep;                  /* LOOK_UP: retention leaves it for a while */
    bool is_sound;                  /* of HASH, at the end: the bytes are what they were */
    struct pfl_job_trace trace;     /* the current one */
    uint64_t offset;                /* of READ and HASH */
    uint64_t left;                  /* of READ */
    struct pfl_sha256 *hash;        /* owned by the shell */
    char changed_ids[PFL_JOB_CHANGES][PFL_INDEX_ID_BYTES]; /* of CHANGE: in this step */
    unsigned changed_len;
    uint64_t changed;
    uint64_t pinned; /* not removed, as they are pinned */
    uint64_t seen;   /* rows of the index, of the last call */

    /* The state machine's own. */
    enum pfl_job_step step;
    bool is_running;
    bool has_part;   /* the reply has a link, or `trace` as one that is not sound */
    unsigned status; /* not 0: refused, or failed */
};

struct pfl_job_conf {
    struct pfl_span packed; /* perfleet.CollectorRequest, untrusted */
    const struct pfl_scope *scope;
    const char *operator_name;
    uint64_t now_unix_ns;
};

/* PFL_EPARSE, PFL_ELIMIT: it is no request; PFL_ENOMEM. One that is refused is a job, too. */
PFL_MUST_USE int pfl_job_new(const struct pfl_job_conf *conf, struct pfl_job **ret_job);
void pfl_job_free(struct pfl_job *self); /* NULL is legal; no step may be under way */

/* The next step, which is under way from now. */
enum pfl_job_step pfl_job_take(struct pfl_job *self);
/* The step on a thread has ended: its result is in the job. */
void pfl_job_on_done(struct pfl_job *self);
/* The step could not be begun. */
void pfl_job_fail(struct pfl_job *self, int rc);
/* Appends the frame of the reply. PFL_ELIMIT, PFL_ENOMEM: nothing was appended. */
PFL_MUST_USE int pfl_job_reply(struct pfl_job *self, const struct pfl_known_hosts *hosts,
                               struct pfl_buf *out);
/* Appends an empty part: work continues. */
PFL_MUST_USE int pfl_job_reply_empty(const struct pfl_job *self, struct pfl_buf *out);
/* Appends a refusal of a request of this id, which never became a job. */
PFL_MUST_USE int pfl_job_reply_refusal(uint32_t id, unsigned status, const char *why,
                                       struct pfl_buf *out);

/* ---- for steps on threads; none allocates ---- */

/* Whether the operator may see this trace: for pfl_index_find. `user`: the job. */
bool pfl_job_may_see(void *user, const struct pfl_index_row *row, uint64_t *work);
/* Appends it to the page; false: the page takes no more after this one. */
bool pfl_job_add_trace(void *user, const struct pfl_index_row *row);
/* Adds it to the sum. */
bool pfl_job_sum_trace(void *user, const struct pfl_index_row *row);
/* The next trace of the page, into `trace`. False: there is none. */
bool pfl_job_next_trace(struct pfl_job *self);
/* The trace of a get. */
bool pfl_job_take_trace(void *user, const struct pfl_index_row *row);
bool pfl_job_add_run(void *user, const struct pfl_index_run *run);
bool pfl_job_add_order(void *user, const struct pfl_index_order *order);
/* Whether `after` is this order. */
bool pfl_job_is_at(const struct pfl_job *self, const char *orderer, const char *order);
/* To `extra`, as one of the order that pfl_job_next_order gave last. */
bool pfl_job_add_state(void *user, const struct pfl_index_host_state *state);
struct pfl_job_order {
    char orderer[PFL_INDEX_NAME_BYTES];
    char name[PFL_INDEX_NAME_BYTES];
    uint32_t generation;
    struct pfl_span order; /* perfleet.Order, serialized; in the page */
};
bool pfl_job_next_order(struct pfl_job *self, struct pfl_job_order *ret_order);

#endif
