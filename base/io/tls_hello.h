/* SPDX-License-Identifier: Apache-2.0 */
/* What a client offers, read before mbedtls reads it (docs/adr/0030). Pure. */
#ifndef PFL_BASE_IO_TLS_HELLO_H
#define PFL_BASE_IO_TLS_HELLO_H

#include <stdbool.h>

#include "base/bytes.h"

/* The ClientHello (RFC 8446 section 4.1.2) at the front of `cipher` offers the suite. False also
 * where its list of suites is not whole in the first record, or not all here yet. */
bool pfl_tls_hello_offers(struct pfl_span cipher, uint16_t suite);
/* It lists the versions that it speaks (RFC 8446 section 4.2.1), and TLS 1.2 is not one of them.
 * False likewise. */
bool pfl_tls_hello_excludes_tls_1_2(struct pfl_span cipher);

#endif
