/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page's address: see page_address.h. Letters, digits and "-._~" stand for themselves, and all
 * other bytes are %XX: no value ends a line, or the address. A parameter is added whole or not.
 */
#include "consumer/web/html/page_address.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void pfl_page_address_begin(struct pfl_page_address *self, const char *path)
{
    self->count = 0;
    self->len = (unsigned)strlen(path);
    (void)snprintf(self->text, sizeof(self->text), "%s", path);
}

static bool add_byte(struct pfl_page_address *a, char c)
{
    bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                    (c != '\0' && strchr("-._~", c) != NULL);
    unsigned len = is_plain ? 1 : 3;

    if (a->len + len >= sizeof(a->text))
        return false;
    (void)snprintf(a->text + a->len, sizeof(a->text) - a->len, is_plain ? "%c" : "%%%02X",
                   (unsigned char)c);
    a->len += len;
    return true;
}

static bool add_all(struct pfl_page_address *a, const char *text)
{
    for (; *text != '\0'; text++)
        if (!add_byte(a, *text))
            return false;
    return true;
}

static bool add_separator(struct pfl_page_address *a, char c)
{
    if (a->len + 1 >= sizeof(a->text))
        return false;
    a->text[a->len++] = c;
    a->text[a->len] = '\0';
    return true;
}

void pfl_page_address_add(struct pfl_page_address *self, const char *name, const char *value)
{
    unsigned len = self->len;

    if (value[0] == '\0')
        return;
    if (add_separator(self, self->count == 0 ? '?' : '&') && add_all(self, name) &&
        add_separator(self, '=') && add_all(self, value)) {
        self->count++;
        return;
    }
    self->len = len;
    self->text[len] = '\0';
}
