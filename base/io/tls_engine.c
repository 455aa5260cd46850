/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbedtls behind a pure interface: see tls_engine.h.
 *
 * Happy path: mbedtls's read and write callbacks use the span and the writer of the current call,
 * so nothing is buffered twice. The verification callback records the peer's claimed identity,
 * whatever the outcome, and refuses a URI other than the expected one.
 * Failures: every failure is final and reported once as text; mbedtls writes its alert to `out`.
 * Ownership: a counted reference to the conf. Limits: one partial record of 16 KiB; with AES-GCM
 * the number of records that one key may seal; PFL_TLS_EMPTY_RECORDS_MAX, which are counted by
 * their headers, as mbedtls passes over them by itself.
 */
#include "base/io/tls_engine.h"

#include <assert.h>
#include <string.h>

#include "base/io/tls_conf.h"
#include "base/io/tls_hello.h"
#include "base/io/tls_lib.h"
#include "base/io/tls_words.h"
#include "base/mem.h"

#define ALERT_RECORD_BYTES           7u /* header, level, description */
#define TLS_CHACHA20_POLY1305_SHA256 0x1303u
#define RECORD_HEADER_BYTES          5u

/* Where in the peer's records mbedtls is, since the handshake. */
struct records {
    uint8_t header[RECORD_HEADER_BYTES];
    size_t header_len;
    size_t left;    /* of the record, behind its header */
    uint64_t begun; /* records */
    uint64_t texts; /* of them, those that had data */
};

/* READY also when it failed later, or is closed. */
enum phase { PHASE_NEW, PHASE_HANDSHAKE, PHASE_READY };

struct pfl_tls_engine {
    struct pfl_tls_conf *conf; /* a counted reference */
    mbedtls_ssl_context ssl;
    char *expected_uri; /* owned; NULL any */
    struct pfl_tls_identity identity;
    struct pfl_span *in;    /* borrowed while a call runs */
    struct pfl_writer *out; /* borrowed while a call runs */
    uint32_t verify_flags;
    int64_t blamed_not_before_s;
    int64_t blamed_not_after_s;
    size_t record_bytes;   /* of text in a record of ours */
    uint64_t records_left; /* that our key may still seal */
    struct records records;
    int sent_alert; /* the one we sent in the clear; -1 none */
    enum phase phase;
    bool is_failed;
    bool is_too_new; /* the peer speaks nothing as old as 1.2, and we nothing newer */
    bool has_records;
    bool has_read; /* something came since the handshake */
    bool has_peer_closed;
    bool has_closed;
    char listless[128]; /* an authority in the peer's chain of which there is no list */
    char error[640];
};

/* Before keys are agreed, both versions of mbedtls report a refusal in the same way only by our
 * alert. */
static void note_alert(struct pfl_tls_engine *e, const unsigned char *record, size_t len)
{
    if (len == ALERT_RECORD_BYTES && record[0] == MBEDTLS_SSL_MSG_ALERT &&
        record[len - 2] == MBEDTLS_SSL_ALERT_LEVEL_FATAL)
        e->sent_alert = record[len - 1];
}

static int send_cipher(void *user, const unsigned char *data, size_t len)
{
    struct pfl_tls_engine *e = user;

    if (e->out->left < len)
        return MBEDTLS_ERR_SSL_WANT_WRITE;
    note_alert(e, data, len);
    pfl_writer_bytes(e->out, data, len);
    return (int)len;
}

static void count_records(struct records *r, struct pfl_span bytes)
{
    while (bytes.len != 0) {
        size_t room = r->left != 0 ? r->left : RECORD_HEADER_BYTES - r->header_len;
        size_t n = bytes.len < room ? bytes.len : room;

        if (r->left != 0) {
            r->left -= n;
        } else {
            memcpy(r->header + r->header_len, bytes.data, n);
            r->header_len += n;
        }
        if (r->header_len == RECORD_HEADER_BYTES) {
            r->left = (size_t)r->header[3] << 8 | r->header[4];
            r->header_len = 0;
            r->begun++;
        }
        bytes = pfl_span_of(bytes.data + n, bytes.len - n);
    }
}

static bool has_too_many_empty(const struct pfl_tls_engine *e)
{
    uint64_t whole = e->records.begun - (e->records.left != 0);

    return whole > e->records.texts + PFL_TLS_EMPTY_RECORDS_MAX;
}

