/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of agents' events: what is audited, what is counted, when they are asked for. */
#include "relay/hub/agent_events.h"

#include "relay/hub/agent_event.h"
#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define TRIGGER "{\"kind\":\"trigger\",\"operator\":\"ann\",\"session\":\"s\",\"trigger\":\"t\"}\n"
#define REQUEST "{\"kind\":\"request\",\"operator\":\"ann\",\"method\":\"EnableTracing\"}\n"

static struct world_peer *a;

static void listen_to(struct world_peer *peer)
{
    const struct pfl_agent_events_conf conf = {.triggers = &world.triggers};

    pfl_agent_events_start(&peer->peer, &conf);
}

static void say_times(const char *line, unsigned times)
{
    static char lines[1u << 16];
    size_t len = strlen(line);

    assert_true(times * len < sizeof(lines));
    for (unsigned i = 0; i < times; i++)
        memcpy(lines + i * len, line, len);
    lines[times * len] = '\0';
    world_say_events(a, lines);
}

static void requests_that_the_agent_judged_are_audited(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    assert_non_null(a->events);
    world_say_events(a, "{\"kind\":\"request\",\"operator\":\"ann\",\"stream\":\"" WORLD_STREAM
                        "\",\"method\":\"EnableTracing\"}\n");
    world_assert_audited("request 200 ann a " WORLD_STREAM " 0/0 EnableTracing -\n");
    world_say_events(a, "{\"kind\":\"refused\",\"operator\":\"bob\",\"method\":\"EnableTracing\","
                        "\"reason\":\"no\"}\n");
    world_assert_audited("request 403 bob a - 0/0 EnableTracing no\n");
}

static void a_line_may_come_in_pieces(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world_say_events(a, "{\"kind\":\"request\",\"oper");
    world_say_events(a, "ator\":\"ann\",\"method\":\"EnableTr");
    assert_string_equal(world.audited, "");
    world_say_events(a, "acing\"}\n{\"kind\":");
    assert_string_equal(world.audited, "request 200 ann a - 0/0 EnableTracing -\n");
    world_say_events(a, "\"request\",\"operator\":\"bob\",\"method\":\"EnableTracing\"}\n");
    world_assert_audited("request 200 bob a - 0/0 EnableTracing -\n");
}

static void a_line_that_is_too_long_ends_the_answer(void **state)
{
    static char line[PFL_AGENT_EVENT_LINE_BYTES + 2];

    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    memset(line, 'x', PFL_AGENT_EVENT_LINE_BYTES);
    world_say_events(a, line);
    assert_non_null(a->events);
    world_say_events(a, "x");
    assert_null(a->events);
    assert_null(a->peer.events);
    world_assert_reported("events-ended - a - 8 -\n");
    /* The next clock exchange asks again. */
    pfl_agent_hello_repeat(&a->hello);
    world_pump();
    assert_non_null(a->events);
    world_say_events(a, REQUEST);
    world_assert_audited("request 200 ann a - 0/0 EnableTracing -\n");
}

static void what_makes_no_sense_or_was_lost_is_counted_and_reported_with_the_next(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world_say_events(a, "nonsense\n{\"kind\":\"lost\",\"count\":5}\n\n");
    assert_string_equal(world.audited, "");
    assert_int_equal(a->peer.host->unheard, 7);
    world_say_events(a, REQUEST REQUEST);
    assert_string_equal(world.audited, "unheard 0 - a - 0/0 - 7 events of this host are not here\n"
                                       "request 200 ann a - 0/0 EnableTracing -\n"
                                       "request 200 ann a - 0/0 EnableTracing -\n");
}

static void what_was_counted_is_reported_with_the_clock_and_at_the_end(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world_say_events(a, "nonsense\n");
    pfl_agent_hello_repeat(&a->hello);
    world_assert_audited("unheard 0 - a - 0/0 - 1 events of this host are not here\n");
    world_pump();
    world_say_events(a, "nonsense\nnonsense\n");
    world_disconnect(a);
    world_assert_audited("unheard 0 - a - 0/0 - 2 events of this host are not here\n");
}

static void events_have_a_rate_and_triggers_another_one(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world.audited[0] = '\0';
    say_times("{\"kind\":\"lost\",\"count\":1}\n", 500);
    assert_int_equal(a->peer.host->unheard, 500);
    say_times(REQUEST, 3); /* above the rate: counted, not audited */
    assert_int_equal(a->peer.host->unheard, 503);
    assert_string_equal(world.audited, "");
    say_times(TRIGGER, 11);
    assert_int_equal(world_count(world.audited, "trigger 200"), 10);
    assert_int_equal(a->peer.host->unheard, 1);
    world.now_ms += 1000;
    say_times(TRIGGER, 2);
    assert_int_equal(world_count(world.audited, "trigger 200"), 11);
    say_times(REQUEST, 51);
    assert_int_equal(world_count(world.audited, "request 200"), 50);
}

