/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poly1305 (RFC 8439) in the place of mbedtls's own, which multiplies 32 bits by 32: here 64 by 64,
 * where the compiler has 128 bits for the product. Names, context and meaning are those of
 * mbedtls/poly1305.h; see chacha20.c.
 *
 *     acc = (acc + block + 2^128) * r   mod 2^130 - 5
 *
 * Happy path: acc is h0 + h1 * 2^64 + h2 * 2^128 in the context's five words, kept below
 * 2^130 + a little; r's words are clamped, so r1 * 5 / 4 is exact, and no sum passes 128 bits.
 * Failures: none. Time depends on lengths alone.
 */
#include <string.h>

#include <mbedtls/platform_util.h>
#include <mbedtls/poly1305.h>

#define BLOCK_BYTES 16u

_Static_assert(sizeof(mbedtls_poly1305_context) ==
                   (4 + 4 + 5) * 4 + 16 + sizeof(size_t) + (sizeof(size_t) - 4),
               "another mbedtls");

__extension__ typedef unsigned __int128 uint128;

struct sum {
    uint64_t h0;
    uint64_t h1;
    uint64_t h2;
};

static inline uint64_t load_le(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static inline void store_le(uint8_t *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    memcpy(p, &v, sizeof(v));
}

static inline uint64_t join(const uint32_t words[2])
{
    return (uint64_t)words[1] << 32 | words[0];
}

static inline void part(uint32_t words[2], uint64_t v)
{
    words[0] = (uint32_t)v;
    words[1] = (uint32_t)(v >> 32);
}

static struct sum get_sum(const mbedtls_poly1305_context *ctx)
{
    return (struct sum){join(ctx->acc), join(ctx->acc + 2), ctx->acc[4]};
}

static void set_sum(mbedtls_poly1305_context *ctx, const struct sum *s)
{
    part(ctx->acc, s->h0);
    part(ctx->acc + 2, s->h1);
    ctx->acc[4] = (uint32_t)s->h2;
}

static inline uint64_t add(uint64_t a, uint64_t b, uint64_t *carry)
{
    uint128 sum = (uint128)a + b + *carry;

    *carry = (uint64_t)(sum >> 64);
    return (uint64_t)sum;
}

/* Takes whole blocks in; `top` is 1, or 0 for a last block that brings its own bit. */
static void take_blocks(mbedtls_poly1305_context *ctx, const uint8_t *in, size_t blocks,
                        uint64_t top)
{
    const uint64_t r0 = join(ctx->r);
    const uint64_t r1 = join(ctx->r + 2);
    const uint64_t r1_times_5_by_4 = r1 + (r1 >> 2);
    struct sum s = get_sum(ctx);

    for (; blocks != 0; blocks--, in += BLOCK_BYTES) {
        uint64_t carry = 0;
        uint128 d0;
        uint128 d1;

        s.h0 = add(s.h0, load_le(in), &carry);
        s.h1 = add(s.h1, load_le(in + 8), &carry);
        s.h2 += carry + top;

        /* 2^128 * r1 is 2^64 * (r1 / 4) * 2^130, and 2^130 is 5. */
        d0 = (uint128)s.h0 * r0 + (uint128)s.h1 * r1_times_5_by_4;
        d1 = (uint128)s.h0 * r1 + (uint128)s.h1 * r0 + (uint128)(s.h2 * r1_times_5_by_4);
        s.h2 *= r0;
        d1 += (uint64_t)(d0 >> 64);
        s.h2 += (uint64_t)(d1 >> 64);

        /* What is past 130 bits comes in again times 5: 4/4 and 1/4 of it. */
        carry = 0;
        s.h0 = add((uint64_t)d0, (s.h2 >> 2) + (s.h2 & ~UINT64_C(3)), &carry);
        s.h1 = add((uint64_t)d1, 0, &carry);
        s.h2 = (s.h2 & 3) + carry;
    }
    set_sum(ctx, &s);
}

void mbedtls_poly1305_init(mbedtls_poly1305_context *ctx)
{
    memset(ctx, 0, sizeof(*ctx));
}

void mbedtls_poly1305_free(mbedtls_poly1305_context *ctx)
{
    if (ctx != NULL)
        mbedtls_platform_zeroize(ctx, sizeof(*ctx));
}

int mbedtls_poly1305_starts(mbedtls_poly1305_context *ctx, const unsigned char key[32])
{
    memset(ctx, 0, sizeof(*ctx));
    part(ctx->r, load_le(key) & 0x0ffffffc0fffffffu);
    part(ctx->r + 2, load_le(key + 8) & 0x0ffffffc0ffffffcu);
    part(ctx->s, load_le(key + 16));
    part(ctx->s + 2, load_le(key + 24));
    return 0;
}

int mbedtls_poly1305_update(mbedtls_poly1305_context *ctx, const unsigned char *input, size_t ilen)
{
    if (ctx->queue_len != 0 || ilen < BLOCK_BYTES) {
        size_t room = BLOCK_BYTES - ctx->queue_len;
        size_t len = ilen < room ? ilen : room;

        if (len != 0)
            memcpy(ctx->queue + ctx->queue_len, input, len);
        ctx->queue_len += len;
        if (ctx->queue_len < BLOCK_BYTES)
            return 0;
        take_blocks(ctx, ctx->queue, 1, 1);
        ctx->queue_len = 0;
        input += len;
        ilen -= len;
    }
    take_blocks(ctx, input, ilen / BLOCK_BYTES, 1);
    ctx->queue_len = ilen % BLOCK_BYTES;
    if (ctx->queue_len != 0)
        memcpy(ctx->queue, input + ilen - ctx->queue_len, ctx->queue_len);
    return 0;
}

int mbedtls_poly1305_finish(mbedtls_poly1305_context *ctx, unsigned char mac[16])
{
    struct sum s;
    uint64_t g0;
    uint64_t g1;
    uint64_t mask;
    uint64_t carry = 5;

    if (ctx->queue_len != 0) {
        ctx->queue[ctx->queue_len] = 1;
        memset(ctx->queue + ctx->queue_len + 1, 0, BLOCK_BYTES - 1 - ctx->queue_len);
        take_blocks(ctx, ctx->queue, 1, 0);
        ctx->queue_len = 0;
    }
    s = get_sum(ctx);
    /* Less 2^130 - 5 where it is that much: when adding 5 reaches 2^130. */
    g0 = add(s.h0, 0, &carry);
    g1 = add(s.h1, 0, &carry);
    mask = 0 - ((s.h2 + carry) >> 2);
    s.h0 = (g0 & mask) | (s.h0 & ~mask);
    s.h1 = (g1 & mask) | (s.h1 & ~mask);
    carry = 0;
    store_le(mac, add(s.h0, join(ctx->s), &carry));
    store_le(mac + 8, add(s.h1, join(ctx->s + 2), &carry));
    return 0;
}

int mbedtls_poly1305_mac(const unsigned char key[32], const unsigned char *input, size_t ilen,
                         unsigned char mac[16])
{
    mbedtls_poly1305_context ctx;
    int rc;

    mbedtls_poly1305_init(&ctx);
    rc = mbedtls_poly1305_starts(&ctx, key);
    if (rc == 0)
        rc = mbedtls_poly1305_update(&ctx, input, ilen);
    if (rc == 0)
        rc = mbedtls_poly1305_finish(&ctx, mac);
    mbedtls_poly1305_free(&ctx);
    return rc;
}
