/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel can trace.
 *
 * Happy path: the list of names is read once; the first session that wants an event has its format
 * file read and a plan made, which all later sessions share. Failure: a line that is not
 * `group:name` is skipped; an invalid format marks its event as broken. Ownership: the catalog owns
 * the plans until fini; sessions must be gone by then.
 */
#include "agent/probes/kernel_events/event_catalog.h"

#include <stdio.h>

#include "base/mem.h"

static int add_event(struct pfl_event_catalog *self, const uint8_t *line, size_t len)
{
    const uint8_t *colon = memchr(line, ':', len);
    struct pfl_catalog_event *event = &self->events[self->count];
    size_t group_len;

    if (colon == NULL || len >= 2u * PFL_TRACE_NAME_MAX || self->count == PFL_CATALOG_EVENTS_MAX)
        return 0;
    group_len = (size_t)(colon - line);
    event->group = pfl_mem_strndup((const char *)line, len);
    if (event->group == NULL)
        return PFL_ENOMEM;
    event->group[group_len] = '\0';
    event->name = event->group + group_len + 1;
    self->count++;
    return 0;
}

static int read_names(struct pfl_event_catalog *self, struct pfl_span available)
{
    /* Always there, and not in the kernel's list. */
    static const char *const others[] = {"ftrace:print", "ftrace:funcgraph_entry",
                                         "ftrace:funcgraph_exit"};
    struct pfl_reader r = pfl_reader_of(available);
    size_t lines = 4;
    int rc = 0;

    for (size_t i = 0; i < available.len; i++)
        lines += available.data[i] == '\n';
    self->events = pfl_mem_calloc(lines, sizeof(*self->events));
    if (self->events == NULL)
        return PFL_ENOMEM;
    while (rc == 0 && r.left != 0) {
        const uint8_t *end = memchr(r.pos, '\n', r.left);
        size_t len = end != NULL ? (size_t)(end - r.pos) : r.left;

        rc = add_event(self, r.pos, len);
        (void)pfl_reader_bytes(&r, end != NULL ? len + 1 : len);
    }
    for (size_t i = 0; i < 3 && rc == 0; i++)
        rc = add_event(self, (const uint8_t *)others[i], strlen(others[i]));
    return rc;
}

int pfl_event_catalog_init(struct pfl_event_catalog *self, struct pfl_span available,
                           struct pfl_span header_page, struct pfl_span printk)
{
    int rc;

    memset(self, 0, sizeof(*self));
    rc = pfl_trace_page_layout_parse(header_page, &self->layout);
    if (rc == 0)
        rc = read_names(self, available);
    if (rc == 0)
        rc = pfl_printk_formats_init(&self->printk, printk);
    if (rc != 0)
        pfl_event_catalog_fini(self);
    return rc;
}

void pfl_event_catalog_fini(struct pfl_event_catalog *self)
{
    for (size_t i = 0; i < self->count; i++)
        pfl_mem_free(self->events[i].group);
    for (size_t i = 0; i < self->ids; i++)
        pfl_event_plan_free(self->by_id[i]);
    pfl_mem_free(self->events);
    pfl_mem_free(self->by_id);
    pfl_printk_formats_fini(&self->printk);
    memset(self, 0, sizeof(*self));
}

bool pfl_event_catalog_find(const struct pfl_event_catalog *self, const char *group,
                            const char *name, size_t *ret_index)
{
    for (size_t i = 0; i < self->count; i++) {
        if (strcmp(self->events[i].group, group) != 0 || strcmp(self->events[i].name, name) != 0)
            continue;
        if (ret_index != NULL)
            *ret_index = i;
        return true;
    }
    return false;
}

enum pfl_top_event pfl_event_catalog_find_top_event(const struct pfl_catalog_event *event)
{
    static const struct {
        const char *name;
        enum pfl_top_event kind;
    } events[] = {
        {"print", PFL_TOP_EVENT_MARKER},
        {"raw_data", PFL_TOP_EVENT_MARKER},
        {"bprint", PFL_TOP_EVENT_PRINTK},
        {"bputs", PFL_TOP_EVENT_PRINTK},
    };

    if (strcmp(event->group, "ftrace") != 0)
        return PFL_TOP_EVENT_NONE;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (strcmp(event->name, events[i].name) == 0)
            return events[i].kind;
    }
    return PFL_TOP_EVENT_NONE;
}

