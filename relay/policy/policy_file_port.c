/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the policy's file: see policy_file_port.h. A file that cannot be read or parsed is an
 * error, never an empty policy. Limits: PFL_POLICY_MAX_BYTES.
 */
#include "relay/policy/policy_file_port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static int read_file(const char *path, char *text, size_t *ret_len)
{
    FILE *file = fopen(path, "re");
    int rc = 0;

    if (file == NULL)
        return PFL_EIO;
    *ret_len = fread(text, 1, PFL_POLICY_MAX_BYTES, file);
    if (ferror(file) != 0)
        rc = PFL_EIO;
    else if (*ret_len == PFL_POLICY_MAX_BYTES)
        rc = PFL_ELIMIT;
    (void)fclose(file);
    return rc;
}

/* PFL_EIO, PFL_ELIMIT and those of pfl_policy_parse; the words are in `ret_why`. */
static int load(const char *path, char *ret_why, struct pfl_policy **ret_policy)
{
    char *text = pfl_mem_alloc(PFL_POLICY_MAX_BYTES);
    size_t len = 0;
    int rc;

    (void)snprintf(ret_why, PFL_POLICY_WHY_BYTES, "out of memory");
    if (text == NULL)
        return PFL_ENOMEM;
    rc = read_file(path, text, &len);
    if (rc == PFL_EIO)
        (void)snprintf(ret_why, PFL_POLICY_WHY_BYTES, "%s", strerror(errno));
    else if (rc != 0)
        (void)snprintf(ret_why, PFL_POLICY_WHY_BYTES, "it is larger than 1 MiB");
    else
        rc = pfl_policy_parse(pfl_span_of(text, len), ret_why, ret_policy);
    pfl_mem_free(text);
    return rc;
}

int pfl_policy_file_load(const char *path, struct pfl_policy **ret_policy)
{
    char why[PFL_POLICY_WHY_BYTES];
    int rc;

    *ret_policy = NULL;
    if (path == NULL)
        return 0;
    rc = load(path, why, ret_policy);
    if (rc != 0)
        pfl_log_error("policy-unusable", "file=%s reason=%s", pfl_log_quote_str(path),
                      pfl_log_quote_reason(why));
    return rc;
}

bool pfl_policy_file_check(const char *path)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_policy *policy;

    if (load(path, why, &policy) != 0) {
        (void)fprintf(stderr, "%s:%s%s\n", path, why[0] >= '0' && why[0] <= '9' ? "" : " ", why);
        return false;
    }
    printf("%s: %u rules, %u roles\n", path, pfl_policy_count_rules(policy),
           pfl_policy_count_roles(policy));
    pfl_policy_free(policy);
    return true;
}
