/* SPDX-License-Identifier: Apache-2.0 */
/* A hub without sockets: see hub_world.h. */
#include "tests/unit/relay/hub/hub_world.h"

#include <stdlib.h>

#include "proto/tunnel/tunnel_offer.h"
#include "tests/support/recorded.h"

struct world world;

static const char *const events[] = {
    [PFL_HUB_STREAM_ENDED] = "stream-ended",
    [PFL_HUB_STREAM_DETACHED] = "stream-detached",
    [PFL_HUB_HOST_FORGOTTEN] = "host-forgotten",
    [PFL_HUB_TRIGGER_NOT_PASSED] = "trigger-not-passed",
    [PFL_HUB_EVENTS_ENDED] = "events-ended",
    [PFL_HUB_EVENTS_UNHEARD] = "events-not-received",
    [PFL_HUB_HELLO_NOT_ASKED] = "hello-not-asked",
    [PFL_HUB_HELLO_UNUSABLE] = "hello-unusable",
    [PFL_HUB_CLOCK_UNUSABLE] = "clock-unusable",
};

static void note(int rc)
{
    if (rc != 0)
        world.is_broken = true;
}

static void append(char *text, size_t room, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text + len, room - len, fmt, args);
    va_end(args);
}

/* ---- the shell ---- */

static uint64_t get_now_ms(void *user)
{
    assert_ptr_equal(user, &world);
    return world.now_ms;
}

static int64_t get_boot_ns(void *user)
{
    (void)user;
    return world.boot_ns += world.boot_step_ns;
}

static int64_t get_unix_ns(void *user)
{
    (void)user;
    return 1700000000000000000;
}

static void get_figures(void *user, struct pfl_relay_figures *ret_figures)
{
    (void)user;
    *ret_figures = world.figures;
}

static struct world_peer *world_peer_of(const struct pfl_hub_peer *peer)
{
    return PFL_CONTAINER_OF(peer, struct world_peer, peer);
}

static struct pfl_h2 *get_h2(void *user, const struct pfl_hub_peer *peer)
{
    (void)user;
    return world_peer_of(peer)->near;
}

static void pace(void *user, struct pfl_hub_peer *peer)
{
    (void)user;
    world_peer_of(peer)->is_paced = true;
}

static const char *or_dash(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : "-";
}

static bool can_audit(void *user)
{
    (void)user;
    return !world.is_audit_full;
}

static bool audit(void *user, const struct pfl_audit_log_entry *e)
{
    (void)user;
    append(world.audited, sizeof(world.audited), "%s %u %s %s %s %llu/%llu %s %s%s\n", e->action,
           e->status, or_dash(e->who), or_dash(e->host), or_dash(e->stream),
           (unsigned long long)e->bytes_to_host, (unsigned long long)e->bytes_to_operator,
           or_dash(e->method), or_dash(e->detail), e->is_refused ? " (refused)" : "");
    pfl_record("%s %s", world.audited, or_dash(e->detail));
    return !world.is_audit_full;
}

static void report(void *user, const struct pfl_hub_report *r)
{
    (void)user;
    append(world.reported, sizeof(world.reported), "%s %s %s %s %llu %s\n", events[r->event],
           or_dash(r->context->who), or_dash(r->context->host), or_dash(r->context->stream),
           (unsigned long long)(r->stats != NULL ? r->stats->status : r->number),
           or_dash(r->detail));
    pfl_record("%s", world.reported);
}

/* ---- an agent ---- */

static void on_service_data(void *user, struct pfl_span data)
{
    ((struct world_service *)user)->got += data.len;
}

static void on_nothing(void *user)
{
    (void)user;
}

static size_t on_service_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct world_service *s = user;
    size_t len = s->to_send < room ? s->to_send : room;

    memset(dst, 's', len);
    s->to_send -= len;
    *ret_is_end = false;
    return len;
}

static void on_service_closed(void *user, uint32_t code)
{
    struct world_service *s = user;

    s->h2_stream = NULL;
    s->code = code;
}

static const struct pfl_h2_stream_ops service_ops = {
    .on_data = on_service_data,
    .on_end = on_nothing,
    .on_pull = on_service_pull,
    .on_closed = on_service_closed,
};

