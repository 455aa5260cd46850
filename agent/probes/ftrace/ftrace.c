/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.ftrace.
 *
 * Happy path: open reads the config and makes plans for its events. start selects the instance (our
 * own one, made ahead; one for the function graph; a borrowed one) and switches the events on.
 * drain reads each CPU's pages once and passes them to every session of the instance, which takes
 * its events; it runs every period and, if the kernel supports it, when a buffer is filling up.
 * flush drains and writes FtraceStats of the start and of now; the last close ends the instance.
 *
 *     sessions A: sched   B: irq     instance: union of both     pages -> A's bundles
 *                                                                          -> B's bundles
 *
 * Failure: FtraceStats names an event that the kernel does not have or refuses; without an instance
 * the start fails (the trace then has no kernel events, its FtraceStats have the reason). Limits:
 * PERFLEET_MAX_INSTANCES sessions; those of one instance share one buffer size: the largest.
 */
#include "agent/probes/ftrace/ftrace.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "agent/probes/ftrace/borrow.h"
#include "agent/probes/ftrace/ftrace_events.h"
#include "agent/probes/ftrace/ftrace_feed.h"
#include "agent/probes/ftrace/ftrace_packets.h"
#include "agent/probes/ftrace/function_graph.h"
#include "agent/probes/ftrace/top_buffer.h"
#include "agent/probes/procfs/process_stats.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfetto/ftrace_events.fields.h"

#define FILE_MAX_BYTES    (4u * 1024u * 1024u)
#define STATS_MAX_BYTES   (1024u * 1024u)
#define PERIOD_DEFAULT_MS 100u
#define PERIOD_MAX_MS     60000u
#define KSYMS_MAX_NS      UINT64_C(2000000000) /* of CPU time */

int pfl_ftrace_init(struct pfl_ftrace *self)
{
    unsigned stale;
    int rc;

    memset(self, 0, sizeof(*self));
    pfl_buf_init(&self->scratch, FILE_MAX_BYTES);
    pfl_undo_init(&self->undo, -1);
    self->host =
        (struct pfl_ftrace_host){.fs = &self->fs, .maker = &self->maker, .undo = &self->undo};
    rc = pfl_tracefs_open(&self->fs);
    if (rc != 0)
        return rc;
    stale = pfl_tracefs_remove_stale(&self->fs);
    if (stale != 0)
        pfl_log_info("tracefs-stale-instances-removed", "count=%u", stale);
    stale = pfl_undo_run_stale(self->fs.root_fd);
    if (stale != 0)
        pfl_log_info("tracefs-put-back", "programs=%u", stale);
    pfl_undo_init(&self->undo, self->fs.root_fd);
    return 0;
}

void pfl_ftrace_fini(struct pfl_ftrace *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++)
        pfl_ftrace_close_session(self, i);
    pfl_undo_fini(&self->undo);
    pfl_instance_maker_wait(&self->maker);
    pfl_tracefs_close(&self->fs);
    pfl_event_catalog_fini(&self->catalog);
    pfl_ksyms_fini(&self->ksyms);
    pfl_buf_fini(&self->scratch);
}

/* --- sessions ---------------------------------------------------------------------------- */

/* In the log, and in the trace for the operator. */
static void tell_ignored(struct pfl_ftrace_session *s)
{
    char text[512];

    if (s->conf.ignored == 0)
        return;
    pfl_ftrace_conf_list_ignored(&s->conf, text, sizeof(text));
    pfl_log_warn("ftrace-config-ignored", "fields=\"%s\"", text);
    pfl_probe_message_text(&s->unknown, FTRACE_STATS__ATRACE_ERRORS, text);
}

static void tell_unknown_syscalls(struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->conf.unknown_syscall_count; i++)
        pfl_probe_message_text(&s->unknown, FTRACE_STATS__UNKNOWN_FTRACE_EVENTS,
                               s->conf.unknown_syscalls[i]);
}

