/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.ftrace.
 *
 * Happy path: open reads the config and makes plans for its events; the first start takes the
 * instance that was made ahead (buffer size, tracing on); every start switches its events on; drain
 * reads each CPU's pages once and shows them to every session, which takes what it asked for
 * (when a period is over, and where the kernel tells, when a buffer is filling up);
 * flush drains and writes FtraceStats of the start and of now; the last close has the
 * instance made anew.
 *
 *     sessions A: sched   B: irq     instance: union of both     pages -> A's bundles
 *                                                                          -> B's bundles
 *
 * Failure: an event the kernel does not have or refuses is named in FtraceStats; an instance that
 * cannot be made fails the start (the trace then has no kernel events, the log says why).
 * Limits: PERFLEET_MAX_INSTANCES sessions, which share one buffer size: the largest asked for.
 */
#include "agent/probes/ftrace.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/probes/ftrace_instance.h"
#include "agent/probes/ftrace_packets.h"
#include "base/log.h"
#include "base/mem.h"

#define FILE_MAX_BYTES     (4u * 1024u * 1024u)
#define STATS_MAX_BYTES    (1024u * 1024u)
#define PERIOD_DEFAULT_MS  100u
#define PERIOD_MAX_MS      60000u
#define STATS_SETUP_ERRORS 5u
#define STATS_UNKNOWN      6u
#define STATS_FAILED       7u

int pfl_ftrace_init(struct pfl_ftrace *self)
{
    unsigned stale;
    int rc;

    memset(self, 0, sizeof(*self));
    pfl_buf_init(&self->scratch, FILE_MAX_BYTES);
    rc = pfl_tracefs_open(&self->fs);
    if (rc != 0)
        return rc;
    stale = pfl_tracefs_remove_stale(&self->fs);
    if (stale != 0)
        pfl_log_info("tracefs-stale-instances-removed", "count=%u", stale);
    return 0;
}

void pfl_ftrace_fini(struct pfl_ftrace *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++)
        pfl_ftrace_close_session(self, i);
    pfl_instance_maker_wait(&self->maker);
    pfl_tracefs_close(&self->fs);
    pfl_event_catalog_fini(&self->catalog);
    pfl_ksyms_fini(&self->ksyms);
    pfl_buf_fini(&self->scratch);
}

/* --- events ------------------------------------------------------------------------------ */

static int load_catalog(struct pfl_ftrace *self)
{
    struct pfl_buf available;
    struct pfl_buf header;
    int rc;

    if (self->has_catalog)
        return 0;
    pfl_buf_init(&available, FILE_MAX_BYTES);
    pfl_buf_init(&header, FILE_MAX_BYTES);
    rc = pfl_tracefs_read(self->fs.root_fd, "available_events", &available);
    if (rc == 0)
        rc = pfl_tracefs_read(self->fs.root_fd, "events/header_page", &header);
    if (pfl_tracefs_read(self->fs.root_fd, "printk_formats", &self->scratch) != 0)
        pfl_buf_clear(&self->scratch);
    if (rc == 0)
        rc = pfl_event_catalog_init(&self->catalog, pfl_buf_get(&available), pfl_buf_get(&header),
                                    pfl_buf_get(&self->scratch));
    self->has_catalog = rc == 0;
    if (getrandom(self->catalog.address_key, sizeof(self->catalog.address_key), 0) !=
        (ssize_t)sizeof(self->catalog.address_key))
        memset(self->catalog.address_key, 0, sizeof(self->catalog.address_key));
    pfl_buf_fini(&available);
    pfl_buf_fini(&header);
    return rc;
}

static int load_event(struct pfl_ftrace *self, size_t index)
{
    struct pfl_catalog_event *event = &self->catalog.events[index];
    char path[3 * PFL_TRACE_NAME_MAX];
    int rc;

    if (event->plan != NULL)
        return 0;
    if (event->is_broken)
        return PFL_EPARSE;
    (void)snprintf(path, sizeof(path), "events/%s/%s/format", event->group, event->name);
    rc = pfl_tracefs_read(self->fs.root_fd, path, &self->scratch);
    if (rc != 0)
        return rc;
    return pfl_event_catalog_load(&self->catalog, index, pfl_buf_get(&self->scratch));
}

