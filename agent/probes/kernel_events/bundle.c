/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds FtraceEventBundle messages.
 *
 * Happy path: begin; add records; end gives the message in pieces, ready for the wire:
 *
 *     head      cpu, lost_events, previous_bundle_end_timestamp
 *     events    FtraceEvent messages as the plan wrote them
 *     compact   tag and length, names, then one packed field a column
 *
 * Compact form: timestamps are differences to the row before (the first is absolute); a name is an
 * index into the bundle's own table. `known` remembers by pid which name it had, so that most rows
 * (bundle_rows.h) need one comparison of 16 bytes; a changed or new one goes through a hash.
 * Failure: only memory at init; callers check is_full before they add. Ownership: one block of
 * memory holds all pieces; it is touched only as far as it is used. Limits: PFL_BUNDLE_*.
 */
#include "agent/probes/kernel_events/bundle.h"

#include "base/mem.h"
#include "perfetto/ftrace_events.fields.h"

#define SLOT_COUNT    2048u /* a power of two, more than names */
#define COMM_BYTES    16u
#define COLUMN_HEADER 16u
/* Not a multiple of 4096, so that columns do not fight for the same lines of the cache. */
#define COLUMN_BYTES ((size_t)PFL_BUNDLE_ROWS_MAX * 10 + 448 + COLUMN_HEADER)
#define NAMES_BYTES  ((size_t)PFL_BUNDLE_NAMES_MAX * (COMM_BYTES + 2))
#define ERROR_BYTES  64u

static const uint8_t column_fields[PFL_BUNDLE_COLUMNS] = {
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__SWITCH_TIMESTAMP,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__SWITCH_PREV_STATE,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__SWITCH_NEXT_PID,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__SWITCH_NEXT_PRIO,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__SWITCH_NEXT_COMM_INDEX,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__WAKING_TIMESTAMP,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__WAKING_PID,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__WAKING_TARGET_CPU,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__WAKING_PRIO,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__WAKING_COMM_INDEX,
    FTRACE_EVENT_BUNDLE__COMPACT_SCHED__WAKING_COMMON_FLAGS,
};

int pfl_bundle_init(struct pfl_bundle *self, size_t page_bytes)
{
    /* Worst case of one record behind the mark: generic fields, each a name and a text. */
    size_t record_room = page_bytes * (PFL_TRACE_FIELDS_MAX + 1) +
                         (size_t)PFL_TRACE_FIELDS_MAX * 2 * PFL_TRACE_NAME_MAX + 4096;
    uint8_t *p;

    memset(self, 0, sizeof(*self));
    self->events_room = PFL_BUNDLE_EVENTS_MAX + record_room;
    self->memory =
        pfl_mem_alloc(self->events_room + NAMES_BYTES + PFL_BUNDLE_COLUMNS * COLUMN_BYTES);
    self->known = pfl_mem_calloc(PFL_BUNDLE_KNOWN, sizeof(*self->known));
    self->comms = pfl_mem_calloc(PFL_BUNDLE_NAMES_MAX, COMM_BYTES);
    self->slots = pfl_mem_calloc(SLOT_COUNT, sizeof(*self->slots));
    if (self->memory == NULL || self->known == NULL || self->comms == NULL || self->slots == NULL) {
        pfl_bundle_fini(self);
        return PFL_ENOMEM;
    }
    p = self->memory;
    self->events = p;
    p += self->events_room;
    self->names = p;
    p += NAMES_BYTES;
    for (size_t i = 0; i < PFL_BUNDLE_COLUMNS; i++) {
        self->columns[i].start = p + COLUMN_HEADER;
        p += COLUMN_BYTES;
    }
    return 0;
}

void pfl_bundle_fini(struct pfl_bundle *self)
{
    pfl_mem_free(self->memory);
    pfl_mem_free(self->known);
    pfl_mem_free(self->comms);
    pfl_mem_free(self->slots);
    memset(self, 0, sizeof(*self));
}

