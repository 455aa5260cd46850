/* SPDX-License-Identifier: Apache-2.0 */
/* An index is shortened: which lines stay, that a reader who looks at any moment has a whole one,
 * and what a process that is killed leaves. */
#include "service/port/disk_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"

#define NAME  "t.index"
#define FRESH "t~.index"

static char path[64];
static int folder;
static int fd;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/perfleet-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    folder = open(path, O_PATH | O_DIRECTORY);
    fd = openat(folder, NAME, O_RDWR | O_CREAT | O_EXCL, 0644);
    return folder >= 0 && fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    (void)state;
    (void)close(fd);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && unlinkat(folder, entry->d_name, 0) != 0)
            (void)unlinkat(folder, entry->d_name, AT_REMOVEDIR);
    }
    (void)closedir(dir);
    (void)close(folder);
    return rmdir(path);
}

static void make_segment(unsigned number)
{
    char name[32];
    int file;

    (void)snprintf(name, sizeof(name), "t.%06u", number);
    file = openat(folder, name, O_WRONLY | O_CREAT, 0644);
    assert_true(file >= 0);
    (void)close(file);
}

static void remove_segment(unsigned number)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "t.%06u", number);
    assert_int_equal(unlinkat(folder, name, 0), 0);
}

static void add_line(unsigned number, unsigned losses)
{
    char line[256];
    int len =
        snprintf(line, sizeof(line),
                 "{\"segment\":%u,\"file\":\"t.%06u\",\"bytes\":5,\"begin_ns\":1,\"end_ns\":2,"
                 "\"reason\":\"time\",\"unresolved\":0,\"losses\":%u}\n",
                 number, number, losses);

    assert_int_equal(write(fd, line, (size_t)len), len);
}

static size_t size_of(const char *name)
{
    struct stat st;

    return fstatat(folder, name, &st, 0) == 0 ? (size_t)st.st_size : 0;
}

/* The numbers in the index, in a text; its first line's are in parentheses. */
static const char *get_numbers(void)
{
    static char out[4096];
    char line[1024];
    size_t len = 0;
    int copy = openat(folder, NAME, O_RDONLY);
    FILE *in = fdopen(copy, "r");

    out[0] = '\0';
    assert_non_null(in);
    while (fgets(line, sizeof(line), in) != NULL) {
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;

        assert_int_equal(line[strlen(line) - 1], '\n');
        if (sscanf(line, "{\"shortened\":%u,\"segments\":%u,\"losses\":%u", &a, &b, &c) == 3) {
            assert_int_equal(len, 0);
            assert_int_equal(strlen(line), PFL_DISK_INDEX_HEAD_BYTES);
            len += (size_t)snprintf(out + len, sizeof(out) - len, "(%u %u %u)", a, b, c);
        } else {
            assert_int_equal(sscanf(line, "{\"segment\":%u,\"file\":\"t.%u\"", &a, &b), 2);
            assert_int_equal(a, b);
            len += (size_t)snprintf(out + len, sizeof(out) - len, " %u", a);
        }
    }
    (void)fclose(in);
    return out;
}

static void lines_of_segments_that_are_gone_leave(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 6; i++) {
        make_segment(i);
        add_line(i, i);
    }
    remove_segment(1);
    remove_segment(2);
    remove_segment(4);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), 0);
    assert_string_equal(get_numbers(), "(1 3 7) 3 5 6");
    make_segment(7);
    add_line(7, 0);
    assert_string_equal(get_numbers(), "(1 3 7) 3 5 6 7");
    remove_segment(3);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), 0);
    add_line(8, 0);
    assert_string_equal(get_numbers(), "(2 4 10) 5 6 7 8");
    assert_int_equal(size_of(FRESH), 0);
}

static void the_last_line_stays(void **state)
{
    (void)state;
    add_line(1, 0);
    add_line(2, 0);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), 0);
    assert_string_equal(get_numbers(), "(1 1 0) 2");
}

static void nothing_is_written_where_no_line_leaves(void **state)
{
    struct stat before;
    struct stat after;

    (void)state;
    make_segment(1);
    add_line(1, 0);
    add_line(2, 0);
    assert_int_equal(fstat(fd, &before), 0);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), 0);
    assert_int_equal(fstat(fd, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_string_equal(get_numbers(), " 1 2");
    assert_int_equal(faccessat(folder, FRESH, F_OK, 0), -1);
}

static void many_lines_are_copied_in_pieces(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 5000; i++)
        add_line(i, 1);
    make_segment(2);
    make_segment(4999);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), 0);
    assert_string_equal(get_numbers(), "(1 4997 4997) 2 4999 5000");
    assert_true(size_of(NAME) < 1000);
}

