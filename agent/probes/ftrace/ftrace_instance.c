/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring buffers that sessions share.
 *
 * Happy path: start takes the instance that was made ahead, or makes one, or opens a borrowed one
 * (borrow.c); sets page size, buffers' size and clock and opens the CPUs' buffers; later sessions
 * may only make the buffers larger; stop restores a borrowed instance, or recreates our own for the
 * next session. Failure: a refusal of something essential fails the start; others are reported to
 * the session.
 */
#include "agent/probes/ftrace/ftrace_instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/probes/ftrace/borrow.h"
#include "agent/probes/ftrace/exclusive.h"
#include "agent/probes/ftrace/function_graph.h"
#include "agent/probes/ftrace/top_buffer.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfetto/ftrace_events.fields.h"

#define BUFFER_SMALL_KB    2048u
#define BUFFER_LARGE_KB    8192u
#define BUFFER_MAX_KB      (1024u * 1024u)
#define PAGES_MIN          32u /* pages of a buffer at least */
#define LARGE_MEMORY_BYTES (UINT64_C(7) << 30)
#define FILE_COPY_MARKERS  "options/copy_trace_marker"
#define PATH_HERE          (3u * PFL_TRACE_NAME_MAX)

static bool is_own(const struct pfl_ftrace_instance *self)
{
    return self->path[0] == '\0';
}

static bool is_graph(const struct pfl_ftrace_instance *self)
{
    return strcmp(self->path, PFL_INSTANCE_GRAPH) == 0;
}

bool pfl_ftrace_instance_is_own(const struct pfl_ftrace_instance *self)
{
    return is_own(self) || is_graph(self);
}

bool pfl_ftrace_instance_copies_markers(int dir_fd)
{
    return faccessat(dir_fd, FILE_COPY_MARKERS, F_OK, 0) == 0;
}

bool pfl_ftrace_instance_has_markers(const struct pfl_ftrace_instance *self)
{
    return strcmp(self->path, PFL_INSTANCE_TOP) == 0 ||
           (pfl_ftrace_instance_is_own(self) && pfl_ftrace_instance_copies_markers(self->dir_fd));
}

static uint32_t judge_buffer_size(const struct pfl_ftrace_instance *self,
                                  const struct pfl_ftrace_conf *conf)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t usual = memory >= LARGE_MEMORY_BYTES ? BUFFER_LARGE_KB : BUFFER_SMALL_KB;

    if (self->is_watched)
        usual = BUFFER_SMALL_KB; /* texts of programs alone */
    if (conf->buffer_size_kb == 0 || (conf->is_lower_bound && conf->buffer_size_kb < usual))
        return usual;
    return conf->buffer_size_kb < BUFFER_MAX_KB ? conf->buffer_size_kb : BUFFER_MAX_KB;
}

static int set_buffer_size(struct pfl_ftrace_instance *self, const struct pfl_ftrace_conf *conf)
{
    uint32_t kb = judge_buffer_size(self, conf);
    char text[16];

    if (kb <= self->buffer_size_kb || self->is_preserved)
        return 0;
    (void)snprintf(text, sizeof(text), "%u", kb);
    if (pfl_tracefs_write(self->dir_fd, "buffer_size_kb", text) != 0)
        return PFL_EIO;
    self->buffer_size_kb = kb;
    if (self->is_watched)
        pfl_top_buffer_note_size(self);
    return 0;
}

/* Larger pages need fewer reads, and the instance comes with them; a small buffer gets small ones,
 * because a loss takes a whole page. A refusal leaves the page size as it is. */
static void set_page_size(struct pfl_ftrace_instance *self, const struct pfl_ftrace_conf *conf)
{
    uint32_t kb = judge_buffer_size(self, conf) / PAGES_MIN;
    char text[16];

    if (kb >= PFL_INSTANCE_PAGE_KB)
        return;
    while ((kb & (kb - 1)) != 0)
        kb &= kb - 1;
    (void)snprintf(text, sizeof(text), "%u", kb > 4 ? kb : 4);
    self->is_altered = true;
    if (pfl_tracefs_write(self->dir_fd, "buffer_subbuf_size_kb", text) != 0)
        pfl_log_debug("tracefs-page-size-refused", "kb=%u", kb);
}

void pfl_ftrace_instance_restrict(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                                  const struct pfl_ftrace_conf *conf, bool is_first,
                                  struct pfl_probe_message *errors)
{
    const char *refused = NULL;
    char text[128];