static void tell_event(struct pfl_ftrace_session *s, uint32_t field,
                       const struct pfl_catalog_event *event)
{
    char name[2 * PFL_TRACE_NAME_MAX + 2];

    (void)snprintf(name, sizeof(name), "%s/%s", event->group, event->name);
    pfl_message_text(&s->unknown, field, name);
}

static int take_event(struct pfl_ftrace *self, struct pfl_ftrace_session *s, size_t index)
{
    struct pfl_catalog_event *event = &self->catalog.events[index];
    int rc = load_event(self, index);

    if (rc == PFL_ENOMEM)
        return rc;
    if (rc != 0) {
        tell_event(s, STATS_FAILED, event);
        return 0;
    }
    if (s->conf.no_generic_events && pfl_event_plan_is_generic(event->plan))
        return 0;
    s->events[s->event_count++] = (uint16_t)index;
    return 0;
}

/* Wishes without a single event are told, so that a typing error is seen. */
static void tell_unknown(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->conf.wish_count; i++) {
        struct pfl_ftrace_conf one = {.wishes = &s->conf.wishes[i], .wish_count = 1};
        bool is_known = false;

        for (size_t k = 0; k < self->catalog.count && !is_known; k++)
            is_known = pfl_ftrace_conf_wants(&one, self->catalog.events[k].group,
                                             self->catalog.events[k].name);
        if (!is_known)
            pfl_message_text(&s->unknown, STATS_UNKNOWN, s->conf.wishes[i]);
    }
}

/* Where the kernel has the throttled event, it stands for the other. */
static bool wants_event(const struct pfl_ftrace_session *s, const struct pfl_catalog_event *event)
{
    if (s->has_throttled && strcmp(event->group, "kmem") == 0 &&
        strcmp(event->name, "rss_stat") == 0)
        return false;
    if (s->has_throttled && strcmp(event->group, "synthetic") == 0 &&
        strcmp(event->name, "rss_stat_throttled") == 0 &&
        pfl_ftrace_conf_wants(&s->conf, "kmem", "rss_stat"))
        return true;
    return pfl_ftrace_conf_wants(&s->conf, event->group, event->name);
}

static int choose_events(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    int rc = 0;

    s->events = pfl_mem_calloc(self->catalog.count + 1, sizeof(*s->events));
    if (s->events == NULL)
        return PFL_ENOMEM;
    s->has_throttled = s->conf.throttle_rss_stat &&
                       pfl_event_catalog_has(&self->catalog, "synthetic", "rss_stat_throttled");
    for (size_t i = 0; i < self->catalog.count && rc == 0; i++) {
        const struct pfl_catalog_event *event = &self->catalog.events[i];

        if (wants_event(s, event))
            rc = take_event(self, s, i);
    }
    if (rc != 0)
        return rc;
    tell_unknown(self, s);
    s->wanted_ids = self->catalog.ids;
    s->wanted = pfl_mem_zalloc(s->wanted_ids / 8 + 1);
    if (s->wanted == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < s->event_count; i++) {
        uint16_t id = self->catalog.events[s->events[i]].plan->event_id;

        s->wanted[id / 8] |= (uint8_t)(1u << (id % 8));
        s->has_syscalls |= strcmp(self->catalog.events[s->events[i]].group, "raw_syscalls") == 0;
    }
    return 0;
}

/* --- sessions ---------------------------------------------------------------------------- */

/* In the log, and in the trace, where the one who asked sees it. */
static void tell_ignored(struct pfl_ftrace_session *s)
{
    char text[512];

    if (s->conf.ignored == 0)
        return;
    pfl_ftrace_conf_list_ignored(&s->conf, text, sizeof(text));
    pfl_log_warn("ftrace-config-ignored", "fields=\"%s\"", text);
    pfl_message_text(&s->unknown, STATS_SETUP_ERRORS, text);
}

static void tell_unknown_syscalls(struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->conf.unknown_syscall_count; i++)
        pfl_message_text(&s->unknown, STATS_UNKNOWN, s->conf.unknown_syscalls[i]);
}

