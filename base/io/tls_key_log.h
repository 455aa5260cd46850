/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of TLS connections, for Wireshark: lines of the NSS key log format in the file that
 * SSLKEYLOGFILE names (docs/debugging.md). Only debug builds have it: base/io/CMakeLists.txt
 * compiles it, and defines PFL_TLS_KEY_LOG, for CMAKE_BUILD_TYPE=Debug.
 */
#ifndef PFL_BASE_IO_TLS_KEY_LOG_H
#define PFL_BASE_IO_TLS_KEY_LOG_H

#include "base/bytes.h"

#define PFL_TLS_RANDOM_BYTES 32u

/* Opens the file for appending, readable only by its owner, unless it is open; logs the result.
 * Without the variable: nothing. Call before the sandbox, which refuses the file. */
void pfl_tls_key_log_start(void);
/* One line in one write: label, the client's random and the secret. At most 64 bytes of secret;
 * longer ones are left out. Without a file: nothing. */
void pfl_tls_key_log_write(const char *label, struct pfl_span client_random,
                           struct pfl_span secret);
void pfl_tls_key_log_stop(void); /* for tests */

#endif
