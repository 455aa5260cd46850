/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that has no more threads to give: libuv's call in their place. */
#ifndef PFL_TESTS_SUPPORT_NO_THREAD_H
#define PFL_TESTS_SUPPORT_NO_THREAD_H

#include <stdbool.h>

/* While it is set, uv_thread_create fails. */
extern bool pfl_has_no_thread;

#endif
