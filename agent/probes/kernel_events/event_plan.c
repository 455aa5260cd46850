/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a record of the kernel's ring buffer to an FtraceEvent.
 *
 * Happy path: `new` matches the kernel's fields with the event table's by name, which yields a list
 * of steps; `encode` runs them. An event that is not in the table gets generic steps: name and
 * value.
 *
 *     bundle.event { timestamp, pid, <message> { field, field, ... } }
 *
 * Lengths are written into reserved bytes afterwards: one when the worst case is below 128 bytes,
 * two below 16384, else four (a varint may be longer than it must be).
 *
 * Failure: fields that only one side has, or text on one side and a number on the other, are left
 * out. Addresses are replaced by numbers, because they reveal where the kernel is in memory. Text
 * is limited to the record, whatever its offset and length claim.
 */
#include "agent/probes/kernel_events/event_plan.h"

#include <ctype.h>
#include <stdlib.h>

#include "agent/probes/kernel_events/event_table.h"
#include "agent/probes/kernel_events/ftrace_conf.h"
#include "agent/probes/procfs/probe_message.h"
#include "base/mem.h"

#define INT_MAX_BYTES        15u    /* tag of 5, varint of 10 */
#define HEAD_MAX_BYTES       64u    /* lengths, timestamp, pid */
#define DESCRIPTOR_MAX_BYTES 16384u /* of 64 fields with names of 64 bytes: 5000 */

static bool is_text(enum pfl_trace_kind kind)
{
    return kind == PFL_TRACE_CHARS || kind == PFL_TRACE_TAIL || kind == PFL_TRACE_DATA_LOC ||
           kind == PFL_TRACE_REL_LOC || kind == PFL_TRACE_CHAR_PTR;
}

/* Finds `name=number[s]` in an entry's fields; 0 when there is none. */
static uint32_t find_number(const char *fields, const char *name, bool *ret_is_string)
{
    size_t len = strlen(name);
    const char *at = fields;
    char *end;

    while ((at = strstr(at, name)) != NULL) {
        if ((at == fields || at[-1] == ' ') && at[len] == '=') {
            unsigned long number = strtoul(at + len + 1, &end, 10);

            *ret_is_string = *end == 's';
            return (uint32_t)number;
        }
        at += len;
    }
    return 0;
}

static void fill_step(const struct pfl_trace_field *field, struct pfl_event_step *ret_step)
{
    ret_step->offset = field->offset;
    ret_step->size = field->size;
    ret_step->element_bytes = field->element_bytes;
    ret_step->kind = (uint8_t)field->kind;
    ret_step->is_signed = field->is_signed;
}

static void note_address(struct pfl_event_plan *plan, const struct pfl_trace_field *field)
{
    plan->has_address |= field->kind == PFL_TRACE_ADDRESS;
}

static void add_known_step(struct pfl_event_plan *plan, const struct pfl_event_entry *entry,
                           const struct pfl_trace_field *field)
{
    bool is_string = false;
    uint32_t number = find_number(entry->fields, field->name, &is_string);
    struct pfl_event_step *step = &plan->steps[plan->step_count];

    if (number == 0 || is_string != is_text(field->kind))
        return;
    fill_step(field, step);
    step->field = number;
    note_address(plan, field);
    plan->step_count++;
    if (is_string)
        plan->text_count++;
    plan->max_fixed += INT_MAX_BYTES;
    if (field->kind == PFL_TRACE_INTS)
        plan->max_fixed += INT_MAX_BYTES * (uint32_t)(field->size / field->element_bytes);
}

static void add_generic_step(struct pfl_event_plan *plan, size_t *names_len,
                             const struct pfl_trace_field *field)
{
    struct pfl_event_step *step = &plan->steps[plan->step_count];
    size_t len = strlen(field->name);

    if (field->kind == PFL_TRACE_INTS)
        return;
    fill_step(field, step);
    step->field = (uint32_t)plan->step_count + 1; /* of the dense form */
    step->name_offset = (uint16_t)*names_len;
    step->name_len = (uint16_t)len;
    memcpy(plan->names + *names_len, field->name, len);
    *names_len += len;
    note_address(plan, field);
    plan->step_count++;
    if (is_text(field->kind))
        plan->text_count++;
    plan->max_fixed += (uint32_t)len + 3 * INT_MAX_BYTES;
}

static bool find_offsets(struct pfl_event_plan *plan, const struct pfl_trace_format *format,
                         const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct pfl_trace_field *f = pfl_trace_format_find(format, names[i]);

        if (f == NULL || f->size < 4)
            return false;
        plan->special_offsets[i] = f->offset;
    }
    return true;
}

