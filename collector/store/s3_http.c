/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to S3: see s3_http.h.
 *
 * Happy path: take a connection, sign, perform, judge the status. 5xx, 429, 408 and whatever fails
 * below HTTP are repeated after a random wait that doubles up to WAIT_MAX_MS; a read that broke off
 * continues where it was. 401 and 403 are final, and so are other answers. Redirects are never
 * followed: a signature is for one host.
 *
 * Owns the connections (libcurl's handles) and the keys. Limits: PFL_S3_CONNECTIONS,
 * PFL_S3_ANSWER_BYTES, PFL_S3_HEAD_BYTES.
 */
#include "collector/store/s3_http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "collector/store/s3_credentials.h"
#include "collector/store/s3_xml.h"

#define WAIT_MIN_MS  100u
#define WAIT_MAX_MS  10000u
#define WAIT_STEP_MS 100u  /* a wait looks so often whether it is cancelled */
#define SLOW_BYTES   8192L /* a second; slower for timeout_s is a timeout */
#define CONNECT_S    10L
#define TIMEOUT_S    30u
#define TRIES        5u
#define HOST_BYTES   256u
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct pfl_s3_connection {
    CURL *curl; /* owned */
    struct pfl_sigv4 *sigv4;
    struct pfl_sigv4_signed request;
    struct pfl_s3_credentials keys;
    bool is_taken;
    /* Of the request that is under way. */
    struct pfl_s3_call *call;
    uint64_t sent;
    uint64_t received; /* of the object, over all tries */
    uint64_t to_skip;  /* of an answer that ignores the range */
    bool is_stopped;
    bool has_begun; /* the answer's body */
    bool is_wrong;  /* the answer is of another range */
    uint64_t range_begin;
    bool has_range;
    size_t head_len; /* of the answer */
    char answer[PFL_S3_ANSWER_BYTES];
    size_t answer_len;
};

struct pfl_s3_http {
    char scheme[8];
    char host[HOST_BYTES];
    char path[PFL_STORE_KEY_BYTES]; /* before keys: "/", "/BUCKET/", with the prefix */
    char region[64];
    char ca_file[512];
    char proxy[512];
    unsigned timeout_s;
    unsigned tries;
    size_t bucket_len; /* of `path`: the bucket's own */
    pthread_mutex_t lock;
    pthread_cond_t is_free;
    atomic_bool is_cancelled;
    struct pfl_s3_credentials keys; /* guarded by lock */
    struct pfl_s3_connection connections[PFL_S3_CONNECTIONS];
};

/* -- settings -- */

static const char *or_environment(const char *value, const char *variable, const char *otherwise)
{
    if (value != NULL)
        return value;
    value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : otherwise;
}

/* The host as clients write it into the header that is signed: in lower case, without a port that
 * is the scheme's own, and without leading zeros of another. */
static void set_authority(char name[HOST_BYTES], const char *authority, bool is_http)
{
    char *colon;
    long port;

    (void)snprintf(name, HOST_BYTES, "%s", authority);
    for (char *c = name; *c != '\0'; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
    colon = strrchr(name, ':');
    if (colon == NULL || strchr(colon, ']') != NULL)
        return;
    port = strtol(colon + 1, NULL, 10);
    *colon = '\0';
    if (port != (is_http ? 80 : 443))
        (void)snprintf(colon, HOST_BYTES - (size_t)(colon - name), ":%ld", port);
}

/* Scheme, host and the path before keys; s3_settings.c has judged them. */
static int set_place(struct pfl_s3_http *self, const struct pfl_store_conf *conf)
{
    const char *bucket = conf->where + strlen("s3://");
    size_t bucket_len = strcspn(bucket, "/");
    const char *prefix = bucket[bucket_len] == '/' ? bucket + bucket_len + 1 : "";
    const char *endpoint = or_environment(conf->endpoint, "AWS_ENDPOINT_URL", NULL);
    bool is_http = endpoint != NULL && strncmp(endpoint, "http://", 7) == 0;
    const char *host = endpoint != NULL ? strstr(endpoint, "://") : NULL;
    char name[HOST_BYTES];
    int len;

    (void)snprintf(self->scheme, sizeof(self->scheme), "%s", is_http ? "http" : "https");
    if (host != NULL)
        set_authority(name, host + 3, is_http);
    else
        (void)snprintf(name, sizeof(name), "s3.%s.amazonaws.com", self->region);
    len = conf->has_path_style
              ? snprintf(self->host, sizeof(self->host), "%s", name)
              : snprintf(self->host, sizeof(self->host), "%.*s.%s", (int)bucket_len, bucket, name);
    if (len >= (int)sizeof(self->host))
        return pfl_store_fail(PFL_EINVAL, "the endpoint's name is too long");
    self->bucket_len = (size_t)snprintf(self->path, sizeof(self->path), "/%.*s%s",
                                        conf->has_path_style ? (int)bucket_len : 0, bucket,
                                        conf->has_path_style ? "/" : "");
    (void)snprintf(self->path + self->bucket_len, sizeof(self->path) - self->bucket_len, "%s%s",
                   prefix, prefix[0] != '\0' ? "/" : "");
    return 0;
}

static int set_up(struct pfl_s3_http *self, const struct pfl_store_conf *conf)
{
    int rc;

    (void)snprintf(self->region, sizeof(self->region), "%s",
                   or_environment(conf->region, "AWS_REGION", "us-east-1"));
    (void)snprintf(self->ca_file, sizeof(self->ca_file), "%s",
                   conf->ca_file != NULL ? conf->ca_file : "");
    (void)snprintf(self->proxy, sizeof(self->proxy), "%s", conf->proxy != NULL ? conf->proxy : "");
    self->timeout_s = conf->timeout_s != 0 ? conf->timeout_s : TIMEOUT_S;
    self->tries = conf->tries != 0 ? conf->tries : TRIES;
    rc = set_place(self, conf);
    if (rc == 0)
        rc = pfl_s3_credentials_load(&self->keys, conf);
    for (unsigned i = 0; rc == 0 && i < PFL_S3_CONNECTIONS; i++) {
        self->connections[i].curl = curl_easy_init();
        rc = self->connections[i].curl != NULL ? pfl_sigv4_new(&self->connections[i].sigv4)
                                               : PFL_ENOMEM;
    }
    return rc;
}

int pfl_s3_http_new(const struct pfl_store_conf *conf, struct pfl_s3_http **ret_http)
{
    struct pfl_s3_http *self;
    int rc;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return PFL_ENOMEM;
    self = pfl_mem_zalloc(sizeof(*self));
    if (self == NULL)
        return PFL_ENOMEM;
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_cond_init(&self->is_free, NULL);
    rc = set_up(self, conf);
    if (rc != 0) {
        pfl_s3_http_free(self);
        return rc;
    }
    *ret_http = self;
    return 0;
}

void pfl_s3_http_free(struct pfl_s3_http *self)
{
    if (self == NULL)
        return;
    for (unsigned i = 0; i < PFL_S3_CONNECTIONS; i++) {
        curl_easy_cleanup(self->connections[i].curl);
        pfl_sigv4_free(self->connections[i].sigv4);
    }
    (void)pthread_cond_destroy(&self->is_free);
    (void)pthread_mutex_destroy(&self->lock);
    explicit_bzero(&self->keys, sizeof(self->keys));
    pfl_mem_free(self);
}

struct pfl_s3_connection *pfl_s3_http_take(struct pfl_s3_http *self)
{
    struct pfl_s3_connection *found = NULL;

    (void)pthread_mutex_lock(&self->lock);
    while (found == NULL) {
        for (unsigned i = 0; found == NULL && i < PFL_S3_CONNECTIONS; i++)
            if (!self->connections[i].is_taken)
                found = &self->connections[i];
        if (found == NULL)
            (void)pthread_cond_wait(&self->is_free, &self->lock);
    }
    found->is_taken = true;
    (void)pthread_mutex_unlock(&self->lock);
    return found;
}

void pfl_s3_http_give(struct pfl_s3_http *self, struct pfl_s3_connection *connection)
{
    (void)pthread_mutex_lock(&self->lock);
    connection->is_taken = false;
    (void)pthread_cond_signal(&self->is_free);
    (void)pthread_mutex_unlock(&self->lock);
}

struct pfl_span pfl_s3_connection_get_answer(const struct pfl_s3_connection *connection)
{
    return pfl_span_of(connection->answer, connection->answer_len);
}

void pfl_s3_http_cancel(struct pfl_s3_http *self)
{
    atomic_store(&self->is_cancelled, true);
}

/* -- libcurl's callbacks -- */

/* libcurl asks once a second, or more often. */
static int on_progress(void *user, curl_off_t to_get, curl_off_t got, curl_off_t to_send,
                       curl_off_t sent)
{
    struct pfl_s3_http *self = user;

    (void)to_get;
    (void)got;
    (void)to_send;
    (void)sent;
    return atomic_load(&self->is_cancelled) ? 1 : 0;
}

static size_t send_body(char *dst, size_t size, size_t count, void *user)
{
    struct pfl_s3_connection *c = user;
    uint64_t left = c->call->body_len - c->sent;
    size_t len = size * count < left ? size * count : (size_t)left;
    ssize_t n = (ssize_t)len;

    if (c->call->body != NULL)
        memcpy(dst, c->call->body + c->sent, len);
    else
        n = pread(c->call->fd, dst, len, (off_t)(c->call->body_at + c->sent));
    if (n < 0)
        return CURL_READFUNC_ABORT;
    c->sent += (uint64_t)n;
    return (size_t)n;
}

static int rewind_body(void *user, curl_off_t offset, int origin)
{
    struct pfl_s3_connection *c = user;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > c->call->body_len)
        return CURL_SEEKFUNC_FAIL;
    c->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t keep_answer(struct pfl_s3_connection *c, const char *data, size_t len)
{
    if (len > sizeof(c->answer) - c->answer_len)
        return 0;
    memcpy(c->answer + c->answer_len, data, len);
    c->answer_len += len;
    return len;
}

/* The piece of an answer of 200 that the range did not ask for is left out. False: no more is
 * wanted, and what follows the range may be without end. */
static bool pass_object(struct pfl_s3_connection *c, const char *data, size_t len)
{
    const struct pfl_store_range *range = &c->call->range;
    size_t skipped = c->to_skip < len ? (size_t)c->to_skip : len;
    uint64_t wanted = range->length - c->received;

    c->to_skip -= skipped;
    data += skipped;
    len -= skipped;
    if (len == 0)
        return true;
    if (wanted == 0)
        return false;
    if (len > wanted)
        len = (size_t)wanted;
    c->received += len;
    c->is_stopped = !c->call->on_data(c->call->user, pfl_span_of(data, len));
    return !c->is_stopped;
}

static size_t take_body(char *data, size_t size, size_t count, void *user)
{
    struct pfl_s3_connection *c = user;
    size_t len = size * count;
    long status = 0;

    (void)curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    if (c->call->on_data == NULL || status / 100 != 2)
        return keep_answer(c, data, len);
    if (!c->has_begun && status == 206) {
        c->is_wrong = !c->has_range || c->range_begin != c->to_skip;
        c->to_skip = 0;
    }
    c->has_begun = true;
    if (c->is_wrong)
        return 0;
    return pass_object(c, data, len) ? len : 0;
}

static size_t take_header(char *data, size_t size, size_t count, void *user)
{
    struct pfl_s3_connection *c = user;
    size_t len = size * count;
    char line[256];
    unsigned long long begin;

    c->head_len += len;
    if (c->head_len > PFL_S3_HEAD_BYTES)
        return 0; /* libcurl keeps all fields, also those that follow a body */
    if (len >= sizeof(line))
        return len;
    memcpy(line, data, len);
    line[len] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (strncasecmp(line, "etag: ", 6) == 0)
        (void)snprintf(c->call->etag, sizeof(c->call->etag), "%.120s", line + 6);
    if (strncasecmp(line, "content-range: bytes ", 21) == 0) {
        char *end;

        begin = strtoull(line + 21, &end, 10);
        c->has_range = *end == '-';
        c->range_begin = begin;
    }
    return len;
}

/* -- one try -- */

static void set_options(struct pfl_s3_http *self, struct pfl_s3_connection *c, const char *url)
{
    CURL *curl = c->curl;
    bool has_body = c->call->sha256 != NULL;

    curl_easy_reset(curl);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, self->scheme);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)self->timeout_s);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, self);
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, c->call->method);
    (void)curl_easy_setopt(curl, CURLOPT_NOBODY, (long)(strcmp(c->call->method, "HEAD") == 0));
    (void)curl_easy_setopt(curl, CURLOPT_FILETIME, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, c);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, c);
    if (self->ca_file[0] != '\0')
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, self->ca_file);
    if (self->proxy[0] != '\0')
        (void)curl_easy_setopt(curl, CURLOPT_PROXY, self->proxy);
    if (!has_body)
        return;
    (void)curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->call->body_len);
    (void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_body);
    (void)curl_easy_setopt(curl, CURLOPT_READDATA, c);
    (void)curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, rewind_body);
    (void)curl_easy_setopt(curl, CURLOPT_SEEKDATA, c);
}

