/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records into a ring buffer that this program does not own.
 *
 * Happy path: open finds the folder, notes each change in the undo log, stops the buffer, empties
 * it and sets the clock; with preserve_ftrace_buffer it changes none of these and reads the clock.
 * Failure: a tracer other than nop belongs to another user: refused, as by traced_probes. A missing
 * instance is made, and removed at the end.
 */
#include "agent/probes/ftrace/borrow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/probes/ftrace/top_buffer.h"
#include "base/log.h"
#include "perfetto/ftrace_events.fields.h"

#define LINE_MAX_HERE 512u
#define FILE_MARKERS  "options/markers"

/* What programs of this name keep for themselves. */
#define OWN_PREFIX "perfleet-"

int pfl_borrow_find_path(const char *name, char ret_path[PFL_INSTANCE_PATH_MAX])
{
    if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 ||
        strncmp(name, "..", 2) == 0 || strncmp(name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0 ||
        strlen(name) >= PFL_FTRACE_NAME_MAX)
        return PFL_EINVAL;
    /* The protected hypervisor's events look like an instance and are none. */
    if (strcmp(name, "hyp") == 0 || strcmp(name, "hypervisor") == 0)
        (void)snprintf(ret_path, PFL_INSTANCE_PATH_MAX, "%s", name);
    else
        (void)snprintf(ret_path, PFL_INSTANCE_PATH_MAX, "instances/%s", name);
    return 0;
}

/* A file's content is not always valid as its input. */
static void clean_value(const char *path, char *value)
{
    char *open = strchr(value, '[');
    char *close = open != NULL ? strchr(open, ']') : NULL;
    const char *expanded = strstr(value, "(expanded: ");

    if (strcmp(path, "trace_clock") == 0 && close != NULL) {
        *close = '\0';
        memmove(value, open + 1, strlen(open + 1) + 1);
    } else if (strcmp(path, "buffer_size_kb") == 0 && expanded != NULL) {
        /* Unused so far; the next user would have got these values. */
        expanded += strlen("(expanded: ");
        memmove(value, expanded, strlen(expanded) + 1);
        value[strspn(value, "0123456789")] = '\0';
    } else if (strstr(path, "/filter") != NULL && strcmp(value, "none") == 0) {
        (void)snprintf(value, LINE_MAX_HERE, "0");
    }
}

int pfl_ftrace_instance_note(const struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                             const char *path)
{
    char whole[PFL_INSTANCE_PATH_MAX + 3 * PFL_TRACE_NAME_MAX];
    char value[LINE_MAX_HERE];

    if (self->is_made)
        return 0;
    if (pfl_tracefs_read_line(self->dir_fd, path, value, sizeof(value)) != 0)
        return PFL_EIO;
    clean_value(path, value);
    (void)snprintf(whole, sizeof(whole), "%s/%s", self->path, path);
    return pfl_undo_add(host->undo, self, PFL_UNDO_WRITE, whole, value);
}

static void tell(struct pfl_probe_message *errors, const char *path, const char *what,
                 const char *why)
{
    char text[PFL_INSTANCE_PATH_MAX + 128];

    (void)snprintf(text, sizeof(text), "%s: %s: %s",
                   strcmp(path, PFL_INSTANCE_TOP) == 0 ? "the top-level buffer" : path, what, why);
    pfl_log_warn("tracefs-not-borrowed", "path=\"%s\" reason=\"%s: %s\"", path, what, why);
    pfl_probe_message_text(errors, FTRACE_STATS__ATRACE_ERRORS, text);
}

