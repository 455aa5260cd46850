/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: form, levels, and peers' strings that cannot break a line. */
#include "base/log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char captured[16384];

/* Runs `body` with stderr in a pipe; what it wrote is in `captured`. */
static void capture(void (*body)(void))
{
    int fds[2];
    int old = dup(STDERR_FILENO);
    ssize_t n;

    assert_int_equal(pipe(fds), 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    close(fds[1]);
    body();
    assert_true(dup2(old, STDERR_FILENO) >= 0);
    close(old);
    n = read(fds[0], captured, sizeof(captured) - 1);
    assert_true(n >= 0);
    captured[n] = '\0';
    close(fds[0]);
}

static void write_levels(void)
{
    pfl_log_set_level(PFL_LOG_WARN);
    pfl_log_error("one", "a=%d", 1);
    pfl_log_warn("two", "b=%s", pfl_log_quote_str("x y"));
    pfl_log_info("three", "c=3");
    pfl_log_debug("four", "d=4");
}

static void line_has_level_event_and_text_and_lower_levels_are_left_out(void **state)
{
    (void)state;
    unsetenv("JOURNAL_STREAM");
    capture(write_levels);
    assert_string_equal(captured, "error one: a=1\nwarn two: b=\"x y\"\n");
}

static void journal_gets_priorities(void **state)
{
    (void)state;
    setenv("JOURNAL_STREAM", "1:2", 1);
    capture(write_levels);
    unsetenv("JOURNAL_STREAM");
    assert_string_equal(captured, "<3>error one: a=1\n<4>warn two: b=\"x y\"\n");
}

static void write_long(void)
{
    static char text[5000];

    memset(text, 'x', sizeof(text) - 1);
    pfl_log_error("long", "%s", text);
    pfl_log_error(text, "%s", "y");
}

static void line_that_is_too_long_is_cut_and_still_one_line(void **state)
{
    char *end;

    (void)state;
    capture(write_long);
    end = strchr(captured, '\n');
    assert_non_null(end);
    assert_in_range(end - captured, 2000, 2047);
    assert_in_range(strlen(end + 1), 2000, 2048);
    assert_int_equal(captured[strlen(captured) - 1], '\n');
    assert_ptr_equal(strchr(end + 1, '\n'), captured + strlen(captured) - 1);
}

static void write_flood(void)
{
    struct pfl_log_limit limit = {0};

    for (unsigned i = 0; i < 100000; i++) {
        if (pfl_log_limit_take(&limit, "flood", 20000 + i / 100000))
            pfl_log_error("flood", "x");
    }
    if (pfl_log_limit_take(&limit, "flood", 20000 + PFL_LOG_LIMIT_WINDOW_MS))
        pfl_log_error("flood", "y");
    pfl_log_limit_flush(&limit, "flood");
}

static void write_many_events(void)
{
    pfl_log_limit_every_event();
    for (unsigned i = 0; i < 200; i++) {
        pfl_log_warn("one", "x");
        pfl_log_warn("other", "x");
        pfl_log_error("failure", "x");
        pfl_log_unlimited(PFL_LOG_WARN, "audit", "x");
        pfl_log_unlimited(PFL_LOG_INFO, "audit", "x");
    }
    pfl_log_limit_flush_every_event();
}

static unsigned count_lines(const char *line)
{
    unsigned lines = 0;

    for (const char *p = captured; (p = strstr(p, line)) != NULL; p++)
        lines++;
    return lines;
}

static void every_event_has_its_own_limit_errors_too(void **state)
{
    (void)state;
    pfl_log_set_level(PFL_LOG_WARN);
    capture(write_many_events);
    assert_int_equal(count_lines("warn one: x\n"), PFL_LOG_LIMIT_LINES);
    assert_int_equal(count_lines("warn other: x\n"), PFL_LOG_LIMIT_LINES);
    assert_int_equal(count_lines("error failure: x\n"), PFL_LOG_LIMIT_LINES);
    assert_int_equal(count_lines("warn audit: x\n"), 200);
    assert_int_equal(count_lines("info audit: x\n"), 0); /* above the level */
    assert_int_equal(count_lines("warn failure: left_out=150 lines like the ones before\n"), 1);
}

static void a_flood_is_cut_to_a_few_lines_and_counted(void **state)
{
    unsigned lines = 0;

    (void)state;
    pfl_log_set_level(PFL_LOG_WARN);
    capture(write_flood);
    for (const char *p = captured; (p = strstr(p, "flood: x\n")) != NULL; p++)
        lines++;
    assert_int_equal(lines, PFL_LOG_LIMIT_LINES);
    assert_non_null(strstr(captured, "warn flood: left_out=99950 lines like the ones before\n"
                                     "error flood: y\n"));
    assert_string_equal(strstr(captured, "error flood: y\n"), "error flood: y\n");
}

static void quotes_escape_everything_that_is_not_plain(void **state)
{
    char all[256];
    const char *quoted;

    (void)state;
    assert_string_equal(pfl_log_quote("a\nb\"c\\d\x1b\xff\0e", 11),
                        "\"a\\x0ab\\\"c\\\\d\\x1b\\xff\\x00e\"");
    assert_string_equal(pfl_log_quote_str(NULL), "\"\"");
    assert_string_equal(pfl_log_quote("", 0), "\"\"");
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    for (size_t at = 0; at < 256; at += 100) {
        quoted = pfl_log_quote(all + at, 256 - at < 100 ? 256 - at : 100);
        for (const char *p = quoted; *p != '\0'; p++)
            assert_true(*p >= 0x20 && *p < 0x7f);
    }
}

static void long_strings_are_cut_with_dots(void **state)
{
    char text[200];
    const char *quoted;

    (void)state;
    memset(text, '\xff', sizeof(text));
    quoted = pfl_log_quote(text, 200);
    assert_int_equal(strlen(quoted), 1 + 120 * 4 + 4);
    assert_string_equal(quoted + strlen(quoted) - 4, "...\"");
    quoted = pfl_log_quote(text, 120);
    assert_int_equal(strlen(quoted), 1 + 120 * 4 + 1);
}

static void a_reason_keeps_its_remedy(void **state)
{
    char text[400];
    const char *quoted;

    (void)state;
    memset(text, '\xff', sizeof(text));
    text[320] = '\0';
    quoted = pfl_log_quote_reason(text);
    assert_int_equal(strlen(quoted), 1 + 320 * 4 + 1);
    text[320] = 'a';
    text[321] = '\0';
    quoted = pfl_log_quote_reason(text);
    assert_int_equal(strlen(quoted), 1 + 320 * 4 + 4);
    assert_string_equal(pfl_log_quote_reason("no \"x\"\n"), "\"no \\\"x\\\"\\x0a\"");
}

static void four_quotes_live_at_the_same_time(void **state)
{
    const char *a = pfl_log_quote_str("a");
    const char *b = pfl_log_quote_str("b");
    const char *c = pfl_log_quote_str("c");
    const char *d = pfl_log_quote_str("d");

    (void)state;
    assert_string_equal(a, "\"a\"");
    assert_string_equal(b, "\"b\"");
    assert_string_equal(c, "\"c\"");
    assert_string_equal(d, "\"d\"");
}

static void level_names_are_parsed(void **state)
{
    enum pfl_log_level level = PFL_LOG_INFO;

    (void)state;
    assert_true(pfl_log_level_parse("debug", &level));
    assert_int_equal(level, PFL_LOG_DEBUG);
    assert_true(pfl_log_level_parse("error", &level));
    assert_int_equal(level, PFL_LOG_ERROR);
    assert_false(pfl_log_level_parse("DEBUG", &level));
    assert_false(pfl_log_level_parse("", &level));
    assert_int_equal(level, PFL_LOG_ERROR);
}

/* ---- the journal ---- */

static char folder[64];
static char path[80];

/* A socket where the journal would listen; what comes is read by take_event. */
static int listen_as_journal(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    (void)snprintf(folder, sizeof(folder), "/tmp/pfl-log-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/socket", folder);
    memcpy(addr.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static void end_journal(int fd)
{
    (void)close(fd);
    (void)unlink(path);
    (void)rmdir(folder);
}

static const char *take_event(int fd)
{
    static char event[9000];
    ssize_t n = recv(fd, event, sizeof(event) - 1, 0);

    event[n > 0 ? n : 0] = '\0';
    return event;
}

/* What systemd sets: device and inode of stderr. */
static void name_stderr_the_journal(void)
{
    struct stat st;
    char name[64];

    assert_int_equal(fstat(STDERR_FILENO, &st), 0);
    (void)snprintf(name, sizeof(name), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", name, 1), 0);
}

static void write_to_journal(void)
{
    name_stderr_the_journal();
    pfl_log_open("perfleet-test", path);
    write_levels();
    pfl_log_close();
    unsetenv("JOURNAL_STREAM");
}

static void the_journal_gets_fields_and_stderr_nothing(void **state)
{
    int journal = listen_as_journal();

    (void)state;
    capture(write_to_journal);
    assert_string_equal(captured, "");
    assert_string_equal(take_event(journal),
                        "PRIORITY=3\nSYSLOG_IDENTIFIER=perfleet-test\nPERFLEET_EVENT=one\n"
                        "MESSAGE=error one: a=1\nPERFLEET_A=1\n");
    assert_string_equal(take_event(journal),
                        "PRIORITY=4\nSYSLOG_IDENTIFIER=perfleet-test\nPERFLEET_EVENT=two\n"
                        "MESSAGE=warn two: b=\"x y\"\nPERFLEET_B=x y\n");
    assert_string_equal(take_event(journal), "");
    end_journal(journal);
}

static void write_past_a_journal_that_went(void)
{
    int journal = listen_as_journal();

    name_stderr_the_journal();
    pfl_log_open("perfleet-test", path);
    end_journal(journal);
    pfl_log_error("one", "a=%d", 1);
    pfl_log_close();
    unsetenv("JOURNAL_STREAM");
}

static void what_the_journal_does_not_take_is_a_line(void **state)
{
    (void)state;
    capture(write_past_a_journal_that_went);
    assert_string_equal(captured, "<3>error one: a=1\n");
}

static void write_with_stderr_elsewhere(void)
{
    int journal = listen_as_journal();

    setenv("JOURNAL_STREAM", "1:2", 1);
    pfl_log_open("perfleet-test", path);
    pfl_log_error("one", "a=%d", 1);
    pfl_log_close();
    unsetenv("JOURNAL_STREAM");
    assert_string_equal(take_event(journal), "");
    end_journal(journal);
}

static void a_stderr_that_is_not_the_journal_gets_lines(void **state)
{
    (void)state;
    capture(write_with_stderr_elsewhere);
    assert_string_equal(captured, "<3>error one: a=1\n");
}

/* ---- levels at run time ---- */

static void turn_levels(void)
{
    pfl_log_set_level(PFL_LOG_WARN);
    pfl_log_info("before", "a=1");
    assert_true(pfl_log_on_signal(SIGUSR1));
    pfl_log_info("info", "a=1");
    assert_true(pfl_log_on_signal(SIGUSR1));
    assert_true(pfl_log_on_signal(SIGUSR1)); /* there is no more */
    pfl_log_debug("debug", "a=1");
    assert_true(pfl_log_on_signal(SIGUSR2));
    pfl_log_info("after", "a=1");
    assert_false(pfl_log_on_signal(SIGHUP));
    assert_int_equal(pfl_log_get_level(), PFL_LOG_WARN);
}

static void signals_turn_the_level_up_and_back(void **state)
{
    (void)state;
    capture(turn_levels);
    assert_string_equal(captured, "info log-level: level=info configured=warn\n"
                                  "info info: a=1\n"
                                  "info log-level: level=debug configured=warn\n"
                                  "info log-level: level=debug configured=warn\n"
                                  "debug debug: a=1\n"
                                  "info log-level: level=warn configured=warn\n");
}

static int signal_fd;

static void take_signals(void)
{
    assert_true(pfl_log_take_signal(signal_fd));
    assert_false(pfl_log_take_signal(signal_fd)); /* SIGTERM is not its signal */
    assert_false(pfl_log_take_signal(signal_fd)); /* nothing is there */
}

static void a_signalfd_tells_levels_and_leaves_other_signals(void **state)
{
    sigset_t set;
    sigset_t old;

    (void)state;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, &old), 0);
    signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    assert_true(signal_fd >= 0);
    pfl_log_set_level(PFL_LOG_ERROR);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(raise(SIGTERM), 0);
    capture(take_signals);
    assert_string_equal(captured, "info log-level: level=warn configured=error\n");
    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    (void)close(signal_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_has_level_event_and_text_and_lower_levels_are_left_out),
        cmocka_unit_test(journal_gets_priorities),
        cmocka_unit_test(the_journal_gets_fields_and_stderr_nothing),
        cmocka_unit_test(what_the_journal_does_not_take_is_a_line),
        cmocka_unit_test(a_stderr_that_is_not_the_journal_gets_lines),
        cmocka_unit_test(signals_turn_the_level_up_and_back),
        cmocka_unit_test(a_signalfd_tells_levels_and_leaves_other_signals),
        cmocka_unit_test(line_that_is_too_long_is_cut_and_still_one_line),
        cmocka_unit_test(a_flood_is_cut_to_a_few_lines_and_counted),
        cmocka_unit_test(every_event_has_its_own_limit_errors_too),
        cmocka_unit_test(quotes_escape_everything_that_is_not_plain),
        cmocka_unit_test(long_strings_are_cut_with_dots),
        cmocka_unit_test(a_reason_keeps_its_remedy),
        cmocka_unit_test(four_quotes_live_at_the_same_time),
        cmocka_unit_test(level_names_are_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
