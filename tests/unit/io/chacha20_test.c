/* SPDX-License-Identifier: Apache-2.0 */
/* ChaCha20 and Poly1305 of base/io: RFC 8439's examples, a plain implementation beside them at all
 * lengths, any pieces, and that it is these that mbedtls calls. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <mbedtls/chacha20.h>
#include <mbedtls/chachapoly.h>
#include <mbedtls/poly1305.h>

#define MESSAGE_MAX 3000u

static const char sunscreen[] =
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    "sunscreen would be it.";

static void fill(uint8_t *to, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1664525 + 1013904223;
        to[i] = (uint8_t)(seed >> 24);
    }
}

/* ---- plain ---- */

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void quarter(uint32_t *x, int a, int b, int c, int d)
{
    static const int by[] = {16, 12, 8, 7};

    for (int i = 0; i < 4; i++) {
        int to = i % 2 == 0 ? a : c;
        int from = i % 2 == 0 ? b : d;
        int turned = i % 2 == 0 ? d : b;

        x[to] += x[from];
        x[turned] ^= x[to];
        x[turned] = x[turned] << by[i] | x[turned] >> (32 - by[i]);
    }
}

static void plain_block(const uint8_t key[32], const uint8_t nonce[12], uint32_t counter,
                        uint8_t out[64])
{
    uint32_t s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    uint32_t x[16];

    for (int i = 0; i < 8; i++)
        s[4 + i] = word_at(key + (ptrdiff_t)4 * i);
    s[12] = counter;
    for (int i = 0; i < 3; i++)
        s[13 + i] = word_at(nonce + (ptrdiff_t)4 * i);
    memcpy(x, s, sizeof(x));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++)
            quarter(x, i, 4 + i, 8 + i, 12 + i);
        for (int i = 0; i < 4; i++)
            quarter(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (int i = 0; i < 64; i++)
        out[i] = (uint8_t)((x[i / 4] + s[i / 4]) >> 8 * (i % 4));
}

static void plain_chacha20(const uint8_t key[32], const uint8_t nonce[12], uint32_t counter,
                           uint8_t *data, size_t len)
{
    uint8_t stream[64];

    for (size_t i = 0; i < len; i++) {
        if (i % 64 == 0)
            plain_block(key, nonce, counter++, stream);
        data[i] ^= stream[i % 64];
    }
}

/* acc = acc * r mod 2^130 - 5, byte by byte; 17 bytes each, room for the carries. */
static void plain_multiply(uint32_t acc[17], const uint8_t r[16])
{
    uint32_t product[34] = {0};
    uint32_t carry = 0;

    for (int i = 0; i < 17; i++)
        for (int k = 0; k < 16; k++)
            product[i + k] += acc[i] * r[k];
    for (int i = 0; i < 34; i++) {
        carry += product[i];
        product[i] = carry & 0xff;
        carry >>= 8;
    }
    /* 2^130 is 5: byte 16's upper six bits and all after it, shifted down by 130. */
    for (int pass = 0; pass < 2; pass++) {
        uint32_t high[18] = {0};

        for (int i = 0; i < 17; i++)
            high[i] = (product[16 + i] >> 2 | product[17 + i] << 6) & 0xff;
        product[16] &= 3;
        memset(product + 17, 0, 17 * sizeof(*product));
        carry = 0;
        for (int i = 0; i < 18; i++) {
            carry += product[i] + 5 * high[i];
            product[i] = carry & 0xff;
            carry >>= 8;
        }
    }
    memcpy(acc, product, 17 * sizeof(*acc));
}