static void on_no_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data;
}

static size_t on_events_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct world_peer *p = user;
    size_t len = p->event_lines != NULL ? strlen(p->event_lines) : 0;

    len = len < room ? len : room;
    if (len != 0)
        memcpy(dst, p->event_lines, len);
    p->event_lines = len != 0 ? p->event_lines + len : p->event_lines;
    *ret_is_end = false;
    return len;
}

static void on_events_closed(void *user, uint32_t code)
{
    (void)code;
    ((struct world_peer *)user)->events = NULL;
}

static const struct pfl_h2_stream_ops events_ops = {
    .on_data = on_no_data,
    .on_end = on_nothing,
    .on_pull = on_events_pull,
    .on_closed = on_events_closed,
};

static void on_waiting_closed(void *user, uint32_t code)
{
    (void)code;
    ((struct world_peer *)user)->waiting = NULL;
}

static const struct pfl_h2_stream_ops waiting_ops = {
    .on_data = on_no_data, .on_end = on_nothing, .on_closed = on_waiting_closed};

static void note_asked(struct world_peer *p, const struct pfl_h2_head *head)
{
    static const char *const fields[] = {PFL_TUNNEL_H_OPERATOR,   PFL_TUNNEL_H_ROLE,
                                         PFL_TUNNEL_H_TRIGGERS,   PFL_TUNNEL_H_TRIGGER,
                                         PFL_TUNNEL_H_RAISED_AT,  PFL_TUNNEL_H_RAISED_AGO,
                                         PFL_TUNNEL_H_TRIGGER_ID, PFL_TUNNEL_H_COLLECTOR,
                                         PFL_TUNNEL_H_FOR,        PFL_TUNNEL_H_STREAM};

    append(p->asked, sizeof(p->asked), "%s %s", pfl_h2_head_get(head, ":method"),
           pfl_h2_head_get(head, ":path"));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const char *value = pfl_h2_head_get(head, fields[i]);

        if (value != NULL)
            append(p->asked, sizeof(p->asked), " %s=%s", fields[i] + strlen("perfleet-"), value);
    }
    append(p->asked, sizeof(p->asked), "\n");
    pfl_record("asked %s", p->asked);
}

static void answer_text(struct pfl_h2_stream *h2_stream, unsigned status, const char *text)
{
    note(pfl_h2_stream_respond_body(h2_stream, status, "application/json",
                                    pfl_span_of(text, strlen(text))));
}

static void answer_events(struct world_peer *p, struct pfl_h2_stream *h2_stream)
{
    struct pfl_h2_field field = {PFL_TUNNEL_H_NOW, p->now_ms};

    if (p->events_status != 200) {
        answer_text(h2_stream, p->events_status, "{}");
        return;
    }
    p->events = h2_stream;
    pfl_h2_stream_set_user(h2_stream, &events_ops, p);
    note(pfl_h2_stream_respond(h2_stream, 200, &field, p->now_ms != NULL));
}

static void answer_stream(struct world_peer *p, struct pfl_h2_stream *h2_stream)
{
    struct world_service *s = &p->services[p->services_len];
    struct pfl_resume_offer offer = {.window_bytes = 100000};
    struct pfl_tunnel_offer_text text;
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 1];

    if (p->answer != 200 || p->services_len == sizeof(p->services) / sizeof(p->services[0])) {
        answer_text(h2_stream, p->answer, "{}");
        return;
    }
    *s = (struct world_service){.h2_stream = h2_stream};
    p->services_len++;
    pfl_tunnel_offer_write(&offer, 5, &text, fields);
    fields[PFL_TUNNEL_OFFER_FIELDS] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, p->kept_role};
    pfl_h2_stream_set_user(h2_stream, &service_ops, s);
    note(pfl_h2_stream_respond(h2_stream, 200, fields,
                               PFL_TUNNEL_OFFER_FIELDS + (p->kept_role != NULL)));
}

