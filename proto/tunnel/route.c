/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses heads of requests into routes: see route.h. Each path has one form: no escapes, no query,
 * no empty parts. No allocation; a failure is a route of NONE, METHOD or NAME.
 */
#include "proto/tunnel/route.h"

#include "base/ulid.h"

#define HOSTS_PREFIX   PFL_TUNNEL_HOSTS_PATH "/"
#define STREAMS_PREFIX "/streams/"
#define ALARMS_PREFIX  "/alarms/"
#define ORDERS_PREFIX  PFL_TUNNEL_ORDERS_PATH "/"
#define RAISED_SUFFIX  "/raised"

#define COLLECTORS_PREFIX PFL_TUNNEL_COLLECTORS_PATH "/"
#define SCOPES_PREFIX     PFL_TUNNEL_SCOPES_PATH "/"

struct leaf {
    const char *path;
    const char *method;
    enum pfl_route_kind kind;
};

static const struct leaf agent_leaves[] = {
    {PFL_TUNNEL_HELLO_PATH, "GET", PFL_ROUTE_HELLO},
    {PFL_TUNNEL_CONSUMER_PATH, "CONNECT", PFL_ROUTE_CONSUMER},
    {PFL_TUNNEL_CLOCK_PATH, "GET", PFL_ROUTE_CLOCK},
    {PFL_TUNNEL_STREAMS_PATH, "GET", PFL_ROUTE_STREAMS},
    {PFL_TUNNEL_ALARMS_PATH, "GET", PFL_ROUTE_ALARMS},
    {PFL_TUNNEL_TRIGGERS_PATH, "PUT", PFL_ROUTE_RAISE},
    {PFL_TUNNEL_EVENTS_PATH, "GET", PFL_ROUTE_EVENTS},
    {PFL_TUNNEL_SPOOL_PATH, "CONNECT", PFL_ROUTE_SPOOL},
    {"/healthz", "GET", PFL_ROUTE_HEALTH},
};

static const struct leaf relay_leaves[] = {
    {PFL_TUNNEL_HOSTS_PATH, "GET", PFL_ROUTE_HOSTS},
    {PFL_TUNNEL_SPOOLS_PATH, "GET", PFL_ROUTE_SPOOLS},
    {PFL_TUNNEL_COLLECTORS_PATH, "GET", PFL_ROUTE_COLLECTORS},
    {PFL_TUNNEL_RELAY_PATH, "GET", PFL_ROUTE_RELAY},
    {"/healthz", "GET", PFL_ROUTE_HEALTH},
};

static const struct leaf collector_leaves[] = {
    {PFL_TUNNEL_COLLECTOR_PATH, "CONNECT", PFL_ROUTE_COLLECTOR},
    {"/healthz", "GET", PFL_ROUTE_HEALTH},
};

/* Below a host's path at a relay. */
static const struct leaf host_leaves[] = {
    {"", "GET", PFL_ROUTE_HOST},
    {"", "DELETE", PFL_ROUTE_FORGET},
    {"/consumer", "CONNECT", PFL_ROUTE_CONSUMER},
    {"/clock", "GET", PFL_ROUTE_CLOCK},
    {"/streams", "GET", PFL_ROUTE_STREAMS},
    {"/alarms", "GET", PFL_ROUTE_ALARMS},
    {"/triggers", "PUT", PFL_ROUTE_RAISE},
    {"/spool", "CONNECT", PFL_ROUTE_SPOOL},
};

bool pfl_route_is_stream_id(const char *text_untrusted)
{
    size_t len = 0;

    for (; text_untrusted[len] != '\0'; len++) {
        char c = text_untrusted[len];

        if (len == PFL_TUNNEL_STREAM_ID_BYTES - 1 ||
            !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return len == PFL_TUNNEL_STREAM_ID_BYTES - 1;
}

static enum pfl_route_kind find(const struct leaf *leaves, size_t count, const char *path,
                                const char *method)
{
    enum pfl_route_kind kind = PFL_ROUTE_NONE;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(leaves[i].path, path) != 0)
            continue;
        if (strcmp(leaves[i].method, method) == 0)
            return leaves[i].kind;
        kind = PFL_ROUTE_METHOD;
    }
    return kind;
}

static enum pfl_route_kind parse_stream(const char *id, const char *method, bool is_relay,
                                        struct pfl_route *r)
{
    bool is_role = !is_relay && strcmp(method, "PUT") == 0;

