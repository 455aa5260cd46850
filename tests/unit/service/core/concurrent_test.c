/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace tells of other sessions, and the priority that sessions ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "service/core/session.h"
#include "service/session/boost.h"
#include "tests/unit/service/port/role_kit.h"

#define BUFFER       "buffers { size_kb: 64 } "
#define TELLS        "builtin_data_sources { enable_concurrent_session_events: true } "
#define PACKET_EVENT 134u
#define NO_ARGS                                                                                    \
    (struct pfl_span)                                                                              \
    {                                                                                              \
        0                                                                                          \
    }

static struct pfl_port_kit kit;
static struct pfl_kit_client first;
static struct pfl_kit_client second;
static struct pfl_boost in_force;
static int boost_rc;

static int set_boost(void *user, const struct pfl_boost *boost)
{
    (void)user;
    if (boost_rc == 0)
        in_force = *boost;
    return boost_rc;
}

static int open_kit(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    kit.service.conf.boost = set_boost;
    in_force = (struct pfl_boost){0};
    boost_rc = 0;
    pfl_kit_consumer_open(&first, &kit);
    pfl_kit_consumer_open(&second, &kit);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    pfl_kit_client_close(&first);
    pfl_kit_client_close(&second);
    pfl_port_kit_close(&kit);
    return 0;
}

static void free_session(struct pfl_kit_client *client)
{
    pfl_kit_client_expect_empty(client, pfl_kit_client_invoke(client, KIT_FREE, NO_ARGS), true,
                                false);
}

/* "SESSION:STATE ..." of the events in what `client` reads now. */
static const char *read_events(struct pfl_kit_client *client)
{
    static char text[256];
    struct pfl_buf trace;
    struct pfl_reader r;
    struct pfl_field packet;
    size_t at = 0;

    text[0] = '\0';
    pfl_kit_client_read_trace(client, pfl_kit_client_invoke(client, KIT_READ, NO_ARGS), &trace);
    r = pfl_reader_of(pfl_buf_get(&trace));
    while (pfl_reader_field(&r, &packet)) {
        struct pfl_reader fields = pfl_reader_of(packet.bytes);
        struct pfl_field f;

        while (pfl_reader_field(&fields, &f)) {
            struct pfl_reader event = pfl_reader_of(f.bytes);
            unsigned long long values[6] = {0};

            if (f.id != PACKET_EVENT)
                continue;
            while (pfl_reader_field(&event, &f)) {
                if (f.id < 6)
                    values[f.id] = f.value;
            }
            at +=
                (size_t)snprintf(text + at, sizeof(text) - at, "%llu:%llu ", values[3], values[1]);
            assert_true(at < sizeof(text));
        }
    }
    pfl_buf_fini(&trace);
    return text;
}

static void other_sessions_are_reported_from_their_state_at_the_beginning_to_their_end(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&first, BUFFER "deferred_start: true");
    (void)pfl_kit_consumer_enable(&second, BUFFER TELLS);
    pfl_kit_client_expect_empty(&first, pfl_kit_client_invoke(&first, KIT_START, NO_ARGS), true,
                                false);
    free_session(&first);
    assert_string_equal(read_events(&second), "1:2 1:3 1:1 ");
    assert_string_equal(read_events(&second), ""); /* once */
}

static void nothing_is_reported_unasked_nor_to_those_that_are_over(void **state)
{
    uint64_t enable = pfl_kit_consumer_enable(&second, BUFFER TELLS);

    (void)state;
    pfl_kit_client_expect_empty(&second, pfl_kit_client_invoke(&second, KIT_DISABLE, NO_ARGS), true,
                                false);
    pfl_kit_consumer_expect_disabled(&second, enable, NULL);
    (void)pfl_kit_consumer_enable(&first, BUFFER);
    assert_string_equal(read_events(&first), "");
    assert_string_equal(read_events(&second), "");
}

static void the_account_has_a_limit_and_keeps_the_oldest(void **state)
{
    struct pfl_session *listener;
    struct pfl_session *other;

    (void)state;
    (void)pfl_kit_consumer_enable(&second, BUFFER TELLS);
    (void)pfl_kit_consumer_enable(&first, BUFFER "unique_session_name: \"n\"");
    listener = pfl_service_find_session(&kit.service, 1);
    other = pfl_service_find_session(&kit.service, 2);
    for (unsigned i = 0; i < PFL_CONCURRENT_MAX + 10; i++)
        pfl_concurrent_tell(&kit.service, other);
    assert_int_equal(listener->concurrent.events.used, PFL_CONCURRENT_MAX);
    assert_int_equal(listener->concurrent.missing, 12); /* two are of its start */
    assert_true(listener->concurrent.packets.len <= PFL_CONCURRENT_MAX_BYTES);
}

