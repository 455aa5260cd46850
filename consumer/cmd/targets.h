/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts a command is about and as whom it comes: --host, --ca, --cert, --key, --timeout. */
#ifndef PFL_CONSUMER_TARGETS_H
#define PFL_CONSUMER_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/io/tls_stream.h"
#include "consumer/link/consumer_conn.h"

struct pfl_targets {
    struct pfl_host_spec *specs; /* owned */
    size_t specs_len;
    uv_loop_t *loop;          /* the caller's, while open */
    struct pfl_tls_conf *tls; /* owned; NULL without TLS hosts */
    char fleet[PFL_HOST_NAME_MAX];
    const char *ca_path;
    const char *cert_path;
    const char *key_path;
    uint64_t timeout_ms;
};

#define PFL_TARGETS_TIMEOUT_MS 10000u

void pfl_targets_init(struct pfl_targets *self);
void pfl_targets_fini(struct pfl_targets *self);
/* Adds one --host value; false: said on stderr why not. */
bool pfl_targets_add(struct pfl_targets *self, const char *arg);
/* After the last option: loads the certificates if any host needs them, and opens `loop`, which is
 * the caller's memory until close. False: said on stderr why not, and nothing is open. */
bool pfl_targets_open(struct pfl_targets *self, uv_loop_t *loop);
/* What every connection to these hosts has in common. */
void pfl_targets_fill_conn(const struct pfl_targets *self, struct pfl_consumer_conn_conf *ret_conf);
/* Closes the loop; what the caller opened on it must be closed. */
void pfl_targets_close(struct pfl_targets *self);

#endif
