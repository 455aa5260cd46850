/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full-match regular expressions for producer names, in time linear in the name whatever the
 * pattern: no back references, no counted repetition. Extended syntax: . [] () | * + ? ^ $ \w \s.
 */
#ifndef PFL_SERVICE_PATTERN_H
#define PFL_SERVICE_PATTERN_H

#include "base/bytes.h"

#define PFL_PATTERN_MAX_BYTES 256u

bool pfl_pattern_is_valid(struct pfl_span pattern);
/* False for a pattern that is not valid. */
bool pfl_pattern_is_match(struct pfl_span pattern, struct pfl_span text);

#endif
