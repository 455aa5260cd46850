/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs: 48 bits of time in milliseconds and 80 random bits, as 26 characters that sort by time. */
#ifndef PFL_BASE_ULID_H
#define PFL_BASE_ULID_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_ULID_BYTES        27u /* with NUL */
#define PFL_ULID_RANDOM_BYTES 10u

void pfl_ulid_write(uint64_t unix_ms, const uint8_t random[PFL_ULID_RANDOM_BYTES],
                    char ret_text[PFL_ULID_BYTES]);
/* With random bits of the kernel. PFL_EIO: it has none; they are zero then. */
int pfl_ulid_make(uint64_t unix_ms, char ret_text[PFL_ULID_BYTES]);
bool pfl_ulid_is_valid(const char *text_untrusted); /* upper case only */
/* Of a valid one: its milliseconds. */
uint64_t pfl_ulid_get_ms(const char *text);

#endif
