/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where traces are kept: objects of bytes under keys. An object is visible as a whole or not at
 * all. Engines: a folder (store_folder.c) and S3 (store_s3.c).
 *
 * Calls block: they run on worker threads. A store may be used by several threads at a time, a put
 * by one. Only open, close, put_new and put_free use base/mem: call them where the program may
 * allocate; the others may be called in any thread.
 *
 * Errors of all calls: PFL_EAGAIN (the store is slow, busy or unreachable: try later), PFL_EFULL
 * (no room), PFL_EPERM (the store refuses the access), PFL_EIO (a device or the store failed),
 * PFL_EINVAL (the key is malformed), PFL_ENOMEM. pfl_store_get_error has the sentence.
 */
#ifndef PFL_COLLECTOR_STORE_STORE_H
#define PFL_COLLECTOR_STORE_STORE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "collector/store/store_error.h"
#include "collector/store/store_key.h"

#define PFL_STORE_STAGING_DIR   "/var/tmp"
#define PFL_STORE_URL_BYTES     4096u
#define PFL_STORE_SHA_BYTES     32u
#define PFL_STORE_BYTES_MAX     (UINT64_C(1) << 40) /* of an object */
#define PFL_STORE_PRESIGN_MAX_S 604800u             /* 7 days: S3's own limit */

struct pfl_store;
struct pfl_store_put; /* one object on its way in; reused for many */

struct pfl_store_conf {
    const char *where; /* "DIR", or "s3://BUCKET" or "s3://BUCKET/PREFIX" */

    /* S3 only. NULL: the default. */
    const char *endpoint; /* "https://HOST[:PORT]"; default: AWS's of the region */
    const char *region;   /* default: $AWS_REGION, else us-east-1 */
    /* As AWS's tools have it; default: $AWS_SHARED_CREDENTIALS_FILE. Read again when it changed. */
    const char *credentials_file;
    const char *profile;     /* in that file; default: $AWS_PROFILE, else "default" */
    const char *ca_file;     /* default: the system's */
    const char *proxy;       /* default: $https_proxy and its kin, as curl has them */
    const char *encryption;  /* "AES256", "aws:kms" or "aws:kms:KEY-ID" */
    const char *staging_dir; /* of what the store does not have yet; default: /var/tmp */
    bool has_path_style;     /* ENDPOINT/BUCKET/KEY instead of BUCKET.ENDPOINT/KEY */
    unsigned timeout_s;      /* with less than 8 KiB in each second; 0: 30 */
    unsigned tries;          /* of a request that fails for now; 0: 5 */
};

/* Why settings are refused. */
struct pfl_store_refusal {
    const char *setting; /* static; as perfleet-collector calls it: "s3_endpoint" */
    const char *what;    /* static; "wants https://HOST[:PORT]" */
    const char *value;   /* borrowed from the settings; NULL: none, or a secret */
};

struct pfl_store_object {
    char key[PFL_STORE_KEY_BYTES];
    uint64_t bytes;
    int64_t modified_s; /* Unix time */
};

struct pfl_store_range {
    uint64_t offset;
    uint64_t length; /* UINT64_MAX: to the end */
};

struct pfl_store_listing {
    const char *prefix;
    const char *after;
};

/* A piece of an object. False: no more is needed; the get returns PFL_ECLOSED. */
typedef bool (*pfl_store_on_data)(void *user, struct pfl_span bytes);

/* Whether the settings are good, as far as this is known without a connection. */
bool pfl_store_judge(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret_refusal);
/* `ret_why` (PFL_STORE_WHY_BYTES): a sentence. PFL_EINVAL: the settings; PFL_ENOENT: the folder;
 * PFL_EPERM, PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_store_open(const struct pfl_store_conf *conf, char *ret_why,
                                struct pfl_store **ret_store);
void pfl_store_close(struct pfl_store *self); /* NULL is legal; no put may be left */
/* Calls that wait for a server, now or later, end soon with PFL_EAGAIN. From any thread. */
void pfl_store_cancel(struct pfl_store *self);
/* "folder" or "s3". */
const char *pfl_store_get_kind(const struct pfl_store *self);

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_store_put_new(struct pfl_store *self, struct pfl_store_put **ret_put);
void pfl_store_put_free(struct pfl_store_put *put); /* aborts; NULL is legal */
/* Begins an object of that length and SHA-256. PFL_ESTATE: the last one was not ended. */
PFL_MUST_USE int pfl_store_put_begin(struct pfl_store_put *put, const char *key, uint64_t bytes,
                                     const uint8_t sha256[PFL_STORE_SHA_BYTES]);
/* PFL_EPARSE: more than its length. After an error only abort is legal. */
PFL_MUST_USE int pfl_store_put_write(struct pfl_store_put *put, struct pfl_span bytes);
/* The object is durable and visible when this returns 0. PFL_EPARSE: its length or SHA-256 differs.
 * After an error nothing is kept, and the put may begin again. An object under this key is
 * replaced. */
PFL_MUST_USE int pfl_store_put_commit(struct pfl_store_put *put);
void pfl_store_put_abort(struct pfl_store_put *put);
/* All in one: a small object, such as a sidecar. */
PFL_MUST_USE int pfl_store_put_all(struct pfl_store_put *put, const char *key,
                                   struct pfl_span bytes);

/* `length` bytes from `offset`, or up to the end: fewer are no error. PFL_ENOENT, PFL_ECLOSED. */
PFL_MUST_USE int pfl_store_get(struct pfl_store *self, const char *key,
                               const struct pfl_store_range *range, pfl_store_on_data on_data,
                               void *user);
/* PFL_ENOENT. */
PFL_MUST_USE int pfl_store_head(struct pfl_store *self, const char *key,
                                struct pfl_store_object *ret_object);
/* Keys that begin with `prefix` and are above `after` ("": from the first), ascending by bytes; at
 * most `room`. Fewer than `room`: there are no more. */
PFL_MUST_USE int pfl_store_list(struct pfl_store *self, const struct pfl_store_listing *what,
                                struct pfl_store_object *dst, size_t room, size_t *ret_len);
/* 0 also if it is not there. */
PFL_MUST_USE int pfl_store_delete(struct pfl_store *self, const char *key);
/* A URL by which any client may read the object for `valid_s` seconds. PFL_ENOTSUP: a folder;
 * PFL_ELIMIT: longer than PFL_STORE_PRESIGN_MAX_S, or than `room`. */
PFL_MUST_USE int pfl_store_presign(struct pfl_store *self, const char *key, uint32_t valid_s,
                                   char *dst, size_t room);
struct pfl_store_capacity {
    uint64_t bytes;
    uint64_t files; /* with folders; 0: it has no bound, or does not say */
};
/* Of the file system that it is on. PFL_ENOTSUP: it is none. */
PFL_MUST_USE int pfl_store_get_capacity(struct pfl_store *self,
                                        struct pfl_store_capacity *ret_capacity);
/* Removes what puts left that did not end: temporary files, parts of uploads. Those that are
 * younger than `age_s` stay. `ret_count`: how many were removed. */
PFL_MUST_USE int pfl_store_sweep(struct pfl_store *self, int64_t age_s, unsigned *ret_count);

#endif
