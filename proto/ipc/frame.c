/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a byte stream into frames (docs/abi/wire.md section 1).
 *
 * Happy path: the callback gets whole frames in the caller's bytes; only an incomplete frame is
 * copied into `partial`, and completed there by later feeds. After a pause `partial` keeps the rest
 * of the bytes that were fed, and the next feed begins with it.
 *
 * Failures: an oversized prefix is PFL_EPROTO as soon as its four bytes are known. Nothing is
 * reserved for the announced length: `partial` grows with the received bytes.
 *
 * Limits: `partial` never holds more than one frame and the rest of one feed; an empty one that had
 * grown past KEEP_BYTES frees its memory, so that idle connections stay small.
 */
#include "proto/ipc/frame.h"

#include <assert.h>

#include "proto/unpack.h"

#define KEEP_BYTES  4096u
#define KEPT_FRAMES 2u /* of the largest size: one that comes again, and the rest of a feed */

void pfl_frame_reader_init(struct pfl_frame_reader *self)
{
    self->max_bytes = PFL_FRAME_MAX_BYTES;
    pfl_buf_init(&self->partial, KEPT_FRAMES * self->max_bytes);
}

void pfl_frame_reader_init_large(struct pfl_frame_reader *self)
{
    self->max_bytes = PFL_FRAME_LARGE_MAX_BYTES;
    pfl_buf_init(&self->partial, KEPT_FRAMES * self->max_bytes);
}

void pfl_frame_reader_fini(struct pfl_frame_reader *self)
{
    pfl_buf_fini(&self->partial);
}

static uint32_t read_prefix(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void drop_front(struct pfl_span *data, size_t len)
{
    data->data += len;
    data->len -= len;
}

/* Calls back for the whole frames at the front of `data`; leaves an incomplete one. */
static int take_whole_frames(const struct pfl_frame_reader *self, struct pfl_span *data,
                             pfl_frame_cb cb, void *user)
{
    size_t payload_max = self->max_bytes - PFL_FRAME_PREFIX_BYTES;

    while (data->len >= PFL_FRAME_PREFIX_BYTES) {
        uint32_t len_untrusted = read_prefix(data->data);
        struct pfl_span payload;
        int rc;

        if (len_untrusted > payload_max)
            return PFL_EPROTO;
        if (len_untrusted > data->len - PFL_FRAME_PREFIX_BYTES)
            return 0;
        payload = pfl_span_of(data->data + PFL_FRAME_PREFIX_BYTES, len_untrusted);
        rc = payload.len != 0 ? cb(user, payload) : 0;
        if (rc != PFL_FRAME_AGAIN)
            drop_front(data, PFL_FRAME_PREFIX_BYTES + payload.len);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Moves bytes from `data` until `partial` holds `want` of them or `data` is used up. */
static int fill_partial(struct pfl_frame_reader *self, struct pfl_span *data, size_t want)
{
    size_t missing = want - self->partial.len;
    size_t len = missing < data->len ? missing : data->len;
    int rc = pfl_buf_append(&self->partial, data->data, len);

    if (rc == 0)
        drop_front(data, len);
    return rc;
}

/* The frame leaves `partial` before it is handed out: the callback may feed us again. */
static int hand_out_partial(struct pfl_frame_reader *self, pfl_frame_cb cb, void *user)
{
    struct pfl_buf taken = self->partial;
    struct pfl_span payload = pfl_buf_get(&taken);
    int rc = 0;

    pfl_buf_init(&self->partial, taken.max_bytes);
    drop_front(&payload, PFL_FRAME_PREFIX_BYTES);
    if (payload.len != 0)
        rc = cb(user, payload);
    if (rc == PFL_FRAME_AGAIN) {
        pfl_buf_fini(&self->partial);
        self->partial = taken;
    } else if (self->partial.data == NULL && taken.capacity <= KEEP_BYTES) {
        pfl_buf_clear(&taken);
        self->partial = taken;
    } else {
        pfl_buf_fini(&taken);
    }
    return rc;
}

/* Continues the frame in `partial`; calls back when it is complete. */
static int complete_partial(struct pfl_frame_reader *self, struct pfl_span *data, pfl_frame_cb cb,
                            void *user)
{
    size_t whole;
    int rc = 0;

    if (self->partial.len < PFL_FRAME_PREFIX_BYTES)
        rc = fill_partial(self, data, PFL_FRAME_PREFIX_BYTES);
    if (rc != 0 || self->partial.len < PFL_FRAME_PREFIX_BYTES)
        return rc;
    whole = read_prefix(pfl_buf_get(&self->partial).data);
    if (whole > self->max_bytes - PFL_FRAME_PREFIX_BYTES)
        return PFL_EPROTO;
    whole += PFL_FRAME_PREFIX_BYTES;
    rc = fill_partial(self, data, whole);
    if (rc != 0 || self->partial.len < whole)
        return rc;
    return hand_out_partial(self, cb, user);
}

bool pfl_frame_reader_has_frames(const struct pfl_frame_reader *self)
{
    struct pfl_span kept = pfl_buf_get(&self->partial);

    return kept.len >= PFL_FRAME_PREFIX_BYTES &&
           read_prefix(kept.data) <= kept.len - PFL_FRAME_PREFIX_BYTES;
}

/* They leave `partial` as a frame does, and the rest comes back. */
static int feed_kept(struct pfl_frame_reader *self, pfl_frame_cb cb, void *user)
{
    struct pfl_buf taken = self->partial;
    struct pfl_span data = pfl_buf_get(&taken);
    int rc;

    pfl_buf_init(&self->partial, taken.max_bytes);
    rc = take_whole_frames(self, &data, cb, user);
    if (rc == PFL_FRAME_AGAIN && data.len == taken.len) { /* as it was */
        pfl_buf_fini(&self->partial);
        self->partial = taken;
        return 0;
    }
    if (rc >= 0 && data.len != 0)
        rc = fill_partial(self, &data, data.len);
    pfl_buf_fini(&taken);
    return rc < 0 ? rc : 0;
}

int pfl_frame_reader_feed(struct pfl_frame_reader *self, struct pfl_span data, pfl_frame_cb cb,
                          void *user)
{
    int rc = 0;

    if (pfl_frame_reader_has_frames(self)) {
        assert(data.len == 0);
        return feed_kept(self, cb, user);
    }
    if (self->partial.len != 0)
        rc = complete_partial(self, &data, cb, user);
    if (rc == 0)
        rc = take_whole_frames(self, &data, cb, user);
    if (rc >= 0 && data.len != 0)
        rc = fill_partial(self, &data, self->partial.len + data.len);
    return rc < 0 ? rc : 0;
}

int pfl_frame_write(const ProtobufCMessage *message, struct pfl_buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t prefix[PFL_FRAME_PREFIX_BYTES];
    struct pfl_writer w = pfl_writer_of(prefix, sizeof(prefix));
    size_t before = out->len;
    int rc;

    if (len > PFL_FRAME_LARGE_MAX_BYTES - PFL_FRAME_PREFIX_BYTES)
        return PFL_ELIMIT;
    pfl_writer_u32(&w, (uint32_t)len);
    rc = pfl_buf_append(out, prefix, sizeof(prefix));
    if (rc == 0)
        rc = pfl_proto_pack(message, out);
    if (rc != 0)
        out->len = before;
    return rc;
}
