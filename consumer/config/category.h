/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a config from words, as Perfetto's perfetto does: categories of kernel events, events, data
 * sources. Pure.
 */
#ifndef PFL_CONSUMER_CATEGORY_H
#define PFL_CONSUMER_CATEGORY_H

#include <stdbool.h>

#include "base/buf.h"

#define PFL_CATEGORY_WHY_MAX   512u
#define PFL_CATEGORY_BUFFER_KB 65536u /* the default */

/* The n-th category's name; NULL past the last. */
const char *pfl_category_get_name(size_t n);
/*
 * Appends the text of a trace config for words: a category (sched), GROUP/EVENT or GROUP/star of
 * the kernel, a data source (track_event, or a name with a dot). buffer_kb 0 is the default.
 * PFL_EINVAL with `ret_why` = the word and the remedy; PFL_ENOMEM, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_category_make_config(const char *const *words, size_t len, uint32_t buffer_kb,
                                          struct pfl_buf *out, char ret_why[PFL_CATEGORY_WHY_MAX]);
/* "512kb", "64mb", "1gb", also "64m"; false: none of these, 0, or more than 4 GiB. */
bool pfl_category_parse_size(const char *text, uint32_t *ret_kb);

#endif
