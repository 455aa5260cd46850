/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers and relays of other machines over TCP on loopback: identities, chunks in commits,
 * filters by machine, clock exchange, and connections that end at every byte.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/packet.h"
#include "service/message.h"
#include "service/peer.h"
#include "tests/unit/service/role_kit.h"

#define BUFFER    "buffers { size_kb: 64 } "
#define SOURCE    "data_sources { config { name: \"kit.source\" } "
#define ONLY_ON   SOURCE "machine_name_filter: "
#define ALL       " trace_all_machines: true "
#define HINT      "hint-1"
#define MACHINE   1327768250u
#define RELAY_ID  2u
#define MAX_BYTES 65536u

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;
static struct pfl_kit_client producer;
static struct pfl_producer_port *tcp;
static unsigned tcp_ports_open;

static void on_port_closed(void *user)
{
    unsigned *open = user;

    (*open)--;
}

static void open_tcp_port(bool has_relay)
{
    const struct pfl_port_conf port = {
        .loop = &kit.loop,
        .service = &kit.service,
        .address = "127.0.0.1:0",
        .family = PFL_SOCKET_TCP,
        .has_relay = has_relay,
        .mode = -1,
        .max_connections = 100,
        .on_closed = on_port_closed,
        .user = &tcp_ports_open,
    };

    assert_int_equal(pfl_producer_port_open(&port, &tcp), 0);
    tcp_ports_open++;
    assert_int_not_equal(pfl_producer_port_get_tcp_port(tcp), 0);
}

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    open_tcp_port(true);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    pfl_producer_port_close(tcp);
    pfl_port_kit_close(&kit);
    assert_int_equal(tcp_ports_open, 0);
    return 0;
}

