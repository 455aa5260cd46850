/* SPDX-License-Identifier: Apache-2.0 */
/* What threads of ours do with each other by atomics; see chunk_scenarios.c, other_scenarios.c. */
#ifndef PFL_TESTS_WEAK_SCENARIOS_H
#define PFL_TESTS_WEAK_SCENARIOS_H

#include "tests/support/weak_memory.h"

extern const struct pfl_weak_scenario pfl_chunk_scenarios[];
extern const size_t pfl_chunk_scenarios_len;
extern const struct pfl_weak_scenario pfl_other_scenarios[];
extern const size_t pfl_other_scenarios_len;

#endif
