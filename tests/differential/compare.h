/* SPDX-License-Identifier: Apache-2.0 */
/* When two outcomes count as the same. */
#ifndef PFL_TESTS_DIFFERENTIAL_COMPARE_H
#define PFL_TESTS_DIFFERENTIAL_COMPARE_H

#include "tests/differential/schedule.h"

enum diff_verdict {
    DIFF_SAME,
    DIFF_EXCUSED, /* but for packets that the peer loses by a known fault of its own */
    DIFF_DIFFERENT,
};

/*
 * Line by line the same, but, of a schedule that is not tidy, for the differences that
 * docs/compatibility.md lists. `ours` is perfleetd's, `peers` the stock service's, of `schedule`.
 */
enum diff_verdict diff_judge(const char *ours, const char *peers,
                             const struct diff_schedule *schedule);
/* Shows where two outcomes part on stdout. */
void diff_print_parting(const char *name, const char *ours, const char *peers,
                        const struct diff_schedule *schedule);

#endif
