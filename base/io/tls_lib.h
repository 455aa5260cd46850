/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mbedtls 2.28 and 3.6 do differently, under one name each. Nobody else asks for mbedtls's
 * version. Also the rules of every connection (versions, suites, groups: docs/adr/0030), as they
 * are set by calls that differ.
 */
#ifndef PFL_BASE_IO_TLS_LIB_H
#define PFL_BASE_IO_TLS_LIB_H

#include <stdbool.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>

#include "base/bytes.h"
#include "base/err.h"

/* Before anything else of mbedtls, as often as one likes. PFL_ETLS: no random source. */
PFL_MUST_USE int pfl_tls_lib_start(void);

/* These return mbedtls's codes. `text` is PEM and ends with a NUL that counts. */
PFL_MUST_USE int pfl_tls_lib_parse_key(mbedtls_pk_context *key, struct pfl_span text,
                                       mbedtls_ctr_drbg_context *drbg);
PFL_MUST_USE int pfl_tls_lib_parse_key_file(mbedtls_pk_context *key, const char *path,
                                            mbedtls_ctr_drbg_context *drbg);
/* 0: `key` belongs to the certificate whose public key is `pub`. */
PFL_MUST_USE int pfl_tls_lib_check_pair(const mbedtls_pk_context *pub,
                                        const mbedtls_pk_context *key,
                                        mbedtls_ctr_drbg_context *drbg);

/* TLS 1.2 and, where mbedtls has it, 1.3; suites, groups; no renegotiation, no resumption, no early
 * data. Over mbedtls_ssl_config_defaults. */
void pfl_tls_lib_set_rules(mbedtls_ssl_config *conf);

/* After mbedtls_ssl_setup, over pfl_tls_lib_set_rules: the connection's secrets go to the key log
 * (tls_key_log.h). In release builds: nothing. */
void pfl_tls_lib_log_keys(mbedtls_ssl_context *ssl);

/* Over pfl_tls_lib_set_rules: of TLS 1.3's suites ChaCha20-Poly1305 alone. For a server, where
 * mbedtls would follow the client's order. */
void pfl_tls_lib_insist_on_chacha20(mbedtls_ssl_config *conf);
/* False: 1.2 is the newest version that a connection of this configuration has. */
bool pfl_tls_lib_has_tls_1_3(const mbedtls_ssl_config *conf);
/* How much text our records carry, once the handshake is over. */
size_t pfl_tls_lib_get_record_bytes(const mbedtls_ssl_context *ssl);

bool pfl_tls_lib_is_handshake_over(const mbedtls_ssl_context *ssl);
/* After each step of a server's handshake that succeeded. */
void pfl_tls_lib_after_step(mbedtls_ssl_context *ssl);
/* The first message of the peer has been understood. */
bool pfl_tls_lib_has_hello(const mbedtls_ssl_context *ssl, bool is_server);
/* The alert that mbedtls just received; -1 when `code` is not about one. */
int pfl_tls_lib_get_alert(const mbedtls_ssl_context *ssl, int code);
/* `code` is a message of TLS 1.3 that is to be passed over: a ticket. */
bool pfl_tls_lib_is_ticket(int code);
/* `code` says that the peer has changed its keys, which mbedtls cannot follow. */
bool pfl_tls_lib_is_key_update(const mbedtls_ssl_context *ssl, int code);
/* `code` says that a client showed no certificate. */
bool pfl_tls_lib_is_no_certificate(int code);

#endif
