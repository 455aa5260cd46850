/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's table of strings that events name by number. Any thread; a string that is known is
 * found without a lock. Static storage, no allocation.
 */
#ifndef PFL_PRODUCER_INTERN_H
#define PFL_PRODUCER_INTERN_H

#include <stdint.h>

#define PFL_INTERN_MAX        2048u  /* numbers are 1 to this - 1 */
#define PFL_INTERN_BYTES      65536u /* of all strings together */
#define PFL_INTERN_STRING_MAX 255u

/* The string's number; 0: it has none, for want of room or because another string stood at this
 * address before. */
uint32_t pfl_intern_get(const char *str);
/* A number for something else than a string; 0: none is left. Not from the same space. */
uint32_t pfl_intern_take_number(void);

#endif
