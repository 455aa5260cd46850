/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates, key and cipher choice of one role: struct pfl_tls_conf of tls_stream.h.
 *
 * Happy path: seed the generator, load authority, revocation list, own chain and key, check that
 * the key belongs to the certificate, then set the rules: both sides show a certificate (except on
 * the join port); tls_lib.c sets versions, suites and groups. Sessions are never resumed: every
 * connection verifies its peer. Failures: a text with the file and the remedy. Ownership: counted
 * references; streams hold one, so a program that reloads makes a new conf and releases the old
 * one. Limits: a key file of at most KEY_MAX_BYTES.
 */
#include "base/io/tls_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <mbedtls/asn1.h>
#include <mbedtls/error.h>
#include <mbedtls/md.h>
#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>

#include "base/io/tls_lib.h"
#include "base/mem.h"

#define KEY_MAX_BYTES (64u * 1024)
#define SAN_URI_TAG   (MBEDTLS_ASN1_CONTEXT_SPECIFIC | 6)

_Static_assert(PFL_TLS_CHAIN_MAX >= MBEDTLS_X509_MAX_VERIFY_CHAIN_SIZE,
               "a chain that mbedtls verifies must fit");

/* Where failures are put in words. */
struct why {
    char *text;
    size_t len;
};

static int __attribute__((format(printf, 3, 4)))
fail(struct why *why, int err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (why->len != 0)
        (void)vsnprintf(why->text, why->len, fmt, ap);
    va_end(ap);
    return err;
}

static int fail_mbedtls(struct why *why, const char *path, int code, const char *what)
{
    char text[128];

    if (code == MBEDTLS_ERR_X509_FILE_IO_ERROR || code == MBEDTLS_ERR_PK_FILE_IO_ERROR)
        return fail(why, PFL_EIO, "%s: cannot be read: %s", path, strerror(errno));
    if (code > 0)
        return fail(why, PFL_EPARSE, "%s: %d of its certificates cannot be read", path, code);
    mbedtls_strerror(code, text, sizeof(text));
    return fail(why, PFL_EPARSE, "%s: %s (%s)", path, what, text);
}

/* ---- identity ---- */

int64_t pfl_tls_time_to_unix(const mbedtls_x509_time *t)
{
    struct tm tm = {
        .tm_year = t->year - 1900,
        .tm_mon = t->mon - 1,
        .tm_mday = t->day,
        .tm_hour = t->hour,
        .tm_min = t->min,
        .tm_sec = t->sec,
    };

    return timegm(&tm);
}

static void copy_uri(const mbedtls_x509_buf *name, char *dst, size_t room)
{
    if (name->len >= room)
        return;
    for (size_t i = 0; i < name->len; i++) {
        if (name->p[i] <= 0x20 || name->p[i] >= 0x7f)
            return;
    }
    memcpy(dst, name->p, name->len);
    dst[name->len] = '\0';
}

void pfl_tls_identity_of(const mbedtls_x509_crt *crt, struct pfl_tls_identity *identity)
{
    const mbedtls_x509_sequence *name;

    identity->not_after_s = pfl_tls_time_to_unix(&crt->valid_to);
    identity->uri[0] = '\0';
    if (mbedtls_x509_dn_gets(identity->subject, sizeof(identity->subject), &crt->subject) < 0)
        identity->subject[0] = '\0';
    for (name = &crt->subject_alt_names; name != NULL; name = name->next) {
        if (name->buf.tag != SAN_URI_TAG)
            continue;
        copy_uri(&name->buf, identity->uri, sizeof(identity->uri));
        return;
    }
}

/* ---- numbers ---- */

static int number_of(const mbedtls_x509_buf *issuer, const mbedtls_x509_buf *serial,
                     struct pfl_tls_number *ret_number)
{
    mbedtls_md_context_t md;
    uint8_t hash[32];
    int rc;

    mbedtls_md_init(&md);
    rc = mbedtls_md_setup(&md, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), 0);
    if (rc == 0)
        rc = mbedtls_md_starts(&md);
    if (rc == 0)
        rc = mbedtls_md_update(&md, issuer->p, issuer->len);
    if (rc == 0)
        rc = mbedtls_md_update(&md, serial->p, serial->len);
    if (rc == 0)
        rc = mbedtls_md_finish(&md, hash);
    mbedtls_md_free(&md);
    if (rc != 0)
        return PFL_ENOMEM;
    memcpy(ret_number->bytes, hash, sizeof(ret_number->bytes));
    return 0;
}

static int compare_numbers(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct pfl_tls_number));
}

