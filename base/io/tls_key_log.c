/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See tls_key_log.h. One descriptor for the process: connections of all configurations share it,
 * and so may several processes, because each line is one write to the end of the file.
 * Failures: a file that cannot be opened is logged; a write that fails loses its line.
 */
#include "base/io/tls_key_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define LABEL_MAX_BYTES  40u
#define SECRET_MAX_BYTES 64u
#define LINE_MAX_BYTES   (LABEL_MAX_BYTES + 2 * PFL_TLS_RANDOM_BYTES + 2 * SECRET_MAX_BYTES + 4)

static int log_fd = -1;

void pfl_tls_key_log_start(void)
{
    const char *path = secure_getenv("SSLKEYLOGFILE");

    if (log_fd >= 0 || path == NULL || path[0] == '\0')
        return;
    log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (log_fd < 0)
        pfl_log_error("tls-key-log-failed", "file=%s reason=%s", pfl_log_quote_str(path),
                      pfl_log_quote_str(strerror(errno)));
    else
        pfl_log_warn("tls-key-log", "file=%s effect=\"a reader of it can decrypt all connections\"",
                     pfl_log_quote_str(path));
}

void pfl_tls_key_log_stop(void)
{
    if (log_fd >= 0)
        (void)close(log_fd);
    log_fd = -1;
}

static char *put_hex(char *pos, struct pfl_span bytes)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < bytes.len; i++) {
        *pos++ = digits[bytes.data[i] >> 4];
        *pos++ = digits[bytes.data[i] & 15];
    }
    return pos;
}

void pfl_tls_key_log_write(const char *label, struct pfl_span client_random, struct pfl_span secret)
{
    char line[LINE_MAX_BYTES];
    char *pos = line;

    if (log_fd < 0 || strlen(label) > LABEL_MAX_BYTES ||
        client_random.len != PFL_TLS_RANDOM_BYTES || secret.len > SECRET_MAX_BYTES)
        return;
    pos += snprintf(line, sizeof(line), "%s ", label);
    pos = put_hex(pos, client_random);
    *pos++ = ' ';
    pos = put_hex(pos, secret);
    *pos++ = '\n';
    if (write(log_fd, line, (size_t)(pos - line)) < 0)
        return; /* for lack of space, for example: the connection continues */
}
