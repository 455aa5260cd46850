/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox against this kernel: what is forbidden is refused, what a program said it needs
 * works. Each claim is tried by a child process that entered with the same library as the daemons.
 * Claims that need root, or a kernel with Landlock, are skipped without.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/base/sandbox/sandbox_kit.h"

static pid_t parent;

static int errno_of(bool has_worked)
{
    return has_worked ? KIT_WORKED : errno;
}

static int open_in(const char *folder, const char *name, int flags)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return errno_of(open(path, flags | O_CLOEXEC, 0600) >= 0);
}

static void need_landlock(void)
{
    if (syscall(444, NULL, 0, 1u) < 1)
        skip();
}

/* ---- processes and privileges ---- */

static int run_program(const struct kit *kit)
{
    char *argv[] = {"/bin/true", NULL};

    (void)kit;
    (void)execve(argv[0], argv, NULL);
    return errno;
}

static int fork_process(const struct kit *kit)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    (void)kit;
    if (pid == 0)
        _exit(0);
    return errno_of(pid > 0);
}

static int trace_parent(const struct kit *kit)
{
    (void)kit;
    return errno_of(ptrace(PTRACE_ATTACH, parent, NULL, NULL) == 0);
}

static int become_root(const struct kit *kit)
{
    (void)kit;
    return errno_of(setuid(0) == 0);
}

static int leave_namespace(const struct kit *kit)
{
    (void)kit;
    return errno_of(syscall(SYS_unshare, 0x10000000) == 0);
}

static int signal_process(const struct kit *kit)
{
    (void)kit;
    return errno_of(syscall(SYS_kill, parent, 0) == 0);
}

static int make_code(const struct kit *kit)
{
    (void)kit;
    return errno_of(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static int turn_data_into_code(const struct kit *kit)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)kit;
    return errno_of(page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
}

static int raise_limit(const struct kit *kit)
{
    struct rlimit limit = {0};

    (void)kit;
    return errno_of(setrlimit(RLIMIT_CORE, &limit) == 0);
}

static int make_ring(const struct kit *kit)
{
    unsigned params[30] = {0}; /* struct io_uring_params */

    (void)kit;
    return errno_of(syscall(SYS_io_uring_setup, 8u, params) >= 0);
}

static int ring_made_outside = -1;

static int use_ring_made_outside(const struct kit *kit)
{
    (void)kit; /* 8: a probe, for no operation */
    return errno_of(syscall(SYS_io_uring_enter, ring_made_outside, 0u, 0u, 0u, NULL, 0u) >= 0 ||
                    syscall(SYS_io_uring_register, ring_made_outside, 8u, NULL, 0u) >= 0);
}

static int fork_and_kill(const struct kit *kit)
{
    pid_t pid = fork();
    int status = 0;

    (void)kit;
    if (pid < 0)
        return errno;
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
            (void)sched_yield();
    }
    return errno_of(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid &&
                    WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int fork_into_namespace(const struct kit *kit)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    (void)kit;
    if (pid == 0)
        _exit(0);
    return errno_of(pid > 0);
}

static int fork_beside(const struct kit *kit)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

    (void)kit;
    if (pid == 0)
        _exit(0);
    return errno_of(pid > 0);
}

static int end_forks_then_fork(const struct kit *kit)
{
    return pfl_sandbox_end_forks() == 0 ? fork_process(kit) : EBADMSG;
}

static int end_forks_then_kill(const struct kit *kit)
{
    (void)kit;
    return pfl_sandbox_end_forks() == 0 ? errno_of(kill(getpid(), SIGKILL) == 0) : EBADMSG;
}

static void programs_users_and_namespaces_kill(void **state)
{
    assert_int_equal(kit_try(*state, run_program), KIT_KILLED);
    assert_int_equal(kit_try(*state, become_root), KIT_KILLED);
    assert_int_equal(kit_try(*state, leave_namespace), KIT_KILLED);
#ifndef PFL_SANITIZED
    assert_int_equal(kit_try(*state, trace_parent), KIT_KILLED);
#endif
}

static void processes_signals_and_code_are_refused(void **state)
{
    assert_int_equal(kit_try(*state, make_code), EPERM);
    assert_int_equal(kit_try(*state, turn_data_into_code), EPERM);
#ifndef PFL_SANITIZED
    assert_int_equal(kit_try(*state, fork_process), EPERM);
    assert_int_equal(kit_try(*state, signal_process), EPERM);
    assert_int_equal(kit_try(*state, raise_limit), EPERM);
#else
    (void)fork_process;
    (void)signal_process;
    (void)raise_limit;
    (void)trace_parent;
#endif
}

