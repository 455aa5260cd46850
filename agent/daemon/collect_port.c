/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent does for collectors: the folder of segments, the orders, the streams of
 * collectors, and the event that tells relays what waits here (docs/protocol-tunnel.md, "Spools").
 *
 * Happy path: after the sandbox was entered the folder is read and the orders begin; a CONNECT
 * becomes a stream. Failures: without the option there is neither; a folder that cannot be used
 * ends the start. Ownership: segments and orders until their on_closed. Limits: one event a second.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/daemon/port_impl.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proto/order/order_set.h"
#include "proto/tunnel/clock_report.h"

#define EVENT_MS  1000u
#define NS_PER_MS UINT64_C(1000000)

/* ---- the event ---- */

static void report(struct pfl_agent *self, bool is_clock_wanted)
{
    struct pfl_segments_figures f;
    struct pfl_spool_event event = {.is_clock_wanted = is_clock_wanted};
    uint64_t now_ns = pfl_clock_now_ns(PFL_CLOCK_REALTIME);

    if (self->segments == NULL || self->orders == NULL)
        return;
    pfl_segments_get_figures(self->segments, &f);
    event.segments = f.sums.segments + f.gaps;
    event.bytes = f.sums.bytes;
    if (f.sums.oldest_unix_ns != 0 && now_ns > f.sums.oldest_unix_ns)
        event.oldest_ms = (now_ns - f.sums.oldest_unix_ns) / NS_PER_MS;
    pfl_order_set_write(pfl_orders_hash(self->orders), event.orders);
    pfl_events_report_spool(&self->events, &event);
}

void pfl_agent_report_spool(struct pfl_agent *self)
{
    report(self, false);
}

static void on_event_due(uv_timer_t *timer)
{
    pfl_agent_report_spool(timer->data);
}

/* The first change of a second is reported when the second is over. */
static void on_changed(void *user)
{
    struct pfl_agent *a = user;

    if (a->is_event_timer_open && !uv_is_active((uv_handle_t *)&a->event_timer))
        (void)uv_timer_start(&a->event_timer, on_event_due, EVENT_MS, 0);
}

/* Any of the relays will do. */
static bool ask_clock(void *user)
{
    struct pfl_agent *a = user;
    uint64_t now_ms = uv_now(a->conf.loop);

    if (a->events.listeners_len == 0 || a->orders == NULL)
        return false;
    if (now_ms - a->clock_asked_ms < EVENT_MS && a->clock_asked_ms != 0)
        return true;
    a->clock_asked_ms = now_ms;
    report(a, true);
    return true;
}

/* ---- begin and end ---- */

static void on_segments_closed(void *user)
{
    struct pfl_agent *a = user;

    a->segments = NULL;
    pfl_agent_finish(a);
}

static void on_orders_closed(void *user)
{
    struct pfl_agent *a = user;

    a->orders = NULL;
    pfl_segments_close(a->segments);
}

static void on_event_timer_closed(uv_handle_t *handle)
{
    struct pfl_agent *a = handle->data;

    a->is_event_timer_open = false;
    pfl_agent_finish(a);
}

static void fill_labels(struct pfl_agent *a)
{
    for (size_t i = 0; i < a->conf.labels_len; i++) {
        const struct pfl_hello_label *label = &a->conf.labels[i];

        (void)snprintf(a->label_texts[i], sizeof(a->label_texts[i]), "%s=%s", label->name,
                       label->value);
        a->label_list[i] = a->label_texts[i];
    }
}

/* ---- triggers of orders ---- */

static const char *why_unwatched(void *user, const char *trigger)
{
    const struct pfl_agent *a = user;

    if (a->watch == NULL)
        return "";
    return pfl_alarm_watch_covers(a->watch, trigger) ? NULL : pfl_alarm_watch_get_why(a->watch);
}

static void on_triggers(void *user)
{
    pfl_agent_watch_triggers(user);
}

static void on_raised(void *user, const struct pfl_host_order *order,
                      const struct pfl_order_raise *raise)
{
    struct pfl_agent *a = user;
    struct pfl_order_event event = {.orderer = order->kept->orderer,
                                    .order = order->kept->order->name,
                                    .trigger = raise->trigger,
                                    .id = raise->id,
                                    .at_ms = raise->at_ms};

    pfl_log_info("trigger-raised", "orderer=%s order=%s trigger=%s id=%s", event.orderer,
                 event.order, event.trigger, event.id);
    pfl_events_tell_order_trigger(&a->events, &event);
}

static int open_orders(struct pfl_agent *a)
{
    struct pfl_orders_conf conf = {.loop = a->conf.loop,
                                   .dir = a->conf.segments_dir,
                                   .socket = a->conf.consumer_socket,
                                   .segments = a->segments,
                                   .labels = a->label_list,
                                   .labels_len = a->conf.labels_len,
                                   .host = a->name,
                                   .expire_ms = a->conf.orders_expire_ms,
                                   .why_unwatched = why_unwatched,
                                   .on_triggers = on_triggers,
                                   .on_raised = on_raised,
                                   .on_changed = on_changed,
                                   .on_closed = on_orders_closed,
                                   .user = a};

    fill_labels(a);
    return pfl_orders_open(&conf, &a->orders);
}

