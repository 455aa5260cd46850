/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of bytes that is known at each offset: what is lost, doubled or out of order shows. */
#ifndef PFL_TESTS_SUPPORT_PATTERN_H
#define PFL_TESTS_SUPPORT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most so many at a time. */
#define PFL_PATTERN_PIECE_BYTES (768u * 1024)

/* The bytes from `at` on; not from two threads for the first time. */
const uint8_t *pfl_pattern_get(uint64_t at);

bool pfl_pattern_is(uint64_t at, const uint8_t *data, size_t len);

#endif
