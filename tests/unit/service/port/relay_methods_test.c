/* SPDX-License-Identifier: Apache-2.0 */
/* Relays of other machines over TCP: RelayPort, and connections that end at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/trace_packet.fields.h"
#include "tests/unit/service/port/network_kit.h"

static void invoke_relay(struct pfl_kit_client *self, unsigned method, struct pfl_span args,
                         bool succeeds)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(&buf, MAX_BYTES);
    pfl_net_put_invoke(&m, (uint64_t[]){++self->last_id, RELAY_ID, method}, args);
    pfl_net_send(self, &buf);
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
    pfl_net_connect(self);
    if (hint != NULL)
        pfl_net_identify(self, hint, "vm");
    pfl_net_bind(self, "RelayPort");
}

static void a_trace_tells_once_what_relays_reported(void **state)
{
    struct pfl_kit_client relay;
    struct pfl_buf trace;
    struct pfl_net_found found;

    (void)state;
    open_relay(&relay, HINT);
    tell_system(&relay, true);
    tell_clocks(&relay, true);
    tell_clocks(&relay, true);
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER ALL);
    pfl_net_read(&trace);
    found = pfl_net_find(pfl_buf_get(&trace), TRACE_PACKET__REMOTE_CLOCK_SYNC);
    assert_int_equal(found.packets, 1);
    assert_int_equal(found.machine_id, MACHINE);
    assert_int_equal(pfl_net_find(pfl_buf_get(&trace), TRACE_PACKET__SYSTEM_INFO).packets, 2);
    pfl_buf_fini(&trace);
    assert_int_equal(pfl_net_read_and_find(TRACE_PACKET__REMOTE_CLOCK_SYNC).packets, 0);
    pfl_kit_client_close(&relay);
}

static void a_machine_that_comes_late_or_leaves_early_is_in_the_trace_too(void **state)
{
    struct pfl_kit_client relay;

    (void)state;
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER ALL);
    assert_int_equal(pfl_net_read_and_find(TRACE_PACKET__REMOTE_CLOCK_SYNC).packets, 0);
    open_relay(&relay, HINT);
    tell_clocks(&relay, true);
    pfl_kit_client_close(&relay);
    assert_int_equal(pfl_net_read_and_find(TRACE_PACKET__REMOTE_CLOCK_SYNC).packets, 1);
    (void)pfl_kit_client_invoke_drop(&pfl_net.consumer, KIT_FREE, (struct pfl_span){0});
    pfl_port_kit_run(&pfl_net.kit);
    assert_int_equal(pfl_net.kit.service.relays.len, 0);
}

static void builtin_data_sources_that_are_off_stay_off_for_relays(void **state)
{
    struct pfl_kit_client relay;
    struct pfl_buf trace;

    (void)state;
    open_relay(&relay, HINT);
    tell_system(&relay, true);
    tell_clocks(&relay, true);
    (void)pfl_kit_consumer_enable(&pfl_net.consumer,
                                  BUFFER "builtin_data_sources { disable_clock_snapshotting: true "
                                         "disable_system_info: true }");
    pfl_net_read(&trace);
    assert_int_equal(pfl_net_find(pfl_buf_get(&trace), TRACE_PACKET__REMOTE_CLOCK_SYNC).packets, 0);
    assert_int_equal(pfl_net_find(pfl_buf_get(&trace), TRACE_PACKET__SYSTEM_INFO).packets, 0);
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
    assert_int_equal(pfl_net.kit.service.relays.len, 0);
    pfl_kit_client_close(&relay);
}

static void without_the_option_nobody_speaks_relay(void **state)
{
    struct pfl_kit_client relay;
    struct pfl_producer_port *with_relay = pfl_net.tcp;

    (void)state;
    pfl_net_open_port(false);
    open_relay(&relay, HINT);
    /* An unknown service is answered without a reply to calls: success=false at once. */
    tell_clocks(&relay, false);
    assert_int_equal(pfl_net.kit.service.relays.len, 0);
    pfl_kit_client_close(&relay);
    pfl_producer_port_close(pfl_net.tcp);
    pfl_net.tcp = with_relay;
}

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
    pfl_net_put_identity(&m, HINT, "vm");
    put_frame(stream, &buf);
    pfl_buf_init(&buf, MAX_BYTES);
    pfl_net_put_bind(&m, 1, "ProducerPort");
    put_frame(stream, &buf);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        pfl_buf_init(&buf, MAX_BYTES);
        pfl_net_put_invoke(&m, calls[i].ids, calls[i].args);
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
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE "}" ALL);
    for (size_t len = 0; len <= stream.len; len++) {
        pfl_net_connect(&dying);
        pfl_kit_client_send(&dying, pfl_buf_get(&stream).data, len, -1);
        pfl_kit_client_close(&dying);
        pfl_port_kit_run(&pfl_net.kit);
        assert_int_equal(pfl_net.kit.service.producers_len, 0);
        assert_int_equal(pfl_net_get_session()->instances_len, 0);
    }
    assert_true(pfl_net.kit.service.relays.len > 0);
    assert_true(pfl_net_read_and_find(TRACE_PACKET__REMOTE_CLOCK_SYNC).packets > 0);
    pfl_buf_fini(&stream);
}

int main(void)
{
#define WITH_PORTS(test) cmocka_unit_test_setup_teardown(test, pfl_net_set_up, pfl_net_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_PORTS(a_trace_tells_once_what_relays_reported),
        WITH_PORTS(a_machine_that_comes_late_or_leaves_early_is_in_the_trace_too),
        WITH_PORTS(builtin_data_sources_that_are_off_stay_off_for_relays),
        WITH_PORTS(a_relay_without_a_machine_cannot_move_this_hosts_clocks),
        WITH_PORTS(without_the_option_nobody_speaks_relay),
        WITH_PORTS(a_connection_may_end_at_every_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
