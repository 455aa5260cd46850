/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rare parts of a page of the kernel's ring buffer: the header, padding, time records, long
 * records. The common record is inline in trace_page.h.
 *
 * Failure: the first malformed item ends the page with its status; the records before it are valid.
 */
#include "agent/probes/kernel_events/trace_page.h"

#define COMMIT_SIZE_MASK 0x07ffffffu
#define COMMIT_LOST      0x80000000u

enum record_type {
    RECORD_LONG = 0,
    RECORD_PADDING = 29,
    RECORD_TIME_EXTEND = 30,
    RECORD_TIME_STAMP = 31,
};

bool pfl_trace_page_init(struct pfl_trace_page *self, struct pfl_span page,
                         struct pfl_trace_page_layout layout)
{
    struct pfl_reader r = pfl_reader_of(page);
    uint32_t commit;
    uint32_t bytes;

    memset(self, 0, sizeof(*self));
    self->status = PFL_PAGE_BAD_HEADER;
    self->timestamp_ns = pfl_reader_u64(&r);
    commit = pfl_reader_u32(&r);
    if (r.failed || page.len < layout.data_offset)
        return false;
    bytes = commit & COMMIT_SIZE_MASK;
    self->has_lost = (commit & COMMIT_LOST) != 0;
    if (bytes > page.len - layout.data_offset)
        return false;
    self->pos = page.data + layout.data_offset;
    self->end = self->pos + bytes;
    self->status = PFL_PAGE_OK;
    return true;
}

static bool fail(struct pfl_trace_page *self, enum pfl_page_status status)
{
    self->status = status;
    return false;
}

static bool take_long(struct pfl_trace_page *self, uint32_t word,
                      struct pfl_trace_record *ret_record)
{
    uint32_t len = word - 4;

    if (word == 0)
        return fail(self, PFL_PAGE_ZERO_LENGTH);
    if (word < 4)
        return fail(self, PFL_PAGE_BAD_LENGTH);
    if ((size_t)(self->end - self->pos) < (size_t)8 + len)
        return fail(self, PFL_PAGE_OVERFLOW);
    if (len < 2)
        return fail(self, PFL_PAGE_SHORT_EVENT_ID);
    ret_record->data = self->pos + 8;
    ret_record->len = len;
    ret_record->timestamp_ns = self->timestamp_ns;
    memcpy(&ret_record->event_id, ret_record->data, sizeof(uint16_t));
    self->pos += 8 + len;
    return true;
}

static bool skip_padding(struct pfl_trace_page *self, uint32_t word)
{
    if (word < 4)
        return fail(self, PFL_PAGE_BAD_PADDING);
    /* Padding may reach past the records: then it is the last one. */
    if ((size_t)(self->end - self->pos) < (size_t)4 + word)
        self->pos = self->end;
    else
        self->pos += 4 + word;
    return false;
}

bool pfl_trace_page_skip(struct pfl_trace_page *self, uint32_t header,
                         struct pfl_trace_record *ret_record)
{
    static const enum pfl_page_status too_short[32] = {
        [RECORD_LONG] = PFL_PAGE_SHORT_LENGTH,
        [RECORD_PADDING] = PFL_PAGE_SHORT_PADDING,
        [RECORD_TIME_EXTEND] = PFL_PAGE_SHORT_TIME_EXTEND,
        [RECORD_TIME_STAMP] = PFL_PAGE_SHORT_TIME_STAMP,
    };
    uint32_t type = header & 31;
    uint32_t delta = header >> 5;
    uint32_t word;

    if (type == RECORD_PADDING && delta == 0)
        return fail(self, PFL_PAGE_NULL_PADDING);
    if (self->end - self->pos < 8)
        return fail(self, too_short[type]);
    memcpy(&word, self->pos + 4, sizeof(word));
    if (type == RECORD_TIME_STAMP) {
        /* 59 bits; the top ones are the page's. */
        uint64_t top = self->timestamp_ns & ~((UINT64_C(1) << 59) - 1);

        self->timestamp_ns = top | (uint64_t)word << 27 | delta;
        self->pos += 8;
        return false;
    }
    self->timestamp_ns += delta;
    if (type == RECORD_TIME_EXTEND) {
        self->timestamp_ns += (uint64_t)word << 27;
        self->pos += 8;
        return false;
    }
    if (type == RECORD_PADDING)
        return skip_padding(self, word);
    return take_long(self, word, ret_record);
}
