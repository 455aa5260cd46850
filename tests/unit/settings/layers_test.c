/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults, file and flags over each other; the words for what is wrong; the dump. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perfleet/config.pb-c.h"
#include "proto/unpack.h"
#include "settings/layers.h"
#include "tests/support/sweep.h"

static bool accept_all(const ProtobufCMessage *message, void *user,
                       struct pfl_settings_fault *ret_fault)
{
    (void)message;
    (void)user;
    (void)ret_fault;
    return true;
}

static const struct pfl_settings_key keys[] = {{"max_streams", .min = 1, .max = 256}};
static const struct pfl_settings_program program = {
    "x", "usage", &perfleet__agent_config__descriptor, keys, 1, accept_all};

struct fixture {
    struct pfl_settings_layers layers;
    Perfleet__AgentConfig *conf;
    char error[PFL_SETTINGS_ERROR_MAX];
};

static void begin(struct fixture *f)
{
    *f = (struct fixture){0};
    pfl_settings_layers_init(&f->layers, &program);
}

static void end(struct fixture *f)
{
    if (f->conf != NULL)
        pfl_proto_free(&f->conf->base);
    pfl_settings_layers_fini(&f->layers);
}

static int check_leaks(void **state)
{
    (void)state;
    pfl_sweep_assert_no_leak();
    return 0;
}

static int take_file(struct fixture *f, const char *text)
{
    return pfl_settings_layers_take_file(&f->layers, PFL_SETTINGS_FILE, "a.conf",
                                         pfl_span_of(text, strlen(text)), f->error);
}

static int take_value(struct fixture *f, enum pfl_settings_source source, const char *key,
                      const char *value)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(program.type, key);

    return pfl_settings_layers_take_value(
        &f->layers, source, (unsigned)(field - program.type->fields), value, f->error);
}

static int take_flag(struct fixture *f, const char *key, const char *value)
{
    return take_value(f, PFL_SETTINGS_FLAG, key, value);
}

static int build(struct fixture *f)
{
    return pfl_settings_layers_build(&f->layers, (ProtobufCMessage **)&f->conf, f->error);
}

static void what_is_not_given_has_the_default_of_the_schema(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_int_equal(build(&f), 0);
    assert_int_equal(f.conf->max_streams, 64);
    assert_int_equal(f.conf->log_level, PERFLEET__LOG_LEVEL__info);
    assert_null(f.conf->ca);
    end(&f);
}

static void a_flag_goes_before_the_file_in_whatever_order_they_come(void **state)
{
    (void)state;
    for (int file_first = 0; file_first < 2; file_first++) {
        struct fixture f;

        begin(&f);
        if (file_first != 0)
            assert_int_equal(take_file(&f, "max_streams: 3 spool_mib: 5 ca: 'f'"), 0);
        assert_int_equal(take_flag(&f, "max_streams", "9"), 0);
        assert_int_equal(take_flag(&f, "max_streams", "10"), 0);
        assert_int_equal(take_flag(&f, "log_level", "debug"), 0);
        if (file_first == 0)
            assert_int_equal(take_file(&f, "max_streams: 3 spool_mib: 5 ca: 'f'"), 0);
        assert_int_equal(build(&f), 0);
        assert_int_equal(f.conf->max_streams, 10);
        assert_int_equal(f.conf->spool_mib, 5);
        assert_string_equal(f.conf->ca, "f");
        assert_int_equal(f.conf->log_level, PERFLEET__LOG_LEVEL__debug);
        end(&f);
    }
}

static void flags_of_a_repeated_key_take_the_place_of_the_files(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_int_equal(take_file(&f, "relay: ['a:1', 'b:2'] label: 'x=y'"), 0);
    assert_int_equal(take_flag(&f, "relay", "c:3"), 0);
    assert_int_equal(take_flag(&f, "relay", "d:4"), 0);
    assert_int_equal(build(&f), 0);
    assert_int_equal(f.conf->n_relay, 2);
    assert_string_equal(f.conf->relay[0], "c:3");
    assert_string_equal(f.conf->relay[1], "d:4");
    assert_int_equal(f.conf->n_label, 1);
    end(&f);
}

