/* SPDX-License-Identifier: Apache-2.0 */
/* Private part of struct pfl_tls_conf, for tls_conf.c and tls_engine.c alone. */
#ifndef PFL_BASE_IO_TLS_CONF_H
#define PFL_BASE_IO_TLS_CONF_H

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>

#include "base/io/tls_stream.h"

/* Maximal number of records under one key of AES-GCM: below the 2^24.5 of RFC 8446 section 5.5. */
#define PFL_TLS_GCM_RECORDS_MAX (UINT64_C(1) << 24)

struct pfl_tls_conf {
    unsigned refs;
    bool is_server;
    bool has_lists; /* of revoked certificates */
    mbedtls_ssl_config ssl;
    mbedtls_ssl_config
        ssl_chacha20; /* a server's, for clients that offer ChaCha20-Poly1305 in TLS 1.3 */
    mbedtls_x509_crt ca;
    mbedtls_x509_crt cert;
    mbedtls_x509_crl crl;
    mbedtls_pk_context key;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context drbg;
    struct pfl_tls_identity identity;
    char cert_path[256]; /* source of our certificate, for messages */
    int64_t crl_end_s;
    struct pfl_tls_number *revoked; /* owned; entries of all lists, sorted by their bytes */
    size_t revoked_len;
    uint64_t gcm_records_max; /* PFL_TLS_GCM_RECORDS_MAX, except in tests */
};

/* Reads subject, first URI name and end of validity of a certificate; `chain` is unchanged. */
void pfl_tls_identity_of(const mbedtls_x509_crt *crt, struct pfl_tls_identity *identity);
/* Adds a certificate of a chain that is being verified, unless the CA file has it: revocation lists
 * do not apply to those. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_tls_identity_add(struct pfl_tls_identity *identity,
                                      const struct pfl_tls_conf *conf, const mbedtls_x509_crt *crt);
/* True if there is a revocation list of the authority with this name (DER). */
bool pfl_tls_conf_has_list(const struct pfl_tls_conf *conf, const mbedtls_x509_buf *authority);
int64_t pfl_tls_time_to_unix(const mbedtls_x509_time *t);

#endif
