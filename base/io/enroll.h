/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets a certificate for a machine: creates a key and a request for it, sends it over TLS to a
 * server that is known only by its authority's fingerprint, and checks the answer. Blocking: for a
 * command that does nothing else.
 */
#ifndef PFL_BASE_IO_ENROLL_H
#define PFL_BASE_IO_ENROLL_H

#include "base/buf.h"

#define PFL_ENROLL_HASH_BYTES 32u
#define PFL_ENROLL_PEM_MAX    4096u

struct pfl_enroll; /* the key */

/* Makes an ECDSA P-256 key. PFL_ETLS (no random source), PFL_ENOMEM. */
PFL_MUST_USE int pfl_enroll_new(struct pfl_enroll **ret_enroll);
/* With the key of a file. PFL_ETLS: not a valid key; PFL_ENOMEM. */
PFL_MUST_USE int pfl_enroll_open(const char *key_path, struct pfl_enroll **ret_enroll);
void pfl_enroll_free(struct pfl_enroll *self); /* NULL is legal */

/* The key, and a PKCS #10 request for it, as PEM with a NUL at its end. PFL_ETLS. */
PFL_MUST_USE int pfl_enroll_get_key(struct pfl_enroll *self, char ret_pem[PFL_ENROLL_PEM_MAX]);
PFL_MUST_USE int pfl_enroll_get_request(struct pfl_enroll *self, const char *common_name,
                                        char ret_pem[PFL_ENROLL_PEM_MAX]);
/* HMAC-SHA-256 of `text` with the secret. PFL_ETLS. */
PFL_MUST_USE int pfl_enroll_prove(struct pfl_span secret, struct pfl_span text,
                                  uint8_t ret_mac[PFL_ENROLL_HASH_BYTES]);

struct pfl_enroll_server {
    const char *host; /* name or number */
    const char *port;
    const uint8_t *ca_sha256; /* of the authority's certificate, which the server sends */
    const char *uri_prefix;   /* required prefix of the URI name in its certificate */
    const char *crl_path;     /* PEM: a revoked server is refused; or NULL */
    unsigned timeout_ms;      /* of each read */
};

/* Connects, verifies, sends, and reads until the server ends; `answer` has a maximum. Nothing is
 * sent to a server that fails verification. PFL_EIO, PFL_ETLS, PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_enroll_ask(struct pfl_enroll *self, const struct pfl_enroll_server *server,
                                struct pfl_span request, struct pfl_buf *answer);
/* Checks that the first certificate of `chain_pem` (NUL-terminated) is for our key and this URI,
 * and issued by the authority with that fingerprint, whose certificate follows it, and no other.
 * PFL_ETLS. */
PFL_MUST_USE int pfl_enroll_check(struct pfl_enroll *self, const char *chain_pem,
                                  const uint8_t ca_sha256[PFL_ENROLL_HASH_BYTES], const char *uri);
/* The present certificate, and the authority that issued it. */
struct pfl_enroll_present {
    char uri[256];
    int64_t begin_s; /* UNIX time */
    int64_t end_s;
    uint8_t ca_sha256[PFL_ENROLL_HASH_BYTES];
};
/* PFL_ETLS: there is no such certificate, or its authority is not in the other file. */
PFL_MUST_USE int pfl_enroll_look(const char *cert_path, const char *ca_path,
                                 struct pfl_enroll_present *ret_present);
/* Error text of the last failed call of ask or check. */
const char *pfl_enroll_get_error(const struct pfl_enroll *self);

#endif