static void with_the_need_children_are_made_and_killed(void **state)
{
    struct kit *kit = *state;

    kit->conf.needs = PFL_SANDBOX_FORKS;
    assert_int_equal(kit_try(kit, fork_and_kill), KIT_WORKED);
    assert_int_equal(kit_try(kit, run_program), KIT_KILLED);
#ifndef PFL_SANITIZED
    assert_int_equal(kit_try(kit, signal_process), EPERM); /* another signal */
    assert_int_equal(kit_try(kit, fork_into_namespace), EPERM);
    assert_int_equal(kit_try(kit, fork_beside), EPERM);
#else
    (void)fork_into_namespace;
    (void)fork_beside;
#endif
}

static void a_child_gives_the_need_up(void **state)
{
    struct kit *kit = *state;

    kit->conf.needs = PFL_SANDBOX_FORKS;
    assert_int_equal(kit_try(kit, end_forks_then_fork), EPERM);
    assert_int_equal(kit_try(kit, end_forks_then_kill), EPERM);
}

/* What a ring does, no list of system calls sees. */
static void io_uring_is_refused(void **state)
{
    unsigned params[30] = {0};

    assert_int_equal(kit_try(*state, make_ring), EPERM);
    ring_made_outside = (int)syscall(SYS_io_uring_setup, 8u, params);
    assert_int_equal(kit_try(*state, use_ring_made_outside), EPERM);
    if (ring_made_outside >= 0)
        (void)close(ring_made_outside);
}

static void no_privilege_is_left(void **state)
{
    struct kit *kit = *state;

    assert_true(kit_child_has(kit, "NoNewPrivs", "1"));
    assert_true(kit_child_has(kit, "Seccomp", "2"));
    assert_true(kit_child_has(kit, "CapEff", "0000000000000000"));
    assert_true(kit_child_has(kit, "CapPrm", "0000000000000000"));
    if (geteuid() == 0)
        assert_true(kit_child_has(kit, "CapBnd", "0000000000000000"));
}

static void off_leaves_calls_but_takes_new_privileges(void **state)
{
    struct kit *kit = *state;

    kit->conf.mode = PFL_SANDBOX_OFF;
    assert_true(kit_child_has(kit, "NoNewPrivs", "1"));
    assert_true(kit_child_has(kit, "Seccomp", "0"));
    assert_int_equal(kit_try(kit, make_code), KIT_WORKED);
}

static void root_becomes_the_user(void **state)
{
    struct kit *kit = *state;

    if (geteuid() != 0)
        skip();
    kit->conf.user = "65534";
    assert_true(kit_child_has(kit, "Uid", "65534\t65534\t65534\t65534"));
    assert_true(kit_child_has(kit, "Gid", "65534\t65534\t65534\t65534"));
    assert_true(kit_child_has(kit, "CapBnd", "0000000000000000"));
    kit->conf.user = "12345"; /* in no database: no groups */
    assert_true(kit_child_has(kit, "Uid", "12345\t12345\t12345\t12345"));
    assert_true(kit_child_has(kit, "Groups", " "));
}

static void a_user_that_is_not_there_ends_the_start(void **state)
{
    struct kit *kit = *state;

    kit->conf.user = "no such user";
    assert_int_equal(kit_try(kit, make_code), KIT_OUTSIDE);
}

static int boost(const struct kit *kit)
{
    const struct sched_param param = {0};

    (void)kit;
    return errno_of(sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &param) == 0);
}

static int boost_parent(const struct kit *kit)
{
    const struct sched_param param = {0};

    (void)kit;
    return errno_of(sched_setscheduler(parent, SCHED_BATCH, &param) == 0);
}

static int step_back(const struct kit *kit)
{
    (void)kit;
    return errno_of(setpriority(PRIO_PROCESS, 0, 19) == 0);
}

static int push_parent_back(const struct kit *kit)
{
    (void)kit;
    return errno_of(setpriority(PRIO_PROCESS, (id_t)parent, 1) == 0);
}

static void priorities_are_its_own(void **state)
{
    struct kit *kit = *state;

    assert_int_equal(kit_try(kit, step_back), KIT_WORKED);
    assert_int_equal(kit_try(kit, push_parent_back), EPERM);
    assert_int_equal(kit_try(kit, boost), EPERM);
    kit->conf.needs = PFL_SANDBOX_BOOSTS;
    assert_int_equal(kit_try(kit, boost), KIT_WORKED);
    assert_int_equal(kit_try(kit, boost_parent), EPERM);
}

