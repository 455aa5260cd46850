/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a daemon learns what it is told: flags, and one file in text format, of one schema
 * (proto/perfleet/config.proto). Field `a_b` is key `a_b` of the file and flag `--a-b`; a flag goes
 * before the file, the file before the schema's default; the flags of a repeated field take the
 * place of all that the file gives it. Every program has --config FILE, --check-config,
 * --dump-config, --help and --version as well.
 *
 *     static const struct pfl_settings_program program = {"perfleet-x", usage,
 *         &perfleet__xconfig__descriptor, keys, sizeof(keys) / sizeof(*keys), apply};
 *     int rc = pfl_settings_start(&program, argc, argv, &conf, &message);
 *     if (rc >= 0)
 *         return rc;
 *
 * To add a key: a field in the schema, a row in the program's `keys` when it has a range or names a
 * file, a line in `apply`, in the usage text, in the manual page and in deploy/conf.
 * lint.config_keys finds what is forgotten.
 */
#ifndef PFL_SETTINGS_CONFIG_H
#define PFL_SETTINGS_CONFIG_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PFL_SETTINGS_MAX_KEYS  48u
#define PFL_SETTINGS_MAX_BYTES (1u << 20) /* of the file */
#define PFL_SETTINGS_EXIT      2          /* wrong usage or configuration */

/* What the schema cannot say of a key. */
struct pfl_settings_key {
    const char *name;
    uint64_t min; /* of a number; max 0: no range */
    uint64_t max;
    bool is_file; /* --check-config wants to be able to read it */
};

/* Why a program refuses what it is told. */
struct pfl_settings_fault {
    const char *key;   /* static */
    const char *what;  /* static; completes "KEY: ": "wants HOST:PORT" */
    const char *value; /* borrowed from the message; NULL: the key is missing or `what` says all */
};

struct pfl_settings_program {
    const char *name;
    const char *usage; /* for --help */
    const ProtobufCMessageDescriptor *type;
    const struct pfl_settings_key *keys;
    size_t keys_len;
    /* Judges the message and makes of it what the program wants, which may borrow from it.
     * False: `ret_fault` says why. */
    bool (*apply)(const ProtobufCMessage *message, void *user,
                  struct pfl_settings_fault *ret_fault);
};

/*
 * Reads the command line, and the file that it names. -1: go on, with `ret_message` (for
 * pfl_proto_free, once nothing borrows from it any more). Else the program's exit code: what there
 * was to say has been printed.
 */
PFL_MUST_USE int pfl_settings_start(const struct pfl_settings_program *program, int argc,
                                    char **argv, void *user, ProtobufCMessage **ret_message);

/* Where the service of this host serves consumers if nothing else is said: static or the
 * environment's. */
const char *pfl_settings_default_consumer_socket(void);

#endif
