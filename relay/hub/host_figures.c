/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of hosts in the relay's metrics: see host_figures.h.
 *
 * Happy path: the first question of a viewer begins a text for each family; each call of proceed
 * adds the hosts of one bucket of the inventory, asking the policy once for each; the text that is
 * complete is given to all who ask for it within a second. Hosts that join or leave meanwhile are
 * in it or not; a host that stays is in it once. Failures: out of memory is kept in the text and
 * reported by the encoder that it is appended to. Ownership: the texts. Limits:
 * PFL_HOST_FIGURES_VIEWERS texts; a host has PFL_HOST_FIGURES rows.
 */
#include "relay/hub/host_figures.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S 1e9

static const struct {
    const char *name;
    const char *help;
} families[PFL_HOST_FIGURES] = {
    [PFL_HOST_FIGURE_CONNECTED] = {"perfleet_relay_host_connected",
                                   "1 while the agent of a known host is connected, else 0."},
    [PFL_HOST_FIGURE_STREAMS] = {"perfleet_relay_host_streams", "Streams to the host now."},
    [PFL_HOST_FIGURE_CLOCK_OFFSET] = {"perfleet_relay_host_clock_offset_seconds",
                                      "The host's boot clock less the relay's."},
    [PFL_HOST_FIGURE_CLOCK_ERROR] = {"perfleet_relay_host_clock_error_seconds",
                                     "How wrong that may be, either way."},
    [PFL_HOST_FIGURE_CERTIFICATE] = {"perfleet_relay_host_certificate_expiry_timestamp_seconds",
                                     "When the certificate that the host showed last ends."},
};

/* False: this host has no such metric. */
static bool get_figure(const struct pfl_host *host, enum pfl_host_figure figure, double *ret_value)
{
    bool is_connected = host->peer != NULL;

    switch (figure) {
    case PFL_HOST_FIGURE_CONNECTED:
        *ret_value = is_connected;
        return true;
    case PFL_HOST_FIGURE_STREAMS:
        *ret_value = host->streams;
        return is_connected;
    case PFL_HOST_FIGURE_CLOCK_OFFSET:
        *ret_value = (double)host->clock_offset_ns / NS_PER_S;
        return is_connected && host->has_clock;
    case PFL_HOST_FIGURE_CLOCK_ERROR:
        *ret_value = (double)host->clock_error_ns / NS_PER_S;
        return is_connected && host->has_clock;
    case PFL_HOST_FIGURE_CERTIFICATE:
        *ret_value = (double)host->certificate_end_s;
        return host->certificate_end_s != 0;
    default:
        return false;
    }
}

/* ---- the views ---- */

static void drop(struct pfl_host_figures_view *v)
{
    for (int f = 0; f < PFL_HOST_FIGURES; f++)
        pfl_metrics_fini(&v->families[f]);
    *v = (struct pfl_host_figures_view){.state = PFL_HOST_FIGURES_FREE};
}

static bool is_old(const struct pfl_host_figures_view *v, uint64_t now_ms)
{
    return v->state == PFL_HOST_FIGURES_MADE && now_ms - v->made_ms >= PFL_HOST_FIGURES_FRESH_MS;
}

/* NULL: it has none. */
static const struct pfl_host_figures_view *find(const struct pfl_host_figures *self,
                                                const char *viewer)
{
    for (size_t i = 0; i < PFL_HOST_FIGURES_VIEWERS; i++) {
        const struct pfl_host_figures_view *v = &self->views[i];

        if (v->state != PFL_HOST_FIGURES_FREE && strcmp(v->viewer, viewer) == 0)
            return v;
    }
    return NULL;
}

static void begin(struct pfl_host_figures_view *v, const char *viewer)
{
    (void)snprintf(v->viewer, sizeof(v->viewer), "%s", viewer);
    v->state = PFL_HOST_FIGURES_MAKING;
    for (int f = 0; f < PFL_HOST_FIGURES; f++) {
        pfl_metrics_init(&v->families[f], PFL_METRICS_MAX_BYTES);
        pfl_metrics_family(&v->families[f], PFL_METRICS_GAUGE, families[f].name, families[f].help);
    }
}

bool pfl_host_figures_ask(struct pfl_host_figures *self, const char *viewer, uint64_t now_ms)
{
    const struct pfl_host_figures_view *own;

    (void)pfl_host_figures_drop_old(self, now_ms);
    own = find(self, viewer);
    if (own != NULL)
        return own->state == PFL_HOST_FIGURES_MADE;
    for (size_t i = 0; i < PFL_HOST_FIGURES_VIEWERS; i++) {
        if (self->views[i].state != PFL_HOST_FIGURES_FREE)
            continue;
        begin(&self->views[i], viewer);
        break;
    }
    return false;
}