static void connect_tcp(struct pfl_kit_client *self)
{
    int one = 1;
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)},
                               .sin_port = htons(pfl_producer_port_get_tcp_port(tcp))};

    *self = (struct pfl_kit_client){.kit = &kit, .received_fd = -1};
    pfl_buf_init(&self->in, 1u << 20);
    self->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(self->fd >= 0);
    assert_int_equal(setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    assert_int_equal(connect(self->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

/* One IPCFrame of one member message. */
static void put_identity(struct pfl_message *m, const char *hint, const char *name)
{
    size_t mark = pfl_message_begin(m, 8);

    pfl_message_varint(m, 1, 4321);
    pfl_message_varint(m, 2, 1234);
    pfl_message_str(m, 3, hint);
    pfl_message_str(m, 4, name);
    pfl_message_end(m, mark);
}

static void put_bind(struct pfl_message *m, uint64_t id, const char *service)
{
    size_t mark;

    pfl_message_varint(m, 2, id);
    mark = pfl_message_begin(m, 3);
    pfl_message_str(m, 1, service);
    pfl_message_end(m, mark);
}

static void put_invoke(struct pfl_message *m, const uint64_t ids[3], struct pfl_span args)
{
    size_t mark;

    pfl_message_varint(m, 2, ids[0]);
    mark = pfl_message_begin(m, 5);
    pfl_message_varint(m, 1, ids[1]);
    pfl_message_varint(m, 2, ids[2]);
    pfl_message_bytes(m, 3, args);
    pfl_message_end(m, mark);
}

static void send_message(struct pfl_kit_client *self, struct pfl_buf *buf)
{
    pfl_kit_client_send_frame(self, pfl_buf_get(buf), -1);
    pfl_buf_fini(buf);
}

static void identify(struct pfl_kit_client *self, const char *hint, const char *name)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(&buf, MAX_BYTES);
    put_identity(&m, hint, name);
    send_message(self, &buf);
}

static void bind_service(struct pfl_kit_client *self, const char *service)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_kit_reply reply;

    pfl_buf_init(&buf, MAX_BYTES);
    put_bind(&m, ++self->last_id, service);
    send_message(self, &buf);
    assert_true(pfl_kit_client_take(self, &reply));
    assert_true(reply.is_bind);
    pfl_kit_reply_free(&reply);
}

/* InitializeConnection, then the command stream; the reply's three answers are checked. */
static void introduce(struct pfl_kit_client *self, bool wants_scraping)
{
    static const uint8_t answer[] = {0x08, 0, 0x10, 1, 0x18, 1};
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_kit_reply reply;

    pfl_buf_init(&buf, MAX_BYTES);
    pfl_message_str(&m, 3, "kit.producer");
    pfl_message_varint(&m, 4, wants_scraping);
    pfl_message_varint(&m, 6, 1); /* memory of its own, which cannot come over TCP */
    reply = pfl_kit_client_expect(
        self, pfl_kit_client_invoke(self, KIT_INITIALIZE, pfl_buf_get(&buf)), true, false);
    assert_int_equal(reply.body_len, sizeof(answer));
    assert_memory_equal(reply.body, answer, sizeof(answer));
    pfl_kit_reply_free(&reply);
    pfl_buf_fini(&buf);
    (void)pfl_kit_client_invoke(self, KIT_COMMANDS, (struct pfl_span){0});
}

static void register_source(struct pfl_kit_client *self, bool is_no_flush)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t mark;

    pfl_buf_init(&buf, MAX_BYTES);
    mark = pfl_message_begin(&m, 1);
    pfl_message_str(&m, 1, "kit.source");
    pfl_message_varint(&m, 9, is_no_flush);
    pfl_message_end(&m, mark);
    (void)pfl_kit_client_invoke_drop(self, KIT_REGISTER, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

/* A producer of the machine `name`; NULL: it does not say who it is. */
static void open_producer(const char *name)
{
    connect_tcp(&producer);
    if (name != NULL)
        identify(&producer, HINT, name);
    bind_service(&producer, "ProducerPort");
    introduce(&producer, false);
    register_source(&producer, false);
}

static struct pfl_session *the_session(void)
{
    assert_int_equal(kit.service.sessions_len, 1);
    return PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node);
}

static struct pfl_producer *the_producer(void)
{
    assert_int_equal(kit.service.producers_len, 1);
    return PFL_CONTAINER_OF(kit.service.producers.next, struct pfl_producer, node);
}

/* A commit of one chunk with one packet: for_testing.str = "x"; `flush_id` may be 0. */
static void commit_packet(struct pfl_kit_client *self, uint16_t buffer, uint64_t flush_id)
{
    static const uint8_t chunk[] = {1, 0, 0, 0, 5, 0, 1, 0, 6, 0xa2, 0x38, 3, 0x0a, 1, 'x'};
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t mark;

    pfl_buf_init(&buf, MAX_BYTES);
    mark = pfl_message_begin(&m, 1);
    pfl_message_varint(&m, 1, 777); /* pages of the producer's own are nobody's business */
    pfl_message_varint(&m, 3, buffer);
    pfl_message_bytes(&m, 4, pfl_span_of(chunk, sizeof(chunk)));
    pfl_message_end(&m, mark);
    if (flush_id != 0)
        pfl_message_varint(&m, 3, flush_id);
    (void)pfl_kit_client_invoke_drop(self, KIT_COMMIT, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

static uint64_t expect_start(void)
{
    uint64_t page_kb = pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    uint64_t instance = pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);

    assert_int_equal(pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL), instance);
    assert_int_equal(producer.received_fd, -1);
    return page_kb;
}

/* What the trace has of field `id`: how many packets, and the trusted fields of the last. */
struct found {
    unsigned packets;
    uint64_t machine_id;
    uint64_t uid;
    uint64_t pid;
};

static void look_at(struct pfl_span packet, uint32_t id, struct found *found)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct found f = {0};
    struct pfl_field field;
    bool has = false;

    while (pfl_reader_field(&r, &field)) {
        has = has || field.id == id;
        if (field.id == PFL_PACKET_MACHINE_ID)
            f.machine_id = field.value;
        else if (field.id == PFL_PACKET_TRUSTED_UID)
            f.uid = field.value;
        else if (field.id == PFL_PACKET_TRUSTED_PID)
            f.pid = field.value;
    }
    assert_false(r.failed);
    if (!has)
        return;
    f.packets = found->packets + 1;
    *found = f;
}

static struct found find_in(struct pfl_span trace, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct found found = {0};
    struct pfl_field packet;

    while (pfl_reader_field(&r, &packet))
        look_at(packet.bytes, id, &found);
    assert_false(r.failed);
    return found;
}

