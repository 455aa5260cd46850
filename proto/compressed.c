/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed packets: see compressed.h.
 *
 * Happy path: a zstd frame says how much it holds, and is decoded in one piece. A zlib stream does
 * not: it is decoded into a guess, and again into four times as much until it fits. Failures: what
 * is no such stream, does not fit, or has bytes behind its end. The size in a frame is a claim,
 * from which nothing but room within out's maximum follows. Owns both libraries' states:
 * libdeflate's is of base/mem, zstd's of libc's malloc. Limits: out's maximum;
 * PFL_COMPRESSED_MAX_BYTES; DEFLATE_RATIO_MAX.
 */
#include "proto/compressed.h"

#include <libdeflate.h>
#include <zstd.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"

#define GUESS_RATIO       8u
#define GUESS_MIN_BYTES   ((size_t)512 * 1024) /* a service's usual batch, and some */
#define GUESS_GROWTH      4u
#define DEFLATE_RATIO_MAX 1032u /* 258 bytes in two bits */

#define ZSTD_SINGLE_SEGMENT  0x20u
#define ZSTD_BLOCK_HEAD      3u
#define ZSTD_BLOCK_LAST      1u
#define ZSTD_BLOCK_RLE       1u
#define ZSTD_BLOCK_MIN_BYTES 512u /* on average */
#define ZSTD_BLOCKS_MIN      16u

struct pfl_compressed_decoder {
    struct libdeflate_decompressor *deflate; /* owned */
    ZSTD_DCtx *zstd;                         /* owned */
    uint64_t work_bytes;
};

int pfl_compressed_decoder_new(struct pfl_compressed_decoder **ret_decoder)
{
    struct pfl_compressed_decoder *d = pfl_mem_zalloc(sizeof(*d));

    if (d == NULL)
        return PFL_ENOMEM;
    libdeflate_set_memory_allocator(pfl_mem_alloc, pfl_mem_free);
    d->deflate = libdeflate_alloc_decompressor();
    d->zstd = ZSTD_createDCtx();
    if (d->deflate == NULL || d->zstd == NULL) {
        pfl_compressed_decoder_free(d);
        return PFL_ENOMEM;
    }
    *ret_decoder = d;
    return 0;
}

void pfl_compressed_decoder_free(struct pfl_compressed_decoder *self)
{
    if (self == NULL)
        return;
    libdeflate_free_decompressor(self->deflate);
    (void)ZSTD_freeDCtx(self->zstd);
    pfl_mem_free(self);
}

uint64_t pfl_compressed_get_work_bytes(const struct pfl_compressed_decoder *self)
{
    return self->work_bytes;
}

bool pfl_compressed_find(struct pfl_span packet, struct pfl_field *ret_field)
{
    struct pfl_reader r = pfl_reader_of(packet);

    while (pfl_reader_field(&r, ret_field)) {
        if ((ret_field->id == TRACE_PACKET__COMPRESSED_PACKETS ||
             ret_field->id == TRACE_PACKET__ZSTD_COMPRESSED_PACKETS) &&
            ret_field->type == PFL_WIRE_BYTES)
            return true;
    }
    return false;
}

/* ---- zstd ---- */

/* The library also reads frames of older formats, and skips those that hold nothing. */
static bool has_current_magic(struct pfl_span frame)
{
    static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};

    return frame.len >= sizeof(magic) && memcmp(frame.data, magic, sizeof(magic)) == 0;
}

/*
 * A block may have tables of codes of its own, which cost 8 us whatever it holds. A compressor
 * makes at most 196 of 128 KiB. What is malformed is the decoder's to refuse.
 */
static bool has_few_blocks(struct pfl_span frame, uint64_t size)
{
    static const uint8_t id_bytes[] = {0, 1, 2, 4};
    static const uint8_t size_bytes[] = {0, 2, 4, 8};
    struct pfl_reader r = pfl_reader_of(frame);
    uint64_t most = ZSTD_BLOCKS_MIN + size / ZSTD_BLOCK_MIN_BYTES;
    uint8_t flags = frame.data[sizeof(uint32_t)]; /* a frame whose size is known has them */
    size_t head = sizeof(uint32_t) + 1 + id_bytes[flags & 3] + size_bytes[flags >> 6];
    uint32_t block = 0;

    head +=
        (flags & ZSTD_SINGLE_SEGMENT) == 0 || flags >> 6 == 0; /* a window, or a size of a byte */
    (void)pfl_reader_bytes(&r, head);
    for (uint64_t blocks = 0; (block & ZSTD_BLOCK_LAST) == 0 && !r.failed; blocks++) {
        struct pfl_span bytes = pfl_reader_bytes(&r, ZSTD_BLOCK_HEAD);

        if (r.failed)
            break;
        if (blocks == most)
            return false;
        block = bytes.data[0] | (uint32_t)bytes.data[1] << 8 | (uint32_t)bytes.data[2] << 16;
        (void)pfl_reader_bytes(&r, (block >> 1 & 3) == ZSTD_BLOCK_RLE ? 1 : block >> 3);
    }
    return true;
}

