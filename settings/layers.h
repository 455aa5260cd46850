/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults, file and flags laid over each other, and where each value is from. Pure. */
#ifndef PFL_SETTINGS_LAYERS_H
#define PFL_SETTINGS_LAYERS_H

#include "base/buf.h"
#include "settings/settings.h"

enum pfl_settings_source { PFL_SETTINGS_DEFAULT, PFL_SETTINGS_FILE, PFL_SETTINGS_FLAG };

struct pfl_settings_layers {
    const struct pfl_settings_program *program; /* borrowed */
    const char *path;                           /* borrowed: of the file, for words; NULL: none */
    struct pfl_buf file;                        /* serialized */
    struct pfl_buf flags;                       /* serialized, in their order */
    enum pfl_settings_source source[PFL_SETTINGS_MAX_KEYS]; /* by the field's index */
    unsigned line[PFL_SETTINGS_MAX_KEYS];                   /* in the file: the last of that key */
};

#define PFL_SETTINGS_ERROR_MAX 512u

void pfl_settings_layers_init(struct pfl_settings_layers *self,
                              const struct pfl_settings_program *program);
void pfl_settings_layers_fini(struct pfl_settings_layers *self);

/* All of these: PFL_EPARSE (`ret_error` says where, what, and what would be right), PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_settings_layers_take_file(struct pfl_settings_layers *self, const char *path,
                                               struct pfl_span text,
                                               char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* `value` is NULL for a flag without one. */
PFL_MUST_USE int pfl_settings_layers_take_flag(struct pfl_settings_layers *self, unsigned field,
                                               const char *value,
                                               char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* The message, its ranges judged. Free with pfl_proto_free. */
PFL_MUST_USE int pfl_settings_layers_build(const struct pfl_settings_layers *self,
                                           ProtobufCMessage **ret_message,
                                           char ret_error[PFL_SETTINGS_ERROR_MAX]);
/* The message as text that take_file reads, each value with where it is from. */
PFL_MUST_USE int pfl_settings_layers_dump(const struct pfl_settings_layers *self,
                                          const ProtobufCMessage *message, struct pfl_buf *out);
/* "FILE:LINE: key: what", or "--flag: what". */
void pfl_settings_layers_explain(const struct pfl_settings_layers *self,
                                 const struct pfl_settings_fault *fault,
                                 char ret_error[PFL_SETTINGS_ERROR_MAX]);

/* The flag of a field, without "--". */
#define PFL_SETTINGS_FLAG_MAX 64u
void pfl_settings_flag_name(const ProtobufCFieldDescriptor *field,
                            char ret_name[PFL_SETTINGS_FLAG_MAX]);
/* True for a flag that takes no value. */
bool pfl_settings_is_switch(const ProtobufCFieldDescriptor *field);

#endif
