/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of system calls, by libseccomp.
 *
 * enter: allows the calls of a loop with sockets and threads, and those of the program's needs; a
 * few only with certain arguments (no executable memory, no child process, only new files for
 * writing). Everything else fails with EPERM, so that a library that tries something new gets an
 * error it knows, and the service lives. Calls that none of our libraries ever makes kill the
 * process. Failure: nothing is restricted. Owns the libseccomp context while it runs.
 */
#include "base/sandbox/syscalls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A call that is allowed when (argument & mask) == value. */
struct rule {
    const char *name;
    unsigned argument;
    uint64_t mask;
    uint64_t value;
};

#define WHOLE UINT64_MAX
/* Integer arguments are 32 bits wide: the upper half of the register may be anything. */
#define INT ((uint64_t)UINT32_MAX)

static const char *const always[] = {
    /* descriptors */
    "read", "write", "readv", "writev", "close", "fstat", "fstatfs", "pread64", "newfstatat",
    "lseek", "epoll_wait", "epoll_pwait", "epoll_ctl", "poll", "ppoll",
    /* sockets that are open */
    "accept4", "recvmsg", "recvmmsg", "recvfrom", "sendmsg", "sendmmsg", "shutdown", "getsockname",
    "getpeername", "getsockopt", "setsockopt",
    /* memory and threads */
    "munmap", "mremap", "madvise", "brk", "futex", "set_robust_list", "rseq", "sched_yield",
    "sched_getaffinity", "exit", "exit_group",
    /* signals */
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall",
    /* time, and identity */
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "timerfd_settime", "setitimer", "timer_create", "timer_settime", "timer_delete", "getpid",
    "gettid", "getuid", "geteuid", "getgid", "getegid", "getrusage", "getcpu", "getrandom", "uname",
    "sysinfo"};

#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define NEW_SPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |     \
     CLONE_NEWCGROUP)

static const struct rule with_arguments[] = {
    {"mmap", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},
    {"clone", 0, THREAD_FLAGS | NEW_SPACES, THREAD_FLAGS}, /* a thread, never a process */
    {"fcntl", 1, INT, F_GETFL},
    {"fcntl", 1, INT, F_SETFL},
    {"fcntl", 1, INT, F_GETFD},
    {"fcntl", 1, INT, F_SETFD},
    {"fcntl", 1, INT, F_GET_SEALS},
    {"fcntl", 1, INT, F_DUPFD_CLOEXEC},
    {"ioctl", 1, INT, FIONBIO},
    {"ioctl", 1, INT, FIOCLEX},
    {"ioctl", 1, INT, FIONREAD},
    {"sendto", 4, WHOLE, 0},    /* to whom the socket is connected */
    {"prlimit64", 2, WHOLE, 0}, /* ask only */
    {"prctl", 0, INT, PR_SET_NAME},
};

static const struct rule memory_rules[] = {{"fcntl", 1, INT, F_ADD_SEALS},
                                           {"socketpair", 0, INT, AF_UNIX}};
static const char *const memory_calls[] = {"memfd_create", "ftruncate", "fallocate", "mlock"};

/* A name of a UNIX socket for base/io/subject.h: addresses of other families are longer. */
#define SUBJECT_NAME_BYTES 15u

static const struct rule unix_rules[] = {{"socket", 0, INT, AF_UNIX},
                                         {"bind", 2, INT, SUBJECT_NAME_BYTES}};
static const char *const unix_calls[] = {"connect", "sendto"};

/* A resolver asks by UDP, several names with one call. */
static const struct rule dial_rules[] = {{"socket", 0, INT, AF_INET}, {"socket", 0, INT, AF_INET6}};
static const char *const dial_calls[] = {"connect", "sendto"};

/* Of this thread alone: the first argument is a thread's id, 0 itself. */
static const struct rule boost_rules[] = {{"sched_setscheduler", 0, INT, 0},
                                          {"sched_getscheduler", 0, INT, 0},
                                          {"sched_getparam", 0, INT, 0}};
static const char *const boost_calls[] = {"getpriority"};

/* fork() of libc: the bits of CHILD_IDS are its own to choose. Another list can only forbid more.
 */
