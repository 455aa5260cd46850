/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts one kind of kernel event into an FtraceEvent: made once from the kernel's format file,
 * used for every record. Pure.
 */
#ifndef PFL_PROBES_EVENT_PLAN_H
#define PFL_PROBES_EVENT_PLAN_H

#include "agent/probes/kernel_events/printk_formats.h"
#include "agent/probes/kernel_events/trace_page.h"
#include "perfetto/ftrace_events.fields.h"

/* Additional work for a record. */
enum pfl_event_special {
    PFL_EVENT_PLAIN,
    PFL_EVENT_SCHED_SWITCH, /* has a compact form */
    PFL_EVENT_SCHED_WAKING, /* has a compact form */
    PFL_EVENT_PRINT,        /* sessions may filter its text */
    PFL_EVENT_SYSCALL,      /* sessions may filter by its number */
    PFL_EVENT_KPROBE,       /* has its own name, and a type from the session */
    PFL_EVENT_TASK_RENAME,  /* what is known of the thread is outdated */
};

struct pfl_event_step {
    uint32_t field; /* in the message; 0: generic, by name */
    uint16_t offset;
    uint16_t size;
    uint16_t element_bytes;
    uint8_t kind; /* enum pfl_trace_kind */
    bool is_signed;
    uint16_t name_offset; /* generic: in names */
    uint16_t name_len;
};

struct pfl_event_plan {
    uint16_t event_id;
    uint16_t fixed_bytes; /* shorter records are broken */
    uint16_t pid_offset;
    uint16_t flags_offset;
    enum pfl_event_special special;
    uint16_t special_offsets[4]; /* switch: prev_state next_comm next_pid next_prio; waking: comm
                                    pid prio target_cpu; rename: pid; print: buf; syscall: id and,
                                    at its end, ret (else 0) */
    uint32_t event_field;        /* in FtraceEvent */
    uint32_t max_fixed;          /* bytes of output without text */
    uint16_t text_count;         /* fields of text, each at most the record's length */
    uint16_t step_count;
    bool has_address;             /* has a step with an address of the kernel */
    struct pfl_event_step *steps; /* owned */
    char *names;                  /* owned; generic */
    uint8_t *descriptor;          /* owned; generic: a field of the bundle, whole */
    size_t descriptor_bytes;
    uint32_t dense_field;    /* generic: in FtraceEvent, if the session takes descriptors */
    uint64_t address_key[2]; /* set by the owner; zeros: addresses become 0 */
    const struct pfl_printk_formats *printk; /* borrowed from the caller, for the plan's life */
};

#define PFL_FTRACE_DENSE_MIN 65536u /* fields that descriptors explain */

/* PFL_EINVAL: the format lacks common_pid; PFL_ENOMEM. */
PFL_MUST_USE int pfl_event_plan_new(const char *group, const struct pfl_trace_format *format,
                                    const struct pfl_printk_formats *printk,
                                    struct pfl_event_plan **ret_plan);
void pfl_event_plan_free(struct pfl_event_plan *self); /* NULL is legal */

static inline bool pfl_event_plan_is_generic(const struct pfl_event_plan *self)
{
    return self->event_field == FTRACE_EVENT__GENERIC;
}

/* Maximum that pfl_event_plan_encode needs for this record. */
static inline size_t pfl_event_plan_max_bytes(const struct pfl_event_plan *self,
                                              const struct pfl_trace_record *record)
{
    return self->max_fixed + (size_t)self->text_count * record->len;
}

/* Generic events: with `is_dense` as numbered fields that the plan's descriptor explains, else each
 * field with its name. Writes FtraceEventBundle.event with tag and length; returns the position
 * after it. The record must have plan->fixed_bytes, dst room for pfl_event_plan_max_bytes. */
uint8_t *pfl_event_plan_encode(const struct pfl_event_plan *self,
                               const struct pfl_trace_record *record, bool is_dense, uint8_t *dst);

/* The same for a PFL_EVENT_KPROBE; `type` is an enum pfl_kprobe_type, 0: unknown. */
uint8_t *pfl_event_plan_encode_kprobe(const struct pfl_event_plan *self,
                                      const struct pfl_trace_record *record, uint32_t type,
                                      uint8_t *dst);

/* The number that replaces an address of the kernel; a program's address is unchanged. */
uint64_t pfl_event_hide_address(const uint64_t key[2], uint64_t address);

static inline int32_t pfl_event_read_i32(const struct pfl_trace_record *record, uint16_t offset)
{
    int32_t v;

    memcpy(&v, record->data + offset, sizeof(v));
    return v;
}

#endif
