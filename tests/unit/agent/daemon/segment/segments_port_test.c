/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of segments: what the service's index says becomes segments; quota, release, and what
 * a new process finds there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/io/loop.h"
#include "base/io/worker.h"
#include "base/list.h"
#include "perfleet/segment.pb-c.h"
#include "tests/support/sweep.h"
#include "tests/unit/agent/daemon/segment/segments_kit.h"

static const struct pfl_segment_quota no_quota;
static struct kit kit;
static struct kit_note notes[64];
static uint64_t wanted;

static int setup(void **state)
{
    (void)state;
    kit_make_dir(&kit);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_remove_dir(&kit);
    pfl_sweep_assert_no_leak();
    return 0;
}

static bool has_segments(struct kit *k)
{
    struct pfl_segments_figures f;

    pfl_segments_get_figures(k->segments, &f);
    return f.sums.segments == wanted;
}

static bool has_gaps(struct kit *k)
{
    struct pfl_segments_figures f;

    pfl_segments_get_figures(k->segments, &f);
    return f.gaps == wanted;
}

static bool has_no_files(struct kit *k)
{
    return kit_count_files(k, "") == 0;
}

static void wait_for(bool (*is_so)(struct kit *k), uint64_t count)
{
    wanted = count;
    kit_wait(&kit, is_so);
}

static void write_run(const char *id, uint32_t count, bool is_ended)
{
    for (uint32_t n = 1; n <= count; n++)
        kit_write_segment(&kit, id, n, "some bytes", n == count && is_ended ? "end" : "time");
}

static void a_line_of_the_index_becomes_a_segment_until_it_is_released(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];
    char text[64];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 3, false);
    wait_for(has_segments, 3);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 3);
    assert_int_equal(notes[2].number, 3);
    assert_int_equal(notes[0].bytes, 10);
    assert_int_equal(notes[0].reason, PERFLEET__SEGMENT__REASON__TIME);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, true, notes, 64), 3);
    assert_int_equal(notes[2].number, 1);
    assert_int_equal(kit_read(&kit, KIT_COLLECTOR, &notes[0], text, sizeof(text)), 0);
    assert_string_equal(text, "some bytes");
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), PFL_ENOENT);
    assert_int_equal(kit_read(&kit, KIT_COLLECTOR, &notes[0], text, sizeof(text)), PFL_ENOENT);
    assert_int_equal(kit_count_files(&kit, ".pftrace.0"), 2);
    kit_write_segment(&kit, id, 4, "the end", "end");
    wait_for(has_segments, 3);
    while (kit_list(&kit, KIT_COLLECTOR, false, notes, 64) != 0)
        assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
}

static bool has_asked(struct kit *k)
{
    return k->clock_asked >= wanted;
}

static void add_clock(uint64_t host_boot_ns)
{
    Perfleet__ClockPoint point = PERFLEET__CLOCK_POINT__INIT;

    point.relay = (char *)(uintptr_t) "meet";
    point.relay_boot_id = (char *)(uintptr_t) "1e1f";
    point.has_host_boot_ns = 1;
    point.host_boot_ns = host_boot_ns;
    pfl_segments_add_clock(kit.segments, &point);
}

static void a_segment_waits_for_a_clock_point_after_its_end(void **state)
{
    struct pfl_segments_figures f;
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit.has_relay = true;
    kit.clock_asked = 0;
    kit.clock_wait_ms = 600000;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    kit_write_segment(&kit, id, 1, "some bytes", "time");
    wait_for(has_asked, 2);
    add_clock(1500); /* before its end */
    kit_turn(&kit);
    pfl_segments_get_figures(kit.segments, &f);
    assert_int_equal(f.sums.segments, 0);
    add_clock(2000);
    wait_for(has_segments, 1);
    /* Nobody can give one. */
    kit.has_relay = false;
    kit_write_segment(&kit, id, 2, "some bytes", "end");
    wait_for(has_segments, 2);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 2);
    assert_int_equal(notes[0].clocks, 2);
    kit_close(&kit);
}

