/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of one config: see pattern_set.h. A walk over the set finds one; configs have
 * a few. Failures leave the set as it was, but for the work that they were.
 */
#include "service/output/pattern_set.h"

#include <stdio.h>
#include <string.h>

static int refuse(char *why, const char *what)
{
    (void)snprintf(why, PFL_PATTERN_WHY_BYTES, "%s", what);
    return PFL_EPARSE;
}

int pfl_pattern_set_get(struct pfl_pattern_set *self, struct pfl_span text,
                        struct pfl_pattern **ret_pattern, char ret_why[PFL_PATTERN_WHY_BYTES])
{
    struct pfl_pattern *pattern;
    size_t bytes;
    int rc;

    for (size_t i = 0; i < self->len; i++) {
        *ret_pattern = self->patterns[i];
        if (pfl_span_eq(self->texts[i], text))
            return 0;
    }
    if (self->len == PFL_PATTERN_SET_MAX)
        return refuse(ret_why, "the config has more than 128 different ones");
    if (pfl_pattern_get_work(text) > PFL_PATTERN_MAX_WORK - self->work)
        return refuse(ret_why, PFL_PATTERN_TOO_MUCH_WORK);
    self->work += pfl_pattern_get_work(text);
    rc = pfl_pattern_new_counted(text, &pattern, ret_why);
    if (rc != 0)
        return rc;
    bytes = pfl_pattern_get_bytes(pattern);
    if (bytes > PFL_PATTERN_SET_MAX_BYTES - self->bytes) {
        pfl_pattern_free(pattern);
        return refuse(ret_why, "all those of the config together are too large");
    }
    self->patterns[self->len] = pattern;
    self->texts[self->len++] = text;
    self->bytes += bytes;
    *ret_pattern = pattern;
    return 0;
}

void pfl_pattern_set_fini(struct pfl_pattern_set *self)
{
    for (size_t i = 0; i < self->len; i++)
        pfl_pattern_free(self->patterns[i]);
    *self = (struct pfl_pattern_set){0};
}
