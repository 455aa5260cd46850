/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF"): see hash.h. No failure.
 */
#include "base/hash.h"

struct state {
    uint64_t v[4];
};

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void mix(struct state *s, unsigned rounds)
{
    uint64_t *v = s->v;

    while (rounds-- != 0) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void add_word(struct state *s, uint64_t word)
{
    s->v[3] ^= word;
    mix(s, 2);
    s->v[0] ^= word;
}

uint64_t pfl_hash_keyed(const struct pfl_hash_key *key, struct pfl_span bytes)
{
    struct state s = {{key->words[0] ^ 0x736f6d6570736575u, key->words[1] ^ 0x646f72616e646f6du,
                       key->words[0] ^ 0x6c7967656e657261u, key->words[1] ^ 0x7465646279746573u}};
    struct pfl_reader r = pfl_reader_of(bytes);
    uint64_t last = (uint64_t)bytes.len << 56;

    while (r.left >= 8)
        add_word(&s, pfl_reader_u64(&r));
    for (unsigned shift = 0; r.left != 0; shift += 8)
        last |= (uint64_t)pfl_reader_u8(&r) << shift;
    add_word(&s, last);
    s.v[2] ^= 0xff;
    mix(&s, 4);
    return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}