static void a_segment_does_without_a_clock_point_that_does_not_come(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit.has_relay = true;
    kit.clock_asked = 0;
    kit.clock_wait_ms = 1;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    kit_write_segment(&kit, id, 1, "some bytes", "end");
    wait_for(has_segments, 1);
    assert_true(kit.clock_asked != 0);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 1);
    assert_int_equal(notes[0].clocks, 0);
    kit_close(&kit);
}

static void a_segment_is_as_long_by_the_wall_clock_as_by_the_boot_clock(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 40, true);
    wait_for(has_segments, 40);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 40);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(notes[i].end_unix_ns - notes[i].begin_unix_ns, 1000);
    kit_close(&kit);
}

static void a_release_of_other_bytes_and_other_collectors_are_refused(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];
    char text[64];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 1, true);
    wait_for(has_segments, 1);
    assert_int_equal(kit_list(&kit, "stranger", false, notes, 64), 0);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 1);
    assert_int_equal(kit_release(&kit, "stranger", &notes[0]), PFL_ENOENT);
    assert_int_equal(kit_read(&kit, "stranger", &notes[0], text, sizeof(text)), PFL_ENOENT);
    notes[0].sha256[5] ^= 1;
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), PFL_ESTATE);
    notes[0].is_gap = true;
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), PFL_ESTATE);
    kit_close(&kit);
}

static void what_the_quota_removes_is_one_gap(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];
    struct pfl_segments_figures f;
    struct kit_note old;

    (void)state;
    kit_open(&kit, &(struct pfl_segment_quota){.max_bytes = 35});
    kit_begin_run(&kit, "web", id);
    write_run(id, 4, false);
    wait_for(has_gaps, 1);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 4);
    old = notes[0];
    assert_true(old.is_gap);
    assert_int_equal(old.last, 1);
    assert_int_equal(old.why, PERFLEET__SEGMENT_GAP__WHY__QUOTA);
    kit_write_segment(&kit, id, 5, "some bytes", "end");
    do {
        kit_turn(&kit);
    } while (kit_list(&kit, KIT_COLLECTOR, false, notes, 64) == 4 && notes[0].last != 2);
    while (notes[0].last != 2) {
        kit_turn(&kit);
        (void)kit_list(&kit, KIT_COLLECTOR, false, notes, 64);
    }
    pfl_segments_get_figures(kit.segments, &f);
    assert_int_equal(f.removed, 2);
    assert_int_equal(f.removed_bytes, 20);
    /* It has grown since it was read. */
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &old), PFL_ESTATE);
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 3);
    assert_int_equal(kit_count_files(&kit, ".pftrace.0"), 3);
    kit_close(&kit);
}

static void turn_for_ms(uint64_t ms)
{
    uint64_t begin_ms = uv_now(&kit.loop);

    while (uv_now(&kit.loop) - begin_ms < ms)
        kit_turn(&kit);
}

/* Half an hour may have passed; 8 days in a moment is a clock that was set. The played service
 * wrote its segments when this machine was booted. */
static void a_clock_that_is_set_ahead_makes_no_segment_old(void **state)
{
    const struct pfl_segment_quota ten_minutes = {
        .max_age_ms = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME) / 1000000 + 600 * 1000};
    char ahead_id[PFL_SEGMENT_ID_BYTES];
    char id[PFL_SEGMENT_ID_BYTES];
    struct pfl_segments_figures f;

    (void)state;
    kit_open(&kit, &ten_minutes);
    kit_begin_run(&kit, "web", id);
    write_run(id, 3, false);
    wait_for(has_segments, 3);
    kit.ahead_ns = UINT64_C(8) * 86400 * 1000000000;
    turn_for_ms(100);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 3);
    kit_begin_run(&kit, "web", ahead_id);
    write_run(ahead_id, 1, false);
    wait_for(has_segments, 4);
    kit_close(&kit);
    /* An agent that begins does not believe it either, whatever the last segment says. */
    kit_open(&kit, &ten_minutes);
    turn_for_ms(100);
    kit.ahead_ns = 0;
    turn_for_ms(100);
    pfl_segments_get_figures(kit.segments, &f);
    assert_int_equal(f.removed, 0);
    assert_int_equal(kit_count_files(&kit, ".pftrace.0"), 4);
    kit.ahead_ns = UINT64_C(1800) * 1000000000;
    do {
        kit_turn(&kit);
    } while (kit_list(&kit, KIT_COLLECTOR, false, notes, 64) != 2 || !notes[0].is_gap);
    assert_int_equal(notes[0].last, 3);
    assert_false(notes[1].is_gap); /* by its time it is new */
    assert_int_equal(notes[0].why, PERFLEET__SEGMENT_GAP__WHY__AGE);
    kit.ahead_ns = 0;
    kit_close(&kit);
}

