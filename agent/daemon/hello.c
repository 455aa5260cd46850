/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels and the hello: see hello.h. JSON by jansson, with memory of base/mem (set at the program's
 * start). Fails with PFL_EINVAL, PFL_ELIMIT, PFL_ENOMEM. Limits: hello.h's.
 */
#include "agent/daemon/hello.h"

#include <stdbool.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "proto/tunnel/tunnel.h"

static const char label_words[] =
    "a label is NAME=VALUE, each 1 to 63 of letters, digits, '.', '_', '-' and '/'";

static bool is_label_part(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-' || c == '/'))
            return false;
    }
    return len >= 1 && len <= PFL_HELLO_LABEL_MAX;
}

static int parse_label(const char *text, size_t len, struct pfl_hello_label *ret_label)
{
    const char *equals = memchr(text, '=', len);
    size_t name_len = equals != NULL ? (size_t)(equals - text) : 0;
    size_t value_len = len - name_len - 1;

    if (equals == NULL || !is_label_part(text, name_len) || !is_label_part(equals + 1, value_len))
        return PFL_EINVAL;
    memcpy(ret_label->name, text, name_len);
    ret_label->name[name_len] = '\0';
    memcpy(ret_label->value, equals + 1, value_len);
    ret_label->value[value_len] = '\0';
    return 0;
}

int pfl_hello_parse_labels(const char *text, struct pfl_hello_label *labels, size_t *count,
                           const char **ret_why)
{
    do {
        size_t len = strcspn(text, ",");

        if (*count == PFL_HELLO_MAX_LABELS) {
            *ret_why = "there may be 32 labels";
            return PFL_ELIMIT;
        }
        if (parse_label(text, len, &labels[*count]) != 0) {
            *ret_why = label_words;
            return PFL_EINVAL;
        }
        (*count)++;
        text += len;
    } while (*text++ == ',');
    return 0;
}

static json_t *encode_labels(const struct pfl_hello_label *labels, size_t count)
{
    json_t *object = json_object();

    for (size_t i = 0; object != NULL && i < count; i++) {
        if (json_object_set_new(object, labels[i].name, json_string(labels[i].value)) == 0)
            continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

int pfl_hello_encode(const struct pfl_hello_facts *facts, const struct pfl_hello_label *labels,
                     size_t count, char **ret_json)
{
    json_t *root =
        json_pack("{s:i, s:s, s:o, s:{s:s, s:s, s:s, s:s, s:I}}", "protocol", PFL_TUNNEL_VERSION,
                  "version", PFL_VERSION, "labels", encode_labels(labels, count), "facts",
                  "hostname", facts->hostname, "kernel", facts->kernel, "arch", facts->arch,
                  "boot_id", facts->boot_id, "cpus", (json_int_t)facts->cpus);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (text == NULL)
        return PFL_ENOMEM;
    *ret_json = text;
    return 0;
}
