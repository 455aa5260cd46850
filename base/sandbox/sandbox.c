/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entering the sandbox.
 *
 * enter: no new privileges; then, from the outside in: user and capabilities, Landlock (which needs
 * to open folders), and last the list of system calls, which forbids all the steps before.
 * Failures: missing kernel features are logged in one line and, with REQUIRE, end the start; a
 * missing user or folder always ends it. Owns nothing.
 */
#include "base/sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sandbox/landlock.h"
#include "base/sandbox/privileges.h"
#include "base/sandbox/syscalls.h"

bool pfl_sandbox_mode_parse(const char *name, enum pfl_sandbox_mode *ret_mode)
{
    static const char *const names[] = {
        [PFL_SANDBOX_AUTO] = "auto", [PFL_SANDBOX_REQUIRE] = "require", [PFL_SANDBOX_OFF] = "off"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_mode = (enum pfl_sandbox_mode)i;
            return true;
        }
    }
    return false;
}

static int fail(const char *step, int rc, const char *reason)
{
    pfl_log_error("sandbox-failed", "step=%s reason=\"%s\"", step, reason);
    return rc;
}

static int drop(const struct pfl_sandbox_conf *conf, bool *ret_has_nice)
{
    int rc = 0;

    if (conf->user != NULL)
        rc = pfl_privileges_become(conf->user);
    if (rc == PFL_EINVAL)
        return fail("user", rc, "no such user");
    if (rc != 0)
        return fail("user", rc, "only root can become another user");
    if (conf->mode == PFL_SANDBOX_OFF)
        return 0;
    rc = pfl_privileges_drop_capabilities((conf->needs & PFL_SANDBOX_BOOSTS) != 0, ret_has_nice);
    return rc == 0 ? 0 : fail("capabilities", rc, strerror(errno));
}

/* 0, or an error that ends the start; what the kernel lacks is 0 and leaves *ret_holds false. */
static int judge(const struct pfl_sandbox_conf *conf, const char *step, int rc, bool *ret_holds)
{
    *ret_holds = rc == 0;
    if (rc == PFL_ESTATE && conf->mode != PFL_SANDBOX_REQUIRE)
        return 0;
    if (rc == PFL_ESTATE)
        return fail(step, rc, "this kernel or what surrounds the process does not allow it");
    return rc;
}

static int enter_all(const struct pfl_sandbox_conf *conf, bool has_nice)
{
    char landlock[16] = "missing";
    bool has_landlock;
    bool has_seccomp;
    int abi = 0;
    int rc;

    rc = judge(conf, "landlock", pfl_landlock_enter(conf, &abi), &has_landlock);
    if (rc != 0)
        return rc;
    rc = judge(conf, "seccomp", pfl_syscalls_enter(conf), &has_seccomp);
    if (rc != 0)
        return rc;
    if (has_landlock)
        (void)snprintf(landlock, sizeof(landlock), "%d", abi);
    pfl_log(has_landlock && has_seccomp ? PFL_LOG_INFO : PFL_LOG_WARN, "sandbox",
            "uid=%ld capabilities=%s landlock=%s seccomp=%s", (long)geteuid(),
            has_nice ? "sys_nice" : "none", landlock, has_seccomp ? "on" : "missing");
    return 0;
}

int pfl_sandbox_enter(const struct pfl_sandbox_conf *conf)
{
    bool has_nice = false;
    int rc;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fail("no-new-privileges", PFL_ESTATE, strerror(errno));
    rc = drop(conf, &has_nice);
    if (rc != 0)
        return rc;
    if (conf->mode != PFL_SANDBOX_OFF)
        return enter_all(conf, has_nice);
    pfl_log_info("sandbox", "uid=%ld mode=off", (long)geteuid());
    return 0;
}

int pfl_sandbox_end_forks(void)
{
    return pfl_syscalls_end_forks();
}
