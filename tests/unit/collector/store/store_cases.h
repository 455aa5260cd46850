/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every engine of a store. */
#ifndef PFL_TESTS_COLLECTOR_STORE_CASES_H
#define PFL_TESTS_COLLECTOR_STORE_CASES_H

#include "collector/store/store.h"

/* Runs all cases as cmocka tests on an empty store, which is borrowed and left empty. A server that
 * sorts by folders, not by bytes as S3 does, is not asked for the order of "-", "." and "/". */
int store_cases_run(const char *name, struct pfl_store *store, bool sorts_by_bytes);

#endif
