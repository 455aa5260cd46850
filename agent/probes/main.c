/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-probes: the command line, the guardian, signals.
 *
 * Happy path: a child, the guardian, is forked first: it waits on a pipe for the parent's end and
 * then removes the parent's tracefs instance if it is still there, so that even a kill -9 leaves
 * tracefs as it was. The parent serves until SIGTERM or SIGINT.
 * Failure: wrong usage exits 2; a start that fails exits 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/probes/probes.h"
#include "base/log.h"

static const char usage[] =
    "usage: perfleet-probes [options]\n"
    "The host's own data for traces: kernel events, processes, system statistics.\n"
    "  --producer-socket A   the service's producer socket (PERFETTO_PRODUCER_SOCK_NAME)\n"
    "  --smb-kb N            shared memory, KiB (4096)\n"
    "  --no-ftrace           do not offer linux.ftrace\n"
    "  --log-level L         error, warn, info or debug (info)\n"
    "  --help, --version\n";

enum option_id { OPT_SOCKET = 256, OPT_SMB, OPT_NO_FTRACE, OPT_LOG, OPT_HELP, OPT_VERSION };

static const struct option options[] = {
    {"producer-socket", required_argument, NULL, OPT_SOCKET},
    {"smb-kb", required_argument, NULL, OPT_SMB},
    {"no-ftrace", no_argument, NULL, OPT_NO_FTRACE},
    {"log-level", required_argument, NULL, OPT_LOG},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static bool parse_kb(const char *text, uint32_t *ret_kb)
{
    char *end;
    unsigned long kb = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || kb == 0 || kb > 1024u * 1024u)
        return false;
    *ret_kb = (uint32_t)kb;
    return true;
}

static bool take_option(int id, struct pfl_probes_conf *conf)
{
    enum pfl_log_level level;

    switch (id) {
    case OPT_SOCKET:
        conf->producer_socket = optarg;
        return true;
    case OPT_SMB:
        return parse_kb(optarg, &conf->smb_kb);
    case OPT_NO_FTRACE:
        conf->no_ftrace = true;
        return true;
    case OPT_LOG:
        if (!pfl_log_level_parse(optarg, &level))
            return false;
        pfl_log_set_level(level);
        return true;
    case OPT_HELP:
        (void)fputs(usage, stdout);
        exit(EXIT_SUCCESS);
    case OPT_VERSION:
        (void)printf("perfleet-probes %s\n", PFL_VERSION);
        exit(EXIT_SUCCESS);
    default:
        return false;
    }
}

static void block_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGINT);
    sigaddset(ret_set, SIGHUP);
    sigprocmask(SIG_BLOCK, ret_set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* The child: no signal of a terminal reaches it; the end of the pipe is the end of the parent. */
static void guard(int pipe_fd, pid_t parent)
{
    struct pfl_tracefs fs;
    char byte;
    ssize_t n;

    (void)setsid();
    (void)prctl(PR_SET_NAME, "perfleet-guard", 0, 0, 0);
    do {
        n = read(pipe_fd, &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (pfl_tracefs_open(&fs) == 0) {
        pfl_tracefs_remove_of(&fs, parent);
        pfl_tracefs_close(&fs);
    }
    _exit(EXIT_SUCCESS);
}

/* Returns the pipe whose end wakes the guardian; -1: there is none. */
static int start_guardian(pid_t *ret_pid)
{
    pid_t parent = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    *ret_pid = fork();
    if (*ret_pid == 0) {
        close(ends[1]);
        guard(ends[0], parent);
    }
    close(ends[0]);
    if (*ret_pid < 0) {
        close(ends[1]);
        return -1;
    }
    return ends[1];
}

int main(int argc, char **argv)
{
    struct pfl_probes_conf conf = {0};
    sigset_t signals;
    pid_t guardian = -1;
    int guardian_fd = -1;
    int stop_fd;
    int id;
    int rc;

    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!take_option(id, &conf)) {
            (void)fputs(usage, stderr);
            return 2;
        }
    }
    if (optind != argc) {
        (void)fputs(usage, stderr);
        return 2;
    }
    block_signals(&signals);
    if (!conf.no_ftrace)
        guardian_fd = start_guardian(&guardian);
    stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    rc = stop_fd >= 0 ? pfl_probes_run(&conf, stop_fd) : PFL_EIO;
    if (guardian_fd >= 0) {
        close(guardian_fd);
        (void)waitpid(guardian, NULL, 0);
    }
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
