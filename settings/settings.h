/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a daemon's settings: flags, and one file in text format, of one schema
 * (proto/perfleet/config.proto). Field `a_b` is key `a_b` of the file and flag `--a-b`. Flags
 * override the file, the file overrides the schema's defaults; the flags of a repeated field
 * replace all its values in the file. Every program also has --config FILE, --check-config,
 * --dump-config, --help and --version.
 *
 *     static const struct pfl_settings_program program = {"perfleet-x", usage,
 *         &perfleet__xconfig__descriptor, keys, sizeof(keys) / sizeof(*keys), apply};
 *     int rc = pfl_settings_start(&program, argc, argv, &conf, &message);
 *     if (rc >= 0)
 *         return rc;
 *
 * To add a key: a field in the schema, a row in the program's `keys` when it has a range or names a
 * file, a line in `apply`, in the usage text, in the manual page and in deploy/conf.
 * lint.config_keys finds what is missing.
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

/* Properties of a key that the schema does not have. */
struct pfl_settings_key {
    const char *name;
    uint64_t min; /* of a number; max 0: no range */
    uint64_t max;
    bool is_file; /* --check-config checks that it is readable */
};

/* Why a program refuses its settings. */
struct pfl_settings_fault {
    const char *key;  /* static */
    const char *what; /* static; completes "KEY: ": "wants HOST:PORT" */
    const char
        *value; /* borrowed from the message; NULL: the key is missing, or `what` is complete */
};

struct pfl_settings_program {
    const char *name;
    const char *usage; /* for --help */
    const ProtobufCMessageDescriptor *type;
    const struct pfl_settings_key *keys;
    size_t keys_len;
    /* Validates the message and converts it into the program's conf, which may borrow from it.
     * False: `ret_fault` has the reason. */
    bool (*apply)(const ProtobufCMessage *message, void *user,
                  struct pfl_settings_fault *ret_fault);
};

/*
 * Reads the command line, and the file that it names. -1: continue with `ret_message` (for
 * pfl_proto_free, once nothing borrows from it). Otherwise the program's exit code: its output has
 * been printed.
 */
PFL_MUST_USE int pfl_settings_start(const struct pfl_settings_program *program, int argc,
                                    char **argv, void *user, ProtobufCMessage **ret_message);

/* The default consumer socket of this host's service: static or from the environment. */
const char *pfl_settings_default_consumer_socket(void);

#endif
