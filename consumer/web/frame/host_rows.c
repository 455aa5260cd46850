/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts that the pages show: see host_rows.h.
 *
 * Happy path: a new inventory becomes rows in its order (by name); facts move over from the old
 * rows, which are in the same order, so both are walked once. A search looks at every row: names
 * first, then labels. Failures: no memory; then the old rows stay. Ownership: the list owns the
 * inventory, the rows and their facts. Limits: those of an inventory; facts exist only for hosts
 * that were on a page.
 */
#include "consumer/web/frame/host_rows.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

struct row {
    size_t at;                    /* in the inventory, or in the specs */
    struct pfl_host_facts *facts; /* owned; NULL: not known */
};

struct pfl_host_rows {
    struct pfl_host_rows_conf conf;
    struct pfl_inventory *inventory;   /* owned; NULL: none */
    const struct pfl_host_spec *specs; /* borrowed; NULL: none */
    struct row *rows;                  /* owned */
    size_t len;
};

int pfl_host_rows_new(const struct pfl_host_rows_conf *conf, struct pfl_host_rows **ret_list)
{
    struct pfl_host_rows *l = pfl_mem_zalloc(sizeof(*l));

    if (l == NULL)
        return PFL_ENOMEM;
    l->conf = *conf;
    *ret_list = l;
    return 0;
}

static void free_rows(struct row *rows, size_t len)
{
    for (size_t i = 0; i < len; i++)
        pfl_mem_free(rows[i].facts);
    pfl_mem_free(rows);
}

void pfl_host_rows_free(struct pfl_host_rows *self)
{
    if (self == NULL)
        return;
    free_rows(self->rows, self->len);
    pfl_inventory_free(self->inventory);
    pfl_mem_free(self);
}

/* ---- rows ---- */

static bool is_named(const struct pfl_host_rows *l, const char *name)
{
    for (size_t i = 0; i < l->conf.names_len; i++)
        if (strcmp(l->conf.names[i], name) == 0)
            return true;
    return false;
}

static bool is_wanted(const struct pfl_host_rows *l, const struct pfl_inventory_host *host)
{
    if (l->conf.names_len == 0 && l->conf.selection == NULL)
        return true;
    return is_named(l, host->name) ||
           (l->conf.selection != NULL && pfl_inventory_is_selected(host, l->conf.selection));
}

static const char *name_of(const struct pfl_host_rows *l, const struct row *row)
{
    struct pfl_inventory_host host;

    if (l->specs != NULL)
        return l->specs[row->at].name[0] != '\0' ? l->specs[row->at].name : l->specs[row->at].text;
    pfl_inventory_get_host(l->inventory, row->at, &host);
    return host.name;
}

/* Moves facts from the old rows, which are sorted as the new ones. */
static void take_facts(struct pfl_host_rows *l, const struct pfl_host_rows *fresh)
{
    size_t old = 0;

    for (size_t i = 0; i < fresh->len && old < l->len; i++) {
        const char *name = name_of(fresh, &fresh->rows[i]);

        while (old < l->len && strverscmp(name_of(l, &l->rows[old]), name) < 0)
            old++;
        if (old == l->len || strcmp(name_of(l, &l->rows[old]), name) != 0)
            continue;
        fresh->rows[i].facts = l->rows[old].facts;
        l->rows[old].facts = NULL;
    }
}

int pfl_host_rows_give_inventory(struct pfl_host_rows *self, struct pfl_inventory *inventory)
{
    size_t all = pfl_inventory_get_len(inventory);
    struct pfl_host_rows fresh = {.conf = self->conf, .inventory = inventory};
    struct pfl_inventory_host host;

    fresh.rows = pfl_mem_calloc(all + 1, sizeof(*fresh.rows));
    if (fresh.rows == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < all; i++) {
        pfl_inventory_get_host(inventory, i, &host);
        if (is_wanted(self, &host))
            fresh.rows[fresh.len++].at = i;
    }
    take_facts(self, &fresh);
    free_rows(self->rows, self->len);
    pfl_inventory_free(self->inventory);
    *self = fresh;
    return 0;
}

int pfl_host_rows_set_specs(struct pfl_host_rows *self, const struct pfl_host_spec *specs,
                            size_t len)
{
    self->rows = pfl_mem_calloc(len + 1, sizeof(*self->rows));
    if (self->rows == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < len; i++)
        self->rows[i].at = i;
    self->specs = specs;
    self->len = len;
    return 0;
}

void pfl_host_rows_get_row(const struct pfl_host_rows *self, size_t row,
                           struct pfl_host_row *ret_row)
{
    const struct row *r = &self->rows[row];

    *ret_row = (struct pfl_host_row){.facts = r->facts};
    ret_row->name = name_of(self, r);
    ret_row->title = ret_row->name;
    if (self->specs != NULL) {
        ret_row->spec = &self->specs[r->at];
        return;
    }
    ret_row->has_relay = true;
    pfl_inventory_get_host(self->inventory, r->at, &ret_row->relay);
}

size_t pfl_host_rows_get_len(const struct pfl_host_rows *self)
{
    return self->len;
}

