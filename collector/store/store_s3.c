/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a bucket of S3, or of what speaks S3's protocol.
 *
 * A put: its bytes go into a file without a name, on a local disk; at commit, when length and
 * SHA-256 are known to be right, the file is sent: in one request with that SHA-256, or above
 * PART_BYTES in parts. So a request can be repeated, and the store checks what it got. At last the
 * store is asked for the object's length. A part's upload that fails is aborted; what a killed
 * process left, sweep aborts.
 *
 * Failures: s3_http.h; a full local disk; a list with keys that nobody asked for. Owns the files.
 * Limits: PARTS_MAX parts; PFL_S3_CONNECTIONS; LIST_PAGES answers of a list.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collector/store/disk_room.h"
#include "collector/store/s3_http.h"
#include "collector/store/s3_xml.h"
#include "collector/store/store_impl.h"

#define PART_BYTES    (UINT64_C(64) << 20) /* above it, in parts */
#define PARTS_MAX     1000u
#define ETAG_BYTES    80u
#define UPLOAD_BYTES  512u
#define LIST_MAX      500u /* objects of one answer */
#define LIST_PAGES    16u  /* answers of one list, and one for each key of ours */
#define LIST_S        60   /* for one list, and to abort the uploads of one */
#define CHECKS        6u
#define CHECK_WAIT_US 25000u
#define BODY_BYTES    (64u + PARTS_MAX * (ETAG_BYTES + 96u))

struct s3_store {
    struct pfl_store base;
    struct pfl_s3_http *http; /* owned */
    char staging_dir[256];
    char encryption[32]; /* "": none */
    char encryption_key[256];
    char prefix[PFL_STORE_KEY_BYTES]; /* of all keys; "" or with a final slash */
};

struct s3_put {
    struct pfl_store_put base;
    int fd;                    /* owned; -1: none */
    struct pfl_disk_room room; /* for it */
    struct pfl_sha256 *part;   /* owned: of a part */
    char upload[UPLOAD_BYTES];
    char etags[PARTS_MAX][ETAG_BYTES];
    char body[BODY_BYTES];
};

static struct s3_store *store_of(struct pfl_store *base)
{
    return (struct s3_store *)base;
}

static struct s3_put *put_of(struct pfl_store_put *base)
{
    return (struct s3_put *)base;
}

static void add_query(struct pfl_s3_call *call, const char *name, const char *value)
{
    call->query[call->query_len++] = (struct pfl_sigv4_pair){name, value};
}

static void add_header(struct pfl_s3_call *call, const char *name, const char *value)
{
    if (value[0] != '\0')
        call->headers[call->headers_len++] = (struct pfl_sigv4_pair){name, value};
}

/* Of a call whose answer is of no interest. */
static int run(struct s3_store *self, struct pfl_s3_call *call)
{
    struct pfl_s3_connection *connection = pfl_s3_http_take(self->http);
    int rc = pfl_s3_http_run(self->http, connection, call);

    pfl_s3_http_give(self->http, connection);
    return rc;
}

/* -- put -- */

static void put_free(struct pfl_store_put *base)
{
    pfl_sha256_free(put_of(base)->part);
    pfl_mem_free(base);
}

static int put_new(struct pfl_store *base, struct pfl_store_put **ret_put)
{
    struct s3_put *put = pfl_mem_zalloc(sizeof(*put));
    int rc;

    (void)base;
    if (put == NULL)
        return PFL_ENOMEM;
    put->fd = -1;
    rc = pfl_sha256_new(&put->part);
    if (rc != 0) {
        pfl_mem_free(put);
        return rc;
    }
    *ret_put = &put->base;
    return 0;
}

static void put_abort(struct pfl_store_put *base)
{
    if (put_of(base)->fd >= 0)
        (void)close(put_of(base)->fd);
    put_of(base)->fd = -1;
}