static uint64_t get_cpu_ns(void)
{
    struct timespec ts = {.tv_sec = 0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Takes about 0.1 s, and longer if others watch the file: who reads it wakes them; kept while a
 * session wants them, or as long as one asked for. */
static int load_ksyms(struct pfl_ftrace *self)
{
    uint8_t piece[16384];
    uint64_t begin_ns = get_cpu_ns();
    ssize_t n = 1;
    int fd;
    int rc = 0;

    if (self->ksyms.count != 0)
        return 0;
    fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    while (rc == 0 && fd >= 0 && n > 0) {
        n = read(fd, piece, sizeof(piece));
        if (n > 0)
            rc = pfl_ksyms_feed(&self->ksyms, pfl_span_of(piece, (size_t)n));
        if (get_cpu_ns() - begin_ns > KSYMS_MAX_NS)
            rc = PFL_ETIMEOUT;
    }
    if (fd >= 0)
        close(fd);
    pfl_ksyms_seal(&self->ksyms);
    if (rc != 0)
        pfl_ksyms_fini(&self->ksyms);
    return rc == PFL_ETIMEOUT ? 0 : rc; /* without names */
}

static int prepare_symbols(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    int rc;

    if (!s->conf.symbolize_ksyms)
        return 0;
    rc = load_ksyms(self);
    if (rc == 0)
        rc = pfl_ksym_set_init(&s->symbols);
    if (rc != 0)
        return rc;
    if (self->ksyms.count == 0)
        pfl_probe_message_text(&s->unknown, FTRACE_STATS__ATRACE_ERRORS,
                               "no names: the kernel hides its symbols (kptr_restrict), "
                               "or they take too long to read");
    s->ksyms = &self->ksyms;
    s->address_key = self->catalog.address_key;
    self->retain_ksyms |= s->conf.retain_ksyms;
    return 0;
}

static void drop_ksyms(struct pfl_ftrace *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        if (self->sessions[i].is_open)
            return;
    }
    if (!self->retain_ksyms)
        pfl_ksyms_fini(&self->ksyms);
    self->retain_ksyms = false;
}

void pfl_ftrace_prepare(struct pfl_ftrace *self)
{
    pfl_instance_maker_start(&self->maker, &self->fs, false);
}

const char *pfl_ftrace_find_no_print(struct pfl_ftrace *self)
{
    enum pfl_top_use use;

    pfl_instance_maker_wait(&self->maker);
    if (self->fs.instance_fd < 0 || pfl_ftrace_instance_copies_markers(self->fs.instance_fd))
        return NULL;
    use = pfl_top_buffer_find_use(self->fs.root_fd, NULL);
    return use != PFL_TOP_FREE ? pfl_top_explain(use) : NULL;
}

int pfl_ftrace_open_session(struct pfl_ftrace *self, uint32_t session, struct pfl_span config)
{
    struct pfl_ftrace_session *s = &self->sessions[session];
    int rc;

    pfl_ftrace_close_session(self, session);
    memset(s, 0, sizeof(*s));
    pfl_probe_message_init(&s->unknown, STATS_MAX_BYTES);
    pfl_probe_message_init(&s->stats_before, STATS_MAX_BYTES);
    s->is_open = true;
    s->main.session = s;
    s->markers.session = s;
    rc = pfl_ftrace_conf_parse(config, &s->conf);
    if (rc == 0)
        rc = pfl_ftrace_events_choose(self, s);
    if (rc == 0)
        rc = prepare_symbols(self, s);
    if (rc != 0) {
        pfl_ftrace_close_session(self, session);
        return rc;
    }
    tell_ignored(s);
    tell_unknown_syscalls(s);
    return 0;
}

static bool has_started_session(const struct pfl_ftrace *self, const struct pfl_ftrace_instance *in)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        const struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->is_started && (s->main.in == in || s->markers.in == in))
            return true;
    }
    return false;
}

/* PFL_EINVAL: the config's name is none. */
static int find_path(const struct pfl_ftrace *self, struct pfl_ftrace_session *s,
                     char ret_path[PFL_INSTANCE_PATH_MAX])
{
    ret_path[0] = '\0';
    if (s->conf.instance_name != NULL) {
        if (pfl_borrow_find_path(s->conf.instance_name, ret_path) == 0)
            return 0;
        pfl_probe_message_text(&s->unknown, FTRACE_STATS__ATRACE_ERRORS,
                               "instance_name: not the name of an instance");
        return PFL_EINVAL;
    }
    if (s->conf.is_preserving)
        (void)snprintf(ret_path, PFL_INSTANCE_PATH_MAX, PFL_INSTANCE_TOP);
    else if (s->conf.has_graph)
        (void)pfl_function_graph_find_path(self->fs.root_fd, ret_path);
    return 0;
}

