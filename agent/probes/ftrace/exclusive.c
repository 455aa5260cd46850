/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exclusive features of a session.
 *
 * Happy path: options, CPU mask, then one thread after the other are written. Failure: the first
 * refused field is returned; the rest is still applied.
 */
#include "agent/probes/ftrace/exclusive.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/probes/tracefs/tracefs.h"

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

/* The option's name is behind a leading "no". */
static int note_option(const struct pfl_ftrace_instance *instance, struct pfl_ftrace_host *host,
                       const char *option)
{
    char path[96];
    char value[8];

    (void)snprintf(path, sizeof(path), "options/%s", option);
    if (strncmp(option, "no", 2) == 0 &&
        pfl_tracefs_read_line(instance->dir_fd, path, value, sizeof(value)) != 0)
        (void)snprintf(path, sizeof(path), "options/%s", option + 2);
    return pfl_ftrace_instance_note(instance, host, path);
}

/* The threads that were traced before; none has a remark instead of a list. */
static int note_tids(const struct pfl_ftrace_instance *instance, struct pfl_ftrace_host *host)
{
    char path[PFL_INSTANCE_PATH_MAX + 32];
    char first[32];
    int rc;

    if (instance->is_made)
        return 0;
    rc = pfl_tracefs_read_line(instance->dir_fd, "set_event_pid", first, sizeof(first));
    if (rc != 0)
        return rc;
    (void)snprintf(path, sizeof(path), "%s/set_event_pid", instance->path);
    return first[0] != '\0' ? PFL_EIO
                            : pfl_undo_add(host->undo, instance, PFL_UNDO_REPLACE, path, "");
}

const char *pfl_exclusive_apply(const struct pfl_ftrace_conf *conf,
                                const struct pfl_ftrace_instance *instance,
                                struct pfl_ftrace_host *host)
{
    const char *refused = NULL;
    int dir_fd = instance->dir_fd;

    for (size_t i = 0; i < conf->option_count; i++) {
        if (note_option(instance, host, conf->options[i]) != 0 ||
            pfl_tracefs_write(dir_fd, "trace_options", conf->options[i]) != 0)
            refused = "tracefs_options";
    }
    if (conf->cpumask != NULL &&
        (pfl_ftrace_instance_note(instance, host, "tracing_cpumask") != 0 ||
         pfl_tracefs_write(dir_fd, "tracing_cpumask", conf->cpumask) != 0))
        refused = "tracing_cpumask";
    if (conf->tid_count != 0 && (note_tids(instance, host) != 0 || !add_tids(conf, dir_fd)))
        refused = "tids_to_trace";
    return refused;
}
