/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: a packet's tag and length are read byte by byte, its bytes become slices as they
 * arrive, and the last slice is marked. Failure: a field that is no packet.
 */
#include "consumer/ui/trace_slices.h"

#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_packet.fields.h"

#define PACKET_TAG (TRACE__PACKET << 3 | PFL_WIRE_BYTES)

/* One more byte of the tag and the length. */
static int take_head_byte(struct pfl_trace_slices *s, uint8_t byte)
{
    struct pfl_reader r;

    s->head[s->head_len++] = byte;
    if (s->head[0] != PACKET_TAG)
        return PFL_EPARSE;
    if (s->head_len == 1)
        return 0;
    if ((byte & 0x80) != 0)
        return s->head_len == sizeof(s->head) ? PFL_EPARSE : 0;
    r = pfl_reader_of(pfl_span_of(s->head + 1, s->head_len - 1));
    s->left = pfl_reader_varint(&r);
    s->is_inside = true;
    s->head_len = 0;
    return 0;
}

static size_t measure_slice(size_t len, bool is_last)
{
    return 1 + pfl_varint_size(len) + len + (is_last ? 2 : 0);
}

static int append_slice(struct pfl_buf *out, struct pfl_span data, bool is_last)
{
    uint8_t head[PFL_TRACE_SLICES_OVERHEAD];
    uint8_t end[2];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    struct pfl_writer e = pfl_writer_of(end, sizeof(end));
    int rc;

    pfl_writer_field_header(&w, READ_BUFFERS_RESPONSE__SLICES, measure_slice(data.len, is_last));
    pfl_writer_field_header(&w, READ_BUFFERS_RESPONSE__SLICE__DATA, data.len);
    rc = pfl_buf_append(out, head, sizeof(head) - w.left);
    if (rc == 0)
        rc = pfl_buf_append(out, data.data, data.len);
    if (rc != 0 || !is_last)
        return rc;
    pfl_writer_field_varint(&e, READ_BUFFERS_RESPONSE__SLICE__LAST_SLICE_FOR_PACKET, 1);
    return pfl_buf_append(out, end, sizeof(end));
}

/* As much of the packet as there is and has room. */
static int take_body(struct pfl_trace_slices *s, struct pfl_span data, struct pfl_buf *out,
                     size_t *ret_taken)
{
    size_t room = out->max_bytes - out->len - PFL_TRACE_SLICES_OVERHEAD;
    size_t len = data.len < room ? data.len : room;
    int rc;

    if (len > s->left)
        len = (size_t)s->left;
    rc = append_slice(out, pfl_span_of(data.data, len), len == s->left);
    s->left -= len;
    s->is_inside = s->left != 0;
    *ret_taken = len;
    return rc;
}

int pfl_trace_slices_take(struct pfl_trace_slices *self, struct pfl_span data, struct pfl_buf *out,
                          size_t *ret_taken)
{
    size_t taken = 0;
    int rc = 0;

    while (rc == 0 && taken < data.len && out->max_bytes - out->len > PFL_TRACE_SLICES_OVERHEAD) {
        size_t len = 1;

        rc = self->is_inside
                 ? take_body(self, pfl_span_of(data.data + taken, data.len - taken), out, &len)
                 : take_head_byte(self, data.data[taken]);
        taken += len;
        /* A packet without bytes is one, too. */
        if (rc == 0 && self->is_inside && self->left == 0)
            rc = take_body(self, pfl_span_of(NULL, 0), out, &len);
    }
    if (rc == 0)
        *ret_taken = taken;
    return rc;
}