int pfl_tls_identity_add(struct pfl_tls_identity *identity, const struct pfl_tls_conf *conf,
                         const mbedtls_x509_crt *crt)
{
    const mbedtls_x509_crt *ca;
    int rc;

    for (ca = &conf->ca; ca != NULL; ca = ca->next) {
        if (ca->raw.len == crt->raw.len && memcmp(ca->raw.p, crt->raw.p, crt->raw.len) == 0)
            return 0;
    }
    if (identity->chain_len == PFL_TLS_CHAIN_MAX)
        return PFL_ELIMIT;
    rc = number_of(&crt->issuer_raw, &crt->serial, &identity->chain[identity->chain_len]);
    if (rc == 0)
        identity->chain_len++;
    return rc;
}

const struct pfl_tls_identity *pfl_tls_conf_get_identity(const struct pfl_tls_conf *conf)
{
    return &conf->identity;
}

int64_t pfl_tls_conf_get_crl_end(const struct pfl_tls_conf *conf)
{
    return conf->crl_end_s;
}

/* ---- loading ---- */

/* Reads the file into `key` (KEY_MAX_BYTES + 1 bytes, NUL-terminated). */
static int read_key(const char *path, unsigned char *key, size_t *ret_len, struct why *why)
{
    struct stat st;
    size_t len = 0;
    ssize_t n = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return fail(why, PFL_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0)
        rc = fail(why, PFL_EIO, "%s: %s", path, strerror(errno));
    else if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        rc =
            fail(why, PFL_EPERM, "%s: others may read or change this key (mode %04o): chmod 600 it",
                 path, st.st_mode & 07777u);
    while (rc == 0 && n > 0 && len < KEY_MAX_BYTES) {
        n = read(fd, key + len, KEY_MAX_BYTES - len);
        if (n < 0)
            rc = fail(why, PFL_EIO, "%s: %s", path, strerror(errno));
        else
            len += (size_t)n;
    }
    close(fd);
    key[len] = '\0';
    *ret_len = len + 1;
    return rc;
}

static int parse_key(struct pfl_tls_conf *c, const char *path, struct why *why)
{
    unsigned char *key = pfl_mem_zalloc(KEY_MAX_BYTES + 1);
    size_t len = 0;
    int rc;

    if (key == NULL)
        return fail(why, PFL_ENOMEM, "out of memory");
    rc = read_key(path, key, &len, why);
    if (rc == 0) {
        rc = pfl_tls_lib_parse_key(&c->key, pfl_span_of(key, len), &c->drbg);
        if (rc != 0)
            rc = fail_mbedtls(why, path, rc, "no unencrypted PEM key");
    }
    mbedtls_platform_zeroize(key, KEY_MAX_BYTES + 1);
    pfl_mem_free(key);
    return rc;
}

/* A certificate that peers must refuse is refused at the start. */
static int check_use(const struct pfl_tls_conf *c, const char *path, struct why *why)
{
    const char *oid = c->is_server ? MBEDTLS_OID_SERVER_AUTH : MBEDTLS_OID_CLIENT_AUTH;

    if (mbedtls_x509_crt_check_extended_key_usage(&c->cert, oid,
                                                  MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)) != 0)
        return fail(why, PFL_EINVAL, "%s may not %s (extended key usage): use a %s certificate",
                    path, c->is_server ? "serve" : "connect",
                    c->is_server ? "host's" : "host's or operator's");
    return 0;
}

bool pfl_tls_conf_has_list(const struct pfl_tls_conf *c, const mbedtls_x509_buf *authority)
{
    const mbedtls_x509_crl *crl;

    for (crl = &c->crl; crl != NULL; crl = crl->next) {
        if (crl->version != 0 && crl->issuer_raw.len == authority->len &&
            memcmp(crl->issuer_raw.p, authority->p, authority->len) == 0)
            return true;
    }
    return false;
}

/* mbedtls passes over an authority without a list, and its revoked certificates with it. */
static int check_crl(const struct pfl_tls_conf *c, const struct pfl_tls_files *files,
                     struct why *why)
{
    const mbedtls_x509_crt *ca;
    char name[128];

    for (ca = &c->ca; ca != NULL; ca = ca->next) {
        if (pfl_tls_conf_has_list(c, &ca->subject_raw))
            continue;
        if (mbedtls_x509_dn_gets(name, sizeof(name), &ca->subject) < 0)
            name[0] = '\0';
        return fail(why, PFL_EINVAL,
                    "%s has no revocation list of \"%s\", an authority of %s: append it",
                    files->crl_path, name, files->ca_path);
    }
    return 0;
}