static int open_folder(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    int root_fd = host->fs->root_fd;
    int rc;

    self->dir_fd = openat(root_fd, self->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->dir_fd >= 0 || errno != ENOENT || strncmp(self->path, "instances/", 10) != 0)
        return self->dir_fd >= 0 ? 0 : PFL_EIO;
    if (mkdirat(root_fd, self->path, 0700) != 0)
        return PFL_EIO;
    self->is_made = true;
    rc = pfl_undo_add(host->undo, self, PFL_UNDO_RMDIR, self->path, "");
    self->dir_fd = openat(root_fd, self->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return rc != 0 ? rc : self->dir_fd >= 0 ? 0 : PFL_EIO;
}

static uint32_t name_clock(const char *clock)
{
    if (strcmp(clock, "boot") == 0)
        return 0;
    if (strcmp(clock, "global") == 0)
        return FTRACE_CLOCK_GLOBAL;
    if (strcmp(clock, "local") == 0)
        return FTRACE_CLOCK_LOCAL;
    return strcmp(clock, "mono_raw") == 0 ? FTRACE_CLOCK_MONO_RAW : FTRACE_CLOCK_UNKNOWN;
}

static void learn_clock(struct pfl_ftrace_instance *self)
{
    char clock[LINE_MAX_HERE];

    if (pfl_tracefs_read_line(self->dir_fd, "trace_clock", clock, sizeof(clock)) != 0)
        return;
    clean_value("trace_clock", clock);
    self->clock = name_clock(clock);
}

static int learn_size(struct pfl_ftrace_instance *self)
{
    char size[LINE_MAX_HERE];
    int rc = pfl_tracefs_read_line(self->dir_fd, "buffer_size_kb", size, sizeof(size));

    if (rc == 0)
        self->buffer_size_kb = (uint32_t)strtoul(size, NULL, 10);
    return rc;
}

/* Stops the buffer, empties it, sets its clock. */
static int take_over(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                     const struct pfl_ftrace_conf *conf)
{
    const char *clock = conf->has_mono_raw ? "mono_raw" : "boot";
    char now[LINE_MAX_HERE] = "";
    /* A program that writes to trace_marker gets an error then: let it be short. */
    int rc = self->is_watched ? 0 : pfl_tracefs_write(self->dir_fd, "tracing_on", "0");

    if (rc == 0)
        rc = pfl_tracefs_truncate(self->dir_fd, "trace");
    if (rc == 0)
        rc = pfl_ftrace_instance_note(self, host, "buffer_size_kb");
    if (rc == 0)
        rc = pfl_tracefs_read_line(self->dir_fd, "trace_clock", now, sizeof(now));
    clean_value("trace_clock", now);
    if (rc == 0 && strcmp(now, clock) != 0) {
        rc = pfl_ftrace_instance_note(self, host, "trace_clock");
        if (rc == 0 && pfl_tracefs_write(self->dir_fd, "trace_clock", clock) != 0)
            pfl_log_debug("tracefs-clock-refused", "clock=%s", clock);
    }
    return rc;
}

/* If another program switched trace_marker off, programs' writes fail. */
static void switch_markers_on(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    char value[8];

    if (pfl_tracefs_read_line(self->dir_fd, FILE_MARKERS, value, sizeof(value)) != 0 ||
        value[0] != '0')
        return;
    if (pfl_ftrace_instance_note(self, host, FILE_MARKERS) != 0 ||
        pfl_tracefs_write(self->dir_fd, FILE_MARKERS, "1") != 0)
        pfl_log_debug("tracefs-write-refused", "path=%s", FILE_MARKERS);
}

/* Of an instance by name only its tracer is checked: the config names it on purpose. */
static const char *find_user(const struct pfl_ftrace_instance *self)
{
    char tracer[LINE_MAX_HERE] = "";
    enum pfl_top_use use = PFL_TOP_FREE;
    long reader = 0;

    if (strcmp(self->path, PFL_INSTANCE_TOP) == 0)
        use = pfl_top_buffer_find_use(self->dir_fd, &reader);
    else if (!self->is_made &&
             pfl_tracefs_read_line(self->dir_fd, "current_tracer", tracer, sizeof(tracer)) == 0 &&
             tracer[0] != '\0' && strcmp(tracer, "nop") != 0)
        use = PFL_TOP_TRACER;
    if (use == PFL_TOP_READER)
        pfl_log_info("tracefs-top-buffer-has-reader", "pid=%ld", reader);
    return use != PFL_TOP_FREE ? pfl_top_explain(use) : NULL;
}

int pfl_borrow_open(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                    const struct pfl_ftrace_conf *conf, struct pfl_probe_message *errors)
{
    const char *user;
    int rc = open_folder(self, host);

    self->is_preserved = conf->is_preserving && !self->is_watched;
    user = rc == 0 && !self->is_preserved ? find_user(self) : NULL;
    if (user != NULL) {
        tell(errors, self->path, "in use", user);
        return PFL_EPERM;
    }
    if (rc == 0)
        rc = pfl_ftrace_instance_note(self, host, "tracing_on");
    if (rc == 0 && pfl_ftrace_instance_note(self, host, "buffer_percent") != 0)
        pfl_log_debug("tracefs-file-missing", "path=%s/buffer_percent", self->path);
    if (rc == 0)
        rc = self->is_preserved ? learn_size(self) : take_over(self, host, conf);
    if (rc == 0 && self->is_watched)
        switch_markers_on(self, host);
    if (rc == 0)
        learn_clock(self);
    else
        tell(errors, self->path, "cannot be used", "the kernel refused to set it up");
    return rc;
}
