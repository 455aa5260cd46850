/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts behind a relay. Happy path: one connection to it, GET /v1/hosts; the hosts that --host
 * and --select name become the targets; the connection stays and carries all their streams.
 * Failures before the answer (unreachable, not our fleet, refused) end the command with the reason
 * and exit 1; the tunnel recovers from later ones. An unknown host is reported at once. Limits:
 * PFL_TARGETS_MAX_HOSTS.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/targets.h"
#include "consumer/report/summary.h"
#include "proto/tunnel/tunnel.h"

static void on_hosts(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_targets *t = user;
    int rc = PFL_EPARSE;

    t->has_answer = true;
    if (err == 0 && status == 200)
        rc = pfl_inventory_parse(body, &t->inventory);
    if (rc == 0 || t->relay_why[0] != '\0')
        return;
    if (err != 0)
        snprintf(t->relay_why, sizeof(t->relay_why), "%s", pfl_err_str(err));
    else if (status != 200)
        snprintf(t->relay_why, sizeof(t->relay_why), "it answers with status %u: %s", status,
                 pfl_log_quote((const char *)body.data, body.len));
    else
        snprintf(t->relay_why, sizeof(t->relay_why), "its list of hosts is malformed");
}

static void ask_for_hosts(struct pfl_targets *t)
{
    struct pfl_tunnel_call call = {
        .method = "GET", .path = PFL_TUNNEL_HOSTS_PATH, .on_done = on_hosts, .user = t};

    if (pfl_tunnel_client_call(t->tunnel, &call) != 0)
        on_hosts(t, PFL_ENOMEM, 0, pfl_span_of(NULL, 0));
}

static void on_up(void *user)
{
    struct pfl_targets *t = user;

    t->relay_why[0] = '\0';
    if (!t->has_answer)
        ask_for_hosts(t);
}

static void on_down(void *user, const char *why)
{
    struct pfl_targets *t = user;

    snprintf(t->relay_why, sizeof(t->relay_why), "%s", why);
    if (t->has_answer) {
        if (t->list.has_changed)
            pfl_cmd_error("relay %s: %s", t->relay, why);
        t->list.has_changed = false;
        return;
    }
    t->has_answer = true;
}

static void on_closed(void *user)
{
    struct pfl_targets *t = user;

    t->is_tunnel_closed = true;
}

static bool take_host(struct pfl_targets *t, const char *name)
{
    struct pfl_host_spec *spec;

    if (!pfl_targets_grow(t, &spec))
        return false;
    pfl_host_spec_set_tunnel(spec, name);
    return true;
}

bool pfl_targets_check_names(const struct pfl_targets *self)
{
    for (size_t i = 0; i < self->hosts_len; i++) {
        const char *host = self->hosts[i];

        if (!pfl_host_is_name(host)) {
            pfl_cmd_error("--host %s: with --relay a host is a name; see perfleet hosts --relay %s",
                          host, self->relay);
            return false;
        }
        if (pfl_inventory_find(self->inventory, host) == SIZE_MAX) {
            pfl_cmd_error("--host %s: the relay knows no such host; see perfleet hosts --relay %s",
                          host, self->relay);
            return false;
        }
    }
    return true;
}

static bool take_named(struct pfl_targets *t)
{
    if (!pfl_targets_check_names(t))
        return false;
    for (size_t i = 0; i < t->hosts_len; i++)
        if (!take_host(t, t->hosts[i]))
            return false;
    return true;
}

static bool is_named(const struct pfl_targets *t, const char *name)
{
    for (size_t i = 0; i < t->hosts_len; i++)
        if (strcmp(t->hosts[i], name) == 0)
            return true;
    return false;
}

static void say_left(const struct pfl_targets *t, size_t left, const char *example)
{
    if (left != 0)
        pfl_cmd_error("note: %zu hosts of the selection left the relay more than %u s ago (%s%s) "
                      "and are not asked; perfleet hosts --problems --relay %s lists them, --host "
                      "NAME asks one, perfleet forget takes them off its list",
                      left, PFL_INVENTORY_LEFT_S, example, left > 1 ? ", ..." : "", t->relay);
}

/* Does an age leave it out? */
static bool is_too_young(const struct pfl_targets *t, const struct pfl_inventory_host *host)
{
    return t->min_away_ms != 0 &&
           (host->is_connected || host->last_seen_s * 1000 < (double)t->min_away_ms);
}