static void a_new_process_finds_all_and_goes_on_where_the_last_one_was(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 3, false);
    wait_for(has_segments, 3);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[i]), 0);
    kit_close(&kit);
    kit_write_segment(&kit, id, 4, "more", "time");
    kit_write_segment(&kit, id, 5, "cut off", NULL);
    kit_open(&kit, &no_quota);
    wait_for(has_segments, 2);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 2);
    assert_int_equal(notes[0].number, 4);
    assert_int_equal(notes[1].number, 5);
    assert_int_equal(notes[1].reason, PERFLEET__SEGMENT__REASON__LOST);
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[1]), 0);
    kit_close(&kit);
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 1);
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
}

static void a_file_that_somebody_removed_or_changed_is_told_as_a_gap(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];
    char path[160];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 2, false);
    wait_for(has_segments, 2);
    /* Between the service's line and our note. */
    kit_write_segment(&kit, id, 3, "", "time");
    wait_for(has_gaps, 1);
    kit_write_segment(&kit, id, 4, "after it", "end");
    wait_for(has_segments, 3);
    kit_close(&kit);
    (void)snprintf(path, sizeof(path), "%s/%s.pftrace.000001", kit.dir, id);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/%s.pftrace.000004", kit.dir, id);
    assert_int_equal(truncate(path, 3), 0);
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 4);
    assert_true(notes[0].is_gap);
    assert_int_equal(notes[0].why, PERFLEET__SEGMENT_GAP__WHY__REMOVED);
    assert_false(notes[1].is_gap);
    assert_true(notes[2].is_gap);
    assert_true(notes[3].is_gap);
    assert_int_equal(notes[3].why, PERFLEET__SEGMENT_GAP__WHY__CORRUPT);
    kit_close(&kit);
}

static void put_file(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", kit.dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void nothing_in_the_folder_is_believed(void **state)
{
    static const char *const strange[] = {"notes.txt", "01J00000000000000000000000.000001.segmentx",
                                          "01J00000000000000000000000.1.segment",
                                          "01J00000000000000000000000.0000001.segment"};
    char path[160];

    (void)state;
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        put_file(strange[i], "mine");
    put_file("01J00000000000000000000000.run", "\xff\xff no message");
    put_file("01J00000000000000000000000.000001.segment", "neither");
    put_file("01J00000000000000000000000.000002.released", "");
    put_file("01J00000000000000000000000.tmp", "half");
    put_file("01J00000000000000000000001.pftrace.000001", "of nobody");
    put_file("01J00000000000000000000001.pftrace.index", "of nobody");
    (void)snprintf(path, sizeof(path), "%s/01J00000000000000000000002.run", kit.dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 0);
    assert_int_equal(kit_count_files(&kit, ""), 4);
    kit_close(&kit);
}

static void an_index_that_makes_no_sense_is_read_no_further(void **state)
{
    static const char *const lines[] = {
        "nonsense\n",
        "{\"segment\":7,\"begin_ns\":1,\"end_ns\":2,\"reason\":\"time\",\"unresolved\":0}\n",
        "{\"segment\":-1,\"begin_ns\":1,\"end_ns\":2,\"reason\":\"time\",\"unresolved\":0}\n",
        "{\"segment\":1,\"begin_ns\":3,\"end_ns\":2,\"reason\":\"time\",\"unresolved\":0}\n",
    };

    (void)state;
    kit_open(&kit, &no_quota);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char id[PFL_SEGMENT_ID_BYTES];
        char name[64];

        kit_begin_run(&kit, "web", id);
        (void)snprintf(name, sizeof(name), "%s.pftrace.index", id);
        put_file(name, lines[i]);
        kit_write_segment(&kit, id, 1, "bytes", NULL);
        pfl_segments_end_run(kit.segments, id);
        wait_for(has_segments, i + 1);
    }
    kit_close(&kit);
}