static struct pfl_ftrace_instance *find_instance(struct pfl_ftrace *self, const char *path)
{
    struct pfl_ftrace_instance *unused = NULL;

    if (path[0] == '\0')
        return &self->instances[0];
    for (size_t i = 1; i < PFL_FTRACE_INSTANCES; i++) {
        struct pfl_ftrace_instance *in = &self->instances[i];

        if (in->is_running && strcmp(in->path, path) == 0)
            return in;
        if (!in->is_running && unused == NULL)
            unused = in;
    }
    /* There are more than sessions. */
    (void)snprintf(unused->path, sizeof(unused->path), "%s", path);
    return unused;
}

static void filter_syscalls(struct pfl_ftrace *self, struct pfl_ftrace_instance *in)
{
    struct pfl_syscall_filter all = {.is_on = true};

    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        const struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->is_started && s->main.in == in && s->has_syscalls)
            pfl_syscall_filter_join(&all, &s->conf.syscalls);
    }
    pfl_ftrace_instance_filter_syscalls(in, &self->host, &all);
}

static int start_instance(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    char path[PFL_INSTANCE_PATH_MAX];
    int rc = find_path(self, s, path);

    if (rc != 0)
        return rc;
    s->main.in = find_instance(self, path);
    rc = pfl_ftrace_instance_start(s->main.in, &self->host, &s->conf, &s->unknown);
    if (rc != 0)
        s->main.in = NULL;
    return rc;
}

/* Sets up events that only the top-level buffer gets. On failure the session continues without
 * them, and its trace has the reason. */
static int start_markers(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    const struct pfl_ftrace_conf conf = {.buffer_size_kb = s->conf.buffer_size_kb,
                                         .is_lower_bound = s->conf.is_lower_bound,
                                         .drain_percent = s->conf.drain_percent,
                                         .has_mono_raw = s->conf.has_mono_raw,
                                         .cpumask = s->conf.cpumask};
    struct pfl_ftrace_instance *in;
    bool is_first;
    int rc = pfl_ftrace_events_split(self, s);

    if (rc != 0 || s->markers.wanted == NULL)
        return rc;
    in = find_instance(self, PFL_INSTANCE_TOP);
    is_first = !has_started_session(self, in);
    in->is_watched |= !in->is_running;
    if (in->is_running && in->has_graph) {
        pfl_probe_message_text(&s->unknown, FTRACE_STATS__ATRACE_ERRORS,
                               "the top-level buffer: in use: another session's function graph");
        rc = PFL_EPERM;
    } else {
        rc = pfl_ftrace_instance_start(in, &self->host, &conf, &s->unknown);
    }
    if (rc != 0) {
        pfl_ftrace_events_refuse_markers(self, s);
        return rc == PFL_ENOMEM ? rc : 0;
    }
    if (!is_first)
        pfl_ftrace_drain(self); /* as for the session's own instance */
    s->markers.in = in;
    pfl_ftrace_instance_restrict(in, &self->host, &conf, is_first, &s->unknown);
    return pfl_ftrace_feed_start(self, &s->markers);
}

/* Nothing is recorded, and the trace says so. */
static void fail_start(struct pfl_ftrace *self, uint32_t session)
{
    struct pfl_ftrace_session *s = &self->sessions[session];

    pfl_probe_message_text(&s->unknown, FTRACE_STATS__ATRACE_ERRORS,
                           "kernel events are not recorded");
    pfl_probe_message_clear(&s->stats_before);
    pfl_probe_message_uint(&s->stats_before, FTRACE_STATS__PHASE, FTRACE_STATS__START_OF_TRACE);
    pfl_ftrace_packets_write_stats(s, &s->stats_before, false);
    perfleet_writer_flush(s->writer);
    pfl_ftrace_close_session(self, session);
}

int pfl_ftrace_start_session(struct pfl_ftrace *self, uint32_t session,
                             struct perfleet_writer *writer)
{
    struct pfl_ftrace_session *s = &self->sessions[session];
    bool is_first;
    int rc;

