/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of configs: producer names and string filters. Perl's syntax, over the
 * characters of UTF-8, or over bytes if the text is not UTF-8. Compiled once, matched with limits
 * on time and memory.
 */
#ifndef PFL_SERVICE_PATTERN_H
#define PFL_SERVICE_PATTERN_H

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_PATTERN_MAX_BYTES 4096u
#define PFL_PATTERN_MAX_WORK  ((uint64_t)1 << 25) /* of all those that are compiled at once */
#define PFL_PATTERN_WHY_BYTES 128u
#define PFL_PATTERN_TOO_MUCH_WORK                                                                  \
    "all those of the config together are too long, or their classes that ignore case too wide"

struct pfl_pattern;

/* Units of a match's work: a step, and this many bytes of the text, count one each. */
#define PFL_PATTERN_UNIT_BYTES 64u

/* What compiling it may cost: the square of its length and, if it ignores case, the characters of
 * its ranges, which PCRE2 visits one by one. The caller limits the sum. */
uint64_t pfl_pattern_get_work(struct pfl_span pattern);

/* PFL_EPARSE: `ret_why` says what is wrong, and where. PFL_ENOMEM. Uses memory of base/mem, only
 * here and in free. */
PFL_MUST_USE int pfl_pattern_new(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                                 char ret_why[PFL_PATTERN_WHY_BYTES]);
/* The same for a pattern that only pfl_pattern_match_within uses. */
PFL_MUST_USE int pfl_pattern_new_counted(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                                         char ret_why[PFL_PATTERN_WHY_BYTES]);
/* Shares the compiled code with `from`, which may be matching in another thread. Copies are made
 * and freed in one thread. PFL_ENOMEM. */
PFL_MUST_USE int pfl_pattern_copy(const struct pfl_pattern *from, struct pfl_pattern **ret_pattern);
void pfl_pattern_free(struct pfl_pattern *self); /* NULL is legal */
/* Set by any thread: a match ends soon, with PFL_ELIMIT. Borrowed. */
void pfl_pattern_set_cancel(struct pfl_pattern *self, const atomic_bool *is_cancelled);
/* Bytes of its compiled code, which it shares with its copies, and what it has besides. */
size_t pfl_pattern_get_shared_bytes(const struct pfl_pattern *self);
size_t pfl_pattern_get_own_bytes(const struct pfl_pattern *self);
static inline size_t pfl_pattern_get_bytes(const struct pfl_pattern *self)
{
    return pfl_pattern_get_shared_bytes(self) + pfl_pattern_get_own_bytes(self);
}

/* Does the whole text match, or a part of it from `start` on? 0: the groups are set. PFL_ENOENT:
 * no. PFL_ELIMIT: too much time or memory, or the text is not UTF-8 and the pattern has no meaning
 * in bytes. Any thread, one at a time. A search from a place other than 0 continues in the text of
 * the last one, in which only what groups matched may have changed, to ASCII. */
PFL_MUST_USE int pfl_pattern_match(struct pfl_pattern *self, struct pfl_span text);
PFL_MUST_USE int pfl_pattern_search(struct pfl_pattern *self, struct pfl_span text, size_t start);
/* The same with a counting pattern. `*credit` is the budget, and is lowered by the cost. If it does
 * not suffice it becomes 0, with PFL_ELIMIT. */
PFL_MUST_USE int pfl_pattern_match_within(struct pfl_pattern *self, struct pfl_span text,
                                          uint64_t *credit);
/* Groups of the last match: group 0 is the whole. False: the group took no part. */
size_t pfl_pattern_count_groups(const struct pfl_pattern *self);
bool pfl_pattern_get_group(const struct pfl_pattern *self, size_t group, size_t *ret_begin,
                           size_t *ret_end);

#endif