static int make_room_for_id(struct pfl_event_catalog *self, uint16_t id)
{
    size_t ids = ((size_t)id + 256) & ~(size_t)255;
    struct pfl_event_plan **by_id;

    if (id < self->ids)
        return 0;
    by_id = pfl_mem_realloc(self->by_id, ids * sizeof(*by_id));
    if (by_id == NULL)
        return PFL_ENOMEM;
    memset(by_id + self->ids, 0, (ids - self->ids) * sizeof(*by_id));
    self->by_id = by_id;
    self->ids = ids;
    return 0;
}

int pfl_event_catalog_load(struct pfl_event_catalog *self, size_t index, struct pfl_span format)
{
    struct pfl_catalog_event *event = &self->events[index];
    struct pfl_trace_format *parsed;
    struct pfl_event_plan *plan;
    int rc;

    if (event->plan != NULL)
        return 0;
    parsed = pfl_mem_alloc(sizeof(*parsed));
    if (parsed == NULL)
        return PFL_ENOMEM;
    rc = pfl_trace_format_parse(format, parsed);
    if (rc == 0)
        rc = make_room_for_id(self, parsed->id);
    if (rc == 0 && self->by_id[parsed->id] != NULL)
        rc = PFL_EPARSE;
    if (rc == 0)
        rc = pfl_event_plan_new(event->group, parsed, &self->printk, &plan);
    if (rc == 0) {
        memcpy(plan->address_key, self->address_key, sizeof(plan->address_key));
        self->by_id[plan->event_id] = plan;
        event->plan = plan;
    }
    event->is_broken = rc != 0 && rc != PFL_ENOMEM;
    pfl_mem_free(parsed);
    return rc;
}

/* --- events that come later -------------------------------------------------------------- */

static int add_late(struct pfl_event_catalog *self, const char *group, const char *name)
{
    char line[2 * PFL_TRACE_NAME_MAX];
    int len = snprintf(line, sizeof(line), "%s:%s", group, name);
    struct pfl_catalog_event *grown;
    size_t before = self->count;
    int rc;

    if (len >= (int)sizeof(line) || before == PFL_CATALOG_EVENTS_MAX)
        return PFL_ELIMIT;
    grown = pfl_mem_realloc(self->events, (before + 1) * sizeof(*grown));
    if (grown == NULL)
        return PFL_ENOMEM;
    self->events = grown;
    memset(&grown[before], 0, sizeof(*grown));
    rc = add_event(self, (const uint8_t *)line, (size_t)len);
    if (rc == 0 && self->count != before)
        self->events[before].is_late = true;
    return rc;
}

static void drop_plan(struct pfl_event_catalog *self, struct pfl_catalog_event *event)
{
    uint16_t id = event->plan->event_id;

    pfl_event_plan_free(self->by_id[id]);
    self->by_id[id] = NULL;
    event->plan = NULL;
}

static void drop_holder_of_id(struct pfl_event_catalog *self, uint16_t id)
{
    for (size_t i = 0; i < self->count; i++) {
        struct pfl_catalog_event *event = &self->events[i];

        if (event->plan != NULL && event->plan->event_id == id && event->is_late)
            drop_plan(self, event);
    }
}

static int find_id(struct pfl_span format, uint16_t *ret_id)
{
    struct pfl_trace_format *parsed = pfl_mem_alloc(sizeof(*parsed));
    int rc = parsed == NULL ? PFL_ENOMEM : pfl_trace_format_parse(format, parsed);

    if (rc == 0)
        *ret_id = parsed->id;
    pfl_mem_free(parsed);
    return rc;
}

int pfl_event_catalog_add(struct pfl_event_catalog *self, const char *group, const char *name,
                          struct pfl_span format, size_t *ret_index)
{
    uint16_t id = 0;
    size_t index = 0;
    int rc = find_id(format, &id);

    if (rc == 0 && !pfl_event_catalog_find(self, group, name, &index)) {
        rc = add_late(self, group, name);
        index = self->count - 1;
    }
    if (rc != 0)
        return rc;
    if (self->events[index].is_late) {
        drop_holder_of_id(self, id);
        if (self->events[index].plan != NULL)
            drop_plan(self, &self->events[index]);
        self->events[index].is_broken = false;
    }
    rc = pfl_event_catalog_load(self, index, format);
    if (rc == 0)
        *ret_index = index;
    return rc;
}
