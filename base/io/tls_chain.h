/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a peer's chain of certificates is worth verifying. mbedtls verifies a chain from its leaf
 * up, with whatever keys the peer put into it: a stranger's keys may cost seconds each. So a chain
 * is first looked at from an authority of ours down, and what is not signed so is left out.
 */
#ifndef PFL_BASE_IO_TLS_CHAIN_H
#define PFL_BASE_IO_TLS_CHAIN_H

#include <mbedtls/x509_crt.h>

#include "base/err.h"

/* Call before the first handshake; idempotent. PFL_ETLS: it is another mbedtls. */
PFL_MUST_USE int pfl_tls_chain_start(void);

/* The last certificate that one of `authorities` vouches for: it signed that one, and each before
 * it is signed by the next, which may sign others. The leaf if there is no such chain: then no key
 * of the peer is used. */
mbedtls_x509_crt *pfl_tls_chain_find_top(mbedtls_x509_crt *leaf,
                                         const mbedtls_x509_crt *authorities);

#endif
