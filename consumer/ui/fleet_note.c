/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two packets of the sequence that is the writer of the file itself (docs/merged-trace.md): the
 * track's descriptor, the event. No state.
 */
#include "consumer/ui/fleet_note.h"

enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_INSTANT = 3,
    FLAG_STATE_CLEARED = 1,
    OWN_SEQUENCE = 1,
};

#define TEXT_MAX     3072u
#define TRACK        UINT64_C(0x7065726669656c64) /* any that nobody else takes */
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

    pfl_writer_field_varint(&h, PACKET_TIMESTAMP, boot_ns);
    pfl_writer_field_varint(&h, PACKET_SEQUENCE, OWN_SEQUENCE);
    pfl_writer_field_varint(&h, PACKET_SEQUENCE_FLAGS, FLAG_STATE_CLEARED);
    pfl_writer_field_header(&h, id, body.len);
    head_len = sizeof(head) - h.left;
    pfl_writer_field_header(&t, TRACE_PACKET, head_len + body.len);
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
    pfl_writer_field_varint(&w, TRACK_UUID, TRACK);
    pfl_writer_field_bytes(&w, TRACK_NAME, track, sizeof(track) - 1);
    rc = append_packet(boot_ns, PACKET_TRACK_DESCRIPTOR, pfl_span_of(bytes, sizeof(bytes) - w.left),
                       out);
    w = pfl_writer_of(bytes, sizeof(bytes));
    pfl_writer_field_varint(&w, EVENT_TYPE, EVENT_INSTANT);
    pfl_writer_field_varint(&w, EVENT_TRACK, TRACK);
    pfl_writer_field_bytes(&w, EVENT_CATEGORY, category, sizeof(category) - 1);
    pfl_writer_field_bytes(&w, EVENT_NAME, text, len);
    if (rc == 0)
        rc = append_packet(boot_ns, PACKET_TRACK_EVENT, pfl_span_of(bytes, sizeof(bytes) - w.left),
                           out);
    return rc;
}
