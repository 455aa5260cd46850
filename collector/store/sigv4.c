/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signature Version 4: see sigv4.h.
 *
 *     canonical request = method, path, sorted query, sorted headers, their names, body's hash
 *     text              = "AWS4-HMAC-SHA256", time, scope, hash(canonical request)
 *     key               = HMAC(HMAC(HMAC(HMAC("AWS4" secret, day), region), "s3"), "aws4_request")
 *     signature         = HMAC(key, text)
 *
 * Failures: something is too long; libcrypto has no memory. Owns the hash. Source of the format:
 * AWS's "Authenticating Requests (AWS Signature Version 4)" of the S3 API reference.
 */
#include "collector/store/sigv4.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/io/sha256.h"
#include "base/mem.h"

#define TEXT_BYTES  (16u << 10) /* of a canonical request */
#define BLOCK_BYTES 64u
#define KEY_BYTES   160u /* "AWS4" and a secret */
#define NAMES_BYTES 512u

struct text {
    char bytes[TEXT_BYTES];
    size_t len;
    bool has_failed;
};

struct pfl_sigv4 {
    struct pfl_sha256 *sha256; /* owned */
    struct text canonical;
    struct text query;
};

int pfl_sigv4_new(struct pfl_sigv4 **ret_sigv4)
{
    struct pfl_sigv4 *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    rc = pfl_sha256_new(&self->sha256);
    if (rc != 0) {
        pfl_sigv4_free(self);
        return rc;
    }
    *ret_sigv4 = self;
    return 0;
}

void pfl_sigv4_free(struct pfl_sigv4 *self)
{
    if (self == NULL)
        return;
    pfl_sha256_free(self->sha256);
    pfl_mem_free(self);
}

/* -- text -- */

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text->bytes + text->len, sizeof(text->bytes) - text->len, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(text->bytes) - text->len)
        text->has_failed = true;
    else
        text->len += (size_t)len;
}

static void clear(struct text *text)
{
    text->len = 0;
    text->bytes[0] = '\0';
    text->has_failed = false;
}

static bool is_unreserved(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != 0 && strchr("-._~", c) != NULL);
}

static void add_escaped(struct text *text, const char *raw, bool keeps_slash)
{
    for (const unsigned char *c = (const unsigned char *)raw; *c != 0; c++) {
        if (is_unreserved(*c) || (keeps_slash && *c == '/'))
            add(text, "%c", *c);
        else
            add(text, "%%%02X", *c);
    }
}

static void sort(struct pfl_sigv4_pair *pairs, size_t len)
{
    for (size_t i = 1; i < len; i++) {
        struct pfl_sigv4_pair pair = pairs[i];
        size_t at = i;

        for (; at > 0 && strcmp(pair.name, pairs[at - 1].name) < 0; at--)
            pairs[at] = pairs[at - 1];
        pairs[at] = pair;
    }
}

/* -- hashes -- */

void pfl_sigv4_hex(const uint8_t hash[32], char ret_hex[PFL_SIGV4_HEX_BYTES])
{
    for (size_t i = 0; i < 32; i++)
        (void)snprintf(ret_hex + 2 * i, 3, "%02x", hash[i]);
}

int pfl_sigv4_hash(struct pfl_sigv4 *self, struct pfl_span bytes, char ret_hex[PFL_SIGV4_HEX_BYTES])
{
    uint8_t hash[32];
    int rc;

    pfl_sha256_add(self->sha256, bytes);
    rc = pfl_sha256_end(self->sha256, hash);
    if (rc == 0)
        pfl_sigv4_hex(hash, ret_hex);
    return rc;
}

static int hmac(struct pfl_sigv4 *self, struct pfl_span key, struct pfl_span text, uint8_t ret[32])
{
    uint8_t inner[BLOCK_BYTES];
    uint8_t outer[BLOCK_BYTES];
    uint8_t hashed[32];
    int rc;

    if (key.len > BLOCK_BYTES) {
        pfl_sha256_add(self->sha256, key);
        rc = pfl_sha256_end(self->sha256, hashed);
        if (rc != 0)
            return rc;
        key = pfl_span_of(hashed, sizeof(hashed));
    }
    memset(inner, 0x36, sizeof(inner));
    memset(outer, 0x5c, sizeof(outer));
    for (size_t i = 0; i < key.len; i++) {
        inner[i] ^= key.data[i];
        outer[i] ^= key.data[i];
    }
    pfl_sha256_add(self->sha256, pfl_span_of(inner, sizeof(inner)));
    pfl_sha256_add(self->sha256, text);
    rc = pfl_sha256_end(self->sha256, ret);
    if (rc != 0)
        return rc;
    pfl_sha256_add(self->sha256, pfl_span_of(outer, sizeof(outer)));
    pfl_sha256_add(self->sha256, pfl_span_of(ret, 32));
    return pfl_sha256_end(self->sha256, ret);
}

