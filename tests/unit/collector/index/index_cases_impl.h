/* SPDX-License-Identifier: Apache-2.0 */
/* The cases about orders, for index_cases.c alone. */
#ifndef PFL_TESTS_COLLECTOR_INDEX_CASES_IMPL_H
#define PFL_TESTS_COLLECTOR_INDEX_CASES_IMPL_H

#include "collector/index/index.h"

/* The index of the case that runs. */
struct pfl_index *index_cases_get(void);

void an_order_has_a_generation(void **state);
void what_hosts_say_of_orders_is_kept(void **state);
void one_collector_saves_a_schedule_at_a_time(void **state);

#endif
