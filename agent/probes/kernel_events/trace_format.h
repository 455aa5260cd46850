/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's description of one event: tracefs events/<group>/<name>/format.
 * Pure: text in, fields out.
 */
#ifndef PFL_PROBES_TRACE_FORMAT_H
#define PFL_PROBES_TRACE_FORMAT_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_TRACE_FIELDS_MAX    64u /* fields of one event; more are left out */
#define PFL_TRACE_NAME_MAX      64u /* with its NUL; a longer name is an error */
#define PFL_TRACE_EVENT_ID_MAX  65535u
#define PFL_TRACE_COMMON_PREFIX "common_"

enum pfl_trace_kind {
    PFL_TRACE_INT,      /* size 1, 2, 4 or 8 */
    PFL_TRACE_INTS,     /* array: `size` bytes of elements of element_bytes */
    PFL_TRACE_CHARS,    /* text in place, at most `size` bytes */
    PFL_TRACE_TAIL,     /* text from `offset` to the end of the record */
    PFL_TRACE_DATA_LOC, /* u32: length << 16 | offset of text in the record */
    PFL_TRACE_REL_LOC,  /* the same, with the offset relative to the end of this field */
    PFL_TRACE_ADDRESS,  /* 8 bytes, of code or data in the kernel */
    PFL_TRACE_CHAR_PTR, /* address of text in the kernel (printk_formats) */
    PFL_TRACE_OTHER,    /* cannot be shown, e.g. a bitmask */
};

struct pfl_trace_field {
    char name[PFL_TRACE_NAME_MAX];
    uint16_t offset;
    uint16_t size;
    uint16_t element_bytes;
    bool is_signed;
    enum pfl_trace_kind kind;
};

struct pfl_trace_format {
    char name[PFL_TRACE_NAME_MAX];
    uint16_t id;
    uint16_t fixed_bytes; /* every record has at least these */
    uint16_t field_count;
    struct pfl_trace_field fields[PFL_TRACE_FIELDS_MAX]; /* including common_ ones */
};

/* PFL_EPARSE: no name, no id, or no field. Unknown lines are skipped. */
PFL_MUST_USE int pfl_trace_format_parse(struct pfl_span text, struct pfl_trace_format *ret_format);

/* NULL when there is none. */
const struct pfl_trace_field *pfl_trace_format_find(const struct pfl_trace_format *self,
                                                    const char *name);

/* The layout of a page header of the ring buffer: tracefs events/header_page. */
struct pfl_trace_page_layout {
    uint16_t commit_bytes; /* 4 or 8; the timestamp before it has 8 */
    uint16_t data_offset;
};

PFL_MUST_USE int pfl_trace_page_layout_parse(struct pfl_span text,
                                             struct pfl_trace_page_layout *ret_layout);

#endif