    if (is_first)
        self->is_exclusive = pfl_ftrace_conf_is_exclusive(conf);
    if (is_first && self->is_exclusive)
        refused = pfl_exclusive_apply(conf, self, host);
    self->is_altered |= self->is_exclusive;
    if (refused != NULL)
        (void)snprintf(text, sizeof(text), "the kernel refused %s", refused);
    else if (!is_first && pfl_ftrace_conf_is_exclusive(conf))
        (void)snprintf(text, sizeof(text),
                       "ignored beside another session: tids_to_trace, "
                       "tracefs_options, tracing_cpumask");
    else if (!is_first && self->is_exclusive)
        (void)snprintf(text, sizeof(text), "another session restricts what is recorded");
    else
        return;
    pfl_probe_message_text(errors, FTRACE_STATS__EXCLUSIVE_FEATURE_ERROR, text);
}

/* Our own instance was made with boot time, the clock of all other data. */
static void set_clock(struct pfl_ftrace_instance *self, const struct pfl_ftrace_conf *conf)
{
    if (!conf->has_mono_raw)
        return;
    self->is_altered = true;
    if (pfl_tracefs_write(self->dir_fd, "trace_clock", "mono_raw") == 0)
        self->clock = FTRACE_CLOCK_MONO_RAW;
}

/* --- start and stop ---------------------------------------------------------------------- */

static int open_own(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    int rc;

    if (is_own(self)) {
        rc = pfl_instance_maker_take(host->maker, host->fs);
        self->dir_fd = host->fs->instance_fd;
        return rc;
    }
    self->graph_fs = (struct pfl_tracefs){
        .root_fd = host->fs->root_fd, .instance_fd = -1, .owner = getpid(), .suffix = "-graph"};
    rc = pfl_instance_maker_make(&self->graph_fs);
    self->dir_fd = self->graph_fs.instance_fd;
    return rc;
}

static int prepare_own(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                       const struct pfl_ftrace_conf *conf)
{
    int rc = open_own(self, host);

    if (rc != 0)
        return rc;
    self->is_made = true;
    set_page_size(self, conf);
    set_clock(self, conf);
    return set_buffer_size(self, conf);
}

static int prepare_borrowed(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                            const struct pfl_ftrace_conf *conf, struct pfl_probe_message *errors)
{
    int rc = pfl_borrow_open(self, host, conf, errors);

    return rc == 0 ? set_buffer_size(self, conf) : rc;
}

static int open_buffers(struct pfl_ftrace_instance *self, const struct pfl_ftrace_conf *conf)
{
    int rc = pfl_cpu_buffers_open(&self->buffers, self->dir_fd);

    if (rc == 0)
        rc = pfl_bundle_init(&self->bundle, self->buffers.page_bytes);
    if (rc == 0)
        rc = pfl_tracefs_write(self->dir_fd, "tracing_on", "1");
    self->is_running = rc == 0;
    if (rc == 0 && self->is_watched)
        pfl_top_buffer_watch(self);
    self->has_poll = rc == 0 && pfl_cpu_buffers_can_poll(self->dir_fd, conf->drain_percent);
    return rc;
}

int pfl_ftrace_instance_start(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                              const struct pfl_ftrace_conf *conf, struct pfl_probe_message *errors)
{
    int rc;

    if (self->is_running && self->is_lost) {
        pfl_probe_message_text(errors, FTRACE_STATS__ATRACE_ERRORS,
                               "the top-level buffer: another program has begun to use it");
        return PFL_EPERM;
    }
    if (self->is_running) {
        pfl_function_graph_add(self, host, conf, errors);
        return set_buffer_size(self, conf);
    }
    self->dir_fd = -1;
    rc = pfl_ftrace_instance_is_own(self) ? prepare_own(self, host, conf)
                                          : prepare_borrowed(self, host, conf, errors);
    if (rc == 0) {
        /* The kernel changes no tracer while a buffer is open. */
        pfl_function_graph_add(self, host, conf, errors);
        rc = open_buffers(self, conf);
    }
    if (rc != 0)
        pfl_ftrace_instance_stop(self, host);
    return rc;
}

