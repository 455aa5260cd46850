/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests a first certificate, or the next one: see enroll.h.
 *
 * Happy path of a request: connect, do the TLS handshake without verification, then find the
 * certificate with the known fingerprint in the server's chain, verify the chain against it, and
 * check use and name. Only then the request is sent, and the answer is read to its end. Failures:
 * an error text; the connection and parsed data are freed. Ownership: the key is the object's.
 * Limits: the answer's buffer; each wait has a timeout.
 */
#include "base/io/enroll.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/error.h>
#include <mbedtls/md.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_csr.h>

#include "base/io/tls_chain.h"
#include "base/io/tls_conf.h"
#include "base/io/tls_lib.h"
#include "base/mem.h"

struct pfl_enroll {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context drbg;
    mbedtls_pk_context key;
    char why[256];
};

/* One question. */
struct question {
    mbedtls_net_context net;
    mbedtls_ssl_config conf;
    mbedtls_ssl_context ssl;
    const struct pfl_enroll_server *server; /* borrowed */
    struct pfl_enroll *enroll;              /* borrowed */
};

/* ---- the key ---- */

/* With a random source, and no key yet. */
static int make(struct pfl_enroll **ret_enroll)
{
    static const unsigned char label[] = "perfleet join";
    struct pfl_enroll *e = pfl_mem_zalloc(sizeof(*e));

    if (e == NULL)
        return PFL_ENOMEM;
    mbedtls_entropy_init(&e->entropy);
    mbedtls_ctr_drbg_init(&e->drbg);
    mbedtls_pk_init(&e->key);
    if (pfl_tls_lib_start() != 0 ||
        mbedtls_ctr_drbg_seed(&e->drbg, mbedtls_entropy_func, &e->entropy, label,
                              sizeof(label) - 1) != 0) {
        pfl_enroll_free(e);
        return PFL_ETLS;
    }
    *ret_enroll = e;
    return 0;
}

int pfl_enroll_new(struct pfl_enroll **ret_enroll)
{
    struct pfl_enroll *e;
    int rc = make(&e);

    if (rc != 0)
        return rc;
    rc = mbedtls_pk_setup(&e->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    if (rc == 0)
        rc = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(e->key),
                                 mbedtls_ctr_drbg_random, &e->drbg);
    if (rc != 0) {
        pfl_enroll_free(e);
        return PFL_ETLS;
    }
    *ret_enroll = e;
    return 0;
}

int pfl_enroll_open(const char *key_path, struct pfl_enroll **ret_enroll)
{
    struct pfl_enroll *e;
    int rc = make(&e);

    if (rc != 0)
        return rc;
    rc = pfl_tls_lib_parse_key_file(&e->key, key_path, &e->drbg);
    if (rc != 0) {
        pfl_enroll_free(e);
        return PFL_ETLS;
    }
    *ret_enroll = e;
    return 0;
}

void pfl_enroll_free(struct pfl_enroll *self)
{
    if (self == NULL)
        return;
    mbedtls_pk_free(&self->key);
    mbedtls_ctr_drbg_free(&self->drbg);
    mbedtls_entropy_free(&self->entropy);
    pfl_mem_free(self);
}

int pfl_enroll_get_key(struct pfl_enroll *self, char ret_pem[PFL_ENROLL_PEM_MAX])
{
    return mbedtls_pk_write_key_pem(&self->key, (unsigned char *)ret_pem, PFL_ENROLL_PEM_MAX) == 0
               ? 0
               : PFL_ETLS;
}

int pfl_enroll_get_request(struct pfl_enroll *self, const char *common_name,
                           char ret_pem[PFL_ENROLL_PEM_MAX])
{
    mbedtls_x509write_csr csr;
    char subject[160];
    int rc;

    (void)snprintf(subject, sizeof(subject), "CN=%s", common_name);
    mbedtls_x509write_csr_init(&csr);
    mbedtls_x509write_csr_set_md_alg(&csr, MBEDTLS_MD_SHA256);
    mbedtls_x509write_csr_set_key(&csr, &self->key);
    rc = mbedtls_x509write_csr_set_subject_name(&csr, subject);
    if (rc == 0)
        rc = mbedtls_x509write_csr_pem(&csr, (unsigned char *)ret_pem, PFL_ENROLL_PEM_MAX,
                                       mbedtls_ctr_drbg_random, &self->drbg);
    mbedtls_x509write_csr_free(&csr);
    return rc == 0 ? 0 : PFL_ETLS;
}

