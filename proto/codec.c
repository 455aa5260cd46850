/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd as the tunnel uses it: see codec.h.
 *
 * Happy path: level LEVEL, a window of 2^WRITE_WINDOW_LOG bytes, one frame of an encoder, without
 * size and checksum, so that a last block of no bytes ends it wherever it was flushed. Failures:
 * bytes that cannot be decoded are PFL_EPARSE, permanently. Ownership: zstd's contexts. Limits: the
 * window; a piece.
 */
#include "proto/codec.h"

#include <string.h>
#include <zstd.h>

#include "base/mem.h"

/* Of a trace of Chromium and the kernel 7.3 to 1 at 870 MB/s (level 1: 7.8 at 790; -3: 5.6 at 900).
 */
#define LEVEL            (-1)
#define WRITE_WINDOW_LOG 19
#define MIN_MATCH        7   /* the level's 6: 1 in 300 smaller, and 1 in 30 more time */
#define FRAME_ROOM       64u /* a frame's head, the last block's, a checksum's */

struct pfl_encoder {
    ZSTD_CCtx *zstd; /* owned */
};

struct pfl_decoder {
    ZSTD_DCtx *zstd;  /* owned */
    size_t magic_len; /* of the frame being read: how many bytes of its magic number came */
    bool is_broken;
};

/* RFC 8878, 3.1.1: 0xFD2FB528, little-endian. */
static const uint8_t frame_magic[] = {0x28, 0xb5, 0x2f, 0xfd};

/* The loop's alone: used up before the next call. */
static uint8_t piece[PFL_CODEC_PIECE_BYTES];

int pfl_encoder_new(struct pfl_encoder **ret_encoder)
{
    struct pfl_encoder *e = pfl_mem_zalloc(sizeof(*e));

    if (e == NULL)
        return PFL_ENOMEM;
    e->zstd = ZSTD_createCCtx();
    if (e->zstd == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_compressionLevel, LEVEL)) != 0 ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_windowLog, WRITE_WINDOW_LOG)) != 0 ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_minMatch, MIN_MATCH)) != 0 ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_checksumFlag, 0)) != 0 ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_contentSizeFlag, 0)) != 0) {
        pfl_encoder_free(e);
        return PFL_ENOMEM;
    }
    *ret_encoder = e;
    return 0;
}

void pfl_encoder_free(struct pfl_encoder *self)
{
    if (self == NULL)
        return;
    (void)ZSTD_freeCCtx(self->zstd);
    pfl_mem_free(self);
}

static void take(struct pfl_span *in, size_t len)
{
    if (len != 0)
        *in = pfl_span_of(in->data + len, in->len - len);
}

int pfl_encoder_run(struct pfl_encoder *self, struct pfl_span *in, bool is_end,
                    struct pfl_writer *out, bool *ret_is_done)
{
    ZSTD_inBuffer from = {.src = in->data, .size = in->len};
    ZSTD_outBuffer to = {.dst = out->pos, .size = out->left};
    size_t left = ZSTD_compressStream2(self->zstd, &to, &from, is_end ? ZSTD_e_end : ZSTD_e_flush);

    if (ZSTD_isError(left) != 0)
        return PFL_EIO;
    take(in, from.pos);
    out->pos += to.pos;
    out->left -= to.pos;
    *ret_is_done = left == 0;
    return 0;
}

int pfl_encoder_next(struct pfl_encoder *self, struct pfl_span *in, bool is_end,
                     struct pfl_span *ret_out, bool *ret_is_done)
{
    struct pfl_writer out = pfl_writer_of(piece, sizeof(piece));
    int rc = pfl_encoder_run(self, in, is_end, &out, ret_is_done);

    if (rc == 0)
        *ret_out = pfl_span_of(piece, sizeof(piece) - out.left);
    return rc;
}

size_t pfl_encoder_bound(size_t len)
{
    return ZSTD_compressBound(len) + FRAME_ROOM;
}

struct pfl_span pfl_encoder_frame_end(void)
{
    /* RFC 8878, 3.1.1.2: 24 bits: the last block, of type raw, 0 bytes of it. */
    static const uint8_t last_block[] = {0x01, 0x00, 0x00};

    return pfl_span_of(last_block, sizeof(last_block));
}

int pfl_decoder_new(struct pfl_decoder **ret_decoder)
{
    struct pfl_decoder *d = pfl_mem_zalloc(sizeof(*d));

    if (d == NULL)
        return PFL_ENOMEM;
    d->zstd = ZSTD_createDCtx();
    if (d->zstd == NULL || ZSTD_isError(ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax,
                                                               PFL_CODEC_WINDOW_LOG)) != 0) {
        pfl_decoder_free(d);
        return PFL_ENOMEM;
    }
    *ret_decoder = d;
    return 0;
}

void pfl_decoder_free(struct pfl_decoder *self)
{
    if (self == NULL)
        return;
    (void)ZSTD_freeDCtx(self->zstd);
    pfl_mem_free(self);
}

/* The library also reads the frames of formats 0.5 to 0.7 (by the same call, when Debian builds it)
 * and ignores the limit of the window for them: they are refused here, at their first byte. So are
 * skippable frames, which no encoder of the tunnel writes. */
static bool has_current_magic(const struct pfl_decoder *d, struct pfl_span in)
{
    size_t len = sizeof(frame_magic) - d->magic_len;

    len = len < in.len ? len : in.len;
    return len == 0 || memcmp(frame_magic + d->magic_len, in.data, len) == 0;
}

static void count_magic(struct pfl_decoder *d, size_t taken, bool is_frame_end)
{
    size_t left = sizeof(frame_magic) - d->magic_len;

    d->magic_len = is_frame_end ? 0 : d->magic_len + (taken < left ? taken : left);
}

static int decode(struct pfl_decoder *d, struct pfl_span *in, struct pfl_writer *out)
{
    ZSTD_inBuffer from = {.src = in->data, .size = in->len};
    ZSTD_outBuffer to = {.dst = out->pos, .size = out->left};
    size_t rc;

    if (d->is_broken || !has_current_magic(d, *in))
        goto fail;
    rc =
        ZSTD_decompressStream(d->zstd, &to, &from); /* 0: a frame ended, and nothing is held back */
    if (ZSTD_isError(rc) != 0)
        goto fail;
    count_magic(d, from.pos, rc == 0);
    take(in, from.pos);
    out->pos += to.pos;
    out->left -= to.pos;
    return 0;

fail:
    d->is_broken = true;
    return PFL_EPARSE;
}

int pfl_decoder_run(struct pfl_decoder *self, struct pfl_span *in, struct pfl_writer *out,
                    bool *ret_is_done)
{
    int rc;

    do
        rc = decode(self, in, out);
    while (rc == 0 && in->len != 0 && out->left != 0);
    *ret_is_done = in->len == 0 && out->left != 0;
    return rc;
}

int pfl_decoder_next(struct pfl_decoder *self, struct pfl_span *in, struct pfl_span *ret_out,
                     bool *ret_is_done)
{
    struct pfl_writer out = pfl_writer_of(piece, sizeof(piece));
    int rc = decode(self, in, &out);

    if (rc != 0)
        return rc;
    *ret_out = pfl_span_of(piece, sizeof(piece) - out.left);
    *ret_is_done = in->len == 0 && out.left != 0;
    return 0;
}
