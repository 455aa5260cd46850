/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the audit log: JSON whatever is in them, whole again after one that the disk cut. */
#include "relay/policy/audit_log_port.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/log.h"
#include "tests/support/sweep.h"

static char path[32];
static struct pfl_audit_log *audit;

static int open_log(void **state)
{
    (void)state;
    pfl_log_set_level(PFL_LOG_ERROR);
    (void)snprintf(path, sizeof(path), "/tmp/perfleet-test-XXXXXX");
    assert_int_equal(close(mkstemp(path)), 0);
    return pfl_audit_log_open(path, false, &audit);
}

static int close_log(void **state)
{
    (void)state;
    pfl_audit_log_close(audit);
    assert_int_equal(unlink(path), 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_audit_log_entry entry_of(const char *action, const char *detail)
{
    return (struct pfl_audit_log_entry){.who = "me",
                                        .address = "192.0.2.1:4711",
                                        .action = action,
                                        .host = "one",
                                        .stream = "",
                                        .status = 200,
                                        .detail = detail};
}

static void write_entry(const char *action, const char *detail)
{
    const struct pfl_audit_log_entry entry = entry_of(action, detail);

    pfl_audit_log_write(audit, &entry);
}

/* NULL: it is no JSON, or there is none. */
static json_t *read_line(FILE *file)
{
    char line[4096];

    return fgets(line, sizeof(line), file) != NULL ? json_loads(line, 0, NULL) : NULL;
}

static void assert_member(const json_t *line, const char *key, const char *text)
{
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, key)), text);
}

static FILE *open_file(void)
{
    FILE *file = fopen(path, "re");

    assert_non_null(file);
    return file;
}

static void what_others_say_keeps_its_plain_characters(void **state)
{
    FILE *file;
    json_t *line;

    (void)state;
    write_entry("refuse", "a \"b\" \\ \x1b[2J \n\xc3\xa4 c");
    write_entry("end", "");
    file = open_file();
    line = read_line(file);
    assert_member(line, "detail", "a 'b' ? ?[2J ??? c");
    assert_member(line, "action", "refuse");
    json_decref(line);
    line = read_line(file);
    assert_member(line, "action", "end");
    assert_null(json_object_get(line, "detail"));
    json_decref(line);
    assert_null(read_line(file));
    assert_int_equal(fclose(file), 0);
}

static void the_longest_of_all_parts_is_one_line(void **state)
{
    char name[64];
    char address[80];
    char detail[1000];
    struct pfl_audit_log_entry entry = entry_of("disconnected", detail);
    FILE *file;
    json_t *line;

    (void)state;
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    memset(address, 'f', sizeof(address));
    address[sizeof(address) - 1] = '\0';
    memset(detail, '"', sizeof(detail));
    detail[sizeof(detail) - 1] = '\0';
    entry.who = entry.host = name;
    entry.address = address;
    entry.stream = "0123456789abcdef0123456789abcdef";
    entry.method = "SaveTraceForBugreport";
    entry.status = 4294967295;
    entry.bytes_to_host = entry.bytes_to_operator = INT64_MAX;
    pfl_audit_log_write(audit, &entry);
    file = open_file();
    line = read_line(file);
    assert_member(line, "who", name);
    assert_int_equal(strlen(json_string_value(json_object_get(line, "detail"))),
                     PFL_AUDIT_LOG_DETAIL_BYTES - 1);
    json_decref(line);
    assert_int_equal(fclose(file), 0);
}

static void what_is_refused_elsewhere_has_the_rate_of_refusals(void **state)
{
    struct pfl_audit_log_entry entry = entry_of("kill", NULL);
    unsigned refused = 0;
    unsigned done = 0;
    FILE *file;
    json_t *line;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        entry.is_refused = true;
        entry.status = 410;
        pfl_audit_log_write(audit, &entry);
    }
    entry.is_refused = false;
    entry.status = 204;
    pfl_audit_log_write(audit, &entry);
    file = open_file();
    while ((line = read_line(file)) != NULL) {
        refused += json_integer_value(json_object_get(line, "status")) == 410;
        done += json_integer_value(json_object_get(line, "status")) == 204;
        json_decref(line);
    }
    assert_in_range(refused, 1000, 2500); /* ten a second, on a slow machine */
    assert_int_equal(done, 1);
    assert_int_equal(fclose(file), 0);
}

static void assert_lost(json_t *line, const char *words)
{
    assert_member(line, "action", "lost");
    assert_memory_equal(json_string_value(json_object_get(line, "detail")), words, strlen(words));
    json_decref(line);
}

static struct rlimit unlimited;