int pfl_enroll_prove(struct pfl_span secret, struct pfl_span text,
                     uint8_t ret_mac[PFL_ENROLL_HASH_BYTES])
{
    const mbedtls_md_info_t *sha256 = mbedtls_md_info_from_type(MBEDTLS_MD_SHA256);

    return mbedtls_md_hmac(sha256, secret.data, secret.len, text.data, text.len, ret_mac) == 0
               ? 0
               : PFL_ETLS;
}

/* ---- certificates ---- */

static bool has_fingerprint(const mbedtls_x509_crt *crt, const uint8_t *sha256)
{
    uint8_t hash[PFL_ENROLL_HASH_BYTES];
    const mbedtls_md_info_t *info = mbedtls_md_info_from_type(MBEDTLS_MD_SHA256);

    return mbedtls_md(info, crt->raw.p, crt->raw.len, hash) == 0 &&
           memcmp(hash, sha256, sizeof(hash)) == 0;
}

/* The result of the verification as text. A revocation list that is out of date still revokes its
 * entries. */
static const char *judge_flags(int rc, uint32_t flags)
{
    flags &= ~(uint32_t)(MBEDTLS_X509_BADCRL_EXPIRED | MBEDTLS_X509_BADCRL_FUTURE);
    if ((flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) != 0)
        return "a certificate is not valid now: look at both clocks";
    if ((flags & MBEDTLS_X509_BADCERT_REVOKED) != 0)
        return "its certificate was revoked";
    if (flags == 0 && (rc == 0 || rc == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED))
        return NULL;
    return "the certificate is not of the authority that the token names";
}

/* Verifies `chain` against the one of its certificates that has the fingerprint, as the only
 * authority; `crl_path` may be NULL. NULL, or what is wrong. */
static const char *judge_chain(mbedtls_x509_crt *chain, const uint8_t *sha256, const char *crl_path)
{
    mbedtls_x509_crt anchor;
    mbedtls_x509_crl crl;
    const mbedtls_x509_crt *found = chain;
    mbedtls_x509_crt *top;
    mbedtls_x509_crt *rest;
    uint32_t flags = 0;
    int rc;

    while (found != NULL && !has_fingerprint(found, sha256))
        found = found->next;
    if (found == NULL || found == chain)
        return "the authority is not the one that the token names";
    mbedtls_x509_crl_init(&crl);
    if (crl_path != NULL && mbedtls_x509_crl_parse_file(&crl, crl_path) != 0) {
        mbedtls_x509_crl_free(&crl);
        return "our revocation list cannot be read";
    }
    mbedtls_x509_crt_init(&anchor);
    rc = mbedtls_x509_crt_parse_der(&anchor, found->raw.p, found->raw.len);
    if (rc == 0) {
        top = pfl_tls_chain_find_top(chain, &anchor);
        rest = top->next;
        top->next = NULL;
        rc = mbedtls_x509_crt_verify_with_profile(chain, &anchor, crl_path != NULL ? &crl : NULL,
                                                  &mbedtls_x509_crt_profile_next, NULL, &flags,
                                                  NULL, NULL);
        top->next = rest;
    }
    mbedtls_x509_crt_free(&anchor);
    mbedtls_x509_crl_free(&crl);
    return judge_flags(rc, flags);
}

/* The authority in `path` whose name is that of the certificate's issuer. */
static int find_authority(const mbedtls_x509_crt *crt, const char *path, uint8_t *ret_sha256)
{
    const mbedtls_md_info_t *info = mbedtls_md_info_from_type(MBEDTLS_MD_SHA256);
    mbedtls_x509_crt list;
    const mbedtls_x509_crt *at = &list;
    int rc = PFL_ETLS;

    mbedtls_x509_crt_init(&list);
    if (mbedtls_x509_crt_parse_file(&list, path) != 0)
        at = NULL;
    while (at != NULL && (at->subject_raw.len != crt->issuer_raw.len ||
                          memcmp(at->subject_raw.p, crt->issuer_raw.p, crt->issuer_raw.len) != 0))
        at = at->next;
    if (at != NULL && mbedtls_md(info, at->raw.p, at->raw.len, ret_sha256) == 0)
        rc = 0;
    mbedtls_x509_crt_free(&list);
    return rc;
}

