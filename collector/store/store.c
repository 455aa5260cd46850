/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all engines of a store have in common: states of a put, length and SHA-256 of what is
 * written, and the sentence of a failure.
 *
 * Happy path: open chooses the engine; begin, write and so on, commit. Failures: a put whose length
 * or hash differs is aborted at commit. The engine owns the files and connections, this file the
 * running hash. Limits: PFL_STORE_BYTES_MAX.
 */
#include "collector/store/store.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/s3_settings.h"
#include "collector/store/store_impl.h"

static bool is_s3(const struct pfl_store_conf *conf)
{
    return strncmp(conf->where, "s3://", 5) == 0;
}

bool pfl_store_judge(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret_refusal)
{
    if (is_s3(conf))
        return pfl_s3_settings_judge(conf, ret_refusal);
    if (conf->where[0] == '\0') {
        *ret_refusal = (struct pfl_store_refusal){"store", "wants DIR or s3://BUCKET", NULL};
        return false;
    }
    return !pfl_s3_settings_are_given(conf, ret_refusal);
}

static int judge(const struct pfl_store_conf *conf)
{
    struct pfl_store_refusal refusal;

    if (pfl_store_judge(conf, &refusal))
        return 0;
    return pfl_store_fail(PFL_EINVAL, "%s %s%s%.100s", refusal.setting, refusal.what,
                          refusal.value != NULL ? ", not " : "",
                          refusal.value != NULL ? refusal.value : "");
}

int pfl_store_open(const struct pfl_store_conf *conf, char *ret_why, struct pfl_store **ret_store)
{
    int rc;

    (void)pfl_store_fail(0, "%s", "");
    rc = judge(conf);
    if (rc == 0)
        rc = is_s3(conf) ? pfl_store_s3_open(conf, ret_store)
                         : pfl_store_folder_open(conf, ret_store);
    if (rc != 0)
        (void)snprintf(ret_why, PFL_STORE_WHY_BYTES, "%s",
                       pfl_store_get_error()[0] != '\0' ? pfl_store_get_error() : pfl_err_str(rc));
    return rc;
}

void pfl_store_close(struct pfl_store *self)
{
    if (self != NULL)
        self->engine->close(self);
}

void pfl_store_cancel(struct pfl_store *self)
{
    if (self->engine->cancel != NULL)
        self->engine->cancel(self);
}

const char *pfl_store_get_kind(const struct pfl_store *self)
{
    return self->engine->kind;
}

int pfl_store_put_new(struct pfl_store *self, struct pfl_store_put **ret_put)
{
    struct pfl_store_put *put = NULL;
    int rc = self->engine->put_new(self, &put);

    if (rc != 0)
        return rc;
    put->store = self;
    rc = pfl_sha256_new(&put->running);
    if (rc != 0) {
        pfl_store_put_free(put);
        return rc;
    }
    *ret_put = put;
    return 0;
}

void pfl_store_put_free(struct pfl_store_put *put)
{
    if (put == NULL)
        return;
    pfl_store_put_abort(put);
    pfl_sha256_free(put->running);
    put->store->engine->put_free(put);
}

int pfl_store_put_begin(struct pfl_store_put *put, const char *key, uint64_t bytes,
                        const uint8_t sha256[PFL_STORE_SHA_BYTES])
{
    int rc;

    if (put->has_begun)
        return pfl_store_fail(PFL_ESTATE, "the last object was not ended");
    if (!pfl_store_is_key(key))
        return pfl_store_fail(PFL_EINVAL, "no key of a store");
    if (bytes > PFL_STORE_BYTES_MAX)
        return pfl_store_fail(PFL_EINVAL, "%s: an object has at most 1 TiB", key);
    (void)snprintf(put->key, sizeof(put->key), "%s", key);
    put->bytes = bytes;
    put->written = 0;
    memcpy(put->sha256, sha256, sizeof(put->sha256));
    rc = put->store->engine->put_begin(put);
    put->has_begun = rc == 0;
    return rc;
}

int pfl_store_put_write(struct pfl_store_put *put, struct pfl_span bytes)
{
    if (!put->has_begun)
        return pfl_store_fail(PFL_ESTATE, "no object was begun");
    if (bytes.len > put->bytes - put->written)
        return pfl_store_fail(PFL_EPARSE, "%s: longer than its %llu bytes", put->key,
                              (unsigned long long)put->bytes);
    put->written += bytes.len;
    pfl_sha256_add(put->running, bytes);
    return put->store->engine->put_write(put, bytes);
}

