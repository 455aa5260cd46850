/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the operator's settings are read from: the command line, PERFLEET_* variables, the user's
 * perfleet.conf and the system's. What they say is consumer/config/operator_conf.h's.
 */
#ifndef PFL_CONSUMER_OPERATOR_SETTINGS_H
#define PFL_CONSUMER_OPERATOR_SETTINGS_H

#include <stdbool.h>

#include "consumer/config/operator_conf.h"

#define PFL_OPERATOR_PATH_MAX 4096u

/* A settings file, and what became of it: errno of the attempt to read it, 0 when it was read. */
struct pfl_operator_file {
    char path[PFL_OPERATOR_PATH_MAX]; /* "": there is to be none */
    int error;
    bool is_named; /* by the user: it has to be there */
};

struct pfl_operator_settings {
    struct pfl_operator_conf conf;
    struct pfl_operator_file user;
    struct pfl_operator_file system;
    char folder[PFL_OPERATOR_PATH_MAX]; /* the user's: of the file and of certificates */
    char list[PFL_OPERATOR_PATH_MAX];   /* where a revocation list counts once it is there */
};

void pfl_operator_settings_init(struct pfl_operator_settings *self);
void pfl_operator_settings_fini(struct pfl_operator_settings *self);
/* An option of the command line; false: said on stderr what is wrong with it. */
bool pfl_operator_settings_take(struct pfl_operator_settings *self, const char *key,
                                const char *value);
/* After the last option: reads the rest. False: said on stderr what is wrong. */
bool pfl_operator_settings_load(struct pfl_operator_settings *self);

#endif
