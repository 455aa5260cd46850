/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's identity: the URI name of its verified certificate, perfleet://<fleet>/host/<name>,
 * perfleet://<fleet>/relay/<name> or perfleet://<fleet>/operator/<name>; and whether that peer is
 * permitted. Pure.
 */
#ifndef PFL_PROTO_TUNNEL_IDENTITY_H
#define PFL_PROTO_TUNNEL_IDENTITY_H

#include <stdbool.h>

#include "base/err.h"

#define PFL_IDENTITY_NAME_BYTES 64u

enum pfl_identity_role {
    PFL_IDENTITY_HOST = 1,
    PFL_IDENTITY_OPERATOR = 2,
    PFL_IDENTITY_RELAY = 3,
};

struct pfl_identity {
    enum pfl_identity_role role;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

/* Names have 1 to 63 of A-Z a-z 0-9 . _ - and do not begin with . or -. PFL_EPARSE. */
PFL_MUST_USE int pfl_identity_parse(const char *uri_untrusted, struct pfl_identity *ret_identity);

/* Whether the text is valid as a fleet or a name. */
bool pfl_identity_is_name(const char *text_untrusted);

struct pfl_identity_refusal {
    const char *reason; /* static text */
    const char *remedy;
};

/* 0, or PFL_EPERM with the reason: only a `role` of `fleet` is permitted. */
PFL_MUST_USE int pfl_identity_authorize(const char *uri_untrusted, const char *fleet,
                                        enum pfl_identity_role role,
                                        struct pfl_identity_refusal *ret_refusal);
/* "host", "operator", "relay". */
const char *pfl_identity_role_name(enum pfl_identity_role role);

#endif