static int recv_cipher(void *user, unsigned char *data, size_t len)
{
    struct pfl_tls_engine *e = user;
    size_t n = len < e->in->len ? len : e->in->len;

    if (has_too_many_empty(e))
        return MBEDTLS_ERR_SSL_INVALID_RECORD;
    if (n == 0)
        return MBEDTLS_ERR_SSL_WANT_READ;
    if (e->phase == PHASE_READY)
        count_records(&e->records, pfl_span_of(e->in->data, n));
    memcpy(data, e->in->data, n);
    *e->in = pfl_span_of(e->in->data + n, e->in->len - n);
    return (int)n;
}

static int verify_peer(void *user, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
    struct pfl_tls_engine *e = user;

    if (pfl_tls_identity_add(&e->identity, e->conf, crt) != 0)
        return MBEDTLS_ERR_X509_FATAL_ERROR;
    if (depth == 0) {
        pfl_tls_identity_of(crt, &e->identity);
        if (e->expected_uri != NULL && strcmp(e->expected_uri, e->identity.uri) != 0)
            *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
    }
    if ((*flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) != 0) {
        e->blamed_not_before_s = pfl_tls_time_to_unix(&crt->valid_from);
        e->blamed_not_after_s = pfl_tls_time_to_unix(&crt->valid_to);
    }
    /* mbedtls passes over an authority without a list, and what it revoked with it. */
    if (e->conf->has_lists && !pfl_tls_conf_has_list(e->conf, &crt->issuer_raw)) {
        *flags |= MBEDTLS_X509_BADCRL_NOT_TRUSTED;
        if (mbedtls_x509_dn_gets(e->listless, sizeof(e->listless), &crt->issuer) < 0)
            e->listless[0] = '\0';
    }
    e->verify_flags |= *flags;
    return 0;
}

static int set_up(struct pfl_tls_engine *e, struct pfl_span first)
{
    const mbedtls_ssl_config *rules = &e->conf->ssl;

    if (e->phase != PHASE_NEW)
        return 0;
    if (e->conf->is_server && pfl_tls_hello_offers(first, TLS_CHACHA20_POLY1305_SHA256))
        rules = &e->conf->ssl_chacha20;
    if (mbedtls_ssl_setup(&e->ssl, rules) != 0 || mbedtls_ssl_set_hostname(&e->ssl, NULL) != 0)
        return PFL_ENOMEM;
    mbedtls_ssl_set_bio(&e->ssl, e, send_cipher, recv_cipher, NULL);
    mbedtls_ssl_set_verify(&e->ssl, verify_peer, e);
    pfl_tls_lib_log_keys(&e->ssl);
    e->phase = PHASE_HANDSHAKE;
    return 0;
}

/* For cases where mbedtls sends no alert, so that the peer would only see the connection end. */
static void send_missing_alert(struct pfl_tls_engine *e, const struct pfl_tls_failure *failure)
{
    int alert = -1;

    if (failure->is_key_update)
        alert = MBEDTLS_SSL_ALERT_MSG_UNEXPECTED_MESSAGE;
    else if (pfl_tls_lib_is_no_certificate(failure->code) && e->sent_alert < 0 &&
             strcmp(mbedtls_ssl_get_version(&e->ssl), "TLSv1.2") == 0)
        alert = MBEDTLS_SSL_ALERT_MSG_NO_CERT;
    if (alert >= 0)
        (void)mbedtls_ssl_send_alert_message(&e->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL,
                                             (unsigned char)alert);
}

