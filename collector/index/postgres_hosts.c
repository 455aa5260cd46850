/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of libpq: items between commas. A list of one item counts for all hosts, and stays as it
 * is. Failures: out of memory. Owns the lists. Limits: those of the connection string.
 */
#include "collector/index/postgres_hosts.h"

#include <string.h>

#include "base/mem.h"

static size_t count_items(const char *list)
{
    size_t len = 1;

    for (; *list != '\0'; list++)
        len += *list == ',';
    return len;
}

int pfl_postgres_hosts_read(struct pfl_postgres_hosts *self, PGconn *conn)
{
    static const char *const keywords[] = {"host", "hostaddr", "port"};
    PQconninfoOption *options = PQconninfo(conn);
    int rc = options != NULL ? 0 : PFL_ENOMEM;

    for (const PQconninfoOption *o = options; rc == 0 && o->keyword != NULL; o++) {
        for (size_t i = 0; rc == 0 && i < 3; i++) {
            if (o->val == NULL || o->val[0] == '\0' || strcmp(o->keyword, keywords[i]) != 0)
                continue;
            self->lists[i] = pfl_mem_strdup(o->val);
            if (self->lists[i] == NULL)
                rc = PFL_ENOMEM;
            else if (count_items(o->val) > self->len)
                self->len = count_items(o->val);
        }
    }
    PQconninfoFree(options);
    return rc;
}

void pfl_postgres_hosts_fini(struct pfl_postgres_hosts *self)
{
    for (size_t i = 0; i < 3; i++)
        pfl_mem_free(self->lists[i]);
    *self = (struct pfl_postgres_hosts){.len = 0};
}

static void reverse(char *text, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        char c = text[i];

        text[i] = text[len - 1 - i];
        text[len - 1 - i] = c;
    }
}

/* "a,bc,d" -> "d,cb,a" -> "bc,d,a": all reversed, then what was behind the comma, then the rest. */
static void rotate(char *list)
{
    const char *comma = list != NULL ? strchr(list, ',') : NULL;
    size_t first;
    size_t len;

    if (comma == NULL)
        return;
    first = (size_t)(comma - list);
    len = strlen(list);
    reverse(list, len);
    reverse(list, len - first - 1);
    reverse(list + len - first, first);
}

void pfl_postgres_hosts_rotate(struct pfl_postgres_hosts *self)
{
    for (size_t i = 0; i < 3; i++)
        rotate(self->lists[i]);
}
