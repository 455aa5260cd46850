/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet doctor`: queries every host's state, measures its clock, and reports what could spoil a
 * recording. Happy path: QueryServiceState, the clock probe on the same connection, one report.
 * Failures of a host are findings. Exit code: the worst finding.
 */
#include <stdio.h>
#include <time.h>

#include "base/io/tls_stream.h"
#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/host/clock_probe.h"
#include "consumer/host/host_state.h"
#include "consumer/report/health.h"
#include "consumer/report/summary.h"

struct patient {
    struct pfl_fan_out_host *host; /* borrowed */
    struct pfl_clock_probe probe;
    struct pfl_clock_line line;
    int64_t cert_end_s;
    const char *tls; /* static; NULL: no connection */
    bool has_clock;
};

struct doctor {
    struct patient patients[PFL_TARGETS_MAX_HOSTS];
    struct pfl_buf config; /* the trace config; empty if not given */
    enum pfl_health worst;
};

static void on_clock(void *user, const struct pfl_clock_line *line)
{
    struct patient *p = user;

    p->has_clock = line != NULL;
    if (line != NULL)
        p->line = *line;
    pfl_fan_out_done(p->host);
}

static void on_state(struct pfl_fan_out_host *h)
{
    struct doctor *d = pfl_fan_out_get_user(h);
    struct patient *p = &d->patients[h->index];

    if (pfl_clock_probe_start(&p->probe, h->conn, on_clock, p) != 0)
        pfl_fan_out_done(h);
}

static void on_ready(void *user, struct pfl_fan_out_host *host)
{
    struct doctor *d = user;
    struct patient *p = &d->patients[host->index];

    p->host = host;
    p->cert_end_s = pfl_host_conn_get_cert_end_s(host->conn);
    p->tls = pfl_host_conn_get_tls_version(host->conn);
    pfl_host_state_query(host, PFL_HOST_STATE_ALL, on_state);
}

/* Takes the relay's facts about a host behind it. */
static void look_up(const struct pfl_targets *targets, const struct pfl_fan_out_host *h,
                    struct pfl_health_host *host)
{
    struct pfl_inventory_host relay_facts;
    size_t at = SIZE_MAX;

    if (targets->inventory != NULL)
        at = pfl_inventory_find(targets->inventory, h->spec->address);
    if (at == SIZE_MAX)
        return;
    pfl_inventory_get_host(targets->inventory, at, &relay_facts);
    host->cert_end_s = relay_facts.certificate_end_s;
    host->agent = relay_facts.version;
    host->tls = relay_facts.tls;
}

static void fill_host(const struct doctor *d, const struct pfl_targets *targets,
                      const struct pfl_fan_out_host *h, struct pfl_health_host *ret_host)
{
    const struct patient *p = &d->patients[h->index];

    *ret_host = (struct pfl_health_host){
        .name = h->name[0] != '\0' ? h->name : h->spec->text,
        .why = h->why,
        .state = pfl_buf_get(&h->answer),
        .cert_end_s = p->cert_end_s,
        .tls = p->tls,
        .agent = "",
        .has_clock = p->has_clock,
        .offset_ns = p->line.begin_offset_ns,
        .error_ns = p->line.error_ns,
    };
    look_up(targets, h, ret_host);
}

static int report(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                  struct pfl_buf *out)
{
    const struct pfl_targets *t = &args->targets;
    struct doctor *d = pfl_fan_out_get_user(pfl_fan_out_get_host(fan_out, 0));
    size_t len = pfl_fan_out_get_len(fan_out);
    struct pfl_health_host *hosts = pfl_mem_calloc(len, sizeof(*hosts));
    struct pfl_health_conf conf = {
        .hosts = hosts,
        .hosts_len = len,
        .trace_config = pfl_buf_get(&d->config),
        .now_s = (int64_t)time(NULL),
        .own_version = PFL_VERSION,
        .our_cert_end_s = t->tls != NULL ? pfl_tls_conf_get_identity(t->tls)->not_after_s : 0,
        .relay_cert_end_s = t->tunnel != NULL ? pfl_tunnel_client_get_relay_end_s(t->tunnel) : 0,
    };
    int rc;

    if (hosts == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < len; i++)
        fill_host(d, t, pfl_fan_out_get_host(fan_out, i), &hosts[i]);
    rc = args->is_json ? pfl_health_json(&conf, out, &d->worst)
                       : pfl_health_text(&conf, out, &d->worst);
    pfl_mem_free(hosts);
    return rc;
}

/* The config is optional here; */
static bool read_config(const struct pfl_args *args, struct doctor *d)
{
    struct pfl_config_info info;

    return (args->config_path == NULL && args->preset == NULL) ||
           pfl_cmd_load_config(args, NULL, &d->config, &info);
}

int pfl_cmd_doctor(struct pfl_args *args)
{
    struct doctor *d = pfl_mem_zalloc(sizeof(*d));
    int code = PFL_EXIT_USAGE;

    if (d == NULL) {
        pfl_cmd_error("out of memory");
        return PFL_EXIT_NOTHING;
    }
    pfl_buf_init(&d->config, PFL_CONFIG_MAX_BYTES);
    if (read_config(args, d))
        code = pfl_cmd_ask(args, &(struct pfl_cmd_question){on_ready, report, d});
    for (size_t i = 0; i < PFL_TARGETS_MAX_HOSTS; i++)
        pfl_clock_probe_fini(&d->patients[i].probe);
    if (code == PFL_EXIT_OK && d->worst != PFL_HEALTH_GOOD)
        code = d->worst == PFL_HEALTH_BAD ? PFL_EXIT_PARTIAL : PFL_EXIT_LOSS;
    pfl_buf_fini(&d->config);
    pfl_mem_free(d);
    return code;
}
