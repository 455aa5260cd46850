/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of objects: names of A-Z a-z 0-9 . _ ~ % = + @ -, not beginning with a dot, between slashes.
 */
#ifndef PFL_COLLECTOR_STORE_STORE_KEY_H
#define PFL_COLLECTOR_STORE_STORE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PFL_STORE_KEY_BYTES  512u /* of a key, with its NUL */
#define PFL_STORE_KEY_LEVELS 12u  /* names between slashes */
#define PFL_STORE_NAME_BYTES 200u /* of a name, with its NUL */

/* The oldest segments that hosts keep, and a clock in any zone. */
#define PFL_STORE_KEY_BEFORE_NS (UINT64_C(91) * 86400 * 1000000000)
#define PFL_STORE_KEY_AFTER_NS  (UINT64_C(86400) * 1000000000)

bool pfl_store_is_key(const char *key);
/* Whether a key can begin so: its last name may be incomplete, or missing. */
bool pfl_store_is_prefix(const char *prefix);
/* A name of any bytes as a part of a key: others are %XX. Different names give different parts; one
 * that is too long ends in its hash. PFL_ELIMIT: `room` is below PFL_STORE_NAME_BYTES. */
PFL_MUST_USE int pfl_store_escape(const char *name, char *dst, size_t room);
struct pfl_store_key_parts {
    const char *fleet;
    const char *host;
    const char *id;     /* a ULID: has the collector's time */
    const char *suffix; /* "pftrace" or "json" */
    uint64_t unix_ns;   /* the host's word */
};
/*
 * "v1/FLEET/yyyy/mm/dd/hh/HOST/ID.SUFFIX" of that moment, in UTC; of the id's if that is more than
 * PFL_STORE_KEY_BEFORE_NS before it or PFL_STORE_KEY_AFTER_NS after it: each hour is a folder of
 * the store. PFL_ELIMIT: it is too long, or the id is none.
 */
PFL_MUST_USE int pfl_store_key_make(const struct pfl_store_key_parts *parts,
                                    char ret_key[PFL_STORE_KEY_BYTES]);

#endif