static void read_trace(struct pfl_buf *ret_trace)
{
    uint64_t id = pfl_kit_client_invoke(&consumer, KIT_READ, (struct pfl_span){0});

    pfl_kit_client_read_trace(&consumer, id, ret_trace);
}

static struct found read_and_find(uint32_t id)
{
    struct pfl_buf trace;
    struct found found;

    read_trace(&trace);
    found = find_in(pfl_buf_get(&trace), id);
    pfl_buf_fini(&trace);
    return found;
}

static void chunks_in_commits_reach_the_trace_with_the_peers_identity(void **state)
{
    struct found found;

    (void)state;
    open_producer("vm");
    (void)pfl_kit_consumer_enable(&consumer, BUFFER SOURCE "}" ALL);
    assert_int_equal(expect_start(), 4);
    commit_packet(&producer, the_session()->buffers[0].id, 0);
    found = read_and_find(PFL_PACKET_FOR_TESTING);
    assert_int_equal(found.packets, 1);
    assert_int_equal(found.machine_id, MACHINE);
    assert_int_equal(found.uid, 1234);
    assert_int_equal(found.pid, 4321);
    pfl_kit_client_close(&producer);
}

static void a_chunk_for_a_foreign_buffer_is_discarded(void **state)
{
    (void)state;
    open_producer("vm");
    (void)pfl_kit_consumer_enable(&consumer, BUFFER SOURCE "}");
    commit_packet(&producer, the_session()->buffers[0].id, 0);
    assert_int_equal(read_and_find(PFL_PACKET_FOR_TESTING).packets, 0);
    assert_int_equal(kit.service.commits.chunks_discarded, 1);
    pfl_kit_client_close(&producer);
}

static void the_page_size_of_the_config_reaches_a_producer_without_shared_memory(void **state)
{
    (void)state;
    open_producer("vm");
    (void)pfl_kit_consumer_enable(&consumer, BUFFER SOURCE
                                  "}" ALL "producers { producer_name: \"kit.producer\" "
                                  "shm_size_kb: 512 page_size_kb: 16 }");
    assert_int_equal(expect_start(), 16);
    assert_int_equal(the_producer()->smb.fd, -1);
    pfl_kit_client_close(&producer);
}

static void who_does_not_say_otherwise_is_of_this_machine(void **state)
{
    struct found found;

    (void)state;
    open_producer(NULL);
    (void)pfl_kit_consumer_enable(&consumer, BUFFER SOURCE "}");
    (void)expect_start();
    commit_packet(&producer, the_session()->buffers[0].id, 0);
    found = read_and_find(PFL_PACKET_FOR_TESTING);
    assert_int_equal(found.packets, 1);
    assert_int_equal(found.machine_id, 0);
    assert_int_equal(found.pid, 0); /* unknown, so left out */
    pfl_kit_client_close(&producer);
}

static void an_identity_counts_once_and_never_on_a_unix_socket(void **state)
{
    (void)state;
    connect_tcp(&producer);
    identify(&producer, HINT, "vm");
    identify(&producer, "other", "other");
    bind_service(&producer, "ProducerPort");
    introduce(&producer, false);
    assert_int_equal(the_producer()->machine_id, MACHINE);
    assert_string_equal(the_producer()->machine_name, "vm");
    pfl_kit_client_close(&producer);
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    identify(&producer, HINT, "vm");
    pfl_kit_client_expect_empty(&producer,
                                pfl_kit_client_call(&producer, KIT_SYNC, (struct pfl_kit_args){0}),
                                false, false);
    (void)pfl_kit_client_invoke_drop(&producer, KIT_INITIALIZE, (struct pfl_span){0});
    pfl_port_kit_run(&kit);
    assert_int_equal(the_producer()->machine_id, 0);
    assert_int_equal(the_producer()->uid, getuid());
    pfl_kit_client_close(&producer);
}

