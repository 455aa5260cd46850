/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates mbedtls's codes, verification flags and alerts into sentences: see tls_words.h. Pure;
 * if several things are wrong, the order of the tables decides which is reported.
 */
#include "base/io/tls_words.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <mbedtls/error.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509.h>

#include "base/io/tls_lib.h"

#define ALERT_CERTIFICATE_REQUIRED 116 /* of TLS 1.3; unknown to mbedtls 2.28 */
#define NEWEST_IS_1_2              "1.2 is the newest of this end's mbedtls (1.3 takes 3.6, as in Debian 13)"
#define LEN(table)                 (sizeof(table) / sizeof((table)[0]))

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
     "our revocation list has expired, so no peer can be verified: renew the CRL file"},
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
    {MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, "it does not accept our certificate, which may not be "
                                         "valid yet by its clock: wait, or set the "
                                         "clocks; its log says why"},
    {MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA,
     "it does not know the authority of our certificate: both sides need the same fleet's CA"},
    {MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED, "it denies us access"},
    {MBEDTLS_SSL_ALERT_MSG_NO_CERT, "it wants a certificate from us"},
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE,
     "it shares no cipher suite with us (TLS 1.2 or 1.3 with ECDHE and AEAD), or wants another "
     "certificate"},
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, "it wants another version of TLS than 1.2 or 1.3"},
    {MBEDTLS_SSL_ALERT_MSG_UNEXPECTED_MESSAGE, "it cannot follow what we sent"},
    {ALERT_CERTIFICATE_REQUIRED, "it wants a certificate from us"},
    {MBEDTLS_SSL_ALERT_MSG_NO_APPLICATION_PROTOCOL,
     "it speaks none of our protocols (ALPN): check address and port, and its version"},
};

/* By the alert with which we refused a hello. */
static const struct flag_words sent_alert_table[] = {
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE, "the peer offers no cipher suite that is allowed: it "
                                              "needs TLS 1.2 or 1.3 with ECDHE and AEAD"},
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION,
     "the peer speaks no allowed version of TLS: it needs 1.2 or 1.3"},
    {MBEDTLS_SSL_ALERT_MSG_NO_APPLICATION_PROTOCOL,
     "the peer speaks none of our protocols (ALPN): check what it is, and its version"},
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
    if ((f->verify_flags & (MBEDTLS_X509_BADCERT_NOT_TRUSTED | MBEDTLS_X509_BADCERT_REVOKED)) ==
            0 &&
        f->listless != NULL && f->listless[0] != '\0') {
        (void)snprintf(dst, room,
                       "we have no revocation list of \"%s\", an authority of the peer's "
                       "certificate: append it to the CRL file",
                       f->listless);
        return;
    }
    words = find_words(flag_table, LEN(flag_table), f->verify_flags, true);
    if (words != NULL)
        (void)snprintf(dst, room, "%s", words);
    else if ((f->verify_flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0)
        (void)snprintf(dst, room, "the peer is \"%s\", expected was \"%s\": check the address",
                       f->peer_uri, f->wanted_uri != NULL ? f->wanted_uri : "");
    else
        (void)snprintf(dst, room, "the peer's certificate is not acceptable (flags 0x%x)",
                       (unsigned)f->verify_flags);
}

static const char *find_alert(const struct flag_words *table, size_t n, int alert)
{
    return alert < 0 ? NULL : find_words(table, n, (uint32_t)alert, false);
}

static const char *find_alert_words(const struct pfl_tls_failure *f)
{
    if (f->alert == MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION && f->lacks_tls_1_3)
        return "it wants another version of TLS, and " NEWEST_IS_1_2;
    if (f->alert == MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE && f->is_ready_1_2)
        return "it wants another handshake on this connection (TLS 1.2 renegotiation), which we do "
               "not take part in: turn that off there";
    return find_alert(alert_table, LEN(alert_table), f->alert);
}

/* What needs no number and no name; NULL: nothing of the kind. */
static const char *find_plain(const struct pfl_tls_failure *f)
{
    const char *words = find_alert(sent_alert_table, LEN(sent_alert_table), f->sent_alert);

    if (pfl_tls_lib_is_no_certificate(f->code))
        return flag_table[0].words;
    if (f->alert >= 0)
        return NULL;
    if (f->has_empty_records)
        return "the peer sends too many records without data";
    if (f->is_key_update)
        return "the peer changed its keys (TLS 1.3 KeyUpdate), which mbedtls cannot follow: let it "
               "use ChaCha20-Poly1305, which needs none, or TLS 1.2";
    if (f->is_too_new)
        return "the peer speaks no TLS before 1.3, and " NEWEST_IS_1_2
               ": let it offer TLS 1.2, too";
    if (f->is_after_hello)
        return "the peer broke off right after the handshake: most likely it refused our "
               "certificate, its log says why";
    if (words != NULL)
        return words;
    return f->has_records ? NULL : "the peer does not speak TLS here: check address and port";
}

static bool is_about_own(const struct pfl_tls_failure *f)
{
    if (f->alert < 0)
        return f->is_after_hello && f->verify_flags == 0;
    return (f->alert >= MBEDTLS_SSL_ALERT_MSG_BAD_CERT &&
            f->alert <= MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN) ||
           f->alert == MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA ||
           f->alert == MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED;
}

/* Which certificate was refused: its file, name and days. */
static void add_own(const struct pfl_tls_failure *f, char *dst, size_t room)
{
    size_t len = strlen(dst);
    char from[32];
    char until[32];

    if (f->own_path == NULL || !is_about_own(f))
        return;
    format_time(f->own_not_before_s, from);
    format_time(f->own_not_after_s, until);
    (void)snprintf(dst + len, room - len, "; ours is %s, %s, valid from %s until %s", f->own_path,
                   f->own_uri[0] != '\0' ? f->own_uri : "without a name of a fleet", from, until);
}

static void tell(const struct pfl_tls_failure *f, char *dst, size_t room)
{
    const char *words = find_plain(f);
    char text[128];

    if (f->verify_flags != 0 && f->alert < 0) {
        tell_certificate(f, dst, room);
    } else if (words != NULL) {
        (void)snprintf(dst, room, "%s", words);
    } else if (f->alert >= 0) {
        words = find_alert_words(f);
        (void)snprintf(dst, room, "the peer refused the connection: %s (TLS alert %d)",
                       words != NULL ? words : "no reason that we know", f->alert);
    } else {
        mbedtls_strerror(f->code, text, sizeof(text));
        (void)snprintf(dst, room, "TLS failed: %s", text);
    }
}

void pfl_tls_words_of(const struct pfl_tls_failure *f, char *dst, size_t room)
{
    tell(f, dst, room);
    add_own(f, dst, room);
}

void pfl_tls_words_of_worn_key(char *dst, size_t room)
{
    (void)snprintf(dst, room,
                   "the connection has sent all that one key of AES-GCM may: connect again, or let "
                   "the peer offer ChaCha20-Poly1305");
}
