/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's certificate, authority and revocation lists, from their files. */
#ifndef PFL_RELAY_ACCEPT_CERTIFICATES_PORT_H
#define PFL_RELAY_ACCEPT_CERTIFICATES_PORT_H

#include "base/io/tls_stream.h"

/* Logs what is unusable, and what ends soon or has ended (expiry.h). Errors of pfl_tls_conf_new. */
PFL_MUST_USE int pfl_certificates_load(const struct pfl_tls_files *files,
                                       struct pfl_tls_conf **ret_tls);

#endif