static void a_file_that_is_not_the_index_stays_as_it_is(void **state)
{
    int other;

    (void)state;
    add_line(1, 0);
    add_line(2, 0);
    assert_int_equal(renameat(folder, NAME, folder, "aside"), 0);
    other = openat(folder, NAME, O_WRONLY | O_CREAT, 0644);
    assert_int_equal(write(other, "x", 1), 1);
    (void)close(other);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), ESTALE);
    assert_int_equal(size_of(NAME), 1);
    add_line(3, 0);
    assert_true(size_of("aside") > 300);
    assert_int_equal(pfl_disk_index_shorten(folder, "t", &fd), EINVAL);
    assert_int_equal(pfl_disk_index_shorten(folder, ".index", &fd), EINVAL);
}

static void a_line_without_an_end_or_of_any_length_is_none(void **state)
{
    static char noise[70000];

    (void)state;
    add_line(1, 0);
    memset(noise, 'x', sizeof(noise));
    assert_int_equal(write(fd, noise, 10), 10);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), EINVAL);
    assert_int_equal(write(fd, noise, sizeof(noise)), sizeof(noise));
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), EINVAL);
    assert_int_equal(faccessat(folder, FRESH, F_OK, 0), -1);
}

static void what_a_killed_process_left_is_replaced(void **state)
{
    int left = openat(folder, FRESH, O_WRONLY | O_CREAT, 0644);

    (void)state;
    assert_int_equal(write(left, "half", 4), 4);
    (void)close(left);
    add_line(1, 0);
    add_line(2, 0);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), 0);
    assert_string_equal(get_numbers(), "(1 1 0) 2");
    /* What is no regular file of ours is not removed. */
    assert_int_equal(mkdirat(folder, FRESH, 0755), 0);
    add_line(3, 0);
    assert_int_equal(pfl_disk_index_shorten(folder, NAME, &fd), EEXIST);
    assert_string_equal(get_numbers(), "(1 1 0) 2 3");
}

/* Writes lines of segments of which it removes all but the newest three, for ever. */
static void write_for_ever(void)
{
    for (unsigned i = 1;; i++) {
        make_segment(i);
        add_line(i, 1);
        if (i > 3)
            remove_segment(i - 3);
        if (i % 4 == 0 && pfl_disk_index_shorten(folder, NAME, &fd) != 0)
            _exit(1);
    }
}

/* At most the last line is cut; each number is counted as one that left, or is there. */
static unsigned check_whole(void)
{
    char text[16384];
    int copy = openat(folder, NAME, O_RDONLY);
    ssize_t len = read(copy, text, sizeof(text) - 1);
    unsigned left = 0;
    unsigned number = 0;
    unsigned last = 0;

    (void)close(copy);
    assert_true(len >= 0 && len < 4096);
    text[len] = '\0';
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if (sscanf(line, "{\"shortened\":%*u,\"segments\":%u", &left) == 1) {
            last = left;
            continue;
        }
        assert_int_equal(sscanf(line, "{\"segment\":%u", &number), 1);
        assert_int_equal(number, ++last);
    }
    return last;
}

static void a_reader_finds_one_whole_index_at_any_moment_and_after_any_kill(void **state)
{
    unsigned lines = 0;

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct timespec pause = {.tv_nsec = 1000000 + rand() % 8000000};
        pid_t child = fork();
        int status = 0;

        if (child == 0)
            write_for_ever();
        for (unsigned i = 0; i < 20; i++)
            (void)check_whole();
        (void)nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        lines += check_whole();
        assert_int_equal(tear_down(NULL), 0);
        assert_int_equal(set_up(NULL), 0);
    }
    assert_true(lines > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_of_segments_that_are_gone_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_line_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_written_where_no_line_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_lines_are_copied_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_not_the_index_stays_as_it_is, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_line_without_an_end_or_of_any_length_is_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_killed_process_left_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_reader_finds_one_whole_index_at_any_moment_and_after_any_kill, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
