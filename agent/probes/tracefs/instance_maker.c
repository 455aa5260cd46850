/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next session's instance, ahead of time.
 *
 * Happy path: start passes the tracefs object to a thread, which makes the instance; take waits for
 * it and returns it; the session sets its buffers' size and switches its events on. After a session
 * that changed nothing else the instance is emptied instead: a tenth of the kernel's work. Failure:
 * if an instance could not be made ahead, take tries again and reports. Ownership: while is_busy is
 * set, only the thread may touch *fs. Limits: one instance; while nothing is recorded it holds
 * three small pages a CPU.
 */
#include "agent/probes/tracefs/instance_maker.h"

#include "base/err.h"
#include "base/log.h"

#define IDLE_BUFFER_KB "64"

/* What an older kernel lacks, or what only saves time. */
static void try_write(const struct pfl_tracefs *fs, const char *path, const char *text)
{
    if (pfl_tracefs_write(fs->instance_fd, path, text) != 0)
        pfl_log_debug("tracefs-write-refused", "path=%s", path);
}

int pfl_instance_maker_make(struct pfl_tracefs *fs)
{
    int rc;

    pfl_tracefs_remove_instance(fs);
    rc = pfl_tracefs_make_instance(fs);
    if (rc != 0)
        return rc;
    /* Small first: every later step then has less to do. */
    try_write(fs, "tracing_on", "0");
    try_write(fs, "buffer_size_kb", IDLE_BUFFER_KB);
    try_write(fs, "buffer_subbuf_size_kb", PFL_INSTANCE_PAGE_KB_TEXT);
    rc = pfl_tracefs_write(fs->instance_fd, "trace_clock", "boot");
    if (rc != 0)
        pfl_tracefs_remove_instance(fs);
    return rc;
}

/* False: something is on, or the kernel does not want to. */
static bool empty(const struct pfl_tracefs *fs)
{
    char events[8];

    return fs->instance_fd >= 0 && pfl_tracefs_write(fs->instance_fd, "tracing_on", "0") == 0 &&
           pfl_tracefs_read_line(fs->instance_fd, "events/enable", events, sizeof(events)) == 0 &&
           events[0] == '0' && pfl_tracefs_truncate(fs->instance_fd, "trace") == 0 &&
           pfl_tracefs_write(fs->instance_fd, "buffer_size_kb", IDLE_BUFFER_KB) == 0;
}

static void *run(void *user)
{
    struct pfl_instance_maker *self = user;

    self->rc = self->is_kept && empty(self->fs) ? 0 : pfl_instance_maker_make(self->fs);
    return NULL;
}

void pfl_instance_maker_start(struct pfl_instance_maker *self, struct pfl_tracefs *fs, bool is_kept)
{
    pfl_instance_maker_wait(self);
    self->fs = fs;
    self->is_kept = is_kept;
    self->is_busy = pthread_create(&self->thread, NULL, run, self) == 0;
    if (!self->is_busy)
        pfl_tracefs_remove_instance(fs);
}

void pfl_instance_maker_wait(struct pfl_instance_maker *self)
{
    if (self->is_busy)
        (void)pthread_join(self->thread, NULL);
    self->is_busy = false;
}

int pfl_instance_maker_take(struct pfl_instance_maker *self, struct pfl_tracefs *fs)
{
    pfl_instance_maker_wait(self);
    return fs->instance_fd >= 0 ? 0 : pfl_instance_maker_make(fs);
}
