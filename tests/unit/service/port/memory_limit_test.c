/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of a cgroup's memory, as the kernel's files say it. */
#include "service/port/memory_limit.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[64];
static char cgroups[128];

static void put(const char *path, const char *text)
{
    char full[256];
    FILE *file;

    (void)snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    file = fopen(full, "w");
    assert_non_null(file);
    if (file == NULL)
        return;
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int open_all(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/pfl-memory-limit-XXXXXX");
    assert_non_null(mkdtemp(root));
    (void)snprintf(cgroups, sizeof(cgroups), "%s/cgroup", root);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(path);
}

static int close_all(void **state)
{
    (void)state;
    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    return 0;
}

static uint64_t read_limit(const char *lines)
{
    put("cgroup", lines);
    return pfl_memory_limit_read(cgroups, root);
}

static void the_lowest_of_the_groups_above_counts(void **state)
{
    (void)state;
    put("a/memory.max", "5000000\n");
    put("a/b/memory.max", "max\n");
    put("a/b/c/memory.max", "7000000\n");
    assert_int_equal(read_limit("0::/a/b/c\n"), 5000000);
    assert_int_equal(read_limit("0::/a/b/c/of/the/host\n"), 5000000);
    assert_int_equal(read_limit("0::/elsewhere\n"), 0);
    put("memory.max", "3000000\n");
    assert_int_equal(read_limit("0::/\n"), 3000000);
    assert_int_equal(read_limit("0::/elsewhere\n"), 3000000);
}

static void version_1_has_another_file_and_a_number_for_no_limit(void **state)
{
    (void)state;
    put("memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    put("cpu/x/memory.limit_in_bytes", "1\n");
    assert_int_equal(read_limit("3:cpu:/x\n2:memory:/x\n0::/\n"), 0);
    put("memory/x/memory.limit_in_bytes", "1073741824\n");
    assert_int_equal(read_limit("3:cpu:/x\n2:memory:/x\n0::/\n"), 1073741824);
}

static void what_makes_no_sense_is_no_limit(void **state)
{
    (void)state;
    put("memory.max", "\n");
    assert_int_equal(read_limit(""), 0);
    assert_int_equal(read_limit("0:\nno\n0::\n"), 0);
    assert_int_equal(pfl_memory_limit_read("/nowhere", root), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_lowest_of_the_groups_above_counts),
        TEST(version_1_has_another_file_and_a_number_for_no_limit),
        TEST(what_makes_no_sense_is_no_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
