/* SPDX-License-Identifier: Apache-2.0 */
/* Configs that act on others, or with the service's rights: whose are taken, and what a refused one
 * leaves behind, which is nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS    ((struct pfl_span){0})
#define ONE_BUFFER "buffers { size_kb: 64 } "

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    assert_int_equal(kit.service.sessions_len, 0);
    pfl_port_kit_close(&kit);
    return 0;
}

static uint64_t call(unsigned method)
{
    return pfl_kit_client_invoke(&consumer, method, NO_ARGS);
}

static void guarded_sessions_of_one_name_keep_their_distance(void **state)
{
    static const char guarded[] = ONE_BUFFER "enable_extra_guardrails: true";
    uint64_t enable;

    (void)state;
    enable = pfl_kit_consumer_enable(&consumer, guarded);
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    enable = pfl_kit_consumer_enable(&consumer, guarded);
    pfl_kit_consumer_expect_disabled(&consumer, enable, "less than 300 s ago");
    pfl_port_kit_pass_ms(&kit, 300000);
    (void)pfl_kit_consumer_enable(&consumer, guarded);
    pfl_kit_client_expect_nothing(&consumer);
}

static void a_guarded_session_keeps_no_other_user_from_one_of_its_name(void **state)
{
    static const char guarded[] = ONE_BUFFER "enable_extra_guardrails: true";
    struct pfl_kit_client other;
    struct pfl_consumer *stranger;
    uint64_t enable = pfl_kit_consumer_enable(&consumer, guarded);

    (void)state;
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_consumer_open(&other, &kit);
    stranger = PFL_CONTAINER_OF(kit.service.consumers.prev, struct pfl_consumer, node);
    stranger->uid++;
    stranger->who++;
    (void)pfl_kit_consumer_enable(&other, guarded);
    pfl_kit_client_expect_nothing(&other);
    pfl_kit_client_close(&other);
}

static void name_of_a_guarded_config_that_is_refused_stays_free(void **state)
{
    static const char guarded[] = ONE_BUFFER "enable_extra_guardrails: true";
    uint64_t enable = pfl_kit_consumer_enable(
        &consumer, ONE_BUFFER "enable_extra_guardrails: true write_into_file: true");

    (void)state;
    pfl_kit_consumer_expect_disabled(&consumer, enable, "write_into_file");
    (void)pfl_kit_consumer_enable(&consumer, guarded);
    pfl_kit_client_expect_nothing(&consumer);
    assert_int_equal(kit.service.sessions_len, 1);
}

static void lockdown_is_not_changed_by_a_config_that_is_refused(void **state)
{
    uint64_t enable =
        pfl_kit_consumer_enable(&consumer, "lockdown_mode: LOCKDOWN_SET duration_ms: 604800001");

    (void)state;
    pfl_kit_consumer_expect_disabled(&consumer, enable, "duration_ms");
    assert_false(kit.service.is_locked_down);
    kit.service.is_locked_down = true;
    enable =
        pfl_kit_consumer_enable(&consumer, "lockdown_mode: LOCKDOWN_CLEAR write_into_file: true");
    pfl_kit_consumer_expect_disabled(&consumer, enable, "write_into_file");
    assert_true(kit.service.is_locked_down);
}

static void another_user_ends_no_sessions_and_locks_nobody_out(void **state)
{
    struct pfl_kit_client other;
    struct pfl_consumer *stranger;
    uint64_t own;
    uint64_t enable;

    (void)state;
    own = pfl_kit_consumer_enable(&consumer, ONE_BUFFER);
    pfl_kit_consumer_open(&other, &kit);
    stranger = PFL_CONTAINER_OF(kit.service.consumers.prev, struct pfl_consumer, node);
    stranger->uid = (uint32_t)geteuid() + 1;
    enable = pfl_kit_consumer_enable(&other, ONE_BUFFER "exclusive_prio: 2");
    pfl_kit_consumer_expect_disabled(&other, enable, "exclusive_prio");
    enable = pfl_kit_consumer_enable(&other, ONE_BUFFER "lockdown_mode: LOCKDOWN_SET");
    pfl_kit_consumer_expect_disabled(&other, enable, "lockdown_mode");
    assert_false(kit.service.is_locked_down);
    assert_int_equal(kit.service.sessions_len, 1);
    pfl_kit_client_expect_nothing(&consumer);
    stranger->is_privileged = true;
    (void)pfl_kit_consumer_enable(&other, ONE_BUFFER "exclusive_prio: 2");
    pfl_kit_client_expect_nothing(&other);
    pfl_kit_consumer_expect_disabled(&consumer, own, "exclusive_prio 2");
    pfl_kit_client_close(&other);
}

static void another_user_names_no_file_without_an_output_dir(void **state)
{
    static const char named[] = ONE_BUFFER "write_into_file: true output_path: \"/nowhere/file\"";
    struct pfl_kit_client other;
    struct pfl_consumer *stranger;
    uint64_t enable;

    (void)state;
    pfl_kit_consumer_open(&other, &kit);
    stranger = PFL_CONTAINER_OF(kit.service.consumers.prev, struct pfl_consumer, node);
    stranger->uid = (uint32_t)geteuid() + 1;
    stranger->is_privileged = true; /* that is another right */
    enable = pfl_kit_consumer_enable(&other, named);
    pfl_kit_consumer_expect_disabled(&other, enable, "--output-dir");
    enable = pfl_kit_consumer_enable(&other, ONE_BUFFER "write_into_file: true");
    pfl_kit_consumer_expect_disabled(&other, enable,
                                     "with EnableTracing"); /* the file has no name */
    kit.service.conf.has_output_dirs = true;
    enable = pfl_kit_consumer_enable(&other, named);
    pfl_kit_consumer_expect_disabled(&other, enable, "cannot be created");
    kit.service.conf.has_output_dirs = false;
    pfl_kit_client_close(&other);
}