static void machines_are_chosen_by_their_names(void **state)
{
    static const struct {
        const char *config;
        bool joins;
    } cases[] = {
        {BUFFER SOURCE "}", false},
        {BUFFER SOURCE "}" ALL, true},
        {BUFFER ONLY_ON "\"vm\" }", true},
        {BUFFER ONLY_ON "\"vm\" }" ALL, true},
        {BUFFER ONLY_ON "\"host\" }" ALL, false},
        {BUFFER ONLY_ON "\"vm2\" }" ALL, false},
        {BUFFER ONLY_ON "\"vm2\" machine_name_filter: \"vm\" }", true},
    };

    (void)state;
    open_producer("vm");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t enable = pfl_kit_consumer_enable(&consumer, cases[i].config);

        assert_int_equal(the_session()->instances_len, cases[i].joins);
        (void)pfl_kit_client_invoke_drop(&consumer, KIT_DISABLE, (struct pfl_span){0});
        pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
        (void)pfl_kit_client_invoke_drop(&consumer, KIT_FREE, (struct pfl_span){0});
        pfl_port_kit_run(&kit);
    }
    pfl_kit_client_close(&producer);
}

/* Sends a flush; whether the producer hears of it. */
static bool is_asked_to_flush(void)
{
    uint64_t flush_id = 0;
    struct pfl_kit_reply reply;
    bool is_asked;

    (void)pfl_kit_client_call(&consumer, KIT_FLUSH, (struct pfl_kit_args){1000, 0, NULL});
    is_asked = pfl_kit_client_take(&producer, &reply);
    if (is_asked) {
        struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
        struct pfl_field f;

        assert_true(pfl_reader_field(&r, &f));
        assert_int_equal(f.id, KIT_CMD_FLUSH);
        r = pfl_reader_of(f.bytes);
        assert_true(pfl_reader_field(&r, &f));
        assert_int_equal(f.id, 2); /* no data source in front of the request's id */
        flush_id = f.value;
        pfl_kit_reply_free(&reply);
        commit_packet(&producer, the_session()->buffers[0].id, flush_id);
    }
    assert_true(pfl_kit_client_take(&consumer, &reply));
    assert_true(reply.success);
    pfl_kit_reply_free(&reply);
    return is_asked;
}

static void a_remote_producer_that_wants_scraping_is_asked_to_look_itself(void **state)
{
    (void)state;
    for (int wants = 0; wants < 2; wants++) {
        connect_tcp(&producer);
        identify(&producer, HINT, "vm");
        bind_service(&producer, "ProducerPort");
        introduce(&producer, wants != 0);
        register_source(&producer, true);
        (void)pfl_kit_consumer_enable(&consumer, BUFFER SOURCE "}" ALL);
        (void)expect_start();
        assert_int_equal(is_asked_to_flush(), wants != 0);
        assert_int_equal(read_and_find(PFL_PACKET_FOR_TESTING).packets, wants);
        (void)pfl_kit_client_invoke_drop(&consumer, KIT_FREE, (struct pfl_span){0});
        pfl_kit_client_close(&producer);
        pfl_kit_client_close(&consumer);
        pfl_kit_consumer_open(&consumer, &kit);
    }
}

static void a_claimed_uid_opens_no_locked_service(void **state)
{
    (void)state;
    kit.facts.uid = 1234; /* what the producers of this test claim */
    kit.service.is_locked_down = true;
    connect_tcp(&producer);
    identify(&producer, HINT, "vm");
    bind_service(&producer, "ProducerPort");
    pfl_kit_client_expect_empty(
        &producer, pfl_kit_client_invoke(&producer, KIT_INITIALIZE, (struct pfl_span){0}), false,
        false);
    assert_int_equal(kit.service.producers_len, 0);
    pfl_kit_client_close(&producer);
}

/* ---- RelayPort ---- */

static void invoke_relay(struct pfl_kit_client *self, unsigned method, struct pfl_span args,
                         bool succeeds)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(&buf, MAX_BYTES);
    put_invoke(&m, (uint64_t[]){++self->last_id, RELAY_ID, method}, args);
    send_message(self, &buf);
    pfl_kit_client_expect_empty(self, self->last_id, succeeds, false);
}

static void tell_clocks(struct pfl_kit_client *self, bool succeeds)
{
    /* phase PING; clocks { BOOTTIME 5 } */
    static const uint8_t args[] = {0x08, 1, 0x12, 4, 0x08, 6, 0x10, 5};

    invoke_relay(self, 2, pfl_span_of(args, sizeof(args)), succeeds);
}

