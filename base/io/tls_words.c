/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From mbedtls's codes, verification flags and alerts to sentences: see tls_words.h. Pure; the
 * order of the tables is the order of what is told first when several things are wrong.
 */
#include "base/io/tls_words.h"

#include <stdio.h>
#include <time.h>

#include <mbedtls/error.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <mbedtls/x509.h>

struct flag_words {
    uint32_t flag;
    const char *words;
};

static const struct flag_words flag_table[] = {
    {MBEDTLS_X509_BADCERT_MISSING, "the peer showed no certificate: give it one of this fleet"},
    {MBEDTLS_X509_BADCERT_NOT_TRUSTED,
     "the peer's certificate is of an authority that we do not know: issue it from this fleet's "
     "authority, or add that authority to the CA file"},
    {MBEDTLS_X509_BADCERT_REVOKED,
     "the peer's certificate is revoked: issue a new one, if it is to be trusted again"},
    {MBEDTLS_X509_BADCERT_KEY_USAGE, "the peer's certificate is not for this use (key usage): "
                                     "issue it as a host's or an operator's"},
    {MBEDTLS_X509_BADCERT_EXT_KEY_USAGE, "the peer's certificate is not for this side of a "
                                         "connection (extended key usage): hosts serve, "
                                         "operators connect"},
    {MBEDTLS_X509_BADCRL_EXPIRED,
     "our revocation list has expired, so nobody can be verified: renew the CRL file"},
    {MBEDTLS_X509_BADCRL_FUTURE,
     "our revocation list is not valid yet: check this machine's clock, or the CRL file"},
    {MBEDTLS_X509_BADCRL_NOT_TRUSTED,
     "our revocation list is not of the peer's authority: give the CRL of the CA file's authority"},
    {MBEDTLS_X509_BADCERT_BAD_MD, "the peer's certificate is signed with a weak hash: reissue it"},
    {MBEDTLS_X509_BADCERT_BAD_PK, "the peer's certificate has an unfit kind of key: reissue it"},
    {MBEDTLS_X509_BADCERT_BAD_KEY, "the peer's certificate has a weak key: reissue it (P-256)"},
};

static const struct flag_words alert_table[] = {
    {MBEDTLS_SSL_ALERT_MSG_BAD_CERT, "it cannot use our certificate"},
    {MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT,
     "our certificate is not for this use: hosts serve, operators connect"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED, "our certificate is revoked: get a new one"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED, "our certificate has expired: renew it"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, "it does not accept our certificate"},
    {MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA,
     "it does not know the authority of our certificate: both sides need the same fleet's CA"},
    {MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED, "it denies us access"},
    {MBEDTLS_SSL_ALERT_MSG_NO_CERT, "it wants a certificate from us"},
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE,
     "it shares no cipher with us (TLS 1.2 with ECDHE and AEAD), or wants another certificate"},
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, "it wants another version of TLS"},
    {116, "it wants a certificate from us"},
};

static const char *find_words(const struct flag_words *table, size_t n, uint32_t key, bool is_mask)
{
    for (size_t i = 0; i < n; i++) {
        if (is_mask ? (table[i].flag & key) != 0 : table[i].flag == key)
            return table[i].words;
    }
    return NULL;
}

static void format_time(int64_t t_s, char dst[32])
{
    time_t t = (time_t)t_s;
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL || strftime(dst, 32, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        (void)snprintf(dst, 32, "an unknown time");
}

static void tell_certificate(const struct pfl_tls_failure *f, char *dst, size_t room)
{
    const char *words;
    char when[32];

    if ((f->verify_flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0 &&
        (f->verify_flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) == 0) {
        format_time(f->not_after_s, when);
        (void)snprintf(dst, room, "the peer's certificate expired on %s: renew it", when);
        return;
    }
    if ((f->verify_flags & MBEDTLS_X509_BADCERT_FUTURE) != 0 &&
        (f->verify_flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) == 0) {
        format_time(f->not_before_s, when);
        (void)snprintf(dst, room,
                       "the peer's certificate is valid from %s only: wait, or check the clocks",
                       when);
        return;
    }
    words =
        find_words(flag_table, sizeof(flag_table) / sizeof(flag_table[0]), f->verify_flags, true);
    if (words != NULL)
        (void)snprintf(dst, room, "%s", words);
    else if ((f->verify_flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0)
        (void)snprintf(dst, room, "the peer is \"%s\", expected was \"%s\": check the address",
                       f->peer_uri, f->wanted_uri != NULL ? f->wanted_uri : "");
    else
        (void)snprintf(dst, room, "the peer's certificate is not acceptable (flags 0x%x)",
                       (unsigned)f->verify_flags);
}

static bool is_no_client_certificate(int code)
{
#if MBEDTLS_VERSION_MAJOR >= 3
    return code == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE;
#else
    return code == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE ||
           code == MBEDTLS_ERR_SSL_CA_CHAIN_REQUIRED;
#endif
}

void pfl_tls_words_of(const struct pfl_tls_failure *f, char *dst, size_t room)
{
    const char *words;
    char text[128];

    if (f->verify_flags != 0 && f->alert < 0) {
        tell_certificate(f, dst, room);
    } else if (is_no_client_certificate(f->code)) {
        (void)snprintf(dst, room, "%s", flag_table[0].words);
    } else if (f->alert >= 0) {
        words = find_words(alert_table, sizeof(alert_table) / sizeof(alert_table[0]),
                           (uint32_t)f->alert, false);
        (void)snprintf(dst, room, "the peer refused the connection: %s (TLS alert %d)",
                       words != NULL ? words : "no reason that we know", f->alert);
    } else if (f->is_after_hello) {
        (void)snprintf(dst, room,
                       "the peer broke off right after the handshake: most likely it refused our "
                       "certificate, its log says why");
    } else if (!f->has_records) {
        (void)snprintf(dst, room, "the peer does not speak TLS here: check address and port");
    } else {
        mbedtls_strerror(f->code, text, sizeof(text));
        (void)snprintf(dst, room, "TLS failed: %s", text);
    }
}
