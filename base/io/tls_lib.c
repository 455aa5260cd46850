/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbedtls 2.28 and 3.6 behind one set of functions: see tls_lib.h. Each keeps no state. Failures
 * are mbedtls's own codes, which the callers translate into text.
 *
 * The tables are the order of preference. ChaCha20-Poly1305 is first because libcrypto does it
 * (aead.c); X25519 because every peer offers it and mbedtls 2.28 would take P-521, at three times
 * the cost. The larger curves stay because TLS 1.2 requires certificates' keys to be on the list.
 */
#include "base/io/tls_lib.h"

#include <string.h>

#include <mbedtls/md.h>
#include <mbedtls/version.h>

#include "base/io/aead.h"
#include "base/io/tls_chain.h"
#ifdef PFL_TLS_KEY_LOG
#include "base/io/tls_key_log.h"
#endif

#define HAS_PSA (MBEDTLS_VERSION_MAJOR >= 3)

#if HAS_PSA
#include <psa/crypto.h>

#define FIELD(name) MBEDTLS_PRIVATE(name)
#else
#define FIELD(name) name
#endif

#define HANDSHAKE_KEY_UPDATE 24 /* RFC 8446 section 4 */

/* mbedtls seals text and content type padded to 16 bytes: of 16384 it makes either 16400, more than
 * RFC 8446 section 5.4 allows, or, with a peer of its own kind, a second record for the last byte.
 */
#define RECORD_BYTES_TLS_1_3 16383u

#define TLS_1_2_SUITES                                                                             \
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,                                         \
        MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,                                           \
        MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,                                           \
        MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,                                       \
        MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,                                             \
        MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384

static const int cipher_suites[] = {
#if HAS_PSA
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
    MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
#endif
    TLS_1_2_SUITES,
    0,
};

#if HAS_PSA
static const int cipher_suites_chacha20[] = {
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
    TLS_1_2_SUITES,
    0,
};
#endif

#if HAS_PSA
static const uint16_t groups[] = {
    MBEDTLS_SSL_IANA_TLS_GROUP_X25519,    MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
    MBEDTLS_SSL_IANA_TLS_GROUP_SECP384R1, MBEDTLS_SSL_IANA_TLS_GROUP_SECP521R1,
    MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
};
#else
static const mbedtls_ecp_group_id groups[] = {
    MBEDTLS_ECP_DP_CURVE25519, MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_SECP384R1,
    MBEDTLS_ECP_DP_SECP521R1,  MBEDTLS_ECP_DP_NONE,
};
#endif

static bool is_tls_1_3(const mbedtls_ssl_context *ssl)
{
#if HAS_PSA
    return mbedtls_ssl_get_version_number(ssl) == MBEDTLS_SSL_VERSION_TLS1_3;
#else
    (void)ssl;
    return false;
#endif
}

/* mbedtls 2.28 gives secrets to a callback of the configuration, 3.6 to one of the connection. */
#if defined(PFL_TLS_KEY_LOG) && HAS_PSA
static const char *label_of(mbedtls_ssl_key_export_type type)
{
    switch (type) {
    case MBEDTLS_SSL_KEY_EXPORT_TLS12_MASTER_SECRET:
        return "CLIENT_RANDOM";
    case MBEDTLS_SSL_KEY_EXPORT_TLS1_3_CLIENT_HANDSHAKE_TRAFFIC_SECRET:
        return "CLIENT_HANDSHAKE_TRAFFIC_SECRET";
    case MBEDTLS_SSL_KEY_EXPORT_TLS1_3_SERVER_HANDSHAKE_TRAFFIC_SECRET:
        return "SERVER_HANDSHAKE_TRAFFIC_SECRET";
    case MBEDTLS_SSL_KEY_EXPORT_TLS1_3_CLIENT_APPLICATION_TRAFFIC_SECRET:
        return "CLIENT_TRAFFIC_SECRET_0";
    case MBEDTLS_SSL_KEY_EXPORT_TLS1_3_SERVER_APPLICATION_TRAFFIC_SECRET:
        return "SERVER_TRAFFIC_SECRET_0";
    default:
        return NULL;
    }
}

static void on_secret(void *user, mbedtls_ssl_key_export_type type, const unsigned char *secret,
                      size_t secret_len, const unsigned char client_random[PFL_TLS_RANDOM_BYTES],
                      const unsigned char server_random[PFL_TLS_RANDOM_BYTES],
                      mbedtls_tls_prf_types prf)
{
    const char *label = label_of(type);

    (void)user;
    (void)server_random;
    (void)prf;
    if (label != NULL)
        pfl_tls_key_log_write(label, pfl_span_of(client_random, PFL_TLS_RANDOM_BYTES),
                              pfl_span_of(secret, secret_len));
}
#elif defined(PFL_TLS_KEY_LOG)
#define MASTER_SECRET_BYTES 48u /* RFC 5246 section 8.1 */

