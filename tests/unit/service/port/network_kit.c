/* SPDX-License-Identifier: Apache-2.0 */
/* See network_kit.h. */
#include "tests/unit/service/port/network_kit.h"

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

#include "perfetto/trace_packet.fields.h"

struct pfl_net pfl_net;

static void on_port_closed(void *user)
{
    unsigned *open = user;

    (*open)--;
}

void pfl_net_open_port(bool has_relay)
{
    const struct pfl_port_conf port = {
        .loop = &pfl_net.kit.loop,
        .service = &pfl_net.kit.service,
        .address = "127.0.0.1:0",
        .family = PFL_SOCKET_TCP,
        .has_relay = has_relay,
        .mode = -1,
        .max_connections = 100,
        .on_closed = on_port_closed,
        .user = &pfl_net.tcp_ports_open,
    };

    assert_int_equal(pfl_producer_port_open(&port, &pfl_net.tcp), 0);
    pfl_net.tcp_ports_open++;
    assert_int_not_equal(pfl_producer_port_get_tcp_port(pfl_net.tcp), 0);
}

int pfl_net_set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&pfl_net.kit);
    pfl_net_open_port(true);
    pfl_kit_consumer_open(&pfl_net.consumer, &pfl_net.kit);
    return 0;
}

int pfl_net_tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&pfl_net.consumer);
    pfl_producer_port_close(pfl_net.tcp);
    pfl_port_kit_close(&pfl_net.kit);
    assert_int_equal(pfl_net.tcp_ports_open, 0);
    return 0;
}

void pfl_net_connect(struct pfl_kit_client *self)
{
    int one = 1;
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)},
                               .sin_port = htons(pfl_producer_port_get_tcp_port(pfl_net.tcp))};

    *self = (struct pfl_kit_client){.kit = &pfl_net.kit, .received_fd = -1};
    pfl_buf_init(&self->in, 1u << 20);
    self->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(self->fd >= 0);
    assert_int_equal(setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    assert_int_equal(connect(self->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

/* One IPCFrame of one member message. */
void pfl_net_put_identity(struct pfl_message *m, const char *hint, const char *name)
{
    size_t mark = pfl_message_begin(m, 8);

    pfl_message_varint(m, 1, 4321);
    pfl_message_varint(m, 2, 1234);
    pfl_message_str(m, 3, hint);
    pfl_message_str(m, 4, name);
    pfl_message_end(m, mark);
}

void pfl_net_put_bind(struct pfl_message *m, uint64_t id, const char *service)
{
    size_t mark;

    pfl_message_varint(m, 2, id);
    mark = pfl_message_begin(m, 3);
    pfl_message_str(m, 1, service);
    pfl_message_end(m, mark);
}

void pfl_net_put_invoke(struct pfl_message *m, const uint64_t ids[3], struct pfl_span args)
{
    size_t mark;

    pfl_message_varint(m, 2, ids[0]);
    mark = pfl_message_begin(m, 5);
    pfl_message_varint(m, 1, ids[1]);
    pfl_message_varint(m, 2, ids[2]);
    pfl_message_bytes(m, 3, args);
    pfl_message_end(m, mark);
}

void pfl_net_send(struct pfl_kit_client *self, struct pfl_buf *buf)
{
    pfl_kit_client_send_frame(self, pfl_buf_get(buf), -1);
    pfl_buf_fini(buf);
}

void pfl_net_identify(struct pfl_kit_client *self, const char *hint, const char *name)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(&buf, MAX_BYTES);
    pfl_net_put_identity(&m, hint, name);
    pfl_net_send(self, &buf);
}

void pfl_net_bind(struct pfl_kit_client *self, const char *service)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_kit_reply reply;

    pfl_buf_init(&buf, MAX_BYTES);
    pfl_net_put_bind(&m, ++self->last_id, service);
    pfl_net_send(self, &buf);
    assert_true(pfl_kit_client_take(self, &reply));
    assert_true(reply.is_bind);
    pfl_kit_reply_free(&reply);
}

/* InitializeConnection, then the command stream; the reply's three answers are checked. */
void pfl_net_introduce(struct pfl_kit_client *self, bool wants_scraping)
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

void pfl_net_register_source(struct pfl_kit_client *self, bool is_no_flush)
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

struct pfl_session *pfl_net_get_session(void)
{
    assert_int_equal(pfl_net.kit.service.sessions_len, 1);
    return PFL_CONTAINER_OF(pfl_net.kit.service.sessions.next, struct pfl_session, node);
}

/* A commit of one chunk with one packet: for_testing.str = "x"; `flush_id` may be 0. */
void pfl_net_commit(struct pfl_kit_client *self, uint16_t buffer, uint64_t flush_id)
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

static void look_at(struct pfl_span packet, uint32_t id, struct pfl_net_found *found)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_net_found f = {0};
    struct pfl_field field;
    bool has = false;

    while (pfl_reader_field(&r, &field)) {
        has = has || field.id == id;
        if (field.id == TRACE_PACKET__MACHINE_ID)
            f.machine_id = field.value;
        else if (field.id == TRACE_PACKET__TRUSTED_UID)
            f.uid = field.value;
        else if (field.id == TRACE_PACKET__TRUSTED_PID)
            f.pid = field.value;
        else if (field.id == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID)
            f.sequence_id = field.value;
    }
    assert_false(r.failed);
    if (!has)
        return;
    f.packets = found->packets + 1;
    *found = f;
}

struct pfl_net_found pfl_net_find(struct pfl_span trace, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_net_found found = {0};
    struct pfl_field packet;

    while (pfl_reader_field(&r, &packet))
        look_at(packet.bytes, id, &found);
    assert_false(r.failed);
    return found;
}

void pfl_net_read(struct pfl_buf *ret_trace)
{
    uint64_t id = pfl_kit_client_invoke(&pfl_net.consumer, KIT_READ, (struct pfl_span){0});

    pfl_kit_client_read_trace(&pfl_net.consumer, id, ret_trace);
}

struct pfl_net_found pfl_net_read_and_find(uint32_t id)
{
    struct pfl_buf trace;
    struct pfl_net_found found;

    pfl_net_read(&trace);
    found = pfl_net_find(pfl_buf_get(&trace), id);
    pfl_buf_fini(&trace);
    return found;
}