bool pfl_host_figures_drop_old(struct pfl_host_figures *self, uint64_t now_ms)
{
    bool is_any_left = false;

    for (size_t i = 0; i < PFL_HOST_FIGURES_VIEWERS; i++) {
        if (is_old(&self->views[i], now_ms))
            drop(&self->views[i]);
        is_any_left |= self->views[i].state != PFL_HOST_FIGURES_FREE;
    }
    return is_any_left;
}

void pfl_host_figures_restart(struct pfl_host_figures *self)
{
    char viewer[PFL_IDENTITY_NAME_BYTES];

    for (size_t i = 0; i < PFL_HOST_FIGURES_VIEWERS; i++) {
        struct pfl_host_figures_view *v = &self->views[i];
        bool is_wanted = v->state == PFL_HOST_FIGURES_MAKING;

        memcpy(viewer, v->viewer, sizeof(viewer));
        drop(v);
        if (is_wanted)
            begin(v, viewer);
    }
}

void pfl_host_figures_fini(struct pfl_host_figures *self)
{
    for (size_t i = 0; i < PFL_HOST_FIGURES_VIEWERS; i++)
        drop(&self->views[i]);
}

/* ---- making ---- */

/* The one whose turn it is. PFL_HOST_FIGURES_VIEWERS: none is being made. */
static size_t find_making(const struct pfl_host_figures *self)
{
    for (size_t i = 0; i < PFL_HOST_FIGURES_VIEWERS; i++) {
        size_t at = (self->next + i) % PFL_HOST_FIGURES_VIEWERS;

        if (self->views[at].state == PFL_HOST_FIGURES_MAKING)
            return at;
    }
    return PFL_HOST_FIGURES_VIEWERS;
}

bool pfl_host_figures_is_making(const struct pfl_host_figures *self)
{
    return find_making(self) != PFL_HOST_FIGURES_VIEWERS;
}

static void add_host(struct pfl_host_figures_view *v, const struct pfl_peer_table *peers,
                     const struct pfl_host *host)
{
    struct pfl_metrics_label label = {"host", host->name};
    double value;

    v->connected += host->peer != NULL;
    if (v->viewer[0] != '\0' && !pfl_peer_table_may_see(peers, v->viewer, host->name))
        return;
    for (int f = 0; f < PFL_HOST_FIGURES; f++) {
        if (get_figure(host, (enum pfl_host_figure)f, &value))
            pfl_metrics_row(&v->families[f], &label, 1, value);
    }
}

bool pfl_host_figures_proceed(struct pfl_host_figures *self, uint64_t now_ms)
{
    size_t at = find_making(self);
    struct pfl_host_figures_view *v = &self->views[at];
    const struct pfl_host *host = NULL;

    if (at == PFL_HOST_FIGURES_VIEWERS)
        return false;
    self->next = at + 1;
    while (host == NULL && v->bucket < PFL_HOST_INVENTORY_BUCKETS)
        host = self->peers->inventory.buckets[v->bucket++];
    for (; host != NULL; host = host->next)
        add_host(v, self->peers, host);
    if (v->bucket < PFL_HOST_INVENTORY_BUCKETS)
        return false;
    v->state = PFL_HOST_FIGURES_MADE;
    v->made_ms = now_ms;
    return true;
}

/* ---- the answer ---- */

static void collect_forgotten(const struct pfl_host_inventory *inventory, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label whys[PFL_HOST_INVENTORY_WHYS] = {
        [PFL_HOST_INVENTORY_ASKED] = {"why", "asked"},
        [PFL_HOST_INVENTORY_AGE] = {"why", "age"},
        [PFL_HOST_INVENTORY_ROOM] = {"why", "room"},
    };

    pfl_metrics_family(m, PFL_METRICS_COUNTER, "perfleet_relay_hosts_forgotten_total",
                       "Hosts that left and are known no more, by why: an operator asked, their "
                       "age, no room.");
    for (int i = 0; i < PFL_HOST_INVENTORY_WHYS; i++)
        pfl_metrics_row(m, &whys[i], 1, (double)inventory->forgotten[i]);
}

void pfl_host_figures_collect(const struct pfl_host_figures *self, const char *viewer,
                              struct pfl_metrics *metrics)
{
    const struct pfl_host_inventory *inventory = &self->peers->inventory;
    const struct pfl_host_figures_view *v = find(self, viewer);

    assert(v != NULL && v->state == PFL_HOST_FIGURES_MADE);
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_relay_hosts_known",
                       "Hosts that are connected or were.", inventory->count);
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_relay_hosts_connected",
                       "Hosts whose agent is connected.", v->connected);
    collect_forgotten(inventory, metrics);
    for (int f = 0; f < PFL_HOST_FIGURES; f++)
        pfl_metrics_append(metrics, &v->families[f]);
}
