/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent is asked when it has come, and each minute: hello, clock, events. */
#include "relay/hub/agent_hello.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

static struct world_peer *a;

static void an_agent_is_asked_for_its_hello_once_and_for_its_clock_in_bursts(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    assert_int_equal(a->hellos, 1);
    assert_int_equal(a->clocks, 8);
    assert_int_equal(a->peer.state, PFL_HUB_PEER_INTRODUCED);
    assert_true(a->peer.host->has_clock);
    assert_string_equal(world.reported, "");
    pfl_agent_hello_repeat(&a->hello);
    world_pump();
    assert_int_equal(a->hellos, 1);
    assert_int_equal(a->clocks, 11);
}

/* The far clock is 500 ns ahead of what it was when it was asked, and ours advances by 1000 ns with
 * each look. */
static void the_clock_is_between_asking_and_answer(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    assert_int_equal(a->peer.host->clock_offset_ns, 0);
    assert_int_equal(a->peer.host->clock_error_ns, 501);
}

static struct pfl_clock_report read_report(unsigned line)
{
    struct pfl_clock_report r;
    char text[PFL_CLOCK_REPORT_TEXT_BYTES + 1];
    const char *at = a->reported;

    for (unsigned i = 0; i < line; i++)
        at = strchr(at, '\n') + 1;
    (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, "\n"), at);
    assert_int_equal(pfl_clock_report_read(text, &r), 0);
    return r;
}

/* The last request of a burst has it, with the drift that its time allows. */
static void the_agent_gets_what_was_measured(void **state)
{
    struct pfl_clock_report r;

    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    assert_int_equal(strncmp(a->reported, "-\n-\n-\n-\n-\n-\n-\n", 14), 0);
    r = read_report(7);
    assert_string_equal(r.relay, "meet");
    assert_string_equal(r.relay_boot_id, WORLD_BOOT_ID);
    assert_true(r.offset_ns == 0 && r.error_ns >= 501 && r.error_ns <= 505);
    assert_true(r.relay_unix_ns == 1700000000000000000);
    assert_true(r.host_boot_ns != 0);
    pfl_agent_hello_repeat(&a->hello);
    world_pump();
    assert_int_equal(world_count(a->reported, WORLD_BOOT_ID), 2);
}

/* Each exchange bounds the offset by half a microsecond, two of them by a fifth of that. */
static void a_burst_is_better_than_the_best_of_its_exchanges(void **state)
{
    struct pfl_clock_report r;

    (void)state;
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->is_clock_wavering = true;
    world_pump();
    assert_int_equal(a->peer.host->clock_error_ns, 501);
    r = read_report(7);
    assert_true(r.offset_ns == 0 && r.error_ns >= 101 && r.error_ns <= 105);
}

/* It wants to know its clock at the end of a segment. */
static void an_agent_may_ask_for_a_burst_each_second(void **state)
{
    static const char asks[] = "{\"kind\":\"spool\",\"clock\":true}\n";

    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world_say_events(a, asks);
    assert_int_equal(a->clocks, 8); /* the first burst was now */
    world.boot_ns += 1000000000;
    world_say_events(a, "{\"kind\":\"spool\"}\n{\"kind\":\"spool\",\"clock\":1}\n");
    assert_int_equal(a->clocks, 8);
    world_say_events(a, asks);
    world_say_events(a, asks);
    assert_int_equal(a->clocks, 16);
    assert_int_equal(world_count(a->reported, WORLD_BOOT_ID), 2);
}

/* A container may hide it: then there is nothing to say. */
static void without_a_boot_id_nothing_is_reported(void **state)
{
    (void)state;
    world.peers.boot_id[0] = '\0';
    a = world_connect(PFL_IDENTITY_HOST, "a");
    assert_int_equal(a->clocks, 8);
    assert_string_equal(a->reported, "-\n-\n-\n-\n-\n-\n-\n-\n");
}

