/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of all sizes become the file that they were cut from, whatever the file system takes. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "collector/store/direct_file.h"

#define BLOCK PFL_DIRECT_FILE_BLOCK_BYTES
#define BYTES (3 * BLOCK + 12345)

static uint8_t content[BYTES];
static uint8_t found[BYTES + 2];
static struct pfl_direct_file file;

static int begin(void **state)
{
    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        content[i] = (uint8_t)(i * 2654435761u >> 24);
    return 0;
}

static int end(void **state)
{
    (void)state;
    pfl_direct_file_clear(&file);
    return 0;
}

static int open_file(void)
{
    char path[] = "/tmp/perfleet-test-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static void write_in_pieces(size_t bytes, size_t piece)
{
    for (size_t at = 0; at < bytes; at += piece) {
        size_t len = bytes - at < piece ? bytes - at : piece;

        assert_int_equal(pfl_direct_file_write(&file, pfl_span_of(content + at, len)), 0);
    }
    assert_int_equal(pfl_direct_file_end(&file), 0);
}

/* Closes it. */
static void check(int fd, size_t skip, size_t bytes)
{
    assert_int_equal(pread(fd, found, sizeof(found), (off_t)skip), bytes);
    assert_memory_equal(found, content, bytes);
    assert_int_equal(close(fd), 0);
}

static void a_file_has_what_was_written_in_pieces(void **state)
{
    static const size_t pieces[] = {1000, 4096, BLOCK - 1, BLOCK, BLOCK + 1, BYTES};
    static const size_t sizes[] = {0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            int fd = open_file();

            pfl_direct_file_begin(&file, fd, sizes[j]);
            write_in_pieces(sizes[j], pieces[i]);
            check(fd, 0, sizes[j]);
        }
}

static void a_large_file_goes_past_the_cache_and_a_small_one_does_not(void **state)
{
    int fd = open_file();

    (void)state;
    pfl_direct_file_begin(&file, fd, BLOCK);
    assert_int_equal(file.is_direct, (fcntl(fd, F_GETFL) & O_DIRECT) != 0);
    if (!file.is_direct)
        skip(); /* a file system that has no such writes */
    pfl_direct_file_begin(&file, fd, BLOCK - 1);
    assert_false(file.is_direct);
    assert_int_equal(close(fd), 0);
}

/* An offset that is no whole sector: EINVAL. */
static void a_refused_direct_write_becomes_an_ordinary_one(void **state)
{
    int fd = open_file();

    (void)state;
    assert_int_equal(lseek(fd, 1, SEEK_SET), 1);
    pfl_direct_file_begin(&file, fd, BYTES);
    write_in_pieces(BYTES, 100000);
    check(fd, 1, BYTES);
}

static void a_file_without_memory_is_an_ordinary_one(void **state)
{
    int fd = open_file();

    (void)state;
    pfl_mem_fail_at(1);
    pfl_direct_file_begin(&file, fd, BYTES);
    pfl_mem_fail_at(0);
    assert_false(file.is_direct);
    write_in_pieces(BYTES, 65536);
    check(fd, 0, BYTES);
}

static void a_put_that_was_given_up_leaves_nothing_for_the_next(void **state)
{
    int given_up = open_file();
    int fd = open_file();

    (void)state;
    pfl_direct_file_begin(&file, given_up, BYTES);
    assert_int_equal(pfl_direct_file_write(&file, pfl_span_of(content + 7, BLOCK / 2)), 0);
    pfl_direct_file_begin(&file, fd, BYTES);
    write_in_pieces(BYTES, 65536);
    check(fd, 0, BYTES);
    assert_int_equal(close(given_up), 0);
}

static void a_full_disk_is_reported(void **state)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    pfl_direct_file_begin(&file, fd, BLOCK);
    assert_true(pfl_direct_file_write(&file, pfl_span_of(content, BLOCK)) != 0 ||
                pfl_direct_file_end(&file) != 0);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_has_what_was_written_in_pieces, begin, end),
        cmocka_unit_test_setup_teardown(a_large_file_goes_past_the_cache_and_a_small_one_does_not,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_refused_direct_write_becomes_an_ordinary_one, begin, end),
        cmocka_unit_test_setup_teardown(a_file_without_memory_is_an_ordinary_one, begin, end),
        cmocka_unit_test_setup_teardown(a_put_that_was_given_up_leaves_nothing_for_the_next, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_full_disk_is_reported, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
