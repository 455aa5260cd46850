/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ChaCha20 (RFC 8439) in the place of mbedtls's own, which is plain C: many blocks at once, one in
 * each lane of a vector. These functions have the names, the context and the meaning of
 * mbedtls/chacha20.h; as a program's own symbols they come before the library's, whose TLS then
 * uses them. docs/adr/0021 says why, and what is not ours: everything else.
 *
 * Happy path: what is left of the last block's keystream, then 16, 8 and 4 blocks at a time as the
 * processor has lanes, then a rest, whose keystream is kept. Failures: none.
 * Time depends on lengths alone: no branch and no address on a key's or a message's bits.
 * Limits: RFC 8439's counter of 32 bits, as mbedtls.
 */
#include <string.h>

#include <mbedtls/chacha20.h>
#include <mbedtls/platform_util.h>

#define BLOCK_BYTES 64u
#define WORDS       16u
#define ROUNDS      10 /* double ones */
#define COUNTER     12

_Static_assert(sizeof(mbedtls_chacha20_context) == 64 + 64 + sizeof(size_t), "another mbedtls");

static inline uint32_t load_le(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    return v;
}

static inline void store_le(uint8_t *p, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    memcpy(p, &v, sizeof(v));
}

#define ROTATE(x, n) ((x) << (n) | (x) >> (32 - (n)))

#define QUARTER(a, b, c, d)                                                                        \
    do {                                                                                           \
        (a) += (b);                                                                                \
        (d) = ROTATE((d) ^ (a), 16);                                                               \
        (c) += (d);                                                                                \
        (b) = ROTATE((b) ^ (c), 12);                                                               \
        (a) += (b);                                                                                \
        (d) = ROTATE((d) ^ (a), 8);                                                                \
        (c) += (d);                                                                                \
        (b) = ROTATE((b) ^ (c), 7);                                                                \
    } while (0)

#define DOUBLE_ROUND(x)                                                                            \
    do {                                                                                           \
        QUARTER((x)[0], (x)[4], (x)[8], (x)[12]);                                                  \
        QUARTER((x)[1], (x)[5], (x)[9], (x)[13]);                                                  \
        QUARTER((x)[2], (x)[6], (x)[10], (x)[14]);                                                 \
        QUARTER((x)[3], (x)[7], (x)[11], (x)[15]);                                                 \
        QUARTER((x)[0], (x)[5], (x)[10], (x)[15]);                                                 \
        QUARTER((x)[1], (x)[6], (x)[11], (x)[12]);                                                 \
        QUARTER((x)[2], (x)[7], (x)[8], (x)[13]);                                                  \
        QUARTER((x)[3], (x)[4], (x)[9], (x)[14]);                                                  \
    } while (0)

/*
 * A function that turns `lanes` blocks of `in` into `out` (they may be the same) and counts on.
 * Word i of block b is in lane b of x[i]; by way of memory each block's words come together.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): a name and attributes cannot have them */