/* As if the disk were full. */
static void fill_disk(void)
{
    struct rlimit small;

    assert_ptr_not_equal(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    small = (struct rlimit){.rlim_cur = 1, .rlim_max = unlimited.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
}

static void free_disk(void)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
}

static void lines_that_were_lost_are_counted_in_a_line(void **state)
{
    struct pfl_audit_log_entry entry = entry_of("connect", NULL);
    FILE *file;

    (void)state;
    assert_true(pfl_audit_log_write(audit, &entry));
    fill_disk();
    assert_true(pfl_audit_log_may_begin(audit)); /* it does not know yet */
    for (unsigned i = 0; i < 3; i++) {
        assert_false(pfl_audit_log_write(audit, &entry));
        assert_false(pfl_audit_log_may_begin(audit));
    }
    free_disk();
    assert_int_equal(pfl_audit_log_get_lost(audit), 3);
    assert_true(pfl_audit_log_may_begin(audit));
    assert_true(pfl_audit_log_may_begin(audit)); /* once */
    file = open_file();
    json_decref(read_line(file));
    assert_lost(read_line(file), "3 lines since 20");
    assert_null(read_line(file));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(pfl_audit_log_get_lost(audit), 3);
}

static void refusals_without_a_line_of_their_own_are_lost_with_their_number(void **state)
{
    struct pfl_audit_log_entry entry = entry_of("refuse", NULL);

    (void)state;
    for (unsigned i = 0; i < 3000; i++)
        (void)pfl_audit_log_write(audit, &entry);
    fill_disk();
    pfl_audit_log_reopen(audit);
    free_disk();
    assert_in_range(pfl_audit_log_get_lost(audit), 500, 2000);
}

static void where_the_log_is_optional_all_may_begin(void **state)
{
    struct pfl_audit_log_entry entry = entry_of("connect", NULL);

    (void)state;
    pfl_audit_log_close(audit);
    assert_int_equal(pfl_audit_log_open(path, true, &audit), 0);
    fill_disk();
    assert_true(pfl_audit_log_write(audit, &entry));
    assert_true(pfl_audit_log_may_begin(audit));
    free_disk();
    assert_int_equal(pfl_audit_log_get_lost(audit), 1);
}

static void without_a_log_all_may_begin(void **state)
{
    struct pfl_audit_log_entry entry = entry_of("connect", NULL);

    (void)state;
    assert_true(pfl_audit_log_write(NULL, &entry));
    assert_true(pfl_audit_log_may_begin(NULL));
    assert_int_equal(pfl_audit_log_get_lost(NULL), 0);
}

/* What becomes of the log between the line that is cut and the next. */
enum meanwhile { NOTHING, REOPENED, RESTARTED };

static void check_cut(enum meanwhile meanwhile)
{
    struct rlimit before;
    struct rlimit small;
    FILE *file;
    json_t *line;

    assert_int_equal(truncate(path, 0), 0);
    write_entry("first", NULL);
    assert_ptr_not_equal(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 200, .rlim_max = before.rlim_max}; /* in the second line */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    write_entry("cut",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    write_entry("lost", NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    if (meanwhile == REOPENED)
        pfl_audit_log_reopen(audit);
    if (meanwhile == RESTARTED) {
        pfl_audit_log_close(audit);
        assert_int_equal(pfl_audit_log_open(path, false, &audit), 0);
    }
    write_entry("third", NULL);
    file = open_file();
    line = read_line(file);
    assert_member(line, "action", "first");
    json_decref(line);
    assert_null(read_line(file)); /* what there is of the second */
    assert_lost(read_line(file), "2 lines since ");
    line = read_line(file);
    assert_member(line, "action", "third");
    json_decref(line);
    assert_null(read_line(file));
    assert_int_equal(fclose(file), 0);
}

static void a_line_that_was_cut_spoils_no_other(void **state)
{
    (void)state;
    check_cut(NOTHING);
    check_cut(REOPENED);
    check_cut(RESTARTED);
}

static void a_file_that_was_moved_away_is_made_again(void **state)
{
    char moved[40];
    FILE *file;
    json_t *line;

    (void)state;
    write_entry("before", NULL);
    (void)snprintf(moved, sizeof(moved), "%s.1", path);
    assert_int_equal(rename(path, moved), 0);
    write_entry("still", NULL);
    pfl_audit_log_reopen(audit);
    write_entry("after", NULL);
    file = open_file();
    line = read_line(file);
    assert_member(line, "action", "after");
    json_decref(line);
    assert_null(read_line(file));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(unlink(moved), 0);
}

/* Lines of `action`; what the counts among all lines add up to. */
static unsigned count_lines(const char *action, unsigned long *ret_left_out)
{
    FILE *file = open_file();
    unsigned count = 0;
    json_t *line;

    *ret_left_out = 0;
    while ((line = read_line(file)) != NULL) {
        count += strcmp(json_string_value(json_object_get(line, "action")), action) == 0;
        if (strcmp(json_string_value(json_object_get(line, "action")), "left-out") == 0) {
            assert_member(line, "who", "me");
            *ret_left_out += strtoul(json_string_value(json_object_get(line, "detail")), NULL, 10);
        }
        json_decref(line);
    }
    assert_int_equal(fclose(file), 0);
    return count;
}

static void refusals_without_end_are_counted_and_nothing_else_is_left_out(void **state)
{
    unsigned long left_out;
    unsigned logged;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        write_entry("refuse", NULL);
        if (i % 50 == 0)
            write_entry("connect", NULL);
    }
    pfl_audit_log_reopen(audit);
    logged = count_lines("refuse", &left_out);
    assert_in_range(logged, 1000, 4999);
    assert_int_equal(logged + left_out, 5000);
    assert_int_equal(count_lines("connect", &left_out), 100);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_log, close_log)
    const struct CMUnitTest tests[] = {
        TEST(what_others_say_keeps_its_plain_characters),
        TEST(the_longest_of_all_parts_is_one_line),
        TEST(a_line_that_was_cut_spoils_no_other),
        TEST(lines_that_were_lost_are_counted_in_a_line),
        TEST(refusals_without_a_line_of_their_own_are_lost_with_their_number),
        TEST(where_the_log_is_optional_all_may_begin),
        TEST(without_a_log_all_may_begin),
        TEST(what_is_refused_elsewhere_has_the_rate_of_refusals),
        TEST(refusals_without_end_are_counted_and_nothing_else_is_left_out),
        TEST(a_file_that_was_moved_away_is_made_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
