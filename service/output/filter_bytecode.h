/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which fields of which message may pass: TraceFilter's bytecode with its overlay, unpacked for
 * look-ups (docs/abi/service.md section 8). Immutable once parsed.
 */
#ifndef PFL_SERVICE_FILTER_BYTECODE_H
#define PFL_SERVICE_FILTER_BYTECODE_H

#include "base/buf.h"

#define PFL_FILTER_MAX_WORDS   (1u << 20) /* of the unpacked table */
#define PFL_FILTER_DIRECT      128u       /* field ids below this are an index into a row */
#define PFL_FILTER_WHY_BYTES   160u
#define PFL_FILTER_MAX_TYPE    65533u
#define PFL_FILTER_MAX_MESSAGE 0x00ffffffu

enum pfl_filter_kind {
    PFL_FILTER_DROP = 0,
    PFL_FILTER_PASS,
    PFL_FILTER_NESTED, /* argument: message index */
    PFL_FILTER_STRING, /* argument: semantic type, 0 without one */
};

/* Kind in the upper byte, argument below. */
typedef uint32_t pfl_filter_action;

static inline enum pfl_filter_kind pfl_filter_kind_of(pfl_filter_action action)
{
    return (enum pfl_filter_kind)(action >> 24);
}

static inline uint32_t pfl_filter_argument_of(pfl_filter_action action)
{
    return action & 0xffffffu;
}

struct pfl_filter_bytecode {
    /* Words: per message [n][n actions, by field id][first id, end id, action]... */
    struct pfl_buf table;
    struct pfl_buf messages; /* u32: where each begins in the table, and where the last one ends */
    uint32_t messages_len;
};

/* `overlay` may be empty. PFL_EPARSE: `ret_why` says which field and what is wrong with it.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_filter_bytecode_parse(struct pfl_span bytecode, struct pfl_span overlay,
                                           struct pfl_filter_bytecode *ret,
                                           char ret_why[PFL_FILTER_WHY_BYTES]);
void pfl_filter_bytecode_fini(struct pfl_filter_bytecode *self); /* legal on zeroed memory */

/* PFL_FILTER_DROP for an unknown message or field. */
pfl_filter_action pfl_filter_bytecode_find(const struct pfl_filter_bytecode *self, uint32_t message,
                                           uint32_t field_id);

#endif
