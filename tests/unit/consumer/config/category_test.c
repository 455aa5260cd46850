/* SPDX-License-Identifier: Apache-2.0 */
/* Categories, events and data sources as a trace config. */
#include "consumer/config/category.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/config/config.h"
#include "tests/support/sweep.h"

struct made {
    struct pfl_buf text;
    struct pfl_buf config;
    char why[PFL_CATEGORY_WHY_MAX];
    struct pfl_config_info info;
};

static int make(struct made *m, const char *const *words, size_t len, uint32_t buffer_kb)
{
    pfl_buf_init(&m->text, PFL_CONFIG_MAX_BYTES);
    pfl_buf_init(&m->config, PFL_CONFIG_MAX_BYTES);
    return pfl_category_make_config(words, len, buffer_kb, &m->text, m->why);
}

static const char *text_of(struct made *m)
{
    assert_int_equal(pfl_buf_append(&m->text, "", 1), 0);
    m->text.len--;
    return (const char *)m->text.data + m->text.start;
}

static void end(struct made *m)
{
    pfl_buf_fini(&m->text);
    pfl_buf_fini(&m->config);
    pfl_sweep_assert_no_leak();
}

/* Read and prepared as a file of the operator's would be. */
static void assert_is_config(struct made *m, uint32_t data_sources)
{
    struct pfl_config_overrides overrides = {.duration_ms = 5000};
    struct pfl_config_why why = {""};
    struct pfl_buf ready;

    pfl_buf_init(&ready, PFL_CONFIG_MAX_BYTES);
    assert_int_equal(pfl_config_read(pfl_buf_get(&m->text), "words", &m->config, &why), 0);
    assert_int_equal(
        pfl_config_prepare(pfl_buf_get(&m->config), &overrides, &ready, &m->info, &why), 0);
    assert_int_equal(m->info.buffers, 2);
    assert_int_equal(m->info.data_sources, data_sources);
    pfl_buf_fini(&ready);
}

static void every_category_is_a_config(void **state)
{
    const char *name;

    (void)state;
    for (size_t i = 0; (name = pfl_category_get_name(i)) != NULL; i++) {
        struct made m;

        assert_int_equal(make(&m, &name, 1, 0), 0);
        assert_is_config(&m, strcmp(name, "disk") == 0 ? 4 : 3);
        end(&m);
    }
}

static void categories_events_and_sources_go_together(void **state)
{
    static const char *const words[] = {"sched", "irq/irq_handler_entry", "ext4/*", "track_event",
                                        "com.example.load"};
    struct made m;

    (void)state;
    assert_int_equal(make(&m, words, 5, 1024), 0);
    assert_is_config(&m, 5);
    assert_non_null(strstr(text_of(&m), "size_kb: 1024 "));
    assert_non_null(strstr(text_of(&m), "ftrace_events: \"sched/sched_switch\""));
    assert_non_null(strstr(text_of(&m), "ftrace_events: \"irq/irq_handler_entry\""));
    assert_non_null(strstr(text_of(&m), "ftrace_events: \"ext4/*\""));
    assert_non_null(strstr(text_of(&m), "name: \"com.example.load\""));
    end(&m);
}

static void without_kernel_events_there_is_no_ftrace(void **state)
{
    static const char *const words[] = {"track_event"};
    struct made m;

    (void)state;
    assert_int_equal(make(&m, words, 1, 0), 0);
    assert_null(strstr(text_of(&m), "linux.ftrace"));
    assert_is_config(&m, 3);
    end(&m);
}

static void what_is_none_of_these_is_refused(void **state)
{
    static const struct {
        const char *word;
        const char *why;
    } rows[] = {
        {"schd", "\"schd\": there is no such category; did you mean sched?"},
        {"track_events", "\"track_events\": there is no such category; did you mean track_event?"},
        {"", "\"\": give a category"},
        {"a/b/c", "\"a/b/c\": give a category"},
        {"/b", "\"/b\": give a category"},
        {"a/", "\"a/\": give a category"},
        {"a/*b", "\"a/*b\": give a category"},
        {"x.y\"}", "\"x.y\\\"}\": give a category"},
        {"nonsense", "\"nonsense\": give a category"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct made m;

        assert_int_equal(make(&m, &rows[i].word, 1, 0), PFL_EINVAL);
        m.why[strlen(rows[i].why)] = '\0';
        assert_string_equal(m.why, rows[i].why);
        end(&m);
    }
}

static void sizes_are_read(void **state)
{
    static const char *const bad[] = {"",    "0mb",  "64",        "64tb", "-1mb",
                                      "5gb", "1.5g", "4194305kb", "mb",   "99999999999999999999kb"};
    uint32_t kb;

    (void)state;
    assert_true(pfl_category_parse_size("512kb", &kb) && kb == 512);
    assert_true(pfl_category_parse_size("64mb", &kb) && kb == 65536);
    assert_true(pfl_category_parse_size("64m", &kb) && kb == 65536);
    assert_true(pfl_category_parse_size("4gb", &kb) && kb == 4194304);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(pfl_category_parse_size(bad[i], &kb));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_category_is_a_config),
        cmocka_unit_test(categories_events_and_sources_go_together),
        cmocka_unit_test(without_kernel_events_there_is_no_ftrace),
        cmocka_unit_test(what_is_none_of_these_is_refused),
        cmocka_unit_test(sizes_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
