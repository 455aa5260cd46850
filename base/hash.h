/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a, 32 bits: for tables of what strangers cannot choose freely: names
 * of certificates, addresses. */
#ifndef PFL_BASE_HASH_H
#define PFL_BASE_HASH_H

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

static inline uint32_t pfl_hash(struct pfl_span bytes)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ bytes.data[i]) * 16777619u;
    return hash;
}

static inline uint32_t pfl_hash_str(const char *text)
{
    return pfl_hash(pfl_span_of(text, strlen(text)));
}

#endif
