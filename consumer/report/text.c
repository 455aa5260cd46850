/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and JSON for the operator. Failures: out of memory, and a report that passes its buffer's
 * maximum. Limits: a line has at most PFL_TEXT_LINE_MAX_BYTES.
 */
#include "consumer/report/text.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

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

static int append(const char *bytes, size_t len, void *out)
{
    return pfl_buf_append(out, bytes, len) == 0 ? 0 : -1;
}

int pfl_text_dump_json(json_t *json, struct pfl_buf *out)
{
    size_t before = out->len;
    int rc =
        json == NULL || json_dump_callback(json, append, out, JSON_INDENT(2)) != 0 ? PFL_ENOMEM : 0;

    json_decref(json);
    if (rc == 0)
        rc = pfl_buf_append(out, "\n", 1);
    if (rc != 0)
        out->len = before;
    return rc;
}
