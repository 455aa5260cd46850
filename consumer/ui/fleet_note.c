/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two packets of the sequence of the file's writer (docs/merged-trace.md): the track's descriptor,
 * the event. No state.
 */
#include "consumer/ui/fleet_note.h"

#include "perfetto/trace_packet.fields.h"
#include "perfetto/track_event.fields.h"

enum {
    OWN_SEQUENCE = 1,
};

#define TEXT_MAX     3072u
#define TRACK        UINT64_C(0x7065726669656c64) /* arbitrary, unused otherwise */
#define HEAD_BYTES   128u
#define PACKET_BYTES (TEXT_MAX + HEAD_BYTES)

/* `body`: the packet's own field `id`. */
static int append_packet(uint64_t boot_ns, uint32_t id, struct pfl_span body, struct pfl_buf *out)
{
    uint8_t head[HEAD_BYTES];
    uint8_t tag[16];
    struct pfl_writer h = pfl_writer_of(head, sizeof(head));
    struct pfl_writer t = pfl_writer_of(tag, sizeof(tag));
    size_t head_len;
    int rc;

    pfl_writer_field_varint(&h, TRACE_PACKET__TIMESTAMP, boot_ns);
    pfl_writer_field_varint(&h, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, OWN_SEQUENCE);
    pfl_writer_field_varint(&h, TRACE_PACKET__SEQUENCE_FLAGS,
                            TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED);
    pfl_writer_field_header(&h, id, body.len);
    head_len = sizeof(head) - h.left;
    pfl_writer_field_header(&t, TRACE__PACKET, head_len + body.len);
    rc = pfl_buf_append(out, tag, sizeof(tag) - t.left);
    if (rc == 0)
        rc = pfl_buf_append(out, head, head_len);
    return rc == 0 ? pfl_buf_append(out, body.data, body.len) : rc;
}

int pfl_fleet_note_append(uint64_t boot_ns, const char *text, struct pfl_buf *out)
{
    static const char track[] = "perfleet: hosts that are missing";
    static const char category[] = "perfleet";
    uint8_t bytes[PACKET_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    size_t len = strlen(text);
    int rc;

    if (len > TEXT_MAX)
        return PFL_ELIMIT;
    pfl_writer_field_varint(&w, TRACK_DESCRIPTOR__UUID, TRACK);
    pfl_writer_field_bytes(&w, TRACK_DESCRIPTOR__NAME, track, sizeof(track) - 1);
    rc = append_packet(boot_ns, TRACE_PACKET__TRACK_DESCRIPTOR,
                       pfl_span_of(bytes, sizeof(bytes) - w.left), out);
    w = pfl_writer_of(bytes, sizeof(bytes));
    pfl_writer_field_varint(&w, TRACK_EVENT__TYPE, TRACK_EVENT__TYPE_INSTANT);
    pfl_writer_field_varint(&w, TRACK_EVENT__TRACK_UUID, TRACK);
    pfl_writer_field_bytes(&w, TRACK_EVENT__CATEGORIES, category, sizeof(category) - 1);
    pfl_writer_field_bytes(&w, TRACK_EVENT__NAME, text, len);
    if (rc == 0)
        rc = append_packet(boot_ns, TRACE_PACKET__TRACK_EVENT,
                           pfl_span_of(bytes, sizeof(bytes) - w.left), out);
    return rc;
}
