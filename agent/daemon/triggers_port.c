/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' requests to raise triggers at this host: docs/protocol-tunnel.md, "Requests".
 *
 * Happy path: the role allows each of them, a connection to the service's producer socket raises
 * them, 204. Failures: a status and a sentence. The producer's name is perfleet-raise/OPERATOR: the
 * trace has it, and a trigger's producer_name_regex can match it. Ownership: each one until both
 * the connection and the request are closed. Limits: RAISES_MAX at a time, of which operators have
 * shares, and a rate for each: to the service all of them are one user, whose triggers beyond
 * PFL_TRIGGER_PER_S it ignores; triggers as of an alarm.
 */
#include <stdio.h>
#include <string.h>

#include "agent/daemon/alarm/alarm_port.h"
#include "agent/daemon/port_impl.h"
#include "base/io/fdsock.h"
#include "base/mem.h"
#include "base/shares.h"
#include "perfleet/policy.fields.h"
#include "proto/gate/role.h"
#include "tunnel/trigger_producer_port.h"

#define RAISES_MAX 16u

struct raise {
    struct pfl_list node;
    struct pfl_agent *agent;           /* borrowed: the owner */
    struct pfl_trigger_producer *port; /* owned until on_done, then NULL */
    struct pfl_h2_stream *h2_stream;   /* NULL once it is gone */
    char operator_name[PFL_IDENTITY_NAME_BYTES];
};

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* the request has no body */
}

static void on_end(void *user)
{
    (void)user;
}

static void free_if_gone(struct raise *r)
{
    struct pfl_agent *a = r->agent;

    if (r->h2_stream != NULL || r->port != NULL)
        return;
    pfl_list_remove(&r->node);
    pfl_mem_free(r);
    a->raises_len--;
    pfl_agent_finish(a);
}

static void on_h2_stream_closed(void *user, uint32_t code)
{
    struct raise *r = user;

    (void)code;
    r->h2_stream = NULL;
    free_if_gone(r);
}

static const struct pfl_h2_stream_ops h2_stream_ops = {
    .on_data = on_data, .on_end = on_end, .on_closed = on_h2_stream_closed};

static void refuse_service(struct pfl_h2_stream *h2_stream, int err)
{
    const char *why =
        "its tracing service does not answer: is perfleetd (or traced) running there, "
        "and is producer_socket its socket for producers?";

    if (err == PFL_EPERM)
        why = "its agent may not open the producer socket: see perfleetd --set-socket-permissions";
    else if (err == PFL_ESTRANGER)
        why = "its producer socket is served by a user whom its agent does not trust: its log has "
              "the user and the remedy (service_user)";
    else if (err == PFL_ETIMEOUT)
        why = "its tracing service does not answer in time";
    pfl_agent_refuse(h2_stream, 503, "no tracing service", why);
}

