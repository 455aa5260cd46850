/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of relays for the operators' alarms at this host: docs/protocol-tunnel.md, "Alarms".
 *
 * Happy path: set (replaces the operator's alarm for this session), list, drop; a trigger raised
 * elsewhere: make the copy. A trigger raised here is sent to the relays as an event. One watch has
 * the triggers of all alarms and of the rings of orders. Failures: a status and a sentence.
 * Ownership: alarms until their on_gone, the watch. Limits: PFL_AGENT_MAX_ALARMS, and as many
 * closing ones.
 */
#include <string.h>

#include <jansson.h>

#include "agent/daemon/alarm/alarm_port.h"
#include "agent/daemon/alarm/alarm_watch_port.h"
#include "agent/daemon/port_impl.h"
#include "base/mem.h"

_Static_assert(PFL_AGENT_MAX_ALARMS *PFL_AGENT_ALARM_TRIGGERS +
                       PFL_ORDERS_MAX * PFL_ORDER_MAX_TRIGGERS <=
                   PFL_ALARM_WATCH_TRIGGERS,
               "the watch has room for all triggers");

/* ---- triggers to watch ---- */

static bool is_watched(const struct pfl_agent *a, const struct pfl_agent_alarm_order *order)
{
    for (size_t i = 0; i < order->triggers_len; i++) {
        if (!pfl_alarm_watch_covers(a->watch, order->triggers[i]))
            return false;
    }
    return true;
}

/* Updates the alarms whose triggers are now watched, or no longer. */
static void on_watch_changed(void *user)
{
    struct pfl_agent *a = user;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &a->alarms) {
        struct pfl_agent_alarm *alarm = pfl_agent_alarm_of_node(it);
        struct pfl_agent_alarm_info info;
        bool is_so;

        pfl_agent_alarm_get_info(alarm, &info);
        is_so = is_watched(a, info.order);
        pfl_agent_alarm_set_watched(alarm, is_so, is_so ? "" : pfl_alarm_watch_get_why(a->watch));
    }
}

void pfl_agent_watch_triggers(struct pfl_agent *self)
{
    struct pfl_agent *a = self;
    struct pfl_alarm_watch_set set;
    struct pfl_list *it;

    set.len = 0;
    if (a->watch == NULL)
        return;
    if (a->orders != NULL)
        pfl_orders_add_triggers(a->orders, &set);
    PFL_LIST_EACH (it, &a->alarms) {
        struct pfl_agent_alarm_info info;

        pfl_agent_alarm_get_info(pfl_agent_alarm_of_node(it), &info);
        for (size_t i = 0; info.is_waiting && i < info.order->triggers_len; i++)
            pfl_alarm_watch_set_add(&set, info.order->triggers[i]);
    }
    pfl_alarm_watch_want(a->watch, &set);
    on_watch_changed(a);
}

static void on_hit(void *user, const char *trigger)
{
    struct pfl_agent *a = user;
    struct pfl_agent_alarm_info info;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &a->alarms) {
        struct pfl_agent_alarm *alarm = pfl_agent_alarm_of_node(it);

        if (!pfl_agent_alarm_raise(alarm, trigger, ""))
            continue;
        pfl_agent_alarm_get_info(alarm, &info);
        pfl_log_info("trigger-raised", "operator=%s session=%s trigger=%s", info.operator_name,
                     info.session, info.trigger);
        pfl_events_tell_trigger(&a->events, info.operator_name, info.session, info.trigger,
                                uv_now(a->conf.loop));
    }
    if (a->orders != NULL)
        pfl_orders_on_trigger(a->orders, trigger);
    pfl_agent_watch_triggers(a);
}

static void on_watch_closed(void *user)
{
    struct pfl_agent *a = user;

    a->watch = NULL;
    pfl_agent_finish(a);
}

int pfl_agent_open_alarms(struct pfl_agent *self)
{
    struct pfl_alarm_watch_conf conf = {.loop = self->conf.loop,
                                        .socket = self->conf.consumer_socket,
                                        .on_hit = on_hit,
                                        .on_changed = on_watch_changed,
                                        .on_closed = on_watch_closed,
                                        .user = self};

    return pfl_alarm_watch_open(&conf, &self->watch);
}