/* Takes about 0.1 s; kept while a session wants them, or as long as one asked for. */
static int load_ksyms(struct pfl_ftrace *self)
{
    uint8_t piece[16384];
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
    }
    if (fd >= 0)
        close(fd);
    pfl_ksyms_seal(&self->ksyms);
    if (rc != 0)
        pfl_ksyms_fini(&self->ksyms);
    return rc;
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
        pfl_message_text(&s->unknown, STATS_SETUP_ERRORS,
                         "the kernel hides its symbols (kptr_restrict): no names");
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

int pfl_ftrace_open_session(struct pfl_ftrace *self, uint32_t session, struct pfl_span config)
{
    struct pfl_ftrace_session *s = &self->sessions[session];
    int rc;

    pfl_ftrace_close_session(self, session);
    memset(s, 0, sizeof(*s));
    pfl_message_init(&s->unknown, STATS_MAX_BYTES);
    pfl_message_init(&s->stats_before, STATS_MAX_BYTES);
    s->is_open = true;
    rc = pfl_ftrace_conf_parse(config, &s->conf);
    if (rc == 0)
        rc = load_catalog(self);
    if (rc == 0)
        rc = choose_events(self, s);
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

static void switch_events_on(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->event_count; i++) {
        struct pfl_catalog_event *event = &self->catalog.events[s->events[i]];

        if (event->users++ == 0 && pfl_ftrace_instance_switch(self, event, true) != 0)
            tell_event(s, STATS_FAILED, event);
    }
}

static void switch_events_off(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->event_count; i++) {
        struct pfl_catalog_event *event = &self->catalog.events[s->events[i]];

        if (--event->users == 0 && pfl_ftrace_instance_switch(self, event, false) != 0)
            pfl_log_debug("tracefs-event-stays", "name=%s", event->name);
    }
}

static bool has_switch(const struct pfl_ftrace *self, const struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->event_count; i++) {
        if (self->catalog.events[s->events[i]].plan->special == PFL_EVENT_SCHED_SWITCH)
            return true;
    }
    return false;
}

static int start_reader(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    s->cpus = pfl_mem_calloc(self->buffers.count, sizeof(*s->cpus));
    if (s->cpus == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < self->buffers.count; i++) {
        s->cpus[i].cpu = self->buffers.cpus[i].cpu;
        s->cpus[i].previous_end_ns = self->buffers.cpus[i].last_ns;
    }
    s->reader = (struct pfl_page_reader){
        .plans = (const struct pfl_event_plan *const *)self->catalog.by_id,
        .event_ids = s->wanted_ids,
        .wanted = s->wanted,
        .layout = self->catalog.layout,
        /* Compact waking needs the switches to know who wakes. */
        .is_compact = !s->conf.no_compact_sched && has_switch(self, s),
        .is_dense = !s->conf.no_dense,
        .bundle = &self->bundle,
        .pids = s->reader.pids,
        .print_filter = s->conf.print_filter.is_on ? &s->conf.print_filter : NULL,
        .syscalls = s->conf.syscalls.is_on ? &s->conf.syscalls : NULL,
        .symbols = s->ksyms != NULL ? &s->symbols : NULL,
        .on_bundle = pfl_ftrace_packets_bundle,
        .user = s,
    };
    pfl_page_reader_prepare(&s->reader);
    return 0;
}

int pfl_ftrace_start_session(struct pfl_ftrace *self, uint32_t session,
                             struct perfleet_writer *writer)
{
    struct pfl_ftrace_session *s = &self->sessions[session];
    bool is_first = !self->is_running;
    int rc;

    if (!s->is_open || s->is_started)
        return PFL_ESTATE;
    rc = pfl_ftrace_instance_start(self, &s->conf);
    if (rc == 0) {
        pfl_ftrace_drain(self); /* what is there already belongs to the others */
        rc = start_reader(self, s);
    }
    if (rc != 0) {
        pfl_ftrace_close_session(self, session);
        return rc;
    }
    s->writer = writer;
    s->clock = self->clock;
    s->is_started = true;
    if (s->has_syscalls)
        pfl_ftrace_instance_filter_syscalls(self);
    pfl_ftrace_instance_restrict(self, s, is_first);
    pfl_ftrace_packets_add_stats(self, s, PFL_FTRACE_PHASE_START, &s->stats_before);
    switch_events_on(self, s);
    return 0;
}

