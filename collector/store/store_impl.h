/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine of a store fills in; private to this folder. */
#ifndef PFL_COLLECTOR_STORE_STORE_IMPL_H
#define PFL_COLLECTOR_STORE_STORE_IMPL_H

#include "base/io/sha256.h"
#include "collector/store/store.h"

/* Keys, lengths and hashes are checked before an engine is called. */
struct pfl_store_engine {
    const char *kind;
    void (*close)(struct pfl_store *self);
    void (*cancel)(struct pfl_store *self); /* NULL: no call waits for a server */
    int (*put_new)(struct pfl_store *self, struct pfl_store_put **ret_put);
    void (*put_free)(struct pfl_store_put *put);
    int (*put_begin)(struct pfl_store_put *put);
    int (*put_write)(struct pfl_store_put *put, struct pfl_span bytes);
    int (*put_commit)(struct pfl_store_put *put); /* whether it fails or not, nothing is left */
    void (*put_abort)(struct pfl_store_put *put);
    int (*get)(struct pfl_store *self, const char *key, const struct pfl_store_range *range,
               pfl_store_on_data on_data, void *user);
    int (*head)(struct pfl_store *self, const char *key, struct pfl_store_object *ret_object);
    int (*list)(struct pfl_store *self, const struct pfl_store_listing *what,
                struct pfl_store_object *dst, size_t room, size_t *ret_len);
    int (*remove)(struct pfl_store *self, const char *key);
    int (*presign)(struct pfl_store *self, const char *key, uint32_t valid_s, char *dst,
                   size_t room);
    int (*get_capacity)(struct pfl_store *self,
                        struct pfl_store_capacity *ret_capacity); /* NULL: no file system */
    int (*sweep)(struct pfl_store *self, int64_t age_s, unsigned *ret_count);
};

struct pfl_store { /* the first member of an engine's own */
    const struct pfl_store_engine *engine;
};

struct pfl_store_put {          /* likewise */
    struct pfl_store *store;    /* borrowed: outlives the put */
    struct pfl_sha256 *running; /* owned */
    char key[PFL_STORE_KEY_BYTES];
    uint64_t bytes;   /* promised */
    uint64_t written; /* so far */
    uint8_t sha256[PFL_STORE_SHA_BYTES];
    bool has_begun;
};

int pfl_store_folder_open(const struct pfl_store_conf *conf, struct pfl_store **ret_store);
int pfl_store_s3_open(const struct pfl_store_conf *conf, struct pfl_store **ret_store);

#endif