static void on_agent_request(void *user, struct pfl_h2_stream *h2_stream,
                             const struct pfl_h2_head *head)
{
    struct world_peer *p = user;
    const char *path = pfl_h2_head_get(head, ":path");

    if (strcmp(path, PFL_TUNNEL_HELLO_PATH) == 0) {
        p->hellos++;
        answer_text(h2_stream, p->hello_text != NULL ? 200 : 500,
                    p->hello_text != NULL ? p->hello_text : "{}");
        return;
    }
    if (strcmp(path, PFL_TUNNEL_CLOCK_PATH) == 0 &&
        pfl_h2_head_get(head, PFL_TUNNEL_H_OPERATOR) == NULL) {
        const char *reported = pfl_h2_head_get(head, PFL_TUNNEL_H_CLOCK);
        char text[80];
        long long far_ns = (long long)world.boot_ns + 500;

        p->clocks++;
        append(p->reported, sizeof(p->reported), "%s\n", or_dash(reported));
        if (p->is_clock_wavering)
            far_ns += (p->clocks & 1) != 0 ? -400 : 400;
        (void)snprintf(text, sizeof(text), "{\"receive_ns\":%lld,\"send_ns\":%lld}", far_ns,
                       far_ns);
        answer_text(h2_stream, 200, p->clock_text != NULL ? p->clock_text : text);
        return;
    }
    if (strcmp(path, PFL_TUNNEL_EVENTS_PATH) == 0) {
        answer_events(p, h2_stream);
        return;
    }
    note_asked(p, head);
    if (strcmp(pfl_h2_head_get(head, ":method"), "CONNECT") == 0) {
        answer_stream(p, h2_stream);
    } else if (p->answer == 0) {
        p->waiting = h2_stream;
        pfl_h2_stream_set_user(h2_stream, &waiting_ops, p);
    } else {
        note(pfl_h2_stream_respond_body(h2_stream, p->answer, "application/json",
                                        pfl_span_of(p->answer_body, strlen(p->answer_body))));
    }
}

void world_answer_now(struct world_peer *agent, unsigned status, const char *body)
{
    if (agent->waiting != NULL)
        answer_text(agent->waiting, status, body);
    world_pump();
}

void world_say_events(struct world_peer *agent, const char *lines)
{
    agent->event_lines = lines;
    if (agent->events != NULL)
        pfl_h2_stream_wake(agent->events);
    world_pump();
}

/* ---- an operator ---- */

static void on_answer(void *user, const struct pfl_h2_head *head)
{
    struct world_answer *a = user;
    const char *problem = pfl_h2_head_get(head, PFL_TUNNEL_H_PROBLEM);
    const char *type = pfl_h2_head_get(head, "content-type");

    a->status = pfl_h2_head_get_status(head);
    (void)snprintf(a->problem, sizeof(a->problem), "%s", problem != NULL ? problem : "");
    (void)snprintf(a->type, sizeof(a->type), "%s", type != NULL ? type : "");
    pfl_h2_stream_wake(a->h2_stream);
}

static void on_answer_data(void *user, struct pfl_span data)
{
    struct world_answer *a = user;
    size_t room = sizeof(a->body) - 1 - (a->body_len < sizeof(a->body) ? a->body_len : 0);

    if (a->body_len + data.len < sizeof(a->body) && data.len <= room)
        memcpy(a->body + a->body_len, data.data, data.len);
    a->body_len += data.len;
    if (a->is_reading)
        pfl_h2_stream_credit(a->h2_stream, (uint32_t)data.len);
}

static size_t on_answer_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct world_answer *a = user;
    size_t len = a->to_send < room ? a->to_send : room;

    memset(dst, 'o', len);
    a->to_send -= len;
    *ret_is_end = a->status != 0 && a->status != 200; /* refused: there is no stream to send in */
    return len;
}

static void on_answer_closed(void *user, uint32_t code)
{
    struct world_answer *a = user;

    a->h2_stream = NULL;
    a->code = code;
    pfl_record("closed %u: %u %s %s %zu bytes", code, a->status, a->problem, a->type, a->body_len);
    if (a->body_len < sizeof(a->body))
        pfl_record_bytes("body", pfl_span_of(a->body, a->body_len));
}

