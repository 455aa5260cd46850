/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto/trace_packet.fields.h"
#include "service/core/remote_machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "service/port/peer.h"
#include "tests/support/sweep.h"

static const struct pfl_service_facts facts = {.uid = 7, .version = "test"};
static const uint8_t info[] = {0x22, 0x01, 'v'}; /* tracing_service_version: "v" */

static struct pfl_relay *add(struct pfl_remote_machines *book, uint32_t machine_id)
{
    struct pfl_relay *relay = NULL;

    assert_int_equal(pfl_remote_machines_add(book, machine_id, 0, &relay), 0);
    return relay;
}

static void add_pair(struct pfl_relay *relay, uint64_t client, uint64_t host)
{
    const struct pfl_relay_clocks c = {.clocks = {{PFL_CLOCK_BOOTTIME, client}}, .len = 1};
    const struct pfl_relay_clocks h = {.clocks = {{PFL_CLOCK_BOOTTIME, host}}, .len = 1};

    pfl_relay_add_pair(relay, &c, &h);
}

/* The packets that have field `id`, and the machine of the last one. */
static unsigned count(struct pfl_span trace, uint32_t id, uint64_t *ret_machine)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field packet;
    struct pfl_field f;
    unsigned found = 0;

    while (pfl_reader_field(&r, &packet)) {
        struct pfl_reader p = pfl_reader_of(packet.bytes);
        uint64_t machine = 0;
        bool has = false;

        while (pfl_reader_field(&p, &f)) {
            has = has || f.id == id;
            if (f.id == TRACE_PACKET__MACHINE_ID)
                machine = f.value;
        }
        assert_false(p.failed);
        found += has;
        if (has)
            *ret_machine = machine;
    }
    assert_false(r.failed);
    return found;
}

static unsigned encode(const struct pfl_remote_machines *book, struct pfl_machine_set *sent,
                       bool clocks)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    uint64_t machine = 0;
    unsigned found;

    pfl_buf_init(&buf, 1u << 20);
    if (clocks)
        pfl_remote_machines_encode_clocks(book, &m, &facts, sent);
    else
        pfl_remote_machines_encode_infos(book, &m, &facts, sent);
    assert_int_equal(m.rc, 0);
    found = count(pfl_buf_get(&buf),
                  clocks ? TRACE_PACKET__REMOTE_CLOCK_SYNC : TRACE_PACKET__SYSTEM_INFO, &machine);
    pfl_buf_fini(&buf);
    return found;
}