/* ---- orders ---- */

static void on_gone(void *user)
{
    struct pfl_agent *a = user;

    a->alarms_len--;
    pfl_agent_finish(a);
}

/* Those that are closing are still in the list: the newest counts. */
static struct pfl_agent_alarm *find(struct pfl_agent *a, const char *operator_name,
                                    const char *session)
{
    struct pfl_agent_alarm *found = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &a->alarms) {
        struct pfl_agent_alarm_info info;

        pfl_agent_alarm_get_info(pfl_agent_alarm_of_node(it), &info);
        if (!info.is_closing && strcmp(info.operator_name, operator_name) == 0 &&
            strcmp(info.session, session) == 0)
            found = pfl_agent_alarm_of_node(it);
    }
    return found;
}

/* Those that are not closing: of one operator; NULL: of all. */
static unsigned count_of(struct pfl_agent *a, const char *operator_name)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &a->alarms) {
        struct pfl_agent_alarm_info info;

        pfl_agent_alarm_get_info(pfl_agent_alarm_of_node(it), &info);
        count += !info.is_closing &&
                 (operator_name == NULL || strcmp(info.operator_name, operator_name) == 0);
    }
    return count;
}

/* One that replaces another needs no slot of its own. */
static bool has_room(struct pfl_agent *a, const char *operator_name, bool is_replacing)
{
    unsigned more = is_replacing ? 0 : 1;

    return a->alarms_len < 2 * PFL_AGENT_MAX_ALARMS &&
           count_of(a, NULL) + more <= PFL_AGENT_MAX_ALARMS &&
           count_of(a, operator_name) + more <= PFL_AGENT_MAX_ALARMS - PFL_AGENT_MAX_ALARMS / 4;
}

