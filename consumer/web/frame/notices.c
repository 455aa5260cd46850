/* SPDX-License-Identifier: Apache-2.0 */
/* Results of changes: see notices.h. The newest take the place of the oldest. */
#include "consumer/web/frame/notices.h"

#include <stdio.h>

unsigned pfl_notices_add(struct pfl_notices *self, const char *text)
{
    unsigned number = ++self->count;

    (void)snprintf(self->text[number % PFL_NOTICES_KEPT], PFL_NOTICES_MAX_BYTES, "%s", text);
    return number;
}

const char *pfl_notices_get(const struct pfl_notices *self, unsigned number)
{
    if (number == 0 || number > self->count || self->count - number >= PFL_NOTICES_KEPT)
        return "";
    return self->text[number % PFL_NOTICES_KEPT];
}
