/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the operator's settings: from the command line, PERFLEET_* variables, the user's
 * perfleet.conf and the system's. consumer/config/operator_conf.h interprets them.
 */
#ifndef PFL_CONSUMER_OPERATOR_SETTINGS_H
#define PFL_CONSUMER_OPERATOR_SETTINGS_H

#include <stdbool.h>

#include "consumer/config/operator_conf.h"

#define PFL_OPERATOR_PATH_MAX 4096u

/* A settings file, and the result of reading it: an errno, 0 if it was read. */
struct pfl_operator_file {
    char path[PFL_OPERATOR_PATH_MAX]; /* "": no file */
    int error;
    bool is_named; /* by the user: it must exist */
};

struct pfl_operator_settings {
    struct pfl_operator_conf conf;
    struct pfl_operator_file user;
    struct pfl_operator_file system;
    char folder[PFL_OPERATOR_PATH_MAX]; /* the user's folder: of the file and of certificates */
    char list[PFL_OPERATOR_PATH_MAX]; /* the revocation list's default path, used if the file exists
                                       */
};

void pfl_operator_settings_init(struct pfl_operator_settings *self);
void pfl_operator_settings_fini(struct pfl_operator_settings *self);
/* Takes an option of the command line; false: error reported on stderr. */
bool pfl_operator_settings_take(struct pfl_operator_settings *self, const char *key,
                                const char *value);
/* Call after the last option: reads the rest. False: error reported on stderr. */
bool pfl_operator_settings_load(struct pfl_operator_settings *self);

#endif
