/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pages for one session.
 *
 * Happy path: for every record of every page, check whether its event is wanted. Switch and waking
 * are added to the columns, others are encoded by their plan; threads that are new in this bundle
 * are added to the pid set. A bundle ends when it is full, before a page that follows a loss, and
 * at the end of the pages.
 *
 * Failure: malformed bytes end their page; the bundle then has time and error
 * (FtraceEventBundle.error), and the next page is read. A record shorter than its format is treated
 * alike. Nothing here fails the session.
 */
#include "agent/probes/kernel_events/page_reader.h"

#include "agent/probes/kernel_events/bundle_rows.h"

static void end_bundle(struct pfl_page_reader *self)
{
    struct pfl_span parts[PFL_BUNDLE_PARTS_MAX];
    uint64_t bytes = 0;
    size_t count;

    if (!self->bundle->is_open)
        return;
    if (pfl_bundle_is_empty(self->bundle)) {
        self->bundle->is_open = false;
        return;
    }
    count = pfl_bundle_end(self->bundle, parts);
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].len;
    self->on_bundle(self->user, parts, count, bytes);
}

static void begin_bundle(struct pfl_page_reader *self, struct pfl_page_cpu *cpu, bool has_lost)
{
    end_bundle(self);
    self->bundle->is_dense = self->is_dense;
    pfl_bundle_begin(self->bundle, cpu->cpu, has_lost, cpu->previous_end_ns);
}

static void tell_error(struct pfl_page_reader *self, struct pfl_page_cpu *cpu,
                       uint64_t timestamp_ns, enum pfl_page_status status)
{
    self->status_seen |= 1u << status;
    if (!self->bundle->is_open || pfl_bundle_is_full(self->bundle))
        begin_bundle(self, cpu, false);
    pfl_bundle_add_error(self->bundle, timestamp_ns, status);
}

static inline void meet_pid(struct pfl_page_reader *self, int32_t pid)
{
    if (pid != 0 && self->pids != NULL)
        (void)pfl_pid_set_add(self->pids, pid);
}

static bool is_filtered_out(const struct pfl_page_reader *self, const struct pfl_event_plan *plan,
                            const struct pfl_trace_record *record)
{
    uint16_t offset = plan->special_offsets[0];
    int64_t number;

    if (plan->special == PFL_EVENT_PRINT && self->print_filter != NULL)
        return !pfl_print_filter_allows(self->print_filter,
                                        pfl_span_of(record->data + offset, record->len - offset));
    if (plan->special == PFL_EVENT_SYSCALL && self->syscalls != NULL) {
        memcpy(&number, record->data + offset, sizeof(number));
        return !pfl_syscall_filter_takes(self->syscalls, number);
    }
    return false;
}

static void meet_addresses(struct pfl_page_reader *self, const struct pfl_event_plan *plan,
                           const struct pfl_trace_record *record)
{
    for (uint16_t i = 0; i < plan->step_count; i++) {
        uint64_t address;

        if (plan->steps[i].kind != PFL_TRACE_ADDRESS)
            continue;
        memcpy(&address, record->data + plan->steps[i].offset, sizeof(address));
        if (address >> 63 != 0)
            pfl_ksym_set_add(self->symbols, address);
    }
}

static void meet_file(struct pfl_page_reader *self, const struct pfl_event_plan *plan,
                      const struct pfl_trace_record *record)
{
    int64_t number;
    int64_t result;

    if (plan->special != PFL_EVENT_SYSCALL || plan->special_offsets[1] == 0)
        return;
    memcpy(&number, record->data + plan->special_offsets[0], sizeof(number));
    memcpy(&result, record->data + plan->special_offsets[1], sizeof(result));
    if (pfl_syscall_opens_file(number))
        pfl_open_files_meet(self->files, pfl_event_read_i32(record, plan->pid_offset), result);
}

static bool write_event(struct pfl_page_reader *self, const struct pfl_event_plan *plan,
                        const struct pfl_trace_record *record)
{
    if (plan->special != PFL_EVENT_KPROBE)
        return pfl_bundle_add_event(self->bundle, plan, record);
    return pfl_bundle_add_kprobe(self->bundle, plan, record,
                                 self->kprobe_types != NULL ? self->kprobe_types[record->event_id]
                                                            : 0);
}

static void add_plain(struct pfl_page_reader *self, const struct pfl_event_plan *plan,
                      const struct pfl_trace_record *record)
{
    if (is_filtered_out(self, plan, record))
        return;
    if (!write_event(self, plan, record)) {
        self->status_seen |= 1u << PFL_PAGE_BAD_EVENT;
        return;
    }
    if (self->symbols != NULL && plan->has_address)
        meet_addresses(self, plan, record);
    if (self->files != NULL)
        meet_file(self, plan, record);
    if (self->pids == NULL)
        return;
    if (plan->special == PFL_EVENT_TASK_RENAME)
        pfl_pid_set_remove(self->pids, pfl_event_read_i32(record, plan->special_offsets[0]));
    meet_pid(self, pfl_event_read_i32(record, plan->pid_offset));
}

static void add_record(struct pfl_page_reader *self, const struct pfl_event_plan *plan,
                       const struct pfl_trace_record *record)
{
    const struct pfl_bundle_known *fresh = NULL;

    self->events++;
    if (self->is_compact && plan->special == PFL_EVENT_SCHED_SWITCH)
        fresh = pfl_row_add_switch(self->bundle, plan, record->data, record->timestamp_ns);
    else if (self->is_compact && plan->special == PFL_EVENT_SCHED_WAKING)
        fresh = pfl_row_add_waking(self->bundle, plan, record->data, record->timestamp_ns);
    else
        add_plain(self, plan, record);
    if (fresh != NULL)
        meet_pid(self, fresh->pid);
}

