/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A form's fields: see form.h. Happy path: one copy of the text, in which names and values are
 * decoded where they stand, as decoding never makes them longer. Failures: an escape that is none.
 * Limits: PFL_FORM_MAX_FIELDS; the caller bounds the text.
 */
#include "consumer/http/form.h"

#include "base/mem.h"

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place; false: a broken escape, or a NUL. */
static bool decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        char c = *from == '+' ? ' ' : *from;

        if (c == '%') {
            int high = hex_of(from[1]);
            int low = high >= 0 ? hex_of(from[2]) : -1;

            if (low < 0 || (high | low) == 0)
                return false;
            c = (char)(high * 16 + low);
            from += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

static int take_field(struct pfl_form *form, char *text)
{
    char *value = strchr(text, '=');

    if (*text == '\0')
        return 0;
    if (form->len == PFL_FORM_MAX_FIELDS)
        return PFL_ELIMIT;
    if (value != NULL)
        *value++ = '\0';
    else
        value = text + strlen(text);
    if (!decode(text) || !decode(value))
        return PFL_EPARSE;
    form->fields[form->len++] = (struct pfl_form_field){text, value};
    return 0;
}

int pfl_form_parse(struct pfl_span text, struct pfl_form *ret_form)
{
    char *copy;
    char *at;
    int rc = 0;

    ret_form->len = 0;
    ret_form->text = NULL;
    if (text.len != 0 && memchr(text.data, '\0', text.len) != NULL)
        return PFL_EPARSE;
    copy = pfl_mem_strndup(text.len != 0 ? (const char *)text.data : "", text.len);
    if (copy == NULL)
        return PFL_ENOMEM;
    for (at = copy; rc == 0 && at != NULL;) {
        char *field = at;

        at = strchr(at, '&');
        if (at != NULL)
            *at++ = '\0';
        rc = take_field(ret_form, field);
    }
    if (rc != 0) {
        pfl_mem_free(copy);
        ret_form->len = 0;
        return rc;
    }
    ret_form->text = copy;
    return 0;
}

void pfl_form_fini(struct pfl_form *self)
{
    pfl_mem_free(self->text);
    self->text = NULL;
    self->len = 0;
}

const char *pfl_form_get(const struct pfl_form *self, const char *name)
{
    for (size_t i = 0; i < self->len; i++)
        if (strcmp(self->fields[i].name, name) == 0)
            return self->fields[i].value;
    return "";
}

bool pfl_form_has(const struct pfl_form *self, const char *name)
{
    for (size_t i = 0; i < self->len; i++)
        if (strcmp(self->fields[i].name, name) == 0)
            return true;
    return false;
}
