/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of requests to S3: AWS's "Signature Version 4", in a header or in the URL. Pure but
 * for the hash; the time is an argument. One object serves one thread at a time.
 */
#ifndef PFL_COLLECTOR_STORE_SIGV4_H
#define PFL_COLLECTOR_STORE_SIGV4_H

#include <stddef.h>
#include <time.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_SIGV4_PAIRS        10u   /* of a query, and of headers */
#define PFL_SIGV4_LINE_BYTES   2304u /* of a header; a session's token is one */
#define PFL_SIGV4_TARGET_BYTES 4096u /* path and query, escaped */
#define PFL_SIGV4_HEX_BYTES    65u

struct pfl_sigv4;

struct pfl_sigv4_keys {
    const char *id;
    const char *secret;
    const char *token; /* of a session; "": none */
    const char *region;
};

struct pfl_sigv4_pair {
    const char *name;
    const char *value;
};

struct pfl_sigv4_request {
    const char *method;
    const char *host; /* with its port, as the request's header has it */
    const char *path; /* not escaped; begins with a slash */
    struct pfl_sigv4_pair query[PFL_SIGV4_PAIRS];
    size_t query_len;
    struct pfl_sigv4_pair headers[PFL_SIGV4_PAIRS]; /* besides host and those of the signature */
    size_t headers_len;
    const char *sha256; /* of the body, hexadecimal */
    time_t now;
};

struct pfl_sigv4_signed {
    char target[PFL_SIGV4_TARGET_BYTES];
    /* "name: value", with the signature; without host. */
    char lines[PFL_SIGV4_PAIRS + 4][PFL_SIGV4_LINE_BYTES];
    size_t lines_len;
};

PFL_MUST_USE int pfl_sigv4_new(struct pfl_sigv4 **ret_sigv4);
void pfl_sigv4_free(struct pfl_sigv4 *self); /* NULL is legal */

/* PFL_ELIMIT: something is too long. */
PFL_MUST_USE int pfl_sigv4_sign(struct pfl_sigv4 *self, const struct pfl_sigv4_request *request,
                                const struct pfl_sigv4_keys *keys,
                                struct pfl_sigv4_signed *ret_signed);
/* Path and query of a link that is valid for so long; the request's headers are left out. */
PFL_MUST_USE int pfl_sigv4_presign(struct pfl_sigv4 *self, const struct pfl_sigv4_request *request,
                                   const struct pfl_sigv4_keys *keys, unsigned valid_s,
                                   char ret_target[PFL_SIGV4_TARGET_BYTES]);
/* Hexadecimal, of some bytes. */
PFL_MUST_USE int pfl_sigv4_hash(struct pfl_sigv4 *self, struct pfl_span bytes,
                                char ret_hex[PFL_SIGV4_HEX_BYTES]);
void pfl_sigv4_hex(const uint8_t hash[32], char ret_hex[PFL_SIGV4_HEX_BYTES]);

#endif
