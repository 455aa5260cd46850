/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of spools: see spool_list.h. Happy path: each entry's fields, then its labels as
 * "name=value". Failures: an entry without a valid name is ignored and counted; a list of more
 * values than a relay sends is not parsed: a byte can be one, which costs 50 bytes and the time for
 * them. Limits: labels of a host; PFL_SPOOL_LIST_VALUES_MAX.
 */
#include "collector/relay/spool_list.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"

#define LABEL_BYTES 256u

struct labels {
    char *list[PFL_SPOOL_LIST_LABELS_MAX];
    char texts[PFL_SPOOL_LIST_LABELS_MAX][LABEL_BYTES];
    size_t len;
};

static void read_labels(json_t *object, struct labels *labels)
{
    const char *name;
    json_t *value;

    labels->len = 0;
    json_object_foreach(object, name, value)
    {
        int len;

        if (!json_is_string(value) || labels->len == PFL_SPOOL_LIST_LABELS_MAX)
            continue;
        len = snprintf(labels->texts[labels->len], LABEL_BYTES, "%s=%s", name,
                       json_string_value(value));
        if (len < 0 || (size_t)len >= LABEL_BYTES)
            continue;
        labels->list[labels->len] = labels->texts[labels->len];
        labels->len++;
    }
}

static uint64_t read_number(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));

    return value > 0 ? (uint64_t)value : 0;
}

/* False: it is malformed. */
static bool read_host(const json_t *entry, struct labels *labels, struct pfl_spool_host *ret_host)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *spool = json_object_get(entry, "spool");
    const char *orders = json_string_value(json_object_get(spool, "orders"));

    if (name == NULL || !pfl_identity_is_name(name))
        return false;
    read_labels(json_object_get(entry, "labels"), labels);
    *ret_host = (struct pfl_spool_host){
        .name = name,
        .is_connected = json_is_true(json_object_get(entry, "is_connected")),
        .labels = labels->list,
        .labels_len = labels->len,
        .segments = read_number(spool, "segments"),
        .bytes = read_number(spool, "bytes"),
        .orders = orders != NULL && strlen(orders) < PFL_ORDER_SET_TEXT_BYTES ? orders : "",
    };
    return true;
}

static int read_version(const json_t *root, char *dst)
{
    const json_t *version = json_object_get(root, "version");
    int len = -1;

    if (json_is_string(version))
        len = snprintf(dst, PFL_SPOOL_LIST_VERSION_BYTES, "%s", json_string_value(version));
    else if (json_is_integer(version))
        len = snprintf(dst, PFL_SPOOL_LIST_VERSION_BYTES, "%lld",
                       (long long)json_integer_value(version));
    return len > 0 && (size_t)len < PFL_SPOOL_LIST_VERSION_BYTES ? 0 : PFL_EPARSE;
}

/* Each value but the first is behind one of these; those within texts count, too. */
static bool has_too_many_values(struct pfl_span body)
{
    size_t count = 0;

    for (size_t i = 0; i < body.len; i++)
        count += body.data[i] == ',' || body.data[i] == '[' || body.data[i] == '{';
    return count > PFL_SPOOL_LIST_VALUES_MAX;
}

int pfl_spool_list_parse(struct pfl_span body_untrusted, pfl_spool_list_on_host on_host, void *user,
                         struct pfl_spool_list *ret_list)
{
    struct pfl_spool_list list = {.hosts = 0};
    struct labels *labels;
    json_error_t error;
    json_t *root;
    json_t *hosts;
    json_t *entry;
    size_t i;

    if (has_too_many_values(body_untrusted))
        return PFL_ELIMIT;
    labels = pfl_mem_alloc(sizeof(*labels));
    if (labels == NULL)
        return PFL_ENOMEM;
    root = json_loadb((const char *)body_untrusted.data, body_untrusted.len, 0, &error);
    hosts = json_object_get(root, "hosts");
    if (!json_is_array(hosts) || read_version(root, list.version) != 0) {
        json_decref(root);
        pfl_mem_free(labels);
        return root == NULL && json_error_code(&error) == json_error_out_of_memory ? PFL_ENOMEM
                                                                                   : PFL_EPARSE;
    }
    list.is_from_start = json_is_true(json_object_get(root, "is_from_start"));
    list.has_more = json_is_true(json_object_get(root, "has_more"));
    json_array_foreach(hosts, i, entry)
    {
        struct pfl_spool_host host;

        if (read_host(entry, labels, &host)) {
            host.is_from_start = list.is_from_start;
            on_host(user, &host);
            list.hosts++;
        } else {
            list.ignored++;
        }
    }
    json_decref(root);
    pfl_mem_free(labels);
    *ret_list = list;
    return 0;
}
