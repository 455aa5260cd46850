/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is a guest: a shell, whose builtins try what a guest may not. */
#include "base/sandbox/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/emulator.h"

#define FAILED  99
#define MIB     (1u << 20)
#define SECONDS 10u

static char shell[64];
static char file[] = "/tmp/guest-test-XXXXXX";

/* The guest's exit code, or minus the signal. */
static int run(struct pfl_guest_conf conf, const char *script)
{
    char *argv[] = {shell, (char *)"-c", (char *)(uintptr_t)script, NULL};
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(FAILED);
        _exit(pfl_guest_run(&conf, argv) == PFL_EIO && errno == ENOENT ? FAILED : FAILED + 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static struct pfl_guest_conf conf_of(enum pfl_sandbox_mode mode)
{
    return (struct pfl_guest_conf){
        .mode = mode, .program = shell, .max_bytes = 256 * MIB, .max_seconds = SECONDS};
}

static int try_in(enum pfl_sandbox_mode mode, const char *what)
{
    char script[256];

    (void)snprintf(script, sizeof(script), what, file);
    return run(conf_of(mode), script);
}

static int find_shell(void **state)
{
    int fd = mkstemp(file);

    (void)state;
    (void)close(fd);
    return realpath("/bin/sh", shell) != NULL && fd >= 0 ? 0 : -1;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(file);
}

static void it_reads_what_programs_need_and_nothing_else(void **state)
{
    (void)state;
    if (pfl_guest_find_missing() != NULL)
        skip();
    assert_int_equal(try_in(PFL_SANDBOX_REQUIRE, "exit 7"), 7);
    assert_int_equal(try_in(PFL_SANDBOX_REQUIRE, ": </usr/bin/env; exit 7"), 7);
    assert_int_not_equal(try_in(PFL_SANDBOX_REQUIRE, ": <%s; exit 7"), 7);
    assert_int_not_equal(try_in(PFL_SANDBOX_REQUIRE, ": </etc/passwd; exit 7"), 7);
    assert_int_equal(try_in(PFL_SANDBOX_OFF, ": <%s; exit 7"), 7);
}

static void it_writes_no_file(void **state)
{
    (void)state;
    if (pfl_guest_find_missing() != NULL)
        skip();
    assert_int_not_equal(try_in(PFL_SANDBOX_REQUIRE, ": >%s; exit 7"), 7);
    assert_int_not_equal(try_in(PFL_SANDBOX_REQUIRE, ": >>%s.new; exit 7"), 7);
    assert_int_equal(try_in(PFL_SANDBOX_OFF, ": >%s; exit 7"), 7);
    /* Not even without a sandbox: the bound for files is 0. */
    assert_int_not_equal(try_in(PFL_SANDBOX_OFF, "set -e; echo x >%s; exit 7"), 7);
}

/* That of a parent; a guest may not open it. */
static void it_has_no_descriptor_but_the_standard_ones(void **state)
{
    char script[64];
    int fd = open(file, O_RDWR);

    (void)state;
    assert_in_range(fd, 3, 9);
    (void)snprintf(script, sizeof(script), ": <&%d && exit 7", fd);
    assert_int_not_equal(run(conf_of(PFL_SANDBOX_AUTO), script), 7);
    assert_int_not_equal(run(conf_of(PFL_SANDBOX_OFF), script), 7);
    assert_int_equal(close(fd), 0);
}

static void it_has_no_processes_and_signals_none(void **state)
{
    char script[64];

    (void)state;
    if (pfl_guest_find_missing() != NULL)
        skip();
    assert_int_not_equal(try_in(PFL_SANDBOX_REQUIRE, "(exit 7); exit $?"), 7);
    (void)snprintf(script, sizeof(script), "kill -0 %ld && exit 7", (long)getpid());
    assert_int_not_equal(run(conf_of(PFL_SANDBOX_REQUIRE), script), 7);
    assert_int_equal(run(conf_of(PFL_SANDBOX_OFF), script), 7);
}

/* A thread that executes something outlives its parent. */
static void it_executes_nothing_more(void **state)
{
    char script[128];

    (void)state;
    if (pfl_guest_find_missing() != NULL)
        skip();
    (void)snprintf(script, sizeof(script), "exec %s -c 'exit 7'", shell);
    assert_int_not_equal(run(conf_of(PFL_SANDBOX_REQUIRE), script), 7);
    assert_int_equal(run(conf_of(PFL_SANDBOX_OFF), script), 7);
}

static void it_is_bounded(void **state)
{
    struct pfl_guest_conf conf = conf_of(PFL_SANDBOX_AUTO);

    (void)state;
    conf.max_seconds = 1;
    assert_int_equal(run(conf, "while :; do :; done"), -SIGKILL);
    if (pfl_is_emulated())
        skip(); /* qemu-user sets no bound of the address space */
    conf = conf_of(PFL_SANDBOX_AUTO);
    conf.max_bytes = 32 * MIB;
    assert_int_not_equal(run(conf, "a=x; while :; do a=$a$a; done"), 0);
    /* Threads: only a shell that knows this option can tell. */
    assert_int_not_equal(try_in(PFL_SANDBOX_AUTO, "ulimit -p 17 && exit 7"), 7);
}

static void a_program_that_is_not_there_is_said(void **state)
{
    struct pfl_guest_conf conf = conf_of(PFL_SANDBOX_AUTO);

    (void)state;
    conf.program = "/usr/bin/nothing";
    assert_int_equal(run(conf, ""), FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_what_programs_need_and_nothing_else),
        cmocka_unit_test(it_writes_no_file),
        cmocka_unit_test(it_has_no_descriptor_but_the_standard_ones),
        cmocka_unit_test(it_has_no_processes_and_signals_none),
        cmocka_unit_test(it_executes_nothing_more),
        cmocka_unit_test(it_is_bounded),
        cmocka_unit_test(a_program_that_is_not_there_is_said),
    };

    return cmocka_run_group_tests(tests, find_shell, remove_file);
}
