/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to the pages: see web_access.h.
 *
 * Happy path: the Host is this port on loopback (a page whose name was made to resolve to it has
 * another one: DNS rebinding); the Origin, where there is one, is the same; the cookie is ours.
 * A POST needs the Origin, and the token that our forms have. The link's token is good for one
 * request, which gets the cookie; with the cookie, the used link leads to the pages again. Behind a
 * proxy the Host and the Origin are the proxy's, and all whom it lets through have access.
 * Data is for one further origin, too, if there is one, by CORS. A change of data has no form's
 * token: what it has, no page of a third origin can send.
 * Failures: a status. Secrets are compared in a time that does not depend on them.
 */
#include "consumer/web/frame/web_access.h"

#include <stdio.h>

static void write_hex(const uint8_t *bytes, char ret_text[PFL_WEB_SECRET_TEXT])
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < PFL_WEB_SECRET_BYTES; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * PFL_WEB_SECRET_BYTES] = '\0';
}

static bool is_secret(const char *text, const char secret[PFL_WEB_SECRET_TEXT])
{
    unsigned difference = 0;

    if (strlen(text) != PFL_WEB_SECRET_TEXT - 1)
        return false;
    for (unsigned i = 0; i < PFL_WEB_SECRET_TEXT - 1; i++)
        difference |= (unsigned)(text[i] ^ secret[i]);
    return difference == 0;
}

void pfl_web_access_init(struct pfl_web_access *self, uint16_t port,
                         const uint8_t random[PFL_WEB_RANDOM_BYTES])
{
    *self = (struct pfl_web_access){.port = port};
    write_hex(random, self->link);
    write_hex(random + PFL_WEB_SECRET_BYTES, self->cookie);
    write_hex(random + 2 * (size_t)PFL_WEB_SECRET_BYTES, self->change);
    (void)snprintf(self->cookie_name, sizeof(self->cookie_name), "perfleet-%u", port);
}

bool pfl_web_access_is_origin(const char *text)
{
    const char *host = strstr(text, "://");
    size_t scheme = host != NULL ? (size_t)(host - text) : 0;
    size_t len;

    if ((scheme != 5 || strncmp(text, "https", 5) != 0) &&
        (scheme != 4 || strncmp(text, "http", 4) != 0))
        return false;
    host += 3;
    len = strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-.:[]");
    return len != 0 && host[len] == '\0' && strlen(text) < PFL_WEB_ORIGIN_MAX;
}

void pfl_web_access_init_proxy(struct pfl_web_access *self, const char *origin,
                               const uint8_t random[PFL_WEB_RANDOM_BYTES])
{
    pfl_web_access_init(self, 0, random);
    (void)snprintf(self->origin, sizeof(self->origin), "%s", origin);
}

void pfl_web_access_get_link(const struct pfl_web_access *self, char *ret_link, size_t link_len)
{
    (void)snprintf(ret_link, link_len, "http://127.0.0.1:%u" PFL_WEB_ENTER_PATH "?token=%s",
                   self->port, self->link);
}

void pfl_web_access_get_cookie(const struct pfl_web_access *self, char *ret_field, size_t field_len)
{
    (void)snprintf(ret_field, field_len, "Set-Cookie: %s=%s; Path=/; HttpOnly; SameSite=Strict\r\n",
                   self->cookie_name, self->cookie);
}

/* "127.0.0.1:PORT" or "localhost:PORT", as in Host. */
static bool is_ours(const struct pfl_web_access *a, const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    char expected[32];

    if (a->origin[0] != '\0')
        return strcmp(strstr(a->origin, "://") + 3, host) == 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(expected, sizeof(expected), "%s:%u", names[i], a->port);
        if (strcmp(host, expected) == 0)
            return true;
    }
    return false;
}

/* The very page: of the two names, the same. */
static bool is_same_origin(const struct pfl_web_access *a, const char *origin, const char *host)
{
    if (a->origin[0] != '\0')
        return strcmp(origin, a->origin) == 0;
    return strncmp(origin, "http://", 7) == 0 && strcmp(origin + 7, host) == 0;
}

static bool has_cookie(const struct pfl_web_access *a, const struct pfl_http_request *r)
{
    const char *cookies = r->cookie;
    char value[PFL_WEB_SECRET_TEXT];
    bool is_ours = false;

    while (!is_ours && pfl_http_cookie_next(&cookies, a->cookie_name, value, sizeof(value)))
        is_ours = is_secret(value, a->cookie);
    return is_ours;
}

static unsigned judge_link(struct pfl_web_access *a, const struct pfl_http_request *r,
                           const struct pfl_form *query, const char **ret_why)
{
    const char *token = pfl_form_get(query, "token");

    if (!is_secret(token, a->link)) {
        *ret_why = "This is not the link that perfleet ui printed.";
        return 403;
    }
    if (has_cookie(a, r))
        return 303;
    if (a->is_link_used) {
        *ret_why = "This link was used already: it is good for one browser. End perfleet ui, and "
                   "start it again for another link.";
        return 403;
    }
    if (strcmp(r->method, "GET") != 0) {
        *ret_why = "The link is for GET.";
        return 405;
    }
    a->is_link_used = true;
    return 303;
}