    if (!s->is_open || s->is_started)
        return PFL_ESTATE;
    s->writer = writer;
    rc = start_instance(self, s);
    is_first = !has_started_session(self, s->main.in);
    if (rc == 0 && !is_first)
        pfl_ftrace_drain(self); /* existing data belongs to the other sessions */
    if (rc == 0)
        rc = pfl_ftrace_events_prepare(self, s);
    if (rc == 0)
        rc = start_markers(self, s);
    if (rc == 0)
        rc = pfl_ftrace_feed_start(self, &s->main);
    if (rc != 0) {
        fail_start(self, session);
        return rc;
    }
    s->is_started = true;
    if (s->has_syscalls)
        filter_syscalls(self, s->main.in);
    pfl_ftrace_instance_restrict(s->main.in, &self->host, &s->conf, is_first, &s->unknown);
    pfl_ftrace_packets_add_stats(self, s, FTRACE_STATS__START_OF_TRACE, &s->stats_before);
    if (s->conf.is_preserving)
        pfl_ftrace_packets_write_preserved(s);
    pfl_ftrace_events_switch_on(self, s);
    return 0;
}

void pfl_ftrace_set_met(struct pfl_ftrace *self, uint32_t session, struct pfl_process_stats *stats)
{
    bool has_files = stats != NULL && stats->conf.resolve_fds;

    self->sessions[session].main.reader.pids = stats != NULL ? &stats->seen : NULL;
    self->sessions[session].main.reader.files = has_files ? &stats->files : NULL;
    self->sessions[session].markers.reader.pids = stats != NULL ? &stats->seen : NULL;
}

static void stop_unused(struct pfl_ftrace *self, struct pfl_ftrace_instance *in)
{
    if (in != NULL && in->is_running && !has_started_session(self, in))
        pfl_ftrace_instance_stop(in, &self->host);
}

void pfl_ftrace_close_session(struct pfl_ftrace *self, uint32_t session)
{
    struct pfl_ftrace_session *s = &self->sessions[session];
    struct pfl_ftrace_instance *in = s->main.in;
    struct pfl_ftrace_instance *top = s->markers.in;

    if (!s->is_open)
        return;
    if (s->is_started)
        pfl_ftrace_events_switch_off(self, s);
    s->is_started = false;
    s->is_open = false;
    if (s->has_syscalls && in != NULL && has_started_session(self, in))
        filter_syscalls(self, in);
    pfl_ksym_set_fini(&s->symbols);
    pfl_ftrace_conf_fini(&s->conf);
    pfl_mem_free(s->events);
    pfl_mem_free(s->kprobe_types);
    pfl_ftrace_feed_close(&s->main);
    pfl_ftrace_feed_close(&s->markers);
    pfl_probe_message_fini(&s->unknown);
    pfl_probe_message_fini(&s->stats_before);
    memset(s, 0, sizeof(*s));
    stop_unused(self, top);
    stop_unused(self, in);
    drop_ksyms(self);
}

/* --- reading ----------------------------------------------------------------------------- */

struct reading {
    struct pfl_ftrace *ftrace;
    struct pfl_ftrace_instance *in;
};

static void on_pages(void *user, size_t index, struct pfl_span pages)
{
    const struct reading *reading = user;
    struct pfl_ftrace *self = reading->ftrace;
    struct pfl_ftrace_instance *in = reading->in;

    in->pages_read += pages.len / in->buffers.page_bytes;
    if (in->is_watched)
        pfl_top_buffer_count(in, index, pages, self->catalog.layout);
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->is_started && s->main.in == in)
            pfl_ftrace_feed_pages(self, &s->main, index, pages);
        if (s->is_started && s->markers.in == in)
            pfl_ftrace_feed_pages(self, &s->markers, index, pages);
    }
}

static void tell_read_error(struct pfl_ftrace *self, const struct pfl_ftrace_instance *in)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->main.in == in)
            s->main.reader.status_seen |= 1u << PFL_PAGE_READ_ERROR;
        if (s->markers.in == in)
            s->markers.reader.status_seen |= 1u << PFL_PAGE_READ_ERROR;
    }
}

