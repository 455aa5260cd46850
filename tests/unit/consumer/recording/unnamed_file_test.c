/* SPDX-License-Identifier: Apache-2.0 */
/* A file without a name: how large another process may make it, and what stays free of the disk. */
#include "consumer/recording/unnamed_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"

static void a_part_of_the_disk_stays_free(void **state)
{
    (void)state;
    assert_int_equal(pfl_unnamed_file_keep_free(0), 0);
    assert_int_equal(pfl_unnamed_file_keep_free(100u << 20), 5u << 20);
    assert_int_equal(pfl_unnamed_file_keep_free(20ull << 30), 1u << 30);
    assert_int_equal(pfl_unnamed_file_keep_free(UINT64_MAX), 1u << 30);
}

static void another_process_may_write_up_to_the_maximum(void **state)
{
    struct pfl_unnamed_file file;
    char why[128] = "";

    (void)state;
    assert_int_equal(setenv("TMPDIR", "/tmp", 1), 0);
    assert_true(pfl_unnamed_file_open(&file, why, sizeof(why)));
    assert_int_equal(ftruncate(file.fd, 1 << 20), 0);
    assert_true(pfl_unnamed_file_has_room(&file, 1u << 20, why, sizeof(why)));
    assert_string_equal(why, "");
    assert_int_equal(ftruncate(file.fd, (1 << 20) + 1), 0);
    assert_false(pfl_unnamed_file_has_room(&file, 1u << 20, why, sizeof(why)));
    assert_string_equal(why, "the trace has more than 1 MiB");
    pfl_unnamed_file_close(&file);
    pfl_closer_wait();
}

static void a_folder_that_takes_no_file_is_named(void **state)
{
    struct pfl_unnamed_file file;
    char why[256] = "";

    (void)state;
    assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
    assert_false(pfl_unnamed_file_open(&file, why, sizeof(why)));
    assert_non_null(strstr(why, "no file for the trace can be made in /nowhere: No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_the_disk_stays_free),
        cmocka_unit_test(another_process_may_write_up_to_the_maximum),
        cmocka_unit_test(a_folder_that_takes_no_file_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
