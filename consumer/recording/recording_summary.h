/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a recording that is over, for the summary of `perfleet record` and of a page. */
#ifndef PFL_CONSUMER_RECORDING_SUMMARY_H
#define PFL_CONSUMER_RECORDING_SUMMARY_H

#include "consumer/recording/recording.h"
#include "consumer/report/summary.h"

/* Strings are borrowed from the recording until it is freed. */
void pfl_recording_summarize_host(const struct pfl_recording *self, size_t host,
                                  struct pfl_summary_host *ret_host);
/* All that the recording knows; hosts, names and times are the caller's, and `path` is set before:
 * NULL if no trace was wanted. */
void pfl_recording_summarize(const struct pfl_recording *self, struct pfl_summary *summary);

#endif