static int get_keys(struct pfl_s3_http *self, struct pfl_s3_credentials *ret_keys)
{
    int rc;

    (void)pthread_mutex_lock(&self->lock);
    rc = pfl_s3_credentials_renew(&self->keys, time(NULL));
    *ret_keys = self->keys;
    (void)pthread_mutex_unlock(&self->lock);
    return rc;
}

static int write_path(const struct pfl_s3_http *self, const char *key,
                      char dst[2 * PFL_STORE_KEY_BYTES])
{
    int len = key[0] == '\0' ? snprintf(dst, 2 * PFL_STORE_KEY_BYTES, "%.*s", (int)self->bucket_len,
                                        self->path)
                             : snprintf(dst, 2 * PFL_STORE_KEY_BYTES, "%s%s", self->path, key);

    return len < (int)(2 * PFL_STORE_KEY_BYTES) ? 0 : PFL_ELIMIT;
}

static int sign_call(struct pfl_s3_http *self, struct pfl_s3_connection *c, const char *range)
{
    struct pfl_sigv4_request request = {.method = c->call->method,
                                        .host = self->host,
                                        .query_len = c->call->query_len,
                                        .headers_len = c->call->headers_len,
                                        .sha256 = c->call->sha256 != NULL ? c->call->sha256
                                                                          : EMPTY_SHA256,
                                        .now = time(NULL)};
    struct pfl_sigv4_keys keys = {c->keys.id, c->keys.secret, c->keys.token, self->region};
    char path[2 * PFL_STORE_KEY_BYTES];
    int rc = write_path(self, c->call->key, path);

    if (rc != 0)
        return rc;
    request.path = path;
    memcpy(request.query, c->call->query, sizeof(request.query));
    memcpy(request.headers, c->call->headers, sizeof(request.headers));
    if (range[0] != '\0')
        request.headers[request.headers_len++] = (struct pfl_sigv4_pair){"range", range};
    return pfl_sigv4_sign(c->sigv4, &request, &keys, &c->request);
}

