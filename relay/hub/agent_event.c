/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses an event's line: see agent_event.h. Happy path: an object, its kind, the members of that
 * kind. Failures: anything else, and no memory, is NOTHING. Ownership: none. Limits: the caller
 * limits the line's length; jansson limits the depth.
 */
#include "relay/hub/agent_event.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "proto/gate/judge.h"
#include "proto/tunnel/route.h"

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text != NULL ? text : "";
}

/* False, and `dst` stays "": it is none. */
static bool take_name(const json_t *event, const char *key, char dst[PFL_IDENTITY_NAME_BYTES])
{
    const char *text = text_of(event, key);

    if (!pfl_identity_is_name(text))
        return false;
    (void)snprintf(dst, PFL_IDENTITY_NAME_BYTES, "%s", text);
    return true;
}

static void take_request(const json_t *event, enum pfl_agent_event_kind kind,
                         struct pfl_agent_event *h)
{
    const char *stream = text_of(event, "stream");
    const char *method = text_of(event, "method");

    if (!take_name(event, "operator", h->who))
        return;
    if (pfl_route_is_stream_id(stream))
        (void)snprintf(h->stream, sizeof(h->stream), "%s", stream);
    h->method = pfl_method_name(pfl_method_find(pfl_span_of(method, strlen(method))));
    (void)snprintf(h->detail, sizeof(h->detail), "%s", text_of(event, "reason"));
    h->kind = kind;
}

static bool take_order(const json_t *event, struct pfl_agent_event *h)
{
    const char *id = text_of(event, "id");

    if (!pfl_ulid_is_valid(id) || !take_name(event, "order", h->order))
        return false;
    (void)snprintf(h->trigger_id, sizeof(h->trigger_id), "%s", id);
    return true;
}

static void take_trigger(const json_t *event, struct pfl_agent_event *h)
{
    const json_t *at = json_object_get(event, "at_ms");

    if (!take_name(event, "operator", h->who) || !take_name(event, "trigger", h->trigger) ||
        !(take_order(event, h) || take_name(event, "session", h->session)))
        return;
    h->has_at = json_is_integer(at) && json_integer_value(at) >= 0;
    h->at_ms = h->has_at ? (uint64_t)json_integer_value(at) : 0;
    h->kind = PFL_AGENT_EVENT_TRIGGER;
}

static void take_lost(const json_t *event, struct pfl_agent_event *h)
{
    json_int_t count = json_integer_value(json_object_get(event, "count"));

    h->kind = PFL_AGENT_EVENT_LOST;
    h->count = count < 1 ? 1 : (uint64_t)count;
    if (h->count > PFL_AGENT_EVENT_LOST_MAX)
        h->count = PFL_AGENT_EVENT_LOST_MAX;
}

static uint64_t number_of(const json_t *event, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(event, key));

    return value > 0 ? (uint64_t)value : 0;
}

static void take_spool(const json_t *event, struct pfl_agent_event *h)
{
    const char *orders = text_of(event, "orders");
    size_t len = strspn(orders, "0123456789abcdef");

    h->spool = (struct pfl_host_spool){.is_known = true,
                                       .segments = number_of(event, "segments"),
                                       .bytes = number_of(event, "bytes"),
                                       .oldest_ms = number_of(event, "oldest_ms")};
    if (len == sizeof(h->spool.orders) - 1 && orders[len] == '\0')
        memcpy(h->spool.orders, orders, sizeof(h->spool.orders));
    h->is_clock_wanted = json_is_true(json_object_get(event, "clock"));
    h->kind = PFL_AGENT_EVENT_SPOOL;
}

static bool has(struct pfl_span line, const char *text)
{
    return line.len != 0 && memmem(line.data, line.len, text, strlen(text)) != NULL;
}

enum pfl_agent_event_kind pfl_agent_event_guess(struct pfl_span line_untrusted)
{
    if (has(line_untrusted, "\"kind\":\"trigger\""))
        return PFL_AGENT_EVENT_TRIGGER;
    return has(line_untrusted, "\"kind\":\"spool\"") ? PFL_AGENT_EVENT_SPOOL
                                                     : PFL_AGENT_EVENT_NOTHING;
}

void pfl_agent_event_parse(struct pfl_span line_untrusted, struct pfl_agent_event *ret_event)
{
    json_t *event = json_loadb((const char *)line_untrusted.data, line_untrusted.len, 0, NULL);
    const char *kind = text_of(event, "kind");

    memset(ret_event, 0, sizeof(*ret_event));
    if (strcmp(kind, "request") == 0)
        take_request(event, PFL_AGENT_EVENT_REQUEST, ret_event);
    else if (strcmp(kind, "refused") == 0)
        take_request(event, PFL_AGENT_EVENT_REFUSED, ret_event);
    else if (strcmp(kind, "trigger") == 0)
        take_trigger(event, ret_event);
    else if (strcmp(kind, "lost") == 0)
        take_lost(event, ret_event);
    else if (strcmp(kind, "spool") == 0)
        take_spool(event, ret_event);
    json_decref(event);
}