    if (!is_role && strcmp(method, "DELETE") != 0)
        return PFL_ROUTE_METHOD;
    if (!pfl_route_is_stream_id(id))
        return PFL_ROUTE_NAME;
    memcpy(r->stream, id, sizeof(r->stream));
    return is_role ? PFL_ROUTE_ROLE : PFL_ROUTE_KILL;
}

static enum pfl_route_kind parse_alarm(const char *path, const char *method, bool is_relay,
                                       struct pfl_route *r)
{
    size_t len = strcspn(path, "/");
    bool is_raised = !is_relay && strcmp(path + len, RAISED_SUFFIX) == 0;

    if (path[len] != '\0' && !is_raised)
        return PFL_ROUTE_NONE;
    if (len >= sizeof(r->session))
        return PFL_ROUTE_NAME;
    memcpy(r->session, path, len);
    r->session[len] = '\0';
    if (!pfl_identity_is_name(r->session))
        return PFL_ROUTE_NAME;
    if (strcmp(method, "PUT") == 0)
        return is_raised ? PFL_ROUTE_ALARM_RAISED : PFL_ROUTE_ALARM_SET;
    return strcmp(method, "DELETE") == 0 && !is_raised ? PFL_ROUTE_ALARM_DROP : PFL_ROUTE_METHOD;
}

static enum pfl_route_kind parse_order(const char *path, const char *method, struct pfl_route *r)
{
    size_t len = strcspn(path, "/");

    if (strcmp(path + len, RAISED_SUFFIX) != 0)
        return PFL_ROUTE_NONE;
    if (len >= sizeof(r->name))
        return PFL_ROUTE_NAME;
    memcpy(r->name, path, len);
    r->name[len] = '\0';
    if (!pfl_identity_is_name(r->name))
        return PFL_ROUTE_NAME;
    return strcmp(method, "PUT") == 0 ? PFL_ROUTE_ORDER_RAISED : PFL_ROUTE_METHOD;
}

static enum pfl_route_kind parse_host(const char *path, const char *method, struct pfl_route *r)
{
    size_t len = strcspn(path, "/");

    if (len >= sizeof(r->host))
        return PFL_ROUTE_NAME;
    memcpy(r->host, path, len);
    r->host[len] = '\0';
    if (!pfl_identity_is_name(r->host))
        return PFL_ROUTE_NAME;
    path += len;
    if (strncmp(path, STREAMS_PREFIX, strlen(STREAMS_PREFIX)) == 0)
        return parse_stream(path + strlen(STREAMS_PREFIX), method, true, r);
    if (strncmp(path, ALARMS_PREFIX, strlen(ALARMS_PREFIX)) == 0)
        return parse_alarm(path + strlen(ALARMS_PREFIX), method, true, r);
    return find(host_leaves, sizeof(host_leaves) / sizeof(host_leaves[0]), path, method);
}

/* One name is all that follows. */
static enum pfl_route_kind parse_named(const char *name, const char *method,
                                       const struct leaf *leaf, struct pfl_route *r)
{
    if (strchr(name, '/') != NULL)
        return PFL_ROUTE_NONE;
    if (!pfl_identity_is_name(name))
        return PFL_ROUTE_NAME;
    memcpy(r->name, name, strlen(name) + 1);
    return strcmp(method, leaf->method) == 0 ? leaf->kind : PFL_ROUTE_METHOD;
}

static enum pfl_route_kind parse_at_relay(const char *path, const char *method, struct pfl_route *r)
{
    static const struct leaf named[] = {
        {COLLECTORS_PREFIX, "CONNECT", PFL_ROUTE_COLLECTOR},
        {SCOPES_PREFIX, "GET", PFL_ROUTE_SCOPE},
    };

    if (strncmp(path, HOSTS_PREFIX, strlen(HOSTS_PREFIX)) == 0)
        return parse_host(path + strlen(HOSTS_PREFIX), method, r);
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        size_t len = strlen(named[i].path);

        if (strncmp(path, named[i].path, len) == 0)
            return parse_named(path + len, method, &named[i], r);
    }
    return find(relay_leaves, sizeof(relay_leaves) / sizeof(relay_leaves[0]), path, method);
}

