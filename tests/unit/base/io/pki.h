/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for tests, made by deploy/pki/perfleet-pki in a temporary folder; never committed.
 */
#ifndef PFL_TESTS_UNIT_IO_PKI_H
#define PFL_TESTS_UNIT_IO_PKI_H

#include "base/io/tls_stream.h"

/* cmocka group setup and teardown. Makes host a, operators eve, old (expired), future, gone
 * (revoked), and eve of another authority. */
int pki_setup(void **state);
int pki_teardown(void **state);
/* A path inside the folder; one of four rotating static buffers. */
const char *pki_path(const char *name);
/* `who` is "host-a", "operator-eve", "other/operator-eve" ...; `ca` is "ca.pem", "other/ca.pem". */
struct pfl_tls_conf *pki_conf(const char *who, const char *ca, const char *crl, bool is_server);

#endif
