/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: see h2_head.h. Fields are copied one after the other; the first that does not fit marks
 * the whole head as too large. A repeated name counts as missing: the tunnel has no lists of
 * fields.
 */
#include "proto/h2/h2_head.h"

#define NUMBER_DIGITS 18u

static size_t put(struct pfl_h2_head *h, struct pfl_span text)
{
    size_t at = h->used;

    if (text.len != 0)
        memcpy(h->bytes + at, text.data, text.len);
    h->bytes[at + text.len] = '\0';
    h->used = at + text.len + 1;
    return at;
}

void pfl_h2_head_add(struct pfl_h2_head *self, struct pfl_span name, struct pfl_span value)
{
    size_t left = sizeof(self->bytes) - self->used;

    self->came_bytes += name.len + value.len;
    if (self->is_over || self->count == PFL_H2_HEAD_FIELDS || name.len >= left ||
        value.len >= left || name.len + value.len + 2 > left) {
        self->is_over = true;
        return;
    }
    self->names[self->count] = (uint16_t)put(self, name);
    self->values[self->count] = (uint16_t)put(self, value);
    self->count++;
}

const char *pfl_h2_head_get(const struct pfl_h2_head *self, const char *name)
{
    const char *value = NULL;

    for (unsigned i = 0; i < self->count; i++) {
        if (strcmp(self->bytes + self->names[i], name) != 0)
            continue;
        if (value != NULL)
            return NULL;
        value = self->bytes + self->values[i];
    }
    return value;
}

static bool parse_number(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t len = strlen(text);

    if (len == 0 || len > NUMBER_DIGITS)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_value = value;
    return true;
}

bool pfl_h2_head_get_number(const struct pfl_h2_head *self, const char *name, uint64_t *ret_value)
{
    const char *text = pfl_h2_head_get(self, name);

    return text != NULL && parse_number(text, ret_value);
}

unsigned pfl_h2_head_get_status(const struct pfl_h2_head *self)
{
    uint64_t status;

    if (!pfl_h2_head_get_number(self, ":status", &status) || status > 999)
        return 0;
    return (unsigned)status;
}
