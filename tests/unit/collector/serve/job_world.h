/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of jobs: a real store and a real index in a folder, requests of ann that run from their
 * first step to their last, and what was answered. ann may do everything with what hosts with
 * role=web made, and nothing else.
 */
#ifndef PFL_TESTS_COLLECTOR_JOB_WORLD_H
#define PFL_TESTS_COLLECTOR_JOB_WORLD_H

#include "collector/serve/job_work_port.h"

#define WORLD_REPLIES 64u
#define WORLD_CHANGED 128u
#define WORLD_S       UINT64_C(1000000000)
#define WORLD_T0      (UINT64_C(1795432296) * WORLD_S)
#define WORLD_NOW     (WORLD_T0 + 3600 * WORLD_S)

struct world_made {
    struct pfl_index_place place;
    uint8_t bytes[700000];
    size_t len;
};

struct world {
    struct pfl_job_work_engines engines;
    struct pfl_store_put *put;
    struct pfl_known_hosts *hosts;
    struct pfl_scope *scope;
    struct world_made made;      /* the trace that was stored last */
    enum pfl_job_step fail_at;   /* these steps fail; WAIT: none */
    void (*on_step)(unsigned n); /* before the n-th step of a kind on a thread. NULL: nothing */
    /* Of the last request. */
    Perfleet__CollectorReply *replies[WORLD_REPLIES];
    size_t replies_len;
    unsigned steps[PFL_JOB_END + 1];
    char changed[WORLD_CHANGED][PFL_INDEX_ID_BYTES]; /* the traces that its steps named */
    unsigned changed_len;
};
extern struct world world;

int world_begin(void **state);
int world_end(void **state);
int world_open_scope(const char *rules); /* the old one is freed by the caller */
char *world_text(const char *string);

/* ---- requests ---- */

/* Each reply has the id, only the last one is the last, and a failure is the last. */
void world_ask(Perfleet__CollectorRequest *request);
int world_run_request(Perfleet__CollectorRequest *request);
int world_run_packed(struct pfl_span packed);
int world_read_replies(const struct pfl_buf *out);
void world_drop_replies(void);
const Perfleet__CollectorReply *world_last(void);
unsigned world_status(void);
size_t world_count_traces(void);

/* ---- what there is ---- */

/* Of one second, of the order cpu of ann; it begins at WORLD_T0 + number s. */
struct world_trace {
    const char *host;
    const char *label;
    uint32_t number;
    size_t len;
    uint32_t gap_last; /* not 0: a gap */
    const char *source;
};
const char *world_store(const struct world_trace *what); /* its id */
const char *world_store_web(uint32_t number, size_t len);
const char *world_store_db(uint32_t number);
void world_know(const char *name, const char *label, bool is_connected);

#endif
