/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a client's offer before mbedtls reads it (docs/adr/0030). Pure. */
#ifndef PFL_BASE_IO_TLS_HELLO_H
#define PFL_BASE_IO_TLS_HELLO_H

#include <stdbool.h>

#include "base/bytes.h"

/* The ClientHello (RFC 8446 section 4.1.2) at the front of `cipher` offers the suite. False also if
 * its list of suites is not completely in the first record, or not completely received. */
bool pfl_tls_hello_offers(struct pfl_span cipher, uint16_t suite);
/* It lists its supported versions (RFC 8446 section 4.2.1) without TLS 1.2. False in the same
 * cases. */
bool pfl_tls_hello_excludes_tls_1_2(struct pfl_span cipher);

#endif
