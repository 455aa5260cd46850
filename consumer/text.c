/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and JSON for the operator. Failures: out of memory, and a report that exceeds its buffer's
 * maximum. Limits: a line has at most PFL_TEXT_LINE_MAX_BYTES.
 */
#include "consumer/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/tunnel/identity.h"

int pfl_text_add(struct pfl_buf *out, const char *fmt, ...)
{
    char line[PFL_TEXT_LINE_MAX_BYTES];
    va_list ap;
    int len;

    va_start(ap, fmt);
    len = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (len < 0)
        return PFL_EINVAL;
    return pfl_buf_append(out, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

void pfl_text_init_json(void)
{
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
}

json_t *pfl_text_json_peer(const char *str)
{
    json_t *j = json_string(str != NULL ? str : "");

    return j != NULL ? j : json_string(pfl_log_quote_str(str));
}

json_t *pfl_text_json_outcome(const char *name, const char *why)
{
    json_t *o = json_object();

    json_object_set_new(o, "name", pfl_text_json_peer(name));
    if (why[0] != '\0')
        json_object_set_new(o, "error", pfl_text_json_peer(why));
    return o;
}

void pfl_text_json_number(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

/* Characters that change how a terminal or a page shows the text around them, as ranges of code
 * points: DEL and C1 controls, marks and overrides of the direction, invisible ones, separators. */
static const struct {
    unsigned first;
    unsigned last;
} hidden[] = {{0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},  {0x200b, 0x200f},
              {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}};

/* The code point at `at`, of at most three bytes of good UTF-8; 0 for longer ones. */
static unsigned code_point_at(const unsigned char *at, size_t left, size_t *ret_len)
{
    *ret_len = 1;
    if (at[0] < 0x80)
        return at[0];
    if (at[0] >= 0xc0 && at[0] < 0xe0 && left >= 2) {
        *ret_len = 2;
        return (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
    }
    if (at[0] >= 0xe0 && at[0] < 0xf0 && left >= 3) {
        *ret_len = 3;
        return (at[0] & 0x0fu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    }
    return 0;
}

static bool is_hidden(unsigned code_point)
{
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (code_point >= hidden[i].first && code_point <= hidden[i].last)
            return true;
    return false;
}

/* A dump. Jansson continues when a key could not be written: a failure stays. */
struct dump {
    struct pfl_buf *out;
    int rc;
};

static int add(struct dump *d, const void *bytes, size_t len)
{
    if (d->rc == 0)
        d->rc = pfl_buf_append(d->out, bytes, len);
    return d->rc == 0 ? 0 : -1;
}

/* Called with whole characters. A hidden one is escaped, which is the same in JSON. */
static int append(const char *bytes, size_t len, void *dump)
{
    size_t begin = 0;

    for (size_t at = 0, width = 1; at < len; at += width) {
        unsigned code_point = code_point_at((const unsigned char *)bytes + at, len - at, &width);
        char escape[8];

        if (!is_hidden(code_point))
            continue;
        (void)snprintf(escape, sizeof(escape), "\\u%04X", code_point & 0xffffu);
        if (add(dump, bytes + begin, at - begin) != 0 || add(dump, escape, strlen(escape)) != 0)
            return -1;
        begin = at + width;
    }
    return add(dump, bytes + begin, len - begin);
}

static bool is_path(const char *name)
{
    return name[0] == '/' || strncmp(name, "./", 2) == 0 || strncmp(name, "../", 3) == 0;
}

const char *pfl_text_name(const char *name)
{
    return name != NULL && pfl_identity_is_name(name) ? name : pfl_log_quote_str(name);
}

const char *pfl_text_short_name(const char *name)
{
    const char *options = strstr(name, " -");
    const char *end = options != NULL ? options : name + strlen(name);
    const char *begin = end;

    if (!is_path(name))
        return pfl_log_quote_str(name);
    while (begin > name && begin[-1] != '/')
        begin--;
    return begin != end ? pfl_log_quote(begin, (size_t)(end - begin)) : pfl_log_quote_str(name);
}

static int dump(json_t *json, size_t flags, struct pfl_buf *out)
{
    struct dump d = {.out = out};
    size_t before = out->len;
    bool is_whole = json != NULL && json_dump_callback(json, append, &d, flags) == 0;

    json_decref(json);
    if (is_whole)
        (void)add(&d, "\n", 1);
    if (is_whole && d.rc == 0)
        return 0;
    out->len = before;
    return d.rc != 0 ? d.rc : PFL_ENOMEM;
}

int pfl_text_dump_json(json_t *json, struct pfl_buf *out)
{
    return dump(json, JSON_INDENT(2), out);
}

int pfl_text_dump_json_line(json_t *json, struct pfl_buf *out)
{
    return dump(json, 0, out);
}