#define CHILD_IDS (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)
static const struct rule fork_rules[] = {{"clone", 0, INT & ~(uint64_t)CHILD_IDS, SIGCHLD},
                                         {"kill", 1, INT, SIGKILL},
                                         {"prctl", 0, INT, PR_SET_PDEATHSIG},
                                         {"seccomp", 0, INT, SECCOMP_SET_MODE_FILTER}};
static const char *const fork_calls[] = {"wait4", "getppid"};
static const char *const ended_calls[] = {"clone", "kill", "prctl", "seccomp", "wait4"};

static const struct rule read_rules[] = {{"openat", 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY}};
static const char *const read_calls[] = {"newfstatat"};
static const struct rule create_rules[] = {
    {"openat", 2, O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC, O_RDWR | O_CREAT | O_EXCL},
    {"openat", 2, O_ACCMODE | O_CREAT | O_TRUNC | O_PATH | O_DIRECTORY, O_PATH | O_DIRECTORY}};
static const char *const create_calls[] = {"fchmod", "fdatasync", "fsync", "pread64"};
static const char *const remove_calls[] = {"unlink"};
static const struct rule remove_rules[] = {{"unlinkat", 2, INT, 0}};

static const char *const rename_calls[] = {"renameat"};
static const struct rule rename_rules[] = {{"renameat2", 4, INT, 0}};

static const char *const append_calls[] = {"fchmod"};
static const struct rule append_rules[] = {
    {"openat", 2, O_ACCMODE | O_CREAT | O_APPEND | O_TRUNC, O_WRONLY | O_CREAT | O_APPEND}};

static const char *const unnamed_calls[] = {"pread64", "pwrite64", "ftruncate", "fallocate"};
static const struct rule unnamed_rules[] = {
    {"openat", 2, O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE, O_RDWR | O_TMPFILE}};

static const char *const keep_calls[] = {
    "openat",    "mkdir",      "mkdirat",  "rename",     "renameat", "renameat2", "rmdir",
    "unlink",    "unlinkat",   "getdents", "getdents64", "fsync",    "fdatasync", "ftruncate",
    "fallocate", "pread64",    "pwrite64", "pwritev",    "fchmod",   "flock",     "access",
    "faccessat", "faccessat2", "stat",     "lstat",      "statfs",   "readlink",  "readlinkat",
    "getcwd",    "fadvise64",  "open"};
static const struct rule keep_rules[] = {
    {"fcntl", 1, INT, F_GETLK},     {"fcntl", 1, INT, F_SETLK},
    {"fcntl", 1, INT, F_SETLKW},    {"fcntl", 1, INT, F_OFD_GETLK},
    {"fcntl", 1, INT, F_OFD_SETLK}, {"fcntl", 1, INT, F_OFD_SETLKW}};

/* A program that is executed, its loader, and an interpreter. Its limits it can only lower. */
static const char *const guest_calls[] = {"mmap",
                                          "mprotect",
                                          "arch_prctl",
                                          "set_tid_address",
                                          "access",
                                          "faccessat",
                                          "faccessat2",
                                          "stat",
                                          "lstat",
                                          "statx",
                                          "newfstatat",
                                          "readlink",
                                          "readlinkat",
                                          "getcwd",
                                          "getdents64",
                                          "fadvise64",
                                          "pipe2",
                                          "dup",
                                          "dup2",
                                          "dup3",
                                          "getppid",
                                          "getpgrp",
                                          "getpgid",
                                          "epoll_create1",
                                          "eventfd2",
                                          "membarrier",
                                          "mincore",
                                          "sched_getparam",
                                          "sched_getscheduler",
                                          "select",
                                          "pselect6"};
