/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed packets: see compressed.h. The frame's own size is a claim until zstd confirms it. */
#include "proto/compressed.h"

#include <zstd.h>

#include "base/mem.h"

struct pfl_compressed_decoder {
    ZSTD_DCtx *zstd; /* owned */
};

int pfl_compressed_decoder_new(struct pfl_compressed_decoder **ret_decoder)
{
    struct pfl_compressed_decoder *d = pfl_mem_zalloc(sizeof(*d));

    if (d == NULL)
        return PFL_ENOMEM;
    d->zstd = ZSTD_createDCtx();
    if (d->zstd == NULL) {
        pfl_mem_free(d);
        return PFL_ENOMEM;
    }
    *ret_decoder = d;
    return 0;
}

void pfl_compressed_decoder_free(struct pfl_compressed_decoder *self)
{
    if (self == NULL)
        return;
    (void)ZSTD_freeDCtx(self->zstd);
    pfl_mem_free(self);
}

int pfl_compressed_decode(struct pfl_compressed_decoder *self, struct pfl_span frame_untrusted,
                          struct pfl_buf *out)
{
    unsigned long long size_untrusted =
        ZSTD_getFrameContentSize(frame_untrusted.data, frame_untrusted.len);
    uint8_t *room;
    size_t len;
    int rc;

    if (size_untrusted == ZSTD_CONTENTSIZE_UNKNOWN || size_untrusted == ZSTD_CONTENTSIZE_ERROR)
        return PFL_EPARSE;
    if (size_untrusted > out->max_bytes - out->len)
        return PFL_ELIMIT;
    if (size_untrusted == 0)
        return 0;
    rc = pfl_buf_reserve(out, (size_t)size_untrusted, &room);
    if (rc != 0)
        return rc;
    len = ZSTD_decompressDCtx(self->zstd, room, (size_t)size_untrusted, frame_untrusted.data,
                              frame_untrusted.len);
    if (ZSTD_isError(len) != 0)
        return PFL_EPARSE;
    pfl_buf_extend(out, len);
    return 0;
}
