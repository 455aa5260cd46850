/* SPDX-License-Identifier: Apache-2.0 */
/* How the pages answer: their fields, the frame, a refusal, where a change leads to. */
#ifndef PFL_CONSUMER_WEB_FRAME_WEB_ANSWER_H
#define PFL_CONSUMER_WEB_FRAME_WEB_ANSWER_H

#include "consumer/http/http_port.h"
#include "consumer/web/frame/web_conf.h"
#include "consumer/web/html/html.h"
#include "consumer/web/html/layout.h"
#include "consumer/web/html/page_address.h"

/* Of every answer: a page loads from this origin alone, sends forms to it alone, and no page may
 * show it in a frame. */
#define PFL_WEB_SECURITY_FIELDS                                                                    \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "                    \
    "frame-ancestors 'none'\r\n"                                                                   \
    "X-Frame-Options: DENY\r\n"                                                                    \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                  \
    "Cross-Origin-Resource-Policy: same-origin\r\n"

/* Borrowed until the pages are closed. */
const struct pfl_web_conf *pfl_web_get_conf(const struct pfl_web *self);
struct pfl_host_rows *pfl_web_get_hosts(struct pfl_web *self);
uint64_t pfl_web_get_now_ms(const struct pfl_web *self); /* of the loop */
bool pfl_web_is_closing(const struct pfl_web *self);
/* The browsers are on other machines, so the Perfetto UI in them cannot fetch from this one. */
bool pfl_web_is_behind_proxy(const struct pfl_web *self);

/* The frame of a page: `title` and `path` (of its tab; "" for none) are borrowed by it; `notice` is
 * the number of a result, 0 for none. The owner sets command and refresh_s. */
struct pfl_layout pfl_web_lay_out(const struct pfl_web *self, const char *title, const char *path,
                                  unsigned notice);

/* Each answers: the exchange is not the caller's any more. Without memory it is status 503. */
void pfl_web_send_page(struct pfl_http_exchange *exchange, unsigned status, struct pfl_html *html);
void pfl_web_refuse(struct pfl_web *self, struct pfl_http_exchange *exchange, unsigned status,
                    const char *why);
/* After a change: the browser gets `to`, where the frame shows `result`, one line. */
void pfl_web_redirect(struct pfl_web *self, struct pfl_http_exchange *exchange,
                      struct pfl_page_address *to, const char *result);

#endif
