/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of what is to be put back: what one program notes, another does. */
#include "agent/probes/tracefs/undo_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

static const int a;
static const int b;

static void fill(struct pfl_undo_log *log)
{
    assert_int_equal(pfl_undo_log_add(log, &a, PFL_UNDO_WRITE, "x/tracing_on", "1"), 0);
    assert_int_equal(pfl_undo_log_add(log, &b, PFL_UNDO_APPEND, "kprobe_events", "-:g/one"), 0);
    assert_int_equal(
        pfl_undo_log_add(log, &a, PFL_UNDO_REPLACE, "set graph\\function", "f\ng h\n\\"), 0);
    assert_int_equal(pfl_undo_log_add(log, &a, PFL_UNDO_RMDIR, "instances/y", ""), 0);
}

static void last_change_is_undone_first_and_owners_have_their_own(void **state)
{
    struct pfl_undo_log log = {0};

    (void)state;
    fill(&log);
    assert_int_equal(pfl_undo_log_get_last(&log, &a)->kind, PFL_UNDO_RMDIR);
    pfl_undo_log_remove(&log, pfl_undo_log_get_last(&log, &a)->number);
    assert_int_equal(pfl_undo_log_get_last(&log, &a)->kind, PFL_UNDO_REPLACE);
    assert_string_equal(pfl_undo_log_get_last(&log, &b)->text, "-:g/one");
    pfl_undo_log_remove(&log, pfl_undo_log_get_last(&log, &b)->number);
    assert_null(pfl_undo_log_get_last(&log, &b));
    assert_string_equal(pfl_undo_log_get_last(&log, NULL)->path, "set graph\\function");
    pfl_undo_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

static void value_is_noted_once_and_commands_by_their_text(void **state)
{
    struct pfl_undo_log log = {0};
    struct pfl_undo_entry entry = {.owner = &a,
                                   .kind = PFL_UNDO_WRITE,
                                   .path = (char[]){"x/tracing_on"},
                                   .text = (char[]){"0"}};

    (void)state;
    fill(&log);
    assert_true(pfl_undo_log_has(&log, &entry));
    entry.owner = &b;
    assert_false(pfl_undo_log_has(&log, &entry));
    entry.kind = PFL_UNDO_APPEND;
    entry.path = (char[]){"kprobe_events"};
    assert_false(pfl_undo_log_has(&log, &entry));
    entry.text = (char[]){"-:g/one"};
    assert_true(pfl_undo_log_has(&log, &entry));
    pfl_undo_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

static void encode_all(const struct pfl_undo_log *log, struct pfl_buf *ret_file)
{
    struct pfl_buf line;

    pfl_buf_init(&line, PFL_UNDO_LINE_MAX);
    for (size_t i = 0; i < log->count; i++) {
        assert_int_equal(pfl_undo_log_encode(&log->entries[i], &line), 0);
        assert_int_equal(pfl_buf_append(ret_file, pfl_buf_get(&line).data, pfl_buf_get(&line).len),
                         0);
    }
    pfl_buf_fini(&line);
}

static void file_gives_back_what_was_noted_whatever_was_written_last(void **state)
{
    struct pfl_undo_log log = {0};
    struct pfl_buf file;

    (void)state;
    pfl_buf_init(&file, 1 << 16);
    fill(&log);
    encode_all(&log, &file);
    for (size_t len = 0; len <= file.len; len++) {
        struct pfl_undo_log read = {0};
        size_t whole = 0;

        for (size_t i = 0; i < len; i++)
            whole += pfl_buf_get(&file).data[i] == '\n';
        assert_int_equal(pfl_undo_log_parse(&read, pfl_span_of(pfl_buf_get(&file).data, len)), 0);
        assert_int_equal(read.count, whole);
        for (size_t i = 0; i < read.count; i++) {
            assert_int_equal(read.entries[i].number, log.entries[i].number);
            assert_int_equal(read.entries[i].kind, log.entries[i].kind);
            assert_string_equal(read.entries[i].path, log.entries[i].path);
            assert_string_equal(read.entries[i].text, log.entries[i].text);
        }
        pfl_undo_log_fini(&read);
    }
    pfl_buf_fini(&file);
    pfl_undo_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

static void what_is_done_or_makes_no_sense_is_not_done_again(void **state)
{
    static const char file[] = "0 w a/tracing_on 1\n"
                               "1 w ../etc/passwd x\n"
                               "2 w /etc/passwd x\n"
                               "8 w a/../b x\n"
                               "9 w a/.. x\n"
                               "10 d instances/a..b \n"
                               "3 q a 1\n"
                               "nonsense\n"
                               "\n"
                               "4 w a\n"
                               "5 a kprobe_events -:g/f\n"
                               "0 x\n"
                               "77 x\n"
                               "4294967295 w a 1\n"
                               "6 w  1\n"
                               "7 w b\\";
    struct pfl_undo_log log = {0};

    (void)state;
    assert_int_equal(pfl_undo_log_parse(&log, pfl_span_of(file, sizeof(file) - 1)), 0);
    assert_int_equal(log.count, 2);
    assert_string_equal(log.entries[0].path, "instances/a..b");
    assert_string_equal(log.entries[1].path, "kprobe_events");
    assert_int_equal(log.next_number, 11);
    pfl_undo_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

static void text_has_a_limit(void **state)
{
    struct pfl_undo_log log = {0};
    char *text = pfl_mem_alloc(PFL_UNDO_TEXT_MAX + 2);

    (void)state;
    assert_non_null(text);
    memset(text, '\n', PFL_UNDO_TEXT_MAX + 1);
    text[PFL_UNDO_TEXT_MAX + 1] = '\0';
    assert_int_equal(pfl_undo_log_add(&log, &a, PFL_UNDO_REPLACE, "x", text), PFL_ELIMIT);
    assert_int_equal(pfl_undo_log_add(&log, &a, PFL_UNDO_REPLACE, "x", text + 1), 0);
    pfl_mem_free(text);
    pfl_undo_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

static int note_and_read(void *arg)
{
    struct pfl_undo_log log = {0};
    struct pfl_undo_log read = {0};
    struct pfl_buf line;
    int rc = pfl_undo_log_add(&log, &a, PFL_UNDO_WRITE, "x/tracing_on", "1");

    (void)arg;
    pfl_buf_init(&line, PFL_UNDO_LINE_MAX);
    if (rc == 0)
        rc = pfl_undo_log_encode(&log.entries[0], &line);
    if (rc == 0)
        rc = pfl_undo_log_parse(&read, pfl_buf_get(&line));
    if (rc == 0)
        assert_int_equal(read.count, 1);
    pfl_undo_log_fini(&log);
    pfl_undo_log_fini(&read);
    pfl_buf_fini(&line);
    return rc;
}

static void noting_and_reading_survive_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(note_and_read, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_change_is_undone_first_and_owners_have_their_own),
        cmocka_unit_test(value_is_noted_once_and_commands_by_their_text),
        cmocka_unit_test(file_gives_back_what_was_noted_whatever_was_written_last),
        cmocka_unit_test(what_is_done_or_makes_no_sense_is_not_done_again),
        cmocka_unit_test(text_has_a_limit),
        cmocka_unit_test(noting_and_reading_survive_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
