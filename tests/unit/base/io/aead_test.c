/* SPDX-License-Identifier: Apache-2.0 */
/* Records' AEAD: RFC 8439's example, mbedtls's own code in pieces beside it at all lengths, what
 * was changed on the way, and that it is not mbedtls's own that its TLS calls. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <mbedtls/chachapoly.h>

#include "base/io/aead.h"

#define MESSAGE_MAX 17000u
#define TAG_BYTES   16u

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

/* RFC 8439, 2.8.2. */
static void the_rfcs_example_comes_out(void **state)
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

struct message {
    uint8_t key[32];
    uint8_t nonce[12];
    uint8_t aad[13];
    uint8_t text[MESSAGE_MAX];
    uint8_t sealed[MESSAGE_MAX];
    uint8_t tag[TAG_BYTES];
};

/* By the calls that stay mbedtls's own. */
static void seal_in_pieces(mbedtls_chachapoly_context *ctx, struct message *m, size_t len)
{
    assert_int_equal(mbedtls_chachapoly_starts(ctx, m->nonce, MBEDTLS_CHACHAPOLY_ENCRYPT), 0);
    assert_int_equal(mbedtls_chachapoly_update_aad(ctx, m->aad, sizeof(m->aad)), 0);
    assert_int_equal(mbedtls_chachapoly_update(ctx, len, m->text, m->sealed), 0);
    assert_int_equal(mbedtls_chachapoly_finish(ctx, m->tag), 0);
}

static void check_length(size_t len, uint32_t seed)
{
    static struct message m;
    static uint8_t place[MESSAGE_MAX];
    mbedtls_chachapoly_context ctx;
    uint8_t tag[TAG_BYTES];

    fill(m.key, sizeof(m.key), seed);
    fill(m.nonce, sizeof(m.nonce), seed + 1);
    fill(m.aad, sizeof(m.aad), seed + 2);
    fill(m.text, len, seed + 3);
    mbedtls_chachapoly_init(&ctx);
    assert_int_equal(mbedtls_chachapoly_setkey(&ctx, m.key), 0);
    seal_in_pieces(&ctx, &m, len);

    memcpy(place, m.text, len); /* in place, as TLS does */
    assert_int_equal(mbedtls_chachapoly_encrypt_and_tag(&ctx, len, m.nonce, m.aad, sizeof(m.aad),
                                                        place, place, tag),
                     0);
    assert_memory_equal(place, m.sealed, len);
    assert_memory_equal(tag, m.tag, TAG_BYTES);
    assert_int_equal(mbedtls_chachapoly_auth_decrypt(&ctx, len, m.nonce, m.aad, sizeof(m.aad), tag,
                                                     place, place),
                     0);
    assert_memory_equal(place, m.text, len);
    mbedtls_chachapoly_free(&ctx);
}

static void all_lengths_are_as_mbedtls_has_them(void **state)
{
    (void)state;
    for (uint32_t len = 0; len <= 1100; len++)
        check_length(len, len * 7 + 1);
    for (uint32_t len = 16300; len <= 16400; len++)
        check_length(len, len);
}

/* Every bit of a record that is not the sender's is seen, and nothing of it comes out. */
static void a_record_that_was_changed_is_refused(void **state)
{
    static const uint8_t nothing[64];
    struct message m;
    mbedtls_chachapoly_context ctx;

    (void)state;
    memset(&m, 0, sizeof(m));
    fill(m.text, 64, 5);
    mbedtls_chachapoly_init(&ctx);
    assert_int_equal(mbedtls_chachapoly_setkey(&ctx, m.key), 0);
    seal_in_pieces(&ctx, &m, 64);
    for (unsigned bit = 0; bit < (64 + sizeof(m.aad) + TAG_BYTES) * 8; bit++) {
        struct message changed = m;
        size_t place = bit / 8;
        uint8_t *byte;

        if (place < 64)
            byte = &changed.sealed[place];
        else if (place < 64 + sizeof(m.aad))
            byte = &changed.aad[place - 64];
        else
            byte = &changed.tag[place - 64 - sizeof(m.aad)];
        *byte ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(mbedtls_chachapoly_auth_decrypt(&ctx, 64, changed.nonce, changed.aad,
                                                         sizeof(m.aad), changed.tag, changed.sealed,
                                                         changed.text),
                         MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED);
        assert_memory_equal(changed.text, nothing, 64);
    }
    mbedtls_chachapoly_free(&ctx);
}

static const void *module_of(const char *symbol)
{
    void *found = dlsym(RTLD_DEFAULT, symbol);
    Dl_info info;

    assert_non_null(found);
    assert_int_not_equal(dladdr(found, &info), 0);
    return info.dli_fbase;
}

static void mbedtls_calls_another(void **state)
{
    const void *mbedtls = module_of("mbedtls_chachapoly_update");

    (void)state;
    assert_ptr_not_equal(module_of("mbedtls_chachapoly_encrypt_and_tag"), mbedtls);
    assert_ptr_not_equal(module_of("mbedtls_chachapoly_auth_decrypt"), mbedtls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rfcs_example_comes_out),
        cmocka_unit_test(all_lengths_are_as_mbedtls_has_them),
        cmocka_unit_test(a_record_that_was_changed_is_refused),
        cmocka_unit_test(mbedtls_calls_another),
    };

    return pfl_aead_start() != 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
