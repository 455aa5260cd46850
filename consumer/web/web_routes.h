/* SPDX-License-Identifier: Apache-2.0 */
/* Which page answers which request. */
#ifndef PFL_CONSUMER_WEB_WEB_ROUTES_H
#define PFL_CONSUMER_WEB_WEB_ROUTES_H

#include "consumer/web/frame/web_visit.h"
#include "consumer/web/html/layout.h"

struct pfl_web_route {
    const char *method; /* GET, and so HEAD; or POST */
    const char *path;   /* the whole path; with a slash at its end, a prefix of paths */
    /* Access was judged, and for POST the form's token. It answers the exchange, now or later. */
    void (*open)(struct pfl_web *web, struct pfl_http_exchange *exchange,
                 const struct pfl_web_request *request);
};

/* NULL: there is none. */
const struct pfl_web_route *pfl_web_routes_find(const char *method, const char *path);

/* In the order of the frame. */
extern const struct pfl_layout_tab pfl_web_tabs[];
extern const size_t pfl_web_tabs_len;

#endif