static void a_machine_is_reported_about_once_however_many_relays_it_has(void **state)
{
    struct pfl_machine_set sent = {0};
    struct pfl_remote_machines book;
    struct pfl_relay *relay;

    (void)state;
    pfl_remote_machines_init(&book);
    relay = add(&book, 11);
    add_pair(relay, 1, 2);
    add_pair(add(&book, 11), 3, 4);
    (void)add(&book, 12); /* nothing to say */
    assert_int_equal(encode(&book, &sent, true), 1);
    assert_int_equal(encode(&book, &sent, true), 0);
    assert_int_equal(pfl_relay_set_info(relay, pfl_span_of(info, sizeof(info))), 0);
    sent.len = 0;
    assert_int_equal(encode(&book, &sent, false), 1);
    assert_int_equal(sent.ids[0], 11);
    pfl_remote_machines_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void the_last_five_readings_are_kept(void **state)
{
    struct pfl_remote_machines book;
    struct pfl_relay *relay;

    (void)state;
    pfl_remote_machines_init(&book);
    relay = add(&book, 1);
    for (uint64_t i = 0; i < 7; i++)
        add_pair(relay, i, 100 + i);
    assert_int_equal(relay->pairs_len, PFL_RELAY_PAIRS);
    assert_int_equal(relay->client[0].clocks[0].value, 2);
    assert_int_equal(relay->host[4].clocks[0].value, 106);
    pfl_remote_machines_fini(&book);
}

static void machine_zero_and_one_relay_too_many_are_refused(void **state)
{
    struct pfl_remote_machines book;
    struct pfl_relay *relay;
    struct pfl_relay *first;

    (void)state;
    pfl_remote_machines_init(&book);
    assert_int_equal(pfl_remote_machines_add(&book, 0, 0, &relay), PFL_EINVAL);
    first = add(&book, 1);
    for (uint32_t i = 2; i <= PFL_RELAY_MAX; i++)
        (void)add(&book, i);
    assert_int_equal(pfl_remote_machines_add(&book, 9999, 0, &relay), PFL_ELIMIT);
    pfl_remote_machines_leave(&book, first, true);
    (void)add(&book, 9999); /* in the place of the one that is gone */
    assert_int_equal(book.len, PFL_RELAY_MAX);
    pfl_remote_machines_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void what_a_relay_reported_outlives_it_as_long_as_there_are_sessions(void **state)
{
    struct pfl_machine_set sent = {0};
    struct pfl_remote_machines book;
    struct pfl_relay *relay;

    (void)state;
    pfl_remote_machines_init(&book);
    relay = add(&book, 5);
    add_pair(relay, 1, 2);
    pfl_remote_machines_leave(&book, relay, true);
    assert_int_equal(encode(&book, &sent, true), 1);
    pfl_remote_machines_forget_gone(&book);
    assert_int_equal(book.len, 0);
    pfl_remote_machines_leave(&book, add(&book, 6), false);
    assert_int_equal(book.len, 0);
    pfl_remote_machines_fini(&book);
}

static void system_information_that_is_none_or_too_large_changes_nothing(void **state)
{
    static const uint8_t huge[PFL_RELAY_INFO_MAX_BYTES + 1];
    static const uint8_t cut[] = {0x22, 0x05, 'v'};
    struct pfl_remote_machines book;
    struct pfl_relay *relay;

    (void)state;
    pfl_remote_machines_init(&book);
    relay = add(&book, 5);
    assert_int_equal(pfl_relay_set_info(relay, pfl_span_of(info, sizeof(info))), 0);
    assert_int_equal(pfl_relay_set_info(relay, pfl_span_of(huge, sizeof(huge))), PFL_ELIMIT);
    assert_int_equal(pfl_relay_set_info(relay, pfl_span_of(cut, sizeof(cut))), PFL_EPARSE);
    assert_int_equal(relay->info_len, sizeof(info));
    pfl_remote_machines_fini(&book);
}

static void a_machine_id_is_the_documented_hash_of_its_hint(void **state)
{
    struct pfl_peer peer = {.is_network = true, .pid = -1, .local_host = "127.0.0.1"};
    struct pfl_rpc_peer_identity identity = {
        .pid = 4, .uid = 5, .machine_name = {(const uint8_t *)"vm", 2}};
    char long_name[PFL_PEER_NAME_MAX + 40];

    (void)state;
    assert_int_equal(pfl_peer_hash_machine(pfl_span_of("hint-1", 6)), 1327768250u);
    pfl_peer_identify(&peer, &identity);
    assert_int_equal(peer.machine_id, pfl_peer_hash_machine(pfl_span_of("127.0.0.1", 9)));
    assert_string_equal(peer.machine_name, "vm");
    identity.uid = 6;
    pfl_peer_identify(&peer, &identity); /* once only */
    assert_int_equal(peer.uid, 5);
    peer = (struct pfl_peer){.pid = 9};
    pfl_peer_identify(&peer, &identity); /* the kernel knows better */
    assert_int_equal(peer.pid, 9);
    memset(long_name, 'n', sizeof(long_name));
    peer = (struct pfl_peer){.is_network = true};
    identity.machine_name = pfl_span_of(long_name, sizeof(long_name));
    pfl_peer_identify(&peer, &identity);
    assert_int_equal(strlen(peer.machine_name), PFL_PEER_NAME_MAX);
}

static int live(void *arg)
{
    struct pfl_machine_set sent = {0};
    struct pfl_remote_machines book;
    struct pfl_relay *relay;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    (void)arg;
    pfl_buf_init(&buf, 65536);
    pfl_remote_machines_init(&book);
    rc = pfl_remote_machines_add(&book, 3, 0, &relay);
    if (rc == 0)
        rc = pfl_relay_set_info(relay, pfl_span_of(info, sizeof(info)));
    if (rc == 0) {
        add_pair(relay, 1, 2);
        pfl_remote_machines_encode_clocks(&book, &m, &facts, &sent);
        rc = m.rc;
    }
    pfl_buf_fini(&buf);
    pfl_remote_machines_fini(&book);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(live, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_is_reported_about_once_however_many_relays_it_has),
        cmocka_unit_test(the_last_five_readings_are_kept),
        cmocka_unit_test(machine_zero_and_one_relay_too_many_are_refused),
        cmocka_unit_test(what_a_relay_reported_outlives_it_as_long_as_there_are_sessions),
        cmocka_unit_test(system_information_that_is_none_or_too_large_changes_nothing),
        cmocka_unit_test(a_machine_id_is_the_documented_hash_of_its_hint),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
