/* SPDX-License-Identifier: Apache-2.0 */
/* Is a browser started, and with which words. */
#include "consumer/open/browser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LINK "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/k/t"

static void browsers_are_started_where_there_is_a_display(void **state)
{
    struct pfl_browser_env env = {.display = ":0"};

    (void)state;
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_START);
    env = (struct pfl_browser_env){.wayland_display = "wayland-0"};
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_START);
    env = (struct pfl_browser_env){.display = ""};
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_NO_DISPLAY);
    env = (struct pfl_browser_env){.display = ":0", .is_refused = true, .browser = "firefox"};
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_NOT_WANTED);
}

static void none_is_started_over_ssh_or_as_root_unless_set(void **state)
{
    struct pfl_browser_env env = {.display = ":10", .ssh_connection = "1 2 3 4"};

    (void)state;
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_SSH);
    env.browser = "w3m";
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_START);
    env = (struct pfl_browser_env){.display = ":0", .is_root = true};
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_ROOT);
    env.browser = "firefox";
    assert_int_equal(pfl_browser_choose(&env), PFL_BROWSER_START_AS_ROOT);
}

static void expect_words(const char *browser, const char *const *words)
{
    struct pfl_browser_env env = {.browser = browser};
    struct pfl_browser_command command;
    size_t i = 0;

    assert_true(pfl_browser_make_command(&env, LINK, &command));
    for (; words[i] != NULL; i++) {
        assert_non_null(command.words[i]);
        assert_string_equal(command.words[i], words[i]);
    }
    assert_null(command.words[i]);
}

static void commands_get_the_link(void **state)
{
    (void)state;
    expect_words(NULL, (const char *const[]){"xdg-open", LINK, NULL});
    expect_words("", (const char *const[]){"xdg-open", LINK, NULL});
    expect_words("firefox", (const char *const[]){"firefox", LINK, NULL});
    expect_words("firefox:lynx", (const char *const[]){"firefox", LINK, NULL});
    expect_words(" chromium  --new-window ",
                 (const char *const[]){"chromium", "--new-window", LINK, NULL});
    expect_words("run --url=%s -v", (const char *const[]){"run", "--url=" LINK, "-v", NULL});
    expect_words("a; rm -rf x", (const char *const[]){"a;", "rm", "-rf", "x", LINK, NULL});
}

static void commands_that_do_not_fit_are_none(void **state)
{
    struct pfl_browser_env env = {.browser = ":firefox"};
    struct pfl_browser_command command;
    char many[2 * PFL_BROWSER_MAX_WORDS + 8];
    char longest[PFL_BROWSER_MAX_BYTES + 8];

    (void)state;
    assert_false(pfl_browser_make_command(&env, LINK, &command));
    env.browser = "   ";
    assert_false(pfl_browser_make_command(&env, LINK, &command));
    many[0] = '\0';
    for (size_t i = 0; i < PFL_BROWSER_MAX_WORDS; i++)
        memcpy(many + 2 * i, "x ", 3);
    env.browser = many; /* and no place for the link */
    assert_false(pfl_browser_make_command(&env, LINK, &command));
    many[2 * (PFL_BROWSER_MAX_WORDS - 1)] = '\0';
    assert_true(pfl_browser_make_command(&env, LINK, &command));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    env.browser = longest;
    assert_false(pfl_browser_make_command(&env, LINK, &command));
}

static void expect_hint(const char *connection, const char *user, const char *expected)
{
    struct pfl_browser_env env = {.ssh_connection = connection, .user = user};
    struct pfl_buf out;

    pfl_buf_init(&out, 512);
    assert_int_equal(pfl_browser_add_ssh_hint(&env, 9001, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data, expected);
    pfl_buf_fini(&out);
}

static void over_ssh_the_forward_is_named(void **state)
{
    (void)state;
    expect_hint("192.0.2.1 50000 192.0.2.9 22", "ann",
                "  ssh -L 9001:127.0.0.1:9001 ann@192.0.2.9\n");
    expect_hint("::1 50000 2001:db8::7 22", NULL, "  ssh -L 9001:127.0.0.1:9001 2001:db8::7\n");
    expect_hint(NULL, "ann", "  ssh -L 9001:127.0.0.1:9001 THIS-MACHINE\n");
    expect_hint("x y $(reboot) z", "ann", "  ssh -L 9001:127.0.0.1:9001 THIS-MACHINE\n");
    expect_hint("1 2 192.0.2.9 22", "-oProxyCommand=x", "  ssh -L 9001:127.0.0.1:9001 192.0.2.9\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(browsers_are_started_where_there_is_a_display),
        cmocka_unit_test(none_is_started_over_ssh_or_as_root_unless_set),
        cmocka_unit_test(commands_get_the_link),
        cmocka_unit_test(commands_that_do_not_fit_are_none),
        cmocka_unit_test(over_ssh_the_forward_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
