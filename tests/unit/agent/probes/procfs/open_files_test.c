/* SPDX-License-Identifier: Apache-2.0 */
/* Which open files are in a trace already. */
#include "agent/probes/procfs/open_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static struct pfl_open_file file_of(int32_t pid, int32_t fd)
{
    return (struct pfl_open_file){pid, fd};
}

static void a_file_is_remembered_until_the_set_is_cleared(void **state)
{
    struct pfl_open_files files = {0};

    (void)state;
    assert_false(pfl_open_files_has(&files, file_of(1, 0)));
    for (int32_t pid = 1; pid <= 200; pid++) {
        for (int32_t fd = 0; fd < 50; fd++)
            pfl_open_files_add(&files, file_of(pid, fd));
    }
    pfl_open_files_add(&files, file_of(7, 7)); /* once more */
    assert_int_equal(files.used, 10000);
    for (int32_t pid = 1; pid <= 201; pid++)
        assert_int_equal(pfl_open_files_has(&files, file_of(pid, 49)), pid <= 200);
    assert_false(pfl_open_files_has(&files, file_of(200, 50)));
    pfl_open_files_clear(&files);
    assert_false(pfl_open_files_has(&files, file_of(1, 0)));
    pfl_open_files_fini(&files);
    pfl_sweep_assert_no_leak();
}

/* Of table places that are in use one behind the other. */
static size_t find_longest_run(const struct pfl_open_files *files)
{
    size_t longest = 0;
    size_t run = 0;

    for (size_t i = 0; i < files->slot_count; i++) {
        run = files->slots[i] != 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* By a process that knows how numbers are multiplied, but not the key. */
static void descriptors_chosen_to_meet_do_not_meet(void **state)
{
    const struct pfl_hash_key key = {{0x123456789abcdef0u, 0xfedcba9876543210u}};
    struct pfl_open_files files;
    uint32_t count = 0;

    (void)state;
    pfl_open_files_init(&files, &key);
    for (int32_t fd = 0; count < 3000; fd++) {
        if (((((uint64_t)7 << 32 | (uint32_t)fd) * 0x9e3779b97f4a7c15u) >> 32 & 8191u) >= 100)
            continue;
        pfl_open_files_add(&files, file_of(7, fd));
        count++;
    }
    assert_int_equal(files.slot_count, 8192);
    assert_true(find_longest_run(&files) < 300);
    pfl_open_files_fini(&files);
    pfl_sweep_assert_no_leak();
}

static void a_full_set_takes_no_more(void **state)
{
    struct pfl_open_files files = {0};

    (void)state;
    for (int32_t i = 0; i <= (int32_t)PFL_OPEN_FILES_MAX; i++)
        pfl_open_files_add(&files, file_of(1 + i / 1000, i % 1000));
    assert_int_equal(files.used, PFL_OPEN_FILES_MAX);
    assert_true(files.slot_count <= 2 * PFL_OPEN_FILES_MAX);
    assert_true(pfl_open_files_has(&files, file_of(1, 0)));
    pfl_open_files_fini(&files);
    pfl_sweep_assert_no_leak();
}

static void a_full_list_takes_no_more(void **state)
{
    struct pfl_open_files files = {0};

    (void)state;
    for (int32_t i = 0; i < 5000; i++)
        pfl_open_files_meet(&files, 9, i);
    assert_int_equal(files.fresh_count, PFL_OPEN_FILES_FRESH_MAX);
    pfl_open_files_clear_fresh(&files);
    pfl_open_files_meet(&files, 0, 1);
    pfl_open_files_meet(&files, 9, -1);
    assert_int_equal(files.fresh_count, 0);
    pfl_open_files_fini(&files);
    pfl_sweep_assert_no_leak();
}

/* Processes 1 to `len`, of which each has files[pid - 1]; adds up how many of each are looked at.
 */
static void take_turn(struct pfl_file_turn *turn, uint32_t max, const uint32_t *files, int32_t len,
                      uint32_t *seen)
{
    uint32_t all = 0;

    pfl_file_turn_begin(turn, max);
    for (int32_t pid = 1; pid <= len; pid++) {
        uint32_t count =
            pfl_file_turn_get(turn, pid) != 0 ? pfl_file_turn_take(turn, pid, files[pid - 1]) : 0;

        all += count;
        seen[pid - 1] = count > seen[pid - 1] ? count : seen[pid - 1];
    }
    assert_true(all <= max);
}

static void processes_with_many_files_take_turns(void **state)
{
    const uint32_t files[] = {100, 100, 3, 60, 0, 100, 1};
    struct pfl_file_turn turn = {0};
    uint32_t seen[7] = {0};

    (void)state;
    take_turn(&turn, 100, files, 7, seen);
    assert_int_equal(seen[0], 100);
    assert_int_equal(seen[1], 0);
    for (int i = 0; i < 4; i++)
        take_turn(&turn, 100, files, 7, seen);
    assert_memory_equal(seen, files, sizeof(files));
}

static void all_files_are_looked_at_in_each_turn_that_has_room(void **state)
{
    const uint32_t files[] = {10, 0, 20};
    struct pfl_file_turn turn = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        uint32_t seen[3] = {0};

        take_turn(&turn, 31, files, 3, seen);
        assert_memory_equal(seen, files, sizeof(files));
    }
}

static int fill(void *user)
{
    struct pfl_open_files files = {0};

    (void)user;
    for (int32_t i = 0; i < 2000; i++) {
        pfl_open_files_add(&files, file_of(1, i));
        pfl_open_files_meet(&files, 1, i);
    }
    for (int32_t i = 0; i < 2000; i++)
        (void)pfl_open_files_has(&files, file_of(1, i));
    pfl_open_files_fini(&files);
    return 0;
}

static void without_memory_files_are_left_out(void **state)
{
    (void)state;
    pfl_sweep(fill, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_remembered_until_the_set_is_cleared),
        cmocka_unit_test(descriptors_chosen_to_meet_do_not_meet),
        cmocka_unit_test(a_full_set_takes_no_more),
        cmocka_unit_test(a_full_list_takes_no_more),
        cmocka_unit_test(processes_with_many_files_take_turns),
        cmocka_unit_test(all_files_are_looked_at_in_each_turn_that_has_room),
        cmocka_unit_test(without_memory_files_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
