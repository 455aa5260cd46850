/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a, 32 bits: for tables whose keys strangers cannot choose freely: names of certificates,
 * addresses. Keys that they can choose are hashed with a secret: without it nobody can make a
 * table's entries collide.
 */
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

struct pfl_hash_key {
    uint64_t words[2]; /* random, and secret */
};

/* All 64 bits, or any of them, may be a table's index. */
uint64_t pfl_hash_keyed(const struct pfl_hash_key *key, struct pfl_span bytes);

/* Hashes a number in a few steps. Visible hashes would reveal the key: only for tables whose
 * entries' positions are invisible. */
static inline uint32_t pfl_hash_keyed_number(const struct pfl_hash_key *key, uint64_t number)
{
    uint64_t hash = (key->words[0] ^ number) * 0x9e3779b97f4a7c15u;

    return (uint32_t)((hash ^ hash >> 32) * (key->words[1] | 1) >> 32);
}

#endif
