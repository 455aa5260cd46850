/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock by its three system calls; libc has no wrappers and its headers may be older than the
 * kernel, so the numbers are defined here.
 *
 * enter: ask the kernel for its version, handle every right that this version knows (handled rights
 * that are not granted are refused), grant the folders' rights, restrict. Open files stay open.
 * Failure: PFL_ESTATE without Landlock, PFL_EINVAL for a folder; nothing is restricted then.
 */
#include "base/sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

/* The same on every architecture. */
#define CALL_CREATE_RULESET 444
#define CALL_ADD_RULE       445
#define CALL_RESTRICT_SELF  446
#define FLAG_VERSION        1u
#define RULE_PATH_BENEATH   1
#define RULE_NET_PORT       2

#define FS_EXECUTE     (1ull << 0)
#define FS_WRITE_FILE  (1ull << 1)
#define FS_READ_FILE   (1ull << 2)
#define FS_READ_DIR    (1ull << 3)
#define FS_REMOVE_DIR  (1ull << 4)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_DIR    (1ull << 7)
#define FS_MAKE_REG    (1ull << 8)

#define FS_ALL_1         ((1ull << 13) - 1) /* version 1: execute to make symlink */
#define FS_REFER_2       (1ull << 13)
#define FS_TRUNCATE_3    (1ull << 14)
#define NET_BIND_4       1ull /* TCP */
#define NET_CONNECT_4    2ull
#define FS_IOCTL_5       (1ull << 15)
#define SCOPE_ABSTRACT_6 1ull
#define SCOPE_SIGNAL_6   2ull

struct ruleset {
    uint64_t fs;
    uint64_t net;
    uint64_t scoped;
};

struct path_beneath {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

struct net_port {
    uint64_t allowed;
    uint64_t port;
};

static struct ruleset choose(const struct pfl_sandbox_conf *conf, int abi, size_t *ret_size)
{
    struct ruleset set = {.fs = FS_ALL_1};

