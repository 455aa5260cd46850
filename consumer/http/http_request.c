/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A browser's request: see http_request.h.
 *
 *     METHOD SP TARGET SP HTTP/1.1 CRLF  { NAME ":" VALUE CRLF }  CRLF  BODY
 *
 * Happy path: find the end of the head; cut the request line in three; cut each field at its colon
 * and note those that the program uses; then the body must have the length that was announced.
 * Failures: a status. A field that may occur once and occurs twice is 400; Transfer-Encoding is
 * 501. Limits: PFL_HTTP_HEAD_MAX_BYTES, PFL_HTTP_MAX_FIELDS, the caller's for the body. The bytes
 * are changed only when the request is whole: lines and words end with NUL then.
 */
#include "consumer/http/http_request.h"

#include <stdlib.h>
#include <strings.h>

#define LENGTH_DIGITS_MAX 9u

/* What is known of a request while its fields are read. */
struct head {
    struct pfl_http_request request;
    const char *length;
    const char *transfer_encoding;
    unsigned fields;
};

const char *pfl_http_status_words(unsigned status)
{
    static const struct {
        unsigned status;
        const char *words;
    } all[] = {
        {200, "OK"},
        {204, "No Content"},
        {303, "See Other"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].status == status)
            return all[i].words;
    return "Error";
}

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_token_char(text[i]))
            return false;
    return len != 0;
}

/* Bytes of a target: printable ASCII without blanks. */
static bool is_target(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '#')
            return false;
    return len != 0 && text[0] == '/';
}

/* Of a field's value: no control character but the tab. */
static bool is_value(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c != '\t' && (c < ' ' || c == 0x7f))
            return false;
    }
    return true;
}

/* ---- the request line ---- */

static unsigned judge_method(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "POST", "OPTIONS", "DELETE"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(method, known[i]) == 0)
            return 200;
    return 501;
}

/* `line` ends with NUL. */
static unsigned parse_line(char *line, struct pfl_http_request *r)
{
    char *target = strchr(line, ' ');
    char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
    char *query;

    if (version == NULL)
        return 400;
    *target++ = '\0';
    *version++ = '\0';
    if (!is_token(line, strlen(line)) || !is_target(target, strlen(target)) ||
        strncmp(version, "HTTP/", 5) != 0)
        return 400;
    if (strcmp(version, "HTTP/1.1") != 0)
        return 505;
    query = strchr(target, '?');
    if (query != NULL)
        *query++ = '\0';
    r->method = line;
    r->path = target;
    r->query = query != NULL ? query : "";
    return judge_method(line);
}

/* ---- fields ---- */

static const char **find_place(struct head *h, const char *name)
{
    const struct {
        const char *name;
        const char **place;
    } known[] = {
        {"Host", &h->request.host},
        {"Origin", &h->request.origin},
        {"Cookie", &h->request.cookie},
        {"Content-Type", &h->request.content_type},
        {"Sec-Fetch-Site", &h->request.fetch_site},
        {"Content-Length", &h->length},
        {"Transfer-Encoding", &h->transfer_encoding},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasecmp(name, known[i].name) == 0)
            return known[i].place;
    return NULL;
}

/* `line` ends with NUL, and its length is `len`: a NUL inside is a control character. */
static unsigned parse_field(char *line, size_t len, struct head *h)
{
    char *colon = len != 0 ? memchr(line, ':', len) : NULL;
    char *value = colon != NULL ? colon + 1 : NULL;
    size_t value_len = colon != NULL ? len - (size_t)(value - line) : 0;
    const char **place;

    if (colon == NULL || !is_token(line, (size_t)(colon - line)) || !is_value(value, value_len))
        return 400;
    if (++h->fields > PFL_HTTP_MAX_FIELDS)
        return 431;
    *colon = '\0';
    while (*value == ' ' || *value == '\t')
        value++;
    for (char *end = line + len; end > value && (end[-1] == ' ' || end[-1] == '\t'); end--)
        end[-1] = '\0';
    place = find_place(h, line);
    if (place == NULL)
        return 200;
    if (*place != NULL)
        return 400;
    *place = value;
    return 200;
}