void pfl_bundle_begin(struct pfl_bundle *self, uint32_t cpu, bool has_lost,
                      uint64_t previous_end_ns)
{
    self->generation++;
    if (self->name_count != 0)
        memset(self->slots, 0, SLOT_COUNT * sizeof(*self->slots));
    self->events_pos = self->events;
    self->names_pos = self->names;
    self->name_count = 0;
    self->described_count = 0;
    for (size_t i = 0; i < PFL_BUNDLE_COLUMNS; i++)
        self->columns[i].pos = self->columns[i].start;
    memset(self->rows, 0, sizeof(self->rows));
    memset(self->last_ns, 0, sizeof(self->last_ns));
    self->cpu = cpu;
    self->has_lost = has_lost;
    self->previous_end_ns = previous_end_ns;
    self->is_open = true;
}

static struct pfl_span end_column(struct pfl_bundle_column *column, uint8_t field)
{
    size_t len = (size_t)(column->pos - column->start);
    size_t header = 1 + pfl_varint_size(len);

    column->start[-(ptrdiff_t)header] = (uint8_t)(field << 3 | PFL_WIRE_BYTES);
    (void)pfl_varint_put(column->start - header + 1, len);
    return pfl_span_of(column->start - header, header + len);
}

static size_t end_compact(struct pfl_bundle *self, struct pfl_span *ret_parts)
{
    struct pfl_writer w = pfl_writer_of(self->compact_head, sizeof(self->compact_head));
    size_t total = (size_t)(self->names_pos - self->names);
    size_t n = 1;

    ret_parts[n++] = pfl_span_of(self->names, total);
    for (size_t i = 0; i < PFL_BUNDLE_COLUMNS; i++) {
        if (self->rows[i < PFL_WAKING_TIME ? PFL_ROW_SWITCH : PFL_ROW_WAKING] == 0)
            continue;
        ret_parts[n] = end_column(&self->columns[i], column_fields[i]);
        total += ret_parts[n++].len;
    }
    pfl_writer_field_header(&w, FTRACE_EVENT_BUNDLE__COMPACT_SCHED, total);
    ret_parts[0] = pfl_span_of(self->compact_head, sizeof(self->compact_head) - w.left);
    return n;
}

size_t pfl_bundle_end(struct pfl_bundle *self, struct pfl_span ret_parts[PFL_BUNDLE_PARTS_MAX])
{
    struct pfl_writer w = pfl_writer_of(self->head, sizeof(self->head));
    size_t n = 0;

    pfl_writer_field_varint(&w, FTRACE_EVENT_BUNDLE__CPU, self->cpu);
    if (self->has_lost)
        pfl_writer_field_varint(&w, FTRACE_EVENT_BUNDLE__LOST_EVENTS, 1);
    pfl_writer_field_varint(&w, FTRACE_EVENT_BUNDLE__PREVIOUS_BUNDLE_END_TIMESTAMP,
                            self->previous_end_ns);
    ret_parts[n++] = pfl_span_of(self->head, sizeof(self->head) - w.left);
    if (self->events_pos != self->events)
        ret_parts[n++] = pfl_span_of(self->events, (size_t)(self->events_pos - self->events));
    if (self->rows[PFL_ROW_SWITCH] != 0 || self->rows[PFL_ROW_WAKING] != 0)
        n += end_compact(self, &ret_parts[n]);
    self->is_open = false;
    return n;
}

/* A bundle explains its numbers itself. When there are too many, some are explained again. */
static void describe_once(struct pfl_bundle *self, const struct pfl_event_plan *plan)
{
    for (uint32_t i = 0; i < self->described_count; i++) {
        if (self->described[i] == plan->event_id)
            return;
    }
    if (self->described_count == PFL_BUNDLE_DESCRIBED)
        self->described_count = 0;
    self->described[self->described_count++] = plan->event_id;
    memcpy(self->events_pos, plan->descriptor, plan->descriptor_bytes);
    self->events_pos += plan->descriptor_bytes;
}

