/* SPDX-License-Identifier: Apache-2.0 */
/* The cipher of TLS records, by OpenSSL's libcrypto instead of mbedtls (docs/adr/0027). */
#ifndef PFL_BASE_IO_AEAD_H
#define PFL_BASE_IO_AEAD_H

#include "base/err.h"

/* Call before the first record; idempotent. Selects the processor's fastest implementation. A
 * program that links this also gets the functions that mbedtls calls. PFL_ETLS. */
PFL_MUST_USE int pfl_aead_start(void);

#endif
