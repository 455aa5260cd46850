/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a schedule small that still shows what it showed. */
#ifndef PFL_TESTS_DIFFERENTIAL_SHRINK_H
#define PFL_TESTS_DIFFERENTIAL_SHRINK_H

#include "tests/differential/schedule.h"

/* Whether the schedule still shows it. */
typedef bool (*diff_shows)(void *user, const struct diff_schedule *schedule);

/* Replaces `self` by a smaller one of which no line, and no word of a long line, can be left out.
 */
void diff_shrink(struct diff_schedule *self, diff_shows shows, void *user);

#endif