static bool has_room(const struct pfl_bundle *self, const struct pfl_event_plan *plan,
                     const struct pfl_trace_record *record)
{
    size_t used = (size_t)(self->events_pos - self->events);

    return pfl_event_plan_max_bytes(plan, record) + plan->descriptor_bytes + ERROR_BYTES <=
           self->events_room - used;
}

bool pfl_bundle_add_kprobe(struct pfl_bundle *self, const struct pfl_event_plan *plan,
                           const struct pfl_trace_record *record, uint32_t type)
{
    if (!has_room(self, plan, record))
        return false;
    self->events_pos = pfl_event_plan_encode_kprobe(plan, record, type, self->events_pos);
    return true;
}

bool pfl_bundle_add_event(struct pfl_bundle *self, const struct pfl_event_plan *plan,
                          const struct pfl_trace_record *record)
{
    if (!has_room(self, plan, record))
        return false;
    if (self->is_dense && plan->descriptor != NULL)
        describe_once(self, plan);
    self->events_pos = pfl_event_plan_encode(plan, record, self->is_dense, self->events_pos);
    return true;
}

void pfl_bundle_add_error(struct pfl_bundle *self, uint64_t timestamp_ns,
                          enum pfl_page_status status)
{
    size_t used = (size_t)(self->events_pos - self->events);
    struct pfl_writer w = pfl_writer_of(self->events_pos, self->events_room - used);
    uint8_t body[24];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));

    pfl_writer_field_varint(&b, FTRACE_EVENT_BUNDLE__FTRACE_ERROR__TIMESTAMP, timestamp_ns);
    pfl_writer_field_varint(&b, FTRACE_EVENT_BUNDLE__FTRACE_ERROR__STATUS, status);
    pfl_writer_field_bytes(&w, FTRACE_EVENT_BUNDLE__ERROR, body, sizeof(body) - b.left);
    if (!w.failed)
        self->events_pos = w.pos;
}

static void add_name(struct pfl_bundle *self, const uint64_t comm[2])
{
    size_t len = strnlen((const char *)comm, COMM_BYTES);

    memcpy(&self->comms[(size_t)self->name_count * 2], comm, COMM_BYTES);
    *self->names_pos++ = FTRACE_EVENT_BUNDLE__COMPACT_SCHED__INTERN_TABLE << 3 | PFL_WIRE_BYTES;
    *self->names_pos++ = (uint8_t)len;
    memcpy(self->names_pos, comm, len);
    self->names_pos += len;
    self->name_count++;
}

static uint32_t find_or_add_name(struct pfl_bundle *self, const uint64_t comm[2])
{
    uint64_t hash =
        (comm[0] ^ (comm[1] * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xff51afd7ed558ccd);
    size_t slot = (hash >> 40) & (SLOT_COUNT - 1);

    while (self->slots[slot] != 0) {
        const uint64_t *name = &self->comms[(self->slots[slot] - 1u) * 2u];

        if (name[0] == comm[0] && name[1] == comm[1])
            return self->slots[slot] - 1u;
        slot = (slot + 1) & (SLOT_COUNT - 1);
    }
    add_name(self, comm);
    self->slots[slot] = (uint16_t)self->name_count;
    return self->name_count - 1;
}

void pfl_bundle_intern(struct pfl_bundle *self, struct pfl_bundle_known *known, int32_t pid,
                       const uint64_t comm[2])
{
    uint8_t varint[PFL_VARINT_MAX_BYTES];
    size_t len = pfl_varint_put(varint, (uint32_t)pid);

    known->index = (uint16_t)find_or_add_name(self, comm);
    known->generation = self->generation;
    known->pid = pid;
    known->pid_bytes = len <= sizeof(known->pid_varint) ? (uint8_t)len : 0;
    memcpy(known->pid_varint, varint, sizeof(known->pid_varint));
    memcpy(known->comm, comm, sizeof(known->comm));
}
