/* SPDX-License-Identifier: Apache-2.0 */
/* Does an emulator stand between this program and the kernel? What it does not do as the kernel
 * does cannot be tested: such a test is skipped, and says why. */
#ifndef PFL_TESTS_EMULATOR_H
#define PFL_TESTS_EMULATOR_H

#include <stdbool.h>
#include <stdlib.h>

/* tests/support/arm64.sh says so. */
static inline bool pfl_is_emulated(void)
{
    return getenv("PFL_EMULATOR") != NULL;
}

#endif