static int check_content(struct pfl_store_put *put)
{
    uint8_t sha256[PFL_STORE_SHA_BYTES];
    int rc = pfl_sha256_end(put->running, sha256);

    if (rc != 0)
        return pfl_store_fail(rc, "%s: out of memory", put->key);
    if (put->written != put->bytes)
        return pfl_store_fail(PFL_EPARSE, "%s: %llu bytes instead of %llu", put->key,
                              (unsigned long long)put->written, (unsigned long long)put->bytes);
    if (memcmp(sha256, put->sha256, sizeof(sha256)) != 0)
        return pfl_store_fail(PFL_EPARSE, "%s: its SHA-256 differs", put->key);
    return 0;
}

int pfl_store_put_commit(struct pfl_store_put *put)
{
    int rc;

    if (!put->has_begun)
        return pfl_store_fail(PFL_ESTATE, "no object was begun");
    rc = check_content(put);
    put->has_begun = false;
    if (rc == 0)
        return put->store->engine->put_commit(put);
    put->store->engine->put_abort(put);
    return rc;
}

void pfl_store_put_abort(struct pfl_store_put *put)
{
    uint8_t ignored[PFL_STORE_SHA_BYTES];

    if (!put->has_begun)
        return;
    put->has_begun = false;
    (void)!pfl_sha256_end(put->running, ignored);
    put->store->engine->put_abort(put);
}

int pfl_store_put_all(struct pfl_store_put *put, const char *key, struct pfl_span bytes)
{
    uint8_t sha256[PFL_STORE_SHA_BYTES];
    int rc;

    if (put->has_begun)
        return pfl_store_fail(PFL_ESTATE, "the last object was not ended");
    pfl_sha256_add(put->running, bytes);
    rc = pfl_sha256_end(put->running, sha256);
    if (rc == 0)
        rc = pfl_store_put_begin(put, key, bytes.len, sha256);
    if (rc != 0)
        return rc;
    rc = pfl_store_put_write(put, bytes);
    if (rc == 0)
        return pfl_store_put_commit(put);
    pfl_store_put_abort(put);
    return rc;
}

int pfl_store_get(struct pfl_store *self, const char *key, const struct pfl_store_range *range,
                  pfl_store_on_data on_data, void *user)
{
    if (!pfl_store_is_key(key))
        return pfl_store_fail(PFL_EINVAL, "no key of a store");
    if (range->length == 0)
        return 0;
    return self->engine->get(self, key, range, on_data, user);
}

int pfl_store_head(struct pfl_store *self, const char *key, struct pfl_store_object *ret_object)
{
    if (!pfl_store_is_key(key))
        return pfl_store_fail(PFL_EINVAL, "no key of a store");
    return self->engine->head(self, key, ret_object);
}

int pfl_store_list(struct pfl_store *self, const struct pfl_store_listing *what,
                   struct pfl_store_object *dst, size_t room, size_t *ret_len)
{
    if (!pfl_store_is_prefix(what->prefix) ||
        (what->after[0] != '\0' && !pfl_store_is_prefix(what->after)))
        return pfl_store_fail(PFL_EINVAL, "no prefix of a key of a store");
    *ret_len = 0;
    return room != 0 ? self->engine->list(self, what, dst, room, ret_len) : 0;
}

int pfl_store_delete(struct pfl_store *self, const char *key)
{
    int rc;

    if (!pfl_store_is_key(key))
        return pfl_store_fail(PFL_EINVAL, "no key of a store");
    rc = self->engine->remove(self, key);
    return rc == PFL_ENOENT ? 0 : rc;
}

int pfl_store_presign(struct pfl_store *self, const char *key, uint32_t valid_s, char *dst,
                      size_t room)
{
    if (!pfl_store_is_key(key))
        return pfl_store_fail(PFL_EINVAL, "no key of a store");
    if (valid_s == 0 || valid_s > PFL_STORE_PRESIGN_MAX_S)
        return pfl_store_fail(PFL_ELIMIT, "a link is valid for 1 s to 7 days");
    return self->engine->presign(self, key, valid_s, dst, room);
}

int pfl_store_get_capacity(struct pfl_store *self, struct pfl_store_capacity *ret_capacity)
{
    if (self->engine->get_capacity == NULL)
        return pfl_store_fail(PFL_ENOTSUP, "the store is no file system");
    return self->engine->get_capacity(self, ret_capacity);
}

int pfl_store_sweep(struct pfl_store *self, int64_t age_s, unsigned *ret_count)
{
    *ret_count = 0;
    return self->engine->sweep(self, age_s, ret_count);
}
