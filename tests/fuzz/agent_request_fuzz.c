/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to an agent, of any head: what of it is taken for a name, a role or a stream is one.
 * Layout: the method, the path and each field "name:value" on a line of its own; nghttp2 carries
 * them over, so that heads are as they come.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/alarm/alarm_port.h"
#include "agent/daemon/stream/stream_request.h"
#include "base/mem.h"
#include "proto/gate/role.h"
#include "proto/tunnel/clock_report.h"
#include "proto/tunnel/route.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS_MAX 12u

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static void take_role(const struct pfl_h2_head *head)
{
    const char *text = pfl_h2_head_get(head, PFL_TUNNEL_H_ROLE);
    char name[PFL_ROLE_PATTERN_MAX + 1];
    char back[PFL_ROLE_FIELD_BYTES];
    char why[PFL_JUDGE_WHY_BYTES];
    struct pfl_buf role;

    pfl_buf_init(&role, PFL_ROLE_MAX_BYTES);
    if (text != NULL && pfl_role_read(text, &role) == 0) {
        check(pfl_role_check(pfl_buf_get(&role), false) == NULL);
        note_message("role", pfl_buf_get(&role));
        pfl_role_write(pfl_buf_get(&role), back);
        check(strcmp(back, text) == 0);
        pfl_role_copy_name(pfl_buf_get(&role), name);
        why[0] = '\0';
        note("name %s, alarm %d %s", name,
             pfl_agent_alarm_is_allowed("ring", pfl_buf_get(&role), why), why);
    }
    pfl_buf_fini(&role);
}

/* What is a point is the same point again. */
static void take_clock(const char *text)
{
    char back[PFL_CLOCK_REPORT_TEXT_BYTES];
    struct pfl_clock_report point;
    struct pfl_clock_report again;

    if (pfl_clock_report_read(text, &point) != 0)
        return;
    pfl_clock_report_write(&point, back);
    check(pfl_clock_report_read(back, &again) == 0);
    check(strcmp(point.relay, again.relay) == 0 && point.offset_ns == again.offset_ns &&
          point.error_ns == again.error_ns && point.host_boot_ns == again.host_boot_ns &&
          point.relay_unix_ns == again.relay_unix_ns);
}

static void take_route(const struct pfl_h2_head *head, enum pfl_route_side side)
{
    struct pfl_route route;

    pfl_route_parse(head, side, &route);
    note("route at %d: kind %d, host %s, stream %s, session %s, name %s, orderer %s, clock %s",
         side, route.kind, route.host, route.stream, route.session, route.name,
         route.orderer != NULL ? route.orderer : "-", route.clock != NULL ? route.clock : "-");
    check(route.kind <= PFL_ROUTE_NAME || route.host[0] == '\0' ||
          pfl_identity_is_name(route.host));
    check(route.kind <= PFL_ROUTE_NAME || route.stream[0] == '\0' ||
          pfl_route_is_stream_id(route.stream));
    check(route.kind <= PFL_ROUTE_NAME || route.session[0] == '\0' ||
          pfl_identity_is_name(route.session));
    check(route.kind <= PFL_ROUTE_NAME || route.name[0] == '\0' ||
          pfl_identity_is_name(route.name));
    check(route.orderer == NULL || (route.has_orderer && pfl_identity_is_name(route.orderer)));
    if (route.clock != NULL)
        take_clock(route.clock);
}

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    const char *triggers = pfl_h2_head_get(head, PFL_TUNNEL_H_TRIGGERS);
    static struct pfl_agent_alarm_order order;
    struct pfl_stream_request request;

    (void)user;
    (void)h2_stream; /* answered 404 */
    take_route(head, PFL_ROUTE_AT_AGENT);
    take_route(head, PFL_ROUTE_AT_RELAY);
    take_route(head, PFL_ROUTE_AT_COLLECTOR);
    take_role(head);
    if (pfl_stream_request_read(head, &request))
        note("stream %s, resume %d, accounts %d", request.id, request.is_resume,
             request.has_accounts);
    if (pfl_stream_request_read(head, &request))
        check((request.id[0] == '\0' || pfl_route_is_stream_id(request.id)) &&
              (!request.is_resume || request.has_accounts));
    if (triggers == NULL || !pfl_agent_alarm_read_triggers(triggers, &order))
        return;
    check(order.triggers_len >= 1 && order.triggers_len <= PFL_AGENT_ALARM_TRIGGERS);
    for (size_t i = 0; i < order.triggers_len; i++)
        note("trigger %s", order.triggers[i]);
    for (size_t i = 0; i < order.triggers_len; i++)
        check(pfl_identity_is_name(order.triggers[i]));
}

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data;
}

static void on_end(void *user)
{
    (void)user;
}

static void on_closed(void *user, uint32_t code)
{
    (void)user;
    (void)code;
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static bool move(struct pfl_h2 *from, struct pfl_h2 *to)
{
    static uint8_t bytes[4 * PFL_H2_DRAIN_BYTES];
    struct pfl_writer out = pfl_writer_of(bytes, sizeof(bytes));

    if (pfl_h2_drain(from, &out) != 0 || out.left == sizeof(bytes))
        return false;
    return pfl_h2_feed(to, pfl_span_of(bytes, sizeof(bytes) - out.left)) == 0;
}

static void pump(struct pfl_h2 *client_h2, struct pfl_h2 *server_h2)
{
    bool is_moving = true;

    while (is_moving) {
        is_moving = move(client_h2, server_h2);
        is_moving |= move(server_h2, client_h2);
    }
}

/* Cuts `text` at its next newline. */
static char *take_line(char **text)
{
    char *line = *text;
    char *end = line != NULL ? strchr(line, '\n') : NULL;

    if (end != NULL)
        *end++ = '\0';
    *text = end;
    return line;
}

static void ask(struct pfl_h2 *client_h2, char *text)
{
    struct pfl_h2_field fields[FIELDS_MAX];
    struct pfl_h2_request request = {.method = take_line(&text), .fields = fields, .ops = &ops};
    struct pfl_h2_stream *stream;
    char *line;

    request.path = take_line(&text);
    while (request.fields_len < FIELDS_MAX && (line = take_line(&text)) != NULL) {
        char *colon = strchr(line, ':');

        if (colon == NULL)
            continue;
        *colon = '\0';
        fields[request.fields_len++] = (struct pfl_h2_field){line, colon + 1};
    }
    if (request.path != NULL)
        (void)!pfl_h2_request(client_h2, &request, &stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_h2_conf conf = {.window_bytes = 65535};
    struct pfl_h2 *client_h2;
    struct pfl_h2 *server_h2;
    char *text = pfl_mem_strndup((const char *)data, size);

    if (text == NULL || pfl_h2_new(&conf, &client_h2) != 0)
        abort();
    conf.is_answering = true;
    conf.on_request = on_request;
    if (pfl_h2_new(&conf, &server_h2) != 0)
        abort();
    pump(client_h2, server_h2);
    ask(client_h2, text);
    pump(client_h2, server_h2);
    pfl_h2_free(client_h2);
    pfl_h2_free(server_h2);
    pfl_mem_free(text);
    return 0;
}
