/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `perfleet`, and what they share. Each returns the exit code. */
#ifndef PFL_CONSUMER_CMD_H
#define PFL_CONSUMER_CMD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/io/tls_stream.h"
#include "consumer/host_spec.h"

int pfl_cmd_record(int argc, char **argv);
int pfl_cmd_hosts(int argc, char **argv);
int pfl_cmd_query(int argc, char **argv);
int pfl_cmd_presets(int argc, char **argv);

/* --host, --ca, --cert, --key, --timeout: where to and as whom. */
struct pfl_targets {
    struct pfl_host_spec *specs; /* owned */
    size_t specs_len;
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
/* After the last option: loads the certificates if any host needs them. */
bool pfl_targets_load(struct pfl_targets *self);

/* "perfleet: <message>" on stderr. */
void pfl_cmd_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "90", "1500ms", "10s", "5m", "2h" in milliseconds (a bare number is seconds); false: it is none
 * of these, is 0, or passes a week. */
bool pfl_cmd_parse_duration(const char *arg, uint32_t *ret_ms);
/* The whole of a file, or of standard input for "-"; at most max_bytes. On failure errno. */
bool pfl_cmd_read_file(const char *path, struct pfl_buf *out);

#endif
