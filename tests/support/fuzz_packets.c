/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fuzz_packets.h"

#include <stdlib.h>

#include "perfetto/consumer_port.fields.h"
#include "perfetto/ipc.fields.h"
#include "proto/compressed.h"
#include "tests/support/fuzz_note.h"

#define PLAIN_MAX (8u << 20)

static struct pfl_compressed_decoder *decoder;
static bool is_plain;
static struct pfl_buf packet_so_far; /* of slices */

void note_packets_open(void)
{
    if (pfl_compressed_decoder_new(&decoder) != 0)
        abort();
    pfl_buf_init(&packet_so_far, PLAIN_MAX);
    is_plain = true;
}

void note_packets_close(void)
{
    pfl_compressed_decoder_free(decoder);
    pfl_buf_fini(&packet_so_far);
}

bool note_packets_are_plain(void)
{
    return is_plain;
}

void note_packet(const char *what, struct pfl_span packet)
{
    struct pfl_field field;
    struct pfl_buf plain;

    if (!pfl_compressed_find(packet, &field)) {
        note_message(what, packet);
        return;
    }
    is_plain = false;
    pfl_buf_init(&plain, PLAIN_MAX);
    if (pfl_compressed_decode(decoder, &field, &plain) == 0) {
        note("%s: compressed, field %u", what, field.id);
        note_fields(" >", pfl_buf_get(&plain));
    } else {
        note_message(what, packet);
    }
    pfl_buf_fini(&plain);
}

void note_trace(const char *what, struct pfl_span trace)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field f;

    while (r.left != 0) {
        if (!pfl_reader_field(&r, &f) || f.id != 1 || f.type != PFL_WIRE_BYTES) {
            note_bytes(what, pfl_span_of(r.pos, r.left));
            return;
        }
        note_packet(what, f.bytes);
    }
}

static void take_slice(struct pfl_span slice)
{
    struct pfl_reader r = pfl_reader_of(slice);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1) {
            if (pfl_buf_append(&packet_so_far, f.bytes.data, f.bytes.len) != 0)
                abort();
        } else if (f.value != 0) {
            note_packet("packet", pfl_buf_get(&packet_so_far));
            pfl_buf_clear(&packet_so_far);
        }
    }
}

static void note_body(struct pfl_span body)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == READ_BUFFERS_RESPONSE__SLICES)
            take_slice(f.bytes);
        else
            note_message("run", f.bytes);
    }
}

void note_reply(struct pfl_span frame)
{
    struct pfl_reader r = pfl_reader_of(frame);
    struct pfl_field f;
    struct pfl_field reply;

    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader inner = pfl_reader_of(f.bytes);

        if (f.id != IPC_FRAME__MSG_INVOKE_METHOD_REPLY) {
            note_message("frame", f.raw);
            continue;
        }
        while (pfl_reader_field(&inner, &reply)) {
            if (reply.id == IPC_FRAME__INVOKE_METHOD_REPLY__REPLY_PROTO)
                note_body(reply.bytes);
            else
                note_message("reply", reply.raw);
        }
    }
}
