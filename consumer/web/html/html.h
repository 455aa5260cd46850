/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes HTML into a bounded buffer. Pure. The one place that escapes: elements and attributes are
 * literals of the program, all else is text, and there is no function that writes markup. So a
 * string of a host cannot become an element, an attribute, a script or an address.
 *
 *     pfl_html_open(h, "td");
 *     pfl_html_attr(h, "class", "number");
 *     pfl_html_text(h, host->name);
 *     pfl_html_close(h);
 *
 * The first failure is kept; later calls do nothing; pfl_html_get returns it.
 */
#ifndef PFL_CONSUMER_WEB_HTML_HTML_H
#define PFL_CONSUMER_WEB_HTML_HTML_H

#include "base/buf.h"

#define PFL_HTML_MAX_DEPTH      32u
#define PFL_HTML_TEXT_MAX_BYTES 4096u /* of formatted text; the rest is cut */

struct pfl_html {
    struct pfl_buf out;
    const char *open[PFL_HTML_MAX_DEPTH]; /* elements, static */
    unsigned depth;
    bool is_in_tag; /* attributes may follow */
    int rc;
};

void pfl_html_init(struct pfl_html *self, size_t max_bytes);
void pfl_html_fini(struct pfl_html *self);
/* "<!doctype html>", first. */
void pfl_html_begin(struct pfl_html *self);
/* Closes what is open. The content is borrowed until the next call. PFL_ENOMEM, PFL_ELIMIT (too
 * long). */
PFL_MUST_USE int pfl_html_get(struct pfl_html *self, struct pfl_span *ret_html);

/* Only literals compile. Elements without content (input, meta, ...) are closed likewise. */
#define pfl_html_open(h, element)          pfl_html_open_element((h), "" element "")
#define pfl_html_attr(h, attribute, value) pfl_html_add_attribute((h), "" attribute "", (value))
#define pfl_html_attrf(h, attribute, fmt, ...)                                                     \
    pfl_html_add_attributef((h), "" attribute "", fmt, __VA_ARGS__)
/* `<element>text</element>`. */
#define pfl_html_leaf(h, element, text) pfl_html_add_leaf((h), "" element "", NULL, (text))
#define pfl_html_leaf_of(h, element, class_name, text)                                             \
    pfl_html_add_leaf((h), "" element "", (class_name), (text))
/* href="PATH?name=value&...": the path is a literal, values are percent-encoded; pairs end with
 * NULL, and a pair whose value is "" is left out. */
#define pfl_html_href(h, path, ...) pfl_html_add_address((h), "href", "" path "", __VA_ARGS__, NULL)
#define pfl_html_href_page(h, path) pfl_html_add_address((h), "href", "" path "", (char *)NULL)

/* action="PATH" of a form. */
#define pfl_html_action(h, path) pfl_html_add_address((h), "action", "" path "", (char *)NULL)
/* A script of this program's own origin. */
#define pfl_html_script(h, path) pfl_html_add_script((h), "" path "")
/* A page that reloads, or continues at a path of ours. */
#define pfl_html_refresh(h, seconds, path) pfl_html_add_refresh((h), (seconds), "" path "")
/* `<meta name content>`; both are literals. */
#define pfl_html_meta(h, name, content) pfl_html_add_meta((h), "" name "", "" content "")

void pfl_html_text(struct pfl_html *self, const char *text); /* NULL is "" */
void pfl_html_textf(struct pfl_html *self, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void pfl_html_close(struct pfl_html *self);
/* Closes until `depth` elements are open. */
void pfl_html_close_to(struct pfl_html *self, unsigned depth);

/* href="URL", and a page that continues there at once: for an address of the Perfetto UI that this
 * program made (consumer/open), of plain characters. PFL_EINVAL for any other. */
void pfl_html_href_ui(struct pfl_html *self, const char *url);
void pfl_html_refresh_to_ui(struct pfl_html *self, const char *url);

/* ---- for the macros ---- */

void pfl_html_open_element(struct pfl_html *self, const char *element);
/* Not for addresses, styles and handlers: href, src, action, style, on...: PFL_EINVAL. */
void pfl_html_add_attribute(struct pfl_html *self, const char *attribute, const char *value);
void pfl_html_add_attributef(struct pfl_html *self, const char *attribute, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void pfl_html_add_leaf(struct pfl_html *self, const char *element, const char *class_name,
                       const char *text);
void pfl_html_add_address(struct pfl_html *self, const char *attribute, const char *path, ...)
    __attribute__((sentinel));
void pfl_html_add_script(struct pfl_html *self, const char *path);
void pfl_html_add_refresh(struct pfl_html *self, unsigned seconds, const char *path);
void pfl_html_add_meta(struct pfl_html *self, const char *name, const char *content);

#endif