static int put_begin(struct pfl_store_put *base)
{
    struct s3_put *put = put_of(base);
    int rc;

    put->fd = open(store_of(base->store)->staging_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (put->fd < 0)
        return pfl_store_fail_errno("stage", base->key);
    if (pfl_disk_room_begin(&put->room, put->fd, base->bytes) == 0)
        return 0;
    rc = pfl_store_fail_errno("reserve room for", base->key);
    put_abort(base);
    return rc;
}

static int put_write(struct pfl_store_put *base, struct pfl_span bytes)
{
    if (pfl_disk_room_take(&put_of(base)->room, base->written) != 0)
        return pfl_store_fail_errno("reserve room for", base->key);
    while (bytes.len != 0) {
        ssize_t n = write(put_of(base)->fd, bytes.data, bytes.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pfl_store_fail_errno("stage", base->key);
        bytes.data += n;
        bytes.len -= (size_t)n;
    }
    return 0;
}

static void add_encryption(const struct s3_store *self, struct pfl_s3_call *call)
{
    add_header(call, "x-amz-server-side-encryption", self->encryption);
    add_header(call, "x-amz-server-side-encryption-aws-kms-key-id", self->encryption_key);
}

static int send_whole(struct s3_store *self, struct s3_put *put)
{
    char hex[PFL_SIGV4_HEX_BYTES];
    struct pfl_s3_call call = {.method = "PUT",
                               .key = put->base.key,
                               .fd = put->fd,
                               .body_len = put->base.bytes,
                               .sha256 = hex};

    pfl_sigv4_hex(put->base.sha256, hex);
    add_encryption(self, &call);
    return run(self, &call);
}

/* -- in parts -- */

static int begin_upload(struct s3_store *self, struct s3_put *put)
{
    uint8_t nothing[PFL_STORE_SHA_BYTES];
    char hex[PFL_SIGV4_HEX_BYTES];
    struct pfl_s3_call call = {.method = "POST", .key = put->base.key, .body = "", .sha256 = hex};
    struct pfl_s3_connection *connection = pfl_s3_http_take(self->http);
    struct pfl_span root;
    struct pfl_span id;
    int rc = pfl_sha256_end(put->part, nothing);

    pfl_sigv4_hex(nothing, hex);
    add_query(&call, "uploads", "");
    add_encryption(self, &call);
    if (rc == 0)
        rc = pfl_s3_http_run(self->http, connection, &call);
    if (rc == 0 && (pfl_s3_xml_open(pfl_s3_connection_get_answer(connection),
                                    "InitiateMultipartUploadResult", &root) != 0 ||
                    pfl_s3_xml_find(root, "UploadId", &id) != 0 ||
                    pfl_s3_xml_text(id, false, put->upload, sizeof(put->upload)) != 0))
        rc = pfl_store_fail(PFL_EIO, "%s: the store gives the upload no id", put->base.key);
    pfl_s3_http_give(self->http, connection);
    return rc;
}

static int hash_part(struct s3_put *put, uint64_t at, uint64_t len, char hex[PFL_SIGV4_HEX_BYTES])
{
    uint8_t piece[64u << 10];
    uint8_t hash[PFL_STORE_SHA_BYTES];
    int rc;

    while (len != 0) {
        size_t want = len < sizeof(piece) ? (size_t)len : sizeof(piece);
        ssize_t n = pread(put->fd, piece, want, (off_t)at);

        if (n <= 0)
            return pfl_store_fail(PFL_EIO, "%s: its staged file is damaged", put->base.key);
        pfl_sha256_add(put->part, pfl_span_of(piece, (size_t)n));
        at += (uint64_t)n;
        len -= (uint64_t)n;
    }
    rc = pfl_sha256_end(put->part, hash);
    pfl_sigv4_hex(hash, hex);
    return rc;
}

static int send_part(struct s3_store *self, struct s3_put *put, unsigned number, uint64_t at)
{
    uint64_t part = put->base.bytes / PARTS_MAX + 1;
    char hex[PFL_SIGV4_HEX_BYTES];
    char digits[16];
    struct pfl_s3_call call = {
        .method = "PUT", .key = put->base.key, .fd = put->fd, .body_at = at, .sha256 = hex};
    int rc;

    part = part > PART_BYTES ? part : PART_BYTES;
    call.body_len = put->base.bytes - at < part ? put->base.bytes - at : part;
    (void)snprintf(digits, sizeof(digits), "%u", number);
    add_query(&call, "partNumber", digits);
    add_query(&call, "uploadId", put->upload);
    rc = hash_part(put, at, call.body_len, hex);
    if (rc == 0)
        rc = run(self, &call);
    if (rc == 0 && (call.etag[0] == '\0' || strlen(call.etag) >= ETAG_BYTES ||
                    strpbrk(call.etag, "<>&") != NULL))
        rc = pfl_store_fail(PFL_EIO, "%s: the store gives a part no ETag", put->base.key);
    if (rc == 0)
        (void)snprintf(put->etags[number - 1], ETAG_BYTES, "%.79s", call.etag);
    return rc;
}

static int end_upload(struct s3_store *self, struct s3_put *put, unsigned parts)
{
    uint8_t hash[PFL_STORE_SHA_BYTES];
    char hex[PFL_SIGV4_HEX_BYTES];
    struct pfl_s3_call call = {
        .method = "POST", .key = put->base.key, .body = put->body, .sha256 = hex};
    struct pfl_s3_connection *connection;
    struct pfl_span root;
    size_t at = (size_t)snprintf(put->body, sizeof(put->body), "<CompleteMultipartUpload>");
    int rc;

    for (unsigned i = 0; i < parts; i++)
        at += (size_t)snprintf(put->body + at, sizeof(put->body) - at,
                               "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1,
                               put->etags[i]);
    at += (size_t)snprintf(put->body + at, sizeof(put->body) - at, "</CompleteMultipartUpload>");
    call.body_len = at;
    add_query(&call, "uploadId", put->upload);
    pfl_sha256_add(put->part, pfl_span_of(put->body, at));
    rc = pfl_sha256_end(put->part, hash);
    pfl_sigv4_hex(hash, hex);
    if (rc != 0)
        return rc;
    connection = pfl_s3_http_take(self->http);
    rc = pfl_s3_http_run(self->http, connection, &call);
    /* An error may come with status 200, because the answer begins before the work is done. */
    if (rc == 0 && pfl_s3_xml_open(pfl_s3_connection_get_answer(connection),
                                   "CompleteMultipartUploadResult", &root) != 0)
        rc = pfl_store_fail(PFL_EAGAIN, "%s: the store does not join the parts", put->base.key);
    pfl_s3_http_give(self->http, connection);
    return rc;
}

static int abort_upload(struct s3_store *self, const char *key, const char *upload)
{
    struct pfl_s3_call call = {.method = "DELETE", .key = key};

    add_query(&call, "uploadId", upload);
    return run(self, &call);
}

static int send_parts(struct s3_store *self, struct s3_put *put)
{
    uint64_t part = put->base.bytes / PARTS_MAX + 1;
    unsigned number = 0;
    int rc = begin_upload(self, put);

    if (rc != 0)
        return rc;
    part = part > PART_BYTES ? part : PART_BYTES;
    for (uint64_t at = 0; rc == 0 && at < put->base.bytes; at += part)
        rc = send_part(self, put, ++number, at);
    if (rc == 0)
        rc = end_upload(self, put, number);
    if (rc != 0) {
        char why[PFL_STORE_WHY_BYTES];

        (void)snprintf(why, sizeof(why), "%s", pfl_store_get_error());
        (void)abort_upload(self, put->base.key, put->upload);
        (void)pfl_store_fail(rc, "%s", why);
    }
    return rc;
}

/* -- head, get, delete -- */

static int head(struct pfl_store *base, const char *key, struct pfl_store_object *ret_object)
{
    struct pfl_s3_call call = {.method = "HEAD", .key = key};
    int rc = run(store_of(base), &call);

    if (rc != 0)
        return rc;
    (void)snprintf(ret_object->key, sizeof(ret_object->key), "%s", key);
    ret_object->bytes = call.length;
    ret_object->modified_s = call.modified_s;
    return 0;
}

static int remove_object(struct pfl_store *base, const char *key)
{
    struct pfl_s3_call call = {.method = "DELETE", .key = key};

    return run(store_of(base), &call);
}

/*
 * A store that answers before it has the object is asked again. What it has under the key stays:
 * another collector may have stored it there, and it may be live.
 */
static int check_stored(struct s3_put *put)
{
    struct pfl_store_object object = {.bytes = 0};
    bool is_there = false;
    int rc = 0;

    for (unsigned i = 0; !is_there && (rc == 0 || rc == PFL_ENOENT) && i < CHECKS; i++) {
        if (i != 0)
            (void)usleep(CHECK_WAIT_US << i);
        rc = head(put->base.store, put->base.key, &object);
        is_there = rc == 0 && object.bytes == put->base.bytes;
    }
    if (is_there || (rc != 0 && rc != PFL_ENOENT))
        return rc;
    return pfl_store_fail(PFL_EIO, "%s: the store does not have what it took", put->base.key);
}

static int put_commit(struct pfl_store_put *base)
{
    struct s3_store *self = store_of(base->store);
    struct s3_put *put = put_of(base);
    int rc = base->bytes > PART_BYTES ? send_parts(self, put) : send_whole(self, put);

    if (rc == 0)
        rc = check_stored(put);
    put_abort(base);
    return rc;
}

static int get(struct pfl_store *base, const char *key, const struct pfl_store_range *range,
               pfl_store_on_data on_data, void *user)
{
    struct pfl_s3_call call = {
        .method = "GET", .key = key, .range = *range, .on_data = on_data, .user = user};

    return run(store_of(base), &call);
}

static int presign(struct pfl_store *base, const char *key, uint32_t valid_s, char *dst,
                   size_t room)
{
    return pfl_s3_http_presign(store_of(base)->http, key, valid_s, dst, room);
}

static void cancel(struct pfl_store *base)
{
    pfl_s3_http_cancel(store_of(base)->http);
}

/* -- list -- */

/* "2026-11-23T11:11:36.000Z"; 0: it is no time. */
static int64_t read_time(struct pfl_span parent, const char *name)
{
    struct pfl_span content;
    char text[40];
    struct tm tm = {0};

    if (pfl_s3_xml_find(parent, name, &content) != 0 ||
        pfl_s3_xml_text(content, false, text, sizeof(text)) != 0 ||
        strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
        return 0;
    return timegm(&tm);
}

static uint64_t read_number(struct pfl_span parent, const char *name)
{
    struct pfl_span content;
    uint64_t number = 0;

    if (pfl_s3_xml_find(parent, name, &content) != 0 || content.len > 18)
        return 0;
    for (size_t i = 0; i < content.len && content.data[i] >= '0' && content.data[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(content.data[i] - '0');
    return number;
}

static bool read_whole_key(struct pfl_span parent, char dst[PFL_STORE_KEY_BYTES])
{
    struct pfl_span content;

    return pfl_s3_xml_find(parent, "Key", &content) == 0 &&
           pfl_s3_xml_text(content, false, dst, PFL_STORE_KEY_BYTES) == 0;
}

/* The key without the store's prefix. False: it is none of ours. */
static bool read_key(const struct s3_store *self, struct pfl_span parent,
                     char dst[PFL_STORE_KEY_BYTES])
{
    size_t prefix_len = strlen(self->prefix);
    char whole[PFL_STORE_KEY_BYTES];

    if (!read_whole_key(parent, whole) || strncmp(whole, self->prefix, prefix_len) != 0)
        return false;
    (void)snprintf(dst, PFL_STORE_KEY_BYTES, "%s", whole + prefix_len);
    return pfl_store_is_key(dst);
}

static bool is_late(uint64_t begun_ns)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - begun_ns > LIST_S * UINT64_C(1000000000);
}

struct page {
    const struct pfl_store_listing *what;
    struct pfl_store_object *dst;
    size_t room;
    size_t len;
    unsigned number;
    char prefix[2 * PFL_STORE_KEY_BYTES]; /* of what is asked for, with the store's */
    char after[PFL_STORE_KEY_BYTES];      /* the same */
    bool has_more;
};

/* False: nobody asked for it. */
static bool take_object(const struct s3_store *self, struct pfl_span contents, struct page *page)
{
    struct pfl_store_object *object = &page->dst[page->len];
    char whole[PFL_STORE_KEY_BYTES];
    const char *key = whole + strlen(self->prefix);

    if (!read_whole_key(contents, whole))
        return true; /* none of ours is so long, or has such characters */
    if (strncmp(whole, page->prefix, strlen(page->prefix)) != 0)
        return false;
    (void)snprintf(page->after, sizeof(page->after), "%s", whole);
    if (!pfl_store_is_key(key) || strcmp(key, page->what->after) <= 0)
        return true;
    (void)snprintf(object->key, sizeof(object->key), "%s", key);
    object->bytes = read_number(contents, "Size");
    object->modified_s = read_time(contents, "LastModified");
    page->len++;
    return true;
}

static int read_page(struct s3_store *self, struct pfl_span answer, struct page *page)
{
    struct pfl_s3_xml_element element;
    struct pfl_span root;
    int rc = pfl_s3_xml_open(answer, "ListBucketResult", &root);
    bool has_more = false;
    char before[PFL_STORE_KEY_BYTES];

    if (rc != 0)
        return pfl_store_fail(PFL_EIO, "the store's list is malformed");
    (void)snprintf(before, sizeof(before), "%s", page->after);
    while (pfl_s3_xml_next(&root, &element, &rc)) {
        has_more = has_more || (pfl_span_is(element.name, "IsTruncated") &&
                                pfl_span_is(element.content, "true"));
        if (pfl_span_is(element.name, "Contents") && page->len < page->room &&
            !take_object(self, element.content, page))
            return pfl_store_fail(PFL_EIO, "the store's list has keys that nobody asked for");
    }
    /* A store that repeats itself ends the list with an error, not the loop never. */
    page->has_more = has_more && page->len < page->room;
    if (rc != 0 || (page->has_more && strcmp(page->after, before) <= 0))
        return pfl_store_fail(PFL_EIO, "the store's list is malformed");
    return 0;
}

static int list_page(struct s3_store *self, struct page *page)
{
    char digits[16];
    struct pfl_s3_call call = {.method = "GET", .key = ""};
    struct pfl_s3_connection *connection = pfl_s3_http_take(self->http);
    bool is_small = page->number++ == 0 && page->room < LIST_MAX;
    int rc;

    (void)snprintf(digits, sizeof(digits), "%zu", is_small ? page->room : LIST_MAX);
    add_query(&call, "list-type", "2");
    add_query(&call, "max-keys", digits);
    if (page->prefix[0] != '\0')
        add_query(&call, "prefix", page->prefix);
    if (page->after[0] != '\0')
        add_query(&call, "start-after", page->after);
    rc = pfl_s3_http_run(self->http, connection, &call);
    if (rc == 0)
        rc = read_page(self, pfl_s3_connection_get_answer(connection), page);
    pfl_s3_http_give(self->http, connection);
    return rc;
}

static int list(struct pfl_store *base, const struct pfl_store_listing *what,
                struct pfl_store_object *dst, size_t room, size_t *ret_len)
{
    struct s3_store *self = store_of(base);
    struct page page = {.what = what, .dst = dst, .room = room};
    uint64_t begun_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    int rc;

    if (what->after[0] != '\0' && snprintf(page.after, sizeof(page.after), "%s%s", self->prefix,
                                           what->after) >= (int)sizeof(page.after))
        return pfl_store_fail(PFL_EINVAL, "the key is too long");
    (void)snprintf(page.prefix, sizeof(page.prefix), "%s%s", self->prefix, what->prefix);
    do {
        rc = list_page(self, &page);
    } while (rc == 0 && page.has_more && page.number < LIST_PAGES + page.len && !is_late(begun_ns));
    if (rc == 0 && page.has_more && is_late(begun_ns))
        rc = pfl_store_fail(PFL_EAGAIN, "the store's list takes longer than %d s", LIST_S);
    if (rc == 0 && page.has_more)
        rc = pfl_store_fail(PFL_EIO,
                            "the store's list has too many keys that are no trace's, up to "
                            "\"%.128s\": remove them, or use another prefix",
                            page.after);
    *ret_len = page.len;
    return rc;
}

/* -- sweep -- */

/* What a store refuses to abort ends the sweep; one that takes long continues at the next. */
static int abort_listed(struct s3_store *self, struct pfl_span answer, int64_t before,
                        unsigned *ret_count)
{
    struct pfl_s3_xml_element element;
    struct pfl_span root;
    struct pfl_span id;
    uint64_t begun_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    int failure = 0;
    int rc = pfl_s3_xml_open(answer, "ListMultipartUploadsResult", &root);

    while (rc == 0 && failure == 0 && !is_late(begun_ns) && pfl_s3_xml_next(&root, &element, &rc)) {
        char key[PFL_STORE_KEY_BYTES];
        char upload[UPLOAD_BYTES];

        if (!pfl_span_is(element.name, "Upload") || !read_key(self, element.content, key) ||
            read_time(element.content, "Initiated") > before ||
            pfl_s3_xml_find(element.content, "UploadId", &id) != 0 ||
            pfl_s3_xml_text(id, false, upload, sizeof(upload)) != 0)
            continue;
        failure = abort_upload(self, key, upload);
        *ret_count += failure == 0;
        failure = failure == PFL_ENOENT ? 0 : failure;
    }
    if (failure != 0)
        return failure;
    return rc == 0 ? 0 : pfl_store_fail(PFL_EIO, "the store's list of uploads is malformed");
}

/* One page: the next sweep has the next one. */
static int sweep(struct pfl_store *base, int64_t age_s, unsigned *ret_count)
{
    struct s3_store *self = store_of(base);
    struct pfl_s3_call call = {.method = "GET", .key = ""};
    struct pfl_s3_connection *connection = pfl_s3_http_take(self->http);
    int rc;

    add_query(&call, "uploads", "");
    add_query(&call, "max-uploads", "500");
    if (self->prefix[0] != '\0')
        add_query(&call, "prefix", self->prefix);
    rc = pfl_s3_http_run(self->http, connection, &call);
    if (rc == 0)
        rc = abort_listed(self, pfl_s3_connection_get_answer(connection),
                          (int64_t)time(NULL) - age_s, ret_count);
    pfl_s3_http_give(self->http, connection);
    return rc == PFL_ENOTSUP ? 0 : rc; /* a store that has no such list removes them itself */
}

static void close_store(struct pfl_store *base)
{
    pfl_s3_http_free(store_of(base)->http);
    pfl_mem_free(base);
}

static const struct pfl_store_engine engine = {
    .kind = "s3",
    .close = close_store,
    .put_new = put_new,
    .put_free = put_free,
    .put_begin = put_begin,
    .put_write = put_write,
    .put_commit = put_commit,
    .put_abort = put_abort,
    .get = get,
    .head = head,
    .list = list,
    .remove = remove_object,
    .presign = presign,
    .cancel = cancel,
    .sweep = sweep,
};

static void set_encryption(struct s3_store *self, const char *encryption)
{
    static const char kms[] = "aws:kms:";

    if (encryption == NULL)
        return;
    if (strncmp(encryption, kms, sizeof(kms) - 1) == 0) {
        (void)snprintf(self->encryption, sizeof(self->encryption), "aws:kms");
        (void)snprintf(self->encryption_key, sizeof(self->encryption_key), "%s",
                       encryption + sizeof(kms) - 1);
        return;
    }
    (void)snprintf(self->encryption, sizeof(self->encryption), "%s", encryption);
}

/* Not each file system has files without a name. */
static int try_staging(const struct s3_store *self)
{
    int fd = open(self->staging_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return pfl_store_fail_errno("stage in", self->staging_dir);
    (void)close(fd);
    return 0;
}

int pfl_store_s3_open(const struct pfl_store_conf *conf, struct pfl_store **ret_store)
{
    struct s3_store *self = pfl_mem_zalloc(sizeof(*self));
    const char *prefix = strchr(conf->where + strlen("s3://"), '/');
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    self->base.engine = &engine;
    (void)snprintf(self->staging_dir, sizeof(self->staging_dir), "%s",
                   conf->staging_dir != NULL ? conf->staging_dir : PFL_STORE_STAGING_DIR);
    if (prefix != NULL && prefix[1] != '\0')
        (void)snprintf(self->prefix, sizeof(self->prefix), "%s/", prefix + 1);
    set_encryption(self, conf->encryption);
    rc = try_staging(self);
    if (rc == 0)
        rc = pfl_s3_http_new(conf, &self->http);
    if (rc != 0) {
        close_store(&self->base);
        return rc;
    }
    *ret_store = &self->base;
    return 0;
}