int pfl_agent_open_collect(struct pfl_agent *self)
{
    struct pfl_segments_conf conf = {.loop = self->conf.loop,
                                     .dir = self->conf.segments_dir,
                                     .worker = self->segments_worker,
                                     .boot_id = self->boot_id,
                                     .quota = self->conf.segments_quota,
                                     .on_changed = on_changed,
                                     .ask_clock = ask_clock,
                                     .on_closed = on_segments_closed,
                                     .user = self};
    int rc;

    if (conf.dir == NULL)
        return 0;
    rc = pfl_segments_open(&conf, &self->segments);
    if (rc == 0)
        rc = open_orders(self);
    if (rc != 0) {
        pfl_log_error("segments-unusable",
                      "folder=%s reason=\"%s\" remedy=\"give a folder that perfleetd's user owns "
                      "and the agent's group may write to, on a local file system\"",
                      pfl_log_quote_str(conf.dir),
                      rc == PFL_EIO ? strerror(errno) : pfl_err_str(rc));
        return rc;
    }
    (void)uv_timer_init(self->conf.loop, &self->event_timer);
    self->event_timer.data = self;
    self->is_event_timer_open = true;
    self->spools.segments = self->segments;
    self->spools.orders = self->orders;
    pfl_agent_report_spool(self);
    return 0;
}

void pfl_agent_close_collect(struct pfl_agent *self)
{
    pfl_spool_streams_end(&self->spools);
    if (self->is_event_timer_open)
        uv_close((uv_handle_t *)&self->event_timer, on_event_timer_closed);
    if (self->orders != NULL)
        pfl_orders_close(self->orders);
    else if (self->segments != NULL)
        pfl_segments_close(self->segments);
}

/* ---- requests ---- */

void pfl_agent_connect_spool(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                             const struct pfl_route *route)
{
    struct pfl_collect_stream_conf conf = {.collector = route->collector,
                                           .operator_name = route->operator_name,
                                           .is_for_orderer = route->orderer != NULL};
    struct pfl_buf role;
    int rc;

    if (route->collector == NULL) {
        pfl_agent_refuse(h2_stream, 400, "bad request",
                         "the relay does not say which collector asks");
        return;
    }
    if (pfl_agent_read_role(h2_stream, route, &role) != 0)
        return;
    conf.role = pfl_buf_get(&role);
    rc = pfl_spool_streams_add(&self->spools, h2_stream, &conf);
    pfl_buf_fini(&role);
    if (rc == PFL_ELIMIT)
        pfl_agent_refuse(h2_stream, 429, "too many streams",
                         "this host serves as many streams of this collector, or of all, "
                         "as it may");
    else if (rc != 0)
        pfl_agent_refuse(h2_stream, 503, "out of memory", "the host's agent is out of memory");
}

void pfl_agent_note_clock(struct pfl_agent *self, const struct pfl_route *route)
{
    Perfleet__ClockPoint point = PERFLEET__CLOCK_POINT__INIT;
    struct pfl_clock_report report;

    if (self->segments == NULL || route->clock == NULL ||
        pfl_clock_report_read(route->clock, &report) != 0)
        return;
    point.relay = report.relay;
    point.relay_boot_id = report.relay_boot_id;
    point.has_host_boot_ns = point.has_offset_ns = point.has_error_ns = 1;
    point.has_relay_unix_ns = 1;
    point.host_boot_ns = report.host_boot_ns;
    point.offset_ns = report.offset_ns;
    point.error_ns = report.error_ns;
    point.relay_unix_ns = report.relay_unix_ns;
    pfl_segments_add_clock(self->segments, &point);
}

static void fill_raise(const struct pfl_agent *a, const struct pfl_route *route,
                       struct pfl_order_raise *ret_raise)
{
    uint64_t now_ms = uv_now(a->conf.loop);
    uint64_t ago_ms = route->raised_ago_ms < now_ms ? route->raised_ago_ms : now_ms;

    ret_raise->at_ms = now_ms - ago_ms;
    ret_raise->unix_ms = pfl_clock_now_ns(PFL_CLOCK_REALTIME) / NS_PER_MS - ago_ms;
    (void)snprintf(ret_raise->trigger, sizeof(ret_raise->trigger), "%s", route->trigger);
    (void)snprintf(ret_raise->host, sizeof(ret_raise->host), "%s", route->raised_at);
    (void)snprintf(ret_raise->id, sizeof(ret_raise->id), "%s", route->trigger_id);
}

void pfl_agent_raise_order(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                           const struct pfl_route *route)
{
    char why[PFL_ORDER_REASON_BYTES];
    struct pfl_orders_raised raised = {.orderer = route->operator_name, .name = route->name};
    struct pfl_buf role;
    int rc;

    if (route->trigger == NULL || route->raised_at == NULL || route->trigger_id == NULL) {
        pfl_agent_refuse(h2_stream, 400, "bad request", "which trigger was raised where?");
        return;
    }
    if (self->orders == NULL) {
        pfl_agent_refuse(h2_stream, 410, "no such order", "this host keeps no orders");
        return;
    }
    if (pfl_agent_read_role(h2_stream, route, &role) != 0)
        return;
    fill_raise(self, route, &raised.event);
    raised.role = pfl_buf_get(&role);
    rc = pfl_orders_raise(self->orders, &raised, why);
    pfl_buf_fini(&role);
    if (rc == PFL_EPERM)
        pfl_agent_refuse(h2_stream, 403, "not allowed", why);
    else if (rc != 0)
        pfl_agent_refuse(h2_stream, 410, "no copy", why);
    else if (pfl_h2_stream_respond_body(h2_stream, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
}
