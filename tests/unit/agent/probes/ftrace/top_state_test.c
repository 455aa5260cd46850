/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the kernel's top-level ring buffer is in use, by its files. */
#include "agent/probes/ftrace/top_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/probes/kernel_events/event_catalog.h"

#define UNUSED                                                                                     \
    {                                                                                              \
        .tracer = "nop", .events = "0", .on = "1", .clock = "[local] global boot",                 \
        .size = "7 (expanded: 1408)"                                                               \
    }

/* As kernels 6.1, 6.12 and 6.18 write it. */
static const char markers[] =
    "# tracer: nop\n"
    "#\n"
    "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
    "           <...>-26889   [001] ...1.  1344.869540: tracing_mark_write: hello\n"
    "CPU:1 [LOST 12 EVENTS]\n"
    "        a b [0]-26889   [001] ...1.  1344.869568: tracing_mark_write: B|1|foo\n"
    "##### CPU 0 buffer started ####\n"
    "           <...>-9       [128] dNh2.  1345.800221: tracing_mark_write.isra.0: E|1\n"
    "           <...>-26895   [000] ...1.  1345.800222: # 1 buf: 61 62 63 64 65 66 00 00\n";

static bool is_markers_only(const char *text, size_t len, size_t step)
{
    struct pfl_top_scan scan = {0};

    for (size_t at = 0; at < len; at += step)
        pfl_top_scan_feed(
            &scan, pfl_span_of((const uint8_t *)text + at, len - at < step ? len - at : step));
    return pfl_top_scan_is_markers_only(&scan);
}

static void what_nobody_set_up_is_free_whatever_programs_wrote(void **state)
{
    struct pfl_top_files files = UNUSED;
    struct pfl_top_content content = {.entries = 0, .is_markers_only = true};

    (void)state;
    assert_int_equal(pfl_top_judge(&files, &content), PFL_TOP_FREE);
    content.entries = 100;
    assert_int_equal(pfl_top_judge(&files, &content), PFL_TOP_FREE);
    /* As this program leaves it; kernels differ in what they tell. */
    (void)snprintf(files.size, sizeof(files.size), "1408");
    assert_int_equal(pfl_top_judge(&files, &content), PFL_TOP_FREE);
    (void)snprintf(files.size, sizeof(files.size), "1410");
    (void)snprintf(files.clock, sizeof(files.clock), "local [global] boot");
    assert_int_equal(pfl_top_judge(&files, &content), PFL_TOP_FREE);
}

static void an_empty_one_is_free_however_it_is_set_up(void **state)
{
    struct pfl_top_files files = {
        .tracer = "nop", .events = "0", .on = "0", .clock = "local [mono]", .size = "4"};
    struct pfl_top_content content = {.entries = 0, .is_markers_only = true};

    (void)state;
    assert_int_equal(pfl_top_judge(&files, &content), PFL_TOP_FREE);
}

