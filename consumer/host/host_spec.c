/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads --host values and certificate URIs. Happy path: optional NAME=, a scheme, the rest by
 * scheme. Failures: PFL_EINVAL and a sentence for the operator. Names are restricted to letters,
 * digits, dot, dash and underscore, because they become machine names, file names and log words.
 */
#include "consumer/host/host_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
#define URI_SCHEME "perfleet://"
#define SSH_SOCKET "/run/perfetto/traced-consumer.sock" /* docs/abi/wire.md section 5 */

static bool is_name(const char *str, size_t len)
{
    return len != 0 && len < PFL_HOST_NAME_MAX && strspn(str, NAME_CHARS) >= len;
}

bool pfl_host_is_name(const char *str)
{
    return is_name(str, strlen(str));
}

bool pfl_host_is_address(const char *str)
{
    const char *equals = strchr(str, '=');

    return strchr(str, ':') != NULL || strcmp(str, "local") == 0 ||
           (equals != NULL && strcmp(equals + 1, "local") == 0);
}

static bool copy_part(char *dst, size_t room, const char *src, size_t len)
{
    if (len == 0 || len >= room)
        return false;
    memcpy(dst, src, len);
    dst[len] = '\0';
    return true;
}

static bool is_port(const char *str)
{
    char *end;
    long port = strtol(str, &end, 10);

    return *str >= '0' && *str <= '9' && *end == '\0' && port >= 1 && port <= 65535;
}

static bool parse_tls(const char *rest, struct pfl_host_spec *spec)
{
    const char *bracket = rest[0] == '[' ? strchr(rest, ']') : NULL;
    const char *colon = strchr(bracket != NULL ? bracket : rest, ':');
    const char *port = colon != NULL ? colon + 1 : PFL_HOST_PORT;
    size_t len = colon != NULL ? (size_t)(colon - rest) : strlen(rest);

    if (!is_port(port) || !copy_part(spec->port, sizeof(spec->port), port, strlen(port)))
        return false;
    if (rest[0] == '[') {
        if (bracket == NULL || bracket + 1 != rest + len)
            return false;
        rest++;
        len -= 2;
    }
    spec->kind = PFL_HOST_TLS;
    return copy_part(spec->address, sizeof(spec->address), rest, len);
}

static bool parse_unix(const char *path, struct pfl_host_spec *spec)
{
    spec->kind = PFL_HOST_UNIX;
    return strlen(path) <= 106 &&
           copy_part(spec->address, sizeof(spec->address), path, strlen(path));
}

/* Nothing that the ssh program could take for an option, and nothing that needs quoting. */
static bool parse_ssh(const char *rest, struct pfl_host_spec *spec)
{
    size_t len = strspn(rest, NAME_CHARS "@");
    const char *path = strchr(rest, '/');
    const char *end = path != NULL ? path : rest + strlen(rest);
    const char *host = memchr(rest, '@', len);

    host = host != NULL ? host + 1 : rest;
    spec->kind = PFL_HOST_SSH;
    if (len == 0 || rest[0] == '-' || host[0] == '-' || host == rest + len ||
        !copy_part(spec->address, sizeof(spec->address), rest, len) ||
        !copy_part(spec->socket, sizeof(spec->socket), path != NULL ? path : SSH_SOCKET,
                   strlen(path != NULL ? path : SSH_SOCKET)))
        return false;
    if (rest + len != end) {
        if (rest[len] != ':' ||
            !copy_part(spec->port, sizeof(spec->port), rest + len + 1,
                       (size_t)(end - rest) - len - 1) ||
            !is_port(spec->port))
            return false;
    }
    if (!spec->is_named)
        copy_part(spec->name, sizeof(spec->name), host, len - (size_t)(host - rest));
    spec->is_named = true;
    return strspn(spec->socket, NAME_CHARS "/") == strlen(spec->socket);
}

/* Where the service of this machine listens: docs/abi/wire.md section 5. */
static const char *local_socket(void)
{
    const char *env = getenv("PERFETTO_CONSUMER_SOCK_NAME");

    if (env != NULL && env[0] != '\0')
        return env;
    return access("/run/perfetto/", X_OK) == 0 ? "/run/perfetto/traced-consumer.sock"
                                               : "/tmp/perfetto-consumer";
}

static bool parse_address(const char *rest, struct pfl_host_spec *spec)
{
    if (strncmp(rest, "tls://", 6) == 0)
        return parse_tls(rest + 6, spec);
    if (strncmp(rest, "ssh://", 6) == 0)
        return parse_ssh(rest + 6, spec);
    if (strncmp(rest, "unix://", 7) == 0)
        return parse_unix(rest + 7, spec);
    if (strncmp(rest, "unix:", 5) == 0)
        return parse_unix(rest + 5, spec);
    if (strcmp(rest, "local") == 0)
        return parse_unix(local_socket(), spec);
    return false;
}

int pfl_host_spec_parse(const char *arg, struct pfl_host_spec *ret_spec, char *ret_why,
                        size_t why_len)
{
    struct pfl_host_spec spec = {0};
    const char *equals = strchr(arg, '=');
    const char *colon = strchr(arg, ':');
    const char *rest = arg;

    if (equals != NULL && (colon == NULL || equals < colon)) {
        if (!is_name(arg, (size_t)(equals - arg))) {
            snprintf(ret_why, why_len,
                     "%s: a host's NAME is made of letters, digits, '.', '-', '_' and has at most "
                     "%d of them",
                     pfl_log_quote_str(arg), PFL_HOST_NAME_MAX - 1);
            return PFL_EINVAL;
        }
        spec.is_named = true;
        copy_part(spec.name, sizeof(spec.name), arg, (size_t)(equals - arg));
        rest = equals + 1;
    }
    if (!parse_address(rest, &spec) ||
        !copy_part(spec.text, sizeof(spec.text), rest, strlen(rest))) {
        snprintf(ret_why, why_len,
                 "%s: give a host as [NAME=]tls://ADDRESS[:PORT], [NAME=]unix:PATH, "
                 "[NAME=]ssh://[USER@]ADDRESS[:PORT][/SOCKET] or [NAME=]local",
                 pfl_log_quote_str(arg));
        return PFL_EINVAL;
    }
    *ret_spec = spec;
    return 0;
}

void pfl_host_spec_set_tunnel(struct pfl_host_spec *self, const char *name)
{
    *self = (struct pfl_host_spec){.kind = PFL_HOST_TUNNEL, .is_named = true};
    snprintf(self->name, sizeof(self->name), "%s", name);
    snprintf(self->address, sizeof(self->address), "%s", name);
    snprintf(self->text, sizeof(self->text), "%s", name);
}

bool pfl_host_uri_parse(const char *uri, char *ret_fleet, char *ret_role, char *ret_name)
{
    const char *fleet = uri + strlen(URI_SCHEME);
    const char *role;
    const char *name;

    if (strncmp(uri, URI_SCHEME, strlen(URI_SCHEME)) != 0)
        return false;
    role = strchr(fleet, '/');
    name = role != NULL ? strchr(role + 1, '/') : NULL;
    if (name == NULL || !is_name(name + 1, strlen(name + 1)))
        return false;
    return copy_part(ret_fleet, PFL_HOST_NAME_MAX, fleet, (size_t)(role - fleet)) &&
           copy_part(ret_role, PFL_HOST_NAME_MAX, role + 1, (size_t)(name - role - 1)) &&
           copy_part(ret_name, PFL_HOST_NAME_MAX, name + 1, strlen(name + 1));
}
