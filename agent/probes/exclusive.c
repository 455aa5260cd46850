/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exclusive features of a session.
 *
 * Happy path: options, CPU mask, then one thread after the other are written.
 * Failure: what the kernel refuses is named; the rest is still applied.
 */
#include "agent/probes/exclusive.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/probes/tracefs.h"

/* Each write adds a thread, as long as the file was opened without truncation. */
static bool add_tids(const struct pfl_ftrace_conf *conf, int instance_fd)
{
    int fd = openat(instance_fd, "set_event_pid", O_WRONLY | O_APPEND | O_CLOEXEC);
    bool is_good = fd >= 0;

    for (size_t i = 0; i < conf->tid_count && is_good; i++) {
        char text[16];
        int len = snprintf(text, sizeof(text), "%d ", (int)conf->tids[i]);

        is_good = write(fd, text, (size_t)len) == len;
    }
    if (fd >= 0)
        close(fd);
    return is_good;
}

const char *pfl_exclusive_apply(const struct pfl_ftrace_conf *conf, int instance_fd)
{
    const char *refused = NULL;

    for (size_t i = 0; i < conf->option_count; i++) {
        if (pfl_tracefs_write(instance_fd, "trace_options", conf->options[i]) != 0)
            refused = "tracefs_options";
    }
    if (conf->cpumask != NULL &&
        pfl_tracefs_write(instance_fd, "tracing_cpumask", conf->cpumask) != 0)
        refused = "tracing_cpumask";
    if (conf->tid_count != 0 && !add_tids(conf, instance_fd))
        refused = "tids_to_trace";
    return refused;
}