#define DEFINE_BLOCKS(name, lanes, attributes)                                                     \
    typedef uint32_t name##_vec __attribute__((vector_size(4 * (lanes))));                         \
    attributes static void name(uint32_t state[WORDS], const uint8_t *in, uint8_t *out)            \
    {                                                                                              \
        uint32_t words[WORDS][lanes] __attribute__((aligned(64)));                                 \
        name##_vec x[WORDS];                                                                       \
        name##_vec counters;                                                                       \
                                                                                                   \
        for (uint32_t b = 0; b < (lanes); b++)                                                     \
            counters[b] = state[COUNTER] + b;                                                      \
        for (uint32_t i = 0; i < WORDS; i++)                                                       \
            x[i] = (name##_vec){0} + state[i];                                                     \
        x[COUNTER] = counters;                                                                     \
        for (int i = 0; i < ROUNDS; i++)                                                           \
            DOUBLE_ROUND(x);                                                                       \
        for (uint32_t i = 0; i < WORDS; i++)                                                       \
            x[i] += i == COUNTER ? counters : (name##_vec){0} + state[i];                          \
        memcpy(words, x, sizeof(words));                                                           \
        for (uint32_t b = 0; b < (lanes); b++)                                                     \
            for (uint32_t i = 0; i < WORDS; i++, in += 4, out += 4)                                \
                store_le(out, load_le(in) ^ words[i][b]);                                          \
        state[COUNTER] += (lanes);                                                                 \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

DEFINE_BLOCKS(four_blocks, 4, )
#if defined(__x86_64__)
DEFINE_BLOCKS(eight_blocks, 8, __attribute__((target("avx2"))))
DEFINE_BLOCKS(sixteen_blocks, 16, __attribute__((target("avx512f"))))
#endif

/* As many blocks as go at once; the bytes done. */
static size_t run_blocks(uint32_t state[WORDS], size_t len, const uint8_t *in, uint8_t *out)
{
    size_t done = 0;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        for (; len - done >= 16 * BLOCK_BYTES; done += 16 * BLOCK_BYTES)
            sixteen_blocks(state, in + done, out + done);
    }
    if (__builtin_cpu_supports("avx2")) {
        for (; len - done >= 8 * BLOCK_BYTES; done += 8 * BLOCK_BYTES)
            eight_blocks(state, in + done, out + done);
    }
#endif
    for (; len - done >= 4 * BLOCK_BYTES; done += 4 * BLOCK_BYTES)
        four_blocks(state, in + done, out + done);
    return done;
}

static void one_block(uint32_t state[WORDS], uint8_t keystream[BLOCK_BYTES])
{
    uint32_t x[WORDS];

    memcpy(x, state, sizeof(x));
    for (int i = 0; i < ROUNDS; i++)
        DOUBLE_ROUND(x);
    for (uint32_t i = 0; i < WORDS; i++)
        store_le(keystream + (size_t)4 * i, x[i] + state[i]);
    state[COUNTER]++;
}

void mbedtls_chacha20_init(mbedtls_chacha20_context *ctx)
{
    memset(ctx, 0, sizeof(*ctx));
    ctx->keystream_bytes_used = BLOCK_BYTES;
}

void mbedtls_chacha20_free(mbedtls_chacha20_context *ctx)
{
    if (ctx != NULL)
        mbedtls_platform_zeroize(ctx, sizeof(*ctx));
}

int mbedtls_chacha20_setkey(mbedtls_chacha20_context *ctx, const unsigned char key[32])
{
    static const uint8_t constant[] = "expand 32-byte k";

    for (size_t i = 0; i < 4; i++)
        ctx->state[i] = load_le(constant + 4 * i);
    for (size_t i = 0; i < 8; i++)
        ctx->state[4 + i] = load_le(key + 4 * i);
    return 0;
}

int mbedtls_chacha20_starts(mbedtls_chacha20_context *ctx, const unsigned char nonce[12],
                            uint32_t counter)
{
    ctx->state[COUNTER] = counter;
    for (size_t i = 0; i < 3; i++)
        ctx->state[COUNTER + 1 + i] = load_le(nonce + 4 * i);
    mbedtls_platform_zeroize(ctx->keystream8, sizeof(ctx->keystream8));
    ctx->keystream_bytes_used = BLOCK_BYTES;
    return 0;
}

/* With what is left of the keystream; the bytes done. */
static size_t use_keystream(mbedtls_chacha20_context *ctx, size_t len, const uint8_t *in,
                            uint8_t *out)
{
    size_t done = 0;

    while (done < len && ctx->keystream_bytes_used != BLOCK_BYTES) {
        out[done] = in[done] ^ ctx->keystream8[ctx->keystream_bytes_used++];
        done++;
    }
    return done;
}

int mbedtls_chacha20_update(mbedtls_chacha20_context *ctx, size_t size, const unsigned char *input,
                            unsigned char *output)
{
    size_t done = use_keystream(ctx, size, input, output);

    done += run_blocks(ctx->state, size - done, input + done, output + done);
    while (done < size) {
        one_block(ctx->state, ctx->keystream8);
        ctx->keystream_bytes_used = 0;
        done += use_keystream(ctx, size - done, input + done, output + done);
    }
    return 0;
}

int mbedtls_chacha20_crypt(const unsigned char key[32], const unsigned char nonce[12],
                           uint32_t counter, size_t size, const unsigned char *input,
                           unsigned char *output)
{
    mbedtls_chacha20_context ctx;
    int rc;

    mbedtls_chacha20_init(&ctx);
    rc = mbedtls_chacha20_setkey(&ctx, key);
    if (rc == 0)
        rc = mbedtls_chacha20_starts(&ctx, nonce, counter);
    if (rc == 0)
        rc = mbedtls_chacha20_update(&ctx, size, input, output);
    mbedtls_chacha20_free(&ctx);
    return rc;
}
