/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel can trace.
 *
 * Happy path: the list of names is read once; the first session that wants an event has its
 * format file read and a plan made, which all later sessions share.
 * Failure: a line that is not `group:name` is skipped; a format that makes no sense marks its
 * event as broken.
 * Ownership: the catalog owns the plans until fini; sessions must be gone by then.
 */
#include "agent/probes/event_catalog.h"

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
    static const char print[] = "ftrace:print"; /* always there, and not in the kernel's list */
    struct pfl_reader r = pfl_reader_of(available);
    size_t lines = 2;
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
    return rc != 0 ? rc : add_event(self, (const uint8_t *)print, sizeof(print) - 1);
}

int pfl_event_catalog_init(struct pfl_event_catalog *self, struct pfl_span available,
                           struct pfl_span header_page, struct pfl_span printk)
{
    int rc;

    memset(self, 0, sizeof(*self));
    rc = pfl_page_layout_parse(header_page, &self->layout);
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

bool pfl_event_catalog_has(const struct pfl_event_catalog *self, const char *group,
                           const char *name)
{
    for (size_t i = 0; i < self->count; i++) {
        if (strcmp(self->events[i].group, group) == 0 && strcmp(self->events[i].name, name) == 0)
            return true;
    }
    return false;
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
