/* SPDX-License-Identifier: Apache-2.0 */
/* What join adds to the settings: once, behind what is there, and nothing that ends a quotation. */
#include "agent/daemon/join/agent_conf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[32];
static char path[64];

static int begin(void **state)
{
    (void)state;
    memcpy(folder, "/tmp/perfleet-test-XXXXXX", 26);
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/agent.conf", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void put(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_file(const char *wanted)
{
    char text[4096] = "";
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, wanted);
}

static void a_key_goes_to_the_end(void **state)
{
    (void)state;
    put("# relay: \"no\"\nrelays: \"no\"\nca: \"relay: x\"");
    assert_int_equal(pfl_agent_conf_add(path, "relay", "meet:9910"), 0);
    assert_file("# relay: \"no\"\nrelays: \"no\"\nca: \"relay: x\"\nrelay: \"meet:9910\"\n");
}

static void a_key_that_is_there_stays(void **state)
{
    (void)state;
    put("  relay : \"mine\"\n");
    assert_int_equal(pfl_agent_conf_add(path, "relay", "meet:9910"), 0);
    assert_file("  relay : \"mine\"\n");
}

/* The second piece of a long line is not the beginning of one. */
static void a_key_within_a_long_line_is_none(void **state)
{
    char text[3000];
    char wanted[3100];

    (void)state;
    memset(text, '#', sizeof(text));
    memcpy(text + 1023, "relay: \"x\"\n", 12);
    put(text);
    assert_int_equal(pfl_agent_conf_add(path, "relay", "meet"), 0);
    snprintf(wanted, sizeof(wanted), "%srelay: \"meet\"\n", text);
    assert_file(wanted);
}

static void a_file_is_made_that_the_agent_can_read(void **state)
{
    mode_t mask = umask(077);
    struct stat st;

    (void)state;
    assert_int_equal(pfl_agent_conf_add(path, "label", "role=web"), 0);
    umask(mask);
    assert_file("label: \"role=web\"\n");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
}

static void what_cannot_be_written_is_reported(void **state)
{
    (void)state;
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(pfl_agent_conf_add(path, "label", "role=web"), PFL_EIO);
    assert_int_equal(errno, ELOOP);
}

static void only_plain_values_can_be_quoted(void **state)
{
    (void)state;
    assert_true(pfl_agent_conf_is_plain("role=web,zone=b"));
    assert_false(pfl_agent_conf_is_plain(""));
    assert_false(pfl_agent_conf_is_plain("a\"b"));
    assert_false(pfl_agent_conf_is_plain("a\\b"));
    assert_false(pfl_agent_conf_is_plain("a\nb"));
    assert_false(pfl_agent_conf_is_plain("a b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_goes_to_the_end, begin, end),
        cmocka_unit_test_setup_teardown(a_key_that_is_there_stays, begin, end),
        cmocka_unit_test_setup_teardown(a_key_within_a_long_line_is_none, begin, end),
        cmocka_unit_test_setup_teardown(a_file_is_made_that_the_agent_can_read, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_reported, begin, end),
        cmocka_unit_test(only_plain_values_can_be_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
