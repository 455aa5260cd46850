/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ChaCha20-Poly1305 by OpenSSL's libcrypto instead of mbedtls's, which is plain C and nine times
 * slower. These two functions have the names, the context and the semantics of
 * mbedtls/chachapoly.h. As a program's own symbols they take precedence over the library's, whose
 * TLS then uses them for every record (docs/adr/0027). The streaming functions (starts, update,
 * finish) stay mbedtls's, with the same context.
 *
 * Happy path: the key is read back from the context that mbedtls_chachapoly_setkey filled, and
 * libcrypto does the whole. Output may be input. Failures: a wrong tag is
 * MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED, and the output zeros; no memory for libcrypto's context is
 * MBEDTLS_ERR_CHACHAPOLY_BAD_STATE. Owns only the cipher's description, for the process's life;
 * copies of the key are wiped. Limits: those of a TLS record.
 */
#define MBEDTLS_ALLOW_PRIVATE_ACCESS /* a context of mbedtls 3 */
#include "base/io/aead.h"

#include <endian.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include <mbedtls/chachapoly.h>

#include "base/bytes.h"

#define KEY_WORD  4u /* of ChaCha20's state: after the constants */
#define KEY_WORDS 8u
#define TAG_BYTES 16

_Static_assert(sizeof(((mbedtls_chacha20_context *)0)->state) == 64, "another mbedtls");

static EVP_CIPHER *cipher; /* never changes once it is there */

int pfl_aead_start(void)
{
    if (cipher != NULL)
        return 0;
    /* No file is read, as a sandbox may be around us; and nothing runs at exit. */
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return PFL_ETLS;
    cipher = EVP_CIPHER_fetch(NULL, "ChaCha20-Poly1305", NULL);
    return cipher != NULL ? 0 : PFL_ETLS;
}

static void get_key(const mbedtls_chachapoly_context *ctx, uint8_t *ret_key)
{
    for (unsigned i = 0; i < KEY_WORDS; i++) {
        uint32_t word = htole32(ctx->chacha20_ctx.state[KEY_WORD + i]);

        memcpy(ret_key + 4 * i, &word, sizeof(word));
    }
}

/* A context with key, nonce and the additional data. NULL: no memory. */
static EVP_CIPHER_CTX *begin(const mbedtls_chachapoly_context *ctx, bool is_sealing,
                             const uint8_t *nonce, struct pfl_span aad)
{
    EVP_CIPHER_CTX *evp = EVP_CIPHER_CTX_new();
    uint8_t key[4 * KEY_WORDS];
    int written;
    bool is_ready;

    if (evp == NULL)
        return NULL;
    get_key(ctx, key);
    is_ready = aad.len <= INT_MAX &&
               EVP_CipherInit_ex2(evp, cipher, key, nonce, is_sealing, NULL) == 1 &&
               (aad.len == 0 || EVP_CipherUpdate(evp, NULL, &written, aad.data, (int)aad.len) == 1);
    OPENSSL_cleanse(key, sizeof(key));
    if (is_ready)
        return evp;
    EVP_CIPHER_CTX_free(evp);
    return NULL;
}

/* All of the text at once. */
static bool run(EVP_CIPHER_CTX *evp, size_t length, const uint8_t *input, uint8_t *output)
{
    uint8_t none[TAG_BYTES]; /* a stream cipher's end is no bytes */
    int written;

    return length <= INT_MAX &&
           (length == 0 || EVP_CipherUpdate(evp, output, &written, input, (int)length) == 1) &&
           EVP_CipherFinal_ex(evp, none, &written) == 1;
}

int mbedtls_chachapoly_encrypt_and_tag(mbedtls_chachapoly_context *ctx, size_t length,
                                       const unsigned char nonce[12], const unsigned char *aad,
                                       size_t aad_len, const unsigned char *input,
                                       unsigned char *output, unsigned char tag[16])
{
    EVP_CIPHER_CTX *evp = begin(ctx, true, nonce, pfl_span_of(aad, aad_len));
    bool is_sealed = evp != NULL && run(evp, length, input, output) &&
                     EVP_CIPHER_CTX_ctrl(evp, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, tag) == 1;

    EVP_CIPHER_CTX_free(evp);
    return is_sealed ? 0 : MBEDTLS_ERR_CHACHAPOLY_BAD_STATE;
}

int mbedtls_chachapoly_auth_decrypt(mbedtls_chachapoly_context *ctx, size_t length,
                                    const unsigned char nonce[12], const unsigned char *aad,
                                    size_t aad_len, const unsigned char tag[16],
                                    const unsigned char *input, unsigned char *output)
{
    EVP_CIPHER_CTX *evp = begin(ctx, false, nonce, pfl_span_of(aad, aad_len));
    uint8_t wanted[TAG_BYTES];
    bool is_genuine;

    if (evp == NULL)
        return MBEDTLS_ERR_CHACHAPOLY_BAD_STATE;
    memcpy(wanted, tag, sizeof(wanted));
    is_genuine = EVP_CIPHER_CTX_ctrl(evp, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, wanted) == 1 &&
                 run(evp, length, input, output);
    EVP_CIPHER_CTX_free(evp);
    if (is_genuine)
        return 0;
    if (length > 0)
        memset(output, 0, length);
    return MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED;
}