static bool is_kprobe(const char *group)
{
    return strcmp(group, PFL_KPROBE_GROUP) == 0 || strcmp(group, PFL_KRETPROBE_GROUP) == 0;
}

/* The function graph's functions are declared as numbers. */
static bool is_graph_function(const char *group, const struct pfl_trace_format *format,
                              const struct pfl_trace_field *field)
{
    return strcmp(group, "ftrace") == 0 && strncmp(format->name, "funcgraph_", 10) == 0 &&
           strcmp(field->name, "func") == 0 && field->kind == PFL_TRACE_INT && field->size == 8;
}

/* If a kernel's format differs from what the compact form expects, the plain form is used. */
static void find_special(struct pfl_event_plan *plan, const char *group,
                         const struct pfl_trace_format *format)
{
    static const char *const sched_switch[] = {"prev_state", "next_comm", "next_pid", "next_prio"};
    static const char *const sched_waking[] = {"comm", "pid", "prio", "target_cpu"};
    static const char *const task_rename[] = {"pid"};
    const struct pfl_trace_field *f;

    if (strcmp(group, "sched") == 0 && strcmp(format->name, "sched_switch") == 0) {
        f = pfl_trace_format_find(format, "next_comm");
        if (f != NULL && f->kind == PFL_TRACE_CHARS && f->size == 16 &&
            find_offsets(plan, format, sched_switch, 4) &&
            pfl_trace_format_find(format, "prev_state")->size == 8)
            plan->special = PFL_EVENT_SCHED_SWITCH;
    } else if (strcmp(group, "sched") == 0 && strcmp(format->name, "sched_waking") == 0) {
        f = pfl_trace_format_find(format, "comm");
        if (f != NULL && f->kind == PFL_TRACE_CHARS && f->size == 16 &&
            find_offsets(plan, format, sched_waking, 4))
            plan->special = PFL_EVENT_SCHED_WAKING;
    } else if (strcmp(group, "task") == 0 && strcmp(format->name, "task_rename") == 0) {
        if (find_offsets(plan, format, task_rename, 1))
            plan->special = PFL_EVENT_TASK_RENAME;
    } else if (strcmp(group, "ftrace") == 0 && strcmp(format->name, "print") == 0) {
        f = pfl_trace_format_find(format, "buf");
        if (f != NULL && f->kind == PFL_TRACE_TAIL) {
            plan->special = PFL_EVENT_PRINT;
            plan->special_offsets[0] = f->offset;
        }
    } else if (strcmp(group, "raw_syscalls") == 0) {
        f = pfl_trace_format_find(format, "id");
        if (f != NULL && f->kind == PFL_TRACE_INT && f->size == 8) {
            plan->special = PFL_EVENT_SYSCALL;
            plan->special_offsets[0] = f->offset;
            f = pfl_trace_format_find(format, "ret");
            if (f != NULL && f->kind == PFL_TRACE_INT && f->size == 8)
                plan->special_offsets[1] = f->offset;
        }
    }
}

static int fill_plan(struct pfl_event_plan *plan, const char *group,
                     const struct pfl_event_entry *entry, const struct pfl_trace_format *format)
{
    size_t names_len = strlen(format->name);

    plan->steps = pfl_mem_calloc(format->field_count, sizeof(*plan->steps));
    plan->names = pfl_mem_calloc(format->field_count + 1u, PFL_TRACE_NAME_MAX);
    if (plan->steps == NULL || plan->names == NULL)
        return PFL_ENOMEM;
    memcpy(plan->names, format->name, names_len + 1);
    plan->max_fixed = HEAD_MAX_BYTES + (entry == NULL ? (uint32_t)names_len + INT_MAX_BYTES : 0);
    names_len++;
    for (uint16_t i = 0; i < format->field_count; i++) {
        struct pfl_trace_field field = format->fields[i];

        if (strncmp(field.name, PFL_TRACE_COMMON_PREFIX, strlen(PFL_TRACE_COMMON_PREFIX)) == 0 ||
            field.kind == PFL_TRACE_OTHER || is_kprobe(group))
            continue;
        if (is_graph_function(group, format, &field))
            field.kind = PFL_TRACE_ADDRESS;
        if (entry != NULL)
            add_known_step(plan, entry, &field);
        else
            add_generic_step(plan, &names_len, &field);
    }
    return 0;
}

static inline bool is_number(const struct pfl_event_step *step)
{
    return step->kind == PFL_TRACE_INT || step->kind == PFL_TRACE_ADDRESS;
}

