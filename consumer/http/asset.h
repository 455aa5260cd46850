/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are embedded in the program: consumer/http/embed.cmake makes a table
 * `const struct pfl_http_asset NAME[]` and its length `NAME_len` of them.
 */
#ifndef PFL_CONSUMER_HTTP_ASSET_H
#define PFL_CONSUMER_HTTP_ASSET_H

#include <stddef.h>

struct pfl_http_asset {
    const char *path; /* "/style.css" */
    const char *type; /* as in Content-Type */
    const unsigned char *bytes;
    size_t len;
};

#endif
