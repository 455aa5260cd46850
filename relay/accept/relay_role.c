/* SPDX-License-Identifier: Apache-2.0 */
/* The role of this relay: see relay_role.h. Owns nothing; a name that is too long is cut, as no
 * certificate has one. */
#include "relay/accept/relay_role.h"

#include <stdio.h>
#include <string.h>

int pfl_relay_role_decide(const struct pfl_relay_role_conf *conf, struct pfl_relay_role *ret_role)
{
    struct pfl_identity own = {.role = PFL_IDENTITY_HOST};
    bool is_named = pfl_identity_parse(conf->own_uri, &own) == 0;
    struct pfl_relay_role role = {.has_hub = own.role == PFL_IDENTITY_RELAY};

    if (!is_named && conf->fleet == NULL)
        return PFL_EINVAL;
    role.has_direct = !role.has_hub || conf->is_socket_given;
    (void)snprintf(role.fleet, sizeof(role.fleet), "%s",
                   conf->fleet != NULL ? conf->fleet : own.fleet);
    memcpy(role.name, own.name, sizeof(role.name));
    *ret_role = role;
    return 0;
}