int pfl_enroll_look(const char *cert_path, const char *ca_path,
                    struct pfl_enroll_present *ret_present)
{
    struct pfl_enroll_present present = {0};
    struct pfl_tls_identity identity;
    mbedtls_x509_crt crt;
    int rc = PFL_ETLS;

    mbedtls_x509_crt_init(&crt);
    if (mbedtls_x509_crt_parse_file(&crt, cert_path) == 0) {
        pfl_tls_identity_of(&crt, &identity);
        (void)snprintf(present.uri, sizeof(present.uri), "%s", identity.uri);
        present.begin_s = pfl_tls_time_to_unix(&crt.valid_from);
        present.end_s = pfl_tls_time_to_unix(&crt.valid_to);
        rc = find_authority(&crt, ca_path, present.ca_sha256);
    }
    mbedtls_x509_crt_free(&crt);
    if (rc == 0)
        *ret_present = present;
    return rc;
}

const char *pfl_enroll_get_error(const struct pfl_enroll *self)
{
    return self->why;
}

static const char *judge_own(struct pfl_enroll *self, mbedtls_x509_crt *chain, const char *uri)
{
    struct pfl_tls_identity identity;

    pfl_tls_identity_of(chain, &identity);
    if (strcmp(identity.uri, uri) != 0)
        return "the certificate is for another name";
    if (pfl_tls_lib_check_pair(&chain->pk, &self->key, &self->drbg) != 0)
        return "the certificate is for another key";
    return NULL;
}

/* What follows the first certificate becomes the authority that we trust: it must be that one, and
 * nothing else. Who carries the answer can add to it. */
static const char *judge_others(const mbedtls_x509_crt *chain, const uint8_t *sha256)
{
    return chain->next != NULL && chain->next->next == NULL && has_fingerprint(chain->next, sha256)
               ? NULL
               : "the answer has other certificates than ours and the authority's";
}

int pfl_enroll_check(struct pfl_enroll *self, const char *chain_pem,
                     const uint8_t ca_sha256[PFL_ENROLL_HASH_BYTES], const char *uri)
{
    mbedtls_x509_crt chain;
    const char *why = "the answer holds no certificates";

    mbedtls_x509_crt_init(&chain);
    if (mbedtls_x509_crt_parse(&chain, (const unsigned char *)chain_pem, strlen(chain_pem) + 1) ==
        0)
        why = judge_own(self, &chain, uri);
    if (why == NULL)
        why = judge_chain(&chain, ca_sha256, NULL);
    if (why == NULL)
        why = judge_others(&chain, ca_sha256);
    mbedtls_x509_crt_free(&chain);
    (void)snprintf(self->why, sizeof(self->why), "%s", why != NULL ? why : "");
    return why != NULL ? PFL_ETLS : 0;
}

/* ---- the question ---- */

static int fail(struct question *q, int err, const char *what, int code)
{
    char text[128] = "";

    if (code != 0)
        mbedtls_strerror(code, text, sizeof(text));
    (void)snprintf(q->enroll->why, sizeof(q->enroll->why), "%.100s:%.8s: %s%s%s", q->server->host,
                   q->server->port, what, text[0] != '\0' ? ": " : "", text);
    return err;
}