/* Its lines leave and come at any moment: each segment is taken once. */
static void a_shortened_index_is_read_on(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 3, false);
    wait_for(has_segments, 3);
    for (uint32_t n = 4; n <= 5; n++)
        kit_write_segment(&kit, id, n, "some bytes", NULL);
    kit_shorten_index(&kit, id, 1, 2, 5);
    wait_for(has_segments, 5);
    kit_write_segment(&kit, id, 6, "some bytes", NULL);
    kit_shorten_index(&kit, id, 2, 4, 6); /* shorter than what was read */
    wait_for(has_segments, 6);
    kit_close(&kit);
    kit_write_segment(&kit, id, 7, "some bytes", NULL);
    kit_shorten_index(&kit, id, 3, 7, 7);
    kit_open(&kit, &no_quota);
    wait_for(has_segments, 7);
    kit_write_segment(&kit, id, 8, "the end", "end");
    wait_for(has_segments, 8);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 8);
    for (uint32_t n = 0; n < 8; n++) {
        assert_int_equal(notes[n].number, n + 1);
        assert_false(notes[n].is_gap);
    }
    kit_close(&kit);
}

/* A service that was killed meanwhile left the new one. */
static void an_unfinished_index_goes_with_its_run(void **state)
{
    char name[64];
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 1, true);
    (void)snprintf(name, sizeof(name), "%s.pftrace~.index", id);
    put_file(name, "half");
    wait_for(has_segments, 1);
    kit_close(&kit);
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_count_files(&kit, "~.index"), 1); /* a service may be at work on it */
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 1);
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
}

/* The service removes lines of segments that are gone: they were not taken. */
static void numbers_that_the_index_leaves_out_are_a_gap(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 2, false);
    wait_for(has_segments, 2);
    kit_write_segment(&kit, id, 6, "some bytes", NULL);
    kit_write_segment(&kit, id, 7, "some bytes", NULL);
    kit_shorten_index(&kit, id, 1, 6, 7);
    wait_for(has_segments, 4);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 5);
    assert_true(notes[2].is_gap);
    assert_int_equal(notes[2].number, 3);
    assert_int_equal(notes[2].last, 5);
    assert_int_equal(notes[2].why, PERFLEET__SEGMENT_GAP__WHY__REMOVED);
    assert_int_equal(notes[3].number, 6);
    assert_int_equal(notes[4].number, 7);
    /* What is there has no line, and is taken as it is. */
    kit_write_segment(&kit, id, 8, "some bytes", NULL);
    kit_write_segment(&kit, id, 11, "some bytes", "end");
    wait_for(has_segments, 6);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 8);
    assert_int_equal(notes[5].number, 8);
    assert_int_equal(notes[5].reason, PERFLEET__SEGMENT__REASON__LOST);
    assert_true(notes[6].is_gap);
    assert_int_equal(notes[6].number, 9);
    assert_int_equal(notes[6].last, 10);
    assert_int_equal(notes[7].number, 11);
    kit_close(&kit);
}

/* Months of segments: a new process does not wait a tick for each part of it. */
static void a_long_index_is_passed_at_once(void **state)
{
    static char text[2000000];
    static const char line[] = "{\"segment\":1,\"begin_ns\":1,\"end_ns\":2,\"reason\":\"time\","
                               "\"unresolved\":0}\n";
    char name[64];
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    for (size_t at = 0; at + sizeof(line) < sizeof(text); at += sizeof(line) - 1)
        memcpy(text + at, line, sizeof(line));
    kit.tick_ms = 500;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 1, false);
    wait_for(has_segments, 1);
    kit_close(&kit);
    (void)snprintf(name, sizeof(name), "%s.pftrace.index", id);
    put_file(name, text);
    kit_write_segment(&kit, id, 2, "some bytes", "time");
    kit_open(&kit, &no_quota);
    wait_for(has_segments, 2);
    kit_close(&kit);
    kit.tick_ms = 0;
}

