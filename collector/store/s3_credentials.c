/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials: see s3_credentials.h. The metadata service is asked as version 2 wants it: a token
 * by PUT, the role's name, the role's keys; at most 2 s each, without a proxy. Failures: none has
 * keys; keys that cannot be renewed are used to their end, and a file without keys, such as one
 * that is being written, changes nothing. Limits: a file of 64 KiB.
 */
#include "collector/store/s3_credentials.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES     (64u << 10)
#define ANSWER_BYTES   4096u
#define RENEW_BEFORE_S 300
#define AGAIN_S        30
#define METADATA       "http://169.254.169.254"

/* -- a file -- */

/* The value of "NAME = VALUE", if the line is one of that name. */
static bool take_value(const char *line, size_t len, const char *name, char *dst, size_t room)
{
    size_t name_len = strlen(name);
    size_t at = name_len;

    if (len <= name_len || memcmp(line, name, name_len) != 0)
        return false;
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    if (at == len || line[at++] != '=')
        return false;
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (len > at && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r'))
        len--;
    if (len - at >= room)
        return false;
    memcpy(dst, line + at, len - at);
    dst[len - at] = '\0';
    return true;
}

static bool is_profile(const char *line, size_t len, const char *profile)
{
    size_t profile_len = strlen(profile);

    return len >= profile_len + 2 && memcmp(line + 1, profile, profile_len) == 0 &&
           line[profile_len + 1] == ']';
}

int pfl_s3_credentials_parse(struct pfl_s3_credentials *self, const char *text, const char *profile)
{
    bool is_ours = false;

    memset(self, 0, sizeof(*self));
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        if (text[0] == '[')
            is_ours = is_profile(text, len, profile);
        else if (is_ours &&
                 !take_value(text, len, "aws_access_key_id", self->id, sizeof(self->id)) &&
                 !take_value(text, len, "aws_secret_access_key", self->secret,
                             sizeof(self->secret)))
            (void)take_value(text, len, "aws_session_token", self->token, sizeof(self->token));
        text += len + (text[len] == '\n');
    }
    return self->id[0] != '\0' && self->secret[0] != '\0' ? 0 : PFL_ENOENT;
}

static int load_file(struct pfl_s3_credentials *self, const char *path, const char *profile)
{
    char text[FILE_BYTES];
    FILE *file = fopen(path, "re");
    struct stat st;
    size_t len;
    int rc;

    if (file == NULL || fstat(fileno(file), &st) != 0) {
        rc = pfl_store_fail_errno("open", path);
        if (file != NULL)
            (void)fclose(file);
        return rc;
    }
    len = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    rc = pfl_s3_credentials_parse(self, text, profile);
    explicit_bzero(text, sizeof(text));
    if (rc != 0)
        return pfl_store_fail(PFL_EINVAL, "%.200s: no keys of profile %.40s", path, profile);
    if (snprintf(self->path, sizeof(self->path), "%s", path) >= (int)sizeof(self->path) ||
        snprintf(self->profile, sizeof(self->profile), "%s", profile) >= (int)sizeof(self->profile))
        return pfl_store_fail(PFL_EINVAL, "%.200s: its path, or the profile's name, is too long",
                              path);
    self->changed = st.st_mtim;
    self->inode = st.st_ino;
    return 0;
}

static void renew_file(struct pfl_s3_credentials *self)
{
    struct pfl_s3_credentials fresh;
    struct stat st;

    if (stat(self->path, &st) != 0 ||
        (st.st_ino == self->inode && st.st_mtim.tv_sec == self->changed.tv_sec &&
         st.st_mtim.tv_nsec == self->changed.tv_nsec))
        return;
    if (load_file(&fresh, self->path, self->profile) == 0)
        *self = fresh;
    explicit_bzero(&fresh, sizeof(fresh));
}

/* -- the metadata service -- */

/* The text of "NAME" : "VALUE"; keys have no escapes but of slashes. */
static bool take_member(const char *json, const char *name, char *dst, size_t room)
{
    char quoted[64];
    const char *at;
    size_t len = 0;

    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    at = strstr(json, quoted);
    if (at == NULL)
        return false;
    at += strlen(quoted);
    at += strspn(at, " \t\r\n:");
    if (*at++ != '"')
        return false;
    for (; *at != '"'; at++) {
        if (*at == '\\')
            at++;
        if (*at == '\0' || len + 1 >= room)
            return false;
        dst[len++] = *at;
    }
    dst[len] = '\0';
    return true;
}

