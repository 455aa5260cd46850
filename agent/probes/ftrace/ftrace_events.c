/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a session: from the config's patterns to event ids in the kernel's buffers.
 *
 * Happy path: choose walks the catalog and makes plans; prepare defines the session's kprobes
 * (events/perfetto_kprobes/<function>, noted in the undo log) and notes which ids are wanted; the
 * switches are counted by the instance. Failure: FtraceStats names an event that the kernel does
 * not have or refuses; the rest is recorded. Limits: a kprobe belongs to the whole kernel: if
 * another program uses it at the end, it stays.
 */
#include "agent/probes/ftrace/ftrace_events.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"
#include "perfetto/ftrace_events.fields.h"

#define FILE_MAX_BYTES   (4u * 1024u * 1024u)
#define KRETPROBE_ACTIVE "1024" /* concurrent calls */

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

static int read_format(struct pfl_ftrace *self, const char *group, const char *name)
{
    char path[3 * PFL_TRACE_NAME_MAX];

    (void)snprintf(path, sizeof(path), "events/%.64s/%.64s/format", group, name);
    return pfl_tracefs_read(self->fs.root_fd, path, &self->scratch);
}

static int load_event(struct pfl_ftrace *self, size_t index)
{
    const struct pfl_catalog_event *event = &self->catalog.events[index];
    int rc;

    if (event->plan != NULL)
        return 0;
    if (event->is_broken)
        return PFL_EPARSE;
    rc = read_format(self, event->group, event->name);
    if (rc != 0)
        return rc;
    return pfl_event_catalog_load(&self->catalog, index, pfl_buf_get(&self->scratch));
}

static void tell(struct pfl_ftrace_session *s, uint32_t field, const char *group, const char *name)
{
    char text[2 * PFL_TRACE_NAME_MAX + 2];

    (void)snprintf(text, sizeof(text), "%.64s/%.64s", group, name);
    pfl_probe_message_text(&s->unknown, field, text);
}

/* --- patterns ---------------------------------------------------------------------------- */

static int add_event(struct pfl_ftrace_session *s, size_t index)
{
    uint16_t *grown = pfl_mem_realloc(s->events, (s->event_count + 1) * sizeof(*grown));

    if (grown == NULL)
        return PFL_ENOMEM;
    s->events = grown;
    grown[s->event_count++] = (uint16_t)index;
    return 0;
}

static int take_event(struct pfl_ftrace *self, struct pfl_ftrace_session *s, size_t index)
{
    const struct pfl_catalog_event *event = &self->catalog.events[index];
    int rc = load_event(self, index);

    if (rc == PFL_ENOMEM)
        return rc;
    if (rc != 0) {
        tell(s, FTRACE_STATS__FAILED_FTRACE_EVENTS, event->group, event->name);
        return 0;
    }
    if (s->conf.no_generic_events && pfl_event_plan_is_generic(event->plan))
        return 0;
    return add_event(s, index);
}

/* An event that a module or an administrator has made since the catalog was read. */
static int add_late_event(struct pfl_ftrace *self, const char *wish)
{
    const char *slash = strpbrk(wish, "/:");
    char group[PFL_TRACE_NAME_MAX];
    size_t index;
    int rc;

    if (slash == NULL || slash == wish || (size_t)(slash - wish) >= sizeof(group) ||
        strchr(slash + 1, '/') != NULL || strchr(wish, '*') != NULL || wish[0] == '.' ||
        slash[1] == '.' || slash[1] == '\0')
        return 0;
    memcpy(group, wish, (size_t)(slash - wish));
    group[slash - wish] = '\0';
    if (pfl_event_catalog_find(&self->catalog, group, slash + 1, NULL) ||
        read_format(self, group, slash + 1) != 0)
        return 0;
    rc = pfl_event_catalog_add(&self->catalog, group, slash + 1, pfl_buf_get(&self->scratch),
                               &index);
    return rc == PFL_ENOMEM ? rc : 0;
}

static bool is_reserved(const char *wish)
{
    return strncmp(wish, PFL_KPROBE_GROUP, strlen(PFL_KPROBE_GROUP)) == 0 ||
           strncmp(wish, PFL_KRETPROBE_GROUP, strlen(PFL_KRETPROBE_GROUP)) == 0;
}

/* Reports patterns without a single event, which are often typing errors. */
static void tell_unknown(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->conf.wanted_count; i++) {
        struct pfl_ftrace_conf one = {.wanted = &s->conf.wanted[i], .wanted_count = 1};
        bool is_known = is_reserved(s->conf.wanted[i]);

        for (size_t k = 0; k < self->catalog.count && !is_known; k++)
            is_known = pfl_ftrace_conf_wants(&one, self->catalog.events[k].group,
                                             self->catalog.events[k].name);
        if (!is_known)
            pfl_probe_message_text(&s->unknown, FTRACE_STATS__UNKNOWN_FTRACE_EVENTS,
                                   s->conf.wanted[i]);
    }
}