static void write_range(const struct pfl_s3_connection *c, char *dst, size_t room)
{
    uint64_t begin = c->call->range.offset + c->received;
    uint64_t left = c->call->range.length - c->received;

    dst[0] = '\0';
    if (c->call->on_data == NULL || (begin == 0 && left == UINT64_MAX))
        return; /* the whole object: some stores know no range of an empty one */
    if (c->call->range.length == UINT64_MAX || left > UINT64_MAX - begin)
        (void)snprintf(dst, room, "bytes=%llu-", (unsigned long long)begin);
    else
        (void)snprintf(dst, room, "bytes=%llu-%llu", (unsigned long long)begin,
                       (unsigned long long)(begin + left - 1));
}

static struct curl_slist *write_headers(const struct pfl_s3_connection *c)
{
    /* Neither "100 Continue" nor a type that libcurl would choose. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    for (size_t i = 0; i < c->request.lines_len; i++) {
        struct curl_slist *longer = curl_slist_append(list, c->request.lines[i]);

        if (list == NULL || longer == NULL) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

static void note_result(struct pfl_s3_connection *c)
{
    curl_off_t length = 0;
    curl_off_t modified = 0;

    (void)curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &c->call->status);
    (void)curl_easy_getinfo(c->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void)curl_easy_getinfo(c->curl, CURLINFO_FILETIME_T, &modified);
    c->call->length = length > 0 ? (uint64_t)length : 0;
    c->call->modified_s = modified;
}

static int perform(struct pfl_s3_http *self, struct pfl_s3_connection *c, CURLcode *ret_code)
{
    char url[PFL_SIGV4_TARGET_BYTES + HOST_BYTES + 16];
    char range[64];
    struct curl_slist *headers;
    int rc = get_keys(self, &c->keys);

    write_range(c, range, sizeof(range));
    if (rc == 0)
        rc = sign_call(self, c, range);
    if (rc != 0)
        return rc;
    headers = write_headers(c);
    if (headers == NULL)
        return PFL_ENOMEM;
    (void)snprintf(url, sizeof(url), "%s://%s%s", self->scheme, self->host, c->request.target);
    set_options(self, c, url);
    (void)curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    c->sent = 0;
    c->answer_len = 0;
    c->head_len = 0;
    c->is_wrong = false;
    c->has_begun = false;
    c->has_range = false;
    c->range_begin = 0;
    c->to_skip = c->call->range.offset + c->received; /* unless the answer is 206 */
    *ret_code = curl_easy_perform(c->curl);
    note_result(c);
    curl_slist_free_all(headers);
    explicit_bzero(&c->keys, sizeof(c->keys));
    return 0;
}

