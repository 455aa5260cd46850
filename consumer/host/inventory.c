/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a relay's inventory and applies selections to it. Happy path: parse the JSON, look the
 * values of each host up once; entries without a valid name are left out, and so are labels and
 * addresses that are no plain text; the others are sorted by name, numbers by value. Failures: not
 * JSON, or JSON of another shape. Limits: PFL_INVENTORY_MAX_HOSTS and MAX_VALUES (which are counted
 * before, as each takes some 200 bytes), jansson's own nesting limit. Ownership: the JSON, in which
 * the hosts' texts are.
 */
#include "consumer/host/inventory.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/text.h"

#define TERM_MAX 256u

struct pfl_inventory {
    json_t *root;                      /* owned */
    struct pfl_inventory_host *parsed; /* owned; the entries with good names, sorted by them */
    size_t len;
};

static bool is_usable(const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));

    return name != NULL && pfl_host_is_name(name);
}

/* Text for a terminal: printable, without blanks. */
static bool is_plain(const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~')
            return false;
    }
    return true;
}

/* A relay sends no other labels and addresses, unless it lies. */
static void drop_odd_texts(json_t *entry)
{
    json_t *labels = json_object_get(entry, "labels");
    const char *name;
    json_t *value;
    void *next;

    json_object_foreach_safe(labels, next, name, value)
    {
        if (!is_plain(name) || !is_plain(json_string_value(value)))
            (void)json_object_del(labels, name);
    }
    if (!is_plain(json_string_value(json_object_get(entry, "address"))))
        (void)json_object_del(entry, "address");
}

static int compare_names(const void *a, const void *b)
{
    const struct pfl_inventory_host *x = a;
    const struct pfl_inventory_host *y = b;

    return strverscmp(x->name, y->name);
}

