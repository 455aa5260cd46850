/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts chains before mbedtls verifies them: see tls_chain.h. The function here has the name and the
 * semantics of mbedtls/x509_crt.h. As a program's own symbol it takes precedence over the library's
 * (as those of aead.c do), whose TLS then calls it in each handshake, in 1.2 and in 1.3.
 *
 * Happy path: the last certificate that names an authority of ours is signed by it, and those
 * before it by the next one each, which is an authority itself; the library verifies these and no
 * others. Failures: of any other chain the leaf is verified alone, which says that its authority is
 * unknown. Owns nothing. Limits:
 * PFL_TLS_CHAIN_MAX certificates.
 */
#include "base/io/tls_chain.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/io/tls_lib.h"
#include "base/io/tls_stream.h"

static int (*real_verify)(mbedtls_x509_crt *crt, mbedtls_x509_crt *trust_ca,
                          mbedtls_x509_crl *ca_crl, const mbedtls_x509_crt_profile *profile,
                          const char *cn, uint32_t *flags,
                          int (*f_vrfy)(void *, mbedtls_x509_crt *, int, uint32_t *), void *p_vrfy,
                          mbedtls_x509_crt_restart_ctx *rs_ctx);

int pfl_tls_chain_start(void)
{
    *(void **)&real_verify = dlsym(RTLD_NEXT, "mbedtls_x509_crt_verify_restartable");
    return real_verify != NULL ? 0 : PFL_ETLS;
}

static bool is_named(const mbedtls_x509_crt *issuer, const mbedtls_x509_crt *of)
{
    return issuer->subject_raw.len == of->issuer_raw.len &&
           memcmp(issuer->subject_raw.p, of->issuer_raw.p, of->issuer_raw.len) == 0;
}

/* Of several authorities of that name any. */
static bool is_signed_by_any(const mbedtls_x509_crt *crt, const mbedtls_x509_crt *authorities)
{
    for (; authorities != NULL; authorities = authorities->next) {
        if (is_named(authorities, crt) && pfl_tls_lib_verify_signature(crt, authorities) == 0)
            return true;
    }
    return false;
}

static bool names_any(const mbedtls_x509_crt *crt, const mbedtls_x509_crt *authorities)
{
    while (authorities != NULL && !is_named(authorities, crt))
        authorities = authorities->next;
    return authorities != NULL;
}

mbedtls_x509_crt *pfl_tls_chain_find_top(mbedtls_x509_crt *leaf,
                                         const mbedtls_x509_crt *authorities)
{
    mbedtls_x509_crt *chain[PFL_TLS_CHAIN_MAX] = {leaf};
    mbedtls_x509_crt *at = leaf;
    size_t top = 0;

    /* A certificate of an authority may be signed by an earlier one of the same name. One of a host
     * or an operator ends the chain: it has not to sign, and those below it are its owner's. */
    for (size_t i = 0; i < PFL_TLS_CHAIN_MAX && at != NULL; i++, at = at->next) {
        if (i != 0 && !(is_named(at, chain[i - 1]) && pfl_tls_lib_is_authority(at)))
            break;
        chain[i] = at;
        if (names_any(at, authorities))
            top = i;
    }
    if (top == 0 || !is_signed_by_any(chain[top], authorities))
        return leaf;
    for (size_t i = top; i-- != 0;) {
        if (pfl_tls_lib_verify_signature(chain[i], chain[i + 1]) != 0)
            return leaf;
    }
    return chain[top];
}

int mbedtls_x509_crt_verify_restartable(mbedtls_x509_crt *crt, mbedtls_x509_crt *trust_ca,
                                        mbedtls_x509_crl *ca_crl,
                                        const mbedtls_x509_crt_profile *profile, const char *cn,
                                        uint32_t *flags,
                                        int (*f_vrfy)(void *, mbedtls_x509_crt *, int, uint32_t *),
                                        void *p_vrfy, mbedtls_x509_crt_restart_ctx *rs_ctx)
{
    mbedtls_x509_crt *top = pfl_tls_chain_find_top(crt, trust_ca);
    mbedtls_x509_crt *rest = top->next;
    int rc;

    top->next = NULL;
    rc = real_verify(crt, trust_ca, ca_crl, profile, cn, flags, f_vrfy, p_vrfy, rs_ctx);
    top->next = rest;
    return rc;
}
