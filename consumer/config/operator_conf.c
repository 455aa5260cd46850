/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's settings: see operator_conf.h.
 *
 * Happy path: sources are taken in any order, then merged into one message, whose paths are
 * checked. Failures: a text with file and line, variable or flag, and with the remedy. Ownership:
 * the layers and the message. Limits: the layers'.
 */
#include "consumer/config/operator_conf.h"

#include <string.h>

#include "consumer/config/duration.h"
#include "consumer/config/preset.h"
#include "consumer/text.h"
#include "proto/unpack.h"

static const struct pfl_settings_program program = {
    .name = "perfleet",
    .usage = "",
    .type = &perfleet__operator_config__descriptor,
};

static unsigned index_of(const char *key)
{
    unsigned i = 0;

    while (i < program.type->n_fields && strcmp(program.type->fields[i].name, key) != 0)
        i++;
    return i;
}

void pfl_operator_conf_init(struct pfl_operator_conf *self)
{
    *self = (struct pfl_operator_conf){.values = NULL};
    pfl_settings_layers_init(&self->layers, &program);
}

void pfl_operator_conf_fini(struct pfl_operator_conf *self)
{
    if (self->values != NULL)
        pfl_proto_free(&self->values->base);
    self->values = NULL;
    pfl_settings_layers_fini(&self->layers);
}

int pfl_operator_conf_take(struct pfl_operator_conf *self, enum pfl_settings_source source,
                           const char *key, const char *value,
                           char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    return pfl_settings_layers_take_value(&self->layers, source, index_of(key), value, ret_error);
}

int pfl_operator_conf_take_file(struct pfl_operator_conf *self, enum pfl_settings_source source,
                                const char *path, struct pfl_span text,
                                char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    return pfl_settings_layers_take_file(&self->layers, source, path, text, ret_error);
}

enum pfl_settings_source pfl_operator_conf_source(const struct pfl_operator_conf *self,
                                                  const char *key)
{
    return self->layers.source[index_of(key)];
}

/* In a file a path means the same wherever the command is run. */
static bool judge_path(const struct pfl_operator_conf *self, const char *key, const char *path,
                       struct pfl_settings_fault *ret_fault)
{
    enum pfl_settings_source source = pfl_operator_conf_source(self, key);

    if (path == NULL || path[0] == '/' ||
        (source != PFL_SETTINGS_SYSTEM && source != PFL_SETTINGS_FILE))
        return true;
    *ret_fault = (struct pfl_settings_fault){key, "wants a path that begins with /", path};
    return false;
}

static bool judge_preset(const char *name, struct pfl_settings_fault *ret_fault)
{
    if (name == NULL || pfl_preset_find(name) != NULL)
        return true;
    *ret_fault =
        (struct pfl_settings_fault){"preset", "wants a name that perfleet presets lists", name};
    return false;
}

static bool judge_timeout(const char *text, struct pfl_settings_fault *ret_fault)
{
    uint32_t ms;

    if (pfl_duration_parse(text, &ms))
        return true;
    *ret_fault = (struct pfl_settings_fault){
        "timeout", "wants a time such as 10s, 500ms or 5m, at most a week", text};
    return false;
}

static bool judge(const struct pfl_operator_conf *self, struct pfl_settings_fault *ret_fault)
{
    const Perfleet__OperatorConfig *v = self->values;

    return judge_path(self, "ca", v->ca, ret_fault) &&
           judge_path(self, "cert", v->cert, ret_fault) &&
           judge_path(self, "key", v->key, ret_fault) &&
           judge_path(self, "crl", v->crl, ret_fault) && judge_preset(v->preset, ret_fault) &&
           judge_timeout(v->timeout, ret_fault);
}

int pfl_operator_conf_build(struct pfl_operator_conf *self, char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    struct pfl_settings_fault fault = {0};
    ProtobufCMessage *message;
    int rc = pfl_settings_layers_build(&self->layers, &message, ret_error);

    if (rc != 0)
        return rc;
    self->values = (Perfleet__OperatorConfig *)message;
    if (judge(self, &fault))
        return 0;
    pfl_settings_layers_explain(&self->layers, &fault, ret_error);
    return PFL_EPARSE;
}

static json_t *value_of(const Perfleet__OperatorConfig *values,
                        const ProtobufCFieldDescriptor *field)
{
    const uint8_t *at = (const uint8_t *)values + field->offset;
    const char *text;
    uint32_t number;

    if (field->type == PROTOBUF_C_TYPE_STRING) {
        memcpy(&text, at, sizeof(text));
        return text != NULL ? pfl_text_json_peer(text) : json_null();
    }
    memcpy(&number, at, sizeof(number));
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        return json_string(
            protobuf_c_enum_descriptor_get_value(field->descriptor, (int)number)->name);
    return json_integer(number);
}

int pfl_operator_conf_json(const struct pfl_operator_conf *self, json_t *files, struct pfl_buf *out)
{
    json_t *root;
    json_t *all;
    bool is_whole;

    pfl_text_init_json();
    root = json_object();
    all = json_object();
    is_whole = json_object_set_new(root, "files", files) == 0;
    for (unsigned i = 0; i < program.type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &program.type->fields[i];
        json_t *value = value_of(self->values, field);
        char source[PFL_SETTINGS_ERROR_MAX];
        json_t *entry = json_object();

        pfl_settings_layers_name_source(&self->layers, i, source);
        is_whole = json_object_set_new(entry, "value", value) == 0 && is_whole;
        is_whole =
            json_object_set_new(entry, "source", pfl_text_json_peer(source)) == 0 && is_whole;
        is_whole = json_object_set_new(all, field->name, entry) == 0 && is_whole;
    }
    is_whole = json_object_set_new(root, "settings", all) == 0 && is_whole;
    if (is_whole)
        return pfl_text_dump_json(root, out);
    json_decref(root);
    return PFL_ENOMEM;
}