static int on_master_secret(void *user, const unsigned char *secret, const unsigned char *key_block,
                            size_t mac_len, size_t key_len, size_t iv_len,
                            const unsigned char client_random[PFL_TLS_RANDOM_BYTES],
                            const unsigned char server_random[PFL_TLS_RANDOM_BYTES],
                            mbedtls_tls_prf_types prf)
{
    (void)user;
    (void)key_block;
    (void)mac_len;
    (void)key_len;
    (void)iv_len;
    (void)server_random;
    (void)prf;
    pfl_tls_key_log_write("CLIENT_RANDOM", pfl_span_of(client_random, PFL_TLS_RANDOM_BYTES),
                          pfl_span_of(secret, MASTER_SECRET_BYTES));
    return 0;
}
#endif

void pfl_tls_lib_log_keys(mbedtls_ssl_context *ssl)
{
#if defined(PFL_TLS_KEY_LOG) && HAS_PSA
    mbedtls_ssl_set_export_keys_cb(ssl, on_secret, NULL);
#else
    (void)ssl;
#endif
}

int pfl_tls_lib_start(void)
{
    int rc;

#ifdef PFL_TLS_KEY_LOG
    pfl_tls_key_log_start();
#endif
#if HAS_PSA
    if (psa_crypto_init() != PSA_SUCCESS) /* TLS 1.3 computes by it */
        return PFL_ETLS;
#endif
    rc = pfl_tls_chain_start();
    return rc == 0 ? pfl_aead_start() : rc;
}

int pfl_tls_lib_parse_key(mbedtls_pk_context *key, struct pfl_span text,
                          mbedtls_ctr_drbg_context *drbg)
{
#if HAS_PSA
    return mbedtls_pk_parse_key(key, text.data, text.len, NULL, 0, mbedtls_ctr_drbg_random, drbg);
#else
    (void)drbg;
    return mbedtls_pk_parse_key(key, text.data, text.len, NULL, 0);
#endif
}

int pfl_tls_lib_parse_key_file(mbedtls_pk_context *key, const char *path,
                               mbedtls_ctr_drbg_context *drbg)
{
#if HAS_PSA
    return mbedtls_pk_parse_keyfile(key, path, NULL, mbedtls_ctr_drbg_random, drbg);
#else
    (void)drbg;
    return mbedtls_pk_parse_keyfile(key, path, NULL);
#endif
}

int pfl_tls_lib_check_pair(const mbedtls_pk_context *pub, const mbedtls_pk_context *key,
                           mbedtls_ctr_drbg_context *drbg)
{
#if HAS_PSA
    return mbedtls_pk_check_pair(pub, key, mbedtls_ctr_drbg_random, drbg);
#else
    (void)drbg;
    return mbedtls_pk_check_pair(pub, key);
#endif
}

/* What a list and a certificate say of their signature. */
struct signature {
    mbedtls_pk_type_t pk;
    mbedtls_md_type_t md;
    const void *options;
    const mbedtls_x509_buf *text;
    const mbedtls_x509_buf *bytes;
};

static int verify(const struct signature *s, const mbedtls_x509_crt *issuer)
{
    const mbedtls_md_info_t *md = mbedtls_md_info_from_type(s->md);
    mbedtls_pk_context *key = (mbedtls_pk_context *)(uintptr_t)&issuer->pk;
    unsigned char hash[MBEDTLS_MD_MAX_SIZE];
    int rc = md != NULL ? mbedtls_md(md, s->text->p, s->text->len, hash)
                        : MBEDTLS_ERR_X509_UNKNOWN_SIG_ALG;

    if (rc != 0)
        return rc;
    return mbedtls_pk_verify_ext(s->pk, s->options, key, s->md, hash, mbedtls_md_get_size(md),
                                 s->bytes->p, s->bytes->len);
}

/* As mbedtls verifies it at each handshake, where it passes over a list that is not signed so. */
int pfl_tls_lib_verify_list(const mbedtls_x509_crl *list, const mbedtls_x509_crt *authority)
{
    struct signature s = {list->FIELD(sig_pk), list->FIELD(sig_md), list->FIELD(sig_opts),
                          &list->tbs, &list->FIELD(sig)};

    return verify(&s, authority);
}

int pfl_tls_lib_verify_signature(const mbedtls_x509_crt *crt, const mbedtls_x509_crt *issuer)
{
    struct signature s = {crt->FIELD(sig_pk), crt->FIELD(sig_md), crt->FIELD(sig_opts), &crt->tbs,
                          &crt->FIELD(sig)};

    return verify(&s, issuer);
}

bool pfl_tls_lib_is_authority(const mbedtls_x509_crt *crt)
{
    return crt->FIELD(ca_istrue) != 0;
}

