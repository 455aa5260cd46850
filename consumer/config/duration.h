/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as operators write them. Pure. */
#ifndef PFL_CONSUMER_DURATION_H
#define PFL_CONSUMER_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/* "90", "1500ms", "10s", "5m", "2h", "3d" in milliseconds (a bare number is seconds); false:
 * malformed, 0, or more than a week. */
bool pfl_duration_parse(const char *text, uint32_t *ret_ms);

/* The same for an age, up to this many days. */
#define PFL_DURATION_AGE_DAYS 3650u
bool pfl_duration_parse_age(const char *text, uint64_t *ret_ms);

#endif
