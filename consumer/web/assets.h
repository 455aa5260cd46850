/* SPDX-License-Identifier: Apache-2.0 */
/* The pages' style sheet, script and icon, embedded: files of consumer/web/assets. */
#ifndef PFL_CONSUMER_WEB_ASSETS_H
#define PFL_CONSUMER_WEB_ASSETS_H

#include "consumer/http/asset.h"

extern const struct pfl_http_asset pfl_web_assets[];
extern const size_t pfl_web_assets_len;

#endif
