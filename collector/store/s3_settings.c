/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of S3: see s3_settings.h. A refusal names the setting, what it wants, and its value.
 * A password in a proxy's or an endpoint's URL is refused, because lists of processes and logs show
 * it. Failures: a credentials file that is not there is an error when the store is opened. Limits:
 * HOST_MAX, PATH_MAX_BYTES.
 */
#include "collector/store/s3_settings.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collector/store/s3_credentials.h"

#define LOWER         "abcdefghijklmnopqrstuvwxyz"
#define DIGITS        "0123456789"
#define HOST_MAX      180u /* of an endpoint; a bucket's name comes before it */
#define REGION_MAX    63u
#define PROXY_MAX     511u
#define PATH_MAX_LEN  255u
#define KMS_KEY_MAX   255u
#define BUCKET_MIN    3u
#define BUCKET_MAX    63u
#define PORT_MAX      65535
#define PORT_DIGITS   5u
#define SCHEME_S3     "s3://"
#define SCHEME_HTTP   "http://"
#define SCHEME_HTTPS  "https://"
#define WANTS_PLACE   "wants DIR, s3://BUCKET or s3://BUCKET/PREFIX"
#define WANTS_URL     "wants https://HOST[:PORT]"
#define WANTS_ENV_URL "of the variable AWS_ENDPOINT_URL wants https://HOST[:PORT]"

static bool refuse(struct pfl_store_refusal *ret, const char *setting, const char *what,
                   const char *value)
{
    *ret = (struct pfl_store_refusal){setting, what, value};
    return false;
}