void pfl_ftrace_instance_stop(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    bool was_graph = is_graph(self);
    bool was_own = is_own(self);
    bool was_borrowed = !was_own && !was_graph && self->is_running;
    bool was_altered = self->is_altered || self->has_graph;

    if (self->is_watched && self->is_running)
        pfl_top_buffer_give_back(self, host);
    /* If it was not recording, another program may use it; its state stays. */
    else if (!was_own && self->is_running &&
             pfl_tracefs_write(self->dir_fd, "tracing_on", "0") != 0)
        pfl_log_debug("tracefs-write-refused", "path=%s/tracing_on", self->path);
    pfl_cpu_buffers_close(&self->buffers);
    pfl_bundle_fini(&self->bundle);
    pfl_function_graph_remove(self);
    pfl_undo_run(host->undo, self);
    if (was_borrowed)
        (void)pfl_undo_run_stale(host->undo->root_fd); /* what its maker could not remove */
    if (was_graph)
        pfl_tracefs_remove_instance(&self->graph_fs);
    else if (!was_own && self->dir_fd >= 0)
        close(self->dir_fd);
    pfl_mem_free(self->users);
    memset(self, 0, sizeof(*self));
    self->dir_fd = -1;
    if (was_own && !host->is_ending)
        pfl_instance_maker_start(host->maker, host->fs, !was_altered);
}

/* --- events ------------------------------------------------------------------------------ */

/* Events that the kernel derives from others only if a trigger in each instance asks for it. */
static const struct {
    const char *name; /* of group synthetic */
    const char *path;
    const char *text;
} triggers[] = {
    {"rss_stat_throttled", "events/kmem/rss_stat/trigger",
     "hist:keys=member,mm_id:bucket=size/524288:"
     "onchange($bucket).rss_stat_throttled(mm_id,curr,member,size)"},
    {"suspend_resume_minimal", "events/power/suspend_resume/trigger",
     "hist:keys=start:size=128:onmatch(power.suspend_resume).trace(suspend_resume_minimal,start) "
     "if action=='syscore_resume'||action=='timekeeping_freeze'"},
};
#define TRIGGERS (sizeof(triggers) / sizeof(triggers[0]))

