/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tracefs printk_formats and finds text by address.
 *
 *     0xffffffff82a5c0e0 : "machine_suspend"
 *
 * Happy path: count the lines, copy the file, one entry a line, sort, search by halves.
 * Failure: a line of another form is skipped; out of memory leaves an empty table.
 */
#include "agent/probes/kernel_events/printk_formats.h"

#include <stdlib.h>

#include "base/mem.h"

static int compare_entries(const void *a, const void *b)
{
    const struct pfl_printk_entry *x = a;
    const struct pfl_printk_entry *y = b;

    return (x->address > y->address) - (x->address < y->address);
}

static bool parse_line(const char *text, const char *line, const char *end,
                       struct pfl_printk_entry *ret_entry)
{
    char *after = NULL;
    const char *open;
    const char *close = end;

    ret_entry->address = strtoull(line, &after, 16);
    /* The number of a blank line would be the next line's. */
    if (after == line || after > end || ret_entry->address == 0)
        return false;
    open = memchr(after, '"', (size_t)(end - after));
    if (open == NULL)
        return false;
    while (close > open && *close != '"')
        close--;
    if (close == open)
        return false;
    ret_entry->offset = (uint32_t)(open + 1 - text);
    ret_entry->len = (uint32_t)(close - open - 1);
    return true;
}

int pfl_printk_formats_init(struct pfl_printk_formats *self, struct pfl_span file)
{
    size_t lines = 1;
    const char *end;

    memset(self, 0, sizeof(*self));
    if (file.len > UINT32_MAX)
        return PFL_ELIMIT;
    for (size_t i = 0; i < file.len; i++)
        lines += file.data[i] == '\n';
    self->text = pfl_mem_strndup(file.len != 0 ? (const char *)file.data : "", file.len);
    self->entries = pfl_mem_calloc(lines, sizeof(*self->entries));
    if (self->text == NULL || self->entries == NULL) {
        pfl_printk_formats_fini(self);
        return PFL_ENOMEM;
    }
    for (const char *line = self->text; *line != '\0'; line = *end != '\0' ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        if (parse_line(self->text, line, end, &self->entries[self->count]))
            self->count++;
    }
    qsort(self->entries, self->count, sizeof(*self->entries), compare_entries);
    return 0;
}

void pfl_printk_formats_fini(struct pfl_printk_formats *self)
{
    pfl_mem_free(self->text);
    pfl_mem_free(self->entries);
    memset(self, 0, sizeof(*self));
}

struct pfl_span pfl_printk_formats_find(const struct pfl_printk_formats *self, uint64_t address)
{
    struct pfl_printk_entry key = {.address = address};
    const struct pfl_printk_entry *found;

    if (self->count == 0)
        return pfl_span_of(NULL, 0);
    found = bsearch(&key, self->entries, self->count, sizeof(key), compare_entries);
    if (found == NULL)
        return pfl_span_of(NULL, 0);
    return pfl_span_of(self->text + found->offset, found->len);
}
