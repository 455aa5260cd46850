/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of objects: see store_key.h. Pure. Failures: a key that is malformed or too long. Limits:
 * PFL_STORE_KEY_BYTES, PFL_STORE_KEY_LEVELS, PFL_STORE_NAME_BYTES; the hours of a host's keys.
 */
#include "collector/store/store_key.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/ulid.h"

#define MS_PER_S  1000u
#define NS_PER_MS UINT64_C(1000000)

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != 0 && strchr("._~=+@-", c) != NULL);
}

/* The length of the name that begins here; 0: it is none. */
static size_t measure_name(const char *name)
{
    size_t len = 0;

    if (name[0] == '.')
        return 0;
    while (is_plain((unsigned char)name[len]) || name[len] == '%')
        len++;
    return len < PFL_STORE_NAME_BYTES ? len : 0;
}

bool pfl_store_is_key(const char *key)
{
    const char *pos = key;

    if (strnlen(key, PFL_STORE_KEY_BYTES) == PFL_STORE_KEY_BYTES)
        return false;
    for (unsigned level = 0; level < PFL_STORE_KEY_LEVELS; level++) {
        size_t len = measure_name(pos);

        if (len == 0)
            return false;
        pos += len;
        if (*pos == '\0')
            return true;
        if (*pos++ != '/')
            return false;
    }
    return false;
}

bool pfl_store_is_prefix(const char *prefix)
{
    char key[PFL_STORE_KEY_BYTES];

    if (prefix[0] == '\0')
        return true;
    if (snprintf(key, sizeof(key), "%sx", prefix) >= (int)sizeof(key))
        return false;
    return pfl_store_is_key(key);
}

int pfl_store_escape(const char *name, char *dst, size_t room)
{
    /* A name that is too long keeps this much, then "~" and 64 bits of its hash. */
    const size_t keep = PFL_STORE_NAME_BYTES - 1 - 17 - 3;
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t at = 0;
    size_t kept = 0;

    if (room < PFL_STORE_NAME_BYTES)
        return PFL_ELIMIT;
    if (name[0] == '\0')
        at += (size_t)snprintf(dst, room, "%%");
    for (const unsigned char *c = (const unsigned char *)name; *c != 0; c++) {
        bool is_first_dot = at == 0 && *c == '.';

        hash = (hash ^ *c) * UINT64_C(1099511628211);
        if (at < keep)
            kept = at;
        if (at + 3 < PFL_STORE_NAME_BYTES)
            at +=
                (size_t)snprintf(dst + at, room - at,
                                 is_plain(*c) && *c != '~' && !is_first_dot ? "%c" : "%%%02X", *c);
        else
            at = PFL_STORE_NAME_BYTES;
    }
    if (at >= PFL_STORE_NAME_BYTES)
        at = kept + (size_t)snprintf(dst + kept, room - kept, "~%016llx", (unsigned long long)hash);
    dst[at] = '\0';
    return 0;
}

/* A host whose clock says anything has no folders without end. */
static uint64_t get_moment(const struct pfl_store_key_parts *parts)
{
    uint64_t id_ms = pfl_ulid_get_ms(parts->id);
    uint64_t host_ms = parts->unix_ns / NS_PER_MS;
    bool is_near = host_ms < id_ms ? id_ms - host_ms <= PFL_STORE_KEY_BEFORE_NS / NS_PER_MS
                                   : host_ms - id_ms <= PFL_STORE_KEY_AFTER_NS / NS_PER_MS;

    return is_near ? host_ms : id_ms;
}

int pfl_store_key_make(const struct pfl_store_key_parts *parts, char ret_key[PFL_STORE_KEY_BYTES])
{
    char fleet[PFL_STORE_NAME_BYTES];
    char host[PFL_STORE_NAME_BYTES];
    time_t seconds;
    struct tm tm;
    int len;

    if (!pfl_ulid_is_valid(parts->id))
        return PFL_ELIMIT;
    seconds = (time_t)(get_moment(parts) / MS_PER_S);
    if (pfl_store_escape(parts->fleet, fleet, sizeof(fleet)) != 0 ||
        pfl_store_escape(parts->host, host, sizeof(host)) != 0 || gmtime_r(&seconds, &tm) == NULL)
        return PFL_ELIMIT;
    len = snprintf(ret_key, PFL_STORE_KEY_BYTES, "v1/%s/%04d/%02d/%02d/%02d/%s/%s.%s", fleet,
                   tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, host, parts->id,
                   parts->suffix);
    return len < (int)PFL_STORE_KEY_BYTES && pfl_store_is_key(ret_key) ? 0 : PFL_ELIMIT;
}