/* If the kernel has the throttled event, it replaces the other. */
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

int pfl_ftrace_events_choose(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    int rc = load_catalog(self);

    for (size_t i = 0; i < s->conf.wanted_count && rc == 0; i++)
        rc = add_late_event(self, s->conf.wanted[i]);
    if (rc == 0 && s->conf.throttle_rss_stat)
        rc = add_late_event(self, "synthetic/rss_stat_throttled");
    if (rc != 0)
        return rc;
    s->has_throttled =
        s->conf.throttle_rss_stat && pfl_ftrace_conf_wants(&s->conf, "kmem", "rss_stat") &&
        pfl_event_catalog_find(&self->catalog, "synthetic", "rss_stat_throttled", NULL);
    for (size_t i = 0; i < self->catalog.count && rc == 0; i++) {
        if (wants_event(s, &self->catalog.events[i]))
            rc = take_event(self, s, i);
    }
    if (rc == 0)
        tell_unknown(self, s);
    return rc;
}

/* --- kprobes ----------------------------------------------------------------------------- */

static bool is_function_name(const char *name)
{
    for (size_t i = 0; name[i] != '\0'; i++) {
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    }
    return name[0] != '\0' && strlen(name) < PFL_TRACE_NAME_MAX;
}

/* 0 also if it exists already: another program uses it, or left it. */
static int define_kprobe(struct pfl_ftrace *self, struct pfl_ftrace_session *s,
                         const struct pfl_ftrace_kprobe *probe, const char *group)
{
    char text[4 * PFL_TRACE_NAME_MAX];
    int rc;

    (void)snprintf(text, sizeof(text), "-:%s/%s", group, probe->name);
    rc = pfl_undo_add(&self->undo, s->main.in, PFL_UNDO_APPEND, "kprobe_events", text);
    if (rc != 0)
        return rc;
    (void)snprintf(text, sizeof(text), "%s:%s/%s %s", probe->is_return ? "r" KRETPROBE_ACTIVE : "p",
                   group, probe->name, probe->name);
    rc = pfl_tracefs_append(self->fs.root_fd, "kprobe_events", text);
    return rc != 0 && errno == EEXIST ? 0 : rc;
}

static int take_kprobe(struct pfl_ftrace *self, struct pfl_ftrace_session *s,
                       const struct pfl_ftrace_kprobe *probe)
{
    const char *group = probe->is_return ? PFL_KRETPROBE_GROUP : PFL_KPROBE_GROUP;
    size_t index;
    int rc;

    if (!is_function_name(probe->name) || define_kprobe(self, s, probe, group) != 0) {
        pfl_log_info("kprobe-refused", "name=%s errno=%d", pfl_log_quote_str(probe->name), errno);
        tell(s, FTRACE_STATS__FAILED_FTRACE_EVENTS, group, probe->name);
        return 0;
    }
    rc = read_format(self, group, probe->name);
    if (rc == 0)
        rc = pfl_event_catalog_add(&self->catalog, group, probe->name, pfl_buf_get(&self->scratch),
                                   &index);
    if (rc == PFL_ENOMEM)
        return rc;
    if (rc != 0) {
        tell(s, FTRACE_STATS__UNKNOWN_FTRACE_EVENTS, group, probe->name);
        return 0;
    }
    return add_event(s, index);
}

/* Types by event id, for the reader. */
static void note_kprobe_types(const struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->conf.kprobe_count; i++) {
        const struct pfl_ftrace_kprobe *probe = &s->conf.kprobes[i];
        size_t index;

        if (pfl_event_catalog_find(&self->catalog,
                                   probe->is_return ? PFL_KRETPROBE_GROUP : PFL_KPROBE_GROUP,
                                   probe->name, &index) &&
            self->catalog.events[index].plan != NULL)
            s->kprobe_types[self->catalog.events[index].plan->event_id] = (uint8_t)probe->type;
    }
}

/* --- the session's start and end --------------------------------------------------------- */

/* The kernel has the event, but may not take the trigger that makes it. */
static int judge_throttle(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    size_t throttled;
    size_t plain;
    int rc = 0;

    if (!s->has_throttled ||
        !pfl_event_catalog_find(&self->catalog, "synthetic", "rss_stat_throttled", &throttled) ||
        !pfl_event_catalog_find(&self->catalog, "kmem", "rss_stat", &plain) ||
        pfl_ftrace_instance_can_trigger(s->main.in, "rss_stat_throttled"))
        return 0;
    for (size_t i = 0; i < s->event_count && rc == 0; i++) {
        if (s->events[i] == throttled) {
            rc = load_event(self, plain);
            s->events[i] = rc == 0 ? (uint16_t)plain : s->events[i];
        }
    }
    return rc;
}

