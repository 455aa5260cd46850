/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request comes from the operator's own pages: the one-time link, the cookie that it is
 * exchanged for, Host and Origin, and the token that every change must carry. Behind a proxy, which
 * signs people in, there are no link and no cookie; all else holds. Pure.
 */
#ifndef PFL_CONSUMER_WEB_FRAME_WEB_ACCESS_H
#define PFL_CONSUMER_WEB_FRAME_WEB_ACCESS_H

#include "consumer/http/form.h"
#include "consumer/http/http_request.h"

#define PFL_WEB_SECRET_BYTES 16u
#define PFL_WEB_RANDOM_BYTES (3u * PFL_WEB_SECRET_BYTES)
#define PFL_WEB_SECRET_TEXT  (2u * PFL_WEB_SECRET_BYTES + 1)

#define PFL_WEB_ORIGIN_MAX 128u

struct pfl_web_access {
    uint16_t port;
    char origin[PFL_WEB_ORIGIN_MAX]; /* behind a proxy: the only one; else "" */
    char guest[PFL_WEB_ORIGIN_MAX];  /* another origin, for data alone; "": none */
    bool is_link_used;
    char link[PFL_WEB_SECRET_TEXT];
    char cookie[PFL_WEB_SECRET_TEXT];
    char change[PFL_WEB_SECRET_TEXT];
    char cookie_name[24]; /* browsers send cookies to every port of a host */
};

void pfl_web_access_init(struct pfl_web_access *self, uint16_t port,
                         const uint8_t random[PFL_WEB_RANDOM_BYTES]);
/* "https://HOST" or with a port, as a browser sends it: in lower case, without a path. */
bool pfl_web_access_is_origin(const char *text);
/* Behind a proxy at this origin. */
void pfl_web_access_init_proxy(struct pfl_web_access *self, const char *origin,
                               const uint8_t random[PFL_WEB_RANDOM_BYTES]);
/* "http://127.0.0.1:PORT/enter?token=..." */
void pfl_web_access_get_link(const struct pfl_web_access *self, char *ret_link, size_t link_len);
/* "Set-Cookie: ...\r\n" */
void pfl_web_access_get_cookie(const struct pfl_web_access *self, char *ret_field,
                               size_t field_len);

#define PFL_WEB_ENTER_PATH   "/enter"
#define PFL_WEB_CHANGE_FIELD "change"

/*
 * The status for a request, whose query was parsed; for POST, its body, too (NULL: none):
 *   200  it may read, and with POST change
 *   303  it has the link's token, which is used up by that: the cookie is to be set
 *   400, 403, 405 with *ret_why a static sentence
 */
unsigned pfl_web_access_judge(struct pfl_web_access *self, const struct pfl_http_request *request,
                              const struct pfl_form *query, const struct pfl_form *body,
                              const char **ret_why);

/* An origin whose pages may use what pfl_web_access_judge_data lets through. */
void pfl_web_access_set_guest(struct pfl_web_access *self, const char *origin);
/*
 * The status for a request for data (JSON), which is no page's. A change is POST with a body of
 * JSON, or DELETE: a page of another origin can send neither before OPTIONS was answered.
 *   200  it may read and change; *ret_is_guest: from the guest's origin
 *   204  OPTIONS of the guest
 *   400, 403, 405 with *ret_why a static sentence
 */
unsigned pfl_web_access_judge_data(const struct pfl_web_access *self,
                                   const struct pfl_http_request *request, bool *ret_is_guest,
                                   const char **ret_why);

#endif
