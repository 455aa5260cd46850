/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocation sweep: runs `body` again and again, failing its first allocation, then its
 * second, and so on, until a run meets no failure. After every run nothing may be left allocated.
 * `body` returns 0 on success or a negative pfl_err; a run whose allocation failed must return
 * PFL_ENOMEM unless `tolerant` (then success is fine too: the failure was absorbed).
 */
#ifndef PFL_TESTS_SUPPORT_SWEEP_H
#define PFL_TESTS_SUPPORT_SWEEP_H

#include <stdbool.h>

typedef int (*pfl_sweep_body)(void *arg);

void pfl_sweep(pfl_sweep_body body, void *arg, bool tolerant);

/* Asserts that no block of base/mem is live: call it in teardown. */
void pfl_sweep_assert_no_leak(void);

#endif
