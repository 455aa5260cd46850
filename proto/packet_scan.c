/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices to packets.
 *
 *     reply 1: [slice][slice, last][slice]      packet A = slices 0..1, handed out in place
 *     reply 2: [slice][slice, last]             packet B = partial (slice 2) + slices 0..1
 *
 * Happy path: collect the slices of a packet in an array of iovecs that point into the reply; at
 * the slice marked last call back with them. A packet of one slice, the common case with perfleetd,
 * is returned at once. At the end of the reply, and when the array is full, the collected slices
 * are copied to `partial`. A run is one field, between packets.
 *
 * Failures: malformed protobuf ends the host's stream; no part of an unfinished packet was
 * returned. Limits: PFL_PACKET_SCAN_SLICES iovecs, the maximum of `partial`: packets past it are
 * skipped.
 */
#include "proto/packet_scan.h"

#include "perfetto/consumer_port.fields.h"
#include "proto/packet_run.h"

struct slice {
    struct pfl_span data;
    bool is_last;
};

/* The slices of the open packet that lie in the reply at hand. */
struct gathering {
    int len;
    size_t bytes;
};

void pfl_packet_scan_init(struct pfl_packet_scan *self, size_t packet_max_bytes)
{
    memset(self, 0, sizeof(*self));
    pfl_buf_init(&self->partial, packet_max_bytes);
}

void pfl_packet_scan_fini(struct pfl_packet_scan *self)
{
    pfl_buf_fini(&self->partial);
    self->is_open = false;
}

bool pfl_packet_scan_is_open(const struct pfl_packet_scan *self)
{
    return self->is_open;
}

static int parse_slice(struct pfl_span bytes, struct slice *ret_slice)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    *ret_slice = (struct slice){0};
    while (pfl_reader_field(&r, &f)) {
        if (f.id == READ_BUFFERS_RESPONSE__SLICE__DATA && f.type == PFL_WIRE_BYTES)
            ret_slice->data = f.bytes;
        else if (f.id == READ_BUFFERS_RESPONSE__SLICE__LAST_SLICE_FOR_PACKET &&
                 f.type == PFL_WIRE_VARINT)
            ret_slice->is_last = f.value != 0;
    }
    return r.failed ? PFL_EPROTO : 0;
}

/* A length of one or two bytes at `p`, which has two; 0: it is longer. */
static inline size_t load_length(const uint8_t *p, size_t *ret_len)
{
    size_t len = p[0];

    if (len < 0x80) {
        *ret_len = len;
        return 1;
    }
    *ret_len = (len & 0x7f) | (size_t)p[1] << 7;
    return p[1] < 0x80 ? 2 : 0;
}

/*
 * Takes a slice in its common encoding off the reply, read at once; false leaves it to the other
 * functions:
 *
 *     12 <len> 0A <len> data [10 01]
 */
static inline bool take_common(struct pfl_reader *r, struct slice *ret_slice)
{
    const uint8_t *p = r->pos;
    size_t left = r->left;
    size_t slice_len;
    size_t data_len;
    size_t head;
    size_t n;

    if (left < 8 || p[0] != (READ_BUFFERS_RESPONSE__SLICES << 3 | PFL_WIRE_BYTES))
        return false;
    head = load_length(p + 1, &slice_len) + 1;
    if (head == 1 || slice_len > left - head || slice_len < 4 ||
        p[head] != (READ_BUFFERS_RESPONSE__SLICE__DATA << 3 | PFL_WIRE_BYTES))
        return false;
    p += head;
    n = load_length(p + 1, &data_len) + 1;
    if (n == 1 || data_len > slice_len - n)
        return false;
    ret_slice->data = pfl_span_of(p + n, data_len);
    p += n + data_len;
    n = slice_len - n - data_len;
    if (n != 0 &&
        (n != 2 ||
         p[0] != (READ_BUFFERS_RESPONSE__SLICE__LAST_SLICE_FOR_PACKET << 3 | PFL_WIRE_VARINT) ||
         p[1] != 1))
        return false;
    ret_slice->is_last = n != 0;
    r->pos += head + slice_len;
    r->left -= head + slice_len;
    return true;
}

/* The same for a whole packet of less than 124 bytes, as most are. */
static inline bool take_short(struct pfl_reader *r, struct slice *ret_slice)
{
    const uint8_t *p = r->pos;
    size_t len;

    if (r->left < 6 || p[0] != (READ_BUFFERS_RESPONSE__SLICES << 3 | PFL_WIRE_BYTES) ||
        p[2] != (READ_BUFFERS_RESPONSE__SLICE__DATA << 3 | PFL_WIRE_BYTES))
        return false;
    len = p[3];
    if (p[1] >= 0x80 || p[1] != len + 4 || r->left - 6 < len ||
        p[4 + len] !=
            (READ_BUFFERS_RESPONSE__SLICE__LAST_SLICE_FOR_PACKET << 3 | PFL_WIRE_VARINT) ||
        p[5 + len] != 1)
        return false;
    *ret_slice = (struct slice){pfl_span_of(p + 4, len), true};
    r->pos += len + 6;
    r->left -= len + 6;
    return true;
}