static int fail(struct pfl_tls_engine *e, int code)
{
    uint32_t flags = e->verify_flags;
    struct pfl_tls_failure failure = {
        .code = code,
        .alert = pfl_tls_lib_get_alert(&e->ssl, code),
        .sent_alert = e->sent_alert,
        .not_before_s = e->blamed_not_before_s,
        .not_after_s = e->blamed_not_after_s,
        .peer_uri = e->identity.uri,
        .listless = e->listless,
        .own_path = e->conf->cert_path,
        .own_uri = e->conf->identity.uri,
        .own_not_before_s = pfl_tls_time_to_unix(&e->conf->cert.valid_from),
        .own_not_after_s = e->conf->identity.not_after_s,
        .wanted_uri = e->expected_uri,
        .has_records = e->has_records,
        .is_ready_1_2 =
            e->phase == PHASE_READY && strcmp(mbedtls_ssl_get_version(&e->ssl), "TLSv1.2") == 0,
        .lacks_tls_1_3 = !pfl_tls_lib_has_tls_1_3(&e->conf->ssl),
        .is_too_new = e->is_too_new,
        .is_after_hello = e->phase == PHASE_READY && !e->has_read && !e->conf->is_server,
        .has_empty_records = has_too_many_empty(e),
    };

    e->is_failed = true;
    if (code == MBEDTLS_ERR_SSL_ALLOC_FAILED)
        return PFL_ENOMEM;
    failure.is_key_update = e->phase == PHASE_READY && pfl_tls_lib_is_key_update(&e->ssl, code);
    send_missing_alert(e, &failure);
    if (e->phase != PHASE_READY && mbedtls_ssl_get_verify_result(&e->ssl) != UINT32_MAX)
        flags |= mbedtls_ssl_get_verify_result(&e->ssl);
    failure.verify_flags = flags;
    pfl_tls_words_of(&failure, e->error, sizeof(e->error));
    return PFL_ETLS;
}

/* mbedtls 2.28 does not read the versions that a hello lists: it finds no suite, or chooses 1.2. */
static int refuse_what_is_too_new(struct pfl_tls_engine *e, struct pfl_span first)
{
    static const uint8_t alert[ALERT_RECORD_BYTES] = {
        MBEDTLS_SSL_MSG_ALERT,
        3,
        3,
        0,
        2,
        MBEDTLS_SSL_ALERT_LEVEL_FATAL,
        MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION,
    };

    e->is_too_new = e->conf->is_server && !pfl_tls_lib_has_tls_1_3(&e->conf->ssl) &&
                    pfl_tls_hello_excludes_tls_1_2(first);
    if (!e->is_too_new)
        return 0;
    (void)send_cipher(e, alert, sizeof(alert));
    return fail(e, MBEDTLS_ERR_SSL_BAD_INPUT_DATA);
}

static void note_ready(struct pfl_tls_engine *e)
{
    bool is_gcm = strstr(mbedtls_ssl_get_ciphersuite(&e->ssl), "GCM") != NULL;

    e->phase = PHASE_READY;
    e->record_bytes = pfl_tls_lib_get_record_bytes(&e->ssl);
    e->records_left = is_gcm ? e->conf->gcm_records_max : UINT64_MAX;
}

static int shake_hands(struct pfl_tls_engine *e)
{
    int rc;

    while (e->phase != PHASE_READY) {
        rc = mbedtls_ssl_handshake_step(&e->ssl);
        if (rc == MBEDTLS_ERR_SSL_WANT_READ)
            return PFL_EAGAIN;
        if (rc == MBEDTLS_ERR_SSL_WANT_WRITE)
            return fail(e, MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL);
        if (rc != 0)
            return fail(e, rc);
        if (e->conf->is_server)
            pfl_tls_lib_after_step(&e->ssl);
        if (pfl_tls_lib_is_handshake_over(&e->ssl))
            note_ready(e);
        e->has_records |= pfl_tls_lib_has_hello(&e->ssl, e->conf->is_server);
    }
    return 0;
}

/* Reads records until the input is used up or `plain` is full. */
static int read_records(struct pfl_tls_engine *e, struct pfl_writer *plain)
{
    while (plain->left >= PFL_TLS_RECORD_BYTES) {
        int rc = mbedtls_ssl_read(&e->ssl, plain->pos, plain->left);

        e->has_read |= rc > 0;
        e->records.texts += rc > 0;
        if (rc > 0) {
            plain->pos += rc;
            plain->left -= (size_t)rc;
        } else if (rc == MBEDTLS_ERR_SSL_WANT_READ) {
            return 0;
        } else if (rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || rc == 0) {
            e->has_peer_closed = true;
            *e->in = pfl_span_of(NULL, 0);
            return 0;
        } else if (!pfl_tls_lib_is_ticket(rc)) {
            return fail(e, rc);
        }
    }
    return 0;
}

int pfl_tls_engine_start(struct pfl_tls_engine *self, struct pfl_writer *out)
{
    struct pfl_span nothing = {NULL, 0};
    int rc;

    if (self->conf->is_server)
        return 0;
    rc = set_up(self, nothing);
    if (rc != 0)
        return rc;
    self->in = &nothing;
    self->out = out;
    rc = shake_hands(self);
    self->in = NULL;
    return rc == PFL_EAGAIN ? 0 : rc;
}