/* The line at `*at`, whose end becomes NUL; NULL: it does not end with CR LF. */
static char *take_line(char **at, const char *end, size_t *ret_len)
{
    char *line = *at;
    char *lf = memchr(line, '\n', (size_t)(end - line));

    if (lf == NULL || lf == line || lf[-1] != '\r')
        return NULL;
    *at = lf + 1;
    lf[-1] = '\0';
    *ret_len = (size_t)(lf - line) - 1;
    return line;
}

static unsigned parse_head(char *bytes, size_t len, struct head *h)
{
    char *at = bytes;
    size_t line_len = 0;
    char *line = take_line(&at, bytes + len, &line_len);
    unsigned status =
        line == NULL || strlen(line) != line_len ? 400 : parse_line(line, &h->request);

    while (status == 200) {
        line = take_line(&at, bytes + len, &line_len);
        if (line == NULL)
            return 400;
        if (line_len == 0)
            break;
        status = parse_field(line, line_len, h);
    }
    if (status == 200 && h->request.host == NULL)
        return 400;
    return status;
}

/* ---- the body ---- */

static bool read_length(const char *text, size_t *ret_length)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > LENGTH_DIGITS_MAX || text[digits] != '\0')
        return false;
    *ret_length = (size_t)strtoul(text, NULL, 10);
    return true;
}

static unsigned judge_body(const struct head *h, size_t body_max_bytes, size_t *ret_length)
{
    *ret_length = 0;
    if (h->transfer_encoding != NULL)
        return 501;
    if (h->length == NULL)
        return strcmp(h->request.method, "POST") == 0 ? 411 : 200;
    if (!read_length(h->length, ret_length))
        return 400;
    if (strcmp(h->request.method, "POST") != 0 && *ret_length != 0)
        return 400;
    return *ret_length > body_max_bytes ? 413 : 200;
}

/* ---- all of it ---- */

/* Behind the empty line; 0: it has not come. */
static size_t find_end(const char *bytes, size_t len)
{
    const char *end = memmem(bytes, len, "\r\n\r\n", 4);

    return end != NULL ? (size_t)(end - bytes) + 4 : 0;
}

unsigned pfl_http_request_parse(char *bytes, size_t len, size_t body_max_bytes,
                                struct pfl_http_request *ret_request)
{
    char copy[PFL_HTTP_HEAD_MAX_BYTES];
    size_t head_len = find_end(bytes, len);
    struct head h = {.fields = 0};
    size_t body_len = 0;
    unsigned status;

    if (head_len > sizeof(copy) || (head_len == 0 && len >= sizeof(copy)))
        return memchr(bytes, '\n', sizeof(copy)) == NULL ? 414 : 431;
    if (head_len == 0)
        return 0;
    memcpy(copy, bytes, head_len); /* the first look changes nothing */
    status = parse_head(copy, head_len, &h);
    if (status == 200)
        status = judge_body(&h, body_max_bytes, &body_len);
    if (status != 200)
        return status;
    if (len - head_len < body_len)
        return 0;
    if (len - head_len > body_len)
        return 400;
    h = (struct head){.fields = 0};
    (void)parse_head(bytes, head_len, &h);
    h.request.body = pfl_span_of(bytes + head_len, body_len);
    *ret_request = h.request;
    return 200;
}

bool pfl_http_cookie_next(const char **cookies, const char *name, char *ret_value, size_t value_len)
{
    size_t name_len = strlen(name);
    const char *at = *cookies;
    bool is_found = false;

    while (!is_found && at != NULL && *at != '\0') {
        size_t len = strcspn(at, ";");
        size_t rest = len > name_len ? len - name_len - 1 : 0;

        is_found = len > name_len && strncmp(at, name, name_len) == 0 && at[name_len] == '=' &&
                   rest < value_len;
        if (is_found) {
            memcpy(ret_value, at + name_len + 1, rest);
            ret_value[rest] = '\0';
        }
        at += len;
        at += strspn(at, "; ");
    }
    *cookies = at;
    return is_found;
}
