/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who signs: keys of the environment, of a file as AWS's tools have it, or of the instance's
 * metadata service, in this order. Those of the service end, and are fetched again before.
 */
#ifndef PFL_COLLECTOR_STORE_S3_CREDENTIALS_H
#define PFL_COLLECTOR_STORE_S3_CREDENTIALS_H

#include <stdbool.h>
#include <time.h>

#include "collector/store/store.h"

#define PFL_S3_ID_BYTES     129u
#define PFL_S3_SECRET_BYTES 60u
#define PFL_S3_TOKEN_BYTES  2048u

struct pfl_s3_credentials {
    time_t end;       /* 0: they hold; gcc warns where an array is first */
    bool is_metadata; /* of the instance's service */
    char id[PFL_S3_ID_BYTES];
    char secret[PFL_S3_SECRET_BYTES];
    char token[PFL_S3_TOKEN_BYTES];
};

/* PFL_ENOENT: there are none; PFL_EINVAL: a malformed file. The sentence is noted. */
PFL_MUST_USE int pfl_s3_credentials_load(struct pfl_s3_credentials *self,
                                         const struct pfl_store_conf *conf);
/* The metadata service's, once more if they end within 5 min. PFL_EAGAIN. */
PFL_MUST_USE int pfl_s3_credentials_renew(struct pfl_s3_credentials *self, time_t now);
/* From a file's text. PFL_ENOENT: the profile is not there or has no key; PFL_ELIMIT. */
PFL_MUST_USE int pfl_s3_credentials_parse(struct pfl_s3_credentials *self, const char *text,
                                          const char *profile);
/* From the metadata service's JSON. PFL_EPARSE. */
PFL_MUST_USE int pfl_s3_credentials_parse_json(struct pfl_s3_credentials *self, const char *text);

#endif