static const struct pfl_h2_stream_ops asking_ops = {
    .on_response = on_answer,
    .on_data = on_answer_data,
    .on_end = on_nothing,
    .on_closed = on_answer_closed,
};

static const struct pfl_h2_stream_ops stream_ops = {
    .on_response = on_answer,
    .on_data = on_answer_data,
    .on_end = on_nothing,
    .on_pull = on_answer_pull,
    .on_closed = on_answer_closed,
};

void world_ask_with(struct world_peer *p, const char *method, const char *path,
                    const struct pfl_h2_field *field, struct world_answer *ret_answer)
{
    struct pfl_h2_request request = {.method = method,
                                     .path = path,
                                     .fields = field,
                                     .fields_len = field != NULL,
                                     .ops = &asking_ops,
                                     .user = ret_answer};

    memset(ret_answer, 0, sizeof(*ret_answer));
    ret_answer->is_reading = true;
    if (p != NULL && p->far != NULL)
        note(pfl_h2_request(p->far, &request, &ret_answer->h2_stream));
    world_pump();
}

void world_ask(struct world_peer *p, const char *method, const char *path,
               struct world_answer *ret_answer)
{
    world_ask_with(p, method, path, NULL, ret_answer);
}

void world_open_stream(struct world_peer *p, const char *host, const char *id, const char *received,
                       struct world_answer *ret_answer)
{
    char path[128];
    struct pfl_h2_field fields[] = {{PFL_TUNNEL_H_WINDOW, "100000"},
                                    {PFL_TUNNEL_H_STREAM, id},
                                    {PFL_TUNNEL_H_RECEIVED, received},
                                    {PFL_TUNNEL_H_CREDITED, received}};
    struct pfl_h2_request request = {.method = "CONNECT",
                                     .path = path,
                                     .protocol = PFL_TUNNEL_PROTOCOL,
                                     .fields = fields,
                                     .fields_len = received != NULL ? 4 : 2,
                                     .ops = &stream_ops,
                                     .user = ret_answer};

    memset(ret_answer, 0, sizeof(*ret_answer));
    (void)snprintf(path, sizeof(path), "/v1/hosts/%s/consumer", host);
    if (p != NULL && p->far != NULL)
        note(pfl_h2_request(p->far, &request, &ret_answer->h2_stream));
    world_pump();
}

void world_dial(struct world_peer *p, const char *path, const char *protocol,
                const struct pfl_h2_field *field, struct world_answer *ret_answer)
{
    struct pfl_h2_request request = {.method = "CONNECT",
                                     .path = path,
                                     .protocol = protocol,
                                     .fields = field,
                                     .fields_len = field != NULL,
                                     .ops = &stream_ops,
                                     .user = ret_answer};

    memset(ret_answer, 0, sizeof(*ret_answer));
    if (p != NULL && p->far != NULL)
        note(pfl_h2_request(p->far, &request, &ret_answer->h2_stream));
    world_pump();
}

void world_reset(struct world_answer *answer, enum pfl_h2_code code)
{
    if (answer->h2_stream != NULL)
        pfl_h2_stream_reset(answer->h2_stream, code);
    world_pump();
}

/* ---- connections ---- */

static void on_operator_request(void *user, struct pfl_h2_stream *h2_stream,
                                const struct pfl_h2_head *head)
{
    struct world_peer *p = user;

    pfl_operator_requests_take(&world.requests, &p->peer, h2_stream, head);
}

static void on_ready(void *user)
{
    struct world_peer *p = user;
    struct pfl_hub_peer *replaced;
    int rc = pfl_peer_table_settle(&world.peers, &p->peer, &replaced);

    note(rc);
    if (replaced != NULL) {
        pfl_agent_events_stop(replaced);
        note(pfl_h2_goaway(world_peer_of(replaced)->near));
    }
    if (rc != 0 || p->peer.host == NULL)
        return;
    p->hello.agent = &p->peer;
    p->hello.streams = &world.streams;
    p->hello.triggers = &world.triggers;
    pfl_agent_hello_start(&p->hello);
}

