/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tunnel's encoding "zstd": one frame after the other, flushed whenever there is no more to
 * add. A frame lasts as long as its encoder; what follows it is another encoder's. Pure; `next`
 * gives its output in pieces on storage that all codecs share: use each before the next call. `run`
 * writes to the caller's, so that it may be called on another thread.
 */
#ifndef PFL_PROTO_CODEC_H
#define PFL_PROTO_CODEC_H

#include "base/bytes.h"
#include "base/err.h"

/* What a piece of output has at most. */
#define PFL_CODEC_PIECE_BYTES (64u * 1024)
/* A decoder refuses streams that would take more memory than this window (1 MiB). */
#define PFL_CODEC_WINDOW_LOG 20

struct pfl_encoder;
struct pfl_decoder;

PFL_MUST_USE int pfl_encoder_new(struct pfl_encoder **ret_encoder); /* PFL_ENOMEM */
void pfl_encoder_free(struct pfl_encoder *self);                    /* NULL is legal */
/* Takes bytes off `in` and gives a piece. Done: all of `in` is taken, and all that the peer needs
 * to decode it has been given. `is_end`: nothing comes after `in`. PFL_EIO when zstd fails. */
PFL_MUST_USE int pfl_encoder_next(struct pfl_encoder *self, struct pfl_span *in, bool is_end,
                                  struct pfl_span *ret_out, bool *ret_is_done);
/* The same into `out`; done as above, and there was room. */
PFL_MUST_USE int pfl_encoder_run(struct pfl_encoder *self, struct pfl_span *in, bool is_end,
                                 struct pfl_writer *out, bool *ret_is_done);
/* Room enough for `len` bytes and a flush at once. */
size_t pfl_encoder_bound(size_t len);
/* What ends the frame of an encoder that is gone: right after what it had given when it was done
 * last, if that was anything at all and not with `is_end`; then another encoder may go on. */
struct pfl_span pfl_encoder_frame_end(void);

PFL_MUST_USE int pfl_decoder_new(struct pfl_decoder **ret_decoder);
void pfl_decoder_free(struct pfl_decoder *self);
/* The same backwards, of frames one after the other; done: all of `in` is taken and nothing more
 * comes of it. PFL_EPARSE, for good: bytes that are no frame of RFC 8878, a window above the limit,
 * frames of older formats and skippable frames. */
PFL_MUST_USE int pfl_decoder_next(struct pfl_decoder *self, struct pfl_span *in,
                                  struct pfl_span *ret_out, bool *ret_is_done);
/* The same into `out`: until that is full, or all of `in` is taken. */
PFL_MUST_USE int pfl_decoder_run(struct pfl_decoder *self, struct pfl_span *in,
                                 struct pfl_writer *out, bool *ret_is_done);

#endif
