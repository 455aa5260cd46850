/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoded bytes of a hostile host, decoded whole and in pieces of the first byte's size: the same
 * comes out, up to a bound, or both are broken; and it ends.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "proto/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX_BYTES (1u << 20)

static int decode_piece(struct pfl_decoder *d, struct pfl_span piece, struct pfl_buf *out)
{
    bool is_done = false;

    while (!is_done) {
        struct pfl_span got;
        int rc = pfl_decoder_next(d, &piece, &got, &is_done);

        if (rc != 0)
            return rc;
        if (got.len > PFL_CODEC_PIECE_BYTES)
            abort();
        if (got.len == 0 && !is_done && piece.len == 0)
            abort(); /* it would never end */
        rc = pfl_buf_append(out, got.data, got.len);
        if (rc != 0)
            return rc; /* enough */
    }
    return 0;
}

static int decode(struct pfl_span in, size_t piece, struct pfl_buf *out)
{
    struct pfl_decoder *d;
    int rc = 0;

    if (pfl_decoder_new(&d) != 0)
        abort();
    while (rc == 0 && in.len != 0) {
        size_t len = in.len < piece ? in.len : piece;

        rc = decode_piece(d, pfl_span_of(in.data, len), out);
        in = pfl_span_of(in.data + len, in.len - len);
    }
    pfl_decoder_free(d);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_buf whole;
    struct pfl_buf parts;
    int rc;

    if (size == 0)
        return 0;
    pfl_buf_init(&whole, OUT_MAX_BYTES);
    pfl_buf_init(&parts, OUT_MAX_BYTES);
    rc = decode(pfl_span_of(data + 1, size - 1), size, &whole);
    if (decode(pfl_span_of(data + 1, size - 1), data[0] + 1u, &parts) != rc && rc == 0)
        abort();
    if (rc == 0 && (whole.len != parts.len ||
                    (whole.len != 0 &&
                     memcmp(pfl_buf_get(&whole).data, pfl_buf_get(&parts).data, whole.len) != 0)))
        abort();
    pfl_buf_fini(&whole);
    pfl_buf_fini(&parts);
    return 0;
}
