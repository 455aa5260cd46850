/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All results of many inputs, compared with those that were recorded: a hash of their lines. Inputs
 * are picked at random, but the same on every machine. A claim says what should be; this says that
 * nothing else changes with it, and notices each line that no claim looks at.
 *
 *     pfl_record_begin();
 *     ... pfl_pick(7) ... pfl_record("%d %s", rc, text); ...
 *     pfl_assert_recorded(0x1234);
 *
 * When it fails, PFL_RECORDED=FOLDER writes the lines to FOLDER/SOURCE-LINE: compare those of the
 * tree before the change. If the difference is intended, the new number replaces the old one. Lines
 * must be the same on every machine and with every compiler: no addresses, clocks, process ids, and
 * no two picks in one expression.
 */
#ifndef PFL_TESTS_SUPPORT_RECORDED_H
#define PFL_TESTS_SUPPORT_RECORDED_H

#include "base/bytes.h"

void pfl_record_begin(void);
uint64_t pfl_pick(uint64_t below); /* from 0; of the numbers that begin with pfl_record_begin */
/* A line. Before pfl_record_begin and after pfl_assert_recorded: nothing. */
void pfl_record(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pfl_record_bytes(const char *what, struct pfl_span bytes);
/* Nothing until false: an allocation sweep has as many runs as the libraries allocate blocks. */
void pfl_record_hold(bool is_held);
void pfl_assert_recorded_at(uint64_t hash, const char *file, int line);
#define pfl_assert_recorded(hash) pfl_assert_recorded_at((hash), __FILE__, __LINE__)

#endif