void pfl_tls_lib_set_rules(mbedtls_ssl_config *conf)
{
    mbedtls_ssl_conf_ciphersuites(conf, cipher_suites);
    mbedtls_ssl_conf_renegotiation(conf, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    mbedtls_ssl_conf_session_tickets(conf, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
#if HAS_PSA
    mbedtls_ssl_conf_groups(conf, groups);
    mbedtls_ssl_conf_min_tls_version(conf, MBEDTLS_SSL_VERSION_TLS1_2);
    /* Resumption is off, so tickets are useless. */
    mbedtls_ssl_conf_tls13_key_exchange_modes(conf, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL);
    mbedtls_ssl_conf_new_session_tickets(conf, 0);
#else
    mbedtls_ssl_conf_curves(conf, groups);
    mbedtls_ssl_conf_min_version(conf, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
#ifdef PFL_TLS_KEY_LOG
    mbedtls_ssl_conf_export_keys_ext_cb(conf, on_master_secret, NULL);
#endif
#endif
}

void pfl_tls_lib_insist_on_chacha20(mbedtls_ssl_config *conf)
{
#if HAS_PSA
    mbedtls_ssl_conf_ciphersuites(conf, cipher_suites_chacha20);
#else
    (void)conf;
#endif
}

bool pfl_tls_lib_has_tls_1_3(const mbedtls_ssl_config *conf)
{
#if HAS_PSA
    return conf->FIELD(max_tls_version) == MBEDTLS_SSL_VERSION_TLS1_3;
#else
    (void)conf;
    return false;
#endif
}

size_t pfl_tls_lib_get_record_bytes(const mbedtls_ssl_context *ssl)
{
    int max = mbedtls_ssl_get_max_out_record_payload(ssl);
    size_t limit = is_tls_1_3(ssl) ? RECORD_BYTES_TLS_1_3 : MBEDTLS_SSL_OUT_CONTENT_LEN;

    return max > 0 && (size_t)max < limit ? (size_t)max : limit;
}

bool pfl_tls_lib_is_handshake_over(const mbedtls_ssl_context *ssl)
{
    return ssl->FIELD(state) == MBEDTLS_SSL_HANDSHAKE_OVER;
}

/* Under TLS 1.3 a server seals with its application key from its Finished on (RFC 8446 section
 * 7.1), mbedtls 3.6 only after the client's. An alert that refuses the client's certificate would
 * be under a key that the client no longer uses, and could not be read. Nothing else is sent in
 * between. */
void pfl_tls_lib_after_step(mbedtls_ssl_context *ssl)
{
#if HAS_PSA
    if (ssl->FIELD(transform_application) == NULL ||
        ssl->FIELD(transform_out) == ssl->FIELD(transform_application))
        return;
    ssl->FIELD(transform_out) = ssl->FIELD(transform_application);
    memset(ssl->FIELD(cur_out_ctr), 0, sizeof(ssl->FIELD(cur_out_ctr)));
#else
    (void)ssl;
#endif
}

bool pfl_tls_lib_has_hello(const mbedtls_ssl_context *ssl, bool is_server)
{
    return ssl->FIELD(state) > (is_server ? MBEDTLS_SSL_CLIENT_HELLO : MBEDTLS_SSL_SERVER_HELLO);
}

/* A client with mbedtls 3.6 that refuses a server's certificate under TLS 1.3 sends the alert in
 * the clear, where the server expects encrypted records. The handshake fails in any case; this
 * gives the reason. */
static bool is_alert_in_the_clear(const mbedtls_ssl_context *ssl, int code)
{
    const unsigned char *record = ssl->FIELD(in_hdr);

    return code == MBEDTLS_ERR_SSL_INVALID_MAC && !pfl_tls_lib_is_handshake_over(ssl) &&
           record != NULL && record[0] == MBEDTLS_SSL_MSG_ALERT && record[3] == 0 && record[4] == 2;
}

int pfl_tls_lib_get_alert(const mbedtls_ssl_context *ssl, int code)
{
    if (is_alert_in_the_clear(ssl, code))
        return ssl->FIELD(in_hdr)[6];
    if (code != MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE || ssl->FIELD(in_msg) == NULL)
        return -1;
    return ssl->FIELD(in_msg)[1];
}

bool pfl_tls_lib_is_ticket(int code)
{
#if HAS_PSA
    return code == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET;
#else
    (void)code;
    return false;
#endif
}

bool pfl_tls_lib_is_key_update(const mbedtls_ssl_context *ssl, int code)
{
#if HAS_PSA
    return code == MBEDTLS_ERR_SSL_UNEXPECTED_MESSAGE && ssl->FIELD(in_msg) != NULL &&
           is_tls_1_3(ssl) && ssl->FIELD(in_msgtype) == MBEDTLS_SSL_MSG_HANDSHAKE &&
           ssl->FIELD(in_msg)[0] == HANDSHAKE_KEY_UPDATE;
#else
    (void)ssl;
    (void)code;
    return false;
#endif
}

bool pfl_tls_lib_is_no_certificate(int code)
{
#if HAS_PSA
    return code == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE;
#else
    return code == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE ||
           code == MBEDTLS_ERR_SSL_CA_CHAIN_REQUIRED;
#endif
}