static bool take_selected(struct pfl_targets *t, const char *selection)
{
    struct pfl_inventory_host host;
    const char *example = "";
    size_t left = 0;

    for (size_t i = 0; i < pfl_inventory_get_len(t->inventory); i++) {
        pfl_inventory_get_host(t->inventory, i, &host);
        if (is_named(t, host.name) || !pfl_inventory_is_selected(&host, selection) ||
            is_too_young(t, &host))
            continue;
        if (!t->has_left_ones && pfl_inventory_has_left(&host)) {
            example = left++ == 0 ? host.name : example;
            continue;
        }
        if (!take_host(t, host.name))
            return false;
    }
    say_left(t, left, example);
    return true;
}

static bool choose_hosts(struct pfl_targets *t)
{
    const char *selection = t->selection;

    if (t->is_relay_only)
        return true;
    if (selection == NULL && t->hosts_len == 0 && t->is_all_default)
        selection = "*";
    if (selection == NULL && t->hosts_len == 0) {
        pfl_cmd_error("which of the relay's %zu hosts? Give --select TERMS ('*' is all) or --host "
                      "NAME",
                      pfl_inventory_get_len(t->inventory));
        return false;
    }
    if (!take_named(t) || (selection != NULL && !take_selected(t, selection)))
        return false;
    if (t->min_away_ms != 0)
        return true;
    if (t->specs_len == 0)
        pfl_cmd_error("none of the relay's %zu hosts is meant by --select %s",
                      pfl_inventory_get_len(t->inventory), selection);
    return t->specs_len != 0;
}

/* 0 or the exit code. */
static int connect_relay(struct pfl_targets *t)
{
    struct pfl_tunnel_client_conf conf = {
        .loop = t->loop,
        .address = t->relay,
        .tls = t->tls,
        .fleet = t->fleet,
        .handshake_timeout_ms = t->timeout_ms,
        .retry_max_ms = t->relay_retry_max_ms,
        .on_up = on_up,
        .on_down = on_down,
        .on_closed = on_closed,
        .user = t,
    };
    int rc = pfl_tunnel_client_open(&conf, &t->tunnel);

    if (rc != 0) {
        t->tunnel = NULL;
        pfl_cmd_error("--relay %s: %s; give HOST:PORT", t->relay, pfl_err_str(rc));
        t->is_past_options = false;
        return PFL_EXIT_USAGE;
    }
    while (!t->has_answer)
        uv_run(t->loop, UV_RUN_ONCE);
    if (t->relay_why[0] != '\0')
        pfl_cmd_error("relay %s: %s", t->relay, t->relay_why);
    return t->relay_why[0] == '\0' ? PFL_EXIT_OK : PFL_EXIT_NOTHING;
}

int pfl_targets_open_relay(struct pfl_targets *self)
{
    char why[512];
    int code;

    if (self->selection != NULL && pfl_selection_check(self->selection, why, sizeof(why)) != 0) {
        pfl_cmd_error("--select %s", why);
        return PFL_EXIT_USAGE;
    }
    if (self->fleet[0] == '\0') {
        pfl_cmd_error("your certificate names no fleet (perfleet://FLEET/operator/NAME): a relay "
                      "needs one; see perfleet pki operator");
        return PFL_EXIT_USAGE;
    }
    code = connect_relay(self);
    if (code != PFL_EXIT_OK)
        return code;
    return pfl_targets_take_hosts(self);
}

void pfl_targets_ask_relay(struct pfl_targets *self)
{
    pfl_mem_free(self->specs);
    pfl_inventory_free(self->inventory);
    self->specs = NULL;
    self->specs_len = 0;
    self->inventory = NULL;
    self->has_answer = false;
    if (!pfl_targets_is_relay_away(self))
        ask_for_hosts(self);
}

int pfl_targets_take_hosts(struct pfl_targets *self)
{
    return choose_hosts(self) ? PFL_EXIT_OK : PFL_EXIT_USAGE;
}

bool pfl_targets_is_relay_away(const struct pfl_targets *self)
{
    return self->tunnel != NULL && !pfl_tunnel_client_is_up(self->tunnel);
}

void pfl_targets_close_relay(struct pfl_targets *self)
{
    if (self->tunnel == NULL)
        return;
    pfl_tunnel_client_close(self->tunnel);
    while (!self->is_tunnel_closed)
        uv_run(self->loop, UV_RUN_ONCE);
    self->tunnel = NULL;
}