/* Spaces hide what a line is from the first look at it. */
static void a_trigger_that_does_not_look_like_one_has_the_rate_of_triggers(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    say_times("{\"kind\": \"trigger\",\"operator\":\"ann\",\"session\":\"s\",\"trigger\":\"t\"}\n",
              12);
    assert_int_equal(world_count(world.audited, "trigger 200"), 10);
    assert_int_equal(a->peer.host->unheard, 2);
}

/* A host that floods reports of its spool loses its own, and nothing else of it is lost. */
static void spools_have_a_rate_of_their_own(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    for (unsigned i = 1; i <= 30; i++) {
        char line[64];

        (void)snprintf(line, sizeof(line), "{\"kind\": \"spool\",\"segments\":%u}\n", i);
        world_say_events(a, line);
    }
    assert_int_equal(a->peer.host->spool.segments, 20);
    assert_int_equal(a->peer.host->unheard, 10);
    say_times(TRIGGER, 1);
    assert_int_equal(world_count(world.audited, "trigger 200"), 1);
    world.now_ms += 500;
    world_say_events(a, "{\"kind\":\"spool\",\"segments\":31}\n");
    assert_int_equal(a->peer.host->spool.segments, 31);
}

static void a_new_connection_has_no_new_rate(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    say_times(TRIGGER, 10);
    world_disconnect(a);
    a = world_connect(PFL_IDENTITY_HOST, "a");
    say_times(TRIGGER, 2);
    assert_int_equal(world_count(world.audited, "trigger 200"), 10);
}

static void an_agent_without_events_is_not_asked_again(void **state)
{
    (void)state;
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->events_status = 404;
    world_pump();
    assert_true(a->peer.lacks_events);
    assert_string_equal(world.reported, "");
    a->events_status = 200;
    pfl_agent_hello_repeat(&a->hello);
    world_pump();
    assert_null(a->events);
}

static void an_answer_that_is_no_success_is_not_read_and_asked_for_again(void **state)
{
    (void)state;
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->events_status = 500;
    world_pump();
    assert_false(a->peer.lacks_events);
    assert_int_equal(a->peer.host->unheard, 0);
    assert_string_equal(world.reported, "");
    a->events_status = 200;
    pfl_agent_hello_repeat(&a->hello);
    world_pump();
    assert_non_null(a->events);
}

static void an_agent_that_was_replaced_reports_nothing_more(void **state)
{
    struct world_peer *older;

    (void)state;
    older = world_connect(PFL_IDENTITY_HOST, "a");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    assert_null(older->events);
    assert_null(older->peer.events);
    assert_non_null(a->events);
    assert_string_equal(world.reported, "");
    listen_to(older);
    world_pump();
    assert_null(older->events);
}

static void an_agent_without_a_hello_is_not_asked(void **state)
{
    (void)state;
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->hello_text = NULL;
    world_pump();
    listen_to(a);
    world_pump();
    assert_null(a->events);
    assert_int_equal(a->peer.state, PFL_HUB_PEER_READY);
}

static void without_memory_it_is_said_that_there_are_no_events(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    pfl_agent_events_stop(&a->peer);
    world_pump();
    world.reported[0] = '\0';
    pfl_mem_fail_at(1);
    listen_to(a);
    pfl_mem_fail_at(0);
    world_assert_reported("events-not-received - a - 0 out of memory\n");
    pfl_mem_fail_at(2);
    listen_to(a);
    pfl_mem_fail_at(0);
    world_assert_reported("events-not-received - a - 0 it could not be asked\n");
    assert_null(a->peer.events);
}

static int say(void *arg)
{
    (void)arg;
    world_open(NULL);
    a = world_connect(PFL_IDENTITY_HOST, "a");
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    world_say_events(a, REQUEST TRIGGER "nonsense\n");
    world_close();
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(say, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0xea335c1ba51ffd6e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(requests_that_the_agent_judged_are_audited),
        WORLD_TEST(a_line_may_come_in_pieces),
        WORLD_TEST(a_line_that_is_too_long_ends_the_answer),
        WORLD_TEST(what_makes_no_sense_or_was_lost_is_counted_and_reported_with_the_next),
        WORLD_TEST(what_was_counted_is_reported_with_the_clock_and_at_the_end),
        WORLD_TEST(events_have_a_rate_and_triggers_another_one),
        WORLD_TEST(a_trigger_that_does_not_look_like_one_has_the_rate_of_triggers),
        WORLD_TEST(spools_have_a_rate_of_their_own),
        WORLD_TEST(a_new_connection_has_no_new_rate),
        WORLD_TEST(an_agent_without_events_is_not_asked_again),
        WORLD_TEST(an_answer_that_is_no_success_is_not_read_and_asked_for_again),
        WORLD_TEST(an_agent_that_was_replaced_reports_nothing_more),
        WORLD_TEST(an_agent_without_a_hello_is_not_asked),
        WORLD_TEST(without_memory_it_is_said_that_there_are_no_events),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
