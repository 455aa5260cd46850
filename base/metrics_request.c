/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scraper's request: see metrics_request.h.
 *
 * Happy path: the head ends with an empty line; the request line has three words; each field is a
 * token, a colon and printable bytes; there is one Host. Failures: a status; a broken head is 400
 * whatever its method. Limits: PFL_METRICS_REQUEST_MAX_BYTES.
 */
#include "base/metrics_request.h"

#include <strings.h>

struct line {
    const char *text; /* borrowed */
    size_t len;
};

static bool is_token(const char *text, size_t len)
{
    static const char extra[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

        if (!is_alnum && (c == '\0' || strchr(extra, c) == NULL))
            return false;
    }
    return len != 0;
}

static bool is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c != '\t' && (c < ' ' || c == 0x7f))
            return false;
    }
    return true;
}

/* The next line, without its end. False: there is none, or its end is not CR LF. */
static bool take_line(struct pfl_span *left, struct line *ret_line)
{
    const uint8_t *lf = left->len != 0 ? memchr(left->data, '\n', left->len) : NULL;
    size_t len;

    if (lf == NULL || lf == left->data || lf[-1] != '\r')
        return false;
    len = (size_t)(lf - left->data);
    *ret_line = (struct line){(const char *)left->data, len - 1};
    *left = pfl_span_of(lf + 1, left->len - len - 1);
    return true;
}

static bool is_word(const struct line *line, const char *word)
{
    return line->len == strlen(word) && memcmp(line->text, word, line->len) == 0;
}

/* Up to the next blank, which is dropped. */
static struct line take_word(struct line *left)
{
    const char *blank = left->len != 0 ? memchr(left->text, ' ', left->len) : NULL;
    size_t len = blank != NULL ? (size_t)(blank - left->text) : left->len;
    struct line word = {left->text, len};
    size_t used = blank != NULL ? len + 1 : len;

    *left = (struct line){left->text + used, left->len - used};
    return word;
}

static unsigned judge_request_line(struct line line)
{
    struct line method = take_word(&line);
    struct line target = take_word(&line);
    const char *query = target.len != 0 ? memchr(target.text, '?', target.len) : NULL;
    struct line path = {target.text, query != NULL ? (size_t)(query - target.text) : target.len};

    if (!is_token(method.text, method.len) || target.len == 0 ||
        !is_printable(target.text, target.len) || line.len != 8 ||
        memcmp(line.text, "HTTP/", 5) != 0)
        return 400;
    if (!is_word(&line, "HTTP/1.1"))
        return 505;
    if (!is_word(&path, "/metrics"))
        return 404;
    return is_word(&method, "GET") ? 200 : 405;
}

/* False: no field, or one that says that there is a body. Counts Host. */
static bool check_field(const struct line *line, unsigned *hosts)
{
    const char *colon = memchr(line->text, ':', line->len);
    size_t name_len = colon != NULL ? (size_t)(colon - line->text) : 0;

    if (!is_token(line->text, name_len) || !is_printable(colon + 1, line->len - name_len - 1))
        return false;
    *hosts += name_len == 4 && strncasecmp(line->text, "host", 4) == 0;
    return !(name_len == 14 && strncasecmp(line->text, "content-length", 14) == 0) &&
           !(name_len == 17 && strncasecmp(line->text, "transfer-encoding", 17) == 0);
}

static bool check_fields(struct pfl_span left)
{
    struct line line;
    unsigned hosts = 0;

    while (take_line(&left, &line)) {
        if (line.len == 0)
            return hosts == 1;
        if (!check_field(&line, &hosts))
            return false;
    }
    return false;
}

static bool has_end(struct pfl_span head)
{
    for (size_t i = 3; i < head.len; i++) {
        if (memcmp(head.data + i - 3, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

unsigned pfl_metrics_request_judge(struct pfl_span head_untrusted)
{
    struct pfl_span left =
        pfl_span_of(head_untrusted.data, head_untrusted.len < PFL_METRICS_REQUEST_MAX_BYTES
                                             ? head_untrusted.len
                                             : PFL_METRICS_REQUEST_MAX_BYTES);
    struct line line;
    unsigned status;

    if (!has_end(left))
        return left.len < PFL_METRICS_REQUEST_MAX_BYTES ? 0 : 431;
    if (!take_line(&left, &line))
        return 400;
    status = judge_request_line(line);
    return check_fields(left) ? status : 400;
}

const char *pfl_metrics_request_words(unsigned status)
{
    switch (status) {
    case 200:
        return "OK";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Bad Request";
    }
}
