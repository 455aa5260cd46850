/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's settings: precedence, words for mistakes, JSON. */
#include "consumer/config/operator_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/text.h"
#include "tests/support/sweep.h"

static int check_leaks(void **state)
{
    (void)state;
    pfl_sweep_assert_no_leak();
    return 0;
}

static int take_file(struct pfl_operator_conf *c, enum pfl_settings_source source, const char *text,
                     char *ret_error)
{
    return pfl_operator_conf_take_file(
        c, source, source == PFL_SETTINGS_SYSTEM ? "/etc/p.conf" : "/home/p.conf",
        pfl_span_of(text, strlen(text)), ret_error);
}

static void what_nobody_gives_is_built_in(void **state)
{
    struct pfl_operator_conf c;
    char error[PFL_SETTINGS_ERROR_MAX];

    (void)state;
    pfl_operator_conf_init(&c);
    assert_int_equal(pfl_operator_conf_take(&c, PFL_SETTINGS_DEFAULT, "ca", "ca.pem", error), 0);
    assert_int_equal(pfl_operator_conf_build(&c, error), 0);
    assert_null(c.values->relay);
    assert_string_equal(c.values->ca, "ca.pem");
    assert_string_equal(c.values->timeout, "10s");
    assert_int_equal(c.values->color, PERFLEET__OPERATOR_CONFIG__COLOR__auto);
    assert_int_equal(pfl_operator_conf_source(&c, "ca"), PFL_SETTINGS_DEFAULT);
    pfl_operator_conf_fini(&c);
}

static void a_flag_goes_before_a_variable_before_the_users_file_before_the_systems(void **state)
{
    static const enum pfl_settings_source sources[] = {PFL_SETTINGS_SYSTEM, PFL_SETTINGS_FILE,
                                                       PFL_SETTINGS_VARIABLE, PFL_SETTINGS_FLAG};
    static const char *const values[] = {"system", "user", "variable", "flag"};

    (void)state;
    for (unsigned given = 0; given < 16; given++) {
        struct pfl_operator_conf c;
        char error[PFL_SETTINGS_ERROR_MAX];
        const char *expected = NULL;

        pfl_operator_conf_init(&c);
        for (unsigned i = 0; i < 4; i++) {
            char text[32];
            int rc;

            if ((given & 1u << i) == 0)
                continue;
            expected = values[i];
            (void)snprintf(text, sizeof(text), "relay: '%s'", values[i]);
            rc = i < 2 ? take_file(&c, sources[i], text, error)
                       : pfl_operator_conf_take(&c, sources[i], "relay", values[i], error);
            assert_int_equal(rc, 0);
        }
        assert_int_equal(pfl_operator_conf_build(&c, error), 0);
        if (expected == NULL)
            assert_null(c.values->relay);
        else
            assert_string_equal(c.values->relay, expected);
        pfl_operator_conf_fini(&c);
    }
}

static void a_mistake_is_reported_with_file_line_and_remedy(void **state)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"relay: 'a'\nrealy: 'b'",
         "/home/p.conf:2:1: no field \"realy\" in OperatorConfig; did you "
         "mean \"relay\"?"},
        {"\nca: 'ca.pem'", "/home/p.conf:2: ca: wants a path that begins with /, not \"ca.pem\""},
        {"key: '~/key.pem'",
         "/home/p.conf:1: key: wants a path that begins with /, not \"~/key.pem\""},
        {"timeout: '0'", "/home/p.conf:1: timeout: wants a time such as 10s, 500ms or 5m, at most "
                         "a week, not \"0\""},
        {"preset: 'defualt'",
         "/home/p.conf:1: preset: wants a name that perfleet presets lists, not \"defualt\""},
        {"color: sometimes", "/home/p.conf:1:8: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pfl_operator_conf c;
        char error[PFL_SETTINGS_ERROR_MAX];
        int rc;

        pfl_operator_conf_init(&c);
        rc = take_file(&c, PFL_SETTINGS_FILE, rows[i].text, error);
        if (rc == 0)
            rc = pfl_operator_conf_build(&c, error);
        assert_int_equal(rc, PFL_EPARSE);
        error[strlen(rows[i].words)] = '\0';
        assert_string_equal(error, rows[i].words);
        pfl_operator_conf_fini(&c);
    }
}