int pfl_s3_credentials_parse_json(struct pfl_s3_credentials *self, const char *text)
{
    char end[32] = "";
    struct tm tm = {0};

    memset(self, 0, sizeof(*self));
    self->is_metadata = true;
    if (!take_member(text, "AccessKeyId", self->id, sizeof(self->id)) ||
        !take_member(text, "SecretAccessKey", self->secret, sizeof(self->secret)) ||
        !take_member(text, "Token", self->token, sizeof(self->token)) ||
        !take_member(text, "Expiration", end, sizeof(end)) ||
        strptime(end, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
        return PFL_EPARSE;
    self->end = timegm(&tm);
    return 0;
}

struct answer {
    char text[ANSWER_BYTES];
    size_t len;
};

static size_t take_answer(char *data, size_t size, size_t count, void *user)
{
    struct answer *answer = user;
    size_t len = size * count;

    if (len >= sizeof(answer->text) - answer->len)
        return 0;
    memcpy(answer->text + answer->len, data, len);
    answer->len += len;
    answer->text[answer->len] = '\0';
    return len;
}

static const char *or_environment(const char *value, const char *variable, const char *otherwise)
{
    if (value != NULL)
        return value;
    value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : otherwise;
}

static int ask(CURL *curl, const char *path, const char *header, struct answer *answer)
{
    const char *service = or_environment(NULL, "AWS_EC2_METADATA_SERVICE_ENDPOINT", METADATA);
    char url[512];
    struct curl_slist *headers = curl_slist_append(NULL, header);
    long status = 0;
    CURLcode code;

    answer->len = 0;
    answer->text[0] = '\0';
    (void)snprintf(url, sizeof(url), "%.250s/latest/%s", service, path);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT, 2L);
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    code = curl_easy_perform(curl);
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    return code == CURLE_OK && status == 200 && answer->len != 0 ? 0 : PFL_EAGAIN;
}

static int fetch(struct pfl_s3_credentials *self, CURL *curl)
{
    struct answer answer;
    char header[1024];
    char path[256];
    int rc;

    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PUT");
    rc = ask(curl, "api/token", "X-aws-ec2-metadata-token-ttl-seconds: 300", &answer);
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, NULL);
    (void)snprintf(header, sizeof(header), "X-aws-ec2-metadata-token: %.900s", answer.text);
    if (rc == 0)
        rc = ask(curl, "meta-data/iam/security-credentials/", header, &answer);
    answer.text[strcspn(answer.text, "\r\n")] = '\0';
    (void)snprintf(path, sizeof(path), "meta-data/iam/security-credentials/%.180s", answer.text);
    if (rc == 0)
        rc = ask(curl, path, header, &answer);
    if (rc == 0)
        rc = pfl_s3_credentials_parse_json(self, answer.text);
    explicit_bzero(&answer, sizeof(answer));
    return rc;
}

int pfl_s3_credentials_renew(struct pfl_s3_credentials *self, time_t now)
{
    bool holds = self->end != 0 && now < self->end;
    struct pfl_s3_credentials fresh;
    CURL *curl;
    int rc;

    if (self->path[0] != '\0')
        renew_file(self);
    if (!self->is_metadata || (holds && (now + RENEW_BEFORE_S < self->end || now < self->again)))
        return 0;
    curl = curl_easy_init();
    rc = curl != NULL ? fetch(&fresh, curl) : PFL_ENOMEM;
    curl_easy_cleanup(curl);
    self->again = now + AGAIN_S;
    if (rc != 0 && holds)
        return 0;
    if (rc != 0)
        return pfl_store_fail(PFL_EAGAIN, "the instance's metadata service gives no keys");
    *self = fresh;
    explicit_bzero(&fresh, sizeof(fresh));
    return 0;
}

int pfl_s3_credentials_load(struct pfl_s3_credentials *self, const struct pfl_store_conf *conf)
{
    const char *id = getenv("AWS_ACCESS_KEY_ID");
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY");
    const char *token = getenv("AWS_SESSION_TOKEN");
    const char *path = or_environment(conf->credentials_file, "AWS_SHARED_CREDENTIALS_FILE", NULL);

    memset(self, 0, sizeof(*self));
    if (conf->credentials_file == NULL && id != NULL && secret != NULL) {
        if (snprintf(self->id, sizeof(self->id), "%s", id) >= (int)sizeof(self->id) ||
            snprintf(self->secret, sizeof(self->secret), "%s", secret) >=
                (int)sizeof(self->secret) ||
            snprintf(self->token, sizeof(self->token), "%s", token != NULL ? token : "") >=
                (int)sizeof(self->token))
            return pfl_store_fail(PFL_EINVAL, "$AWS_SECRET_ACCESS_KEY or another is too long");
        return 0;
    }
    if (path != NULL)
        return load_file(self, path, or_environment(conf->profile, "AWS_PROFILE", "default"));
    self->is_metadata = true;
    return pfl_s3_credentials_renew(self, time(NULL)) == 0
               ? 0
               : pfl_store_fail(PFL_ENOENT, "no keys: neither in $AWS_ACCESS_KEY_ID, nor in a "
                                            "credentials file, nor of the instance's metadata");
}