/* -- what came of it -- */

/* Of what a sentence speaks. */
static const char *name_of(const struct pfl_s3_call *call)
{
    return call->key[0] != '\0' ? call->key : "the bucket";
}

static void read_code(const struct pfl_s3_connection *c, char *dst, size_t room)
{
    struct pfl_span error;
    struct pfl_span code;

    if (pfl_s3_xml_open(pfl_s3_connection_get_answer(c), "Error", &error) != 0 ||
        pfl_s3_xml_find(error, "Code", &code) != 0 || pfl_s3_xml_text(code, false, dst, room) != 0)
        (void)snprintf(dst, room, "no reason");
}

static int judge_status(const struct pfl_s3_connection *c)
{
    const char *name = name_of(c->call);
    long status = c->call->status;
    char code[64];

    if (status / 100 == 2 || (status == 416 && c->call->on_data != NULL))
        return 0; /* 416: the object ends before the range */
    read_code(c, code, sizeof(code));
    if (status == 507 || strcmp(code, "QuotaExceeded") == 0)
        return pfl_store_fail(PFL_EFULL, "%.160s: %ld %s", name, status, code);
    if (status == 404)
        return pfl_store_fail(PFL_ENOENT, "%.160s: %ld %s", name, status, code);
    if (status == 401 || status == 403)
        return pfl_store_fail(PFL_EPERM, "%.160s: %ld %s", name, status, code);
    if (status == 501)
        return pfl_store_fail(PFL_ENOTSUP, "%.160s: %ld %s", name, status, code);
    if (status / 100 == 5 || status == 429 || status == 408)
        return pfl_store_fail(PFL_EAGAIN, "%.160s: %ld %s", name, status, code);
    return pfl_store_fail(PFL_EIO, "%.160s: %ld %s", name, status, code);
}

