/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's relays: see relays_port.h.
 *
 * Happy path: when a relay is connected, ask for the list of spools; report its hosts; ask again
 * for what changed since, which the relay answers when something did. Failures: a relay that is
 * lost is dialled again, and then asked for everything; one that refuses is asked again after a
 * wait. Ownership: clients until their on_closed, then this is freed. Limits: PFL_RELAYS_MAX, a
 * question every PAUSE_MS; lists of a relay have a tenth of the loop, however often it says that
 * there is more.
 */
#include "collector/relay/relays_port.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "collector/relay/host_map.h"

#define PAUSE_MS   200u
#define REFUSED_MS 15000u
#define LIST_TIMES 10u /* of the time that a list took, before the next one */
#define NS_PER_MS  1000000u

_Static_assert(PFL_RELAYS_MAX <= PFL_HOST_MAP_RELAYS, "a bit for each relay");

struct relay {
    struct pfl_relays *relays;
    struct pfl_tunnel_client *client; /* owned until its on_closed */
    uv_timer_t timer;
    struct pfl_log_limit log;
    unsigned index;
    bool is_asked;
    bool is_from_start;                         /* answers are parts of a list from the start */
    char version[PFL_SPOOL_LIST_VERSION_BYTES]; /* "": everything is asked for */
    char address[300];
};