static struct pfl_span span_of(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

struct timestamp {
    char day[9];   /* 20130524 */
    char time[17]; /* 20130524T000000Z */
    char scope[128];
};

static int set_timestamp(const struct pfl_sigv4_request *request, const struct pfl_sigv4_keys *keys,
                         struct timestamp *ret)
{
    struct tm tm;

    if (gmtime_r(&request->now, &tm) == NULL ||
        strftime(ret->day, sizeof(ret->day), "%Y%m%d", &tm) == 0 ||
        strftime(ret->time, sizeof(ret->time), "%Y%m%dT%H%M%SZ", &tm) == 0 ||
        snprintf(ret->scope, sizeof(ret->scope), "%s/%s/s3/aws4_request", ret->day, keys->region) >=
            (int)sizeof(ret->scope))
        return PFL_ELIMIT;
    return 0;
}

/* The signature of self->canonical. */
static int sign(struct pfl_sigv4 *self, const struct pfl_sigv4_keys *keys,
                const struct timestamp *timestamp, char ret_hex[PFL_SIGV4_HEX_BYTES])
{
    char hex[PFL_SIGV4_HEX_BYTES];
    char text[320];
    uint8_t key[KEY_BYTES];
    int len = snprintf((char *)key, sizeof(key), "AWS4%s", keys->secret);
    const char *const parts[] = {timestamp->day, keys->region, "s3", "aws4_request", text};
    int rc;

    if (self->canonical.has_failed || self->query.has_failed || len >= (int)sizeof(key))
        return PFL_ELIMIT;
    rc = pfl_sigv4_hash(self, pfl_span_of(self->canonical.bytes, self->canonical.len), hex);
    (void)snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", timestamp->time,
                   timestamp->scope, hex);
    for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        uint8_t next[32];

        rc = hmac(self, pfl_span_of(key, (size_t)len), span_of(parts[i]), next);
        memcpy(key, next, sizeof(next));
        len = sizeof(next);
    }
    if (rc == 0)
        pfl_sigv4_hex(key, ret_hex);
    explicit_bzero(key, sizeof(key));
    return rc;
}

/* -- requests -- */

static void write_query(struct pfl_sigv4 *self, struct pfl_sigv4_pair *pairs, size_t len)
{
    clear(&self->query);
    sort(pairs, len);
    for (size_t i = 0; i < len; i++) {
        add(&self->query, "%s", i == 0 ? "" : "&");
        add_escaped(&self->query, pairs[i].name, false);
        add(&self->query, "=");
        add_escaped(&self->query, pairs[i].value, false);
    }
}

/* `names`: of the headers, with semicolons. */
static void write_canonical(struct pfl_sigv4 *self, const struct pfl_sigv4_request *request,
                            struct pfl_sigv4_pair *headers, size_t len, char names[NAMES_BYTES])
{
    size_t at = 0;

    clear(&self->canonical);
    add(&self->canonical, "%s\n", request->method);
    add_escaped(&self->canonical, request->path, true);
    add(&self->canonical, "\n%s\n", self->query.bytes);
    sort(headers, len);
    for (size_t i = 0; i < len; i++) {
        add(&self->canonical, "%s:%s\n", headers[i].name, headers[i].value);
        at += (size_t)snprintf(names + at, NAMES_BYTES - at, "%s%s", i == 0 ? "" : ";",
                               headers[i].name);
        if (at >= NAMES_BYTES) {
            self->canonical.has_failed = true;
            return;
        }
    }
    add(&self->canonical, "\n%s\n%s", names, request->sha256);
}

static int write_target(struct pfl_sigv4 *self, const char *path, char *dst)
{
    clear(&self->canonical);
    add_escaped(&self->canonical, path, true);
    if (self->canonical.has_failed || self->query.has_failed ||
        snprintf(dst, PFL_SIGV4_TARGET_BYTES, "%s%s%s", self->canonical.bytes,
                 self->query.len != 0 ? "?" : "", self->query.bytes) >= (int)PFL_SIGV4_TARGET_BYTES)
        return PFL_ELIMIT;
    return 0;
}