static int judge_try(const struct pfl_s3_connection *c, CURLcode code)
{
    const char *name = name_of(c->call);

    if (c->is_stopped)
        return pfl_store_fail(PFL_ECLOSED, "%.160s: no more is needed", name);
    if (c->is_wrong)
        return pfl_store_fail(PFL_EIO, "%.160s: the answer is another part of it", name);
    if (c->call->range.length != 0 && c->call->on_data != NULL &&
        c->received == c->call->range.length)
        return 0; /* whatever follows was not asked for */
    if (code == CURLE_OK)
        return judge_status(c);
    if (code == CURLE_OUT_OF_MEMORY)
        return PFL_ENOMEM;
    if (code == CURLE_WRITE_ERROR)
        return pfl_store_fail(PFL_EIO, "%.160s: the answer is too long", name);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return pfl_store_fail(PFL_EPERM, "%.160s: %s", name, curl_easy_strerror(code));
    return pfl_store_fail(PFL_EAGAIN, "%.160s: %s", name, curl_easy_strerror(code));
}

/* Full jitter: from 0 to what doubles. */
static void wait_before(struct pfl_s3_http *self, unsigned try)
{
    unsigned left;
    unsigned most = WAIT_MIN_MS << (try < 8 ? try : 8);
    uint32_t random = 0;

    (void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
    most = most < WAIT_MAX_MS ? most : WAIT_MAX_MS;
    for (left = random % most; left != 0 && !atomic_load(&self->is_cancelled);) {
        unsigned step = left < WAIT_STEP_MS ? left : WAIT_STEP_MS;

        (void)usleep(1000 * step);
        left -= step;
    }
}

int pfl_s3_http_run(struct pfl_s3_http *self, struct pfl_s3_connection *c, struct pfl_s3_call *call)
{
    int rc = PFL_EAGAIN;

    c->call = call;
    c->received = 0;
    c->is_stopped = false;
    for (unsigned i = 0; rc == PFL_EAGAIN && i < self->tries; i++) {
        CURLcode code = CURLE_OK;

        if (i != 0)
            wait_before(self, i);
        if (atomic_load(&self->is_cancelled))
            return pfl_store_fail(PFL_EAGAIN, "%.160s: cancelled", name_of(call));
        rc = perform(self, c, &code);
        if (rc == 0)
            rc = judge_try(c, code);
    }
    c->call = NULL;
    return rc;
}

int pfl_s3_http_presign(struct pfl_s3_http *self, const char *key, uint32_t valid_s, char *dst,
                        size_t room)
{
    struct pfl_s3_connection *c = pfl_s3_http_take(self);
    struct pfl_sigv4_request request = {.method = "GET", .host = self->host, .now = time(NULL)};
    struct pfl_sigv4_keys keys = {c->keys.id, c->keys.secret, c->keys.token, self->region};
    char path[2 * PFL_STORE_KEY_BYTES];
    int rc = get_keys(self, &c->keys);

    request.path = path;
    if (rc == 0)
        rc = write_path(self, key, path);
    if (rc == 0)
        rc = pfl_sigv4_presign(c->sigv4, &request, &keys, valid_s, c->request.target);
    explicit_bzero(&c->keys, sizeof(c->keys));
    if (rc == 0 &&
        snprintf(dst, room, "%s://%s%s", self->scheme, self->host, c->request.target) >= (int)room)
        rc = pfl_store_fail(PFL_ELIMIT, "%.160s: the link is too long", key);
    pfl_s3_http_give(self, c);
    return rc;
}
