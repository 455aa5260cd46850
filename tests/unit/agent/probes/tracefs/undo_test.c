/* SPDX-License-Identifier: Apache-2.0 */
/* The journal as a file: what a program that was killed has noted is put back, also when the disk
 * had been full in between. */
#include "agent/probes/tracefs/undo.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static char place[] = "/tmp/pfl-undo-XXXXXX";
static int root_fd;
static const int a;
static const int b;

static void write_file(const char *name, const char *text)
{
    int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) != 0)
        abort();
}

static void assert_file(const char *name, const char *text)
{
    char got[32] = {0};
    int fd = openat(root_fd, name, O_RDONLY);

    assert_true(fd >= 0);
    assert_true(read(fd, got, sizeof(got) - 1) >= 0);
    close(fd);
    got[strcspn(got, "\n")] = '\0';
    assert_string_equal(got, text);
}

static void change(struct pfl_undo *undo, const void *owner, const char *name)
{
    if (pfl_undo_add(undo, owner, PFL_UNDO_WRITE, name, "old") != 0)
        abort();
    write_file(name, "new");
}

/* As a full disk: files may grow by `bytes` more than the journal has. */
static void limit_journal(const struct pfl_undo *undo, rlim_t bytes)
{
    struct rlimit limit;
    struct stat journal;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || fstat(undo->file_fd, &journal) != 0)
        abort();
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : (rlim_t)journal.st_size + bytes;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        abort();
}

/* A program that ends without an end; `room` is what the disk has when it gets full. */
static void in_a_program(void (*life)(struct pfl_undo *undo, rlim_t room), rlim_t room)
{
    pid_t pid;
    int status;

    for (const char *name = "xyz"; *name != '\0'; name++)
        write_file((char[]){*name, '\0'}, "old");
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct pfl_undo undo;

        signal(SIGXFSZ, SIG_IGN);
        pfl_undo_init(&undo, root_fd);
        life(&undo, room);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void note_with_a_full_disk(struct pfl_undo *undo, rlim_t room)
{
    change(undo, &a, "x");
    limit_journal(undo, room);
    change(undo, &a, "y");
    limit_journal(undo, RLIM_INFINITY);
    change(undo, &a, "z");
}

static void a_half_written_line_swallows_nothing(void **state)
{
    (void)state;
    for (rlim_t room = 0; room <= 10; room++) {
        in_a_program(note_with_a_full_disk, room);
        assert_int_equal(pfl_undo_run_stale(root_fd), 1);
        assert_file("x", "old");
        assert_file("y", "old");
        assert_file("z", "old");
        assert_int_equal(pfl_undo_run_stale(root_fd), 0);
    }
}

static void undo_with_a_full_disk(struct pfl_undo *undo, rlim_t room)
{
    change(undo, &a, "x");
    change(undo, &b, "y");
    limit_journal(undo, room);
    pfl_undo_run(undo, &a);
    limit_journal(undo, RLIM_INFINITY);
    change(undo, &b, "z");
    write_file("x", "theirs");
}

static void what_was_undone_while_the_disk_was_full_is_not_undone_again(void **state)
{
    (void)state;
    for (rlim_t room = 0; room <= 4; room++) {
        in_a_program(undo_with_a_full_disk, room);
        assert_int_equal(pfl_undo_run_stale(root_fd), 1);
        assert_file("x", "theirs");
        assert_file("y", "old");
        assert_file("z", "old");
    }
}

static void make_folder(struct pfl_undo *undo, rlim_t room)
{
    (void)room;
    if (pfl_undo_add(undo, &a, PFL_UNDO_RMDIR, "instances/a..b", "") != 0 ||
        mkdirat(root_fd, "instances", 0700) != 0 || mkdirat(root_fd, "instances/a..b", 0700) != 0)
        abort();
}

static void a_name_with_dots_is_a_name(void **state)
{
    (void)state;
    in_a_program(make_folder, 0);
    assert_int_equal(pfl_undo_run_stale(root_fd), 1);
    assert_int_equal(faccessat(root_fd, "instances/a..b", F_OK, 0), -1);
    assert_int_equal(unlinkat(root_fd, "instances", AT_REMOVEDIR), 0);
}

/* Another program's now: two of three files. */
static void leave_two(struct pfl_undo *undo, rlim_t room)
{
    (void)room;
    change(undo, &a, "x");
    change(undo, &b, "y");
    change(undo, &a, "z");
    pfl_undo_forget(undo, &a, "z");
    pfl_undo_forget(undo, &a, "y"); /* another owner's */
    pfl_undo_forget(undo, &b, NULL);
}

static void what_was_forgotten_stays_as_it_is(void **state)
{
    (void)state;
    in_a_program(leave_two, 0);
    assert_int_equal(pfl_undo_run_stale(root_fd), 1);
    assert_file("x", "old");
    assert_file("y", "new");
    assert_file("z", "new");
}

static void leave_all(struct pfl_undo *undo, rlim_t room)
{
    (void)room;
    change(undo, &a, "x");
    change(undo, &a, "y");
    pfl_undo_forget(undo, &a, NULL);
    change(undo, &a, "z");
    pfl_undo_forget(undo, &a, NULL);
}

static void a_journal_of_nothing_else_is_gone(void **state)
{
    (void)state;
    in_a_program(leave_all, 0);
    assert_int_equal(pfl_undo_run_stale(root_fd), 0);
    assert_file("x", "new");
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(place) == NULL || setenv("RUNTIME_DIRECTORY", place, 1) != 0)
        return -1;
    root_fd = open(place, O_RDONLY | O_DIRECTORY);
    return root_fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    for (const char *name = "xyz"; *name != '\0'; name++)
        (void)unlinkat(root_fd, (char[]){*name, '\0'}, 0);
    close(root_fd);
    pfl_sweep_assert_no_leak();
    return rmdir(place); /* no journal is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_half_written_line_swallows_nothing),
        cmocka_unit_test(what_was_undone_while_the_disk_was_full_is_not_undone_again),
        cmocka_unit_test(a_name_with_dots_is_a_name),
        cmocka_unit_test(what_was_forgotten_stays_as_it_is),
        cmocka_unit_test(a_journal_of_nothing_else_is_gone),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