static void of_capabilities_only_the_needed_one_stays(void **state)
{
    struct kit *kit = *state;

    if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_SYS_NICE, 0, 0, 0) != 1)
        skip();
    kit->conf.needs = PFL_SANDBOX_BOOSTS;
    assert_true(kit_child_has(kit, "CapEff", "0000000000800000"));
    assert_true(kit_child_has(kit, "CapBnd", "0000000000000000"));
}

/* ---- sockets ---- */

static int make_tcp(const struct kit *kit)
{
    (void)kit;
    return errno_of(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
}

static int make_unix(const struct kit *kit)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/nobody", kit->inside);
    return errno_of(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
}

static int make_pair(const struct kit *kit)
{
    int ends[2];

    (void)kit;
    return errno_of(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
}

static int make_pair_elsewhere(const struct kit *kit)
{
    int ends[2];

    (void)kit;
    return errno_of(socketpair(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
}

static void sockets_are_refused(void **state)
{
    assert_int_equal(kit_try(*state, make_tcp), EPERM);
    assert_int_equal(kit_try(*state, make_unix), EPERM);
    assert_int_equal(kit_try(*state, make_pair), EPERM);
}

static void with_the_need_unix_sockets_alone_are_made(void **state)
{
    struct kit *kit = *state;

    kit->conf.needs = PFL_SANDBOX_CONNECTS_UNIX;
    assert_int_equal(kit_try(kit, make_tcp), EPERM);
    assert_int_equal(kit_try(kit, make_unix), ENOENT);
}

/* ---- memory and threads ---- */

static int make_memory(const struct kit *kit)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)kit;
    if (fd < 0)
        return errno;
    return errno_of(ftruncate(fd, 4096) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 &&
                    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
}

static void *act_in_thread(void *user)
{
    const struct kit *kit = user;
    bool is_refused = open_in(kit->outside, "new", O_CREAT | O_EXCL | O_RDWR) != KIT_WORKED &&
                      make_tcp(kit) == EPERM;

    return is_refused ? NULL : user;
}

static int start_thread(const struct kit *kit)
{
    struct kit copy = *kit;
    void *result = &copy;
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, act_in_thread, &copy);

    if (rc != 0)
        return rc;
    rc = pthread_join(thread, &result);
    return rc == 0 && result != NULL ? EBADMSG : rc;
}

static void memory_is_shared_only_with_the_need(void **state)
{
    struct kit *kit = *state;

    assert_int_equal(kit_try(kit, make_memory), EPERM);
    kit->conf.needs = PFL_SANDBOX_SHARES_MEMORY;
    assert_int_equal(kit_try(kit, make_memory), KIT_WORKED);
    assert_int_equal(kit_try(kit, make_pair), KIT_WORKED);
    assert_int_equal(kit_try(kit, make_pair_elsewhere), EPERM);
    assert_int_equal(kit_try(kit, make_unix), EPERM);
}

static void threads_start_and_are_held_too(void **state)
{
    struct kit *kit = *state;

    kit->folder.rights = PFL_SANDBOX_CREATE;
    assert_int_equal(kit_try(kit, start_thread), KIT_WORKED);
}

/* ---- files ---- */

static int create_inside(const struct kit *kit)
{
    return open_in(kit->inside, "new", O_CREAT | O_EXCL | O_RDWR);
}

static int create_outside(const struct kit *kit)
{
    return open_in(kit->outside, "new", O_CREAT | O_EXCL | O_RDWR);
}

static int overwrite_inside(const struct kit *kit)
{
    return open_in(kit->inside, "there", O_WRONLY | O_TRUNC);
}

static int append_inside(const struct kit *kit)
{
    return open_in(kit->inside, "there", O_WRONLY | O_APPEND);
}

static int read_inside(const struct kit *kit)
{
    return open_in(kit->inside, "there", O_RDONLY);
}

static int read_outside(const struct kit *kit)
{
    return open_in(kit->outside, "there", O_RDONLY);
}

static int remove_inside(const struct kit *kit)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/there", kit->inside);
    return errno_of(unlink(path) == 0);
}

static int remove_outside(const struct kit *kit)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/there", kit->outside);
    return errno_of(unlink(path) == 0);
}

static int rename_inside(const struct kit *kit)
{
    int folder = open(kit->inside, O_PATH | O_DIRECTORY);

    return errno_of(renameat(folder, "new", folder, "there") == 0);
}

static int link_inside(const struct kit *kit)
{
    char from[96];
    char to[96];

    (void)snprintf(from, sizeof(from), "%s/there", kit->outside);
    (void)snprintf(to, sizeof(to), "%s/new", kit->inside);
    return errno_of(symlink(from, to) == 0);
}

