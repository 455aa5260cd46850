/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One TLS connection without I/O: ciphertext in and out, plaintext in and out, all on the caller's
 * storage. The engine keeps at most one partial record; a server's engine allocates its record
 * buffers (33 KiB) with the first byte only.
 */
#ifndef PFL_BASE_IO_TLS_ENGINE_H
#define PFL_BASE_IO_TLS_ENGINE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/io/tls_stream.h"

/* Maximal plaintext of one record. */
#define PFL_TLS_RECORD_BYTES 16384u
/* Maximal number of bytes that encryption adds to a record. */
#define PFL_TLS_RECORD_OVERHEAD 64u
/* Space that every call needs in its ciphertext writer: a flight of the handshake with its
 * chain. */
#define PFL_TLS_OUT_BYTES (64u * 1024)

/* Records of a peer without data, such as warnings, until its connection ends. No peer has reason
 * to send more than a few. */
#define PFL_TLS_EMPTY_RECORDS_MAX 64u

struct pfl_tls_engine;

/* `expected_uri` is copied; NULL accepts any name. Holds a reference to `conf`. PFL_ENOMEM. */
PFL_MUST_USE int pfl_tls_engine_new(struct pfl_tls_conf *conf, const char *expected_uri,
                                    struct pfl_tls_engine **ret_engine);
void pfl_tls_engine_free(struct pfl_tls_engine *self);

/* Writes a client's first flight; a server sends nothing yet. PFL_ETLS, PFL_ENOMEM. */
PFL_MUST_USE int pfl_tls_engine_start(struct pfl_tls_engine *self, struct pfl_writer *out);

/*
 * Takes ciphertext from the front of `cipher` (updated), and writes its plaintext to `plain` and
 * answers to `out`. Returns early, with bytes left, when the handshake is done and when a record
 * does not fit into `plain`. After the peer's close_notify the rest is dropped. PFL_ETLS: `out` may
 * hold the alert to send; pfl_tls_engine_get_error has the reason. PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_tls_engine_feed(struct pfl_tls_engine *self, struct pfl_span *cipher,
                                     struct pfl_writer *plain, struct pfl_writer *out);

/* Encrypts one record of at most pfl_tls_engine_get_record_bytes; `out` needs room for it with its
 * overhead. PFL_ESTATE before the handshake is done and after close_notify; PFL_ETLS, also if the
 * key has sealed its maximum of records. */
PFL_MUST_USE int pfl_tls_engine_write(struct pfl_tls_engine *self, struct pfl_span plain,
                                      struct pfl_writer *out);
/* Announces that we send no more. Idempotent. */
void pfl_tls_engine_close_notify(struct pfl_tls_engine *self, struct pfl_writer *out);

bool pfl_tls_engine_is_ready(const struct pfl_tls_engine *self);
/* True if the peer announced that it sends no more. */
bool pfl_tls_engine_has_peer_closed(const struct pfl_tls_engine *self);
const struct pfl_tls_identity *pfl_tls_engine_get_identity(const struct pfl_tls_engine *self);
const char *pfl_tls_engine_get_error(const struct pfl_tls_engine *self);
/* What ALPN agreed on; NULL: nothing, or the handshake is not done. */
const char *pfl_tls_engine_get_alpn(const struct pfl_tls_engine *self);
/* "1.2" or "1.3"; "" before the handshake is done. */
const char *pfl_tls_engine_get_version(const struct pfl_tls_engine *self);
/* Plaintext that one of our records may carry, at most PFL_TLS_RECORD_BYTES; 0 before the handshake
 * is done. */
size_t pfl_tls_engine_get_record_bytes(const struct pfl_tls_engine *self);
/* The cipher suite's name, "" before the handshake is done. */
const char *pfl_tls_engine_get_cipher(const struct pfl_tls_engine *self);

#endif