static int decode_zstd(struct pfl_compressed_decoder *d, struct pfl_span frame, struct pfl_buf *out)
{
    unsigned long long size_untrusted;
    uint8_t *room;
    size_t len;
    int rc;

    if (!has_current_magic(frame))
        return PFL_EPARSE;
    size_untrusted = ZSTD_getFrameContentSize(frame.data, frame.len);
    if (size_untrusted == ZSTD_CONTENTSIZE_UNKNOWN || size_untrusted == ZSTD_CONTENTSIZE_ERROR)
        return PFL_EPARSE;
    if (size_untrusted > out->max_bytes - out->len)
        return PFL_ELIMIT;
    if (size_untrusted == 0)
        return 0;
    if (!has_few_blocks(frame, size_untrusted))
        return PFL_ELIMIT;
    rc = pfl_buf_reserve(out, (size_t)size_untrusted, &room);
    if (rc != 0)
        return rc;
    d->work_bytes += size_untrusted;
    len = ZSTD_decompressDCtx(d->zstd, room, (size_t)size_untrusted, frame.data, frame.len);
    if (ZSTD_isError(len) != 0)
        return PFL_EPARSE;
    pfl_buf_extend(out, len);
    return 0;
}

/* ---- deflate ---- */

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Into at most `room_len` bytes. PFL_EAGAIN: they are too few. */
static int try_deflate(struct pfl_compressed_decoder *d, struct pfl_span stream, size_t room_len,
                       struct pfl_buf *out)
{
    enum libdeflate_result result;
    size_t taken = 0;
    size_t len = 0;
    uint8_t *room;
    int rc = pfl_buf_reserve(out, room_len, &room);

    if (rc != 0)
        return rc;
    result = libdeflate_zlib_decompress_ex(d->deflate, stream.data, stream.len, room, room_len,
                                           &taken, &len);
    d->work_bytes += result == LIBDEFLATE_SUCCESS ? len : room_len;
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
        return PFL_EAGAIN;
    if (result != LIBDEFLATE_SUCCESS || taken != stream.len)
        return PFL_EPARSE;
    pfl_buf_extend(out, len);
    return 0;
}

static int decode_deflate(struct pfl_compressed_decoder *d, struct pfl_span stream,
                          struct pfl_buf *out)
{
    size_t left = out->max_bytes - out->len;
    size_t most = stream.len < left / DEFLATE_RATIO_MAX ? stream.len * DEFLATE_RATIO_MAX : left;
    size_t room_len = stream.len < most / GUESS_RATIO ? stream.len * GUESS_RATIO : most;
    int rc;

    if (most == 0)
        return stream.len == 0 ? PFL_EPARSE : PFL_ELIMIT;
    room_len = min_of(room_len > GUESS_MIN_BYTES ? room_len : GUESS_MIN_BYTES, most);
    rc = try_deflate(d, stream, room_len, out);
    while (rc == PFL_EAGAIN && room_len < most) {
        room_len = room_len < most / GUESS_GROWTH ? room_len * GUESS_GROWTH : most;
        rc = try_deflate(d, stream, room_len, out);
    }
    return rc == PFL_EAGAIN ? PFL_ELIMIT : rc;
}

int pfl_compressed_decode(struct pfl_compressed_decoder *self,
                          const struct pfl_field *field_untrusted, struct pfl_buf *out)
{
    if (field_untrusted->bytes.len > PFL_COMPRESSED_MAX_BYTES)
        return PFL_ELIMIT;
    return field_untrusted->id == TRACE_PACKET__ZSTD_COMPRESSED_PACKETS
               ? decode_zstd(self, field_untrusted->bytes, out)
               : decode_deflate(self, field_untrusted->bytes, out);
}