static bool take_column(struct pfl_reader *r, uint32_t id, struct pfl_span *ret_column)
{
    struct pfl_field f;

    if (!pfl_reader_field(r, &f) || f.id != id || f.type != PFL_WIRE_BYTES)
        return false;
    *ret_column = f.bytes;
    return true;
}

/* Each column once, in their order. */
static int hand_out_run(const struct pfl_packet_scan *self, struct pfl_span bytes,
                        const uint8_t *readable_end, void *user)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_packet_run run = {.readable_end = readable_end};

    if (self->on_run == NULL || self->is_open ||
        !take_column(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TAIL, &run.tail) ||
        !take_column(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__REST, &run.rest) ||
        !take_column(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TIMES, &run.times) ||
        !take_column(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__LENGTHS, &run.lengths) || r.left != 0 ||
        run.tail.len > PFL_RUN_TAIL_MAX_BYTES || run.lengths.len == 0)
        return PFL_EPROTO;
    return self->on_run(user, &run);
}

/* The next slice of a reply; runs before it are handed out. False at the end, and when something
 * is wrong (*ret_rc). */
static inline bool next_slice(const struct pfl_packet_scan *self, struct pfl_reader *r, void *user,
                              struct slice *ret_slice, int *ret_rc)
{
    struct pfl_field f;

    if (take_short(r, ret_slice) || take_common(r, ret_slice))
        return true;
    while (*ret_rc == 0 && pfl_reader_field(r, &f)) {
        if (f.type != PFL_WIRE_BYTES)
            continue;
        if (f.id == READ_BUFFERS_RESPONSE__SLICES) {
            *ret_rc = parse_slice(f.bytes, ret_slice);
            return *ret_rc == 0;
        }
        if (f.id == READ_BUFFERS_RESPONSE__PERFLEET_RUNS)
            *ret_rc = hand_out_run(self, f.bytes, r->pos + r->left, user);
    }
    if (*ret_rc == 0 && r->failed)
        *ret_rc = PFL_EPROTO;
    return false;
}

static int spill(struct pfl_packet_scan *self, struct gathering *g)
{
    for (int i = 1; i <= g->len; i++) {
        int rc = pfl_buf_append(&self->partial, self->slices[i].iov_base, self->slices[i].iov_len);

        if (rc != 0)
            return rc;
    }
    *g = (struct gathering){0};
    return 0;
}

static int hand_out(struct pfl_packet_scan *self, struct gathering *g, pfl_packet_cb cb, void *user)
{
    struct pfl_span head = pfl_buf_get(&self->partial);
    int rc;

    if (head.len != 0) {
        self->slices[0] = (struct iovec){(void *)(uintptr_t)head.data, head.len};
        rc = cb(user, self->slices, g->len + 1, head.len + g->bytes);
    } else {
        rc = cb(user, self->slices + 1, g->len, g->bytes);
    }
    pfl_buf_clear(&self->partial);
    self->is_open = false;
    *g = (struct gathering){0};
    return rc;
}

/* The packet is too large: what it has so far, and what follows, is counted. */
static void skip(struct pfl_packet_scan *self, struct gathering *g, const struct slice *slice)
{
    self->skipped_bytes += self->partial.len + g->bytes + slice->data.len;
    self->skipped += !self->is_skipping;
    self->is_skipping = self->is_open = !slice->is_last;
    pfl_buf_clear(&self->partial);
    *g = (struct gathering){0};
}

static int take_slice(struct pfl_packet_scan *self, struct gathering *g, const struct slice *slice)
{
    if (g->len == PFL_PACKET_SCAN_SLICES) {
        int rc = spill(self, g);

        if (rc != 0)
            return rc;
    }
    if (slice->data.len != 0) {
        self->slices[++g->len] =
            (struct iovec){(void *)(uintptr_t)slice->data.data, slice->data.len};
        g->bytes += slice->data.len;
    }
    self->is_open = true;
    return 0;
}

int pfl_packet_scan_feed(struct pfl_packet_scan *self, struct pfl_span body, pfl_packet_cb cb,
                         void *user)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct gathering g = {0};
    struct slice slice;
    int rc = 0;

    while (next_slice(self, &r, user, &slice, &rc)) {
        if (slice.is_last && !self->is_open && slice.data.len != 0 &&
            slice.data.len <= self->partial.max_bytes) {
            struct iovec whole = {(void *)(uintptr_t)slice.data.data, slice.data.len};

            rc = cb(user, &whole, 1, whole.iov_len);
        } else if (self->is_skipping ||
                   slice.data.len > self->partial.max_bytes - self->partial.len - g.bytes) {
            skip(self, &g, &slice);
        } else {
            rc = take_slice(self, &g, &slice);
            if (rc == 0 && slice.is_last)
                rc = hand_out(self, &g, cb, user);
        }
        if (rc != 0)
            return rc;
    }
    return rc != 0 ? rc : spill(self, &g);
}