static const struct rule guest_rules[] = {{"openat", 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
                                          {"open", 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
                                          {"fcntl", 1, INT, F_DUPFD},
                                          {"prlimit64", 0, INT, 0},
                                          {"ioctl", 1, INT, TCGETS}};

/* No library that we use ever tries these. */
static const char *const killing[] = {"execve",
                                      "execveat",
#ifndef PFL_SANITIZED
                                      "ptrace",
#endif
                                      "process_vm_readv",
                                      "process_vm_writev",
                                      "pidfd_getfd",
                                      "bpf",
                                      "perf_event_open",
                                      "userfaultfd",
                                      "init_module",
                                      "finit_module",
                                      "delete_module",
                                      "kexec_load",
                                      "kexec_file_load",
                                      "mount",
                                      "umount2",
                                      "move_mount",
                                      "open_tree",
                                      "fsopen",
                                      "pivot_root",
                                      "chroot",
                                      "unshare",
                                      "setns",
                                      "open_by_handle_at",
                                      "add_key",
                                      "request_key",
                                      "keyctl",
                                      "setuid",
                                      "setgid",
                                      "setresuid",
                                      "setresgid",
                                      "setgroups",
                                      "capset",
                                      "settimeofday",
                                      "clock_settime",
                                      "reboot",
                                      "swapon",
                                      "swapoff"};

/* libc falls back to the older call, whose arguments a filter can check. */
static const char *const absent[] = {"clone3", "openat2"};

#ifdef PFL_SANITIZED
/* What the sanitizers' runtimes do besides; the leak check stops all threads by ptrace. */
static const char *const of_sanitizers[] = {
    "ptrace",   "wait4",      "prctl",       "clone",  "readlink", "readlinkat",
    "tkill",    "tgkill",     "kill",        "dup2",   "mincore",  "getppid",
    "getdents", "getdents64", "personality", "access", "stat",     "lstat"};
static const struct rule of_sanitizers_rules[] = {
    {"openat", 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
    {"open", 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
};
#endif

static int add_calls(scmp_filter_ctx ctx, uint32_t action, const char *const *names, size_t len)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < len; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);

        if (number >= 0) /* else this architecture has no such call */
            rc = seccomp_rule_add(ctx, action, number, 0);
    }
    return rc;
}

static int add_rules(scmp_filter_ctx ctx, const struct rule *rules, size_t len)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < len; i++) {
        const struct rule *rule = &rules[i];
        int number = seccomp_syscall_resolve_name(rule->name);
        struct scmp_arg_cmp cmp =
            SCMP_CMP(rule->argument, SCMP_CMP_MASKED_EQ, rule->mask, rule->value);

        if (number >= 0)
            rc = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, number, 1, &cmp);
    }
    return rc;
}

struct group {
    const char *const *calls;
    size_t calls_len;
    const struct rule *rules;
    size_t rules_len;
};

#define GROUP(name)                                                                                \
    {                                                                                              \
        name##_calls, COUNT(name##_calls), name##_rules, COUNT(name##_rules)                       \
    }

static int add_group(scmp_filter_ctx ctx, const struct group *group)
{
    int rc = add_calls(ctx, SCMP_ACT_ALLOW, group->calls, group->calls_len);

    return rc == 0 ? add_rules(ctx, group->rules, group->rules_len) : rc;
}

static int add_needs(scmp_filter_ctx ctx, unsigned needs, unsigned rights)
{
    /* in the order of the enums' bits */
    static const struct group of_needs[] = {GROUP(memory), GROUP(unix), {0},
                                            GROUP(boost),  GROUP(dial), GROUP(fork)};
    static const struct group of_rights[] = {GROUP(read),   GROUP(create),  GROUP(remove),
                                             GROUP(append), GROUP(unnamed), GROUP(keep),
                                             GROUP(rename)};
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < COUNT(of_needs); i++)
        if ((needs & 1u << i) != 0)
            rc = add_group(ctx, &of_needs[i]);
    for (unsigned i = 0; rc == 0 && i < COUNT(of_rights); i++)
        if ((rights & 1u << i) != 0)
            rc = add_group(ctx, &of_rights[i]);
    return rc;
}

/* abort() of an assertion sends a signal to its own process. */
static int add_own_signals(scmp_filter_ctx ctx)
{
    const struct rule rule = {"tgkill", 0, INT, (uint64_t)getpid()};

    return add_rules(ctx, &rule, 1);
}

static int add_own_priority(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp self[] = {
        SCMP_CMP(0, SCMP_CMP_MASKED_EQ, INT, PRIO_PROCESS),
        SCMP_CMP(1, SCMP_CMP_MASKED_EQ, INT, 0),
    };

    return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), COUNT(self), self);
}

