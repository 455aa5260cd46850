/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-keep: starts a program, keeps descriptors for it, and restarts it when it dies.
 *
 * Happy path: read flags, drop unneeded rights, run. Failures: wrong usage: stderr, exit 2; a start
 * that fails is logged, exit 1. Otherwise the exit status is the program's. Capabilities stay
 * permitted, but not effective, for the program; except the one to signal a program that became
 * another user.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/supervisor/keep.h"
#include "agent/supervisor/restarts.h"
#include "base/log.h"
#include "base/notify.h"
#include "tunnel/backoff.h"

#define RESTART_MAX_MS 3600000u

static const char usage[] =
    "usage: perfleet-keep [--restart-max-ms N] [--log-level LEVEL] -- PROGRAM [ARG]...\n"
    "Starts the program, keeps descriptors for it as systemd does, and restarts it when it "
    "dies.\n"
    "  --restart-max-ms N    longest wait before that (30000)\n"
    "  --log-level LEVEL     error, warn, info, debug (info)\n"
    "  --help, --version\n"
    "\n"
    "SIGTERM, SIGINT and SIGQUIT are passed on and stop it for good; SIGHUP, SIGUSR1 and SIGUSR2 "
    "are\n"
    "passed on. Exit status: the program's, 128 and the signal's number when one ended it; 1 "
    "could\n"
    "not start, 2 wrong usage, 126 and 127 the program cannot be executed.\n";

static int refuse(const char *what)
{
    (void)fprintf(stderr, "perfleet-keep: %s\nTry perfleet-keep --help.\n", what);
    return PFL_RESTARTS_WRONG_USAGE;
}

static bool read_max_ms(const char *text, uint64_t *ret_ms)
{
    char *end;

    errno = 0;
    *ret_ms = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 &&
           *ret_ms >= PFL_BACKOFF_MIN_MS && *ret_ms <= RESTART_MAX_MS;
}

/* -1: continue. */
static int read_options(int argc, char **argv, struct pfl_keep_conf *conf)
{
    enum pfl_log_level level;
    int i = 1;

    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--help") == 0)
            return fputs(usage, stdout) < 0;
        if (strcmp(argv[i], "--version") == 0)
            return printf("perfleet-keep %s\n", PFL_VERSION) < 0;
        if (strcmp(argv[i], "--restart-max-ms") == 0) {
            if (!read_max_ms(value, &conf->restart_max_ms))
                return refuse("--restart-max-ms wants a number from 50 to 3600000");
        } else if (strcmp(argv[i], "--log-level") == 0) {
            if (!pfl_log_level_parse(value, &level))
                return refuse("--log-level wants error, warn, info or debug");
            pfl_log_set_level(level);
        } else {
            return refuse("no such option; the program stands behind --");
        }
    }
    if (i >= argc - 1)
        return refuse("no program is given behind --");
    conf->argv = argv + i + 1;
    return -1;
}

/* Root's program gets them back at exec, and so does any other with ambient ones. */
static void rest_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &header, data) != 0)
        return;
    data[0].effective &= 1u << CAP_KILL;
    data[1].effective = 0;
    (void)syscall(SYS_capset, &header, data); /* a service manager may have forbidden it */
}

int main(int argc, char **argv)
{
    struct pfl_keep_conf conf = {.restart_max_ms = PFL_BACKOFF_MAX_MS};
    int exit_status = EXIT_FAILURE;
    int rc = read_options(argc, argv, &conf);

    if (rc >= 0)
        return rc;
    (void)close_range(3, ~0u, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    pfl_log_open("perfleet-keep", NULL);
    pfl_log_limit_every_event();
    pfl_notify_open();
    rest_capabilities();
    rc = pfl_keep_run(&conf, &exit_status);
    pfl_log_limit_flush_every_event();
    if (rc != 0)
        pfl_log_error("not-started", "reason=\"%s\"", pfl_err_str(rc));
    return rc == 0 ? exit_status : EXIT_FAILURE;
}
