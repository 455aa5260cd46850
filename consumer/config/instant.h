/* SPDX-License-Identifier: Apache-2.0 */
/* Moments as operators write them. Local time, as the C library has it. */
#ifndef PFL_CONSUMER_INSTANT_H
#define PFL_CONSUMER_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

/* "14:03", "14:03:05" (of today), "2026-11-23", "2026-11-23 14:03[:05]", the same with T, all of
 * them with Z for UTC; or a time before now: "90s", "2h", "7d". In UNIX time; `now_s` is that of
 * now. False: none of them. */
bool pfl_instant_parse(const char *text, int64_t now_s, uint64_t *ret_unix_ns);

#endif