static bool has_a_note_of_each(struct kit *k)
{
    return kit_count_files(k, ".segment") == kit_list(k, KIT_COLLECTOR, false, notes, 64);
}

/* A version before had a larger table, or its last note passed the maximum. */
static void more_notes_than_the_table_takes_become_gaps_with_numbers(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];
    uint32_t next = 1;
    size_t len;

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 20, false);
    wait_for(has_segments, 20);
    kit_close(&kit);
    kit.segments_max = 6;
    kit_open(&kit, &no_quota);
    len = kit_list(&kit, KIT_COLLECTOR, false, notes, 64);
    assert_true(len > 1 && len <= 6);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(notes[i].number, next);
        next = notes[i].last + 1;
    }
    assert_int_equal(next, 21);
    assert_true(notes[0].is_gap && !notes[len - 1].is_gap);
    assert_int_equal(notes[0].why, PERFLEET__SEGMENT_GAP__WHY__QUOTA);
    kit_wait(&kit, has_a_note_of_each); /* room for another may be made meanwhile */
    /* Further segments are taken. */
    kit_write_segment(&kit, id, 21, "the end", "end");
    while ((len = kit_list(&kit, KIT_COLLECTOR, false, notes, 64)) == 0 || notes[len - 1].last < 21)
        kit_turn(&kit);
    while (kit_list(&kit, KIT_COLLECTOR, false, notes, 64) != 0)
        assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
    kit.segments_max = 0;
}

/* The words of the log, from here on. */
static FILE *begin_log(int *ret_stderr)
{
    FILE *log = tmpfile();

    assert_non_null(log);
    (void)fflush(stderr);
    *ret_stderr = dup(STDERR_FILENO);
    assert_true(*ret_stderr >= 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
    return log;
}

static size_t end_log(FILE *log, int kept, char *text, size_t room)
{
    size_t len;

    (void)fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    rewind(log);
    len = fread(text, 1, room - 1, log);
    text[len] = '\0';
    (void)fclose(log);
    return len;
}

static void a_full_table_is_not_called_a_full_disk(void **state)
{
    static char text[16384];
    char id[PFL_SEGMENT_ID_BYTES];
    int kept;
    FILE *log = begin_log(&kept);
    size_t len;

    (void)state;
    kit.segments_max = 3;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 6, true);
    while ((len = kit_list(&kit, KIT_COLLECTOR, false, notes, 64)) == 0 || notes[len - 1].last < 6)
        kit_turn(&kit);
    (void)end_log(log, kept, text, sizeof(text));
    /* Whether a segment has to wait at all depends on when the worker makes the gap. */
    assert_true(strstr(text, "segment-not-taken") == NULL ||
                strstr(text, "too many segments and gaps") != NULL);
    assert_null(strstr(text, "disk is full"));
    while (kit_list(&kit, KIT_COLLECTOR, false, notes, 64) != 0)
        assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
    kit.segments_max = 0;
}

static void runs_that_the_table_does_not_take_wait_for_the_next_start(void **state)
{
    char ids[4][PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    for (size_t i = 0; i < 4; i++) {
        kit_begin_run(&kit, "web", ids[i]);
        write_run(ids[i], 2, true);
    }
    wait_for(has_segments, 8);
    kit_close(&kit);
    kit.runs_max = 3;
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 6);
    assert_int_equal(kit_count_files(&kit, ".pftrace.0"), 8);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[i]), 0);
    kit_close(&kit);
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_false(notes[i].is_gap);
        assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[i]), 0);
    }
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
    kit.runs_max = 0;
}

static void a_link_is_not_followed(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];
    char path[160];
    char name[64];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    (void)snprintf(path, sizeof(path), "%s/%s.pftrace.000001", kit.dir, id);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    (void)snprintf(name, sizeof(name), "%s.pftrace.index", id);
    put_file(name,
             "{\"segment\":1,\"begin_ns\":1,\"end_ns\":2,\"reason\":\"end\",\"unresolved\":0}\n");
    wait_for(has_gaps, 1);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 1);
    assert_true(notes[0].is_gap);
    kit_close(&kit);
}