static int shake_hands(struct question *q)
{
    int rc = mbedtls_ssl_config_defaults(&q->conf, MBEDTLS_SSL_IS_CLIENT,
                                         MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);

    if (rc != 0)
        return fail(q, PFL_ENOMEM, "out of memory", 0);
    /* Judged below, before anything is sent. */
    mbedtls_ssl_conf_authmode(&q->conf, MBEDTLS_SSL_VERIFY_OPTIONAL);
    mbedtls_ssl_conf_rng(&q->conf, mbedtls_ctr_drbg_random, &q->enroll->drbg);
    mbedtls_ssl_conf_read_timeout(&q->conf, q->server->timeout_ms);
    pfl_tls_lib_set_rules(&q->conf);
    if (mbedtls_ssl_setup(&q->ssl, &q->conf) != 0)
        return fail(q, PFL_ENOMEM, "out of memory", 0);
    pfl_tls_lib_log_keys(&q->ssl);
    mbedtls_ssl_set_bio(&q->ssl, &q->net, mbedtls_net_send, NULL, mbedtls_net_recv_timeout);
    do {
        rc = mbedtls_ssl_handshake(&q->ssl);
    } while (rc == MBEDTLS_ERR_SSL_WANT_READ || rc == MBEDTLS_ERR_SSL_WANT_WRITE);
    return rc == 0 ? 0 : fail(q, PFL_ETLS, "TLS failed", rc);
}

static int judge_server(struct question *q)
{
    const mbedtls_x509_crt *shown = mbedtls_ssl_get_peer_cert(&q->ssl);
    struct pfl_tls_identity identity;
    const char *why;

    if (shown == NULL)
        return fail(q, PFL_ETLS, "it shows no certificate", 0);
    /* mbedtls links the chain writable; after verifying it is as it was. */
    why = judge_chain((mbedtls_x509_crt *)(uintptr_t)shown, q->server->ca_sha256,
                      q->server->crl_path);
    if (why != NULL)
        return fail(q, PFL_ETLS, why, 0);
    pfl_tls_identity_of(shown, &identity);
    if (strncmp(identity.uri, q->server->uri_prefix, strlen(q->server->uri_prefix)) != 0 ||
        mbedtls_x509_crt_check_extended_key_usage(shown, MBEDTLS_OID_SERVER_AUTH,
                                                  MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)) != 0)
        return fail(q, PFL_ETLS, "it is no relay of this fleet", 0);
    return 0;
}

static int send_all(struct question *q, struct pfl_span request)
{
    while (request.len != 0) {
        int n = mbedtls_ssl_write(&q->ssl, request.data, request.len);

        if (n <= 0 && n != MBEDTLS_ERR_SSL_WANT_WRITE && n != MBEDTLS_ERR_SSL_WANT_READ)
            return fail(q, PFL_EIO, "sending failed", n);
        if (n > 0)
            request = pfl_span_of(request.data + n, request.len - (size_t)n);
    }
    return 0;
}

static int receive_all(struct question *q, struct pfl_buf *answer)
{
    uint8_t chunk[4096];
    int rc = 0;

    while (rc == 0) {
        int n = mbedtls_ssl_read(&q->ssl, chunk, sizeof(chunk));

        if (n == MBEDTLS_ERR_SSL_WANT_READ || n == MBEDTLS_ERR_SSL_WANT_WRITE)
            continue;
        if (n == 0 || n == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
            return 0;
        if (n < 0)
            return fail(q, PFL_EIO, "no answer", n);
        rc = pfl_buf_append(answer, chunk, (size_t)n);
    }
    return fail(q, rc, "the answer is too long", 0);
}

int pfl_enroll_ask(struct pfl_enroll *self, const struct pfl_enroll_server *server,
                   struct pfl_span request, struct pfl_buf *answer)
{
    struct question q = {.server = server, .enroll = self};
    int rc;

    mbedtls_net_init(&q.net);
    mbedtls_ssl_config_init(&q.conf);
    mbedtls_ssl_init(&q.ssl);
    rc = mbedtls_net_connect(&q.net, server->host, server->port, MBEDTLS_NET_PROTO_TCP);
    rc = rc != 0 ? fail(&q, PFL_EIO, "cannot be reached", rc) : shake_hands(&q);
    if (rc == 0)
        rc = judge_server(&q);
    if (rc == 0)
        rc = send_all(&q, request);
    if (rc == 0)
        rc = receive_all(&q, answer);
    mbedtls_ssl_free(&q.ssl);
    mbedtls_ssl_config_free(&q.conf);
    mbedtls_net_free(&q.net);
    return rc;
}
