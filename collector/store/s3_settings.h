/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the settings of a store in S3 before a connection uses them. */
#ifndef PFL_COLLECTOR_STORE_S3_SETTINGS_H
#define PFL_COLLECTOR_STORE_S3_SETTINGS_H

#include "collector/store/store.h"

/* As pfl_store_judge, of a store "s3://...". Reads the credentials file, but no other. */
bool pfl_s3_settings_judge(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret);
/* Whether a setting is there that is of S3 alone; which. */
bool pfl_s3_settings_are_given(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret);

#endif