/* One key for each source that may give it, in every order of asking. */
static void each_source_goes_before_those_below_it(void **state)
{
    static const char system_text[] = "ca: 'system' cert: 'system' key: 'system' crl: 'system'";
    static const char user_text[] = "\ncert: 'user' key: 'user' crl: 'user'";

    (void)state;
    for (int is_reversed = 0; is_reversed < 2; is_reversed++) {
        struct fixture f;
        struct pfl_buf text;
        const char *dump;

        begin(&f);
        pfl_buf_init(&text, 1u << 16);
        for (int step = 0; step < 5; step++) {
            int rc = 0;

            switch (is_reversed != 0 ? 4 - step : step) {
            case 0:
                rc = take_value(&f, PFL_SETTINGS_DEFAULT, "ca", "built in");
                if (rc == 0)
                    rc = take_value(&f, PFL_SETTINGS_DEFAULT, "spool_dir", "built in");
                break;
            case 1:
                rc = pfl_settings_layers_take_file(&f.layers, PFL_SETTINGS_SYSTEM, "s.conf",
                                                   pfl_span_of(system_text, strlen(system_text)),
                                                   f.error);
                break;
            case 2:
                rc = pfl_settings_layers_take_file(&f.layers, PFL_SETTINGS_FILE, "u.conf",
                                                   pfl_span_of(user_text, strlen(user_text)),
                                                   f.error);
                break;
            case 3:
                rc = take_value(&f, PFL_SETTINGS_VARIABLE, "key", "variable");
                if (rc == 0)
                    rc = take_value(&f, PFL_SETTINGS_VARIABLE, "crl", "variable");
                break;
            default:
                rc = take_flag(&f, "crl", "flag");
            }
            assert_int_equal(rc, 0);
        }
        assert_int_equal(build(&f), 0);
        assert_string_equal(f.conf->spool_dir, "built in");
        assert_string_equal(f.conf->ca, "system");
        assert_string_equal(f.conf->cert, "user");
        assert_string_equal(f.conf->key, "variable");
        assert_string_equal(f.conf->crl, "flag");
        assert_int_equal(pfl_settings_layers_dump(&f.layers, &f.conf->base, &text), 0);
        assert_int_equal(pfl_buf_append(&text, "", 1), 0);
        dump = (const char *)text.data + text.start;
        assert_non_null(strstr(dump, "spool_dir: \"built in\" # default\n"));
        assert_non_null(strstr(dump, "ca: \"system\" # s.conf:1\n"));
        assert_non_null(strstr(dump, "cert: \"user\" # u.conf:2\n"));
        assert_non_null(strstr(dump, "key: \"variable\" # PERFLEET_KEY\n"));
        assert_non_null(strstr(dump, "crl: \"flag\" # --crl\n"));
        pfl_buf_fini(&text);
        end(&f);
    }
}

static void a_mistake_in_a_variable_is_reported_with_its_name(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_int_equal(take_value(&f, PFL_SETTINGS_VARIABLE, "max_streams", "many"), PFL_EPARSE);
    assert_string_equal(f.error, "PERFLEET_MAX_STREAMS: wants a number, not \"many\"");
    end(&f);
    begin(&f);
    assert_int_equal(take_value(&f, PFL_SETTINGS_VARIABLE, "max_streams", "300"), 0);
    assert_int_equal(build(&f), PFL_EPARSE);
    assert_string_equal(f.error, "PERFLEET_MAX_STREAMS: wants a number from 1 to 256, not \"300\"");
    end(&f);
}

static void a_mistake_in_the_file_is_reported_with_place_and_remedy(void **state)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"ca: 'x'\nmax_stream: 3",
         "a.conf:2:1: no field \"max_stream\" in AgentConfig; did you mean "
         "\"max_streams\"?"},
        {"max_streams: 'x'", "a.conf:1:14: "},
        {"\n\nmax_streams: 0", "a.conf:3: max_streams: wants a number from 1 to 256, not \"0\""},
        {"# max_streams: 1\nmax_streams:\n 257",
         "a.conf:2: max_streams: wants a number from 1 to 256, not \"257\""},
        {"ca: 'a\\0b'", "a.conf: a string has \\0 in it"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        int rc;

        begin(&f);
        rc = take_file(&f, rows[i].text);
        if (rc == 0)
            rc = build(&f);
        assert_int_equal(rc, PFL_EPARSE);
        f.error[strlen(rows[i].words)] = '\0';
        assert_string_equal(f.error, rows[i].words);
        end(&f);
    }
}