static bool has_begin(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

static bool consists_of(const char *text, size_t len, const char *chars)
{
    return strspn(text, chars) >= len;
}

static bool judge_place(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret)
{
    const char *bucket = conf->where + strlen(SCHEME_S3);
    size_t len = strcspn(bucket, "/");
    const char *prefix = bucket[len] == '/' ? bucket + len + 1 : "";

    if (len < BUCKET_MIN || len > BUCKET_MAX || !consists_of(bucket, len, LOWER DIGITS ".-") ||
        bucket[0] == '.' || bucket[0] == '-')
        return refuse(ret, "store", WANTS_PLACE, conf->where);
    if (prefix[0] != '\0' && !pfl_store_is_key(prefix))
        return refuse(ret, "store", WANTS_PLACE, conf->where);
    return true;
}

static bool is_port(const char *text)
{
    size_t len = strlen(text);

    return len != 0 && len <= PORT_DIGITS && consists_of(text, len, DIGITS) &&
           strtol(text, NULL, 10) <= PORT_MAX && strtol(text, NULL, 10) != 0;
}

/* "NAME", "NAME:PORT", "[V6]" or "[V6]:PORT". */
static bool is_authority(const char *text, bool *ret_is_address)
{
    char host[HOST_MAX + 1];
    size_t len = text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
    struct in6_addr v6;
    struct in_addr v4;

    if (len == 0 || len > HOST_MAX || len > strlen(text) ||
        (text[len] != '\0' && (text[len] != ':' || !is_port(text + len + 1))))
        return false;
    (void)snprintf(host, sizeof(host), "%.*s", (int)len, text);
    *ret_is_address = inet_pton(AF_INET, host, &v4) == 1 || host[0] == '[';
    if (host[0] != '[')
        return consists_of(host, len, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS ".-_");
    host[len - 1] = '\0';
    return inet_pton(AF_INET6, host + 1, &v6) == 1;
}

static bool judge_endpoint(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret)
{
    const char *endpoint = conf->endpoint != NULL ? conf->endpoint : getenv("AWS_ENDPOINT_URL");
    const char *what = conf->endpoint != NULL ? WANTS_URL : WANTS_ENV_URL;
    const char *authority = NULL;
    bool is_address = false;

    if (endpoint == NULL || (conf->endpoint == NULL && endpoint[0] == '\0'))
        return true;
    if (strchr(endpoint, '@') != NULL) /* the value may be a password */
        return refuse(ret, "s3_endpoint", "has an \"@\": " WANTS_URL ", without a user", NULL);
    if (has_begin(endpoint, SCHEME_HTTPS))
        authority = endpoint + strlen(SCHEME_HTTPS);
    if (has_begin(endpoint, SCHEME_HTTP))
        authority = endpoint + strlen(SCHEME_HTTP);
    if (authority == NULL || !is_authority(authority, &is_address))
        return refuse(ret, "s3_endpoint", what, endpoint);
    if (is_address && !conf->has_path_style)
        return refuse(ret, "s3_endpoint",
                      "is an address, before which no bucket's name can stand: give a name, or "
                      "s3_path_style",
                      endpoint);
    return true;
}

static bool judge_encryption(const char *encryption, struct pfl_store_refusal *ret)
{
    size_t key_len = 0;

    if (encryption == NULL || strcmp(encryption, "AES256") == 0 ||
        strcmp(encryption, "aws:kms") == 0)
        return true;
    if (has_begin(encryption, "aws:kms:"))
        key_len = strlen(encryption + strlen("aws:kms:"));
    if (key_len == 0 || key_len > KMS_KEY_MAX ||
        !consists_of(encryption, strlen(encryption),
                     LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS ":/_-"))
        return refuse(ret, "s3_encryption", "wants AES256, aws:kms or aws:kms:KEY-ID", encryption);
    return true;
}

static bool judge_proxy(const char *proxy, struct pfl_store_refusal *ret)
{
    if (proxy == NULL)
        return true;
    if (strchr(proxy, '@') != NULL) /* the value may be a password */
        return refuse(ret, "s3_proxy",
                      "has an \"@\": a proxy with a password belongs into the variable https_proxy",
                      NULL);
    if (proxy[0] == '\0' || strlen(proxy) > PROXY_MAX || strpbrk(proxy, " ?#") != NULL)
        return refuse(ret, "s3_proxy", "wants http://HOST:PORT, or another URL that curl has",
                      proxy);
    return true;
}

/* Its rights are those that keys of certificates must have. */
static bool judge_credentials(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret)
{
    struct pfl_s3_credentials keys;
    struct stat st;
    int rc;

    if (conf->credentials_file == NULL) {
        if (conf->profile != NULL && getenv("AWS_SHARED_CREDENTIALS_FILE") == NULL)
            return refuse(ret, "s3_profile", "is a profile of no file: give s3_credentials_file",
                          conf->profile);
        return true;
    }
    if (stat(conf->credentials_file, &st) != 0)
        return true;
    if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        return refuse(ret, "s3_credentials_file",
                      "wants a file that others cannot read and its group cannot write (chmod 600)",
                      conf->credentials_file);
    rc = pfl_s3_credentials_load(&keys, conf);
    explicit_bzero(&keys, sizeof(keys));
    if (rc == PFL_EINVAL)
        return refuse(ret, "s3_credentials_file",
                      "wants a file with aws_access_key_id and aws_secret_access_key in the "
                      "profile (s3_profile)",
                      conf->credentials_file);
    return true;
}

static bool judge_folder(const char *folder, struct pfl_store_refusal *ret)
{
    struct stat st;

    if (folder == NULL)
        return true;
    if (folder[0] != '/' || strlen(folder) > PATH_MAX_LEN || stat(folder, &st) != 0 ||
        !S_ISDIR(st.st_mode))
        return refuse(ret, "s3_staging_dir", "wants the path of a folder that is there", folder);
    return true;
}

bool pfl_s3_settings_judge(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret)
{
    const char *region = conf->region;

    if (!judge_place(conf, ret) || !judge_endpoint(conf, ret))
        return false;
    if (region != NULL && (region[0] == '\0' || strlen(region) > REGION_MAX ||
                           !consists_of(region, strlen(region), LOWER DIGITS "-")))
        return refuse(ret, "s3_region", "wants a region's name, such as eu-central-1", region);
    if (conf->ca_file != NULL && strlen(conf->ca_file) > PATH_MAX_LEN)
        return refuse(ret, "s3_ca_file", "wants a path of at most 255 bytes", NULL);
    return judge_encryption(conf->encryption, ret) && judge_proxy(conf->proxy, ret) &&
           judge_folder(conf->staging_dir, ret) && judge_credentials(conf, ret);
}

bool pfl_s3_settings_are_given(const struct pfl_store_conf *conf, struct pfl_store_refusal *ret)
{
    const struct {
        const char *setting;
        const char *value;
    } given[] = {
        {"s3_endpoint", conf->endpoint},
        {"s3_region", conf->region},
        {"s3_credentials_file", conf->credentials_file},
        {"s3_profile", conf->profile},
        {"s3_ca_file", conf->ca_file},
        {"s3_proxy", conf->proxy},
        {"s3_encryption", conf->encryption},
        {"s3_staging_dir", conf->staging_dir},
        {"s3_path_style", conf->has_path_style ? "" : NULL},
    };

    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        if (given[i].value == NULL)
            continue;
        *ret = (struct pfl_store_refusal){given[i].setting, "is for a store of s3://BUCKET", NULL};
        return true;
    }
    return false;
}
