/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences of mbedtls 2.28 and 3.6, under one name each. No other code checks mbedtls's
 * version. Also the rules of every connection (versions, suites, groups: docs/adr/0030), because
 * the calls that set them differ.
 */
#ifndef PFL_BASE_IO_TLS_LIB_H
#define PFL_BASE_IO_TLS_LIB_H

#include <stdbool.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>

#include "base/bytes.h"
#include "base/err.h"

/* Call before any other function of mbedtls; idempotent. PFL_ETLS: no random source. */
PFL_MUST_USE int pfl_tls_lib_start(void);

/* These return mbedtls's codes. `text` is PEM; its length includes a final NUL. */
PFL_MUST_USE int pfl_tls_lib_parse_key(mbedtls_pk_context *key, struct pfl_span text,
                                       mbedtls_ctr_drbg_context *drbg);
PFL_MUST_USE int pfl_tls_lib_parse_key_file(mbedtls_pk_context *key, const char *path,
                                            mbedtls_ctr_drbg_context *drbg);
/* 0: `key` belongs to the certificate whose public key is `pub`. */
PFL_MUST_USE int pfl_tls_lib_check_pair(const mbedtls_pk_context *pub,
                                        const mbedtls_pk_context *key,
                                        mbedtls_ctr_drbg_context *drbg);

/* 0: the list is signed by this authority. */
PFL_MUST_USE int pfl_tls_lib_verify_list(const mbedtls_x509_crl *list,
                                         const mbedtls_x509_crt *authority);

/* 0: the certificate is signed with this one's key, whatever the names say. */
PFL_MUST_USE int pfl_tls_lib_verify_signature(const mbedtls_x509_crt *crt,
                                              const mbedtls_x509_crt *issuer);

/* It says of itself that it may sign others. */
bool pfl_tls_lib_is_authority(const mbedtls_x509_crt *crt);

/* Sets TLS 1.2 and, if mbedtls has it, 1.3; suites, groups; no renegotiation, no resumption, no
 * early data. Call after mbedtls_ssl_config_defaults. */
void pfl_tls_lib_set_rules(mbedtls_ssl_config *conf);

/* Call after mbedtls_ssl_setup and pfl_tls_lib_set_rules: writes the connection's secrets to the
 * key log (tls_key_log.h). In release builds: nothing. */
void pfl_tls_lib_log_keys(mbedtls_ssl_context *ssl);

/* Call after pfl_tls_lib_set_rules: allows only ChaCha20-Poly1305 of TLS 1.3's suites. For a
 * server, where mbedtls would follow the client's order. */
void pfl_tls_lib_insist_on_chacha20(mbedtls_ssl_config *conf);
/* False: a connection of this configuration has at most 1.2. */
bool pfl_tls_lib_has_tls_1_3(const mbedtls_ssl_config *conf);
/* Plaintext bytes that our records may carry, once the handshake is over. */
size_t pfl_tls_lib_get_record_bytes(const mbedtls_ssl_context *ssl);

bool pfl_tls_lib_is_handshake_over(const mbedtls_ssl_context *ssl);
/* Call after each successful step of a server's handshake. */
void pfl_tls_lib_after_step(mbedtls_ssl_context *ssl);
/* True if the first message of the peer was parsed. */
bool pfl_tls_lib_has_hello(const mbedtls_ssl_context *ssl, bool is_server);
/* The alert that mbedtls just received; -1 when `code` is not about one. */
int pfl_tls_lib_get_alert(const mbedtls_ssl_context *ssl, int code);
/* `code` is a message of TLS 1.3 to ignore: a ticket. */
bool pfl_tls_lib_is_ticket(int code);
/* `code` means that the peer has changed its keys, which mbedtls does not support. */
bool pfl_tls_lib_is_key_update(const mbedtls_ssl_context *ssl, int code);
/* `code` means that a client showed no certificate. */
bool pfl_tls_lib_is_no_certificate(int code);

#endif