static void a_mistake_in_a_flag_is_reported_with_the_flag(void **state)
{
    static const struct {
        const char *key;
        const char *value;
        const char *words;
    } rows[] = {
        {"max_streams", "x", "--max-streams: wants a number, not \"x\""},
        {"max_streams", "-1", "--max-streams: wants a number, not \"-1\""},
        {"max_streams", "", "--max-streams: wants a number, not \"\""},
        {"max_streams", "4294967297", "--max-streams: wants a number, not \"4294967297\""},
        {"max_streams", "300", "--max-streams: wants a number from 1 to 256, not \"300\""},
        {"log_level", "loud", "--log-level: wants error, warn, info or debug, not \"loud\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        int rc;

        begin(&f);
        rc = take_flag(&f, rows[i].key, rows[i].value);
        if (rc == 0)
            rc = build(&f);
        assert_int_equal(rc, PFL_EPARSE);
        assert_string_equal(f.error, rows[i].words);
        end(&f);
    }
}

static void a_name_among_values_is_not_taken_for_a_key(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_int_equal(take_file(&f, "log_level: info\nmax_streams: 5\nlabel: 'ca=cert'"), 0);
    assert_int_equal(f.layers.line[12], 1);
    assert_int_equal(f.layers.line[7], 2);
    assert_int_equal(f.layers.source[1], PFL_SETTINGS_DEFAULT);
    end(&f);
}

/* The dump of what the file says is the file again. */
static void a_dump_says_where_each_value_is_from_and_reads_as_itself(void **state)
{
    struct fixture f;
    struct fixture g;
    struct pfl_buf text;
    char *copy;

    (void)state;
    begin(&f);
    begin(&g);
    pfl_buf_init(&text, 1u << 16);
    assert_int_equal(take_file(&f, "ca: 'quo\\\"te\\n\\\\'\nrelay: 'a:1'\nmax_streams: 7"), 0);
    assert_int_equal(take_flag(&f, "spool_mib", "3"), 0);
    assert_int_equal(build(&f), 0);
    assert_int_equal(pfl_settings_layers_dump(&f.layers, &f.conf->base, &text), 0);
    assert_int_equal(pfl_buf_append(&text, "", 1), 0);
    copy = (char *)text.data + text.start;
    assert_non_null(strstr(copy, "ca: \"quo\\\"te\\012\\\\\" # a.conf:1\n"));
    assert_non_null(strstr(copy, "max_streams: 7 # a.conf:3\n"));
    assert_non_null(strstr(copy, "spool_mib: 3 # --spool-mib\n"));
    assert_non_null(strstr(copy, "log_level: info # default\n"));
    assert_non_null(strstr(copy, "# crl: not set\n"));
    assert_int_equal(take_file(&g, copy), 0);
    assert_int_equal(build(&g), 0);
    assert_string_equal(g.conf->ca, f.conf->ca);
    assert_int_equal(g.conf->spool_mib, 3);
    pfl_buf_fini(&text);
    end(&g);
    end(&f);
}

static int sweep_body(void *arg)
{
    struct fixture f;
    struct pfl_buf text;
    int rc;

    (void)arg;
    f = (struct fixture){0};
    pfl_settings_layers_init(&f.layers, &program);
    pfl_buf_init(&text, 1u << 16);
    rc = take_file(&f, "ca: 'x' relay: 'a:1'");
    if (rc == 0)
        rc = take_flag(&f, "label", "a=b");
    if (rc == 0)
        rc = build(&f);
    if (rc == 0)
        rc = pfl_settings_layers_dump(&f.layers, &f.conf->base, &text);
    pfl_buf_fini(&text);
    if (f.conf != NULL)
        pfl_proto_free(&f.conf->base);
    pfl_settings_layers_fini(&f.layers);
    return rc;
}

static void every_failed_allocation_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_not_given_has_the_default_of_the_schema, check_leaks),
        cmocka_unit_test_teardown(a_flag_goes_before_the_file_in_whatever_order_they_come,
                                  check_leaks),
        cmocka_unit_test_teardown(flags_of_a_repeated_key_take_the_place_of_the_files, check_leaks),
        cmocka_unit_test_teardown(each_source_goes_before_those_below_it, check_leaks),
        cmocka_unit_test_teardown(a_mistake_in_a_variable_is_reported_with_its_name, check_leaks),
        cmocka_unit_test_teardown(a_mistake_in_the_file_is_reported_with_place_and_remedy,
                                  check_leaks),
        cmocka_unit_test_teardown(a_mistake_in_a_flag_is_reported_with_the_flag, check_leaks),
        cmocka_unit_test_teardown(a_name_among_values_is_not_taken_for_a_key, check_leaks),
        cmocka_unit_test_teardown(a_dump_says_where_each_value_is_from_and_reads_as_itself,
                                  check_leaks),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported_and_leaves_nothing,
                                  check_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