static void on_done(void *user, int err)
{
    struct raise *r = user;

    if (err != 0)
        pfl_log_warn("triggers-not-raised", "socket=%s reason=\"%s\"",
                     pfl_log_quote_str(r->agent->conf.producer_socket), pfl_err_str(err));
    r->port = NULL;
    if (r->h2_stream != NULL && err != 0)
        refuse_service(r->h2_stream, err);
    else if (r->h2_stream != NULL &&
             pfl_h2_stream_respond_body(r->h2_stream, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(r->h2_stream, PFL_H2_INTERNAL_ERROR);
    free_if_gone(r);
}

static int open_raise(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                      const struct pfl_agent_alarm_order *order)
{
    struct pfl_span triggers[PFL_AGENT_ALARM_TRIGGERS];
    char name[PFL_IDENTITY_NAME_BYTES + 16];
    struct raise *r = pfl_mem_zalloc(sizeof(*r));
    struct pfl_trigger_producer_conf conf = {.loop = a->conf.loop,
                                             .socket = a->conf.producer_socket,
                                             .producer_name = name,
                                             .triggers = triggers,
                                             .triggers_len = order->triggers_len,
                                             .on_done = on_done,
                                             .user = r};
    int rc;

    if (r == NULL)
        return PFL_ENOMEM;
    (void)snprintf(name, sizeof(name), "perfleet-raise/%s", order->operator_name);
    (void)snprintf(r->operator_name, sizeof(r->operator_name), "%s", order->operator_name);
    for (size_t i = 0; i < order->triggers_len; i++)
        triggers[i] = pfl_span_of(order->triggers[i], strlen(order->triggers[i]));
    rc = pfl_trigger_producer_open(&conf, &r->port);
    if (rc != 0) {
        pfl_mem_free(r);
        return rc;
    }
    r->agent = a;
    r->h2_stream = h2_stream;
    pfl_list_append(&a->raises, &r->node);
    a->raises_len++;
    pfl_h2_stream_set_user(h2_stream, &h2_stream_ops, r);
    return 0;
}

/* NULL: all are permitted. Else one that is not. */
static const char *find_forbidden(const struct pfl_agent_alarm_order *order, struct pfl_span role)
{
    for (size_t i = 0; role.len != 0 && i < order->triggers_len; i++) {
        const char *name = order->triggers[i];

        if (!pfl_role_matches(role, ROLE__TRIGGER, pfl_span_of(name, strlen(name))))
            return name;
    }
    return NULL;
}

/* False: refused already. */
static bool is_allowed(struct pfl_h2_stream *h2_stream, const struct pfl_route *route,
                       const struct pfl_agent_alarm_order *order)
{
    char name[PFL_ROLE_PATTERN_MAX + 1];
    const char *forbidden;
    struct pfl_buf role;
    char allowed[160];
    char why[480];

    if (pfl_agent_read_role(h2_stream, route, &role) != 0)
        return false;
    forbidden = find_forbidden(order, pfl_buf_get(&role));
    if (forbidden != NULL) {
        pfl_role_copy_name(pfl_buf_get(&role), name);
        pfl_role_list(pfl_buf_get(&role), ROLE__TRIGGER, allowed, sizeof(allowed));
        (void)snprintf(why, sizeof(why),
                       "refused by the relay's policy: role %s does not allow raising trigger %s "
                       "(allowed: %s); ask the administrator of the policy",
                       name, forbidden, allowed);
        pfl_log_info("request-refused", "operator=%s reason=%s", order->operator_name,
                     pfl_log_quote_reason(why));
        pfl_agent_refuse(h2_stream, 403, "not allowed", why);
    }
    pfl_buf_fini(&role);
    return forbidden == NULL;
}

/* No trigger may be lost in those of another operator. NULL: it is not too much. */
static const char *find_too_much(struct pfl_agent *a, const struct pfl_agent_alarm_order *order)
{
    const struct pfl_list *it;
    uint64_t own = 0;

    PFL_LIST_EACH (it, &a->raises) {
        const struct raise *r = PFL_CONTAINER_OF(it, struct raise, node);

        own += strcmp(r->operator_name, order->operator_name) == 0;
    }
    if (!pfl_shares_allow(RAISES_MAX, a->raises_len, own, 1))
        return "this host is raising as many triggers as it may, for you or for all: try again";
    if (!pfl_operator_rates_take(&a->raise_rates, order->operator_name, order->triggers_len,
                                 uv_now(a->conf.loop)))
        return "an operator may raise 128 triggers at once here, then 10 a second: try later";
    return NULL;
}

void pfl_agent_raise_triggers(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                              const struct pfl_route *route)
{
    struct pfl_agent_alarm_order order = {.operator_name = route->operator_name};
    const char *triggers = route->triggers;
    const char *too_much;
    int rc;

    if (triggers == NULL || !pfl_agent_alarm_read_triggers(triggers, &order)) {
        pfl_agent_refuse(h2_stream, 400, "bad request",
                         "1 to 8 triggers are raised at a time, whose names are letters, digits, "
                         ". _ and -");
        return;
    }
    if (!is_allowed(h2_stream, route, &order))
        return;
    too_much = find_too_much(self, &order);
    if (too_much != NULL) {
        pfl_agent_refuse(h2_stream, 429, "too many triggers", too_much);
        return;
    }
    pfl_log_info("triggers-raised", "operator=%s triggers=%s", order.operator_name, triggers);
    rc = open_raise(self, h2_stream, &order);
    if (rc == PFL_ENOMEM) {
        pfl_agent_refuse(h2_stream, 503, "out of memory", "the host's agent is out of memory");
    } else if (rc != 0) {
        pfl_log_warn("triggers-not-raised", "socket=%s reason=\"%s\"",
                     pfl_log_quote_str(self->conf.producer_socket),
                     rc == PFL_ESTRANGER ? pfl_fdsock_get_service_why() : pfl_err_str(rc));
        refuse_service(h2_stream, rc);
    }
}

void pfl_agent_close_triggers(struct pfl_agent *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->raises) {
        struct raise *r = PFL_CONTAINER_OF(it, struct raise, node);

        if (r->port != NULL)
            pfl_trigger_producer_close(r->port);
    }
}
