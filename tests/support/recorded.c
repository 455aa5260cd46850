/* SPDX-License-Identifier: Apache-2.0 */
/* See recorded.h. The hash is FNV-1a, of its own: a mutant of base/hash.c must not make it. */
#include "tests/support/recorded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct {
    FILE *lines; /* for PFL_RECORDED; NULL: not wanted */
    uint64_t hash;
    uint64_t random;
    bool is_on;
    bool is_held;
} recorded;

void pfl_record_begin(void)
{
    recorded.hash = UINT64_C(14695981039346656037);
    recorded.random = 1;
    recorded.is_on = true;
    recorded.is_held = false;
    if (recorded.lines == NULL && getenv("PFL_RECORDED") != NULL)
        recorded.lines = tmpfile();
}

uint64_t pfl_pick(uint64_t below)
{
    recorded.random = recorded.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (recorded.random >> 33) % below;
}

static void add(const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i++)
        recorded.hash = (recorded.hash ^ bytes[i]) * UINT64_C(1099511628211);
    if (recorded.lines != NULL)
        (void)fwrite(data, 1, len, recorded.lines);
}

void pfl_record(const char *format, ...)
{
    static char text[65536];
    va_list args;
    int len;

    if (!recorded.is_on || recorded.is_held)
        return;
    va_start(args, format);
    len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_true(len >= 0 && (size_t)len < sizeof(text));
    add(text, (size_t)len);
    add("\n", 1);
}

void pfl_record_hold(bool is_held)
{
    recorded.is_held = is_held;
}

void pfl_record_bytes(const char *what, struct pfl_span bytes)
{
    pfl_record("%s: %zu bytes", what, bytes.len);
    if (recorded.is_on && !recorded.is_held)
        add(bytes.data, bytes.len);
    pfl_record("%s", "");
}

static void write_lines(const char *file, int line)
{
    const char *name = strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file;
    char path[512];
    FILE *out;
    int c;

    (void)snprintf(path, sizeof(path), "%s/%s-%d", getenv("PFL_RECORDED"), name, line);
    out = fopen(path, "wb");
    rewind(recorded.lines);
    while (out != NULL && (c = fgetc(recorded.lines)) != EOF)
        (void)fputc(c, out);
    if (out != NULL)
        (void)fclose(out);
    (void)fclose(recorded.lines);
    recorded.lines = NULL;
}

void pfl_assert_recorded_at(uint64_t hash, const char *file, int line)
{
    recorded.is_on = false;
    if (recorded.lines != NULL)
        write_lines(file, line);
    if (recorded.hash == hash)
        return;
    print_error("%s:%d: other results than recorded, now 0x%016llx; see tests/support/recorded.h\n",
                file, line, (unsigned long long)recorded.hash);
    fail();
}
