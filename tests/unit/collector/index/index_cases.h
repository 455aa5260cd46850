/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every engine of an index. */
#ifndef PFL_TESTS_COLLECTOR_INDEX_CASES_H
#define PFL_TESTS_COLLECTOR_INDEX_CASES_H

#include "collector/index/index.h"

/* Runs all cases as cmocka tests. Before each, `make_empty` makes `where` an empty database. */
int index_cases_run(const char *name, const char *where, int (*make_empty)(void));

#endif