static void respond_empty(struct pfl_h2_stream *h2_stream)
{
    if (pfl_h2_stream_respond_body(h2_stream, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
}

static void open_alarm(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                       const struct pfl_agent_alarm_order *order)
{
    struct pfl_agent_alarm_conf conf = {.loop = a->conf.loop,
                                        .socket = a->conf.consumer_socket,
                                        .order = order,
                                        .on_gone = on_gone,
                                        .user = a};
    struct pfl_agent_alarm *old = find(a, order->operator_name, order->session);
    struct pfl_agent_alarm *alarm;

    if (!has_room(a, order->operator_name, old != NULL)) {
        pfl_agent_refuse(h2_stream, 429, "too many alarms", "this host keeps as many as it may");
        return;
    }
    if (pfl_agent_alarm_open(&conf, &alarm) != 0) {
        pfl_agent_refuse(h2_stream, 503, "out of memory", "the host's agent is out of memory");
        return;
    }
    a->alarms_len++;
    pfl_list_append(&a->alarms, pfl_agent_alarm_get_node(alarm));
    if (old != NULL)
        pfl_agent_alarm_close(old);
    pfl_agent_watch_triggers(a);
    pfl_log_info("alarm-set", "operator=%s session=%s triggers=%zu", order->operator_name,
                 order->session, order->triggers_len);
    respond_empty(h2_stream);
}

/* False: refused already. */
static bool is_allowed(struct pfl_h2_stream *h2_stream, const struct pfl_route *route)
{
    char why[PFL_JUDGE_WHY_BYTES];
    struct pfl_buf role;
    bool is_so;

    if (pfl_agent_read_role(h2_stream, route, &role) != 0)
        return false;
    is_so = pfl_agent_alarm_is_allowed(route->session, pfl_buf_get(&role), why);
    if (!is_so)
        pfl_agent_refuse(h2_stream, 403, "not allowed", why);
    pfl_buf_fini(&role);
    return is_so;
}

static void set_alarm(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                      const struct pfl_route *route)
{
    struct pfl_agent_alarm_order order = {
        .operator_name = route->operator_name,
        .session = route->session,
    };

    if (route->triggers == NULL || !pfl_agent_alarm_read_triggers(route->triggers, &order))
        pfl_agent_refuse(h2_stream, 400, "bad request",
                         "an alarm waits for 1 to 8 triggers, whose names are letters, digits, "
                         ". _ and -");
    else if (is_allowed(h2_stream, route))
        open_alarm(a, h2_stream, &order);
}

static void drop_alarm(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                       const char *operator_name, const char *session)
{
    struct pfl_agent_alarm *alarm = find(a, operator_name, session);

    if (alarm == NULL) {
        pfl_agent_refuse(h2_stream, 410, "no such alarm", "you have none for this session here");
        return;
    }
    pfl_agent_alarm_close(alarm);
    pfl_agent_watch_triggers(a);
    pfl_log_info("alarm-dropped", "operator=%s session=%s", operator_name, session);
    respond_empty(h2_stream);
}

static void raise_alarm(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                        const struct pfl_route *route)
{
    struct pfl_agent_alarm *alarm = find(a, route->operator_name, route->session);

    if (route->trigger == NULL || route->raised_at == NULL) {
        pfl_agent_refuse(h2_stream, 400, "bad request", "which trigger was raised where?");
    } else if (alarm == NULL) {
        pfl_agent_refuse(h2_stream, 410, "no such alarm", "no alarm was set here");
    } else if (route->raised_ago_ms > pfl_agent_alarm_get_age_ms(alarm)) {
        pfl_agent_refuse(h2_stream, 410, "no such alarm", "it was set after that");
    } else if (is_allowed(h2_stream, route)) {
        if (pfl_agent_alarm_raise(alarm, route->trigger, route->raised_at)) {
            pfl_agent_watch_triggers(a);
            respond_empty(h2_stream);
        } else {
            pfl_agent_refuse(h2_stream, 410, "no such alarm",
                             "it does not wait for that (any more)");
        }
    }
}

static json_t *encode_alarm(const struct pfl_agent_alarm_info *i)
{
    json_t *triggers = json_array();

    for (size_t n = 0; n < i->order->triggers_len; n++)
        (void)json_array_append_new(triggers, json_string(i->order->triggers[n]));
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:I}", "session", i->session, "state",
                     i->state, "triggers", triggers, "trigger", i->trigger, "host", i->host, "why",
                     i->why, "since_ms", (json_int_t)i->since_ms);
}

static void list_alarms(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                        const char *operator_name)
{
    json_t *list = json_array();
    json_t *root = json_pack("{s:o}", "alarms", list);
    struct pfl_list *it;
    char *json;

    PFL_LIST_EACH (it, &a->alarms) {
        struct pfl_agent_alarm_info info;

        pfl_agent_alarm_get_info(pfl_agent_alarm_of_node(it), &info);
        if (!info.is_closing && strcmp(info.operator_name, operator_name) == 0)
            (void)json_array_append_new(list, encode_alarm(&info));
    }
    json = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (json == NULL)
        pfl_agent_refuse(h2_stream, 503, "out of memory", "the host's agent is out of memory");
    else
        pfl_agent_respond_json(h2_stream, json);
    pfl_mem_free(json);
}

void pfl_agent_answer_alarms(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                             const struct pfl_route *route)
{
    if (route->kind == PFL_ROUTE_ALARMS)
        list_alarms(self, h2_stream, route->operator_name);
    else if (route->kind == PFL_ROUTE_ALARM_SET)
        set_alarm(self, h2_stream, route);
    else if (route->kind == PFL_ROUTE_ALARM_DROP)
        drop_alarm(self, h2_stream, route->operator_name, route->session);
    else if (route->kind == PFL_ROUTE_ALARM_RAISED)
        raise_alarm(self, h2_stream, route);
}

void pfl_agent_close_alarms(struct pfl_agent *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->alarms)
        pfl_agent_alarm_close(pfl_agent_alarm_of_node(it));
    pfl_alarm_watch_close(self->watch);
}
