/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes HTML: see html.h.
 *
 * Happy path: elements are pushed and popped; text and values of attributes are escaped. Text is
 * made valid UTF-8: a byte that is none becomes U+FFFD, and characters that change how the others
 * are shown (controls, directions, invisible ones) become \u{...}, as in the log. Failures: no
 * memory, no room; an element is never half written. Limits: PFL_HTML_MAX_DEPTH, the buffer's
 * maximum.
 */
#include "consumer/web/html/html.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(struct pfl_html *h, const char *text, size_t len)
{
    if (h->rc == 0)
        h->rc = pfl_buf_append(&h->out, text, len);
}

static void add_str(struct pfl_html *h, const char *text)
{
    add(h, text, strlen(text));
}

/* ---- escaping ---- */

/* The length of the UTF-8 character at `s`, and its number; 0: it is none. */
static size_t read_character(const unsigned char *s, uint32_t *ret_code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = 0;

    if (s[0] < 0x80) {
        *ret_code = s[0];
        return 1;
    }
    if (s[0] >= 0xc2 && s[0] < 0xe0)
        len = 2;
    else if (s[0] >= 0xe0 && s[0] < 0xf0)
        len = 3;
    else if (s[0] >= 0xf0 && s[0] < 0xf5)
        len = 4;
    if (len == 0)
        return 0;
    *ret_code = s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *ret_code = *ret_code << 6 | (s[i] & 0x3fu);
    }
    if (*ret_code < least[len] || *ret_code > 0x10ffff || (*ret_code >> 11) == 0x1b)
        return 0;
    return len;
}