/* FtraceEventBundle.generic_event_descriptors: what the numbers of the dense form mean. */
static int describe(struct pfl_event_plan *plan, const char *group, const char *name)
{
    struct pfl_probe_message m;
    struct pfl_span body;

    pfl_probe_message_init(&m, DESCRIPTOR_MAX_BYTES);
    pfl_probe_message_begin(&m, FTRACE_EVENT_BUNDLE__GENERIC_EVENT_DESCRIPTORS);
    pfl_probe_message_uint(&m, FTRACE_EVENT_BUNDLE__GENERIC_EVENT_DESCRIPTOR__FIELD_ID,
                           plan->dense_field);
    pfl_probe_message_begin(&m, FTRACE_EVENT_BUNDLE__GENERIC_EVENT_DESCRIPTOR__EVENT_DESCRIPTOR);
    pfl_probe_message_text(&m, DESCRIPTOR_PROTO__NAME, name);
    for (uint16_t i = 0; i < plan->step_count; i++) {
        const struct pfl_event_step *step = &plan->steps[i];

        pfl_probe_message_begin(&m, DESCRIPTOR_PROTO__FIELD);
        pfl_probe_message_bytes(&m, FIELD_DESCRIPTOR_PROTO__NAME, plan->names + step->name_offset,
                                step->name_len);
        pfl_probe_message_uint(&m, FIELD_DESCRIPTOR_PROTO__NUMBER, step->field);
        pfl_probe_message_uint(&m, FIELD_DESCRIPTOR_PROTO__TYPE,
                               !is_number(step)  ? FIELD_DESCRIPTOR_PROTO__TYPE_STRING
                               : step->is_signed ? FIELD_DESCRIPTOR_PROTO__TYPE_INT64
                                                 : FIELD_DESCRIPTOR_PROTO__TYPE_UINT64);
        pfl_probe_message_end(&m);
    }
    pfl_probe_message_end(&m);
    pfl_probe_message_text(&m, FTRACE_EVENT_BUNDLE__GENERIC_EVENT_DESCRIPTOR__GROUP_NAME, group);
    pfl_probe_message_end(&m);
    plan->descriptor_bytes = m.buf.len;
    plan->descriptor = m.failed ? NULL : pfl_mem_alloc(m.buf.len);
    body = pfl_buf_get(&m.buf);
    if (plan->descriptor != NULL && body.len != 0)
        memcpy(plan->descriptor, body.data, body.len);
    pfl_probe_message_fini(&m);
    return plan->descriptor != NULL ? 0 : PFL_ENOMEM;
}

int pfl_event_plan_new(const char *group, const struct pfl_trace_format *format,
                       const struct pfl_printk_formats *printk, struct pfl_event_plan **ret_plan)
{
    const struct pfl_event_entry *entry = pfl_event_table_find(group, format->name);
    const struct pfl_trace_field *pid = pfl_trace_format_find(format, "common_pid");
    const struct pfl_trace_field *flags = pfl_trace_format_find(format, "common_flags");
    struct pfl_event_plan *plan;
    int rc;

    if (pid == NULL || pid->size != 4 || flags == NULL || flags->size != 1)
        return PFL_EINVAL;
    plan = pfl_mem_zalloc(sizeof(*plan));
    if (plan == NULL)
        return PFL_ENOMEM;
    plan->event_id = format->id;
    plan->fixed_bytes = format->fixed_bytes;
    plan->pid_offset = pid->offset;
    plan->flags_offset = flags->offset;
    plan->event_field = entry != NULL      ? entry->field
                        : is_kprobe(group) ? FTRACE_EVENT__KPROBE_EVENT
                                           : FTRACE_EVENT__GENERIC;
    plan->printk = printk;
    plan->dense_field = PFL_FTRACE_DENSE_MIN + format->id;
    rc = fill_plan(plan, group, entry, format);
    if (rc == 0 && pfl_event_plan_is_generic(plan))
        rc = describe(plan, group, format->name);
    if (rc != 0) {
        pfl_event_plan_free(plan);
        return rc;
    }
    find_special(plan, group, format);
    if (is_kprobe(group))
        plan->special = PFL_EVENT_KPROBE;
    *ret_plan = plan;
    return 0;
}

void pfl_event_plan_free(struct pfl_event_plan *self)
{
    if (self == NULL)
        return;
    pfl_mem_free(self->steps);
    pfl_mem_free(self->names);
    pfl_mem_free(self->descriptor);
    pfl_mem_free(self);
}

static inline uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

static inline uint8_t *put_tag(uint8_t *p, uint32_t field, enum pfl_wire_type type)
{
    return put_varint(p, (uint64_t)field << 3 | type);
}