/* Another program uses the top-level buffer: leaves it to that. */
static void look_for_others(struct pfl_ftrace *self, struct pfl_ftrace_instance *in)
{
    enum pfl_top_use use = pfl_top_buffer_find_change(in);
    char text[128];

    if (use == PFL_TOP_FREE)
        return;
    pfl_top_buffer_lose(in, &self->host);
    (void)snprintf(text, sizeof(text), "the top-level buffer is not read any more: %s",
                   pfl_top_explain(use));
    pfl_log_warn("tracefs-top-buffer-lost", "reason=\"%s\"", pfl_top_explain(use));
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->is_started && (s->main.in == in || s->markers.in == in))
            pfl_probe_message_text(&s->unknown, FTRACE_STATS__ATRACE_ERRORS, text);
    }
}

static void forget_symbols(struct pfl_ftrace *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->is_started && s->ksyms != NULL) {
            pfl_ksym_set_clear(&s->symbols);
            s->has_sent_symbols = false;
        }
    }
}

static void drain_instance(struct pfl_ftrace *self, struct pfl_ftrace_instance *in, bool is_lazy)
{
    struct reading reading = {self, in};
    size_t max_pages = (size_t)in->buffer_size_kb * 1024 / in->buffers.page_bytes + 1;

    if (in->is_watched && !in->is_lost)
        look_for_others(self, in);
    in->buffers.is_lazy = is_lazy;
    pfl_ftrace_instance_read_clocks(in);
    for (size_t i = 0; i < in->buffers.count; i++) {
        if (!pfl_cpu_buffers_drain(&in->buffers, i, max_pages, on_pages, &reading))
            tell_read_error(self, in);
    }
}

static void drain(struct pfl_ftrace *self, bool is_lazy)
{
    forget_symbols(self);
    /* The own one last: see ftrace_feed.c. */
    for (size_t i = PFL_FTRACE_INSTANCES; i > 0; i--) {
        if (self->instances[i - 1].is_running)
            drain_instance(self, &self->instances[i - 1], is_lazy);
    }
}

void pfl_ftrace_drain(struct pfl_ftrace *self)
{
    drain(self, false);
}

void pfl_ftrace_drain_lazily(struct pfl_ftrace *self)
{
    drain(self, true);
}

size_t pfl_ftrace_get_fds(const struct pfl_ftrace *self, int *ret_fds, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < PFL_FTRACE_INSTANCES; i++) {
        const struct pfl_ftrace_instance *in = &self->instances[i];

        for (size_t cpu = 0; in->has_poll && cpu < in->buffers.count && count < max; cpu++)
            ret_fds[count++] = in->buffers.cpus[cpu].fd;
    }
    return count;
}

uint64_t pfl_ftrace_count_pages(const struct pfl_ftrace *self)
{
    uint64_t pages = 0;

    for (size_t i = 0; i < PFL_FTRACE_INSTANCES; i++)
        pages += self->instances[i].pages_read;
    return pages;
}

void pfl_ftrace_drain_full(struct pfl_ftrace *self)
{
    uint64_t before = pfl_ftrace_count_pages(self);

    pfl_ftrace_drain_lazily(self);
    for (size_t i = 0; pfl_ftrace_count_pages(self) == before && i < PFL_FTRACE_INSTANCES; i++)
        self->instances[i].has_poll = false;
}

void pfl_ftrace_flush_session(struct pfl_ftrace *self, uint32_t session)
{
    struct pfl_ftrace_session *s = &self->sessions[session];
    struct pfl_probe_message now;

    if (!s->is_started)
        return;
    pfl_ftrace_drain(self);
    pfl_probe_message_init(&now, STATS_MAX_BYTES);
    pfl_ftrace_packets_add_stats(self, s, FTRACE_STATS__END_OF_TRACE, &now);
    pfl_ftrace_packets_write_stats(s, &s->stats_before, false);
    pfl_ftrace_packets_write_stats(s, &now, true);
    pfl_probe_message_fini(&now);
    perfleet_writer_flush(s->writer);
}

uint32_t pfl_ftrace_get_period_ms(const struct pfl_ftrace *self)
{
    uint32_t period = 0;

    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        const struct pfl_ftrace_session *s = &self->sessions[i];
        uint32_t wish = s->conf.drain_period_ms;

        if (!s->is_started)
            continue;
        if (wish == 0)
            wish = PERIOD_DEFAULT_MS;
        if (wish > PERIOD_MAX_MS)
            wish = PERIOD_MAX_MS;
        if (period == 0 || wish < period)
            period = wish;
    }
    return period;
}