static void what_somebody_uses_or_keeps_is_not_free(void **state)
{
    static const struct {
        struct pfl_top_files files;
        struct pfl_top_content content;
        enum pfl_top_use use;
    } cases[] = {
        {{"function", "0", "1", "[local]", "1408"}, {0, true}, PFL_TOP_TRACER},
        {{"nop", "X", "1", "[local]", "1408"}, {0, true}, PFL_TOP_EVENTS},
        {{"nop", "1", "1", "[local]", "1408"}, {0, true}, PFL_TOP_EVENTS},
        {{"nop", "0", "0", "[local]", "1408"}, {1, true}, PFL_TOP_STOPPED},
        {{"nop", "0", "1", "local [boot]", "1408"}, {1, true}, PFL_TOP_SIZED},
        {{"nop", "0", "1", "[local]", "1407"}, {1, true}, PFL_TOP_SIZED},
        {{"nop", "0", "1", "[local]", "4096"}, {1, true}, PFL_TOP_SIZED},
        {{"nop", "0", "1", "[local]", "X"}, {1, true}, PFL_TOP_SIZED},
        {{"nop", "0", "1", "[local]", "7 (expanded: 1408)"}, {1, false}, PFL_TOP_CONTENT},
        /* Files that could not be read. */
        {{"", "0", "1", "[local]", "1408"}, {0, true}, PFL_TOP_TRACER},
        {{"nop", "", "1", "[local]", "1408"}, {0, true}, PFL_TOP_EVENTS},
        {{"nop", "0", "", "[local]", "1408"}, {1, true}, PFL_TOP_STOPPED},
        {{"nop", "0", "1", "", "1408"}, {1, true}, PFL_TOP_SIZED},
        {{"nop", "0", "1", "[local]", ""}, {1, true}, PFL_TOP_SIZED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(pfl_top_judge(&cases[i].files, &cases[i].content), cases[i].use);
}

static void somebody_who_comes_is_noticed(void **state)
{
    static const struct {
        struct pfl_top_files now;
        enum pfl_top_use use;
    } cases[] = {
        {{"nop", "0", "1", "local [boot]", "2051"}, PFL_TOP_FREE},
        {{"function", "0", "1", "local [boot]", "2051"}, PFL_TOP_TRACER},
        {{"nop", "X", "1", "local [boot]", "2051"}, PFL_TOP_EVENTS},
        {{"nop", "0", "0", "local [boot]", "2051"}, PFL_TOP_SWITCHED},
        {{"nop", "0", "1", "[local] boot", "2051"}, PFL_TOP_CLOCK},
        {{"nop", "0", "1", "local [boot]", "8"}, PFL_TOP_RESIZED},
    };
    const struct pfl_top_files *before = &cases[0].now;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(pfl_top_judge_change(before, &cases[i].now, false), cases[i].use);
    /* The borrower's own events. */
    assert_int_equal(pfl_top_judge_change(before, &cases[2].now, true), PFL_TOP_FREE);
    assert_int_equal(pfl_top_judge_change(before, &cases[1].now, true), PFL_TOP_TRACER);
    assert_int_equal(pfl_top_judge_change(before, &cases[3].now, true), PFL_TOP_SWITCHED);
}

static void every_use_has_a_text(void **state)
{
    (void)state;
    for (int use = PFL_TOP_FREE; use <= PFL_TOP_CONSUMED; use++)
        assert_non_null(pfl_top_explain((enum pfl_top_use)use));
}

static void text_of_programs_is_known_in_any_pieces(void **state)
{
    size_t len = sizeof(markers) - 1;

    (void)state;
    for (size_t step = 1; step <= len; step++)
        assert_true(is_markers_only(markers, len, step));
    assert_true(is_markers_only("", 0, 1));
}

static void text_that_is_cut_is_never_another_event(void **state)
{
    size_t len = sizeof(markers) - 1;
    size_t whole = 0;

    (void)state;
    for (size_t cut = 0; cut <= len; cut++) {
        if (cut == 0 || markers[cut - 1] == '\n')
            assert_true(is_markers_only(markers, cut, cut + 1));
        whole += is_markers_only(markers, cut, cut + 1);
    }
    assert_true(whole > 9);
}

static void any_other_line_is_somebody_elses(void **state)
{
    static const char *const others[] = {
        "    bash-1     [000] d..2.  1.000001: sched_switch: prev_comm=bash\n",
        "    bash-1     [000] .....  1.000001: bputs: x: tracing_mark_write: text\n",
        "    bash-1     [000] .....  1.000001: tracing_mark_writers: text\n",
        "    bash-1     [000] .....  1.000001: tracing_mark_write\n",
        "    bash-1     [000] .....  1.000001: #bad\n",
        "    bash-1     [000] .....  1.000001 tracing_mark_write: no colon\n",
        "    bash-1     [] .....  1.000001: tracing_mark_write: no CPU\n",
        "    bash-1     [000] .....  x.000001: tracing_mark_write: no time\n",
        "second line of a text\n",
        "   vfs_read <-ksys_read\n",
        "[0]",
        "[0] ",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char text[sizeof(markers) + 256];
        int len = snprintf(text, sizeof(text), "%s%s", markers, others[i]);

        assert_false(is_markers_only(text, (size_t)len, 7));
    }
}

static void a_line_longer_than_the_room_is_judged_by_its_beginning(void **state)
{
    char text[1024];
    int len = snprintf(text, sizeof(text), "  a-1 [000] .....  1.000001: tracing_mark_write: ");

    (void)state;
    memset(text + len, 'x', sizeof(text) - (size_t)len);
    assert_true(is_markers_only(text, sizeof(text), 100));
    memset(text, 'x', (size_t)len);
    assert_false(is_markers_only(text, sizeof(text), 100));
}

static void readers_of_the_top_are_known_by_what_they_have_open(void **state)
{
    (void)state;
    assert_true(pfl_top_is_reader_path("/sys/kernel/tracing/trace_pipe"));
    assert_true(pfl_top_is_reader_path("/sys/kernel/debug/tracing/per_cpu/cpu3/trace_pipe_raw"));
    assert_true(pfl_top_is_reader_path("/trace_pipe"));
    assert_false(pfl_top_is_reader_path("/sys/kernel/tracing/instances/a/trace_pipe"));
    assert_false(pfl_top_is_reader_path("/sys/kernel/tracing/trace"));
    assert_false(pfl_top_is_reader_path("/sys/kernel/tracing/trace_pipe_raws"));
    assert_false(pfl_top_is_reader_path("trace_pipe"));
    assert_false(pfl_top_is_reader_path(""));
}

static void only_events_of_ftrace_can_be_missing_in_an_instance(void **state)
{
    const struct {
        struct pfl_catalog_event event;
        enum pfl_top_event kind;
    } cases[] = {
        {{.group = (char[]){"ftrace"}, .name = (char[]){"print"}}, PFL_TOP_EVENT_MARKER},
        {{.group = (char[]){"ftrace"}, .name = (char[]){"raw_data"}}, PFL_TOP_EVENT_MARKER},
        {{.group = (char[]){"ftrace"}, .name = (char[]){"bprint"}}, PFL_TOP_EVENT_PRINTK},
        {{.group = (char[]){"ftrace"}, .name = (char[]){"bputs"}}, PFL_TOP_EVENT_PRINTK},
        {{.group = (char[]){"ftrace"}, .name = (char[]){"funcgraph_entry"}}, PFL_TOP_EVENT_NONE},
        {{.group = (char[]){"mine"}, .name = (char[]){"print"}}, PFL_TOP_EVENT_NONE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(pfl_event_catalog_find_top_event(&cases[i].event), cases[i].kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_set_up_is_free_whatever_programs_wrote),
        cmocka_unit_test(an_empty_one_is_free_however_it_is_set_up),
        cmocka_unit_test(what_somebody_uses_or_keeps_is_not_free),
        cmocka_unit_test(somebody_who_comes_is_noticed),
        cmocka_unit_test(every_use_has_a_text),
        cmocka_unit_test(text_of_programs_is_known_in_any_pieces),
        cmocka_unit_test(text_that_is_cut_is_never_another_event),
        cmocka_unit_test(any_other_line_is_somebody_elses),
        cmocka_unit_test(a_line_longer_than_the_room_is_judged_by_its_beginning),
        cmocka_unit_test(readers_of_the_top_are_known_by_what_they_have_open),
        cmocka_unit_test(only_events_of_ftrace_can_be_missing_in_an_instance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