static void a_copy_is_a_run_of_one_segment_that_tells_its_trigger(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];
    char text[32];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_copy(&kit, "ring", "boom", "content", id);
    wait_for(has_segments, 1);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 1);
    assert_string_equal(notes[0].id, id);
    assert_string_equal(notes[0].trigger, "boom");
    assert_int_equal(notes[0].number, 1);
    assert_int_equal(notes[0].reason, PERFLEET__SEGMENT__REASON__COPY);
    assert_int_equal(kit_read(&kit, KIT_COLLECTOR, &notes[0], text, sizeof(text)), 0);
    assert_string_equal(text, "content");
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
}

static void a_copy_that_is_given_up_is_a_gap_that_tells_its_trigger(void **state)
{
    struct pfl_segments_copy_end end = {.why = PERFLEET__SEGMENT_GAP__WHY__QUOTA};
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_begin_copy(&kit, "ring", "boom", id), 0);
    pfl_segments_end_copy(kit.segments, id, &end);
    wait_for(has_gaps, 1);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 1);
    assert_true(notes[0].is_gap);
    assert_int_equal(notes[0].why, PERFLEET__SEGMENT_GAP__WHY__QUOTA);
    assert_string_equal(notes[0].trigger, "boom");
    assert_int_equal(kit_release(&kit, KIT_COLLECTOR, &notes[0]), 0);
    kit_wait(&kit, has_no_files);
    kit_close(&kit);
}

/* With a file it is LOST, without one it is a gap. */
static void a_copy_whose_process_died_is_told_by_the_next_one(void **state)
{
    char with[PFL_SEGMENT_ID_BYTES];
    char without[PFL_SEGMENT_ID_BYTES];
    char path[160];
    FILE *file;

    (void)state;
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_begin_copy(&kit, "ring", "boom", with), 0);
    assert_int_equal(kit_begin_copy(&kit, "ring", "boom", without), 0);
    kit_close(&kit);
    (void)snprintf(path, sizeof(path), "%s/%s.pftrace.000001", kit.dir, with);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("half", file) >= 0);
    assert_int_equal(fclose(file), 0);
    kit_open(&kit, &no_quota);
    wait_for(has_gaps, 1);
    wait_for(has_segments, 1);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 2);
    for (size_t i = 0; i < 2; i++) {
        bool is_with = strcmp(notes[i].id, with) == 0;

        assert_string_equal(notes[i].trigger, "boom");
        assert_int_equal(notes[i].is_gap, !is_with);
        if (is_with)
            assert_int_equal(notes[i].reason, PERFLEET__SEGMENT__REASON__LOST);
        else
            assert_int_equal(notes[i].why, PERFLEET__SEGMENT_GAP__WHY__SERVICE_DIED);
    }
    kit_close(&kit);
}

struct hold {
    struct pfl_work work;
    uv_sem_t sem;
};

static void run_hold(struct pfl_work *work)
{
    uv_sem_wait(&PFL_CONTAINER_OF(work, struct hold, work)->sem);
}

static void on_held(struct pfl_work *work)
{
    (void)work;
}

static void count_begun(void *user, const struct pfl_segments_result *result)
{
    assert_int_equal(result->rc, 0);
    ++*(unsigned *)user;
}

static void a_run_that_begins_does_not_hold_up_the_loop(void **state)
{
    struct kit_run of_session = {"web", NULL};
    struct kit_run of_copy = {"ring", "boom"};
    struct hold hold = {.work = {.run = run_hold, .on_done = on_held}};
    struct pfl_segments_op *op;
    char id[PFL_SEGMENT_ID_BYTES];
    unsigned begun = 0;
    struct pfl_segments_begin begin = {.done = count_begun, .user = &begun};

    (void)state;
    kit_open(&kit, &no_quota);
    assert_int_equal(uv_sem_init(&hold.sem, 0), 0);
    assert_int_equal(pfl_worker_submit(kit.worker, &hold.work), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(kit_submit_run(&kit, &of_session, &begin, id, &op), 0);
        assert_int_equal(kit_submit_run(&kit, &of_copy, &begin, id, &op), 0);
    }
    kit_turn(&kit);
    assert_int_equal(kit_count_files(&kit, ".run"), 0);
    assert_int_equal(begun, 0);
    uv_sem_post(&hold.sem);
    while (begun < 40)
        kit_turn(&kit);
    assert_int_equal(kit_count_files(&kit, ".run"), 40);
    kit_close(&kit);
    uv_sem_destroy(&hold.sem);
}