static void tell_system(struct pfl_kit_client *self, bool succeeds)
{
    static const uint8_t args[] = {0x0a, 3, 0x22, 1, 'v'};

    invoke_relay(self, 1, pfl_span_of(args, sizeof(args)), succeeds);
}

static void open_relay(struct pfl_kit_client *self, const char *hint)
{
    connect_tcp(self);
    if (hint != NULL)
        identify(self, hint, "vm");
    bind_service(self, "RelayPort");
}

static void a_trace_tells_once_what_relays_told(void **state)
{
    struct pfl_kit_client relay;
    struct pfl_buf trace;
    struct found found;

    (void)state;
    open_relay(&relay, HINT);
    tell_system(&relay, true);
    tell_clocks(&relay, true);
    tell_clocks(&relay, true);
    (void)pfl_kit_consumer_enable(&consumer, BUFFER ALL);
    read_trace(&trace);
    found = find_in(pfl_buf_get(&trace), PFL_PACKET_REMOTE_CLOCK_SYNC);
    assert_int_equal(found.packets, 1);
    assert_int_equal(found.machine_id, MACHINE);
    assert_int_equal(find_in(pfl_buf_get(&trace), PFL_PACKET_SYSTEM_INFO).packets, 2);
    pfl_buf_fini(&trace);
    assert_int_equal(read_and_find(PFL_PACKET_REMOTE_CLOCK_SYNC).packets, 0);
    pfl_kit_client_close(&relay);
}

static void a_machine_that_comes_late_or_leaves_early_is_in_the_trace_too(void **state)
{
    struct pfl_kit_client relay;

    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, BUFFER ALL);
    assert_int_equal(read_and_find(PFL_PACKET_REMOTE_CLOCK_SYNC).packets, 0);
    open_relay(&relay, HINT);
    tell_clocks(&relay, true);
    pfl_kit_client_close(&relay);
    assert_int_equal(read_and_find(PFL_PACKET_REMOTE_CLOCK_SYNC).packets, 1);
    (void)pfl_kit_client_invoke_drop(&consumer, KIT_FREE, (struct pfl_span){0});
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.relays.len, 0);
}

static void builtin_data_sources_that_are_off_stay_off_for_relays(void **state)
{
    struct pfl_kit_client relay;
    struct pfl_buf trace;

    (void)state;
    open_relay(&relay, HINT);
    tell_system(&relay, true);
    tell_clocks(&relay, true);
    (void)pfl_kit_consumer_enable(&consumer,
                                  BUFFER "builtin_data_sources { disable_clock_snapshotting: true "
                                         "disable_system_info: true }");
    read_trace(&trace);
    assert_int_equal(find_in(pfl_buf_get(&trace), PFL_PACKET_REMOTE_CLOCK_SYNC).packets, 0);
    assert_int_equal(find_in(pfl_buf_get(&trace), PFL_PACKET_SYSTEM_INFO).packets, 0);
    pfl_buf_fini(&trace);
    pfl_kit_client_close(&relay);
}

static void a_relay_without_a_machine_cannot_move_this_hosts_clocks(void **state)
{
    struct pfl_kit_client relay;

    (void)state;
    open_relay(&relay, NULL);
    tell_clocks(&relay, false);
    tell_system(&relay, false);
    assert_int_equal(kit.service.relays.len, 0);
    pfl_kit_client_close(&relay);
}

static void without_the_option_nobody_speaks_relay(void **state)
{
    struct pfl_kit_client relay;
    struct pfl_producer_port *with_relay = tcp;

    (void)state;
    open_tcp_port(false);
    open_relay(&relay, HINT);
    /* An unknown service is answered without a reply to calls: success=false at once. */
    tell_clocks(&relay, false);
    assert_int_equal(kit.service.relays.len, 0);
    pfl_kit_client_close(&relay);
    pfl_producer_port_close(tcp);
    tcp = with_relay;
}

/* ---- ends ---- */

static void put_frame(struct pfl_buf *stream, struct pfl_buf *frame)
{
    uint8_t prefix[4];
    struct pfl_writer w = pfl_writer_of(prefix, sizeof(prefix));

    pfl_writer_u32(&w, (uint32_t)frame->len);
    assert_int_equal(pfl_buf_append(stream, prefix, sizeof(prefix)), 0);
    assert_int_equal(pfl_buf_append(stream, pfl_buf_get(frame).data, frame->len), 0);
    pfl_buf_fini(frame);
}

