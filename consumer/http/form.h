/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a form as browsers send them, in a query or a body
 * (application/x-www-form-urlencoded). Pure.
 */
#ifndef PFL_CONSUMER_HTTP_FORM_H
#define PFL_CONSUMER_HTTP_FORM_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_FORM_MAX_FIELDS 256u

struct pfl_form_field {
    const char *name;
    const char *value;
};

struct pfl_form {
    char *text; /* owned: all strings, decoded */
    struct pfl_form_field fields[PFL_FORM_MAX_FIELDS];
    size_t len;
};

/* PFL_EPARSE: a % without two hex digits, or a NUL; PFL_ELIMIT: too many fields; PFL_ENOMEM. On
 * failure nothing needs a fini. */
PFL_MUST_USE int pfl_form_parse(struct pfl_span text, struct pfl_form *ret_form);
void pfl_form_fini(struct pfl_form *self); /* legal on zeroed memory */
/* The first field of that name, decoded: any bytes but NUL; "" if it is missing. */
const char *pfl_form_get(const struct pfl_form *self, const char *name);
/* Is there such a field? */
bool pfl_form_has(const struct pfl_form *self, const char *name);

#endif