static int note_wanted(const struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    s->wanted_ids = self->catalog.ids;
    s->main.wanted = pfl_mem_zalloc(s->wanted_ids / 8 + 1);
    if (s->conf.kprobe_count != 0)
        s->kprobe_types = pfl_mem_zalloc(s->wanted_ids + 1);
    if (s->main.wanted == NULL || (s->conf.kprobe_count != 0 && s->kprobe_types == NULL))
        return PFL_ENOMEM;
    for (size_t i = 0; i < s->event_count; i++) {
        const struct pfl_catalog_event *event = &self->catalog.events[s->events[i]];

        if (event->plan == NULL)
            continue; /* gone since the session was set up */
        s->main.wanted[event->plan->event_id / 8] |= (uint8_t)(1u << (event->plan->event_id % 8));
        s->has_syscalls |= strcmp(event->group, "raw_syscalls") == 0;
    }
    note_kprobe_types(self, s);
    return 0;
}

int pfl_ftrace_events_prepare(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    int rc = judge_throttle(self, s);

    for (size_t i = 0; i < s->conf.kprobe_count && rc == 0; i++)
        rc = take_kprobe(self, s, &s->conf.kprobes[i]);
    return rc != 0 ? rc : note_wanted(self, s);
}

static bool is_in(const uint8_t *wanted, const struct pfl_catalog_event *event)
{
    return wanted != NULL && event->plan != NULL &&
           (wanted[event->plan->event_id / 8] >> (event->plan->event_id % 8) & 1) != 0;
}

static bool is_missing(const struct pfl_ftrace_session *s, const struct pfl_catalog_event *event)
{
    enum pfl_top_event kind = pfl_event_catalog_find_top_event(event);

    return is_in(s->main.wanted, event) &&
           (kind == PFL_TOP_EVENT_PRINTK ||
            (kind == PFL_TOP_EVENT_MARKER && !pfl_ftrace_instance_has_markers(s->main.in)));
}

int pfl_ftrace_events_split(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->event_count && pfl_ftrace_instance_is_own(s->main.in); i++) {
        const struct pfl_catalog_event *event = &self->catalog.events[s->events[i]];
        uint8_t bit;

        if (!is_missing(s, event))
            continue;
        if (s->markers.wanted == NULL)
            s->markers.wanted = pfl_mem_zalloc(s->wanted_ids / 8 + 1);
        if (s->markers.wanted == NULL)
            return PFL_ENOMEM;
        bit = (uint8_t)(1u << (event->plan->event_id % 8));
        s->markers.wanted[event->plan->event_id / 8] |= bit;
        s->main.wanted[event->plan->event_id / 8] &= (uint8_t)~bit;
    }
    return 0;
}

void pfl_ftrace_events_refuse_markers(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->event_count; i++) {
        const struct pfl_catalog_event *event = &self->catalog.events[s->events[i]];

        if (is_in(s->markers.wanted, event))
            tell(s, FTRACE_STATS__FAILED_FTRACE_EVENTS, event->group, event->name);
        else
            s->events[kept++] = s->events[i];
    }
    s->event_count = kept;
    pfl_mem_free(s->markers.wanted);
    s->markers.wanted = NULL;
}

void pfl_ftrace_events_switch_on(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->event_count; i++) {
        const struct pfl_catalog_event *event = &self->catalog.events[s->events[i]];

        if (!is_in(s->markers.wanted, event) &&
            pfl_ftrace_instance_switch_on(s->main.in, &self->host, &self->catalog, s->events[i]) !=
                0)
            tell(s, FTRACE_STATS__FAILED_FTRACE_EVENTS, event->group, event->name);
    }
}

void pfl_ftrace_events_switch_off(struct pfl_ftrace *self, struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->event_count; i++) {
        if (!is_in(s->markers.wanted, &self->catalog.events[s->events[i]]))
            pfl_ftrace_instance_switch_off(s->main.in, &self->catalog, s->events[i]);
    }
}

bool pfl_ftrace_events_has_switch(const struct pfl_ftrace *self, const struct pfl_ftrace_session *s)
{
    for (size_t i = 0; i < s->event_count; i++) {
        const struct pfl_event_plan *plan = self->catalog.events[s->events[i]].plan;

        if (plan != NULL && plan->special == PFL_EVENT_SCHED_SWITCH)
            return true;
    }
    return false;
}
