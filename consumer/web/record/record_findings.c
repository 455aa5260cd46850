/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's findings before a recording: see record_findings.h. What the relay knows of a host
 * comes from its row; a host reached directly has its clock measured by the recording itself. */
#include "consumer/web/record/record_findings.h"

#include "consumer/report/health.h"

static void fill_host(const struct pfl_host_rows *rows, const struct pfl_record_asked *asked,
                      struct pfl_health_host *ret_host)
{
    size_t number = pfl_host_rows_find(rows, asked->name);
    struct pfl_host_row row;

    *ret_host = (struct pfl_health_host){.name = asked->name,
                                         .why = asked->why,
                                         .state = asked->state,
                                         .agent = "",
                                         .has_clock = true};
    if (number == SIZE_MAX)
        return;
    pfl_host_rows_get_row(rows, number, &row);
    if (!row.has_relay)
        return;
    ret_host->tls = row.relay.tls;
    ret_host->agent = row.relay.version;
    ret_host->cert_end_s = row.relay.certificate_end_s;
    ret_host->has_clock = row.relay.has_clock;
    ret_host->offset_ns = row.relay.offset_ns;
    ret_host->error_ns = row.relay.error_ns;
}

int pfl_record_findings_write(const struct pfl_record_findings *self, struct pfl_buf *out)
{
    struct pfl_health_host hosts[PFL_RECORD_FINDINGS_MAX_HOSTS];
    struct pfl_health_conf conf = {.hosts = hosts,
                                   .hosts_len = self->asked_len,
                                   .trace_config = self->config,
                                   .now_s = self->now_s,
                                   .own_version = self->version};
    enum pfl_health worst;
    int rc;

    for (size_t i = 0; i < self->asked_len; i++)
        fill_host(self->rows, &self->asked[i], &hosts[i]);
    rc = pfl_health_text(&conf, out, &worst);
    return rc == 0 ? pfl_buf_append(out, "", 1) : rc;
}