static uint64_t read_int(const uint8_t *at, uint16_t size, bool is_signed)
{
    uint64_t v = 0;

    if (size > 8)
        return 0;
    memcpy(&v, at, size);
    if (is_signed && size < 8 && (v >> (size * 8 - 1) & 1) != 0)
        v |= ~UINT64_C(0) << (size * 8);
    return v;
}

/* Two rounds of a keyed mix (SipHash's), 40 bits of it: the same address has the same number, and
 * without the key the kernel's location in memory stays unknown. */
uint64_t pfl_event_hide_address(const uint64_t key[2], uint64_t address)
{
    uint64_t v0 = key[0] ^ UINT64_C(0x736f6d6570736575);
    uint64_t v1 = key[1] ^ UINT64_C(0x646f72616e646f6d);
    uint64_t v2 = key[0] ^ UINT64_C(0x6c7967656e657261);
    uint64_t v3 = key[1] ^ UINT64_C(0x7465646279746573) ^ address;

    if (address >> 63 == 0)
        return address; /* a program's */
    if ((key[0] | key[1]) == 0)
        return 0;
    for (unsigned round = 0; round < 6; round++) {
        if (round == 2) {
            v0 ^= address;
            v2 ^= 0xff;
        }
        v0 += v1;
        v1 = (v1 << 13 | v1 >> 51) ^ v0;
        v0 = v0 << 32 | v0 >> 32;
        v2 += v3;
        v3 = (v3 << 16 | v3 >> 48) ^ v2;
        v0 += v3;
        v3 = (v3 << 21 | v3 >> 43) ^ v0;
        v2 += v1;
        v1 = (v1 << 17 | v1 >> 47) ^ v2;
        v2 = v2 << 32 | v2 >> 32;
    }
    return (v0 ^ v1 ^ v2 ^ v3) & ((UINT64_C(1) << 40) - 1);
}

static uint64_t read_number(const struct pfl_event_plan *plan, const struct pfl_event_step *step,
                            const uint8_t *at)
{
    uint64_t v = read_int(at, step->size, step->is_signed);

    return step->kind == PFL_TRACE_ADDRESS ? pfl_event_hide_address(plan->address_key, v) : v;
}

static struct pfl_span read_loc(const struct pfl_trace_record *record,
                                const struct pfl_event_step *step)
{
    uint32_t loc = (uint32_t)read_int(record->data + step->offset, 4, false);
    uint32_t start = loc & 0xffff;
    uint32_t len = loc >> 16;

    if (step->kind == PFL_TRACE_REL_LOC)
        start += step->offset + 4u;
    if (start > record->len)
        return pfl_span_of(NULL, 0);
    if (len > record->len - start)
        len = record->len - start;
    return pfl_span_of(record->data + start, len);
}

static struct pfl_span read_text(const struct pfl_event_plan *plan,
                                 const struct pfl_trace_record *record,
                                 const struct pfl_event_step *step)
{
    struct pfl_span text;

    if (step->kind == PFL_TRACE_CHAR_PTR) {
        text =
            pfl_printk_formats_find(plan->printk, read_int(record->data + step->offset, 8, false));
        if (text.len > record->len)
            text.len = record->len;
        return text;
    }
    if (step->kind == PFL_TRACE_CHARS)
        text = pfl_span_of(record->data + step->offset, step->size);
    else if (step->kind == PFL_TRACE_TAIL)
        text = pfl_span_of(record->data + step->offset, record->len - step->offset);
    else
        text = read_loc(record, step);
    if (text.len != 0)
        text.len = strnlen((const char *)text.data, text.len);
    return text;
}

static uint8_t *put_text(uint8_t *p, uint32_t field, struct pfl_span text)
{
    p = put_varint(put_tag(p, field, PFL_WIRE_BYTES), text.len);
    if (text.len != 0)
        memcpy(p, text.data, text.len);
    return p + text.len;
}

static uint8_t *put_ints(uint8_t *p, const struct pfl_event_step *step, const uint8_t *at)
{
    for (uint16_t done = 0; done < step->size; done = (uint16_t)(done + step->element_bytes)) {
        p = put_tag(p, step->field, PFL_WIRE_VARINT);
        p = put_varint(p, read_int(at + done, step->element_bytes, step->is_signed));
    }
    return p;
}

static uint8_t *put_known(uint8_t *p, const struct pfl_event_plan *plan,
                          const struct pfl_trace_record *record)
{
    for (uint16_t i = 0; i < plan->step_count; i++) {
        const struct pfl_event_step *step = &plan->steps[i];
        const uint8_t *at = record->data + step->offset;

        if (is_number(step)) {
            p = put_tag(p, step->field, PFL_WIRE_VARINT);
            p = put_varint(p, read_number(plan, step, at));
        } else if (step->kind == PFL_TRACE_INTS) {
            p = put_ints(p, step, at);
        } else {
            p = put_text(p, step->field, read_text(plan, record, step));
        }
    }
    return p;
}