static bool is_shown(uint32_t code)
{
    if (code < 0x20)
        return code == '\n' || code == '\t';
    if ((code >= 0x7f && code < 0xa0) || code == 0xad)
        return false;
    if ((code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
        (code >= 0x2060 && code <= 0x206f))
        return false;
    return code != 0x61c && code != 0xfeff && !(code >= 0xfff9 && code <= 0xfffb) &&
           !(code >= 0xe0000 && code <= 0xe0fff);
}

static const char *find_entity(uint32_t code)
{
    switch (code) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static void add_escaped(struct pfl_html *h, const char *text)
{
    const char *plain = text; /* of which nothing needs a change */

    while (*text != '\0' && h->rc == 0) {
        uint32_t code = 0xfffd;
        size_t len = read_character((const unsigned char *)text, &code);
        const char *entity = len == 0 ? "\xef\xbf\xbd" : find_entity(code);
        char number[16];

        if (entity == NULL && !is_shown(code)) {
            (void)snprintf(number, sizeof(number), "\\u{%x}", (unsigned)code);
            entity = number;
        }
        if (entity != NULL) {
            add(h, plain, (size_t)(text - plain));
            add_str(h, entity);
            plain = text + (len != 0 ? len : 1);
        }
        text += len != 0 ? len : 1;
    }
    add(h, plain, (size_t)(text - plain));
}

static void add_encoded(struct pfl_html *h, const char *text)
{
    for (; *text != '\0'; text++) {
        char code[4];
        unsigned char c = (unsigned char)*text;
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                        (c >= 'a' && c <= 'z') || strchr("-._~", c) != NULL;

        (void)snprintf(code, sizeof(code), is_plain ? "%c" : "%%%02X", c);
        add_str(h, code);
    }
}

/* ---- elements ---- */

static bool has_no_content(const char *element)
{
    static const char *const all[] = {"meta", "link", "input", "br", "hr", "img", "wbr"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(element, all[i]) == 0)
            return true;
    return false;
}

static void end_tag(struct pfl_html *h)
{
    if (h->is_in_tag)
        add_str(h, ">");
    h->is_in_tag = false;
}

void pfl_html_init(struct pfl_html *self, size_t max_bytes)
{
    *self = (struct pfl_html){.rc = 0};
    pfl_buf_init(&self->out, max_bytes);
}

void pfl_html_fini(struct pfl_html *self)
{
    pfl_buf_fini(&self->out);
}

void pfl_html_begin(struct pfl_html *self)
{
    add_str(self, "<!doctype html>\n");
}

int pfl_html_get(struct pfl_html *self, struct pfl_span *ret_html)
{
    pfl_html_close_to(self, 0);
    if (self->rc == 0)
        *ret_html = pfl_buf_get(&self->out);
    return self->rc;
}

void pfl_html_open_element(struct pfl_html *self, const char *element)
{
    end_tag(self);
    if (self->depth == PFL_HTML_MAX_DEPTH) {
        self->rc = self->rc != 0 ? self->rc : PFL_ELIMIT;
        return;
    }
    add_str(self, "<");
    add_str(self, element);
    self->open[self->depth++] = element;
    self->is_in_tag = true;
}

void pfl_html_close(struct pfl_html *self)
{
    const char *element;

    end_tag(self);
    if (self->depth == 0)
        return;
    element = self->open[--self->depth];
    if (has_no_content(element))
        return;
    add_str(self, "</");
    add_str(self, element);
    add_str(self, ">");
    if (self->depth < 6)
        add_str(self, "\n");
}

void pfl_html_close_to(struct pfl_html *self, unsigned depth)
{
    while (self->depth > depth)
        pfl_html_close(self);
    end_tag(self);
}

/* A browser would act on the value of these. */
static bool is_acted_on(const char *attribute)
{
    static const char *const all[] = {"href",   "src",    "action", "formaction", "style",
                                      "srcdoc", "srcset", "data",   "content",    "http-equiv"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(attribute, all[i]) == 0)
            return true;
    return strncmp(attribute, "on", 2) == 0;
}

void pfl_html_add_attribute(struct pfl_html *self, const char *attribute, const char *value)
{
    assert(self->is_in_tag || self->rc != 0);
    if (is_acted_on(attribute)) {
        self->rc = self->rc != 0 ? self->rc : PFL_EINVAL;
        return;
    }
    add_str(self, " ");
    add_str(self, attribute);
    add_str(self, "=\"");
    add_escaped(self, value != NULL ? value : "");
    add_str(self, "\"");
}

void pfl_html_add_attributef(struct pfl_html *self, const char *attribute, const char *fmt, ...)
{
    char text[PFL_HTML_TEXT_MAX_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    va_end(ap);
    pfl_html_add_attribute(self, attribute, text);
}

void pfl_html_add_address(struct pfl_html *self, const char *attribute, const char *path, ...)
{
    const char *separator = "?";
    const char *name;
    va_list ap;

    add_str(self, " ");
    add_str(self, attribute);
    add_str(self, "=\"");
    add_str(self, path);
    va_start(ap, path);
    while ((name = va_arg(ap, const char *)) != NULL) {
        const char *value = va_arg(ap, const char *);

        if (value == NULL || *value == '\0')
            continue;
        add_str(self, separator);
        add_encoded(self, name);
        add_str(self, "=");
        add_encoded(self, value);
        separator = "&amp;";
    }
    va_end(ap);
    add_str(self, "\"");
}

void pfl_html_text(struct pfl_html *self, const char *text)
{
    end_tag(self);
    add_escaped(self, text != NULL ? text : "");
}

void pfl_html_textf(struct pfl_html *self, const char *fmt, ...)
{
    char text[PFL_HTML_TEXT_MAX_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    va_end(ap);
    pfl_html_text(self, text);
}

void pfl_html_add_leaf(struct pfl_html *self, const char *element, const char *class_name,
                       const char *text)
{
    pfl_html_open_element(self, element);
    if (class_name != NULL)
        pfl_html_add_attribute(self, "class", class_name);
    pfl_html_text(self, text);
    pfl_html_close(self);
}

void pfl_html_add_script(struct pfl_html *self, const char *path)
{
    pfl_html_open_element(self, "script");
    add_str(self, " src=\"");
    add_str(self, path);
    add_str(self, "\" defer");
    pfl_html_close(self);
}

void pfl_html_add_refresh(struct pfl_html *self, unsigned seconds, const char *path)
{
    char number[16];

    (void)snprintf(number, sizeof(number), "%u", seconds);
    pfl_html_open_element(self, "meta");
    add_str(self, " http-equiv=\"refresh\" content=\"");
    add_str(self, number);
    if (path[0] != '\0') {
        add_str(self, "; url=");
        add_str(self, path);
    }
    add_str(self, "\"");
    pfl_html_close(self);
}

/* Nothing that HTML, or the rule of a refresh, would read differently. */
static bool is_ui_address(const char *url)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._~:/#!?=";

    return (strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0) &&
           strspn(url, plain) == strlen(url);
}

static void add_ui_address(struct pfl_html *h, const char *before, const char *url)
{
    if (!is_ui_address(url)) {
        h->rc = h->rc != 0 ? h->rc : PFL_EINVAL;
        return;
    }
    add_str(h, before);
    add_str(h, url);
    add_str(h, "\"");
}

void pfl_html_href_ui(struct pfl_html *self, const char *url)
{
    add_ui_address(self, " href=\"", url);
}

void pfl_html_refresh_to_ui(struct pfl_html *self, const char *url)
{
    pfl_html_open_element(self, "meta");
    add_ui_address(self, " http-equiv=\"refresh\" content=\"0; url=", url);
    pfl_html_close(self);
}

void pfl_html_add_meta(struct pfl_html *self, const char *name, const char *content)
{
    pfl_html_open_element(self, "meta");
    pfl_html_add_attribute(self, "name", name);
    add_str(self, " content=\"");
    add_str(self, content);
    add_str(self, "\"");
    pfl_html_close(self);
}
