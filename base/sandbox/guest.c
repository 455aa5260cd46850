/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's sandbox, in this order:
 *
 *     no descriptors but the standard ones -> no new privileges -> namespaces of its own, without
 *     network -> no capabilities -> it dies with its parent -> Landlock -> list of system calls ->
 *     bounds (address space, CPU time, no files, no core, few descriptors and threads) -> the one
 *     execve that the list allows
 *
 * Namespaces are taken if the kernel gives them: without them Landlock and the list keep the
 * network away. Failures: what is missing is fatal with REQUIRE only; a program that cannot be
 * executed. Owns nothing.
 */
#include "base/sandbox/guest.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sandbox/landlock.h"
#include "base/sandbox/privileges.h"
#include "base/sandbox/syscalls.h"

#define DESCRIPTORS_MAX 64u
#define THREADS_MAX     16u /* of users other than root: the kernel counts them */

extern char **environ;

const char *pfl_guest_find_missing(void)
{
    bool has_landlock = pfl_landlock_is_there();
    bool has_seccomp = pfl_syscalls_can_filter();

    if (has_landlock)
        return has_seccomp ? NULL : "seccomp";
    return has_seccomp ? "Landlock" : "Landlock and seccomp";
}

static int bound(int resource, uint64_t max)
{
    struct rlimit old;
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &old) != 0)
        return PFL_EIO;
    limit.rlim_cur = limit.rlim_max = max < old.rlim_max ? max : old.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &limit) == 0 ? 0 : PFL_EIO;
}

static int bound_all(const struct pfl_guest_conf *conf)
{
    int rc = bound(RLIMIT_AS, conf->max_bytes);

    if (rc == 0)
        rc = bound(RLIMIT_CPU, conf->max_seconds);
    if (rc == 0)
        rc = bound(RLIMIT_FSIZE, 0);
    if (rc == 0)
        rc = bound(RLIMIT_CORE, 0);
    if (rc == 0 && conf->mode != PFL_SANDBOX_OFF) /* without namespaces: the user's, in sum */
        rc = bound(RLIMIT_NPROC, THREADS_MAX);
    return rc == 0 ? bound(RLIMIT_NOFILE, DESCRIPTORS_MAX) : rc;
}

/* Root needs no namespace for users. */
static void leave_network(void)
{
    const int spaces = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

    if (unshare(spaces) != 0)
        (void)unshare(CLONE_NEWUSER | spaces);
}

static bool is_fatal(const struct pfl_guest_conf *conf, int rc)
{
    return rc != 0 && (rc != PFL_ESTATE || conf->mode == PFL_SANDBOX_REQUIRE);
}

static int confine(const struct pfl_guest_conf *conf, struct pfl_syscalls_key *ret_key)
{
    bool has_nice;
    int rc;

    leave_network();
    rc = pfl_privileges_drop_capabilities(false, &has_nice);
    /* Not before: the kernel forgets it when capabilities change. */
    if (rc == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        rc = PFL_EIO;
    if (rc != 0)
        return rc;
    rc = pfl_landlock_enter_guest(conf->program);
    if (!is_fatal(conf, rc))
        rc = pfl_syscalls_enter_guest(ret_key);
    return is_fatal(conf, rc) ? rc : 0;
}

int pfl_guest_run(const struct pfl_guest_conf *conf, char *const *argv)
{
    struct pfl_syscalls_key key = {{0}};
    int rc = 0;

    /* What our parent left open: Landlock does not hold for that. */
    (void)close_range(STDERR_FILENO + 1, ~0u, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return PFL_EIO;
    if (conf->mode != PFL_SANDBOX_OFF)
        rc = confine(conf, &key);
    if (rc == 0)
        rc = bound_all(conf);
    if (rc != 0)
        return rc;
    return pfl_syscalls_execute(conf->program, argv, environ, &key);
}
