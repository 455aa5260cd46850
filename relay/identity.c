/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing and judging of URI names: see identity.h.
 *
 * Happy path: scheme, fleet, role, name, nothing else. Anything unusual is no identity: there is
 * one spelling of each. No allocation; fails with PFL_EPARSE or PFL_EPERM only.
 */
#include "relay/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define SCHEME "perfleet://"

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Copies the name that begins at *pos and ends at '/' or NUL; moves *pos to there. */
static bool take_name(const char **pos, char dst[PFL_IDENTITY_NAME_BYTES])
{
    size_t len = 0;

    while (is_name_char((*pos)[len]) && len < PFL_IDENTITY_NAME_BYTES)
        len++;
    if (len == 0 || len >= PFL_IDENTITY_NAME_BYTES || (*pos)[0] == '.' || (*pos)[0] == '-')
        return false;
    memcpy(dst, *pos, len);
    dst[len] = '\0';
    *pos += len;
    return **pos == '/' || **pos == '\0';
}

int pfl_identity_parse(const char *uri_untrusted, struct pfl_identity *ret_identity)
{
    struct pfl_identity id = {.role = PFL_IDENTITY_HOST};
    char role[PFL_IDENTITY_NAME_BYTES];
    const char *pos = uri_untrusted;

    if (strncmp(pos, SCHEME, sizeof(SCHEME) - 1) != 0)
        return PFL_EPARSE;
    pos += sizeof(SCHEME) - 1;
    if (!take_name(&pos, id.fleet) || *pos++ != '/' || !take_name(&pos, role) || *pos++ != '/' ||
        !take_name(&pos, id.name) || *pos != '\0')
        return PFL_EPARSE;
    if (strcmp(role, "operator") == 0)
        id.role = PFL_IDENTITY_OPERATOR;
    else if (strcmp(role, "host") != 0)
        return PFL_EPARSE;
    *ret_identity = id;
    return 0;
}

static int refuse(struct pfl_identity_refusal *ret_refusal, const char *reason, const char *remedy)
{
    ret_refusal->reason = reason;
    ret_refusal->remedy = remedy;
    return PFL_EPERM;
}

int pfl_identity_authorize(const char *uri_untrusted, const char *fleet,
                           struct pfl_identity_refusal *ret_refusal)
{
    struct pfl_identity id;

    if (uri_untrusted[0] == '\0')
        return refuse(ret_refusal, "the certificate has no URI name",
                      "issue an operator certificate: perfleet-pki operator DIR NAME");
    if (pfl_identity_parse(uri_untrusted, &id) != 0)
        return refuse(ret_refusal,
                      "the certificate's URI name is not perfleet://FLEET/operator/NAME",
                      "issue an operator certificate: perfleet-pki operator DIR NAME");
    if (strcmp(id.fleet, fleet) != 0)
        return refuse(ret_refusal, "the certificate is of another fleet",
                      "connect to a relay of that fleet, or start this one with its --fleet");
    if (id.role != PFL_IDENTITY_OPERATOR)
        return refuse(ret_refusal, "a host's certificate may not connect as an operator",
                      "use an operator certificate: perfleet-pki operator DIR NAME");
    return 0;
}
