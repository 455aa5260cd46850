/* SPDX-License-Identifier: Apache-2.0 */
/* Moments: see instant.h. The only failure is false; no allocation. */
#include "consumer/config/instant.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "consumer/config/duration.h"

/* `format` as strptime has it; the rest of the text is "" or "Z". */
static bool parse(const char *text, const char *format, struct tm *tm, bool *ret_is_utc)
{
    const char *end = strptime(text, format, tm);

    *ret_is_utc = end != NULL && strcmp(end, "Z") == 0;
    return end != NULL && (*end == '\0' || *ret_is_utc);
}

bool pfl_instant_parse(const char *text, int64_t now_s, uint64_t *ret_unix_ns)
{
    static const char *const formats[] = {
        "%H:%M:%S",       "%H:%M",          "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
    size_t len = strlen(text);
    bool wants_utc = len != 0 && text[len - 1] == 'Z';
    time_t now = (time_t)now_s;
    uint64_t age_ms;

    if (pfl_duration_parse_age(text, &age_ms) && text[strspn(text, "0123456789.")] != '\0') {
        if ((int64_t)(age_ms / 1000) > now_s)
            return false;
        *ret_unix_ns = (uint64_t)now_s * 1000000000 - age_ms * 1000000;
        return true;
    }
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct tm tm = {0};
        bool is_utc;
        time_t at;

        if (formats[i][1] == 'H' &&
            (wants_utc ? gmtime_r(&now, &tm) : localtime_r(&now, &tm)) == NULL)
            return false;
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        tm.tm_isdst = -1;
        if (!parse(text, formats[i], &tm, &is_utc))
            continue;
        at = is_utc ? timegm(&tm) : mktime(&tm);
        if (at < 0)
            return false;
        *ret_unix_ns = (uint64_t)at * 1000000000;
        return true;
    }
    return false;
}
