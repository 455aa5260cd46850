/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's settings from files, environment and command line: relay, certificates, preset
 * (proto/perfleet/config.proto, OperatorConfig). Pure: bytes and values in, values and their
 * sources out.
 */
#ifndef PFL_CONSUMER_OPERATOR_CONF_H
#define PFL_CONSUMER_OPERATOR_CONF_H

#include <jansson.h>

#include "perfleet/config.pb-c.h"
#include "settings/layers.h"

struct pfl_operator_conf {
    struct pfl_settings_layers layers;
    Perfleet__OperatorConfig *values; /* owned; NULL before build */
};

void pfl_operator_conf_init(struct pfl_operator_conf *self);
void pfl_operator_conf_fini(struct pfl_operator_conf *self);
/* `key` is one of OperatorConfig's. PFL_EPARSE with `ret_error` = the source and the remedy,
 * PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_operator_conf_take(struct pfl_operator_conf *self,
                                        enum pfl_settings_source source, const char *key,
                                        const char *value, char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* `path` is borrowed until fini. As take; a path in a file must begin with /. */
PFL_MUST_USE int pfl_operator_conf_take_file(struct pfl_operator_conf *self,
                                             enum pfl_settings_source source, const char *path,
                                             struct pfl_span text,
                                             char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* Merges the sources: `values` has the result until fini. As take. */
PFL_MUST_USE int pfl_operator_conf_build(struct pfl_operator_conf *self,
                                         char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* The source of `key`'s value. */
enum pfl_settings_source pfl_operator_conf_source(const struct pfl_operator_conf *self,
                                                  const char *key);
/* {"files": `files`, "settings": {KEY: {"value": VALUE or null, "source": WHERE}, ...}}. Takes the
 * reference. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_operator_conf_json(const struct pfl_operator_conf *self, json_t *files,
                                        struct pfl_buf *out);

#endif
