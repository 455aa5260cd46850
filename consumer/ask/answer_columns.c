/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of columns: see answer_columns.h. A name that is there already gets _2, _3, ...; one that
 * is empty is "column"; bytes that are no ASCII text become _ in a name that is no UTF-8. Failures:
 * out of memory. Owns its names. Limits: those of query_cells.h.
 */
#include "consumer/ask/answer_columns.h"

#include <jansson.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "consumer/ask/query_cells.h"

#define NAME_BYTES (PFL_QUERY_NAME_MAX_BYTES + 16u)

struct pfl_answer_columns {
    char *asked[PFL_QUERY_COLUMNS_MAX];                           /* owned; as they came */
    char *names[PFL_ANSWER_COLUMNS_OURS + PFL_QUERY_COLUMNS_MAX]; /* owned */
    size_t len;
};

static bool has_name(const struct pfl_answer_columns *c, const char *name)
{
    for (size_t i = 0; i < c->len; i++)
        if (strcasecmp(c->names[i], name) == 0)
            return true;
    return false;
}

static void make_utf8(char *name)
{
    json_t *probe = json_string(name); /* NULL: no UTF-8, or no memory: then plain is right, too */

    for (char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f || (probe == NULL && (*at & 0x80) != 0))
            *at = '_';
    json_decref(probe);
}

static int add_name(struct pfl_answer_columns *c, const char *wanted)
{
    char base[NAME_BYTES];
    char name[NAME_BYTES + 16];

    (void)snprintf(base, sizeof(base), "%s", wanted[0] != '\0' ? wanted : "column");
    make_utf8(base);
    (void)snprintf(name, sizeof(name), "%s", base);
    for (unsigned n = 2; has_name(c, name); n++)
        (void)snprintf(name, sizeof(name), "%s_%u", base, n);
    c->names[c->len] = pfl_mem_strdup(name);
    if (c->names[c->len] == NULL)
        return PFL_ENOMEM;
    c->len++;
    return 0;
}

int pfl_answer_columns_new(const struct pfl_span *asked, size_t len,
                           struct pfl_answer_columns **ret_columns)
{
    static const char *const ours[PFL_ANSWER_COLUMNS_OURS] = {"host", "start", "trace"};
    struct pfl_answer_columns *c = pfl_mem_zalloc(sizeof(*c));
    int rc = c != NULL ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < PFL_ANSWER_COLUMNS_OURS; i++)
        rc = add_name(c, ours[i]);
    for (size_t i = 0; rc == 0 && i < len; i++) {
        c->asked[i] = pfl_mem_strndup((const char *)asked[i].data, asked[i].len);
        rc = c->asked[i] != NULL ? add_name(c, c->asked[i]) : PFL_ENOMEM;
    }
    if (rc == 0)
        *ret_columns = c;
    else
        pfl_answer_columns_free(c);
    return rc;
}

void pfl_answer_columns_free(struct pfl_answer_columns *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < PFL_QUERY_COLUMNS_MAX; i++)
        pfl_mem_free(self->asked[i]);
    for (size_t i = 0; i < self->len; i++)
        pfl_mem_free(self->names[i]);
    pfl_mem_free(self);
}

bool pfl_answer_columns_are(const struct pfl_answer_columns *self, const struct pfl_span *asked,
                            size_t len)
{
    if (len + PFL_ANSWER_COLUMNS_OURS != self->len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!pfl_span_is(asked[i], self->asked[i]))
            return false;
    return true;
}

size_t pfl_answer_columns_get_len(const struct pfl_answer_columns *self)
{
    return self->len;
}

const char *pfl_answer_columns_get_name(const struct pfl_answer_columns *self, size_t index)
{
    return self->names[index];
}