static void without_rights_no_file_is_opened(void **state)
{
    assert_int_not_equal(kit_try(*state, read_inside), KIT_WORKED);
    assert_int_equal(kit_try(*state, create_inside), EPERM);
    assert_int_equal(kit_try(*state, remove_inside), EPERM);
    assert_int_equal(kit_try(*state, link_inside), EPERM);
}

static void new_files_alone_are_written(void **state)
{
    struct kit *kit = *state;

    kit->folder.rights = PFL_SANDBOX_CREATE | PFL_SANDBOX_REMOVE;
    assert_int_equal(kit_try(kit, create_inside), KIT_WORKED);
    assert_int_equal(kit_try(kit, create_inside), EEXIST);
    assert_int_not_equal(kit_try(kit, overwrite_inside), KIT_WORKED);
    assert_int_not_equal(kit_try(kit, append_inside), KIT_WORKED);
#ifndef PFL_SANITIZED /* whose runtime reads files */
    assert_int_not_equal(kit_try(kit, read_inside), KIT_WORKED);
#endif
    assert_int_equal(kit_try(kit, rename_inside), EPERM);
    kit->folder.rights |= PFL_SANDBOX_RENAME;
    assert_int_equal(kit_try(kit, rename_inside), KIT_WORKED);
    assert_int_equal(kit_try(kit, remove_inside), KIT_WORKED);
}

static int append_new_inside(const struct kit *kit)
{
    return open_in(kit->inside, "new", O_WRONLY | O_CREAT | O_APPEND);
}

static int append_there_inside(const struct kit *kit)
{
    return open_in(kit->inside, "there", O_WRONLY | O_CREAT | O_APPEND);
}

static int truncate_there_inside(const struct kit *kit)
{
    return open_in(kit->inside, "there", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC);
}

static void logs_are_appended_to_and_never_cut(void **state)
{
    struct kit *kit = *state;

    kit->folder.rights = PFL_SANDBOX_APPEND;
    assert_int_equal(kit_try(kit, append_new_inside), KIT_WORKED);
    assert_int_equal(kit_try(kit, append_there_inside), KIT_WORKED);
    assert_int_equal(kit_try(kit, truncate_there_inside), EPERM);
    assert_int_equal(kit_try(kit, overwrite_inside), EPERM);
    assert_int_not_equal(kit_try(kit, read_inside), KIT_WORKED);
}

