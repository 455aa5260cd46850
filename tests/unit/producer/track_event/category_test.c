/* SPDX-License-Identifier: Apache-2.0 */
/* Categories by name, which live as long as the process, up to the most there may be. */
#include "producer/track_event/category.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/data_source_config.fields.h"
#include "producer/platform/heap.h"

static struct perfleet_category first = PERFLEET_CATEGORY_INIT("list.first", NULL, NULL);
static struct perfleet_category second = PERFLEET_CATEGORY_INIT("list.second", NULL, NULL);
static struct perfleet_category third = PERFLEET_CATEGORY_INIT("list.third", NULL, NULL);

/* A session that wants these categories and no other. */
static void start_session(uint32_t instance, const char *enabled)
{
    uint8_t config[128];
    struct pfl_writer w = pfl_writer_of(config, sizeof(config));

    pfl_writer_field_bytes(&w, TRACK_EVENT_CONFIG__ENABLED_CATEGORIES, enabled, strlen(enabled));
    pfl_writer_field_bytes(&w, TRACK_EVENT_CONFIG__DISABLED_CATEGORIES, "*", 1);
    pfl_category_add_session(instance, pfl_span_of(config, sizeof(config) - w.left));
    pfl_category_start_session(instance);
}

static void categories_leave_from_any_place_of_the_list(void **state)
{
    struct perfleet_category *const all[] = {&first, &second, &third};

    (void)state;
    for (size_t gone = 0; gone < 3; gone++) {
        for (size_t i = 0; i < 3; i++)
            perfleet_category_register(all[i]);
        perfleet_category_unregister(all[gone]);
        perfleet_category_unregister(all[gone]); /* it is gone already */
        start_session(1, "list.*");
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(all[i]->active, i != gone ? 2 : 0);
        pfl_category_disable_all();
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(all[i]->active, 0);
        pfl_category_end_session(1);
        for (size_t i = 0; i < 3; i++)
            perfleet_category_unregister(all[i]);
    }
}

static void a_config_of_the_most_bytes_counts_and_a_longer_one_wants_nothing(void **state)
{
    static uint8_t config[PFL_CATEGORY_CONFIG_MAX + 1];

    (void)state;
    perfleet_category_register(&first);
    for (size_t more = 0; more < 2; more++) {
        struct pfl_writer w = pfl_writer_of(config, sizeof(config));

        pfl_writer_field_bytes(&w, TRACK_EVENT_CONFIG__ENABLED_CATEGORIES, "list.*", 6);
        pfl_writer_field_header(&w, 1000, PFL_CATEGORY_CONFIG_MAX + more - 8 - 5);
        pfl_category_add_session(3, pfl_span_of(config, PFL_CATEGORY_CONFIG_MAX + more));
        assert_int_equal(first.active, 0);
        pfl_category_start_session(3);
        assert_int_equal(first.active, more == 0 ? 8 : 0);
        pfl_category_end_session(3);
        assert_int_equal(first.active, 0);
    }
    perfleet_category_unregister(&first);
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

static void names_with_a_comma_or_too_long_have_no_number(void **state)
{
    static char longest[PFL_CATEGORY_NAME_MAX + 2];
    struct perfleet_category comma = PERFLEET_CATEGORY_INIT("a,b", NULL, NULL);
    struct perfleet_category longer = PERFLEET_CATEGORY_INIT(longest, NULL, NULL);

    (void)state;
    memset(longest, 'l', PFL_CATEGORY_NAME_MAX + 1);
    perfleet_category_register(&comma);
    perfleet_category_register(&longer);
    assert_int_equal(comma.number_, 0);
    assert_int_equal(longer.number_, 0);
    perfleet_category_unregister(&longer);
    longest[PFL_CATEGORY_NAME_MAX] = '\0';
    perfleet_category_register(&longer);
    assert_int_not_equal(longer.number_, 0);
    perfleet_category_unregister(&longer);
    perfleet_category_unregister(&comma);
}

/* The last one, as the categories stay. */
static void a_name_has_one_category_and_there_are_only_so_many(void **state)
{
    static char longest[PFL_CATEGORY_NAME_MAX + 2];
    struct perfleet_category *a = perfleet_category_get("run.a");
    struct perfleet_category *b = perfleet_category_get("run.b");
    struct perfleet_category *off = perfleet_category_get("");
    uint32_t last_number = b->number_;
    unsigned numbered = 0;
    char name[32];

    (void)state;
    assert_string_equal(a->name, "run.a");
    assert_string_equal(b->name, "run.b");
    assert_ptr_equal(perfleet_category_get("run.a"), a);
    assert_ptr_equal(perfleet_category_get("run.b"), b);
    assert_string_equal(off->name, "");
    start_session(0, "run.a");
    assert_int_equal(a->active, 1);
    assert_int_equal(b->active, 0);
    assert_int_equal(off->active, 0);
    pfl_category_end_session(0);
    memset(longest, 'l', PFL_CATEGORY_NAME_MAX + 1);
    assert_ptr_equal(perfleet_category_get(longest), off);
    longest[PFL_CATEGORY_NAME_MAX] = '\0';
    assert_ptr_not_equal(perfleet_category_get(longest), off);
    for (unsigned i = 3; i < PFL_CATEGORIES_MAX; i++) {
        struct perfleet_category *c;

        (void)snprintf(name, sizeof(name), "run.%u", i);
        c = perfleet_category_get(name);
        assert_string_equal(c->name, name);
        assert_true(c->number_ < PFL_CATEGORIES_MAX);
        numbered += c->number_ != 0;
    }
    assert_int_equal(numbered, PFL_CATEGORIES_MAX - 1 - last_number - 1);
    assert_ptr_equal(perfleet_category_get("run.one-more"), off);
    assert_ptr_equal(perfleet_category_get("run.a"), a);
    assert_string_equal(perfleet_category_get("run.1000")->name, "run.1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(categories_leave_from_any_place_of_the_list),
        cmocka_unit_test(a_config_of_the_most_bytes_counts_and_a_longer_one_wants_nothing),
        cmocka_unit_test(names_with_a_comma_or_too_long_have_no_number),
        cmocka_unit_test(a_name_has_one_category_and_there_are_only_so_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
