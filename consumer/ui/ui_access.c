/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of browsers: see ui_access.h.
 *
 * Happy path: the Host field is this machine's loopback (a page whose name was made to resolve to
 * it has another one: DNS rebinding), the Origin is on the list, the path is a host's. A request
 * without Origin is not from a browser and is refused like a wrong one. Failures: a status. No
 * state.
 */
#include "consumer/ui/ui_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* None of loopback: any user of the machine may serve a page there. */
static const char usual_origin[] = "https://ui.perfetto.dev";

#define STATE_ESTABLISHED "01"

static const char loopback_v4[] = "0100007F";
static const char loopback_v6[] = "00000000000000000000000001000000";
static const char mapped_v4[] = "0000000000000000FFFF00000100007F";

bool pfl_ui_is_origin(const char *text)
{
    const char *host = NULL;

    if (strncmp(text, "https://", 8) == 0)
        host = text + 8;
    else if (strncmp(text, "http://", 7) == 0)
        host = text + 7;
    return host != NULL && host[0] != '\0' &&
           strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789"
                        "-.:[]") == strlen(host);
}

static bool is_loopback(const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i]);

        if (strncmp(host, names[i], len) == 0 &&
            (host[len] == '\0' ||
             (host[len] == ':' && strspn(host + len + 1, "0123456789") == strlen(host + len + 1))))
            return true;
    }
    return false;
}

static bool is_allowed(const struct pfl_ui_access *rules, const char *origin)
{
    if (strcmp(origin, usual_origin) == 0)
        return true;
    for (size_t i = 0; i < rules->origins_len; i++)
        if (strcmp(origin, rules->origins[i]) == 0)
            return true;
    return false;
}

static bool find_host(const struct pfl_ui_access *rules, const char *path, size_t *ret_host)
{
    static const char base[] = "/traced";
    bool is_fleet =
        strcmp(path, "/fleet") == 0; /* beside /traced/, where a host may be called so */

    if (is_fleet || strcmp(path, base) == 0) {
        *ret_host = is_fleet ? rules->hosts_len : 0;
        return true;
    }
    if (strncmp(path, base, sizeof(base) - 1) != 0 || path[sizeof(base) - 1] != '/')
        return false;
    for (size_t i = 0; i < rules->hosts_len; i++) {
        if (strcmp(path + sizeof(base), rules->hosts[i]) == 0) {
            *ret_host = i;
            return true;
        }
    }
    return false;
}

unsigned pfl_ui_access_judge(const struct pfl_ui_access *self, const struct pfl_ui_visit *visit,
                             size_t *ret_host, const char **ret_why)
{
    if (visit->host == NULL || visit->path == NULL) {
        *ret_why = "the request has no Host";
        return 400;
    }
    if (!is_loopback(visit->host)) {
        *ret_why = "the page's name is not this machine's";
        return 403;
    }
    if (visit->origin == NULL || !is_allowed(self, visit->origin)) {
        *ret_why = "this origin is not allowed; --ui-origin adds one";
        return 403;
    }
    if (!find_host(self, visit->path, ret_host)) {
        *ret_why = "no such host; paths are /traced, /traced/HOST and /fleet";
        return 404;
    }
    return 101;
}

/* "ADDRESS:PORT" of the table, an address of loopback and this port. */
static bool is_end(const char *text, uint16_t port)
{
    static const char *const addresses[] = {loopback_v4, loopback_v6, mapped_v4};
    char wanted[40];

    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        (void)snprintf(wanted, sizeof(wanted), "%s:%04X", addresses[i], port);
        if (strcmp(text, wanted) == 0)
            return true;
    }
    return false;
}

bool pfl_ui_read_owner(const char *line, uint16_t peer_port, uint16_t own_port, uint32_t *ret_uid)
{
    char local[40];
    char remote[40];
    char state[4];
    char uid[12];
    char *end;
    unsigned long number;

    /* number, local, remote, state, queues, timer, retransmits, uid */
    if (sscanf(line, "%*s %39s %39s %3s %*s %*s %*s %11s", local, remote, state, uid) != 4 ||
        !is_end(local, peer_port) || !is_end(remote, own_port))
        return false;
    /* The kernel says that root owns an end which its program has closed. */
    if (strcmp(state, STATE_ESTABLISHED) != 0)
        return false;
    number = strtoul(uid, &end, 10);
    if (*end != '\0' || number > UINT32_MAX)
        return false;
    *ret_uid = (uint32_t)number;
    return true;
}
