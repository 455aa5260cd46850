/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tunnel's encoding "zstd": a sequence of frames, flushed whenever the input is used up. A
 * frame lasts as long as its encoder; the next frame is another encoder's. Pure; `next` returns its
 * output in pieces in storage that all codecs share: use each before the next call. `run` writes to
 * the caller's storage, so that it may be called on another thread.
 */
#ifndef PFL_PROTO_CODEC_H
#define PFL_PROTO_CODEC_H

#include "base/bytes.h"
#include "base/err.h"

/* Maximum of a piece of output. */
#define PFL_CODEC_PIECE_BYTES (64u * 1024)
/* A decoder refuses streams that need a larger window (1 MiB). */
#define PFL_CODEC_WINDOW_LOG 20

struct pfl_encoder;
struct pfl_decoder;

PFL_MUST_USE int pfl_encoder_new(struct pfl_encoder **ret_encoder); /* PFL_ENOMEM */
void pfl_encoder_free(struct pfl_encoder *self);                    /* NULL is legal */
/* Takes bytes off `in` and returns a piece. Done: all of `in` is taken, and the peer has all bytes
 * that it needs to decode it. `is_end`: `in` is the end of the input. PFL_EIO if zstd fails. */
PFL_MUST_USE int pfl_encoder_next(struct pfl_encoder *self, struct pfl_span *in, bool is_end,
                                  struct pfl_span *ret_out, bool *ret_is_done);
/* The same into `out`; done as above, and everything fitted. */
PFL_MUST_USE int pfl_encoder_run(struct pfl_encoder *self, struct pfl_span *in, bool is_end,
                                 struct pfl_writer *out, bool *ret_is_done);
/* Enough room for `len` bytes and a flush in one call. */
size_t pfl_encoder_bound(size_t len);
/* The bytes that end the frame of an encoder that no longer exists: append them after its last
 * complete output, unless that was empty or had `is_end`; then another encoder may continue. */
struct pfl_span pfl_encoder_frame_end(void);

PFL_MUST_USE int pfl_decoder_new(struct pfl_decoder **ret_decoder);
void pfl_decoder_free(struct pfl_decoder *self);
/* Decodes a sequence of frames; done: all of `in` is taken and there is no further output.
 * PFL_EPARSE, permanently: bytes that are no frame of RFC 8878, a window above the limit, frames of
 * older formats and skippable frames. */
PFL_MUST_USE int pfl_decoder_next(struct pfl_decoder *self, struct pfl_span *in,
                                  struct pfl_span *ret_out, bool *ret_is_done);
/* The same into `out`: until that is full, or all of `in` is taken. */
PFL_MUST_USE int pfl_decoder_run(struct pfl_decoder *self, struct pfl_span *in,
                                 struct pfl_writer *out, bool *ret_is_done);

#endif