static int fill(scmp_filter_ctx ctx, const struct pfl_sandbox_conf *conf)
{
    unsigned rights = 0;
    int rc;

    for (size_t i = 0; i < conf->folders_len; i++)
        rights |= conf->folders[i].rights;
    rc = add_calls(ctx, SCMP_ACT_ALLOW, always, COUNT(always));
    if (rc == 0)
        rc = add_rules(ctx, with_arguments, COUNT(with_arguments));
    if (rc == 0)
        rc = add_own_signals(ctx);
    if (rc == 0)
        rc = add_own_priority(ctx);
    if (rc == 0)
        rc = add_needs(ctx, conf->needs, rights);
    if (rc == 0)
        rc = add_calls(ctx, SCMP_ACT_KILL_PROCESS, killing, COUNT(killing));
    if (rc == 0)
        rc = add_calls(ctx, SCMP_ACT_ERRNO(ENOSYS), absent, COUNT(absent));
#ifdef PFL_SANITIZED
    if (rc == 0)
        rc = add_calls(ctx, SCMP_ACT_ALLOW, of_sanitizers, COUNT(of_sanitizers));
    if (rc == 0)
        rc = add_rules(ctx, of_sanitizers_rules, COUNT(of_sanitizers_rules));
#endif
    return rc;
}

/* The kernel does not look at the arguments after the third. */
static int add_one_execution(scmp_filter_ctx ctx, const struct pfl_syscalls_key *key)
{
    struct scmp_arg_cmp known[COUNT(key->words)];

    for (unsigned i = 0; i < COUNT(known); i++)
        known[i] = (struct scmp_arg_cmp){.arg = 3 + i, .op = SCMP_CMP_EQ, .datum_a = key->words[i]};
    return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, SCMP_SYS(execve), COUNT(known), known);
}

static int fill_guest(scmp_filter_ctx ctx, const struct pfl_syscalls_key *key)
{
    static const struct group guest = GROUP(guest);
    int rc = add_calls(ctx, SCMP_ACT_ALLOW, always, COUNT(always));

    if (rc == 0)
        rc = add_one_execution(ctx, key);
    if (rc == 0)
        rc = add_rules(ctx, with_arguments, COUNT(with_arguments));
    if (rc == 0)
        rc = add_own_signals(ctx);
    if (rc == 0)
        rc = add_group(ctx, &guest);
    return rc == 0 ? add_calls(ctx, SCMP_ACT_ERRNO(ENOSYS), absent, COUNT(absent)) : rc;
}

bool pfl_syscalls_can_filter(void)
{
    const uint32_t action = SECCOMP_RET_ERRNO;

    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* `conf` NULL: for a guest. */
static int enter(const struct pfl_sandbox_conf *conf, const struct pfl_syscalls_key *key)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int rc;

    assert(conf != NULL || key != NULL);
    if (ctx == NULL)
        return PFL_ENOMEM;
    rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (rc == 0) /* threads that are there already are held too */
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    if (rc == 0) /* a tree, not a chain of comparisons */
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (rc == 0)
        rc = conf != NULL ? fill(ctx, conf) : fill_guest(ctx, key);
    if (rc == 0)
        rc = seccomp_load(ctx);
    seccomp_release(ctx);
    if (rc == 0)
        return 0;
    return rc == -ENOMEM ? PFL_ENOMEM : PFL_ESTATE;
}

int pfl_syscalls_enter(const struct pfl_sandbox_conf *conf)
{
    return enter(conf, NULL);
}

int pfl_syscalls_end_forks(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int rc;

    if (ctx == NULL)
        return PFL_ENOMEM;
    rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0); /* it has no new privileges already */
    if (rc == 0)
        rc = add_calls(ctx, SCMP_ACT_ERRNO(EPERM), ended_calls, COUNT(ended_calls));
    if (rc == 0)
        rc = seccomp_load(ctx);
    seccomp_release(ctx);
    if (rc == 0)
        return 0;
    return rc == -ENOMEM ? PFL_ENOMEM : PFL_ESTATE;
}

int pfl_syscalls_enter_guest(struct pfl_syscalls_key *ret_key)
{
    if (getrandom(ret_key, sizeof(*ret_key), 0) != (ssize_t)sizeof(*ret_key))
        return PFL_EIO;
    return enter(NULL, ret_key);
}

int pfl_syscalls_execute(const char *program, char *const *argv, char *const *environment,
                         const struct pfl_syscalls_key *key)
{
    (void)syscall(SYS_execve, program, argv, environment, key->words[0], key->words[1],
                  key->words[2]);
    return PFL_EIO;
}