/* At most: each value is behind one of these. */
static size_t count_values(struct pfl_span json)
{
    bool is_in_text = false;
    size_t count = 0;

    for (size_t i = 0; i < json.len; i++) {
        uint8_t c = json.data[i];

        if (c == '"')
            is_in_text = !is_in_text;
        else if (is_in_text)
            i += c == '\\';
        else
            count += c == ',' || c == '[' || c == '{';
    }
    return count;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static void parse_host(const json_t *entry, struct pfl_inventory_host *ret_host)
{
    const json_t *clock = json_object_get(entry, "clock");
    json_int_t streams = json_integer_value(json_object_get(entry, "streams"));
    json_int_t end_s = json_integer_value(json_object_get(entry, "certificate_end_s"));

    *ret_host = (struct pfl_inventory_host){
        .name = text_of(entry, "name"),
        .address = text_of(entry, "address"),
        .version = text_of(entry, "version"),
        .tls = text_of(entry, "tls"),
        .last_seen_s = json_number_value(json_object_get(entry, "last_seen_s")),
        .streams = streams > 0 ? (uint64_t)streams : 0,
        .is_connected = json_is_true(json_object_get(entry, "is_connected")),
        .has_clock = json_is_integer(json_object_get(clock, "offset_ns")) &&
                     json_is_integer(json_object_get(clock, "error_ns")),
        .offset_ns = json_integer_value(json_object_get(clock, "offset_ns")),
        .error_ns = json_integer_value(json_object_get(clock, "error_ns")),
        .certificate_end_s = end_s > 0 ? end_s : 0, /* times are subtracted from it */
        .entry = entry,
    };
}

static int keep_usable(struct pfl_inventory *v, const json_t *list)
{
    size_t len = json_array_size(list);

    v->parsed = pfl_mem_calloc(len + 1, sizeof(*v->parsed));
    if (v->parsed == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < len; i++) {
        json_t *entry = json_array_get(list, i);

        if (!is_usable(entry))
            continue;
        drop_odd_texts(entry);
        parse_host(entry, &v->parsed[v->len++]);
    }
    qsort(v->parsed, v->len, sizeof(*v->parsed), compare_names);
    return 0;
}

int pfl_inventory_parse(struct pfl_span body, struct pfl_inventory **ret_inventory)
{
    struct pfl_inventory *v;
    const json_t *list;
    int rc;

    if (count_values(body) > PFL_INVENTORY_MAX_VALUES)
        return PFL_EPARSE;
    v = pfl_mem_zalloc(sizeof(*v));
    if (v == NULL)
        return PFL_ENOMEM;
    pfl_text_init_json();
    v->root = json_loadb((const char *)body.data, body.len, 0, NULL);
    list = json_object_get(v->root, "hosts");
    if (!json_is_array(list) || json_array_size(list) > PFL_INVENTORY_MAX_HOSTS) {
        pfl_inventory_free(v);
        return PFL_EPARSE;
    }
    rc = keep_usable(v, list);
    if (rc != 0) {
        pfl_inventory_free(v);
        return rc;
    }
    *ret_inventory = v;
    return 0;
}

void pfl_inventory_free(struct pfl_inventory *self)
{
    if (self == NULL)
        return;
    pfl_mem_free(self->parsed);
    json_decref(self->root);
    pfl_mem_free(self);
}

size_t pfl_inventory_get_len(const struct pfl_inventory *self)
{
    return self->len;
}

void pfl_inventory_get_host(const struct pfl_inventory *self, size_t host,
                            struct pfl_inventory_host *ret_host)
{
    *ret_host = self->parsed[host];
}

bool pfl_inventory_has_left(const struct pfl_inventory_host *host)
{
    return !host->is_connected && host->last_seen_s > PFL_INVENTORY_LEFT_S;
}

size_t pfl_inventory_find(const struct pfl_inventory *self, const char *name)
{
    for (size_t i = 0; i < self->len; i++)
        if (strcmp(self->parsed[i].name, name) == 0)
            return i;
    return SIZE_MAX;
}

/* One term of a selection, taken apart. */
struct term {
    char label[TERM_MAX];
    char value[TERM_MAX];
    bool is_negated;
    bool has_value;
};

/* The term at `*at`, which moves on behind it; false: it is none. */
static bool take_term(const char **at, struct term *ret_term)
{
    size_t len = strcspn(*at, ",");
    struct term t = {.is_negated = **at == '!'};
    const char *begin = *at + t.is_negated;
    size_t label = strcspn(begin, "=!,");
    const char *rest = begin + label;

    if (len >= TERM_MAX || label == 0)
        return false;
    memcpy(t.label, begin, label);
    if (*rest == '!' && !t.is_negated) {
        t.is_negated = true;
        rest++;
        if (*rest != '=')
            return false;
    }
    t.has_value = *rest == '=';
    if (t.has_value)
        memcpy(t.value, rest + 1, (size_t)(*at + len - rest) - 1);
    if ((t.has_value && begin != *at) || (!t.has_value && rest != *at + len))
        return false;
    *at += len + ((*at)[len] == ',');
    *ret_term = t;
    return true;
}

static bool holds(const struct pfl_inventory_host *host, const struct term *t)
{
    const char *value =
        strcmp(t->label, "name") == 0
            ? host->name
            : json_string_value(json_object_get(json_object_get(host->entry, "labels"), t->label));
    bool is_so = value != NULL && (!t->has_value || fnmatch(t->value, value, 0) == 0);

    return is_so != t->is_negated;
}

bool pfl_inventory_is_selected(const struct pfl_inventory_host *host, const char *selection)
{
    const char *at = strcmp(selection, "*") == 0 ? "" : selection;
    struct term t;

    while (*at != '\0')
        if (!take_term(&at, &t) || !holds(host, &t))
            return false;
    return true;
}

int pfl_selection_check(const char *selection, char *ret_why, size_t why_len)
{
    const char *at = strcmp(selection, "*") == 0 ? "" : selection;
    struct term t;
    bool is_good = strlen(selection) < PFL_SELECTOR_MAX_BYTES;

    while (is_good && *at != '\0')
        is_good = take_term(&at, &t);
    if (is_good)
        return 0;
    snprintf(ret_why, why_len,
             "%s: give label=value, label!=value, label or !label, with commas between them "
             "(role=web,zone!=b); values may have * and ?",
             pfl_log_quote_str(at));
    return PFL_EINVAL;
}
