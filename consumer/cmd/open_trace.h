/* SPDX-License-Identifier: Apache-2.0 */
/* Hands trace files to the Perfetto UI in a browser, for perfleet open and --open. */
#ifndef PFL_CONSUMER_OPEN_TRACE_H
#define PFL_CONSUMER_OPEN_TRACE_H

#include "consumer/cmd/args.h"

/* Do the options of --open fit together, and with the output? False: reported on stderr. */
bool pfl_open_trace_is_usable(const struct pfl_args *args);

/* The same of the UI's address, and of our port. */
bool pfl_open_trace_is_address_usable(const struct pfl_args *args);

enum pfl_open_trace_flags {
    PFL_OPEN_TRACE_REMOVE = 1 << 0, /* the names of the files are removed once they are open */
};

/* Serves the files until the UI has them, time is over or a signal comes: the exit code. Errors and
 * what the user is to do are printed. */
int pfl_open_trace(const struct pfl_args *args, const char *const *paths, size_t len,
                   unsigned flags);

#endif
