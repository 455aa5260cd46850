/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables: see env.h. A number has only digits. */
#include "base/env.h"

#include <errno.h>
#include <stdlib.h>

bool pfl_env_read_number(const char *variable, uint64_t *ret_value)
{
    const char *text = getenv(variable);
    unsigned long long value;
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *ret_value = value;
    return true;
}