/* All that a producer and a relay of one connection say. */
static void make_stream(struct pfl_buf *stream)
{
    static const uint8_t init[] = {0x1a, 1, 'p', 0x20, 1};
    static const uint8_t source[] = {0x0a, 12,  0x0a, 10,  'k', 'i', 't',
                                     '.',  's', 'o',  'u', 'r', 'c', 'e'};
    static const uint8_t clocks[] = {0x08, 1, 0x12, 4, 0x08, 6, 0x10, 5};
    static const uint8_t info[] = {0x0a, 3, 0x22, 1, 'v'};
    static const uint8_t commit[] = {0x0a, 15, 0x18, 1, 0x22, 11, 1, 0, 0, 0, 5, 0, 1, 0, 2, 8, 1};
    const struct {
        uint64_t ids[3];
        struct pfl_span args;
    } calls[] = {
        {{2, 1, KIT_INITIALIZE}, pfl_span_of(init, sizeof(init))},
        {{3, 1, KIT_COMMANDS}, {0}},
        {{4, 1, KIT_REGISTER}, pfl_span_of(source, sizeof(source))},
        {{5, 1, KIT_COMMIT}, pfl_span_of(commit, sizeof(commit))},
        {{6, RELAY_ID, 1}, pfl_span_of(info, sizeof(info))},
        {{7, RELAY_ID, 2}, pfl_span_of(clocks, sizeof(clocks))},
    };
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(stream, MAX_BYTES);
    pfl_buf_init(&buf, MAX_BYTES);
    put_identity(&m, HINT, "vm");
    put_frame(stream, &buf);
    pfl_buf_init(&buf, MAX_BYTES);
    put_bind(&m, 1, "ProducerPort");
    put_frame(stream, &buf);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        pfl_buf_init(&buf, MAX_BYTES);
        put_invoke(&m, calls[i].ids, calls[i].args);
        put_frame(stream, &buf);
    }
    assert_int_equal(m.rc, 0);
}

static void a_connection_may_end_at_every_byte(void **state)
{
    struct pfl_kit_client dying;
    struct pfl_buf stream;

    (void)state;
    make_stream(&stream);
    (void)pfl_kit_consumer_enable(&consumer, BUFFER SOURCE "}" ALL);
    for (size_t len = 0; len <= stream.len; len++) {
        connect_tcp(&dying);
        pfl_kit_client_send(&dying, pfl_buf_get(&stream).data, len, -1);
        pfl_kit_client_close(&dying);
        pfl_port_kit_run(&kit);
        assert_int_equal(kit.service.producers_len, 0);
        assert_int_equal(the_session()->instances_len, 0);
    }
    assert_true(kit.service.relays.len > 0);
    assert_true(read_and_find(PFL_PACKET_REMOTE_CLOCK_SYNC).packets > 0);
    pfl_buf_fini(&stream);
}

int main(void)
{
#define WITH_PORTS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_PORTS(chunks_in_commits_reach_the_trace_with_the_peers_identity),
        WITH_PORTS(a_chunk_for_a_foreign_buffer_is_discarded),
        WITH_PORTS(the_page_size_of_the_config_reaches_a_producer_without_shared_memory),
        WITH_PORTS(who_does_not_say_otherwise_is_of_this_machine),
        WITH_PORTS(an_identity_counts_once_and_never_on_a_unix_socket),
        WITH_PORTS(machines_are_chosen_by_their_names),
        WITH_PORTS(a_remote_producer_that_wants_scraping_is_asked_to_look_itself),
        WITH_PORTS(a_claimed_uid_opens_no_locked_service),
        WITH_PORTS(a_trace_tells_once_what_relays_told),
        WITH_PORTS(a_machine_that_comes_late_or_leaves_early_is_in_the_trace_too),
        WITH_PORTS(builtin_data_sources_that_are_off_stay_off_for_relays),
        WITH_PORTS(a_relay_without_a_machine_cannot_move_this_hosts_clocks),
        WITH_PORTS(without_the_option_nobody_speaks_relay),
        WITH_PORTS(a_connection_may_end_at_every_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