static unsigned judge_change(const struct pfl_web_access *a, const struct pfl_http_request *r,
                             const struct pfl_form *body, const char **ret_why)
{
    if (r->origin == NULL) {
        *ret_why = "A change must come from a page of this program.";
        return 403;
    }
    if (body == NULL || r->content_type == NULL ||
        strcmp(r->content_type, "application/x-www-form-urlencoded") != 0) {
        *ret_why = "A change comes as a form.";
        return 400;
    }
    if (!is_secret(pfl_form_get(body, PFL_WEB_CHANGE_FIELD), a->change)) {
        *ret_why = "The form is not of this program, or of an earlier one: reload the page.";
        return 403;
    }
    return 200;
}

unsigned pfl_web_access_judge(struct pfl_web_access *self, const struct pfl_http_request *request,
                              const struct pfl_form *query, const struct pfl_form *body,
                              const char **ret_why)
{
    bool is_post = strcmp(request->method, "POST") == 0;
    bool is_link = strcmp(request->path, PFL_WEB_ENTER_PATH) == 0;

    if (!is_ours(self, request->host)) {
        *ret_why = self->origin[0] != '\0' ? "The page's name is not that of --origin."
                                           : "The page's name is not this machine's.";
        return 403;
    }
    if (request->origin != NULL && !is_same_origin(self, request->origin, request->host)) {
        *ret_why = "This origin has no access.";
        return 403;
    }
    if (strcmp(request->method, "OPTIONS") == 0 || strcmp(request->method, "DELETE") == 0) {
        *ret_why = "There are GET, HEAD and POST.";
        return 405;
    }
    if (is_link && self->origin[0] == '\0')
        return judge_link(self, request, query, ret_why);
    if (request->fetch_site != NULL && strcmp(request->fetch_site, "same-origin") != 0 &&
        strcmp(request->fetch_site, "none") != 0) {
        *ret_why = "This origin has no access.";
        return 403;
    }
    if (self->origin[0] == '\0' && !has_cookie(self, request)) {
        *ret_why = "Open the link that perfleet ui printed: it gives this browser access, once.";
        return 403;
    }
    return is_post ? judge_change(self, request, body, ret_why) : 200;
}

/* ---- data ---- */

void pfl_web_access_set_guest(struct pfl_web_access *self, const char *origin)
{
    (void)snprintf(self->guest, sizeof(self->guest), "%s", origin);
}

/* Not of a page of a third origin. */
static const char *judge_origin(const struct pfl_web_access *a, const struct pfl_http_request *r,
                                bool is_guest)
{
    if (!is_ours(a, r->host))
        return a->origin[0] != '\0' ? "The page's name is not that of --origin."
                                    : "The page's name is not this machine's.";
    if (r->origin != NULL && !is_guest && !is_same_origin(a, r->origin, r->host))
        return "This origin has no access: see --bigtrace-origin.";
    if (!is_guest && r->fetch_site != NULL && strcmp(r->fetch_site, "same-origin") != 0 &&
        strcmp(r->fetch_site, "none") != 0)
        return "This origin has no access: see --bigtrace-origin.";
    return NULL;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t len = sizeof(json) - 1;

    return type != NULL && strncmp(type, json, len) == 0 && (type[len] == '\0' || type[len] == ';');
}

static unsigned judge_method(const struct pfl_http_request *r, const char **ret_why)
{
    bool is_post = strcmp(r->method, "POST") == 0;

    if ((is_post || strcmp(r->method, "DELETE") == 0) && r->origin == NULL) {
        *ret_why = "A change must come from a page of this origin.";
        return 403;
    }
    if (is_post && !is_json(r->content_type)) {
        *ret_why = "The body is not application/json.";
        return 400;
    }
    return 200;
}

unsigned pfl_web_access_judge_data(const struct pfl_web_access *self,
                                   const struct pfl_http_request *request, bool *ret_is_guest,
                                   const char **ret_why)
{
    bool is_guest = self->guest[0] != '\0' && request->origin != NULL &&
                    strcmp(request->origin, self->guest) == 0;

    *ret_is_guest = is_guest;
    *ret_why = judge_origin(self, request, is_guest);
    if (*ret_why != NULL)
        return 403;
    if (strcmp(request->method, "OPTIONS") == 0) {
        *ret_why = "There are GET, POST and DELETE.";
        return is_guest ? 204 : 405;
    }
    if (self->origin[0] == '\0' && !has_cookie(self, request)) {
        *ret_why = "Open the link that perfleet ui printed in this browser: it gives access, once.";
        return 403;
    }
    return judge_method(request, ret_why);
}