/* Another authority may have the name. mbedtls would refuse every peer for such a list. */
static int check_signature(const struct pfl_tls_conf *c, const struct pfl_tls_files *files,
                           const mbedtls_x509_crl *list, struct why *why)
{
    const mbedtls_x509_crt *ca;
    unsigned of_name = 0;
    char name[128];

    for (ca = &c->ca; ca != NULL; ca = ca->next) {
        if (ca->subject_raw.len != list->issuer_raw.len ||
            memcmp(ca->subject_raw.p, list->issuer_raw.p, list->issuer_raw.len) != 0)
            continue;
        if (pfl_tls_lib_verify_list(list, ca) == 0)
            return 0;
        of_name++;
    }
    if (of_name == 0) /* of an authority that a peer shows */
        return 0;
    if (mbedtls_x509_dn_gets(name, sizeof(name), &list->issuer) < 0)
        name[0] = '\0';
    return fail(why, PFL_EINVAL,
                "%s: a revocation list of \"%s\" is not signed by the authority of that name in "
                "%s: take the one that this authority made",
                files->crl_path, name, files->ca_path);
}

static int check_signatures(const struct pfl_tls_conf *c, const struct pfl_tls_files *files,
                            struct why *why)
{
    const mbedtls_x509_crl *list;
    int rc = 0;

    for (list = &c->crl; rc == 0 && list != NULL; list = list->next)
        rc = list->version != 0 ? check_signature(c, files, list, why) : 0;
    return rc;
}

static bool is_entry(const mbedtls_x509_crl_entry *entry)
{
    return entry != NULL && entry->raw.len != 0;
}

static size_t count_revoked(const mbedtls_x509_crl *crl)
{
    const mbedtls_x509_crl_entry *entry;
    size_t n = 0;

    for (; crl != NULL; crl = crl->next) {
        for (entry = &crl->entry; is_entry(entry); entry = entry->next)
            n++;
    }
    return n;
}

/* Each peer that is connected is looked up when a new list comes. */
static int number_revoked(struct pfl_tls_conf *c)
{
    size_t n = count_revoked(&c->crl);
    const mbedtls_x509_crl_entry *entry;
    const mbedtls_x509_crl *crl;
    int rc = 0;

    if (n == 0)
        return 0;
    c->revoked = pfl_mem_calloc(n, sizeof(*c->revoked));
    if (c->revoked == NULL)
        return PFL_ENOMEM;
    for (crl = &c->crl; crl != NULL; crl = crl->next) {
        for (entry = &crl->entry; is_entry(entry) && rc == 0; entry = entry->next)
            rc = number_of(&crl->issuer_raw, &entry->serial, &c->revoked[c->revoked_len++]);
    }
    qsort(c->revoked, c->revoked_len, sizeof(*c->revoked), compare_numbers);
    return rc;
}

static int load_crl(struct pfl_tls_conf *c, const struct pfl_tls_files *files, struct why *why)
{
    const mbedtls_x509_crl *crl;
    int rc;

    c->crl_end_s = INT64_MAX;
    c->has_lists = files->crl_path != NULL;
    if (!c->has_lists)
        return 0;
    rc = mbedtls_x509_crl_parse_file(&c->crl, files->crl_path);
    if (rc != 0)
        return fail_mbedtls(why, files->crl_path, rc, "no PEM revocation list");
    for (crl = &c->crl; crl != NULL; crl = crl->next) {
        /* A list need not say when the next one comes. */
        if (crl->next_update.year != 0 && pfl_tls_time_to_unix(&crl->next_update) < c->crl_end_s)
            c->crl_end_s = pfl_tls_time_to_unix(&crl->next_update);
    }
    if (number_revoked(c) != 0)
        return fail(why, PFL_ENOMEM, "out of memory");
    rc = check_signatures(c, files, why);
    return rc == 0 ? check_crl(c, files, why) : rc;
}

static int load_files(struct pfl_tls_conf *c, const struct pfl_tls_files *files, struct why *why)
{
    int rc = mbedtls_x509_crt_parse_file(&c->ca, files->ca_path);

    if (rc != 0)
        return fail_mbedtls(why, files->ca_path, rc, "no PEM certificate of an authority");
    rc = load_crl(c, files, why);
    if (rc != 0)
        return rc;
    rc = mbedtls_x509_crt_parse_file(&c->cert, files->cert_path);
    if (rc != 0)
        return fail_mbedtls(why, files->cert_path, rc, "no PEM certificate");
    rc = check_use(c, files->cert_path, why);
    if (rc == 0)
        rc = parse_key(c, files->key_path, why);
    if (rc != 0)
        return rc;
    rc = pfl_tls_lib_check_pair(&c->cert.pk, &c->key, &c->drbg);
    if (rc != 0)
        return fail(why, PFL_EINVAL, "%s is not the key of the certificate in %s", files->key_path,
                    files->cert_path);
    pfl_tls_identity_of(&c->cert, &c->identity);
    (void)snprintf(c->cert_path, sizeof(c->cert_path), "%s", files->cert_path);
    if (files->is_enrolling && mbedtls_x509_crt_parse_file(&c->cert, files->ca_path) != 0)
        return fail(why, PFL_EIO, "%s: cannot be read again", files->ca_path);
    return 0;
}

