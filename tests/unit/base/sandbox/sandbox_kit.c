/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children in the sandbox.
 *
 * try: fork; the child enters, acts, and leaves with the errno as its exit code; the parent reads
 * how it ended. The child's log goes nowhere. child_has: the child waits on a pipe while the parent
 * reads its status. Failure of the kit itself fails the test by an assertion in the parent.
 */
#include "tests/unit/base/sandbox/sandbox_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define EXIT_OUTSIDE 250

static void make_folder(char *path, size_t path_len)
{
    char name[96];
    FILE *file;

    (void)snprintf(path, path_len, "/tmp/pfl-sandbox-XXXXXX");
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 0777), 0);
    (void)snprintf(name, sizeof(name), "%s/there", path);
    file = fopen(name, "we");
    assert_non_null(file);
    (void)fputs("there", file);
    assert_int_equal(fclose(file), 0);
}

void kit_init(struct kit *kit)
{
    *kit = (struct kit){.folder = {.rights = 0}};
    make_folder(kit->inside, sizeof(kit->inside));
    make_folder(kit->outside, sizeof(kit->outside));
    kit->folder.path = kit->inside;
    kit->conf.folders = &kit->folder;
    kit->conf.folders_len = 1;
}

static void remove_folder(const char *path)
{
    static const char *const names[] = {"there", "new", "socket"};
    char name[96];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", path, names[i]);
        (void)unlink(name);
    }
    assert_int_equal(rmdir(path), 0);
}

void kit_fini(struct kit *kit)
{
    remove_folder(kit->inside);
    remove_folder(kit->outside);
}

static void silence(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)dup2(fd, STDERR_FILENO);
}

static int wait_for(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGSYS);
        return KIT_KILLED;
    }
    return WEXITSTATUS(status) == EXIT_OUTSIDE ? KIT_OUTSIDE : WEXITSTATUS(status);
}

int kit_try(const struct kit *kit, kit_act_fn act)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return wait_for(pid);
    silence();
    if (pfl_sandbox_enter(&kit->conf) != 0)
        _exit(EXIT_OUTSIDE);
    _exit(act(kit));
}

/* landlock_create_ruleset fails with ENOSYS, and no further filter is accepted. */
static bool make_kernel_old(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 444, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

int kit_enter_on_old_kernel(const struct kit *kit)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return -wait_for(pid);
    silence();
    if (!make_kernel_old())
        _exit(EXIT_OUTSIDE);
    _exit(-pfl_sandbox_enter(&kit->conf));
}

static bool has_line(pid_t pid, const char *field, const char *value)
{
    char path[64];
    char line[256];
    char wanted[128];
    bool is_found = false;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    (void)snprintf(wanted, sizeof(wanted), "%s:\t%s\n", field, value);
    file = fopen(path, "re");
    assert_non_null(file);
    while (!is_found && fgets(line, sizeof(line), file) != NULL)
        is_found = strcmp(line, wanted) == 0;
    (void)fclose(file);
    return is_found;
}

bool kit_child_has(const struct kit *kit, const char *field, const char *value)
{
    char byte = 0;
    bool is_found;
    int up[2];
    int down[2];
    pid_t pid;

    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    assert_int_equal(pipe2(down, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        silence();
        (void)close(down[1]);
        if (pfl_sandbox_enter(&kit->conf) != 0 || write(up[1], "1", 1) != 1)
            _exit(EXIT_OUTSIDE);
        _exit((int)read(down[0], &byte, 1)); /* 0: the parent has looked */
    }
    (void)close(up[1]);
    assert_int_equal(read(up[0], &byte, 1), 1);
    is_found = has_line(pid, field, value);
    (void)close(down[1]);
    assert_int_equal(wait_for(pid), 0);
    (void)close(up[0]);
    (void)close(down[0]);
    return is_found;
}
