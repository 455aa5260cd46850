/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's process.
 *
 * start: fork; in the child: SIGTERM when the keeper dies, the environment of a service with a
 * store, the kept descriptors duplicated to 3 and on, the keeper's original signals, exec. The
 * keeper's other descriptors are close-on-exec, or replaced by the duplicates. Failure: PFL_EIO no
 * fork; a child that cannot exec sets exec_errno and exits with 127. A program that changes its
 * user loses the signal of the keeper's death (prctl(2)).
 */
#include "agent/supervisor/child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"

#define CANNOT_EXEC 127

static void set_number(const char *variable, unsigned long value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%lu", value);
    (void)setenv(variable, text, 1);
}

static void set_names(const struct pfl_fd_store *store)
{
    static char names[PFL_FD_STORE_MAX * (PFL_STORED_FDS_NAME_MAX_BYTES + 1)];
    char *to = names;

    for (size_t i = 0; i < store->len; i++) {
        size_t len = strlen(store->list[i].name);

        if (i != 0)
            *to++ = ':';
        memcpy(to, store->list[i].name, len);
        to += len;
    }
    *to = '\0';
    (void)setenv("LISTEN_FDNAMES", names, 1);
}

static void set_environment(const struct pfl_child_conf *conf, pid_t keeper)
{
    uint64_t watched;

    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    (void)setenv("NOTIFY_SOCKET", conf->notify_socket, 1);
    set_number("FDSTORE", conf->store->max);
    if (pfl_env_read_number("WATCHDOG_PID", &watched) && watched == (uint64_t)keeper)
        set_number("WATCHDOG_PID", (unsigned long)getpid());
    if (conf->store->len == 0)
        return;
    set_number("LISTEN_PID", (unsigned long)getpid());
    set_number("LISTEN_FDS", conf->store->len);
    set_names(conf->store);
}

static void become(const struct pfl_child_conf *conf, pid_t keeper)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != keeper)
        return; /* it died before that */
    set_environment(conf, keeper);
    for (size_t i = 0; i < conf->store->len; i++) {
        if (dup2(conf->store->list[i].fd, PFL_STORED_FDS_FIRST + (int)i) < 0) {
            *conf->exec_errno = errno;
            return;
        }
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &conf->signals, NULL);
    (void)execvp(conf->argv[0], conf->argv);
    *conf->exec_errno = errno;
}

int pfl_child_start(const struct pfl_child_conf *conf, pid_t *ret_pid)
{
    pid_t keeper = getpid();
    pid_t pid;

    *conf->exec_errno = 0;
    pid = fork();
    if (pid == 0) {
        become(conf, keeper);
        _exit(CANNOT_EXEC);
    }
    if (pid < 0) {
        pfl_log_error("fork-failed", "errno=%d", errno);
        return PFL_EIO;
    }
    *ret_pid = pid;
    return 0;
}