static int use_unnamed(const struct kit *kit)
{
    int fd = open(kit->inside, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char byte = 0;

    if (fd < 0)
        return errno;
    return errno_of(pwrite(fd, "x", 1, 100000) == 1 && pread(fd, &byte, 1, 100000) == 1 &&
                    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 &&
                    ftruncate(fd, 0) == 0 && byte == 'x');
}

static int use_unnamed_outside(const struct kit *kit)
{
    return errno_of(open(kit->outside, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) >= 0);
}

static void files_without_names_are_a_right_of_their_own(void **state)
{
    struct kit *kit = *state;

    assert_int_equal(kit_try(kit, use_unnamed), EPERM);
    kit->folder.rights = PFL_SANDBOX_UNNAMED;
    assert_int_equal(kit_try(kit, use_unnamed), KIT_WORKED);
    assert_int_equal(kit_try(kit, create_inside), EPERM);
    assert_int_equal(kit_try(kit, overwrite_inside), EPERM);
#ifndef PFL_SANITIZED
    assert_int_equal(kit_try(kit, read_inside), EPERM);
#endif
    need_landlock();
    assert_int_equal(kit_try(kit, use_unnamed_outside), EACCES);
}

/* Folders and files are made, renamed, locked, listed and removed. */
static int keep_files_in(const char *folder)
{
    char inside[256];
    char before[300];
    char after[300];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd;
    bool worked;

    (void)snprintf(inside, sizeof(inside), "%s/kept", folder);
    (void)snprintf(before, sizeof(before), "%s/before", inside);
    (void)snprintf(after, sizeof(after), "%s/after", inside);
    if (mkdir(inside, 0700) != 0)
        return errno;
    fd = open(before, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    worked = fd >= 0 && pwrite(fd, "x", 1, 0) == 1 && fcntl(fd, F_SETLK, &lock) == 0 &&
             ftruncate(fd, 0) == 0 && fsync(fd) == 0 && rename(before, after) == 0;
    if (fd >= 0)
        (void)close(fd);
    fd = worked ? open(inside, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    worked = fd >= 0 && fsync(fd) == 0 && unlink(after) == 0 && rmdir(inside) == 0;
    if (fd >= 0)
        (void)close(fd);
    return errno_of(worked);
}

static int keep_files_inside(const struct kit *kit)
{
    return keep_files_in(kit->inside);
}

static int keep_files_outside(const struct kit *kit)
{
    return keep_files_in(kit->outside);
}

static void folders_are_kept_by_a_right_of_their_own(void **state)
{
    struct kit *kit = *state;

    kit->folder.rights = PFL_SANDBOX_READ | PFL_SANDBOX_CREATE | PFL_SANDBOX_REMOVE;
    assert_int_equal(kit_try(kit, keep_files_inside), EPERM);
    kit->folder.rights = PFL_SANDBOX_KEEP;
    assert_int_equal(kit_try(kit, keep_files_inside), KIT_WORKED);
    assert_int_equal(kit_try(kit, run_program), KIT_KILLED);
    need_landlock();
    assert_int_equal(kit_try(kit, keep_files_outside), EACCES);
}

static void other_folders_are_out_of_reach(void **state)
{
    struct kit *kit = *state;

    need_landlock();
    kit->folder.rights = PFL_SANDBOX_READ | PFL_SANDBOX_CREATE | PFL_SANDBOX_REMOVE;
    assert_int_equal(kit_try(kit, read_inside), KIT_WORKED);
    assert_int_equal(kit_try(kit, read_outside), EACCES);
    assert_int_equal(kit_try(kit, create_outside), EACCES);
    assert_int_equal(kit_try(kit, remove_outside), EACCES);
}

static void a_folder_that_is_not_there_ends_the_start(void **state)
{
    struct kit *kit = *state;

    need_landlock();
    kit->folder = (struct pfl_sandbox_folder){.path = "/no/such/folder", .rights = 1};
    assert_int_equal(kit_try(kit, make_code), KIT_OUTSIDE);
}

/* ---- modes ---- */

static void an_old_kernel_is_enough_for_auto_and_not_for_require(void **state)
{
    struct kit *kit = *state;

    assert_int_equal(kit_enter_on_old_kernel(kit), 0);
    kit->conf.mode = PFL_SANDBOX_REQUIRE;
    assert_int_equal(kit_enter_on_old_kernel(kit), PFL_ESTATE);
}

static void require_holds_here(void **state)
{
    struct kit *kit = *state;

    need_landlock();
    kit->conf.mode = PFL_SANDBOX_REQUIRE;
    assert_int_equal(kit_try(kit, make_tcp), EPERM);
}

static void modes_have_names(void **state)
{
    enum pfl_sandbox_mode mode = PFL_SANDBOX_OFF;

    (void)state;
    assert_true(pfl_sandbox_mode_parse("auto", &mode));
    assert_int_equal(mode, PFL_SANDBOX_AUTO);
    assert_true(pfl_sandbox_mode_parse("require", &mode));
    assert_int_equal(mode, PFL_SANDBOX_REQUIRE);
    assert_true(pfl_sandbox_mode_parse("off", &mode));
    assert_int_equal(mode, PFL_SANDBOX_OFF);
    assert_false(pfl_sandbox_mode_parse("on", &mode));
}

static int setup(void **state)
{
    static struct kit kit;

    kit_init(&kit);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_fini(*state);
    return 0;
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(programs_users_and_namespaces_kill),
        CLAIM(processes_signals_and_code_are_refused),
        CLAIM(with_the_need_children_are_made_and_killed),
        CLAIM(a_child_gives_the_need_up),
        CLAIM(io_uring_is_refused),
        CLAIM(no_privilege_is_left),
        CLAIM(off_leaves_calls_but_takes_new_privileges),
        CLAIM(root_becomes_the_user),
        CLAIM(a_user_that_is_not_there_ends_the_start),
        CLAIM(priorities_are_its_own),
        CLAIM(of_capabilities_only_the_needed_one_stays),
        CLAIM(sockets_are_refused),
        CLAIM(with_the_need_unix_sockets_alone_are_made),
        CLAIM(memory_is_shared_only_with_the_need),
        CLAIM(threads_start_and_are_held_too),
        CLAIM(without_rights_no_file_is_opened),
        CLAIM(new_files_alone_are_written),
        CLAIM(logs_are_appended_to_and_never_cut),
        CLAIM(files_without_names_are_a_right_of_their_own),
        CLAIM(folders_are_kept_by_a_right_of_their_own),
        CLAIM(other_folders_are_out_of_reach),
        CLAIM(a_folder_that_is_not_there_ends_the_start),
        CLAIM(an_old_kernel_is_enough_for_auto_and_not_for_require),
        CLAIM(require_holds_here),
        CLAIM(modes_have_names),
    };

    parent = getpid();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