    *ret_size = sizeof(set.fs);
    if (abi >= 2)
        set.fs |= FS_REFER_2;
    if (abi >= 3)
        set.fs |= FS_TRUNCATE_3;
    if (abi >= 5)
        set.fs |= FS_IOCTL_5;
    if (abi >= 4) {
        set.net = NET_BIND_4;
        if ((conf->needs & PFL_SANDBOX_DIALS) == 0 || conf->dial_ports_len != 0)
            set.net |= NET_CONNECT_4;
        *ret_size = sizeof(set.fs) + sizeof(set.net);
    }
    if (abi >= 6) {
        set.scoped = SCOPE_SIGNAL_6;
        if ((conf->needs & PFL_SANDBOX_CONNECTS_ABSTRACT) == 0)
            set.scoped |= SCOPE_ABSTRACT_6;
        *ret_size = sizeof(set);
    }
    return set;
}

static int grant(int ruleset_fd, const char *path, uint64_t allowed)
{
    struct path_beneath rule = {.allowed = allowed,
                                .parent_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    long rc = -1;

    if (rule.parent_fd >= 0)
        rc = syscall(CALL_ADD_RULE, ruleset_fd, RULE_PATH_BENEATH, &rule, 0);
    if (rc != 0)
        pfl_log_error("sandbox-failed", "folder=%s reason=\"%s\"", pfl_log_quote_str(path),
                      strerror(errno));
    if (rule.parent_fd >= 0)
        (void)close(rule.parent_fd);
    return rc == 0 ? 0 : PFL_EINVAL;
}

static uint64_t get_rights(unsigned rights, uint64_t handled)
{
    uint64_t fs = 0;

    if ((rights & PFL_SANDBOX_READ) != 0)
        fs |= FS_READ_FILE;
    if ((rights & PFL_SANDBOX_CREATE) != 0)
        fs |= FS_MAKE_REG | FS_WRITE_FILE | FS_READ_FILE; /* which ones: the list of calls */
    if ((rights & PFL_SANDBOX_APPEND) != 0)
        fs |= FS_MAKE_REG | FS_WRITE_FILE;
    if ((rights & PFL_SANDBOX_REMOVE) != 0)
        fs |= FS_REMOVE_FILE;
    if ((rights & PFL_SANDBOX_UNNAMED) != 0)
        fs |= FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE_3;
    if ((rights & PFL_SANDBOX_KEEP) != 0)
        fs |= FS_WRITE_FILE | FS_READ_FILE | FS_READ_DIR | FS_REMOVE_DIR | FS_REMOVE_FILE |
              FS_MAKE_DIR | FS_MAKE_REG | FS_REFER_2 | FS_TRUNCATE_3;
    return fs & handled;
}

static int grant_ports(int ruleset_fd, const struct pfl_sandbox_conf *conf)
{
    for (size_t i = 0; i < conf->dial_ports_len; i++) {
        struct net_port rule = {.allowed = NET_CONNECT_4, .port = conf->dial_ports[i]};

        if (syscall(CALL_ADD_RULE, ruleset_fd, RULE_NET_PORT, &rule, 0) != 0)
            return PFL_ESTATE;
    }
    return 0;
}

static int grant_all(int ruleset_fd, const struct pfl_sandbox_conf *conf, const struct ruleset *set)
{
    int rc = (set->net & NET_CONNECT_4) != 0 ? grant_ports(ruleset_fd, conf) : 0;

    for (size_t i = 0; rc == 0 && i < conf->folders_len; i++) {
        uint64_t rights = get_rights(conf->folders[i].rights, set->fs);

        if (rights != 0)
            rc = grant(ruleset_fd, conf->folders[i].path, rights);
    }
#ifdef PFL_SANITIZED
    if (rc == 0)
        rc = grant(ruleset_fd, "/proc", FS_READ_FILE | FS_READ_DIR);
#endif
    return rc;
}

int pfl_landlock_enter(const struct pfl_sandbox_conf *conf, int *ret_abi)
{
    long abi = syscall(CALL_CREATE_RULESET, NULL, 0, FLAG_VERSION);
    struct ruleset set;
    size_t size;
    long fd;
    int rc;

    if (abi < 1)
        return PFL_ESTATE;
    set = choose(conf, (int)abi, &size);
    fd = syscall(CALL_CREATE_RULESET, &set, size, 0);
    if (fd < 0)
        return PFL_ESTATE;
    rc = grant_all((int)fd, conf, &set);
    if (rc == 0 && syscall(CALL_RESTRICT_SELF, fd, 0) != 0)
        rc = PFL_ESTATE;
    (void)close((int)fd);
    if (rc == 0)
        *ret_abi = (int)abi;
    return rc;
}

/* ---- a program that is executed ---- */

bool pfl_landlock_is_there(void)
{
    return syscall(CALL_CREATE_RULESET, NULL, 0, FLAG_VERSION) >= 1;
}

/* What is not there needs no grant. */
static int grant_if_there(int ruleset_fd, const char *path, uint64_t allowed)
{
    struct path_beneath rule = {.allowed = allowed, .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    struct stat st;
    long rc;

    if (rule.parent_fd < 0)
        return 0;
    if (fstat(rule.parent_fd, &st) != 0 || !S_ISDIR(st.st_mode))
        rule.allowed &= ~FS_READ_DIR;
    rc = syscall(CALL_ADD_RULE, ruleset_fd, RULE_PATH_BENEATH, &rule, 0);
    (void)close(rule.parent_fd);
    return rc == 0 ? 0 : PFL_ESTATE;
}

static int grant_guest(int ruleset_fd, const char *program)
{
    static const char *const folders[] = {"/usr", "/bin", "/lib", "/lib32", "/lib64", "/nix/store"};
    static const char *const files[] = {"/etc/ld.so.cache", "/etc/localtime", "/dev/urandom"};
    int rc = grant_if_there(ruleset_fd, program, FS_EXECUTE | FS_READ_FILE);

    for (size_t i = 0; rc == 0 && i < sizeof(folders) / sizeof(folders[0]); i++)
        rc = grant_if_there(ruleset_fd, folders[i], FS_EXECUTE | FS_READ_FILE | FS_READ_DIR);
    for (size_t i = 0; rc == 0 && i < sizeof(files) / sizeof(files[0]); i++)
        rc = grant_if_there(ruleset_fd, files[i], FS_READ_FILE);
    return rc == 0 ? grant_if_there(ruleset_fd, "/dev/null", FS_READ_FILE | FS_WRITE_FILE) : rc;
}

int pfl_landlock_enter_guest(const char *program)
{
    static const struct pfl_sandbox_conf none = {.mode = PFL_SANDBOX_AUTO};
    long abi = syscall(CALL_CREATE_RULESET, NULL, 0, FLAG_VERSION);
    struct ruleset set;
    size_t size;
    long fd;
    int rc;

    if (abi < 1)
        return PFL_ESTATE;
    set = choose(&none, (int)abi, &size);
    fd = syscall(CALL_CREATE_RULESET, &set, size, 0);
    if (fd < 0)
        return PFL_ESTATE;
    rc = grant_guest((int)fd, program);
    if (rc == 0 && syscall(CALL_RESTRICT_SELF, fd, 0) != 0)
        rc = PFL_ESTATE;
    (void)close((int)fd);
    return rc;
}
