/* SPDX-License-Identifier: Apache-2.0 */
/* When two outcomes count as the same. */
#ifndef PFL_TESTS_DIFFERENTIAL_COMPARE_H
#define PFL_TESTS_DIFFERENTIAL_COMPARE_H

#include <stdbool.h>

enum diff_verdict {
    DIFF_SAME,
    DIFF_EXCUSED, /* but for packets that only the peer has and nobody can read */
    DIFF_DIFFERENT,
};

/*
 * Line by line the same, but, of a schedule that is not tidy, for the differences that
 * docs/compatibility.md lists. `ours` is perfleetd's, `peers` the stock service's.
 */
enum diff_verdict diff_judge(const char *ours, const char *peers, bool is_tidy);
/* Shows where two outcomes part on stdout. */
void diff_print_parting(const char *name, const char *ours, const char *peers, bool is_tidy);

#endif
