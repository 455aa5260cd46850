/* SPDX-License-Identifier: Apache-2.0 */
/* What the generator of schedules keeps in mind: generate.c decides, generate_ops.c writes lines.
 */
#ifndef PFL_TESTS_DIFFERENTIAL_GENERATE_MODEL_H
#define PFL_TESTS_DIFFERENTIAL_GENERATE_MODEL_H

#include "tests/differential/schedule.h"

#define GEN_PRODUCERS 3u
#define GEN_WRITERS   4u
#define GEN_SESSIONS  2u
#define GEN_PAGES     16u
#define GEN_CHUNKS    14u
#define GEN_PATCHES   16u

enum gen_state {
    GEN_FREE,
    GEN_WRITING,
    GEN_COMPLETE,
};

struct gen_slot {
    enum gen_state state;
    uint32_t writer; /* index in the producer */
    uint32_t chunk_id;
    uint32_t left; /* bytes of payload */
    uint32_t used;
    bool needs_patch;
    bool may_drop; /* may get a drop marker; has one: */
    bool is_dropped;
    uint64_t age; /* when it was completed */
};

struct gen_patch { /* owed to a chunk that was committed or will be */
    bool is_owed;
    uint32_t writer;
    uint32_t chunk_id;
    uint32_t offset;
};

struct gen_writer {
    uint32_t id;
    uint32_t session, buffer;
    uint32_t next_chunk_id;
    bool is_open; /* its last chunk continues in the next */
};

struct gen_producer {
    bool is_up;
    uint32_t sources;
    uint32_t page_kb, pages;
    uint32_t layouts[GEN_PAGES]; /* 0: not partitioned */
    struct gen_slot slots[GEN_PAGES][GEN_CHUNKS];
    struct gen_writer writers[GEN_WRITERS];
    uint32_t writers_len;
    uint32_t next_writer_id;
    struct gen_patch patches[GEN_PATCHES];
};

/* Per cent, drawn once a schedule, so that schedules differ in kind. */
struct gen_habits {
    uint32_t hostile; /* malformed chunks */
    uint32_t untidy;  /* gaps, duplicates, wrong order */
    uint32_t large;   /* fragments that fill chunks */
    uint32_t fragmented;
    uint32_t patched;
    uint32_t scraped; /* chunks left open for the scraper */
    uint32_t delayed; /* chunks committed later */
    uint32_t layout;  /* 0: any */
};

struct gen {
    uint64_t random;
    uint64_t clock; /* operations so far */
    struct diff_schedule *schedule;
    struct diff_text line;
    struct gen_habits habits;
    uint32_t next_id; /* of fragments */
    bool is_enabled[GEN_SESSIONS];
    bool is_stopped[GEN_SESSIONS];
    uint32_t buffers[GEN_SESSIONS];
    struct gen_producer producers[GEN_PRODUCERS];
};

uint32_t gen_below(struct gen *self, uint32_t bound);
bool gen_chance(struct gen *self, uint32_t per_cent);
/* Ends the line that was begun in self->line. */
void gen_emit(struct gen *self);

/* Each writes what it takes to do its thing once; nothing when it cannot. */
void gen_connect(struct gen *self, uint32_t p);
void gen_bye(struct gen *self, uint32_t p);
void gen_add_writer(struct gen *self, uint32_t p);
void gen_chunk(struct gen *self, uint32_t p);
void gen_more(struct gen *self, uint32_t p);
void gen_scribble(struct gen *self, uint32_t p);
/* Commits some of what is complete; `all`: everything, with a flush's acknowledgement. */
void gen_commit(struct gen *self, uint32_t p, bool all);
void gen_patch(struct gen *self, uint32_t p);

#endif
