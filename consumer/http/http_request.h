/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A browser's HTTP/1.1 request (RFC 9112), parsed once, on arrival. Pure. Strict: what two readers
 * could read differently is refused.
 */
#ifndef PFL_CONSUMER_HTTP_REQUEST_H
#define PFL_CONSUMER_HTTP_REQUEST_H

#include "base/bytes.h"

#define PFL_HTTP_HEAD_MAX_BYTES 16384u
#define PFL_HTTP_MAX_FIELDS     64u

/* Strings are NUL-terminated and borrowed from the bytes that were parsed. */
struct pfl_http_request {
    const char *method; /* GET, HEAD, POST, OPTIONS, DELETE: other words are refused */
    const char *path;   /* begins with a slash; not decoded */
    const char *query;  /* after the question mark; "" without one */
    const char *host;
    const char *origin; /* NULL: the field is missing; so are those below */
    const char *cookie;
    const char *content_type;
    const char *fetch_site; /* Sec-Fetch-Site */
    struct pfl_span body;
};

/*
 * 0: more bytes are needed, and nothing was changed; 200: *ret_request is whole, and strings in
 * `bytes` were terminated; else the status to refuse it with. A body of more than body_max_bytes
 * is 413, bytes after the request are 400.
 */
unsigned pfl_http_request_parse(char *bytes, size_t len, size_t body_max_bytes,
                                struct pfl_http_request *ret_request);
/* "Not Found"; "Error" for a status that is not used here. */
const char *pfl_http_status_words(unsigned status);
/* The next value of that name, of those that fit, in `*cookies`, which moves behind it. False:
 * there is none. Another program of this machine may have set one of that name, too. */
bool pfl_http_cookie_next(const char **cookies, const char *name, char *ret_value,
                          size_t value_len);

#endif
