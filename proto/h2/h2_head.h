/* SPDX-License-Identifier: Apache-2.0 */
/* A head while it is received: bounded in bytes and fields. For h2.c alone; others read it by
 * pfl_h2_head_get. Pure. */
#ifndef PFL_PROTO_H2_H2_HEAD_H
#define PFL_PROTO_H2_H2_HEAD_H

#include "proto/h2/h2.h"

struct pfl_h2_head {
    uint16_t names[PFL_H2_HEAD_FIELDS]; /* offsets in `bytes` of NUL-ended strings */
    uint16_t values[PFL_H2_HEAD_FIELDS];
    unsigned count;
    size_t used;
    size_t came_bytes; /* of all fields so far, including those that did not fit */
    bool is_over;      /* something did not fit */
    char bytes[PFL_H2_HEAD_BYTES];
};

/* Sets is_over when it does not fit. */
void pfl_h2_head_add(struct pfl_h2_head *self, struct pfl_span name, struct pfl_span value);

#endif
