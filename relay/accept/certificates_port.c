/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a relay's TLS configuration: see certificates_port.h. Owns nothing. */
#include "relay/accept/certificates_port.h"

#include <stdio.h>

#include "base/log.h"
#include "relay/accept/expiry.h"

/* What ends, when, and how to renew it. */
static void log_expiry(const char *what, const char *file, int64_t end_s, const char *remedy)
{
    uv_timeval64_t now;
    int64_t days;
    enum pfl_expiry_state state;
    char event[64];

    (void)uv_gettimeofday(&now);
    state = pfl_expiry_judge(end_s, now.tv_sec, &days);
    if (state == PFL_EXPIRY_LATER)
        return;
    (void)snprintf(event, sizeof(event), "%s-%s", what,
                   state == PFL_EXPIRY_PAST ? "expired" : "expires-soon");
    pfl_log(state == PFL_EXPIRY_PAST ? PFL_LOG_ERROR : PFL_LOG_WARN, event,
            "file=%s days=%lld remedy=\"%s\"", pfl_log_quote_str(file), (long long)days, remedy);
}

int pfl_certificates_load(const struct pfl_tls_files *files, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc = pfl_tls_conf_new(files, why, sizeof(why), ret_tls);

    if (rc != 0) {
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_reason(why));
        return rc;
    }
    log_expiry("certificate", files->cert_path, pfl_tls_conf_get_identity(*ret_tls)->not_after_s,
               "issue it again: perfleet pki renew DIR host NAME");
    if (files->crl_path != NULL)
        log_expiry("crl", files->crl_path, pfl_tls_conf_get_crl_end(*ret_tls),
                   "renew it, else all peers are refused: perfleet pki crl DIR, then SIGHUP");
    return 0;
}
