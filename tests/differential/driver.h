/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a schedule against a service and writes down what came of it. */
#ifndef PFL_TESTS_DIFFERENTIAL_DRIVER_H
#define PFL_TESTS_DIFFERENTIAL_DRIVER_H

#include "tests/differential/schedule.h"

struct diff_sockets {
    const char *producer; /* names in the file system; borrowed */
    const char *consumer;
};

/* False when the service misbehaved (closed, silent, not there): it should be started again. */
bool diff_run(const struct diff_schedule *schedule, const struct diff_sockets *sockets,
              struct diff_text *out);

#endif
