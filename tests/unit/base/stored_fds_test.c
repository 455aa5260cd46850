/* SPDX-License-Identifier: Apache-2.0 */
/* What a manager kept. Each test is a process of its own: descriptors from 3 on are its subject. */
#include "base/stored_fds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/listen_fds.h"
#include "tests/support/sweep.h"

#define EXPECT(claim)                                                                              \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            (void)fprintf(stderr, "line %d: %s\n", __LINE__, #claim);                              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void in_process(void (*body)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void set_number(const char *variable, long value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%ld", value);
    EXPECT(setenv(variable, text, 1) == 0);
}

/* Memory files with their number as content at 3, 4, ... */
static void give(long pid, unsigned count, const char *names)
{
    (void)close_range(PFL_STORED_FDS_FIRST, ~0u, 0);
    for (unsigned i = 0; i < count; i++) {
        int fd = memfd_create("kept", 0);

        EXPECT(fd == PFL_STORED_FDS_FIRST + (int)i);
        EXPECT(write(fd, &i, sizeof(i)) == sizeof(i));
    }
    set_number("LISTEN_PID", pid);
    set_number("LISTEN_FDS", count);
    if (names != NULL)
        EXPECT(setenv("LISTEN_FDNAMES", names, 1) == 0);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void take_three(void)
{
    struct pfl_stored_fds fds;

    give(getpid(), 3, "memory-a::memory-a");
    EXPECT(pfl_stored_fds_take(&fds) == 0);
    EXPECT(fds.len == 3 && fds.has_names && fds.left_out == 0);
    EXPECT(strcmp(fds.list[0].name, "memory-a") == 0 && strcmp(fds.list[1].name, "") == 0 &&
           strcmp(fds.list[2].name, "memory-a") == 0);
    for (unsigned i = 0; i < 3; i++) {
        unsigned number;

        EXPECT(pread(fds.list[i].fd, &number, sizeof(number), 0) == sizeof(number) && number == i);
        EXPECT(fcntl(fds.list[i].fd, F_GETFD) == FD_CLOEXEC);
    }
    EXPECT(getenv("LISTEN_PID") == NULL && getenv("LISTEN_FDS") == NULL &&
           getenv("LISTEN_FDNAMES") == NULL);
    fds.list[1].fd = -1;
    pfl_stored_fds_fini(&fds);
    EXPECT(!is_open(3) && is_open(4) && !is_open(5));
    EXPECT(pfl_stored_fds_take(&fds) == 0 && fds.len == 0);
    pfl_stored_fds_fini(&fds);
}

static void what_was_kept_is_there_once_with_its_name(void **state)
{
    (void)state;
    in_process(take_three);
}

static void take_of_another(void)
{
    struct pfl_stored_fds fds;

    give(getppid(), 2, "a:b");
    EXPECT(pfl_stored_fds_take(&fds) == 0 && fds.len == 0);
    EXPECT(is_open(3) && is_open(4) && getenv("LISTEN_PID") != NULL);
    pfl_stored_fds_fini(&fds);
}

static void what_another_process_shall_have_is_left_alone(void **state)
{
    (void)state;
    in_process(take_of_another);
}

static void take_bad(void)
{
    static char names[256];
    struct pfl_stored_fds fds;

    memset(names, 'n', 64 + 1 + 63);
    names[64] = ':';
    give(getpid(), 3, names);
    set_number("LISTEN_FDS", 4);
    EXPECT(pfl_stored_fds_take(&fds) == 0);
    EXPECT(fds.len == 2 && fds.left_out == 2 && !is_open(3));
    EXPECT(fds.list[0].fd == 4 && strlen(fds.list[0].name) == 63);
    EXPECT(fds.list[1].fd == 5 && fds.list[1].name[0] == '\0');
    pfl_stored_fds_fini(&fds);
    give(getpid(), 2, "a:b");
    EXPECT(setenv("LISTEN_FDS", "2x", 1) == 0);
    EXPECT(pfl_stored_fds_take(&fds) == 0 && fds.len == 0);
    pfl_stored_fds_fini(&fds);
}

static void what_is_not_open_or_has_no_good_name_is_left_out(void **state)
{
    (void)state;
    in_process(take_bad);
}

static void take_too_many(void)
{
    struct pfl_stored_fds fds;

    give(getpid(), 2, "a:b");
    set_number("LISTEN_FDS", PFL_STORED_FDS_MAX + 1);
    EXPECT(pfl_stored_fds_take(&fds) == PFL_ELIMIT && fds.len == 0 && !is_open(3) && !is_open(4));
    pfl_stored_fds_fini(&fds);
    give(getpid(), 2, "a:b");
    EXPECT(setenv("LISTEN_FDS", "18446744073709551615", 1) == 0);
    EXPECT(pfl_stored_fds_take(&fds) == PFL_ELIMIT && fds.len == 0 && !is_open(3));
    pfl_stored_fds_fini(&fds);
}

static void more_than_the_maximum_is_refused_and_closed(void **state)
{
    (void)state;
    in_process(take_too_many);
}

static int take_again(void *arg)
{
    struct pfl_stored_fds fds;
    int rc;

    (void)arg;
    give(getpid(), 2, "a:b");
    rc = pfl_stored_fds_take(&fds);
    EXPECT(rc == 0 ? fds.len == 2 : rc == PFL_ENOMEM && fds.len == 0 && !is_open(3) && !is_open(4));
    pfl_stored_fds_fini(&fds);
    return rc;
}

static void sweep_take(void)
{
    pfl_sweep(take_again, NULL, false);
}

static void without_memory_all_are_closed(void **state)
{
    (void)state;
    in_process(sweep_take);
}

static void listen_on_files(void)
{
    struct pfl_listen_fds fds;

    give(getpid(), 1, "a");
    EXPECT(pfl_listen_fds_take(&fds) == PFL_EINVAL);
    give(getpid(), 1, "a");
    set_number("LISTEN_FDS", 2);
    EXPECT(pfl_listen_fds_take(&fds) == PFL_EINVAL);
    give(getpid(), 0, NULL);
    EXPECT(pfl_listen_fds_take(&fds) == 0 && fds.len == 0);
}

static void files_are_no_listening_sockets(void **state)
{
    (void)state;
    in_process(listen_on_files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_kept_is_there_once_with_its_name),
        cmocka_unit_test(what_another_process_shall_have_is_left_alone),
        cmocka_unit_test(what_is_not_open_or_has_no_good_name_is_left_out),
        cmocka_unit_test(more_than_the_maximum_is_refused_and_closed),
        cmocka_unit_test(without_memory_all_are_closed),
        cmocka_unit_test(files_are_no_listening_sockets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
