/* SPDX-License-Identifier: Apache-2.0 */
/* The cipher of TLS's records, by OpenSSL's libcrypto in mbedtls's place (docs/adr/0027). */
#ifndef PFL_BASE_IO_AEAD_H
#define PFL_BASE_IO_AEAD_H

#include "base/err.h"

/* Before the first record, as often as one likes: the processor's best way is chosen. Whoever links
 * this gets the functions that mbedtls calls, too. PFL_ETLS. */
PFL_MUST_USE int pfl_aead_start(void);

#endif