static void copies_of_an_order_that_nobody_takes_have_a_maximum(void **state)
{
    struct pfl_segments_copy_end end = {.why = PERFLEET__SEGMENT_GAP__WHY__QUOTA};
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    for (unsigned i = 0; i < PFL_SEGMENT_COPIES_OF_ORDER; i++)
        assert_int_equal(kit_begin_copy(&kit, "ring", "boom", id), 0);
    assert_int_equal(kit_begin_copy(&kit, "ring", "boom", id), PFL_ELIMIT);
    assert_int_equal(kit_begin_copy(&kit, "other", "boom", id), 0);
    pfl_segments_end_copy(kit.segments, id, &end);
    kit_begin_run(&kit, "ring", id); /* a session has its room */
    kit_close(&kit);
}

static int open_and_close(void *arg)
{
    struct pfl_segments_conf conf = {.dir = kit.dir, .boot_id = "0f0e"};
    struct pfl_worker_conf worker = {.threads_max = 1};
    uv_loop_t loop;
    int rc;

    (void)arg;
    assert_int_equal(pfl_loop_init(&loop), 0);
    conf.loop = worker.loop = &loop;
    rc = pfl_worker_open(&worker, &conf.worker);
    if (rc == 0) {
        rc = pfl_segments_open(&conf, &kit.segments);
        if (rc == 0)
            pfl_segments_close(kit.segments);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        pfl_worker_close(conf.worker);
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return rc;
}

static void without_memory_it_does_not_open(void **state)
{
    char id[PFL_SEGMENT_ID_BYTES];

    (void)state;
    kit_open(&kit, &no_quota);
    kit_begin_run(&kit, "web", id);
    write_run(id, 3, true);
    wait_for(has_segments, 3);
    kit_close(&kit);
    pfl_sweep(open_and_close, NULL, true);
    kit_open(&kit, &no_quota);
    assert_int_equal(kit_list(&kit, KIT_COLLECTOR, false, notes, 64), 3);
    kit_close(&kit);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_line_of_the_index_becomes_a_segment_until_it_is_released),
        TEST(a_segment_waits_for_a_clock_point_after_its_end),
        TEST(a_segment_does_without_a_clock_point_that_does_not_come),
        TEST(a_segment_is_as_long_by_the_wall_clock_as_by_the_boot_clock),
        TEST(a_release_of_other_bytes_and_other_collectors_are_refused),
        TEST(what_the_quota_removes_is_one_gap),
        TEST(a_clock_that_is_set_ahead_makes_no_segment_old),
        TEST(a_new_process_finds_all_and_goes_on_where_the_last_one_was),
        TEST(a_file_that_somebody_removed_or_changed_is_told_as_a_gap),
        TEST(nothing_in_the_folder_is_believed),
        TEST(an_index_that_makes_no_sense_is_read_no_further),
        TEST(a_shortened_index_is_read_on),
        TEST(an_unfinished_index_goes_with_its_run),
        TEST(numbers_that_the_index_leaves_out_are_a_gap),
        TEST(a_long_index_is_passed_at_once),
        TEST(more_notes_than_the_table_takes_become_gaps_with_numbers),
        TEST(a_full_table_is_not_called_a_full_disk),
        TEST(runs_that_the_table_does_not_take_wait_for_the_next_start),
        TEST(a_link_is_not_followed),
        TEST(a_copy_is_a_run_of_one_segment_that_tells_its_trigger),
        TEST(a_copy_that_is_given_up_is_a_gap_that_tells_its_trigger),
        TEST(a_copy_whose_process_died_is_told_by_the_next_one),
        TEST(a_run_that_begins_does_not_hold_up_the_loop),
        TEST(copies_of_an_order_that_nobody_takes_have_a_maximum),
        TEST(without_memory_it_does_not_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
