/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to S3: signed, sent by libcurl, repeated while they fail for now. A few connections are
 * shared by all threads; a thread waits while all are in use.
 */
#ifndef PFL_COLLECTOR_STORE_S3_HTTP_H
#define PFL_COLLECTOR_STORE_S3_HTTP_H

#include "collector/store/sigv4.h"
#include "collector/store/store.h"

#define PFL_S3_CONNECTIONS  8u
#define PFL_S3_ANSWER_BYTES (512u << 10) /* of an answer in XML */
#define PFL_S3_HEAD_BYTES   (64u << 10)  /* of an answer's fields, with those behind its body */

struct pfl_s3_http;

struct pfl_s3_call {
    const char *method;
    const char *key; /* "": the bucket itself */
    struct pfl_sigv4_pair query[PFL_SIGV4_PAIRS];
    size_t query_len;
    struct pfl_sigv4_pair headers[PFL_SIGV4_PAIRS];
    size_t headers_len;
    /* The body: `body_len` bytes of a file from an offset; or of memory, where body is not NULL. */
    const char *body;
    int fd;
    uint64_t body_at;
    uint64_t body_len;
    const char *sha256; /* of the body; NULL: it has none */
    /* The bytes of an object, as they come; NULL: the answer is kept. */
    struct pfl_store_range range;
    pfl_store_on_data on_data;
    void *user;

    /* Returned: */
    long status;
    uint64_t length;    /* of a HEAD */
    int64_t modified_s; /* likewise */
    char etag[128];     /* of a PUT */
};

/* PFL_EINVAL, PFL_ENOMEM, with the sentence noted. */
PFL_MUST_USE int pfl_s3_http_new(const struct pfl_store_conf *conf, struct pfl_s3_http **ret_http);
void pfl_s3_http_free(struct pfl_s3_http *self); /* NULL is legal */

/* Calls end soon with PFL_EAGAIN, now and later. From any thread. */
void pfl_s3_http_cancel(struct pfl_s3_http *self);

/* A connection, of which `answer` is the answer's memory until it is given back. */
struct pfl_s3_connection;
struct pfl_s3_connection *pfl_s3_http_take(struct pfl_s3_http *self);
void pfl_s3_http_give(struct pfl_s3_http *self, struct pfl_s3_connection *connection);
struct pfl_span pfl_s3_connection_get_answer(const struct pfl_s3_connection *connection);

/* 0: the server answered with 2xx. Errors: those of store.h, and PFL_ECLOSED. */
PFL_MUST_USE int pfl_s3_http_run(struct pfl_s3_http *self, struct pfl_s3_connection *connection,
                                 struct pfl_s3_call *call);
PFL_MUST_USE int pfl_s3_http_presign(struct pfl_s3_http *self, const char *key, uint32_t valid_s,
                                     char *dst, size_t room);

#endif
