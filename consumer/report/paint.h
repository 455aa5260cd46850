/* SPDX-License-Identifier: Apache-2.0 */
/* Terminal colours. consumer/cmd decides whether they are used. */
#ifndef PFL_CONSUMER_PAINT_H
#define PFL_CONSUMER_PAINT_H

#include <stdbool.h>

#include "base/buf.h"

#define PFL_PAINT_BAD  "\033[31m"
#define PFL_PAINT_WARN "\033[33m"
#define PFL_PAINT_END  "\033[0m"

static inline const char *pfl_paint(bool is_color, const char *code)
{
    return is_color ? code : "";
}

/* Colours a report's lines: errors red, losses and warnings yellow. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_paint_lines(struct pfl_span text, struct pfl_buf *out);
/* Lines cut to `width` characters; escape sequences have no width, and stay. PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_paint_cut_lines(struct pfl_span text, unsigned width, struct pfl_buf *out);

#endif