static enum pfl_route_kind parse_at_agent(const char *path, const char *method, struct pfl_route *r)
{
    if (strncmp(path, "/v1" STREAMS_PREFIX, strlen("/v1" STREAMS_PREFIX)) == 0)
        return parse_stream(path + strlen("/v1" STREAMS_PREFIX), method, false, r);
    if (strncmp(path, "/v1" ALARMS_PREFIX, strlen("/v1" ALARMS_PREFIX)) == 0)
        return parse_alarm(path + strlen("/v1" ALARMS_PREFIX), method, false, r);
    if (strncmp(path, ORDERS_PREFIX, strlen(ORDERS_PREFIX)) == 0)
        return parse_order(path + strlen(ORDERS_PREFIX), method, r);
    return find(agent_leaves, sizeof(agent_leaves) / sizeof(agent_leaves[0]), path, method);
}

static enum pfl_route_kind parse(const char *path, const char *method, enum pfl_route_side side,
                                 struct pfl_route *r)
{
    if (side == PFL_ROUTE_AT_RELAY)
        return parse_at_relay(path, method, r);
    if (side == PFL_ROUTE_AT_AGENT)
        return parse_at_agent(path, method, r);
    return find(collector_leaves, sizeof(collector_leaves) / sizeof(collector_leaves[0]), path,
                method);
}

/* Of a CONNECT; NULL: the route is none. */
static const char *protocol_of(enum pfl_route_kind kind)
{
    switch (kind) {
    case PFL_ROUTE_CONSUMER:
        return PFL_TUNNEL_PROTOCOL;
    case PFL_ROUTE_SPOOL:
        return PFL_TUNNEL_PROTOCOL_SPOOL;
    case PFL_ROUTE_COLLECTOR:
        return PFL_TUNNEL_PROTOCOL_COLLECTOR;
    default:
        return NULL;
    }
}

static const char *get_name(const struct pfl_h2_head *head, const char *field)
{
    const char *text = pfl_h2_head_get(head, field);

    return text != NULL && pfl_identity_is_name(text) ? text : NULL;
}

static void parse_fields(const struct pfl_h2_head *head, struct pfl_route *r)
{
    const char *stream = pfl_h2_head_get(head, PFL_TUNNEL_H_STREAM);
    const char *trigger_id = pfl_h2_head_get(head, PFL_TUNNEL_H_TRIGGER_ID);

    r->operator_name = get_name(head, PFL_TUNNEL_H_OPERATOR);
    r->collector = get_name(head, PFL_TUNNEL_H_COLLECTOR);
    r->has_orderer = pfl_h2_head_get(head, PFL_TUNNEL_H_FOR) != NULL;
    r->orderer = get_name(head, PFL_TUNNEL_H_FOR);
    r->role = pfl_h2_head_get(head, PFL_TUNNEL_H_ROLE);
    r->clock = pfl_h2_head_get(head, PFL_TUNNEL_H_CLOCK);
    r->after = pfl_h2_head_get(head, PFL_TUNNEL_H_AFTER);
    r->triggers = pfl_h2_head_get(head, PFL_TUNNEL_H_TRIGGERS);
    r->trigger = get_name(head, PFL_TUNNEL_H_TRIGGER);
    r->raised_at = get_name(head, PFL_TUNNEL_H_RAISED_AT);
    r->trigger_id = trigger_id != NULL && pfl_ulid_is_valid(trigger_id) ? trigger_id : NULL;
    (void)pfl_h2_head_get_number(head, PFL_TUNNEL_H_RAISED_AGO, &r->raised_ago_ms);
    r->is_resume = pfl_h2_head_get(head, PFL_TUNNEL_H_RECEIVED) != NULL;
    r->has_offer = pfl_tunnel_offer_read(head, &r->offer);
    if (r->kind == PFL_ROUTE_CONSUMER && stream != NULL && pfl_route_is_stream_id(stream))
        memcpy(r->stream, stream, sizeof(r->stream));
}

void pfl_route_parse(const struct pfl_h2_head *head, enum pfl_route_side side,
                     struct pfl_route *ret_route)
{
    const char *method = pfl_h2_head_get(head, ":method");
    const char *path = pfl_h2_head_get(head, ":path");
    const char *protocol = pfl_h2_head_get(head, ":protocol");
    const char *wanted;

    *ret_route = (struct pfl_route){.kind = PFL_ROUTE_NONE};
    if (method == NULL || path == NULL)
        return;
    ret_route->kind = parse(path, method, side, ret_route);
    wanted = protocol_of(ret_route->kind);
    if (wanted != NULL && (protocol == NULL || strcmp(protocol, wanted) != 0))
        ret_route->kind = PFL_ROUTE_METHOD;
    parse_fields(head, ret_route);
}
