/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a relay for its own figures: see relay_watch_port.h.
 *
 *     timer --GET /v1/relay--> facts --> history
 *
 * Happy path: a request at once, and one each period; one at a time. Failures: a relay that is away
 * or does not answer is a gap in the history, and a sentence. Ownership: the timer; it is freed
 * when that is closed. A request that the relay does not answer outlives it, up to the connection's
 * end. Limits: PFL_FLEET_HISTORY_LEN samples.
 */
#include "consumer/web/fleet/relay_watch_port.h"

#include <stdio.h>

#include "base/mem.h"

/* A request: its own, as the relay may never answer. */
struct asked {
    struct pfl_relay_watch *watch; /* NULL: it closed before */
};

struct pfl_relay_watch {
    struct pfl_relay_watch_conf conf;
    uv_timer_t timer;
    struct asked *asked; /* NULL: no request is open */
    bool is_closing;
    bool is_known;
    char why[256];
    struct pfl_relay_facts facts;
    struct pfl_fleet_history history;
};

static void note(struct pfl_relay_watch *w, const struct pfl_relay_facts *facts, const char *why)
{
    (void)snprintf(w->why, sizeof(w->why), "%s", why);
    pfl_fleet_history_add(&w->history, uv_now(w->conf.loop), facts);
}

static const char *get_reason(int err, unsigned status)
{
    if (err != 0)
        return "The relay did not send its figures: the connection was lost, or memory is short.";
    if (status == 404)
        return "The relay is older than this program, and does not send its figures: upgrade it.";
    if (status == 403)
        return "The relay's policy has no rule for you, so it does not send its figures.";
    return "The relay did not send its figures; its log has the reason.";
}

static void on_facts(void *user, int err, unsigned status, struct pfl_span body)
{
    struct asked *asked = user;
    struct pfl_relay_watch *w = asked->watch;

    pfl_mem_free(asked);
    if (w == NULL)
        return;
    w->asked = NULL;
    if (err != 0 || status != 200) {
        note(w, NULL, get_reason(err, status));
    } else if (pfl_relay_facts_parse(body, &w->facts) != 0) {
        note(w, NULL, "The relay's figures are malformed.");
    } else {
        w->is_known = true;
        note(w, &w->facts, "");
    }
}

static void ask(struct pfl_relay_watch *w)
{
    struct asked *asked;
    struct pfl_tunnel_call call = {
        .method = "GET", .path = PFL_TUNNEL_RELAY_PATH, .on_done = on_facts};

    if (w->asked != NULL) {
        note(w, NULL, "The relay does not answer.");
        return;
    }
    asked = pfl_mem_zalloc(sizeof(*asked));
    call.user = asked;
    if (asked == NULL || pfl_tunnel_client_call(w->conf.tunnel, &call) != 0) {
        pfl_mem_free(asked);
        note(w, NULL, ""); /* it is away, as every page says */
        return;
    }
    asked->watch = w;
    w->asked = asked;
}

static void on_period(uv_timer_t *timer)
{
    ask(timer->data);
}

int pfl_relay_watch_open(const struct pfl_relay_watch_conf *conf,
                         struct pfl_relay_watch **ret_watch)
{
    struct pfl_relay_watch *w = pfl_mem_zalloc(sizeof(*w));
    uint64_t period_ms = conf->period_ms != 0 ? conf->period_ms : PFL_RELAY_WATCH_PERIOD_MS;

    if (w == NULL)
        return PFL_ENOMEM;
    w->conf = *conf;
    (void)uv_timer_init(conf->loop, &w->timer);
    w->timer.data = w;
    (void)uv_timer_start(&w->timer, on_period, period_ms, period_ms);
    ask(w);
    *ret_watch = w;
    return 0;
}

const struct pfl_relay_facts *pfl_relay_watch_get(const struct pfl_relay_watch *self)
{
    return self->is_known ? &self->facts : NULL;
}

const char *pfl_relay_watch_get_why(const struct pfl_relay_watch *self)
{
    return self->why;
}

const struct pfl_fleet_history *pfl_relay_watch_get_history(const struct pfl_relay_watch *self)
{
    return &self->history;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_relay_watch *w = handle->data;
    void (*on_closed)(void *user) = w->conf.on_closed;
    void *user = w->conf.user;

    pfl_mem_free(w);
    on_closed(user);
}

void pfl_relay_watch_close(struct pfl_relay_watch *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    if (self->asked != NULL)
        self->asked->watch = NULL;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}