void pfl_ftrace_set_pids(struct pfl_ftrace *self, uint32_t session, struct pfl_pid_set *pids)
{
    self->sessions[session].reader.pids = pids;
}

static bool has_started_session(const struct pfl_ftrace *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        if (self->sessions[i].is_started)
            return true;
    }
    return false;
}

void pfl_ftrace_close_session(struct pfl_ftrace *self, uint32_t session)
{
    struct pfl_ftrace_session *s = &self->sessions[session];

    if (!s->is_open)
        return;
    if (s->is_started)
        switch_events_off(self, s);
    s->is_started = false;
    s->is_open = false;
    if (s->has_syscalls && has_started_session(self))
        pfl_ftrace_instance_filter_syscalls(self);
    pfl_ksym_set_fini(&s->symbols);
    pfl_ftrace_conf_fini(&s->conf);
    pfl_mem_free(s->events);
    pfl_mem_free(s->wanted);
    pfl_mem_free(s->cpus);
    pfl_message_fini(&s->unknown);
    pfl_message_fini(&s->stats_before);
    memset(s, 0, sizeof(*s));
    if (self->is_running && !has_started_session(self))
        pfl_ftrace_instance_stop(self);
    drop_ksyms(self);
}

/* --- reading ----------------------------------------------------------------------------- */

static void on_pages(void *user, size_t index, struct pfl_span pages)
{
    struct pfl_ftrace *self = user;
    struct pfl_cpu_buffer *cpu = &self->buffers.cpus[index];

    self->pages_read += pages.len / self->buffers.page_bytes;
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct pfl_ftrace_session *s = &self->sessions[i];

        if (!s->is_started)
            continue;
        s->reader.plans = (const struct pfl_event_plan *const *)self->catalog.by_id;
        pfl_page_reader_feed(&s->reader, &s->cpus[index], pages, self->buffers.page_bytes);
        if (s->cpus[index].previous_end_ns > cpu->last_ns)
            cpu->last_ns = s->cpus[index].previous_end_ns;
    }
}

static void tell_read_error(struct pfl_ftrace *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++)
        self->sessions[i].reader.status_seen |= 1u << PFL_PAGE_READ_ERROR;
}

static void forget_symbols(struct pfl_ftrace *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct pfl_ftrace_session *s = &self->sessions[i];

        if (s->is_started && s->ksyms != NULL) {
            pfl_ksym_set_clear(&s->symbols);
            s->has_told_symbols = false;
        }
    }
}

void pfl_ftrace_drain(struct pfl_ftrace *self)
{
    size_t max_pages;

    if (!self->is_running)
        return;
    forget_symbols(self);
    max_pages = (size_t)self->buffer_size_kb * 1024 / self->buffers.page_bytes + 1;
    for (size_t i = 0; i < self->buffers.count; i++) {
        if (!pfl_cpu_buffers_drain(&self->buffers, i, max_pages, on_pages, self))
            tell_read_error(self);
    }
}

size_t pfl_ftrace_get_fds(const struct pfl_ftrace *self, int *ret_fds, size_t max)
{
    size_t count = 0;

    if (!self->is_running || !self->has_poll)
        return 0;
    while (count < self->buffers.count && count < max) {
        ret_fds[count] = self->buffers.cpus[count].fd;
        count++;
    }
    return count;
}

void pfl_ftrace_drain_full(struct pfl_ftrace *self)
{
    uint64_t before = self->pages_read;

    pfl_ftrace_drain(self);
    if (self->pages_read == before)
        self->has_poll = false;
}

void pfl_ftrace_flush_session(struct pfl_ftrace *self, uint32_t session)
{
    struct pfl_ftrace_session *s = &self->sessions[session];
    struct pfl_message now;

    if (!s->is_started)
        return;
    pfl_ftrace_drain(self);
    pfl_message_init(&now, STATS_MAX_BYTES);
    pfl_ftrace_packets_add_stats(self, s, PFL_FTRACE_PHASE_END, &now);
    pfl_ftrace_packets_write_stats(s, &s->stats_before, false);
    pfl_ftrace_packets_write_stats(s, &now, true);
    pfl_message_fini(&now);
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