static void a_users_sessions_leave_those_of_others_room_and_long_names_are_cut(void **state)
{
    char name[PFL_CONCURRENT_NAME_MAX * 2 + 1] = "";
    char config[sizeof(name) + 200];
    struct pfl_session *listener;
    struct pfl_session *other;
    uint32_t who;

    (void)state;
    for (size_t i = 0; i < PFL_CONCURRENT_NAME_MAX; i++)
        memcpy(name + 2 * i, "\xc3\xa4", 2); /* 255 is odd */
    (void)snprintf(config, sizeof(config), BUFFER "unique_session_name: \"%s\"", name);
    (void)pfl_kit_consumer_enable(&second, BUFFER TELLS);
    (void)pfl_kit_consumer_enable(&first, config);
    listener = pfl_service_find_session(&kit.service, 1);
    other = pfl_service_find_session(&kit.service, 2);
    who = other->who;
    pfl_service_set_owner(&kit.service, 1);
    pfl_concurrent_clear(&listener->concurrent);
    other->who = 1000;
    for (unsigned i = 0; i < PFL_CONCURRENT_MAX; i++)
        pfl_concurrent_tell(&kit.service, other);
    assert_int_equal(listener->concurrent.events.used, PFL_CONCURRENT_MAX / 2);
    assert_int_equal(listener->concurrent.missing, PFL_CONCURRENT_MAX / 2);
    assert_in_range(listener->concurrent.packets.len / (PFL_CONCURRENT_MAX / 2), 254, 384);
    other->who = 1001;
    pfl_concurrent_tell(&kit.service, other);
    assert_int_equal(listener->concurrent.events.used, PFL_CONCURRENT_MAX / 2 + 1);
    other->who = who;
}

static void the_highest_boost_counts_until_its_session_is_freed(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&first, BUFFER
                                  "priority_boost { policy: POLICY_SCHED_FIFO priority: 7 }");
    assert_int_equal(in_force.policy, PFL_BOOST_FIFO);
    assert_int_equal(in_force.priority, 7);
    (void)pfl_kit_consumer_enable(&second, BUFFER
                                  "priority_boost { policy: POLICY_SCHED_OTHER priority: 20 }");
    assert_int_equal(in_force.policy, PFL_BOOST_FIFO);
    free_session(&first);
    assert_int_equal(in_force.policy, PFL_BOOST_OTHER);
    assert_int_equal(in_force.priority, 20);
    free_session(&second);
    assert_int_equal(in_force.policy, PFL_BOOST_NONE);
}

static void a_boost_that_the_host_refuses_is_a_refused_session(void **state)
{
    uint64_t enable;

    (void)state;
    boost_rc = PFL_EPERM;
    enable = pfl_kit_consumer_enable(&first, BUFFER
                                     "priority_boost { policy: POLICY_SCHED_OTHER priority: 3 }");
    pfl_kit_consumer_expect_disabled(&first, enable, "priority_boost");
    assert_int_equal(kit.service.sessions_len, 0);
}

static void a_session_that_is_refused_later_lowers_its_boost_again(void **state)
{
    uint64_t enable;

    (void)state;
    enable = pfl_kit_consumer_enable(
        &first, BUFFER "write_into_file: true priority_boost { policy: POLICY_SCHED_OTHER "
                       "priority: 3 }");
    pfl_kit_consumer_expect_disabled(&first, enable, "write_into_file");
    assert_int_equal(in_force.policy, PFL_BOOST_NONE);
    assert_int_equal(in_force.priority, 0);
}

static void who_was_there_before_is_reported_by_the_time_of_its_state(void **state)
{
    struct pfl_kit_client third;

    (void)state;
    pfl_kit_consumer_open(&third, &kit);
    (void)pfl_kit_consumer_enable(&first, BUFFER "deferred_start: true");
    pfl_port_kit_pass_ms(&kit, 10);
    (void)pfl_kit_consumer_enable(&second, BUFFER);
    pfl_port_kit_pass_ms(&kit, 10);
    pfl_kit_client_expect_empty(&first, pfl_kit_client_invoke(&first, KIT_START, NO_ARGS), true,
                                false); /* later than the second */
    (void)pfl_kit_consumer_enable(&third, BUFFER TELLS);
    assert_string_equal(read_events(&third), "2:3 1:3 ");
    pfl_kit_client_close(&third);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)
    const struct CMUnitTest tests[] = {
        TEST(other_sessions_are_reported_from_their_state_at_the_beginning_to_their_end),
        TEST(nothing_is_reported_unasked_nor_to_those_that_are_over),
        TEST(the_account_has_a_limit_and_keeps_the_oldest),
        TEST(a_users_sessions_leave_those_of_others_room_and_long_names_are_cut),
        TEST(the_highest_boost_counts_until_its_session_is_freed),
        TEST(a_boost_that_the_host_refuses_is_a_refused_session),
        TEST(a_session_that_is_refused_later_lowers_its_boost_again),
        TEST(who_was_there_before_is_reported_by_the_time_of_its_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