static int set_trigger(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                       const struct pfl_catalog_event *event)
{
    char path[PFL_INSTANCE_PATH_MAX + 64];
    char undo[256];
    int rc = 0;

    if (strcmp(event->group, "synthetic") != 0)
        return 0;
    for (size_t i = 0; i < TRIGGERS; i++) {
        if (strcmp(event->name, triggers[i].name) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", self->path, triggers[i].path);
        (void)snprintf(undo, sizeof(undo), "!%s", triggers[i].text);
        self->is_altered = true;
        if (!self->is_made)
            rc = pfl_undo_add(host->undo, self, PFL_UNDO_APPEND, path, undo);
        return rc != 0 ? rc : pfl_tracefs_append(self->dir_fd, triggers[i].path, triggers[i].text);
    }
    return 0;
}

static void drop_trigger_at(const struct pfl_ftrace_instance *self, size_t i)
{
    char undo[256];

    (void)snprintf(undo, sizeof(undo), "!%s", triggers[i].text);
    if (pfl_tracefs_append(self->dir_fd, triggers[i].path, undo) != 0)
        pfl_log_debug("tracefs-trigger-stays", "path=%s", triggers[i].path);
}

static void drop_trigger(const struct pfl_ftrace_instance *self,
                         const struct pfl_catalog_event *event)
{
    for (size_t i = 0; self->is_made && i < TRIGGERS; i++) {
        if (strcmp(event->group, "synthetic") == 0 && strcmp(event->name, triggers[i].name) == 0)
            drop_trigger_at(self, i);
    }
}

bool pfl_ftrace_instance_can_trigger(struct pfl_ftrace_instance *self, const char *name)
{
    char first[256];

    for (size_t i = 0; i < TRIGGERS; i++) {
        if (strcmp(name, triggers[i].name) != 0)
            continue;
        /* An existing trigger proves that the event works. */
        if (pfl_tracefs_read_line(self->dir_fd, triggers[i].path, first, sizeof(first)) == 0 &&
            strstr(first, name) != NULL)
            return true;
        self->is_altered = true;
        if (pfl_tracefs_append(self->dir_fd, triggers[i].path, triggers[i].text) != 0)
            return false;
        drop_trigger_at(self, i);
    }
    return true;
}

/* Empty: the event is always on. */
static void find_switch(const struct pfl_ftrace_instance *self,
                        const struct pfl_catalog_event *event, char ret_path[PATH_HERE])
{
    ret_path[0] = '\0';
    if (strcmp(event->group, "ftrace") != 0)
        (void)snprintf(ret_path, PATH_HERE, "events/%s/%s/enable", event->group, event->name);
    /* What programs write to trace_marker lands in the top buffer; newer kernels copy it. */
    else if (pfl_event_catalog_find_top_event(event) == PFL_TOP_EVENT_MARKER &&
             pfl_ftrace_instance_is_own(self))
        (void)snprintf(ret_path, PATH_HERE, FILE_COPY_MARKERS);
}

static int make_room_for_users(struct pfl_ftrace_instance *self, size_t count)
{
    uint16_t *grown;

    if (count <= self->users_count)
        return 0;
    grown = pfl_mem_realloc(self->users, count * sizeof(*grown));
    if (grown == NULL)
        return PFL_ENOMEM;
    memset(grown + self->users_count, 0, (count - self->users_count) * sizeof(*grown));
    self->users = grown;
    self->users_count = count;
    return 0;
}

static int switch_first_on(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                           const struct pfl_catalog_event *event, const char *path, uint16_t *users)
{
    char before[8] = "0";
    int rc;

    if (!self->is_made && pfl_tracefs_read_line(self->dir_fd, path, before, sizeof(before)) == 0 &&
        before[0] == '1') {
        (*users)++; /* another program wants it, and still will when we do not */
        return 0;
    }
    rc = pfl_ftrace_instance_note(self, host, path);
    if (rc == 0)
        rc = set_trigger(self, host, event);
    return rc != 0 ? rc : pfl_tracefs_write(self->dir_fd, path, "1");
}

int pfl_ftrace_instance_switch_on(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                                  const struct pfl_event_catalog *catalog, size_t event)
{
    char path[PATH_HERE];
    int rc = make_room_for_users(self, catalog->count);

    if (rc != 0)
        return rc;
    find_switch(self, &catalog->events[event], path);
    if (self->users[event]++ != 0 || path[0] == '\0')
        return 0;
    /* Two events have that switch. */
    if (strcmp(path, FILE_COPY_MARKERS) == 0 && self->marker_users++ != 0)
        return 0;
    return switch_first_on(self, host, &catalog->events[event], path, &self->users[event]);
}

void pfl_ftrace_instance_switch_off(struct pfl_ftrace_instance *self,
                                    const struct pfl_event_catalog *catalog, size_t event)
{
    char path[PATH_HERE];

    if (event >= self->users_count || self->users[event] == 0 || --self->users[event] != 0)
        return;
    find_switch(self, &catalog->events[event], path);
    if (strcmp(path, FILE_COPY_MARKERS) == 0 && --self->marker_users != 0)
        return;
    if (path[0] != '\0' && pfl_tracefs_write(self->dir_fd, path, "0") != 0) {
        self->is_altered = true;
        pfl_log_debug("tracefs-event-not-removed", "was=tracefs-event-stays name=%s",
                      catalog->events[event].name);
    }
    drop_trigger(self, &catalog->events[event]);
}

void pfl_ftrace_instance_filter_syscalls(struct pfl_ftrace_instance *self,
                                         struct pfl_ftrace_host *host,
                                         const struct pfl_syscall_filter *wanted)
{
    static const char *const files[] = {"events/raw_syscalls/sys_enter/filter",
                                        "events/raw_syscalls/sys_exit/filter"};
    char text[PFL_SYSCALL_FILTER_BYTES];

    self->is_altered = true;
    pfl_syscall_filter_text(wanted, text);
    for (size_t i = 0; i < 2; i++) {
        if (pfl_ftrace_instance_note(self, host, files[i]) != 0 ||
            pfl_tracefs_write(self->dir_fd, files[i], text) != 0)
            pfl_log_debug("tracefs-filter-refused", "path=%s", files[i]);
    }
}

/* --- clocks ------------------------------------------------------------------------------ */

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Times that only the kernel's tracer has are in microseconds. */
static uint64_t read_kernel_clock(int dir_fd)
{
    struct pfl_buf text;
    const char *at = NULL;
    double seconds = 0;

    pfl_buf_init(&text, 65536);
    if (pfl_tracefs_read(dir_fd, "per_cpu/cpu0/stats", &text) == 0 &&
        pfl_buf_append(&text, "", 1) == 0 && pfl_buf_get(&text).data != NULL)
        at = strstr((const char *)pfl_buf_get(&text).data, "now ts:");
    if (at != NULL)
        seconds = strtod(at + strlen("now ts:"), NULL);
    pfl_buf_fini(&text);
    return seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e9) : 0;
}

void pfl_ftrace_instance_read_clocks(struct pfl_ftrace_instance *self)
{
    if (self->clock == 0)
        return;
    self->clock_ns[0] = self->clock == FTRACE_CLOCK_MONO_RAW ? read_clock(CLOCK_MONOTONIC_RAW)
                                                             : read_kernel_clock(self->dir_fd);
    self->clock_ns[1] = read_clock(CLOCK_BOOTTIME);
}
