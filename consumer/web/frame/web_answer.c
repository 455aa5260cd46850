/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of the pages: see web_answer.h. The fields are the same for all; a page that found no
 * memory is a line of text.
 */
#include "consumer/web/frame/web_answer.h"

#include <stdio.h>

#include "consumer/web/frame/web_impl.h"

#define FIELDS_BYTES 1536u

const struct pfl_web_conf *pfl_web_get_conf(const struct pfl_web *self)
{
    return &self->conf;
}

struct pfl_host_rows *pfl_web_get_hosts(struct pfl_web *self)
{
    return self->hosts;
}

uint64_t pfl_web_get_now_ms(const struct pfl_web *self)
{
    return uv_now(self->conf.conn.loop);
}

bool pfl_web_is_closing(const struct pfl_web *self)
{
    return self->is_closing;
}

bool pfl_web_is_behind_proxy(const struct pfl_web *self)
{
    return self->conf.socket != NULL;
}

struct pfl_layout pfl_web_lay_out(const struct pfl_web *self, const char *title, const char *path,
                                  unsigned notice)
{
    const struct pfl_web_relay *relay = &self->conf.relay;
    const char *away = relay->name != NULL ? relay->get_away(relay->user) : NULL;
    uint64_t now_ms = pfl_web_get_now_ms(self);

    return (struct pfl_layout){
        .title = title,
        .tabs = self->tabs,
        .tabs_len = self->tabs_len,
        .path = path,
        .fleet = self->conf.fleet,
        .relay = relay->name,
        .away = away != NULL ? away : "",
        .away_s = self->away_since_ms != 0 ? (now_ms - self->away_since_ms) / 1000 : 0,
        .notice = pfl_notices_get(&self->notices, notice),
        .change = self->access.change,
        .is_remote = pfl_web_is_behind_proxy(self),
    };
}

void pfl_web_send_page(struct pfl_http_exchange *exchange, unsigned status, struct pfl_html *html)
{
    struct pfl_http_answer answer = {
        .status = status, .type = "text/html; charset=utf-8", .fields = PFL_WEB_SECURITY_FIELDS};

    if (pfl_html_get(html, &answer.body) != 0) {
        answer.status = 503;
        answer.type = "text/plain; charset=utf-8";
        answer.body = pfl_span_of("out of memory\n", 14);
    }
    pfl_http_exchange_answer(exchange, &answer);
}

void pfl_web_refuse(struct pfl_web *self, struct pfl_http_exchange *exchange, unsigned status,
                    const char *why)
{
    struct pfl_html h;

    if (status == 403 && pfl_log_limit_take(&self->log, "page-refused", pfl_web_get_now_ms(self)))
        pfl_log_warn("page-refused", "status=%u reason=\"%s\"", status, why);
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_layout_refusal(status, why, &h);
    pfl_web_send_page(exchange, status, &h);
    pfl_html_fini(&h);
}

void pfl_web_redirect(struct pfl_web *self, struct pfl_http_exchange *exchange,
                      struct pfl_page_address *to, const char *result)
{
    char number[16];
    char fields[FIELDS_BYTES];

    if (result[0] != '\0') {
        (void)snprintf(number, sizeof(number), "%u", pfl_notices_add(&self->notices, result));
        pfl_page_address_add(to, PFL_WEB_NOTICE_FIELD, number);
    }
    (void)snprintf(fields, sizeof(fields), "%sLocation: %s\r\n", PFL_WEB_SECURITY_FIELDS, to->text);
    pfl_http_exchange_answer(
        exchange, &(struct pfl_http_answer){
                      .status = 303, .type = "text/plain; charset=utf-8", .fields = fields});
}