static uint8_t *put_generic(uint8_t *p, const struct pfl_event_plan *plan,
                            const struct pfl_trace_record *record)
{
    p = put_text(p, GENERIC_FTRACE_EVENT__EVENT_NAME,
                 pfl_span_of(plan->names, strlen(plan->names)));
    for (uint16_t i = 0; i < plan->step_count; i++) {
        const struct pfl_event_step *step = &plan->steps[i];
        struct pfl_span name = pfl_span_of(plan->names + step->name_offset, step->name_len);
        size_t size = 1 + pfl_varint_size(name.len) + name.len;
        struct pfl_span text = pfl_span_of(NULL, 0);
        uint64_t value = 0;
        bool is_int = is_number(step);

        if (is_int)
            value = read_number(plan, step, record->data + step->offset);
        else
            text = read_text(plan, record, step);
        size += 1 + (is_int ? pfl_varint_size(value) : pfl_varint_size(text.len) + text.len);
        p = put_varint(put_tag(p, GENERIC_FTRACE_EVENT__FIELD, PFL_WIRE_BYTES), size);
        p = put_text(p, GENERIC_FTRACE_EVENT__FIELD__NAME, name);
        if (is_int) {
            p = put_tag(p,
                        step->is_signed ? GENERIC_FTRACE_EVENT__FIELD__INT_VALUE
                                        : GENERIC_FTRACE_EVENT__FIELD__UINT_VALUE,
                        PFL_WIRE_VARINT);
            p = put_varint(p, value);
        } else {
            p = put_text(p, GENERIC_FTRACE_EVENT__FIELD__STR_VALUE, text);
        }
    }
    return p;
}

/* Fills `width` reserved bytes with a varint. */
static void put_reserved(uint8_t *at, size_t width, size_t value)
{
    for (size_t i = 0; i + 1 < width; i++) {
        at[i] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    at[width - 1] = (uint8_t)value;
}

/* An event of which the message is still to be written. */
struct open_event {
    uint8_t *event;
    uint8_t *message;
    size_t width; /* of both lengths */
};

static struct open_event begin_event(const struct pfl_event_plan *self,
                                     const struct pfl_trace_record *record, uint32_t field,
                                     uint8_t *dst)
{
    size_t max = pfl_event_plan_max_bytes(self, record);
    struct open_event open = {.width = max < 128 ? 1 : max < 16384 ? 2 : 4};
    uint8_t *p;

    open.event = put_tag(dst, FTRACE_EVENT_BUNDLE__EVENT, PFL_WIRE_BYTES) + open.width;
    p = put_varint(put_tag(open.event, FTRACE_EVENT__TIMESTAMP, PFL_WIRE_VARINT),
                   record->timestamp_ns);
    p = put_tag(p, FTRACE_EVENT__PID, PFL_WIRE_VARINT);
    p = put_varint(p, (uint32_t)pfl_event_read_i32(record, self->pid_offset));
    open.message = put_tag(p, field, PFL_WIRE_BYTES) + open.width;
    return open;
}

static uint8_t *end_event(const struct open_event *open, uint8_t *end)
{
    put_reserved(open->message - open->width, open->width, (size_t)(end - open->message));
    put_reserved(open->event - open->width, open->width, (size_t)(end - open->event));
    return end;
}

uint8_t *pfl_event_plan_encode(const struct pfl_event_plan *self,
                               const struct pfl_trace_record *record, bool is_dense, uint8_t *dst)
{
    bool is_generic = pfl_event_plan_is_generic(self);
    struct open_event open = begin_event(
        self, record, is_dense && is_generic ? self->dense_field : self->event_field, dst);

    return end_event(&open, is_generic && !is_dense ? put_generic(open.message, self, record)
                                                    : put_known(open.message, self, record));
}

uint8_t *pfl_event_plan_encode_kprobe(const struct pfl_event_plan *self,
                                      const struct pfl_trace_record *record, uint32_t type,
                                      uint8_t *dst)
{
    struct open_event open = begin_event(self, record, self->event_field, dst);
    uint8_t *p =
        put_text(open.message, KPROBE_EVENT__NAME, pfl_span_of(self->names, strlen(self->names)));

    if (type != 0)
        p = put_varint(put_tag(p, KPROBE_EVENT__TYPE, PFL_WIRE_VARINT), type);
    return end_event(&open, p);
}