/* The rows of a relay's hosts are sorted. */
static size_t find_sorted(const struct pfl_host_rows *l, const char *name)
{
    size_t low = 0;
    size_t high = l->len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strverscmp(name_of(l, &l->rows[middle]), name);

        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

size_t pfl_host_rows_find(const struct pfl_host_rows *self, const char *name)
{
    if (self->specs == NULL)
        return find_sorted(self, name);
    for (size_t i = 0; i < self->len; i++)
        if (strcmp(name_of(self, &self->rows[i]), name) == 0)
            return i;
    return SIZE_MAX;
}

bool pfl_host_rows_is_up(const struct pfl_host_row *row)
{
    if (row->has_relay)
        return row->relay.is_connected;
    return row->facts != NULL && row->facts->why[0] == '\0';
}

void pfl_host_rows_note(struct pfl_host_rows *self, const char *name,
                        const struct pfl_host_facts *facts)
{
    size_t i = pfl_host_rows_find(self, name);

    if (i == SIZE_MAX)
        return;
    if (self->rows[i].facts == NULL)
        self->rows[i].facts = pfl_mem_alloc(sizeof(*facts));
    if (self->rows[i].facts != NULL)
        *self->rows[i].facts = *facts;
}

/* ---- search ---- */

static bool has_word(const char *text, const char *word, size_t len)
{
    for (; *text != '\0'; text++)
        if (strncasecmp(text, word, len) == 0)
            return true;
    return false;
}

static bool has_label(const json_t *labels, const char *word, size_t len)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)labels, name, value)
    {
        char text[160];

        (void)snprintf(text, sizeof(text), "%s=%s", name,
                       json_is_string(value) ? json_string_value(value) : "");
        if (has_word(text, word, len))
            return true;
    }
    return false;
}

static bool has_fact(const struct pfl_host_row *row, const char *word, size_t len)
{
    if (row->facts != NULL && has_word(row->facts->service, word, len))
        return true;
    if (!row->has_relay)
        return has_word(row->spec->text, word, len);
    return has_word(row->relay.version, word, len) || has_word(row->relay.address, word, len) ||
           has_label(json_object_get(row->relay.entry, "labels"), word, len);
}

static bool is_match(const struct pfl_host_row *row, const char *search)
{
    search += strspn(search, " ");
    while (*search != '\0') {
        size_t len = strcspn(search, " ");

        if (!has_word(row->name, search, len) && !has_fact(row, search, len))
            return false;
        search += len;
        search += strspn(search, " ");
    }
    return true;
}

bool pfl_host_rows_is_problem(const struct pfl_host_row *row, int64_t now_s)
{
    const struct pfl_host_facts *f = row->facts;

    if (f != NULL && (f->why[0] != '\0' || f->lost != 0))
        return true;
    if (!row->has_relay)
        return false;
    return !row->relay.is_connected ||
           (row->relay.has_clock && row->relay.error_ns > PFL_HOST_ROWS_CLOCK_NS) ||
           (row->relay.certificate_end_s != 0 &&
            row->relay.certificate_end_s - now_s < PFL_HOST_ROWS_CERT_S);
}

static bool is_in_state(const struct pfl_host_row *row, bool is_up,
                        const struct pfl_host_rows_query *query)
{
    switch (query->state) {
    case PFL_HOST_ROWS_UP:
        return is_up;
    case PFL_HOST_ROWS_AWAY:
        return !is_up;
    case PFL_HOST_ROWS_PROBLEM:
        return pfl_host_rows_is_problem(row, query->now_s);
    default:
        return true;
    }
}

static void search_from(const struct pfl_host_rows *l, const struct pfl_host_rows_query *query,
                        struct pfl_host_rows_view *view)
{
    for (size_t i = 0; i < l->len; i++) {
        struct pfl_host_row row;
        bool is_up;

        pfl_host_rows_get_row(l, i, &row);
        is_up = pfl_host_rows_is_up(&row);
        view->up += is_up;
        if (!is_in_state(&row, is_up, query) || !is_match(&row, query->search))
            continue;
        if (view->found >= view->first && view->rows_len < PFL_HOST_ROWS_PAGE)
            view->rows[view->rows_len++] = i;
        view->found++;
    }
}

void pfl_host_rows_search(const struct pfl_host_rows *self, const struct pfl_host_rows_query *query,
                          struct pfl_host_rows_view *ret_view)
{
    size_t limit = self->len / PFL_HOST_ROWS_PAGE; /* the last page there can be */
    size_t found;

    *ret_view = (struct pfl_host_rows_view){.all = self->len};
    ret_view->first = (query->page < limit ? query->page : limit) * PFL_HOST_ROWS_PAGE;
    search_from(self, query, ret_view);
    found = ret_view->found;
    if (ret_view->rows_len != 0 || found == 0)
        return;
    *ret_view = (struct pfl_host_rows_view){.all = self->len};
    ret_view->first = (found - 1) / PFL_HOST_ROWS_PAGE * PFL_HOST_ROWS_PAGE;
    search_from(self, query, ret_view);
}
