/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every engine of an index. */
#ifndef PFL_TESTS_COLLECTOR_INDEX_CASES_H
#define PFL_TESTS_COLLECTOR_INDEX_CASES_H

#include "collector/index/index.h"

struct index_cases_engine {
    const char *name;
    const char *where;
    int (*make_empty)(void);              /* before each case */
    unsigned (*count)(const char *table); /* its rows */
    void (*script)(const char *text);     /* of statements that both engines understand */
};

/* Runs all cases as cmocka tests. */
int index_cases_run(const struct index_cases_engine *engine);

#endif