static int open_ends(struct world_peer *p)
{
    bool is_reversed = p->peer.identity.role == PFL_IDENTITY_HOST || p->peer.is_collector;
    struct pfl_h2_conf near = {.is_answering = !is_reversed,
                               .window_bytes = is_reversed ? PFL_TUNNEL_DATA_WINDOW_BYTES
                                                           : PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                               .on_request = is_reversed ? NULL : on_operator_request,
                               .on_ready = on_ready,
                               .user = p};
    struct pfl_h2_conf far = {.is_answering = is_reversed,
                              .window_bytes = world.window_bytes != 0 ? world.window_bytes : 100000,
                              .on_request = is_reversed ? on_agent_request : NULL,
                              .user = p};
    int rc = pfl_h2_new(&near, &p->near);

    return rc == 0 ? pfl_h2_new(&far, &p->far) : rc;
}

static struct world_peer *begin(enum pfl_identity_role role, const char *name, bool is_collector)
{
    struct world_peer *p = &world.peer[world.peers_len];
    struct pfl_hub_peer *ousted;

    assert_true(world.peers_len < WORLD_PEERS);
    p->peer.identity.role = role;
    p->peer.is_collector = is_collector;
    (void)snprintf(p->peer.identity.name, sizeof(p->peer.identity.name), "%s", name);
    (void)snprintf(p->peer.address, sizeof(p->peer.address), "192.0.2.%u:1", world.peers_len);
    p->peer.tls_version = "1.3";
    p->peer.certificate_end_s = 77;
    p->hello_text = "{\"labels\":{\"tier\":\"web\"}}";
    p->events_status = 200;
    p->answer = 200;
    p->answer_body = "{\"fine\":1}";
    if (pfl_peer_table_admit(&world.peers, &p->peer.identity, p->peer.is_collector, &ousted) != 0)
        return NULL;
    if (ousted != NULL)
        world_disconnect(world_peer_of(ousted));
    world.peers_len++;
    pfl_peer_table_add(&world.peers, &p->peer);
    note(open_ends(p));
    return p;
}

struct world_peer *world_begin(enum pfl_identity_role role, const char *name)
{
    return begin(role, name, false);
}

struct world_peer *world_connect_collector(const char *name)
{
    struct world_peer *p = begin(PFL_IDENTITY_OPERATOR, name, true);

    world_pump();
    return p;
}

struct world_peer *world_connect(enum pfl_identity_role role, const char *name)
{
    struct world_peer *p = world_begin(role, name);

    world_pump();
    return p;
}

void world_disconnect(struct world_peer *p)
{
    struct pfl_h2 *near = p->near;

    if (p->is_link_gone)
        return;
    p->near = NULL; /* as a link that closes has none */
    pfl_h2_free(near);
    pfl_peer_table_leave(&world.peers, &p->peer);
    pfl_peer_table_remove(&world.peers, &p->peer);
    pfl_h2_free(p->far);
    p->far = NULL;
    p->is_link_gone = true;
}

static int move(struct pfl_h2 *from, struct pfl_h2 *to, bool *has_moved)
{
    static uint8_t wire[1u << 17];
    struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));
    int rc = pfl_h2_drain(from, &out);

    *has_moved |= out.pos != wire;
    return rc != 0 ? rc : pfl_h2_feed(to, pfl_span_of(wire, (size_t)(out.pos - wire)));
}

void world_pump(void)
{
    bool has_moved = true;

    while (has_moved) {
        has_moved = false;
        for (unsigned i = 0; i < world.peers_len; i++) {
            struct world_peer *p = &world.peer[i];
            int rc = 0;

            if (p->near == NULL || p->far == NULL)
                continue;
            rc = move(p->near, p->far, &has_moved);
            if (rc == 0)
                rc = move(p->far, p->near, &has_moved);
            note(rc);
            if (rc != 0)
                world_disconnect(p);
        }
    }
}

void world_run_paced(void)
{
    for (unsigned i = 0; i < world.peers_len; i++) {
        struct world_peer *p = &world.peer[i];

        if (p->is_paced && !p->is_link_gone) {
            p->is_paced = false;
            pfl_throttle_run(&p->peer);
        }
    }
    world_pump();
}

/* ---- the world ---- */

