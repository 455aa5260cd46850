/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of defaults, files, environment and flags, and the source of each value. Pure. */
#ifndef PFL_SETTINGS_LAYERS_H
#define PFL_SETTINGS_LAYERS_H

#include "base/buf.h"
#include "settings/settings.h"

/* Later sources override earlier ones. A daemon has one file, perfleet(1) two. */
enum pfl_settings_source {
    PFL_SETTINGS_DEFAULT, /* the schema's, or a detected value */
    PFL_SETTINGS_SYSTEM,  /* the system's file */
    PFL_SETTINGS_FILE,    /* the file; the user's, where there are two */
    PFL_SETTINGS_VARIABLE,
    PFL_SETTINGS_FLAG,
    PFL_SETTINGS_SOURCES,
};

struct pfl_settings_layers {
    const struct pfl_settings_program *program; /* borrowed */
    const char *path[PFL_SETTINGS_SOURCES];     /* borrowed: of files, for words; NULL: none */
    struct pfl_buf given[PFL_SETTINGS_SOURCES]; /* serialized, in their order */
    enum pfl_settings_source source[PFL_SETTINGS_MAX_KEYS]; /* by the field's index */
    unsigned line[PFL_SETTINGS_MAX_KEYS];                   /* in its file: the last of that key */
};

#define PFL_SETTINGS_ERROR_MAX 512u

void pfl_settings_layers_init(struct pfl_settings_layers *self,
                              const struct pfl_settings_program *program);
void pfl_settings_layers_fini(struct pfl_settings_layers *self);

/* All of these: PFL_EPARSE (`ret_error` has the place, the error and the remedy), PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_settings_layers_take_file(struct pfl_settings_layers *self,
                                               enum pfl_settings_source source, const char *path,
                                               struct pfl_span text,
                                               char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* `value` is NULL for a flag without one. */
PFL_MUST_USE int pfl_settings_layers_take_value(struct pfl_settings_layers *self,
                                                enum pfl_settings_source source, unsigned field,
                                                const char *value,
                                                char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* The message, with its ranges checked. Free with pfl_proto_free. */
PFL_MUST_USE int pfl_settings_layers_build(const struct pfl_settings_layers *self,
                                           ProtobufCMessage **ret_message,
                                           char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* The message as text that take_file reads, each value with its source. */
PFL_MUST_USE int pfl_settings_layers_dump(const struct pfl_settings_layers *self,
                                          const ProtobufCMessage *message, struct pfl_buf *out);
/* "FILE:LINE: key: what", "VARIABLE: what" or "--flag: what". */
void pfl_settings_layers_explain(const struct pfl_settings_layers *self,
                                 const struct pfl_settings_fault *fault,
                                 char ret_error[PFL_SETTINGS_ERROR_MAX]);

/* The source of a field's value: "FILE:LINE", "VARIABLE", "--flag" or "default". */
void pfl_settings_layers_name_source(const struct pfl_settings_layers *self, unsigned field,
                                     char ret_name[PFL_SETTINGS_ERROR_MAX]);

/* The flag of a field, without "--". */
#define PFL_SETTINGS_FLAG_MAX 64u
void pfl_settings_flag_name(const ProtobufCFieldDescriptor *field,
                            char ret_name[PFL_SETTINGS_FLAG_MAX]);
/* The variable of the environment: PERFLEET_KEY. */
void pfl_settings_variable_name(const ProtobufCFieldDescriptor *field,
                                char ret_name[PFL_SETTINGS_FLAG_MAX]);
/* True for a flag that takes no value. */
bool pfl_settings_is_switch(const ProtobufCFieldDescriptor *field);

#endif
