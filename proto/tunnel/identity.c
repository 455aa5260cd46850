/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and checks URI names: see identity.h.
 *
 * Happy path: scheme, fleet, role, name, nothing else. Each identity has one form; any deviation is
 * PFL_EPARSE. No allocation; fails with PFL_EPARSE or PFL_EPERM only.
 */
#include "proto/tunnel/identity.h"

#include <stddef.h>
#include <string.h>

#define SCHEME "perfleet://"

struct words {
    const char *name;
    const char *malformed;
    const char *wrong_role[4]; /* by the role that it has */
    const char *remedy;
};

/* By the role that is wanted. */
static const struct words words_of[] = {
    [PFL_IDENTITY_HOST] = {"host",
                           "the certificate's URI name is not perfleet://FLEET/host/NAME",
                           {[PFL_IDENTITY_OPERATOR] =
                                "an operator's certificate may not connect as a host",
                            [PFL_IDENTITY_RELAY] =
                                "a relay's certificate may not connect as a host"},
                           "issue a host certificate: perfleet pki host DIR NAME"},
    [PFL_IDENTITY_OPERATOR] = {"operator",
                               "the certificate's URI name is not perfleet://FLEET/operator/NAME",
                               {[PFL_IDENTITY_HOST] =
                                    "a host's certificate may not connect as an operator",
                                [PFL_IDENTITY_RELAY] =
                                    "a relay's certificate may not connect as an operator"},
                               "issue an operator certificate: perfleet pki operator DIR NAME"},
    [PFL_IDENTITY_RELAY] = {"relay",
                            "the certificate's URI name is not perfleet://FLEET/relay/NAME",
                            {[PFL_IDENTITY_HOST] = "a host's certificate does not make a relay",
                             [PFL_IDENTITY_OPERATOR] =
                                 "an operator's certificate does not make a relay"},
                            "issue a relay certificate: perfleet pki relay DIR NAME"},
};

static bool find_role(const char *name, enum pfl_identity_role *ret_role)
{
    for (int i = PFL_IDENTITY_HOST; i <= PFL_IDENTITY_RELAY; i++) {
        if (strcmp(words_of[i].name, name) != 0)
            continue;
        *ret_role = (enum pfl_identity_role)i;
        return true;
    }
    return false;
}

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

bool pfl_identity_is_name(const char *text_untrusted)
{
    char name[PFL_IDENTITY_NAME_BYTES];

    return take_name(&text_untrusted, name) && *text_untrusted == '\0';
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
    if (!find_role(role, &id.role))
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
                           enum pfl_identity_role role, struct pfl_identity_refusal *ret_refusal)
{
    const struct words *words = &words_of[role];
    struct pfl_identity id;

    if (uri_untrusted[0] == '\0')
        return refuse(ret_refusal, "the certificate has no URI name", words->remedy);
    if (pfl_identity_parse(uri_untrusted, &id) != 0)
        return refuse(ret_refusal, words->malformed, words->remedy);
    if (strcmp(id.fleet, fleet) != 0)
        return refuse(ret_refusal, "the certificate is of another fleet",
                      "connect to a peer of that fleet, or start this one with its --fleet");
    if (id.role != role)
        return refuse(ret_refusal, words->wrong_role[id.role], words->remedy);
    return 0;
}

const char *pfl_identity_role_name(enum pfl_identity_role role)
{
    return words_of[role].name;
}