void world_set_policy(const char *policy)
{
    struct pfl_policy *old = world.policy;
    char why[PFL_POLICY_WHY_BYTES];

    world.policy = NULL;
    if (policy != NULL)
        note(pfl_policy_parse(pfl_span_of(policy, strlen(policy)), why, &world.policy));
    world.peers.policy = world.policy;
    pfl_stream_table_review(&world.streams, NULL);
    pfl_policy_free(old);
    world_pump();
}

void world_open(const char *policy)
{
    memset(&world, 0, sizeof(world));
    world.now_ms = 1000000;
    world.boot_step_ns = 1000;
    world.shell = (struct pfl_hub_shell){.get_now_ms = get_now_ms,
                                         .get_boot_ns = get_boot_ns,
                                         .get_unix_ns = get_unix_ns,
                                         .get_h2 = get_h2,
                                         .pace = pace,
                                         .get_figures = get_figures,
                                         .can_audit = can_audit,
                                         .audit = audit,
                                         .report = report,
                                         .user = &world};
    pfl_quotas_init(&world.quotas);
    pfl_peer_table_init(&world.peers, &(struct pfl_peer_table_conf){.shell = &world.shell,
                                                                    .relay = "meet",
                                                                    .boot_id = WORLD_BOOT_ID,
                                                                    .max_per_operator = 3,
                                                                    .forget_after_ms = 60000});
    pfl_stream_table_init(&world.streams,
                          &(struct pfl_stream_table_conf){.peers = &world.peers,
                                                          .quotas = &world.quotas,
                                                          .unread_max_bytes = 64u << 20});
    pfl_operator_requests_init(&world.requests, &world.streams, "meet", "test");
    pfl_trigger_passing_init(&world.triggers, &world.peers);
    world_set_policy(policy);
}

/* With it goes all that was connected: streams end, and quotas and memory are given back. */
void world_close(void)
{
    for (unsigned i = 0; i < world.peers_len; i++)
        world_disconnect(&world.peer[i]);
    assert_true(pfl_list_is_empty(&world.streams.streams));
    for (size_t i = 0; i < PFL_STREAM_TABLE_BUCKETS; i++)
        assert_true(pfl_list_is_empty(&world.requests.forwarded.buckets[i]));
    assert_true(pfl_list_is_empty(&world.peers.peers));
    assert_int_equal(world.streams.unread.used, 0);
    pfl_quotas_fini(&world.quotas);
    pfl_policy_free(world.policy);
    pfl_peer_table_fini(&world.peers);
}

int world_setup(void **state)
{
    (void)state;
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    world_open(NULL);
    return 0;
}

int world_teardown(void **state)
{
    struct pfl_traffic t;

    (void)state;
    pfl_stream_table_get_traffic(&world.streams, &t);
    pfl_record("begun %llu resumed %llu cut %llu open %llu", (unsigned long long)t.begun,
               (unsigned long long)t.resumed, (unsigned long long)t.cut,
               (unsigned long long)t.open);
    pfl_record("bytes %llu %llu, held %llu %llu, unused %llu %llu",
               (unsigned long long)t.bytes_to_host, (unsigned long long)t.bytes_to_operator,
               (unsigned long long)t.held_to_host, (unsigned long long)t.held_to_operator,
               (unsigned long long)t.unused_to_host, (unsigned long long)t.unused_to_operator);
    world_close();
    pfl_sweep_assert_no_leak();
    return 0;
}

int world_result(void)
{
    return world.is_broken ? PFL_ENOMEM : 0;
}

/* ---- claims ---- */

void world_assert_refused(const struct world_answer *answer, unsigned status, const char *problem)
{
    assert_string_equal(answer->problem, problem);
    assert_int_equal(answer->status, status);
}

void world_assert_audited(const char *line)
{
    if (strstr(world.audited, line) == NULL)
        fail_msg("no \"%s\" in\n%s", line, world.audited);
}

void world_assert_reported(const char *line)
{
    if (strstr(world.reported, line) == NULL)
        fail_msg("no \"%s\" in\n%s", line, world.reported);
}

unsigned world_count(const char *text, const char *part)
{
    unsigned count = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}