static void a_hello_that_is_none_is_reported_and_nothing_follows_it(void **state)
{
    static const struct {
        const char *text;
        const char *reported;
    } cases[] = {
        {NULL, "hello-unusable - a - 500 -\n"},
        {"nonsense", "hello-unusable - b - 200 -\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        a = world_begin(PFL_IDENTITY_HOST, i == 0 ? "a" : "b");
        a->hello_text = cases[i].text;
        world_pump();
        world_assert_reported(cases[i].reported);
        assert_int_equal(a->peer.state, PFL_HUB_PEER_READY);
        assert_null(a->events);
        assert_int_equal(a->clocks, 8);
    }
}

static void a_hello_that_is_too_large_is_reported(void **state)
{
    static char large[PFL_HOST_INVENTORY_HELLO_BYTES + 2];

    (void)state;
    memset(large, ' ', sizeof(large) - 1);
    memcpy(large, "{}", 2);
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->hello_text = large;
    world_pump();
    world_assert_reported("hello-unusable - a - 0 -\n");
    large[PFL_HOST_INVENTORY_HELLO_BYTES] = '\0';
    a = world_begin(PFL_IDENTITY_HOST, "b");
    a->hello_text = large;
    world_pump();
    assert_int_equal(a->peer.state, PFL_HUB_PEER_INTRODUCED);
}

static void a_clock_that_makes_no_sense_is_reported_and_asked_for_again(void **state)
{
    (void)state;
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->clock_text = "{}";
    world_pump();
    assert_int_equal(world_count(world.reported, "clock-unusable - a - 200"), 8);
    assert_false(a->peer.host->has_clock);
    assert_int_equal(a->clocks, 8);
}

static void a_hello_ends_streams_that_its_labels_forbid(void **state)
{
    static struct world_answer stream;
    struct world_peer *ann;

    (void)state;
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"*\" label: \"tier=web\" }");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &stream);
    assert_int_equal(stream.status, 200);
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->hello_text = "{\"labels\":{\"tier\":\"db\"}}";
    world_pump();
    assert_null(stream.h2_stream);
    world_assert_audited("forbid 403 ann a " WORLD_STREAM " 0/0 - -\n");
}

static void an_agent_that_was_replaced_is_asked_nothing(void **state)
{
    struct world_peer *older;

    (void)state;
    older = world_connect(PFL_IDENTITY_HOST, "a");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    pfl_agent_hello_repeat(&older->hello);
    world_pump();
    assert_int_equal(older->clocks, 8);
    assert_string_equal(world.reported, "");
}

static void a_hello_of_one_that_is_replaced_meanwhile_is_not_taken(void **state)
{
    struct world_peer *older = world_begin(PFL_IDENTITY_HOST, "a");

    (void)state;
    world_pump();
    older->peer.state = PFL_HUB_PEER_READY;
    json_decref(older->peer.host->claims);
    older->peer.host->claims = NULL;
    pfl_agent_hello_start(&older->hello);
    older->peer.host->peer = NULL; /* another connection of the host came */
    older->peer.host = NULL;
    world_pump();
    assert_int_equal(older->peer.state, PFL_HUB_PEER_READY);
    assert_int_equal(world_count(world.reported, "hello-unusable - a - 200"), 1);
}

static void an_agent_that_cannot_be_asked_is_reported(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    pfl_mem_fail_at(1);
    pfl_agent_hello_start(&a->hello);
    pfl_mem_fail_at(0);
    world_assert_reported("hello-not-asked - a - 0 -\n");
    world_pump();
}

static void an_agent_that_is_lost_while_it_is_asked_is_not_reported(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world.reported[0] = '\0';
    pfl_agent_hello_start(&a->hello);
    world_disconnect(a);
    assert_int_equal(world_count(world.reported, "unusable"), 0);
}

static int come(void *arg)
{
    (void)arg;
    world_open(NULL);
    a = world_connect(PFL_IDENTITY_HOST, "a");
    if (a->hello.agent != NULL)
        pfl_agent_hello_repeat(&a->hello);
    world_pump();
    world_close();
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(come, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x402d2092d01b387e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(an_agent_is_asked_for_its_hello_once_and_for_its_clock_in_bursts),
        WORLD_TEST(the_clock_is_between_asking_and_answer),
        WORLD_TEST(the_agent_gets_what_was_measured),
        WORLD_TEST(a_burst_is_better_than_the_best_of_its_exchanges),
        WORLD_TEST(an_agent_may_ask_for_a_burst_each_second),
        WORLD_TEST(without_a_boot_id_nothing_is_reported),
        WORLD_TEST(a_hello_that_is_none_is_reported_and_nothing_follows_it),
        WORLD_TEST(a_hello_that_is_too_large_is_reported),
        WORLD_TEST(a_clock_that_makes_no_sense_is_reported_and_asked_for_again),
        WORLD_TEST(a_hello_ends_streams_that_its_labels_forbid),
        WORLD_TEST(an_agent_that_was_replaced_is_asked_nothing),
        WORLD_TEST(a_hello_of_one_that_is_replaced_meanwhile_is_not_taken),
        WORLD_TEST(an_agent_that_cannot_be_asked_is_reported),
        WORLD_TEST(an_agent_that_is_lost_while_it_is_asked_is_not_reported),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
