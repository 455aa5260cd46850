/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page of the kernel's ring buffer, as read from trace_pipe_raw: a header and records. Pure:
 * bytes in, records out. The bytes come from the kernel, but are not trusted.
 *
 *     | timestamp 8 | commit 4 or 8 | record | record | ... | zeros
 *       commit: bits 0-26 bytes of records, bit 31 events were lost before this page
 *     record: u32 type_len:5, time_delta:27, then
 *       1..28  4 * type_len bytes        0   u32 length (counts itself), then the data
 *       29     padding, u32 length       30  time extend, u32     31  absolute time, u32
 */
#ifndef PFL_PROBES_TRACE_PAGE_H
#define PFL_PROBES_TRACE_PAGE_H

#include "agent/probes/kernel_events/trace_format.h"

/* FtraceParseStatus, with its numbers in traces. */
enum pfl_page_status {
    PFL_PAGE_OK = 1,
    PFL_PAGE_READ_ERROR = 2,
    PFL_PAGE_PARTIAL_READ = 3,
    PFL_PAGE_BAD_HEADER = 4,
    PFL_PAGE_SHORT_HEADER = 5,
    PFL_PAGE_NULL_PADDING = 6,
    PFL_PAGE_SHORT_PADDING = 7,
    PFL_PAGE_BAD_PADDING = 8,
    PFL_PAGE_SHORT_TIME_EXTEND = 9,
    PFL_PAGE_SHORT_TIME_STAMP = 10,
    PFL_PAGE_SHORT_LENGTH = 11,
    PFL_PAGE_ZERO_LENGTH = 12,
    PFL_PAGE_BAD_LENGTH = 13,
    PFL_PAGE_SHORT_EVENT_ID = 14,
    PFL_PAGE_OVERFLOW = 15,
    PFL_PAGE_SHORT_COMPACT = 16,
    PFL_PAGE_BAD_EVENT = 17,
};

struct pfl_trace_page {
    const uint8_t *pos; /* borrowed: the page */
    const uint8_t *end;
    uint64_t timestamp_ns; /* of the current record; at first the page's */
    enum pfl_page_status status;
    bool has_lost; /* events were lost between the page before and this one */
};

struct pfl_trace_record {
    const uint8_t *data; /* begins with the event id; borrowed from the page */
    uint32_t len;        /* at least 2 */
    uint16_t event_id;
    uint64_t timestamp_ns;
};

/* False: a malformed header; see status. An empty page is valid. */
bool pfl_trace_page_init(struct pfl_trace_page *self, struct pfl_span page,
                         struct pfl_trace_page_layout layout);

/* Skips everything that is not a data record; false at the end of the page or at malformed bytes
 * (status is not PFL_PAGE_OK then). */
bool pfl_trace_page_skip(struct pfl_trace_page *self, uint32_t header,
                         struct pfl_trace_record *ret_record);

/* The next data record, or false as above. */
static inline bool pfl_trace_page_next(struct pfl_trace_page *self,
                                       struct pfl_trace_record *ret_record)
{
    while (self->end - self->pos >= 4) {
        uint32_t header;
        uint32_t len;

        memcpy(&header, self->pos, sizeof(header));
        len = 4 * (header & 31);
        if (__builtin_expect(len == 0 || len > 4 * 28, 0)) {
            if (pfl_trace_page_skip(self, header, ret_record))
                return true;
            if (self->status != PFL_PAGE_OK)
                return false;
            continue;
        }
        if ((size_t)(self->end - self->pos) < (size_t)4 + len) {
            self->status = PFL_PAGE_OVERFLOW;
            return false;
        }
        self->timestamp_ns += header >> 5;
        ret_record->timestamp_ns = self->timestamp_ns;
        ret_record->data = self->pos + 4;
        ret_record->len = len;
        memcpy(&ret_record->event_id, self->pos + 4, sizeof(uint16_t));
        self->pos += 4 + len;
        return true;
    }
    if (self->pos != self->end)
        self->status = PFL_PAGE_SHORT_HEADER;
    return false;
}

#endif