static void another_user_names_no_file_as_segments_are_named(void **state)
{
    static const char *const names[] = {"trace.000002", "a/trace.1000000", "trace.index"};
    static const char rotated[] =
        ONE_BUFFER "write_into_file: true output_path: \"/nowhere/file.000002\" "
                   "perfleet_rotation { segment_period_ms: 60000 }";
    char config[256];
    struct pfl_kit_client other;
    struct pfl_consumer *stranger;
    uint64_t enable;

    (void)state;
    pfl_kit_consumer_open(&other, &kit);
    stranger = PFL_CONTAINER_OF(kit.service.consumers.prev, struct pfl_consumer, node);
    stranger->uid = (uint32_t)geteuid() + 1;
    kit.service.conf.has_output_dirs = true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(config, sizeof(config),
                       ONE_BUFFER "write_into_file: true output_path: \"/nowhere/%s\"", names[i]);
        enable = pfl_kit_consumer_enable(&other, config);
        pfl_kit_consumer_expect_disabled(&other, enable, "as those of segments");
        enable = pfl_kit_consumer_enable(&consumer, config);
        pfl_kit_consumer_expect_disabled(&consumer, enable, "cannot be created");
    }
    /* Its own segments have another ending. */
    enable = pfl_kit_consumer_enable(&other, rotated);
    pfl_kit_consumer_expect_disabled(&other, enable, "cannot be created");
    kit.service.conf.has_output_dirs = false;
    pfl_kit_client_close(&other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(guarded_sessions_of_one_name_keep_their_distance),
        TEST(a_guarded_session_keeps_no_other_user_from_one_of_its_name),
        TEST(name_of_a_guarded_config_that_is_refused_stays_free),
        TEST(lockdown_is_not_changed_by_a_config_that_is_refused),
        TEST(another_user_ends_no_sessions_and_locks_nobody_out),
        TEST(another_user_names_no_file_without_an_output_dir),
        TEST(another_user_names_no_file_as_segments_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
