/* SPDX-License-Identifier: Apache-2.0 */
/* The cases about orders, retention and windows, for index_cases.c alone. */
#ifndef PFL_TESTS_COLLECTOR_INDEX_CASES_IMPL_H
#define PFL_TESTS_COLLECTOR_INDEX_CASES_IMPL_H

#include "collector/index/index.h"

/* The index of the case that runs. */
struct pfl_index *index_cases_get(void);
unsigned index_cases_count(const char *table);
void index_cases_script(const char *text);

void an_order_has_a_generation(void **state);
void removed_orders_leave_a_generation_and_no_rows(void **state);
void what_hosts_say_of_orders_is_kept(void **state);
void orders_and_their_hosts_come_in_pages(void **state);
void one_collector_saves_a_schedule_at_a_time(void **state);

/* index_retain_cases.c */
void kinds_are_summed_and_their_oldest_found(void **state);
void what_is_pinned_or_kept_is_not_the_oldest(void **state);
void hosts_and_triggers_above_a_bound_are_listed(void **state);
void runs_come_in_pages_while_others_come_and_go(void **state);
void a_lost_trace_is_a_hole_until_it_is_found(void **state);
void a_host_has_bounds_in_the_index(void **state);
void an_orderer_has_a_share_of_a_hosts_classes(void **state);
void who_has_lost_its_lease_deletes_nothing(void **state);
void descriptions_count_as_bytes(void **state);
void a_gap_over_many_known_numbers_is_refused(void **state);
void the_oldest_deletions_are_forgotten_above_a_number(void **state);
void runs_of_which_nothing_is_left_are_forgotten(void **state);
void a_transaction_forgets_a_bounded_number(void **state);
void leases_that_nobody_holds_are_forgotten(void **state);
void collectors_that_do_not_come_back_are_forgotten(void **state);
void the_clock_is_the_noted_one_or_that_of_the_newest_trace(void **state);

/* index_window_cases.c */
int index_window_cases_run(const char *engine, int (*begin)(void **state),
                           int (*end)(void **state));

#endif