static inline const struct pfl_event_plan *find_plan(const struct pfl_page_reader *self,
                                                     uint16_t id)
{
    if (id >= self->event_ids || (self->wanted[id / 8] >> (id % 8) & 1) == 0)
        return NULL;
    return self->plans[id];
}

/* Rows that fit whatever they are. */
static uint32_t count_free_rows(const struct pfl_bundle *bundle)
{
    uint32_t used = bundle->rows[0] > bundle->rows[1] ? bundle->rows[0] : bundle->rows[1];

    return pfl_bundle_is_full(bundle) ? 0 : PFL_BUNDLE_ROWS_MAX - used;
}

/* Reads scheduler events as long as there is nothing else: most pages are read here alone. Stops
 * at the first record that is anything else, which is left for the caller. */
static void read_rows(struct pfl_page_reader *self, struct pfl_page_cpu *cpu,
                      struct pfl_trace_page *page)
{
    const struct pfl_event_plan *const sw = self->switch_plan;
    const struct pfl_event_plan *const wk = self->waking_plan;
    const uint32_t sw_id = sw != NULL ? sw->event_id : UINT32_MAX;
    const uint32_t wk_id = wk != NULL ? wk->event_id : UINT32_MAX;
    const uint8_t *pos = page->pos;
    uint64_t now_ns = page->timestamp_ns;
    uint32_t before = self->bundle->rows[0] + self->bundle->rows[1];
    uint32_t left = count_free_rows(self->bundle);
    uint32_t added;

    while (left != 0 && page->end - pos >= 8) {
        uint32_t header;
        uint32_t len;
        uint16_t id;
        const struct pfl_bundle_known *fresh;

        memcpy(&header, pos, sizeof(header));
        memcpy(&id, pos + 4, sizeof(id));
        len = 4 * (header & 31);
        if (len > 4 * 28 || (size_t)(page->end - pos) < len + 4)
            break;
        if (id == sw_id && len >= sw->fixed_bytes)
            fresh = pfl_row_add_switch(self->bundle, sw, pos + 4, now_ns + (header >> 5));
        else if (id == wk_id && len >= wk->fixed_bytes)
            fresh = pfl_row_add_waking(self->bundle, wk, pos + 4, now_ns + (header >> 5));
        else
            break;
        now_ns += header >> 5;
        pos += 4 + len;
        left--;
        if (__builtin_expect(fresh != NULL, 0)) {
            meet_pid(self, fresh->pid);
            left = count_free_rows(self->bundle);
        }
    }
    added = self->bundle->rows[0] + self->bundle->rows[1] - before;
    if (added != 0)
        cpu->previous_end_ns = now_ns;
    self->events += added;
    page->pos = pos;
    page->timestamp_ns = now_ns;
}

static void read_page(struct pfl_page_reader *self, struct pfl_page_cpu *cpu,
                      struct pfl_trace_page *page)
{
    bool has_rows = self->is_compact && (self->switch_plan != NULL || self->waking_plan != NULL);
    struct pfl_trace_record record;

    for (;;) {
        const struct pfl_event_plan *plan;

        if (has_rows)
            read_rows(self, cpu, page);
        if (!pfl_trace_page_next(page, &record))
            return;
        plan = find_plan(self, record.event_id);
        if (plan == NULL)
            continue;
        if (record.len < plan->fixed_bytes) {
            page->status = PFL_PAGE_BAD_EVENT;
            return;
        }
        if (pfl_bundle_is_full(self->bundle))
            begin_bundle(self, cpu, false);
        add_record(self, plan, &record);
        cpu->previous_end_ns = record.timestamp_ns;
    }
}

void pfl_page_reader_prepare(struct pfl_page_reader *self)
{
    self->switch_plan = NULL;
    self->waking_plan = NULL;
    for (size_t id = 0; id < self->event_ids; id++) {
        const struct pfl_event_plan *plan = find_plan(self, (uint16_t)id);

        if (plan != NULL && plan->special == PFL_EVENT_SCHED_SWITCH)
            self->switch_plan = plan;
        else if (plan != NULL && plan->special == PFL_EVENT_SCHED_WAKING)
            self->waking_plan = plan;
    }
}

void pfl_page_reader_feed(struct pfl_page_reader *self, struct pfl_page_cpu *cpu,
                          struct pfl_span pages, size_t page_bytes)
{
    struct pfl_trace_page page;

    for (size_t at = 0; at < pages.len; at += page_bytes) {
        size_t len = pages.len - at < page_bytes ? pages.len - at : page_bytes;
        bool is_good = pfl_trace_page_init(&page, pfl_span_of(pages.data + at, len), self->layout);
        uint64_t page_ns = page.timestamp_ns;

        if (!is_good) {
            tell_error(self, cpu, page_ns, page.status);
            continue;
        }
        if (page.has_lost || !self->bundle->is_open)
            begin_bundle(self, cpu, page.has_lost);
        read_page(self, cpu, &page);
        if (page.status != PFL_PAGE_OK)
            tell_error(self, cpu, page_ns, page.status);
    }
    end_bundle(self);
}
