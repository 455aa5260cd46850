/* SPDX-License-Identifier: Apache-2.0 */
/* Join tokens, and the messages that use them (docs/certificates.md). Pure. */
#ifndef PFL_AGENT_JOIN_TOKEN_H
#define PFL_AGENT_JOIN_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/tunnel/identity.h"

#define PFL_JOIN_HASH_BYTES 32u
#define PFL_JOIN_ANSWER_MAX (4u << 20) /* with a list of some 80,000 that were revoked */

struct pfl_join_token {
    char fleet[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES]; /* of the host */
    char id[17];
    uint8_t secret[PFL_JOIN_HASH_BYTES];
    uint8_t ca_sha256[PFL_JOIN_HASH_BYTES];
};

/* Parses "pfl-join:FLEET:NAME:ID:SECRET:FINGERPRINT"; white space after it is ignored.
 * PFL_EPARSE. */
PFL_MUST_USE int pfl_join_token_parse(const char *text, struct pfl_join_token *ret_token);

/* Encodes the request to the signer. PFL_ELIMIT: it does not fit. */
PFL_MUST_USE int pfl_join_request_encode(const struct pfl_join_token *token,
                                         const uint8_t mac[PFL_JOIN_HASH_BYTES],
                                         const char *csr_pem, char *ret_text, size_t size);

/* The parts of the signer's answer, in its order. */
struct pfl_join_answer {
    const char *refusal; /* NULL: granted */
    const char *cert;    /* ours; the rest follows */
    size_t cert_len;
    const char *ca; /* to the end; "" if there is none */
    size_t ca_len;
    const char *crl; /* to the end; "" when there is none */
};
/* `text` ends in NUL and is borrowed; a refusal is cut at its line's end, and what is no character
 * to print in ASCII becomes a question mark. PFL_EPARSE: neither grant nor refusal. */
PFL_MUST_USE int pfl_join_answer_parse(char *text, struct pfl_join_answer *ret_answer);

#endif
