/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of browsers: the checks of a WebSocket's opening request, and the host that it selects.
 * Pure.
 */
#ifndef PFL_CONSUMER_UI_ACCESS_H
#define PFL_CONSUMER_UI_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_UI_PORT        8037u /* the port that the Perfetto UI uses */
#define PFL_UI_MAX_ORIGINS 16u   /* in addition to the default ones */

struct pfl_ui_access {
    const char *const *origins; /* allowed besides ui.perfetto.dev; borrowed */
    size_t origins_len;
    const char *const *hosts; /* names; borrowed */
    size_t hosts_len;         /* at least 1 */
};

/* An origin as browsers send it: SCHEME://HOST[:PORT], nothing after it. */
bool pfl_ui_is_origin(const char *text);

/* An opening request's fields; NULL: missing. */
struct pfl_ui_visit {
    const char *host;
    const char *origin;
    const char *path;
};

/*
 * The HTTP status for a request: 101 with
 * *ret_host the number of the host, else 400, 403 or 404 with *ret_why a static sentence.
 *   /traced        the first host
 *   /traced/NAME   that host
 *   /fleet         hosts_len: all of them at once
 */
unsigned pfl_ui_access_judge(const struct pfl_ui_access *self, const struct pfl_ui_visit *visit,
                             size_t *ret_host, const char **ret_why);

/*
 * Parses lines of /proc/net/tcp or tcp6: the user that owns the end of a loopback connection from
 * `peer_port` to `own_port`. False: the line is not that connection, or its end was closed, and its
 * owner is unknown.
 */
bool pfl_ui_read_owner(const char *line, uint16_t peer_port, uint16_t own_port, uint32_t *ret_uid);

#endif
