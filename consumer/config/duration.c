/* SPDX-License-Identifier: Apache-2.0 */
/* Durations: see duration.h. The only failure is false; no allocation. */
#include "consumer/config/duration.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS  (24u * 3600 * 1000)
#define WEEK_MS (7u * DAY_MS)

static bool parse(const char *text, double max_ms, double *ret_ms)
{
    static const struct {
        const char *suffix;
        double ms;
    } units[] = {{"", 1000},     {"ms", 1},      {"s", 1000},    {"m", 60000},
                 {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
    char *end;
    double value = strtod(text, &end);

    if (end == text || !(value > 0) || (*text != '.' && (*text < '0' || *text > '9')))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        double ms = value * units[i].ms;

        if (strcmp(end, units[i].suffix) != 0)
            continue;
        if (ms < 1 || ms > max_ms)
            return false;
        *ret_ms = ms;
        return true;
    }
    return false;
}

bool pfl_duration_parse(const char *text, uint32_t *ret_ms)
{
    double ms;

    if (!parse(text, WEEK_MS, &ms))
        return false;
    *ret_ms = (uint32_t)ms;
    return true;
}

bool pfl_duration_parse_age(const char *text, uint64_t *ret_ms)
{
    double ms;

    if (!parse(text, (double)PFL_DURATION_AGE_DAYS * DAY_MS, &ms))
        return false;
    *ret_ms = (uint64_t)ms;
    return true;
}
