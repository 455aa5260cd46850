/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role (proto/perfleet/policy.proto): an operator's permissions at a host, as a serialized
 * message that is checked once and queried often; and the header field that carries it. Pure.
 */
#ifndef PFL_PROTO_GATE_ROLE_H
#define PFL_PROTO_GATE_ROLE_H

#include "base/buf.h"
#include "perfleet/policy.fields.h"

/* Serialized, without the relay's own fields: as hex it must fit into a head. */
#define PFL_ROLE_MAX_BYTES   1400u
#define PFL_ROLE_FIELD_BYTES (2 * PFL_ROLE_MAX_BYTES + 1) /* with NUL */
#define PFL_ROLE_PATTERN_MAX 127u

enum {
    PFL_ROLE_LAST_OF_AGENT = ROLE__TRIGGER,
    PFL_ROLE_LAST_OF_RELAY = ROLE__MANAGE_TRACES,
};

/* Each "*" stands for any bytes, or none. */
bool pfl_pattern_matches(struct pfl_span pattern, struct pfl_span name);
/* 1 to PFL_ROLE_PATTERN_MAX printable characters without quotes and backslashes. */
bool pfl_pattern_is_one(struct pfl_span text);

/* NULL: a valid role, including every number and pattern. Else the reason. `is_relays`: with the
 * relay's own fields. */
const char *pfl_role_check(struct pfl_span role_untrusted, bool is_relays);
/* Appends the role without the relay's own fields to `out`. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_role_cut(struct pfl_span role, struct pfl_buf *out);

/* Of a role that was checked. */
struct pfl_span pfl_role_get_name(struct pfl_span role);
void pfl_role_copy_name(struct pfl_span role, char ret_name[PFL_ROLE_PATTERN_MAX + 1]);
uint64_t pfl_role_get_number(struct pfl_span role, uint32_t field); /* 0: none */
bool pfl_role_has(struct pfl_span role, uint32_t field);
bool pfl_role_matches(struct pfl_span role, uint32_t field, struct pfl_span name);
/* The patterns of a field as text: "a, b-*". */
void pfl_role_list(struct pfl_span role, uint32_t field, char *dst, size_t room);

/* Encodes `role`, of at most PFL_ROLE_MAX_BYTES, as the value of a header field; read decodes
 * it. */
void pfl_role_write(struct pfl_span role, char ret_text[PFL_ROLE_FIELD_BYTES]);
/* PFL_EPARSE: no role. PFL_ENOMEM. */
PFL_MUST_USE int pfl_role_read(const char *text_untrusted, struct pfl_buf *out);

#endif
