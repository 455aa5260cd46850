/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdeflate and zstd behind one call.
 *
 *   room: [.....][tag, length][compressed bytes]     the head is written when the length is known
 *
 * Happy path: one call per batch, output in one piece. libdeflate's state is allocated once,
 * through base/mem; running it allocates nothing, so a worker may do it. zstd's context allocates
 * with libc's malloc, which threads may share. Failure: zstd has no memory; the caller then sends
 * the batch as it is. Limits: a window of WINDOW_LOG_MAX keeps zstd's memory at a few dozen MB at
 * every level, even for giant packets.
 */
#include "service/output/compressor.h"

#include <libdeflate.h>
#include <zstd.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"

#define DEFLATE_LEVEL  5 /* as small as zlib's 6 (docs/benchmarks.md) */
#define WINDOW_LOG_MAX 21
/* Tag and length: a tag of 2 bytes, a length of at most 5. */
#define HEAD_MAX 8u

struct pfl_compressor {
    enum pfl_codec codec;
    struct libdeflate_compressor *deflate; /* owned; or NULL */
    ZSTD_CCtx *zstd;                       /* owned; or NULL: made for the next batch */
    int zstd_level;
};

static int open_deflate(struct pfl_compressor *c)
{
    libdeflate_set_memory_allocator(pfl_mem_alloc, pfl_mem_free);
    c->deflate = libdeflate_alloc_compressor(DEFLATE_LEVEL);
    return c->deflate != NULL ? 0 : PFL_ENOMEM;
}

static int open_zstd(struct pfl_compressor *c)
{
    c->zstd = ZSTD_createCCtx();
    if (c->zstd == NULL)
        return PFL_ENOMEM;
    (void)ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_compressionLevel, c->zstd_level);
    (void)ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_windowLog, WINDOW_LOG_MAX);
    return 0;
}

int pfl_compressor_new(enum pfl_codec codec, int zstd_level, struct pfl_compressor **ret_compressor)
{
    struct pfl_compressor *c = pfl_mem_zalloc(sizeof(*c));
    int rc;

    if (c == NULL)
        return PFL_ENOMEM;
    c->codec = codec;
    c->zstd_level = zstd_level;
    rc = codec == PFL_CODEC_ZSTD ? open_zstd(c) : open_deflate(c);
    if (rc != 0) {
        pfl_compressor_free(c);
        return rc;
    }
    *ret_compressor = c;
    return 0;
}

void pfl_compressor_free(struct pfl_compressor *self)
{
    if (self == NULL)
        return;
    libdeflate_free_compressor(self->deflate);
    (void)ZSTD_freeCCtx(self->zstd);
    pfl_mem_free(self);
}

size_t pfl_compressor_get_bytes(const struct pfl_compressor *self)
{
    return sizeof(*self) + ZSTD_sizeof_CCtx(self->zstd);
}

void pfl_compressor_trim(struct pfl_compressor *self)
{
    (void)ZSTD_freeCCtx(self->zstd);
    self->zstd = NULL;
}

size_t pfl_compressor_bound(struct pfl_compressor *self, size_t len)
{
    size_t bound = self->codec == PFL_CODEC_ZSTD
                       ? ZSTD_compressBound(len)
                       : libdeflate_zlib_compress_bound(self->deflate, len);

    return HEAD_MAX + bound;
}

static int run_deflate(struct pfl_compressor *c, struct pfl_span trace, struct pfl_writer *w)
{
    size_t len = libdeflate_zlib_compress(c->deflate, trace.data, trace.len, w->pos, w->left);

    if (len == 0)
        return PFL_ELIMIT;
    w->pos += len;
    return 0;
}

static int run_zstd(struct pfl_compressor *c, struct pfl_span trace, struct pfl_writer *w)
{
    size_t len;

    if (c->zstd == NULL && open_zstd(c) != 0)
        return PFL_ENOMEM;
    len = ZSTD_compress2(c->zstd, w->pos, w->left, trace.data, trace.len);
    if (ZSTD_isError(len))
        return PFL_ENOMEM;
    w->pos += len;
    return 0;
}

int pfl_compressor_run(struct pfl_compressor *self, struct pfl_span trace, uint8_t *room,
                       struct pfl_span *ret_packet)
{
    bool is_zstd = self->codec == PFL_CODEC_ZSTD;
    uint8_t *body = room + HEAD_MAX;
    struct pfl_writer w = pfl_writer_of(body, pfl_compressor_bound(self, trace.len) - HEAD_MAX);
    uint8_t head[HEAD_MAX];
    struct pfl_writer head_writer = pfl_writer_of(head, sizeof(head));
    size_t head_len;
    size_t body_len;
    int rc = is_zstd ? run_zstd(self, trace, &w) : run_deflate(self, trace, &w);

    if (rc != 0)
        return rc;
    body_len = (size_t)(w.pos - body);
    pfl_writer_field_header(&head_writer,
                            is_zstd ? TRACE_PACKET__ZSTD_COMPRESSED_PACKETS
                                    : TRACE_PACKET__COMPRESSED_PACKETS,
                            body_len);
    head_len = sizeof(head) - head_writer.left;
    memcpy(body - head_len, head, head_len);
    *ret_packet = pfl_span_of(body - head_len, head_len + body_len);
    return 0;
}
