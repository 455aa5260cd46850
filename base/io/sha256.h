/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of a stream of bytes, by OpenSSL's libcrypto (the processor's instructions for it). */
#ifndef PFL_BASE_IO_SHA256_H
#define PFL_BASE_IO_SHA256_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_SHA256_BYTES 32u

struct pfl_sha256;

/* Begins. PFL_ENOMEM. */
PFL_MUST_USE int pfl_sha256_new(struct pfl_sha256 **ret_sha256);
void pfl_sha256_free(struct pfl_sha256 *self); /* NULL is legal */
/* Allocates nothing of base/mem: may be called in any thread, one at a time. */
void pfl_sha256_add(struct pfl_sha256 *self, struct pfl_span bytes);
/* The hash of what was added, and begins again. PFL_ENOMEM: libcrypto had no memory meanwhile. */
PFL_MUST_USE int pfl_sha256_end(struct pfl_sha256 *self, uint8_t ret_hash[PFL_SHA256_BYTES]);

#endif
