/* SPDX-License-Identifier: Apache-2.0 */
/* Labels as they are written on a command line, and the hello that a relay gets. */
#include "agent/daemon/hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

static struct pfl_hello_label labels[PFL_HELLO_MAX_LABELS];
static size_t count;
static const char *why;

static int parse(const char *text)
{
    count = 0;
    why = NULL;
    return pfl_hello_parse_labels(text, labels, &count, &why);
}

static void labels_are_read(void **state)
{
    (void)state;
    assert_int_equal(parse("role=web,zone=eu-west/1,v=1.2_3"), 0);
    assert_int_equal(count, 3);
    assert_string_equal(labels[0].name, "role");
    assert_string_equal(labels[1].value, "eu-west/1");
    assert_string_equal(labels[2].value, "1.2_3");
}

static void what_is_no_label_is_refused_with_words(void **state)
{
    static const char *const bad[] = {"",     "=",     "a",     "a=",      "=b",    "a=b,",
                                      ",a=b", "a=b=c", "a=b c", "a=\"b\"", "a=b\n", "\xc3\xa4=b"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (parse(bad[i]) != PFL_EINVAL || why == NULL)
            fail_msg("\"%s\" was accepted", bad[i]);
    }
}

static void labels_have_at_most_63_characters_and_there_are_at_most_32(void **state)
{
    char text[400] = "a=";

    (void)state;
    memset(text + 2, 'x', 63);
    assert_int_equal(parse(text), 0);
    text[65] = 'x';
    assert_int_equal(parse(text), PFL_EINVAL);
    text[0] = '\0';
    for (unsigned i = 0; i < 33; i++)
        strncat(text, i == 0 ? "a=b" : ",a=b", sizeof(text) - strlen(text) - 1);
    assert_int_equal(parse(text), PFL_ELIMIT);
    assert_string_equal(why, "there may be 32 labels");
    assert_int_equal(count, 32);
}

static int encode(void *arg)
{
    static const struct pfl_hello_facts facts = {.hostname = "h\"1", .kernel = "6", .cpus = 4};
    char *json = NULL;
    int rc = pfl_hello_encode(&facts, labels, count, &json);

    if (rc == 0) {
        json_t *root = json_loads(json, 0, NULL);
        json_t *cpus = json_object_get(json_object_get(root, "facts"), "cpus");

        if (root != NULL)
            *(json_int_t *)arg = json_integer_value(cpus);
        json_decref(root);
    }
    pfl_mem_free(json);
    return rc;
}

static void the_hello_is_json_and_running_out_of_memory_is_reported(void **state)
{
    json_int_t cpus = 0;

    (void)state;
    assert_int_equal(parse("role=web,zone=b"), 0);
    pfl_sweep(encode, &cpus, true);
    assert_int_equal(cpus, 4);
}

static void of_each_range_of_characters_the_first_and_the_last_are_allowed(void **state)
{
    static const char wrong[] = "`{@[:,+ ~\x7f\x80";

    (void)state;
    assert_int_equal(parse("azAZ09._-/=azAZ09._-/"), 0);
    assert_int_equal(count, 1);
    assert_string_equal(labels[0].name, "azAZ09._-/");
    assert_string_equal(labels[0].value, "azAZ09._-/");
    for (size_t i = 0; wrong[i] != '\0'; i++) {
        char text[] = "a=b?";

        text[3] = wrong[i];
        assert_int_equal(parse(text), PFL_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_read),
        cmocka_unit_test(what_is_no_label_is_refused_with_words),
        cmocka_unit_test(labels_have_at_most_63_characters_and_there_are_at_most_32),
        cmocka_unit_test(the_hello_is_json_and_running_out_of_memory_is_reported),
        cmocka_unit_test(of_each_range_of_characters_the_first_and_the_last_are_allowed),
    };

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
