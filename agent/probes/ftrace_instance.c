/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance that all sessions share, while at least one records.
 *
 * Happy path: start takes the instance that was made ahead, sets page size, buffers' size and clock
 * and opens the CPUs' buffers; later sessions may only make the buffers larger; stop has the
 * instance made anew for the next one.
 * Failure: what the kernel must not refuse fails the start; the rest is told to the session.
 */
#include "agent/probes/ftrace_instance.h"

#include <stdio.h>
#include <unistd.h>

#include "agent/probes/exclusive.h"
#include "agent/probes/ftrace_packets.h"
#include "base/log.h"

#define BUFFER_SMALL_KB       2048u
#define BUFFER_LARGE_KB       8192u
#define BUFFER_MAX_KB         (1024u * 1024u)
#define PAGES_MIN             32u /* pages of a buffer at least */
#define LARGE_MEMORY_BYTES    (UINT64_C(7) << 30)
#define STATS_EXCLUSIVE       13u
#define FTRACE_CLOCK_MONO_RAW 4u

static uint32_t judge_buffer_size(const struct pfl_ftrace_conf *conf)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t usual = memory >= LARGE_MEMORY_BYTES ? BUFFER_LARGE_KB : BUFFER_SMALL_KB;

    if (conf->buffer_size_kb == 0 || (conf->is_lower_bound && conf->buffer_size_kb < usual))
        return usual;
    return conf->buffer_size_kb < BUFFER_MAX_KB ? conf->buffer_size_kb : BUFFER_MAX_KB;
}

static int set_buffer_size(struct pfl_ftrace *self, const struct pfl_ftrace_conf *conf)
{
    uint32_t kb = judge_buffer_size(conf);
    char text[16];

    if (kb <= self->buffer_size_kb)
        return 0;
    (void)snprintf(text, sizeof(text), "%u", kb);
    if (pfl_tracefs_write(self->fs.instance_fd, "buffer_size_kb", text) != 0)
        return PFL_EIO;
    self->buffer_size_kb = kb;
    return 0;
}

/* Larger pages need fewer reads, and the instance comes with them; a small buffer gets small ones,
 * because a loss takes a whole page. A refusal leaves the page size as it is. */
static void set_page_size(struct pfl_ftrace *self, const struct pfl_ftrace_conf *conf)
{
    uint32_t kb = judge_buffer_size(conf) / PAGES_MIN;
    char text[16];

    if (kb >= PFL_INSTANCE_PAGE_KB)
        return;
    while ((kb & (kb - 1)) != 0)
        kb &= kb - 1;
    (void)snprintf(text, sizeof(text), "%u", kb > 4 ? kb : 4);
    if (pfl_tracefs_write(self->fs.instance_fd, "buffer_subbuf_size_kb", text) != 0)
        pfl_log_debug("tracefs-page-size-refused", "kb=%u", kb);
}

void pfl_ftrace_instance_restrict(struct pfl_ftrace *self, struct pfl_ftrace_session *s,
                                  bool is_first)
{
    const char *refused = NULL;
    char text[128];

    if (is_first)
        self->is_exclusive = pfl_ftrace_conf_is_exclusive(&s->conf);
    if (is_first && self->is_exclusive)
        refused = pfl_exclusive_apply(&s->conf, self->fs.instance_fd);
    if (refused != NULL)
        (void)snprintf(text, sizeof(text), "the kernel refused %s", refused);
    else if (!is_first && pfl_ftrace_conf_is_exclusive(&s->conf))
        (void)snprintf(text, sizeof(text),
                       "ignored beside another session: tids_to_trace, "
                       "tracefs_options, tracing_cpumask");
    else if (!is_first && self->is_exclusive)
        (void)snprintf(text, sizeof(text), "another session restricts what is recorded");
    else
        return;
    pfl_message_text(&s->unknown, STATS_EXCLUSIVE, text);
}

void pfl_ftrace_prepare(struct pfl_ftrace *self)
{
    pfl_instance_maker_start(&self->maker, &self->fs);
}

void pfl_ftrace_instance_stop(struct pfl_ftrace *self)
{
    pfl_cpu_buffers_close(&self->buffers);
    pfl_bundle_fini(&self->bundle);
    self->is_running = false;
    self->clock = 0;
    self->buffer_size_kb = 0;
    if (!self->is_ending)
        pfl_ftrace_prepare(self);
}

/* The instance was made with boot time, the clock of all other data. */
static void set_clock(struct pfl_ftrace *self, const struct pfl_ftrace_conf *conf)
{
    if (conf->has_mono_raw &&
        pfl_tracefs_write(self->fs.instance_fd, "trace_clock", "mono_raw") == 0)
        self->clock = FTRACE_CLOCK_MONO_RAW;
}

int pfl_ftrace_instance_start(struct pfl_ftrace *self, const struct pfl_ftrace_conf *conf)
{
    int rc;

    if (self->is_running)
        return set_buffer_size(self, conf);
    rc = pfl_instance_maker_take(&self->maker, &self->fs);
    if (rc == 0) {
        set_page_size(self, conf);
        set_clock(self, conf);
        rc = set_buffer_size(self, conf);
    }
    if (rc == 0)
        rc = pfl_cpu_buffers_open(&self->buffers, self->fs.instance_fd);
    if (rc == 0)
        rc = pfl_bundle_init(&self->bundle, self->buffers.page_bytes);
    if (rc == 0)
        rc = pfl_tracefs_write(self->fs.instance_fd, "tracing_on", "1");
    self->is_running = rc == 0;
    self->has_poll = rc == 0 && pfl_cpu_buffers_can_poll(self->fs.instance_fd, conf->drain_percent);
    if (rc != 0)
        pfl_ftrace_instance_stop(self);
    return rc;
}

int pfl_ftrace_instance_switch(struct pfl_ftrace *self, const struct pfl_catalog_event *event,
                               bool is_on)
{
    char path[3 * PFL_TRACE_NAME_MAX];

    /* What programs write to trace_marker lands in the top buffer; newer kernels copy it. */
    if (strcmp(event->group, "ftrace") == 0)
        (void)snprintf(path, sizeof(path), "options/copy_trace_marker");
    else
        (void)snprintf(path, sizeof(path), "events/%s/%s/enable", event->group, event->name);
    return pfl_tracefs_write(self->fs.instance_fd, path, is_on ? "1" : "0");
}

void pfl_ftrace_instance_filter_syscalls(struct pfl_ftrace *self)
{
    static const char *const files[] = {"events/raw_syscalls/sys_enter/filter",
                                        "events/raw_syscalls/sys_exit/filter"};
    char text[PFL_SYSCALL_FILTER_BYTES];
    struct pfl_syscall_filter all = {.is_on = true};

    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        const struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->is_started && s->has_syscalls)
            pfl_syscall_filter_join(&all, &s->conf.syscalls);
    }
    pfl_syscall_filter_text(&all, text);
    for (size_t i = 0; i < 2; i++) {
        if (pfl_tracefs_write(self->fs.instance_fd, files[i], text) != 0)
            pfl_log_debug("tracefs-filter-refused", "path=%s", files[i]);
    }
}
