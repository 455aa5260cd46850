/* SPDX-License-Identifier: Apache-2.0 */
/* The known name that is most like a mistyped one. */
#ifndef PFL_PROTO_TEXT_TEXT_NEAREST_H
#define PFL_PROTO_TEXT_TEXT_NEAREST_H

#include "base/bytes.h"

struct pfl_text_nearest {
    struct pfl_span wanted; /* borrowed from the caller */
    const char *name;       /* the best so far, borrowed from pfl_text_nearest_try; NULL = none */
    unsigned distance;
};

void pfl_text_nearest_init(struct pfl_text_nearest *self, struct pfl_span wanted);
/* Offers a known name; kept when it is near enough and nearer than those before. */
void pfl_text_nearest_try(struct pfl_text_nearest *self, const char *name);

#endif