int pfl_tls_engine_feed(struct pfl_tls_engine *self, struct pfl_span *cipher,
                        struct pfl_writer *plain, struct pfl_writer *out)
{
    bool is_first = self->phase == PHASE_NEW;
    int rc = set_up(self, *cipher);

    if (rc != 0)
        return rc;
    if (self->is_failed)
        return PFL_ETLS;
    if (self->has_peer_closed) {
        *cipher = pfl_span_of(NULL, 0);
        return 0;
    }
    self->in = cipher;
    self->out = out;
    if (is_first)
        rc = refuse_what_is_too_new(self, *cipher);
    if (rc != 0) {
        self->in = NULL;
        return rc;
    }
    if (self->phase != PHASE_READY) {
        rc = shake_hands(self);
        rc = rc == PFL_EAGAIN ? 0 : rc;
    } else {
        rc = read_records(self, plain);
    }
    self->in = NULL;
    return rc;
}

int pfl_tls_engine_write(struct pfl_tls_engine *self, struct pfl_span plain, struct pfl_writer *out)
{
    size_t done = 0;

    if (self->phase != PHASE_READY || self->has_closed || self->is_failed)
        return PFL_ESTATE;
    assert(plain.len <= self->record_bytes);
    self->out = out;
    if (self->records_left-- == 0) {
        self->is_failed = true;
        pfl_tls_words_of_worn_key(self->error, sizeof(self->error));
        return PFL_ETLS;
    }
    while (done < plain.len) {
        int rc = mbedtls_ssl_write(&self->ssl, plain.data + done, plain.len - done);

        if (rc < 0)
            return fail(self, rc);
        done += (size_t)rc;
    }
    return 0;
}

void pfl_tls_engine_close_notify(struct pfl_tls_engine *self, struct pfl_writer *out)
{
    if (self->phase != PHASE_READY || self->has_closed || self->is_failed)
        return;
    self->has_closed = true;
    self->out = out;
    (void)mbedtls_ssl_close_notify(&self->ssl);
}

bool pfl_tls_engine_is_ready(const struct pfl_tls_engine *self)
{
    return self->phase == PHASE_READY;
}

bool pfl_tls_engine_has_peer_closed(const struct pfl_tls_engine *self)
{
    return self->has_peer_closed;
}

const struct pfl_tls_identity *pfl_tls_engine_get_identity(const struct pfl_tls_engine *self)
{
    return &self->identity;
}

const char *pfl_tls_engine_get_error(const struct pfl_tls_engine *self)
{
    return self->error;
}

const char *pfl_tls_engine_get_alpn(const struct pfl_tls_engine *self)
{
    return self->phase == PHASE_READY ? mbedtls_ssl_get_alpn_protocol(&self->ssl) : NULL;
}

const char *pfl_tls_engine_get_version(const struct pfl_tls_engine *self)
{
    return self->phase == PHASE_READY ? mbedtls_ssl_get_version(&self->ssl) + strlen("TLSv") : "";
}

size_t pfl_tls_engine_get_record_bytes(const struct pfl_tls_engine *self)
{
    return self->record_bytes;
}

const char *pfl_tls_engine_get_cipher(const struct pfl_tls_engine *self)
{
    return self->phase == PHASE_READY ? mbedtls_ssl_get_ciphersuite(&self->ssl) : "";
}

int pfl_tls_engine_new(struct pfl_tls_conf *conf, const char *expected_uri,
                       struct pfl_tls_engine **ret_engine)
{
    struct pfl_tls_engine *e = pfl_mem_zalloc(sizeof(*e));

    if (e == NULL)
        return PFL_ENOMEM;
    mbedtls_ssl_init(&e->ssl);
    if (expected_uri != NULL) {
        e->expected_uri = pfl_mem_strdup(expected_uri);
        if (e->expected_uri == NULL) {
            pfl_mem_free(e);
            return PFL_ENOMEM;
        }
    }
    e->conf = pfl_tls_conf_ref(conf);
    e->sent_alert = -1;
    *ret_engine = e;
    return 0;
}

void pfl_tls_engine_free(struct pfl_tls_engine *self)
{
    if (self == NULL)
        return;
    mbedtls_ssl_free(&self->ssl);
    pfl_tls_conf_unref(self->conf);
    pfl_mem_free(self->expected_uri);
    pfl_mem_free(self);
}