static int write_lines(const struct pfl_sigv4_pair *headers, size_t len,
                       struct pfl_sigv4_signed *ret)
{
    ret->lines_len = 0;
    for (size_t i = 0; i < len; i++) {
        if (strcmp(headers[i].name, "host") == 0)
            continue;
        if (snprintf(ret->lines[ret->lines_len++], PFL_SIGV4_LINE_BYTES, "%s: %s", headers[i].name,
                     headers[i].value) >= (int)PFL_SIGV4_LINE_BYTES)
            return PFL_ELIMIT;
    }
    return 0;
}

int pfl_sigv4_sign(struct pfl_sigv4 *self, const struct pfl_sigv4_request *request,
                   const struct pfl_sigv4_keys *keys, struct pfl_sigv4_signed *ret_signed)
{
    struct pfl_sigv4_pair headers[PFL_SIGV4_PAIRS + 4];
    struct pfl_sigv4_pair query[PFL_SIGV4_PAIRS];
    char names[NAMES_BYTES];
    char hex[PFL_SIGV4_HEX_BYTES];
    struct timestamp timestamp;
    size_t len = request->headers_len;
    int rc = set_timestamp(request, keys, &timestamp);

    if (rc != 0)
        return rc;
    memcpy(headers, request->headers, len * sizeof(headers[0]));
    memcpy(query, request->query, request->query_len * sizeof(query[0]));
    headers[len++] = (struct pfl_sigv4_pair){"host", request->host};
    headers[len++] = (struct pfl_sigv4_pair){"x-amz-content-sha256", request->sha256};
    headers[len++] = (struct pfl_sigv4_pair){"x-amz-date", timestamp.time};
    if (keys->token[0] != '\0')
        headers[len++] = (struct pfl_sigv4_pair){"x-amz-security-token", keys->token};
    write_query(self, query, request->query_len);
    write_canonical(self, request, headers, len, names);
    rc = sign(self, keys, &timestamp, hex);
    if (rc == 0)
        rc = write_target(self, request->path, ret_signed->target);
    if (rc == 0)
        rc = write_lines(headers, len, ret_signed);
    if (rc == 0 && snprintf(ret_signed->lines[ret_signed->lines_len++], PFL_SIGV4_LINE_BYTES,
                            "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,"
                            "Signature=%s",
                            keys->id, timestamp.scope, names, hex) >= (int)PFL_SIGV4_LINE_BYTES)
        rc = PFL_ELIMIT;
    return rc;
}

int pfl_sigv4_presign(struct pfl_sigv4 *self, const struct pfl_sigv4_request *request,
                      const struct pfl_sigv4_keys *keys, unsigned valid_s,
                      char ret_target[PFL_SIGV4_TARGET_BYTES])
{
    struct pfl_sigv4_request unsigned_body = *request;
    struct pfl_sigv4_pair host = {"host", request->host};
    struct pfl_sigv4_pair query[6];
    char credential[256];
    char valid[16];
    char names[NAMES_BYTES];
    char hex[PFL_SIGV4_HEX_BYTES];
    struct timestamp timestamp;
    size_t len = 0;
    int rc = set_timestamp(request, keys, &timestamp);

    if (rc != 0 || snprintf(credential, sizeof(credential), "%s/%s", keys->id, timestamp.scope) >=
                       (int)sizeof(credential))
        return PFL_ELIMIT;
    (void)snprintf(valid, sizeof(valid), "%u", valid_s);
    unsigned_body.sha256 = "UNSIGNED-PAYLOAD";
    query[len++] = (struct pfl_sigv4_pair){"X-Amz-Algorithm", "AWS4-HMAC-SHA256"};
    query[len++] = (struct pfl_sigv4_pair){"X-Amz-Credential", credential};
    query[len++] = (struct pfl_sigv4_pair){"X-Amz-Date", timestamp.time};
    query[len++] = (struct pfl_sigv4_pair){"X-Amz-Expires", valid};
    query[len++] = (struct pfl_sigv4_pair){"X-Amz-SignedHeaders", "host"};
    if (keys->token[0] != '\0')
        query[len++] = (struct pfl_sigv4_pair){"X-Amz-Security-Token", keys->token};
    write_query(self, query, len);
    write_canonical(self, &unsigned_body, &host, 1, names);
    rc = sign(self, keys, &timestamp, hex);
    if (rc != 0)
        return rc;
    add(&self->query, "&X-Amz-Signature=%s", hex);
    return write_target(self, request->path, ret_target);
}
