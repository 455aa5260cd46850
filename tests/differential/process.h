/* SPDX-License-Identifier: Apache-2.0 */
/* A tracing service in a process and a directory of its own. */
#ifndef PFL_TESTS_DIFFERENTIAL_PROCESS_H
#define PFL_TESTS_DIFFERENTIAL_PROCESS_H

#include <sys/types.h>

#include "tests/differential/driver.h"

struct diff_process {
    const char *program; /* borrowed; found as execvp finds it */
    pid_t pid;           /* 0: not running */
    char dir[32];
    char producer[64], consumer[64]; /* socket names */
    struct diff_sockets sockets;
};

/* Starts it and waits until it listens; a program that does not ends difftest. */
void diff_process_start(struct diff_process *self, const char *program);
/* Asks it to end and waits; legal when it does not run. False: it did not end as asked. */
bool diff_process_stop(struct diff_process *self);
/* How it ended if it did by itself ("exit 1", "signal 6"); NULL while it runs. */
const char *diff_process_end(struct diff_process *self);

#endif