static int set_rules(struct pfl_tls_conf *c, const struct pfl_tls_files *files,
                     mbedtls_ssl_config *ssl)
{
    int role = c->is_server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT;
    int rc = mbedtls_ssl_config_defaults(ssl, role, MBEDTLS_SSL_TRANSPORT_STREAM,
                                         MBEDTLS_SSL_PRESET_DEFAULT);

    if (rc != 0)
        return rc;
    mbedtls_ssl_conf_authmode(ssl, files->is_enrolling ? MBEDTLS_SSL_VERIFY_NONE
                                                       : MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_cert_profile(ssl, &mbedtls_x509_crt_profile_next);
    mbedtls_ssl_conf_ca_chain(ssl, &c->ca, files->crl_path != NULL ? &c->crl : NULL);
    mbedtls_ssl_conf_rng(ssl, mbedtls_ctr_drbg_random, &c->drbg);
    pfl_tls_lib_set_rules(ssl);
    /* mbedtls takes the table as writable, and never writes it. */
    if (files->alpn != NULL) {
        rc = mbedtls_ssl_conf_alpn_protocols(ssl, (const char **)(uintptr_t)files->alpn);
        if (rc != 0)
            return rc;
    }
    return mbedtls_ssl_conf_own_cert(ssl, &c->cert, &c->key);
}

static int set_all_rules(struct pfl_tls_conf *c, const struct pfl_tls_files *files)
{
    int rc = set_rules(c, files, &c->ssl);

    if (rc != 0 || !c->is_server)
        return rc;
    rc = set_rules(c, files, &c->ssl_chacha20);
    pfl_tls_lib_insist_on_chacha20(&c->ssl_chacha20);
    return rc;
}

static int start_random(struct pfl_tls_conf *c)
{
    static const unsigned char label[] = "perfleet";

    if (pfl_tls_lib_start() != 0)
        return PFL_ETLS;
    return mbedtls_ctr_drbg_seed(&c->drbg, mbedtls_entropy_func, &c->entropy, label,
                                 sizeof(label) - 1);
}

int pfl_tls_conf_new(const struct pfl_tls_files *files, char *ret_why, size_t why_len,
                     struct pfl_tls_conf **ret_conf)
{
    struct why why = {.text = ret_why, .len = why_len};
    struct pfl_tls_conf *c = pfl_mem_zalloc(sizeof(*c));
    int rc;

    if (c == NULL)
        return fail(&why, PFL_ENOMEM, "out of memory");
    c->refs = 1;
    c->is_server = files->is_server;
    c->gcm_records_max = PFL_TLS_GCM_RECORDS_MAX;
    mbedtls_ssl_config_init(&c->ssl);
    mbedtls_ssl_config_init(&c->ssl_chacha20);
    mbedtls_x509_crt_init(&c->ca);
    mbedtls_x509_crt_init(&c->cert);
    mbedtls_x509_crl_init(&c->crl);
    mbedtls_pk_init(&c->key);
    mbedtls_entropy_init(&c->entropy);
    mbedtls_ctr_drbg_init(&c->drbg);
    if (start_random(c) != 0)
        rc = fail(&why, PFL_ETLS, "the system's random source cannot be read");
    else
        rc = load_files(c, files, &why);
    if (rc == 0 && set_all_rules(c, files) != 0)
        rc = fail(&why, PFL_ETLS, "mbedtls refused the configuration");
    if (rc != 0) {
        pfl_tls_conf_unref(c);
        return rc;
    }
    *ret_conf = c;
    return 0;
}

bool pfl_tls_conf_is_revoked(const struct pfl_tls_conf *conf,
                             const struct pfl_tls_identity *identity)
{
    for (size_t i = 0; i < identity->chain_len && conf->revoked_len != 0; i++) {
        if (bsearch(&identity->chain[i], conf->revoked, conf->revoked_len, sizeof(*conf->revoked),
                    compare_numbers) != NULL)
            return true;
    }
    return false;
}

struct pfl_tls_conf *pfl_tls_conf_ref(struct pfl_tls_conf *conf)
{
    conf->refs++;
    return conf;
}

void pfl_tls_conf_unref(struct pfl_tls_conf *conf)
{
    if (conf == NULL || --conf->refs != 0)
        return;
    mbedtls_ssl_config_free(&conf->ssl);
    mbedtls_ssl_config_free(&conf->ssl_chacha20);
    mbedtls_x509_crt_free(&conf->ca);
    mbedtls_x509_crt_free(&conf->cert);
    mbedtls_x509_crl_free(&conf->crl);
    mbedtls_pk_free(&conf->key);
    mbedtls_ctr_drbg_free(&conf->drbg);
    mbedtls_entropy_free(&conf->entropy);
    pfl_mem_free(conf->revoked);
    pfl_mem_free(conf);
}
