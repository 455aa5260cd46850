/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256: see sha256.h. Happy path: new, add and so on, end. Failures: libcrypto has no memory:
 * new or end reports it. Owns libcrypto's context; the algorithm's description is fetched once, for
 * the process's life, and needs no file. Limits: none.
 */
#include "base/io/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/mem.h"

struct pfl_sha256 {
    EVP_MD_CTX *evp; /* owned */
    bool has_failed;
};

static EVP_MD *algorithm; /* never changes once it is there */

static bool start(void)
{
    if (algorithm == NULL &&
        OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) == 1)
        algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    return algorithm != NULL;
}

int pfl_sha256_new(struct pfl_sha256 **ret_sha256)
{
    struct pfl_sha256 *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    self->evp = start() ? EVP_MD_CTX_new() : NULL;
    if (self->evp == NULL || EVP_DigestInit_ex(self->evp, algorithm, NULL) != 1) {
        pfl_sha256_free(self);
        return PFL_ENOMEM;
    }
    *ret_sha256 = self;
    return 0;
}

void pfl_sha256_free(struct pfl_sha256 *self)
{
    if (self == NULL)
        return;
    EVP_MD_CTX_free(self->evp);
    pfl_mem_free(self);
}

void pfl_sha256_add(struct pfl_sha256 *self, struct pfl_span bytes)
{
    if (bytes.len != 0 && EVP_DigestUpdate(self->evp, bytes.data, bytes.len) != 1)
        self->has_failed = true;
}

int pfl_sha256_end(struct pfl_sha256 *self, uint8_t ret_hash[PFL_SHA256_BYTES])
{
    bool is_good = EVP_DigestFinal_ex(self->evp, ret_hash, NULL) == 1 && !self->has_failed;

    self->has_failed = EVP_DigestInit_ex(self->evp, algorithm, NULL) != 1;
    return is_good ? 0 : PFL_ENOMEM;
}
