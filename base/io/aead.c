/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ChaCha20-Poly1305 by libsodium in the place of mbedtls's, which is plain C and a third as fast.
 * These two functions have the names, the context and the meaning of mbedtls/chachapoly.h; as a
 * program's own symbols they come before the library's, whose TLS then uses them for every record
 * (docs/adr/0021). The pieces (starts, update, finish) stay mbedtls's, with the same context.
 *
 * Happy path: the key is read back from the context that mbedtls_chachapoly_setkey filled, and
 * libsodium does the whole. Output may be input. Failures: a tag that is wrong is
 * MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED, and the output zeros. Owns nothing; the key's copy is wiped.
 * Limits: those of a TLS record.
 */
#define MBEDTLS_ALLOW_PRIVATE_ACCESS /* a context of mbedtls 3 */
#include "base/io/aead.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#include <mbedtls/chachapoly.h>

#define KEY_WORD  4u /* of ChaCha20's state: after the constants */
#define KEY_WORDS 8u

_Static_assert(sizeof(((mbedtls_chacha20_context *)0)->state) == 64, "another mbedtls");
_Static_assert(KEY_WORDS * 4 == crypto_aead_chacha20poly1305_IETF_KEYBYTES, "a key's size");

int pfl_aead_start(void)
{
    return sodium_init() < 0 ? PFL_ETLS : 0;
}

static void get_key(const mbedtls_chachapoly_context *ctx, uint8_t *ret_key)
{
    for (unsigned i = 0; i < KEY_WORDS; i++) {
        uint32_t word = htole32(ctx->chacha20_ctx.state[KEY_WORD + i]);

        memcpy(ret_key + 4 * i, &word, sizeof(word));
    }
}

int mbedtls_chachapoly_encrypt_and_tag(mbedtls_chachapoly_context *ctx, size_t length,
                                       const unsigned char nonce[12], const unsigned char *aad,
                                       size_t aad_len, const unsigned char *input,
                                       unsigned char *output, unsigned char tag[16])
{
    uint8_t key[crypto_aead_chacha20poly1305_IETF_KEYBYTES];

    get_key(ctx, key);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt_detached(output, tag, NULL, input, length, aad,
                                                             aad_len, NULL, nonce, key);
    sodium_memzero(key, sizeof(key));
    return 0;
}

int mbedtls_chachapoly_auth_decrypt(mbedtls_chachapoly_context *ctx, size_t length,
                                    const unsigned char nonce[12], const unsigned char *aad,
                                    size_t aad_len, const unsigned char tag[16],
                                    const unsigned char *input, unsigned char *output)
{
    uint8_t key[crypto_aead_chacha20poly1305_IETF_KEYBYTES];
    int rc;

    get_key(ctx, key);
    rc = crypto_aead_chacha20poly1305_ietf_decrypt_detached(output, NULL, input, length, tag, aad,
                                                            aad_len, nonce, key);
    sodium_memzero(key, sizeof(key));
    if (rc == 0)
        return 0;
    if (length > 0)
        memset(output, 0, length);
    return MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED;
}
