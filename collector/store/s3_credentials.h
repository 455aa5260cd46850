/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who signs: keys of a file that the settings name, of the environment, of the file that the
 * environment names, or of the instance's metadata service, in this order. Those of a file are read
 * again when it changed. Those of the service end, and are fetched again before.
 */
#ifndef PFL_COLLECTOR_STORE_S3_CREDENTIALS_H
#define PFL_COLLECTOR_STORE_S3_CREDENTIALS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "collector/store/store.h"

#define PFL_S3_ID_BYTES      129u
#define PFL_S3_SECRET_BYTES  129u
#define PFL_S3_TOKEN_BYTES   2048u
#define PFL_S3_PATH_BYTES    256u
#define PFL_S3_PROFILE_BYTES 64u

struct pfl_s3_credentials {
    time_t end;                   /* 0: they hold; gcc warns where an array is first */
    time_t again;                 /* not before it is the metadata service asked again */
    struct timespec changed;      /* of the file that was read last */
    ino_t inode;                  /* likewise */
    bool is_metadata;             /* of the instance's service */
    char path[PFL_S3_PATH_BYTES]; /* of the file; "": of none */
    char profile[PFL_S3_PROFILE_BYTES];
    char id[PFL_S3_ID_BYTES];
    char secret[PFL_S3_SECRET_BYTES];
    char token[PFL_S3_TOKEN_BYTES];
};

/* PFL_ENOENT: there are none; PFL_EINVAL: a malformed file. The sentence is noted. */
PFL_MUST_USE int pfl_s3_credentials_load(struct pfl_s3_credentials *self,
                                         const struct pfl_store_conf *conf);
/* A file's, if it changed and has keys; the metadata service's, if they end within 5 min.
 * PFL_EAGAIN: they ended, and it gives no others. */
PFL_MUST_USE int pfl_s3_credentials_renew(struct pfl_s3_credentials *self, time_t now);
/* From a file's text. PFL_ENOENT: the profile is not there or has no key; PFL_ELIMIT. */
PFL_MUST_USE int pfl_s3_credentials_parse(struct pfl_s3_credentials *self, const char *text,
                                          const char *profile);
/* From the metadata service's JSON. PFL_EPARSE. */
PFL_MUST_USE int pfl_s3_credentials_parse_json(struct pfl_s3_credentials *self, const char *text);

#endif
