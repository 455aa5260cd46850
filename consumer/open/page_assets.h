/* SPDX-License-Identifier: Apache-2.0 */
/* The page that posts traces to a UI of another origin: the files in page/, in the order of their
 * names. */
#ifndef PFL_CONSUMER_OPEN_PAGE_ASSETS_H
#define PFL_CONSUMER_OPEN_PAGE_ASSETS_H

#include "consumer/http/asset.h"

extern const struct pfl_http_asset pfl_open_page[];
extern const size_t pfl_open_page_len;

#endif