struct pfl_relays {
    struct pfl_relays_conf conf;
    struct pfl_tls_conf *tls; /* a counted reference */
    struct relay list[PFL_RELAYS_MAX];
    unsigned open; /* clients and timers */
    bool is_closing;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

static void ask(struct relay *r);

static void finish(struct pfl_relays *s)
{
    if (!s->is_closing || s->open != 0)
        return;
    s->conf.on_closed(s->conf.user);
    pfl_tls_conf_unref(s->tls);
    pfl_mem_free(s);
}

/* ---- the list ---- */

static void on_timer(uv_timer_t *timer)
{
    ask(timer->data);
}

static void ask_later(struct relay *r, uint64_t wait_ms)
{
    if (!r->relays->is_closing)
        (void)uv_timer_start(&r->timer, on_timer, wait_ms, 0);
}

static void on_host(void *user, const struct pfl_spool_host *host)
{
    struct relay *r = user;
    struct pfl_spool_host seen = *host;

    seen.is_from_start = seen.is_from_start || r->is_from_start;
    r->relays->conf.on_host(r->relays->conf.user, r->index, &seen);
}

static void tell_unreadable(struct relay *r, int err)
{
    pfl_log_warn("spools-unreadable", "address=%s reason=\"%s\"", pfl_log_quote_str(r->address),
                 pfl_err_str(err));
    ask_later(r, REFUSED_MS);
}

static void read_list(struct relay *r, struct pfl_span body)
{
    uint64_t since_ns = uv_hrtime();
    struct pfl_spool_list list;
    int rc = pfl_spool_list_parse(body, on_host, r, &list);
    uint64_t pause_ms;

    if (rc != 0) {
        tell_unreadable(r, rc);
        return;
    }
    memcpy(r->version, list.version, sizeof(r->version));
    r->is_from_start = list.has_more && (list.is_from_start || r->is_from_start);
    r->relays->conf.on_listed(r->relays->conf.user, r->index, !list.has_more);
    pause_ms = (uv_hrtime() - since_ns) * LIST_TIMES / NS_PER_MS;
    ask_later(r, list.has_more || pause_ms > PAUSE_MS ? pause_ms : PAUSE_MS);
}

static void on_answer(void *user, int err, unsigned status, struct pfl_span body)
{
    struct relay *r = user;

    r->is_asked = false;
    if (r->relays->is_closing)
        return;
    if (err == 0 && status == 200) {
        read_list(r, body);
        return;
    }
    if (err == PFL_ELIMIT) {
        tell_unreadable(r, err);
        return;
    }
    if (err == 0 && pfl_log_limit_take(&r->log, "spools-refused", uv_now(r->relays->conf.loop)))
        pfl_log_warn("spools-refused", "address=%s status=%u reason=%s",
                     pfl_log_quote_str(r->address), status,
                     pfl_log_quote((const char *)body.data, body.len));
    ask_later(r, REFUSED_MS);
}

static void ask(struct relay *r)
{
    struct pfl_h2_field field = {PFL_TUNNEL_H_AFTER, r->version};
    struct pfl_tunnel_call call = {.method = "GET",
                                   .path = PFL_TUNNEL_SPOOLS_PATH,
                                   .fields = &field,
                                   .fields_len = r->version[0] != '\0' ? 1 : 0,
                                   .body_max_bytes = PFL_SPOOL_LIST_BYTES_MAX,
                                   .on_done = on_answer,
                                   .user = r};
    int rc;

    if (r->is_asked || r->client == NULL || !pfl_tunnel_client_is_up(r->client))
        return;
    rc = pfl_tunnel_client_call(r->client, &call);
    r->is_asked = rc == 0;
    if (rc != 0)
        ask_later(r, REFUSED_MS);
}

/* ---- connections ---- */

static void on_up(void *user)
{
    struct relay *r = user;

    pfl_log_info("relay-connected", "address=%s", pfl_log_quote_str(r->address));
    ask_later(r, 0);
}

static void on_down(void *user, const char *why)
{
    struct relay *r = user;

    if (pfl_log_limit_take(&r->log, "relay-lost", uv_now(r->relays->conf.loop)))
        pfl_log_warn("relay-lost", "address=%s reason=%s", pfl_log_quote_str(r->address),
                     pfl_log_quote_reason(why));
    r->version[0] = '\0';
    r->is_from_start = false;
    r->relays->conf.on_lost(r->relays->conf.user, r->index);
}

static void on_client_closed(void *user)
{
    struct relay *r = user;
    struct pfl_relays *s = r->relays;

    r->client = NULL;
    s->open--;
    finish(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct relay *r = handle->data;
    struct pfl_relays *s = r->relays;

    s->open--;
    finish(s);
}

static int open_relay(struct pfl_relays *s, unsigned index)
{
    struct relay *r = &s->list[index];
    struct pfl_tunnel_client_conf conf = {
        .loop = s->conf.loop,
        .address = s->conf.addresses[index],
        .tls = s->tls,
        .fleet = s->fleet,
        .on_up = on_up,
        .on_down = on_down,
        .on_closed = on_client_closed,
        .user = r,
    };
    int rc;

    r->relays = s;
    r->index = index;
    (void)snprintf(r->address, sizeof(r->address), "%s", s->conf.addresses[index]);
    (void)uv_timer_init(s->conf.loop, &r->timer);
    r->timer.data = r;
    s->open++;
    rc = pfl_tunnel_client_open(&conf, &r->client);
    if (rc == 0)
        s->open++;
    else
        pfl_log_error("relay-not-dialled", "address=%s reason=\"%s\"",
                      pfl_log_quote_str(r->address), pfl_err_str(rc));
    return rc;
}

/* ---- opening ---- */

static int load_tls(struct pfl_relays *s, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc;

    s->conf.files.alpn = pfl_tunnel_client_alpn;
    s->conf.files.is_server = false;
    rc = pfl_tls_conf_new(&s->conf.files, why, sizeof(why), ret_tls);
    if (rc != 0)
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_reason(why));
    return rc;
}

static int learn_name(struct pfl_relays *s)
{
    const char *uri = pfl_tls_conf_get_identity(s->tls)->uri;
    struct pfl_identity id;

    if (pfl_identity_parse(uri, &id) != 0 || id.role != PFL_IDENTITY_OPERATOR) {
        pfl_log_error("not-an-operator",
                      "uri=%s reason=\"the certificate's name is not "
                      "perfleet://FLEET/operator/NAME\" "
                      "remedy=\"issue one: perfleet pki operator DIR NAME\"",
                      pfl_log_quote_str(uri));
        return PFL_EINVAL;
    }
    memcpy(s->fleet, id.fleet, sizeof(s->fleet));
    memcpy(s->name, id.name, sizeof(s->name));
    return 0;
}

int pfl_relays_open(const struct pfl_relays_conf *conf, struct pfl_relays **ret_relays)
{
    struct pfl_relays *s = pfl_mem_zalloc(sizeof(*s));
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = *conf;
    rc = load_tls(s, &s->tls);
    if (rc == 0)
        rc = learn_name(s);
    if (rc != 0) {
        pfl_tls_conf_unref(s->tls);
        pfl_mem_free(s);
        return rc;
    }
    for (unsigned i = 0; i < conf->len; i++)
        (void)open_relay(s, i); /* logged; the others serve */
    *ret_relays = s;
    return 0;
}

const char *pfl_relays_get_fleet(const struct pfl_relays *self)
{
    return self->fleet;
}

const char *pfl_relays_get_name(const struct pfl_relays *self)
{
    return self->name;
}

unsigned pfl_relays_count(const struct pfl_relays *self)
{
    return (unsigned)self->conf.len;
}

unsigned pfl_relays_count_connected(const struct pfl_relays *self)
{
    unsigned count = 0;

    for (unsigned i = 0; i < self->conf.len; i++)
        count += self->list[i].client != NULL && pfl_tunnel_client_is_up(self->list[i].client);
    return count;
}

struct pfl_tunnel_client *pfl_relays_get_client(struct pfl_relays *self, unsigned relay)
{
    struct pfl_tunnel_client *client = relay < self->conf.len ? self->list[relay].client : NULL;

    return client != NULL && pfl_tunnel_client_is_up(client) ? client : NULL;
}

const struct pfl_tls_conf *pfl_relays_get_tls(const struct pfl_relays *self)
{
    return self->tls;
}

void pfl_relays_reload(struct pfl_relays *self)
{
    struct pfl_tls_conf *fresh = NULL;

    if (load_tls(self, &fresh) != 0) {
        pfl_log_error("reload-failed", "the old certificates stay in use");
        return;
    }
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
    for (unsigned i = 0; i < self->conf.len; i++) {
        if (self->list[i].client != NULL)
            pfl_tunnel_client_set_tls(self->list[i].client, fresh);
    }
    pfl_log_info("reloaded", "certificate=%s",
                 pfl_log_quote_str(pfl_tls_conf_get_identity(fresh)->uri));
}

void pfl_relays_close(struct pfl_relays *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    self->open++;
    for (unsigned i = 0; i < self->conf.len; i++) {
        uv_close((uv_handle_t *)&self->list[i].timer, on_timer_closed);
        if (self->list[i].client != NULL)
            pfl_tunnel_client_close(self->list[i].client);
    }
    self->open--;
    finish(self);
}
