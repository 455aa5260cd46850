/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XML of S3's answers: see s3_xml.h. Elements are found by counting begin and end tags, so content
 * is judged when it is opened. Failures: malformed text. Limits: PFL_S3_XML_DEPTH.
 */
#include "collector/store/s3_xml.h"

#include <stdlib.h>
#include <string.h>

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip(struct pfl_span *rest, size_t len)
{
    rest->data += len;
    rest->len -= len;
}

struct tag {
    struct pfl_span name;
    bool is_end;
    bool is_empty;
};

/* A tag that begins here, after its "<". 0, PFL_EPARSE. */
static int take_tag(struct pfl_span *rest, struct tag *ret_tag)
{
    const uint8_t *close = rest->len != 0 ? memchr(rest->data, '>', rest->len) : NULL;
    size_t len = close != NULL ? (size_t)(close - rest->data) : 0;
    size_t at = 0;

    if (len == 0 || rest->data[0] == '!')
        return PFL_EPARSE; /* a comment, CDATA, or a document type: S3 sends none */
    ret_tag->is_end = rest->data[0] == '/';
    at = ret_tag->is_end;
    ret_tag->name = pfl_span_of(rest->data + at, 0);
    while (at < len && !is_space(rest->data[at]) && rest->data[at] != '/') {
        at++;
        ret_tag->name.len++;
    }
    ret_tag->is_empty = !ret_tag->is_end && rest->data[len - 1] == '/';
    skip(rest, len + 1);
    return ret_tag->name.len != 0 ? 0 : PFL_EPARSE;
}

/* To the end tag of the element that is open; the content before it. */
static int take_content(struct pfl_span *rest, struct pfl_span *ret_content)
{
    struct pfl_span content = *rest;
    unsigned depth = 1;

    while (depth != 0) {
        const uint8_t *open = rest->len != 0 ? memchr(rest->data, '<', rest->len) : NULL;
        struct tag tag;

        if (open == NULL)
            return PFL_EPARSE;
        content.len = (size_t)(open - content.data);
        skip(rest, (size_t)(open - rest->data) + 1);
        if (take_tag(rest, &tag) != 0)
            return PFL_EPARSE;
        if (tag.is_end)
            depth--;
        else if (!tag.is_empty && ++depth > PFL_S3_XML_DEPTH)
            return PFL_EPARSE;
    }
    *ret_content = content;
    return 0;
}

bool pfl_s3_xml_next(struct pfl_span *rest, struct pfl_s3_xml_element *ret_element, int *ret_rc)
{
    const uint8_t *open = rest->len != 0 ? memchr(rest->data, '<', rest->len) : NULL;
    struct tag tag;

    *ret_rc = 0;
    if (open == NULL)
        return false;
    skip(rest, (size_t)(open - rest->data) + 1);
    if (take_tag(rest, &tag) != 0 || tag.is_end) {
        *ret_rc = PFL_EPARSE;
        return false;
    }
    ret_element->name = tag.name;
    ret_element->content = pfl_span_of(rest->data, 0);
    if (!tag.is_empty)
        *ret_rc = take_content(rest, &ret_element->content);
    return *ret_rc == 0;
}

int pfl_s3_xml_find(struct pfl_span parent, const char *name, struct pfl_span *ret_content)
{
    struct pfl_s3_xml_element element;
    int rc;

    while (pfl_s3_xml_next(&parent, &element, &rc)) {
        if (!pfl_span_is(element.name, name))
            continue;
        *ret_content = element.content;
        return 0;
    }
    return rc != 0 ? rc : PFL_ENOENT;
}

int pfl_s3_xml_open(struct pfl_span document, const char *name, struct pfl_span *ret_content)
{
    while (document.len != 0 && is_space(document.data[0]))
        skip(&document, 1);
    if (document.len > 1 && document.data[0] == '<' && document.data[1] == '?') {
        const uint8_t *close = memchr(document.data, '>', document.len);

        if (close == NULL)
            return PFL_EPARSE;
        skip(&document, (size_t)(close - document.data) + 1);
    }
    return pfl_s3_xml_find(document, name, ret_content);
}

/* The character of "&NAME;" or "&#NUMBER;"; S3 escapes only these. */
static int take_reference(struct pfl_span *rest, char *ret_c)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {{"&amp;", '&'}, {"&lt;", '<'},   {"&gt;", '>'},  {"&quot;", '"'}, {"&apos;", '\''},
                 {"&#34;", '"'}, {"&#39;", '\''}, {"&#38;", '&'}, {"&#x2F;", '/'}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i].name);

        if (rest->len < len || memcmp(rest->data, names[i].name, len) != 0)
            continue;
        *ret_c = names[i].c;
        skip(rest, len);
        return 0;
    }
    return PFL_EPARSE;
}

static int hex_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_percent(struct pfl_span *rest, char *ret_c)
{
    int high = rest->len > 2 ? hex_of(rest->data[1]) : -1;
    int low = rest->len > 2 ? hex_of(rest->data[2]) : -1;

    if (high < 0 || low < 0)
        return PFL_EPARSE;
    *ret_c = (char)(high << 4 | low);
    skip(rest, 3);
    return 0;
}

int pfl_s3_xml_text(struct pfl_span content, bool is_url, char *dst, size_t room)
{
    size_t at = 0;

    while (content.len != 0) {
        uint8_t c = content.data[0];
        int rc = 0;

        if (at + 1 >= room)
            return PFL_ELIMIT;
        if (c == '<' || c == 0)
            return PFL_EPARSE;
        if (c == '&') {
            rc = take_reference(&content, &dst[at]);
        } else if (c == '%' && is_url) {
            rc = take_percent(&content, &dst[at]);
        } else {
            dst[at] = is_url && c == '+' ? ' ' : (char)c;
            skip(&content, 1);
        }
        if (rc != 0 || dst[at++] == '\0')
            return PFL_EPARSE;
    }
    if (room == 0)
        return PFL_ELIMIT;
    dst[at] = '\0';
    return 0;
}