static void plain_poly1305(const uint8_t key[32], const uint8_t *data, size_t len, uint8_t mac[16])
{
    static const uint8_t clamp[16] = {255, 255, 255, 15, 252, 255, 255, 15,
                                      252, 255, 255, 15, 252, 255, 255, 15};
    uint32_t acc[17] = {0};
    uint32_t less[17];
    uint32_t carry = 5;
    uint8_t r[16];

    for (int i = 0; i < 16; i++)
        r[i] = key[i] & clamp[i];
    for (size_t at = 0; at < len; at += 16) {
        size_t n = len - at < 16 ? len - at : 16;

        carry = 0;
        for (size_t i = 0; i < 17; i++) {
            carry += acc[i] + (i < n ? data[at + i] : i == n ? 1u : 0u);
            acc[i] = carry & 0xff;
            carry >>= 8;
        }
        plain_multiply(acc, r);
    }
    carry = 5;
    for (int i = 0; i < 17; i++) {
        carry += acc[i];
        less[i] = carry & 0xff;
        carry >>= 8;
    }
    if (less[16] >= 4)
        memcpy(acc, less, sizeof(acc));
    carry = 0;
    for (int i = 0; i < 16; i++) {
        carry += acc[i] + key[16 + i];
        mac[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

/* ---- tests ---- */

static void the_rfcs_examples_come_out(void **state)
{
    static const uint8_t cipher_begin[] = {0x6e, 0x2e, 0x35, 0x9a, 0x25, 0x68, 0xf9, 0x80};
    static const uint8_t cipher_end[] = {0x87, 0x4d};
    static const uint8_t poly_key[32] = {0x85, 0xd6, 0xbe, 0x78, 0x57, 0x55, 0x6d, 0x33,
                                         0x7f, 0x44, 0x52, 0xfe, 0x42, 0xd5, 0x06, 0xa8,
                                         0x01, 0x03, 0x80, 0x8a, 0xfb, 0x0d, 0xb2, 0xfd,
                                         0x4a, 0xbf, 0xf6, 0xaf, 0x41, 0x49, 0xf5, 0x1b};
    static const uint8_t poly_mac[16] = {0xa8, 0x06, 0x1d, 0xc1, 0x30, 0x51, 0x36, 0xc6,
                                         0xc2, 0x2b, 0x8b, 0xaf, 0x0c, 0x01, 0x27, 0xa9};
    static const uint8_t nonce[12] = {0, 0, 0, 0, 0, 0, 0, 0x4a};
    uint8_t key[32];
    uint8_t out[sizeof(sunscreen) - 1];
    uint8_t mac[16];

    (void)state;
    for (uint8_t i = 0; i < 32; i++)
        key[i] = i;
    assert_int_equal(
        mbedtls_chacha20_crypt(key, nonce, 1, sizeof(out), (const uint8_t *)sunscreen, out), 0);
    assert_memory_equal(out, cipher_begin, sizeof(cipher_begin));
    assert_memory_equal(out + sizeof(out) - 2, cipher_end, sizeof(cipher_end));
    assert_int_equal(mbedtls_poly1305_mac(
                         poly_key, (const uint8_t *)"Cryptographic Forum Research Group", 34, mac),
                     0);
    assert_memory_equal(mac, poly_mac, 16);
}

/* RFC 8439, 2.8.2, through mbedtls's own AEAD. */
static void the_rfcs_aead_comes_out_of_mbedtls(void **state)
{
    static const uint8_t nonce[12] = {7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47};
    static const uint8_t aad[12] = {0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1,
                                    0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7};
    static const uint8_t tag_wanted[16] = {0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a,
                                           0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06, 0x91};
    mbedtls_chachapoly_context ctx;
    uint8_t key[32];
    uint8_t out[sizeof(sunscreen) - 1];
    uint8_t back[sizeof(out)];
    uint8_t tag[16];

    (void)state;
    for (uint8_t i = 0; i < 32; i++)
        key[i] = 0x80 + i;
    mbedtls_chachapoly_init(&ctx);
    assert_int_equal(mbedtls_chachapoly_setkey(&ctx, key), 0);
    assert_int_equal(mbedtls_chachapoly_encrypt_and_tag(&ctx, sizeof(out), nonce, aad, sizeof(aad),
                                                        (const uint8_t *)sunscreen, out, tag),
                     0);
    assert_memory_equal(tag, tag_wanted, 16);
    assert_int_equal(
        mbedtls_chachapoly_auth_decrypt(&ctx, sizeof(out), nonce, aad, sizeof(aad), tag, out, back),
        0);
    assert_memory_equal(back, sunscreen, sizeof(back));
    tag[3] ^= 1;
    assert_int_equal(
        mbedtls_chachapoly_auth_decrypt(&ctx, sizeof(out), nonce, aad, sizeof(aad), tag, out, back),
        MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED);
    mbedtls_chachapoly_free(&ctx);
}

static void all_lengths_are_as_the_plain_cipher_has_them(void **state)
{
    uint8_t key[32];
    uint8_t nonce[12];
    uint8_t wanted[MESSAGE_MAX];
    uint8_t got[MESSAGE_MAX];

    (void)state;
    for (uint32_t len = 0; len <= MESSAGE_MAX; len += len < 300 ? 1 : 37) {
        uint32_t counter = len % 3 == 0 ? UINT32_MAX - 9 : len; /* past its end, too */

        fill(key, sizeof(key), len);
        fill(nonce, sizeof(nonce), len + 1);
        fill(wanted, len, len + 2);
        memcpy(got, wanted, len);
        plain_chacha20(key, nonce, counter, wanted, len);
        assert_int_equal(mbedtls_chacha20_crypt(key, nonce, counter, len, got, got), 0);
        assert_memory_equal(got, wanted, len);
    }
}

static void pieces_give_what_the_whole_gives(void **state)
{
    uint8_t key[32];
    uint8_t nonce[12];
    uint8_t data[MESSAGE_MAX];
    uint8_t wanted[MESSAGE_MAX];
    uint8_t got[MESSAGE_MAX];
    uint8_t mac[2][16];

    (void)state;
    fill(key, sizeof(key), 1);
    fill(nonce, sizeof(nonce), 2);
    fill(data, sizeof(data), 3);
    memcpy(wanted, data, sizeof(data));
    plain_chacha20(key, nonce, 5, wanted, sizeof(wanted));
    plain_poly1305(key, data, sizeof(data), mac[0]);
    for (uint32_t seed = 0; seed < 200; seed++) {
        mbedtls_chacha20_context c;
        mbedtls_poly1305_context p;
        uint32_t random = seed;
        size_t len;

        mbedtls_chacha20_init(&c);
        mbedtls_poly1305_init(&p);
        assert_int_equal(mbedtls_chacha20_setkey(&c, key), 0);
        assert_int_equal(mbedtls_chacha20_starts(&c, nonce, 5), 0);
        assert_int_equal(mbedtls_poly1305_starts(&p, key), 0);
        for (size_t at = 0; at < sizeof(data); at += len) {
            random = random * 1664525 + 1013904223;
            len = (random >> 16) % (seed % 2 == 0 ? 40 : 1500);
            len = len < sizeof(data) - at ? len : sizeof(data) - at;
            assert_int_equal(mbedtls_chacha20_update(&c, len, data + at, got + at), 0);
            assert_int_equal(mbedtls_poly1305_update(&p, data + at, len), 0);
        }
        assert_int_equal(mbedtls_poly1305_finish(&p, mac[1]), 0);
        assert_memory_equal(got, wanted, sizeof(got));
        assert_memory_equal(mac[1], mac[0], 16);
        mbedtls_chacha20_free(&c);
        mbedtls_poly1305_free(&p);
    }
}

/* Random ones, and such as carry all the way: ones, and values next to 2^130 - 5. */
static void all_sums_are_as_the_plain_sum_has_them(void **state)
{
    uint8_t key[32];
    uint8_t data[200];
    uint8_t wanted[16];
    uint8_t got[16];

    (void)state;
    for (uint32_t seed = 0; seed < 4000; seed++) {
        size_t len = seed % (sizeof(data) + 1);

        fill(key, sizeof(key), seed);
        fill(data, sizeof(data), seed + 1);
        if (seed % 4 == 1)
            memset(data, 0xff, sizeof(data));
        if (seed % 8 >= 6)
            memset(key, seed % 16 >= 8 ? 0xff : 0, 16);
        if (seed % 16 == 6) {
            key[0] = (uint8_t)(1 + seed % 5);
            memset(data, 0xff, sizeof(data));
            data[0] = (uint8_t)(0xf0 + seed / 16 % 16);
        }
        plain_poly1305(key, data, len, wanted);
        assert_int_equal(mbedtls_poly1305_mac(key, data, len, got), 0);
        assert_memory_equal(got, wanted, 16);
    }
}

static void mbedtls_uses_these(void **state)
{
    void *found = dlsym(RTLD_DEFAULT, "mbedtls_chacha20_update");
    Dl_info ours;
    Dl_info librarys;

    (void)state;
    assert_non_null(found);
    assert_int_not_equal(dladdr(found, &ours), 0);
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "mbedtls_chachapoly_update"), &librarys), 0);
    assert_ptr_not_equal(ours.dli_fbase, librarys.dli_fbase);
    found = dlsym(RTLD_DEFAULT, "mbedtls_poly1305_update");
    assert_int_not_equal(dladdr(found, &ours), 0);
    assert_ptr_not_equal(ours.dli_fbase, librarys.dli_fbase);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rfcs_examples_come_out),
        cmocka_unit_test(the_rfcs_aead_comes_out_of_mbedtls),
        cmocka_unit_test(all_lengths_are_as_the_plain_cipher_has_them),
        cmocka_unit_test(pieces_give_what_the_whole_gives),
        cmocka_unit_test(all_sums_are_as_the_plain_sum_has_them),
        cmocka_unit_test(mbedtls_uses_these),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
