/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the policy's file: see policy_port.h. A file that cannot be read or understood is an error,
 * never an empty policy. Limits: PFL_POLICY_MAX_BYTES.
 */
#include "relay/policy_port.h"

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

int pfl_policy_load(const char *path, struct pfl_policy **ret_policy)
{
    char why[320];
    size_t len = 0;
    char *text;
    int rc;

    *ret_policy = NULL;
    if (path == NULL)
        return 0;
    text = pfl_mem_alloc(PFL_POLICY_MAX_BYTES);
    if (text == NULL)
        return PFL_ENOMEM;
    rc = read_file(path, text, &len);
    if (rc == PFL_EIO)
        (void)snprintf(why, sizeof(why), "%s", strerror(errno));
    else if (rc != 0)
        (void)snprintf(why, sizeof(why), "it is larger than 1 MiB");
    else
        rc = pfl_policy_parse(pfl_span_of(text, len), why, sizeof(why), ret_policy);
    pfl_mem_free(text);
    if (rc != 0)
        pfl_log_error("policy-unusable", "file=%s reason=%s", pfl_log_quote_str(path),
                      pfl_log_quote_str(why));
    return rc;
}
