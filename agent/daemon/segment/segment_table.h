/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments that wait on this host for a collector, and the gaps: in the order of (incarnation,
 * number), with the sums of each order. It decides what is removed when a quota is passed. Pure.
 */
#ifndef PFL_AGENT_SEGMENT_TABLE_H
#define PFL_AGENT_SEGMENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/tunnel/identity.h"

#define PFL_SEGMENT_ID_BYTES   27u    /* a ULID as text, with its NUL */
#define PFL_SEGMENT_HASH_BYTES 32u    /* of SHA-256 */
#define PFL_SEGMENTS_MAX       65536u /* segments and gaps */
#define PFL_SEGMENT_RUNS_MAX   4096u  /* of which something is on the disk */
/* Copies of rings, each a run: further ones are not made. */
#define PFL_SEGMENT_COPIES_MAX      3072u
#define PFL_SEGMENT_COPIES_OF_ORDER 1024u
#define PFL_SEGMENT_NUMBER_MAX      999999999u

struct pfl_segment_quota {
    uint64_t max_bytes; /* 0: none */
    uint64_t max_age_ms;
};

/* A session of one order. */
struct pfl_segment_run {
    char id[PFL_SEGMENT_ID_BYTES]; /* the incarnation */
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char order[PFL_IDENTITY_NAME_BYTES];
    char collector[PFL_IDENTITY_NAME_BYTES];
    struct pfl_segment_quota quota; /* of the order */
    uint64_t bytes;                 /* of its segments */
    uint32_t count;                 /* segments and gaps */
    uint32_t last;                  /* the highest number that is, or was, in the table */
};

/* What the numbers from..last of a run are. */
struct pfl_segment_entry {
    char id[PFL_SEGMENT_ID_BYTES];
    bool is_gap;
    bool is_leaving; /* the disk is at work on its removal */
    uint8_t why;     /* of a gap: SEGMENT_GAP__... of perfleet/segment.proto */
    uint32_t number;
    uint32_t last; /* of a segment: its number */
    uint64_t bytes;
    uint64_t begin_boot_ns;
    uint64_t end_boot_ns;
    uint64_t begin_unix_ns;
    uint64_t end_unix_ns;
    uint8_t sha256[PFL_SEGMENT_HASH_BYTES];
};

struct pfl_segment_table {
    struct pfl_segment_entry *entries; /* owned; sorted */
    size_t len;
    size_t room;
    struct pfl_segment_run *runs; /* owned; sorted by id */
    size_t runs_len;
    size_t runs_room;
    size_t max; /* of entries: PFL_SEGMENTS_MAX, or fewer */
    size_t runs_max;
    struct pfl_segment_quota quota; /* of all */
    uint64_t bytes;
    size_t gaps;
};

struct pfl_segment_sums {
    uint32_t segments; /* gaps not */
    uint64_t bytes;
    uint64_t oldest_unix_ns; /* its end; 0: none */
};

/* 26 characters of Crockford's base 32, upper case. */
bool pfl_segment_is_id(const char *text_untrusted);

void pfl_segment_table_init(struct pfl_segment_table *self, const struct pfl_segment_quota *quota);
void pfl_segment_table_fini(struct pfl_segment_table *self);

/* ---- runs; pointers are valid until the next run is added or removed ---- */

/* PFL_EEXIST, PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_table_add_run(struct pfl_segment_table *self,
                                           const struct pfl_segment_run *run);
struct pfl_segment_run *pfl_segment_table_find_run(const struct pfl_segment_table *self,
                                                   const char *id);
/* It has no entries. */
void pfl_segment_table_remove_run(struct pfl_segment_table *self, const char *id);

/* ---- entries; pointers are valid until the next one is added or removed ---- */

/* Its run is there. PFL_EEXIST: some of its numbers are known; PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_table_add(struct pfl_segment_table *self,
                                       const struct pfl_segment_entry *entry);
/* The one that begins with this number. NULL: none. */
struct pfl_segment_entry *pfl_segment_table_find(const struct pfl_segment_table *self,
                                                 const char *id, uint32_t number);
void pfl_segment_table_remove(struct pfl_segment_table *self, const char *id, uint32_t number);
/* The position of the first entry behind (id, number). */
size_t pfl_segment_table_seek(const struct pfl_segment_table *self, const char *id,
                              uint32_t number);

/* The next segment that a quota removes, and why (SEGMENT_GAP__...). NULL: none. First those that
 * are too old; then the oldest of an order that has too much; then the oldest of the order that
 * has most bytes. `for_room`: one more must fit into the table; the oldest of the order that has
 * most segments and gaps makes room. */
struct pfl_segment_entry *pfl_segment_table_choose(const struct pfl_segment_table *self,
                                                   uint64_t unix_ns, bool for_room,
                                                   uint8_t *ret_why);
/* The gap that this entry becomes, merged with gaps beside it that belong to the same run. */
void pfl_segment_table_plan_gap(const struct pfl_segment_table *self,
                                const struct pfl_segment_entry *entry, uint8_t why,
                                struct pfl_segment_entry *ret_gap);
/* The gap takes the place of all entries that it covers. */
PFL_MUST_USE int pfl_segment_table_put_gap(struct pfl_segment_table *self,
                                           const struct pfl_segment_entry *gap);

/* NULL: any. */
void pfl_segment_table_sum(const struct pfl_segment_table *self, const char *orderer,
                           const char *order, struct pfl_segment_sums *ret_sums);

#endif