static void a_path_of_a_flag_or_a_variable_may_be_relative(void **state)
{
    struct pfl_operator_conf c;
    char error[PFL_SETTINGS_ERROR_MAX];

    (void)state;
    pfl_operator_conf_init(&c);
    assert_int_equal(take_file(&c, PFL_SETTINGS_FILE, "ca: 'x' key: 'y'", error), 0);
    assert_int_equal(pfl_operator_conf_take(&c, PFL_SETTINGS_FLAG, "ca", "ca.pem", error), 0);
    assert_int_equal(pfl_operator_conf_take(&c, PFL_SETTINGS_VARIABLE, "key", "k.pem", error), 0);
    assert_int_equal(pfl_operator_conf_build(&c, error), 0);
    assert_string_equal(c.values->ca, "ca.pem");
    assert_string_equal(c.values->key, "k.pem");
    pfl_operator_conf_fini(&c);
}

static void json_has_each_value_and_its_source(void **state)
{
    struct pfl_operator_conf c;
    struct pfl_buf out;
    char error[PFL_SETTINGS_ERROR_MAX];
    const json_t *all;
    json_t *root;

    (void)state;
    pfl_text_init_json();
    pfl_operator_conf_init(&c);
    pfl_buf_init(&out, 1u << 16);
    assert_int_equal(take_file(&c, PFL_SETTINGS_SYSTEM, "\ncolor: never", error), 0);
    assert_int_equal(pfl_operator_conf_build(&c, error), 0);
    assert_int_equal(pfl_operator_conf_json(&c, json_array(), &out), 0);
    root = json_loadb((const char *)out.data + out.start, out.len, 0, NULL);
    all = json_object_get(root, "settings");
    assert_int_equal(json_object_size(all), perfleet__operator_config__descriptor.n_fields);
    assert_true(json_is_null(json_object_get(json_object_get(all, "relay"), "value")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(all, "color"), "value")),
                        "never");
    assert_string_equal(json_string_value(json_object_get(json_object_get(all, "color"), "source")),
                        "/etc/p.conf:2");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(all, "timeout"), "value")), "10s");
    json_decref(root);
    pfl_buf_fini(&out);
    pfl_operator_conf_fini(&c);
}

static int sweep_body(void *arg)
{
    struct pfl_operator_conf c;
    struct pfl_buf out;
    char error[PFL_SETTINGS_ERROR_MAX];
    int rc;

    (void)arg;
    pfl_text_init_json();
    pfl_operator_conf_init(&c);
    pfl_buf_init(&out, 1u << 16);
    rc = take_file(&c, PFL_SETTINGS_SYSTEM, "relay: 'a'", error);
    if (rc == 0)
        rc = take_file(&c, PFL_SETTINGS_FILE, "ca: '/a'", error);
    if (rc == 0)
        rc = pfl_operator_conf_take(&c, PFL_SETTINGS_FLAG, "key", "k", error);
    if (rc == 0)
        rc = pfl_operator_conf_build(&c, error);
    if (rc == 0)
        rc = pfl_operator_conf_json(&c, json_array(), &out);
    pfl_buf_fini(&out);
    pfl_operator_conf_fini(&c);
    return rc;
}

static void every_failed_allocation_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    /* A text for JSON has a second way. */
    pfl_sweep(sweep_body, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_nobody_gives_is_built_in, check_leaks),
        cmocka_unit_test_teardown(
            a_flag_goes_before_a_variable_before_the_users_file_before_the_systems, check_leaks),
        cmocka_unit_test_teardown(a_mistake_is_reported_with_file_line_and_remedy, check_leaks),
        cmocka_unit_test_teardown(a_path_of_a_flag_or_a_variable_may_be_relative, check_leaks),
        cmocka_unit_test_teardown(json_has_each_value_and_its_source, check_leaks),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported_and_leaves_nothing,
                                  check_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
