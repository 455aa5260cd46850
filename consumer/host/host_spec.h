/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of --host: [NAME=]tls://ADDR[:PORT], [NAME=]unix:PATH (also unix:@ABSTRACT),
 * [NAME=]ssh://[USER@]ADDR[:PORT][/SOCKET], or [NAME=]local for this machine's own service; and the
 * URI names of certificates. Pure.
 */
#ifndef PFL_CONSUMER_HOST_SPEC_H
#define PFL_CONSUMER_HOST_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define PFL_HOST_NAME_MAX 128
#define PFL_HOST_PORT     "9910" /* of relays, where none is given */

enum pfl_host_kind {
    PFL_HOST_UNIX,
    PFL_HOST_TLS,
    PFL_HOST_SSH,    /* reached by ssh; once the forward is up it is PFL_HOST_UNIX */
    PFL_HOST_TUNNEL, /* behind the relay in the connection's conf */
};

struct pfl_host_spec {
    enum pfl_host_kind kind;
    bool is_named;                    /* NAME= was given: the certificate must agree */
    char name[PFL_HOST_NAME_MAX];     /* NAME, else "" */
    char address[256];                /* socket path, or host name / numeric address */
    char port[8];                     /* TLS, and ssh where one is given */
    char socket[108];                 /* ssh only: the socket's path over there */
    char text[PFL_HOST_NAME_MAX * 4]; /* its title in messages: the address as given */
};

/* PFL_EINVAL with `ret_why` (room for why_len): the error and the remedy. */
PFL_MUST_USE int pfl_host_spec_parse(const char *arg, struct pfl_host_spec *ret_spec, char *ret_why,
                                     size_t why_len);

/* Letters, digits, dot, dash and underscore; 1 to PFL_HOST_NAME_MAX - 1 of them. */
bool pfl_host_is_name(const char *str);
/* An address, not a name: of one of the forms above, valid or not. */
bool pfl_host_is_address(const char *str);
/* The host called `name` behind a relay. */
void pfl_host_spec_set_tunnel(struct pfl_host_spec *self, const char *name);

/* Splits perfleet://FLEET/ROLE/NAME; false if `uri` is not of that form or a part is too long. Each
 * out has room for PFL_HOST_NAME_MAX. */
bool pfl_host_uri_parse(const char *uri, char *ret_fleet, char *ret_role, char *ret_name);

#endif
