/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-probes: the command line, the guardian, signals.
 *
 * Happy path: a child, the guardian, is forked first. It waits on a pipe for the parent's end, then
 * removes the parent's remaining tracefs instances and restores what the parent borrowed, so that
 * even kill -9 leaves tracefs unchanged. The parent serves until SIGTERM or SIGINT. Failure: wrong
 * usage or configuration exits 2; a start that fails exits 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/probes/probes.h"
#include "agent/probes/tracefs/tracefs.h"
#include "agent/probes/tracefs/undo.h"
#include "base/log.h"
#include "base/service_user.h"
#include "base/subuids.h"
#include "perfleet/config.pb-c.h"
#include "proto/unpack.h"
#include "settings/settings.h"

static const char usage[] =
    "usage: perfleet-probes [options]\n"
    "The host's own data for traces: kernel events, processes, system statistics.\n"
    "  --producer-socket A   the service's producer socket (PERFETTO_PRODUCER_SOCK_NAME)\n"
    "  --service-user NAME[,...]\n"
    "                        users besides root and its own who may serve that socket, wherever\n"
    "                        it is (PERFLEET_SERVICE_USER)\n"
    "  --smb-kb N            shared memory, KiB (4096)\n"
    "  --no-ftrace           do not offer linux.ftrace\n"
    "  --log-level L         error, warn, info or debug (info)\n"
    "  --config FILE         the same as text: smb_kb: 8192 for --smb-kb 8192\n"
    "  --check-config        checks flags and file, and exits\n"
    "  --dump-config         prints each value and its origin, and exits\n"
    "  --help, --version\n";

static const struct pfl_settings_key keys[] = {{"smb_kb", .min = 1, .max = 1024 * 1024}};

/* The producer library takes them from the environment. */
static bool take_service_user(const char *list)
{
    struct pfl_service_users users = {.len = 0};

    return pfl_service_users_parse(&users, list) == 0 &&
           setenv(PFL_SERVICE_USER_VARIABLE, list, 1) == 0;
}

static bool apply(const ProtobufCMessage *message, void *user, struct pfl_settings_fault *fault)
{
    const Perfleet__ProbesConfig *m = (const Perfleet__ProbesConfig *)message;
    struct pfl_probes_conf *conf = user;

    conf->producer_socket = m->producer_socket;
    if (m->service_user != NULL && !take_service_user(m->service_user)) {
        *fault = (struct pfl_settings_fault){"service_user", "wants at most 16 existing users",
                                             m->service_user};
        return false;
    }
    conf->smb_kb = m->smb_kb;
    conf->no_ftrace = m->no_ftrace != 0;
    pfl_log_set_level((enum pfl_log_level)m->log_level);
    return true;
}

static void block_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGINT);
    sigaddset(ret_set, SIGHUP);
    sigaddset(ret_set, SIGUSR1);
    sigaddset(ret_set, SIGUSR2);
    sigprocmask(SIG_BLOCK, ret_set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error, not the end */
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
        (void)pfl_tracefs_remove_stale(&fs); /* other instances of the parent */
        (void)pfl_undo_run_stale(fs.root_fd);
        pfl_tracefs_close(&fs);
    }
    _exit(EXIT_SUCCESS);
}

/* Returns the pipe whose end wakes the guardian; -1: none. */
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

static int serve(const struct pfl_probes_conf *conf)
{
    sigset_t signals;
    pid_t guardian = -1;
    int guardian_fd = -1;
    int stop_fd;
    int rc;

    pfl_log_open("perfleet-probes", NULL);
    pfl_subuids_load();
    block_signals(&signals);
    if (!conf->no_ftrace)
        guardian_fd = start_guardian(&guardian);
    stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    rc = stop_fd >= 0 ? pfl_probes_run(conf, stop_fd) : PFL_EIO;
    if (guardian_fd >= 0) {
        close(guardian_fd);
        (void)waitpid(guardian, NULL, 0);
    }
    return rc;
}

int main(int argc, char **argv)
{
    static const struct pfl_settings_program program = {"perfleet-probes",
                                                        usage,
                                                        &perfleet__probes_config__descriptor,
                                                        keys,
                                                        sizeof(keys) / sizeof(keys[0]),
                                                        apply};
    struct pfl_probes_conf conf = {0};
    ProtobufCMessage *message;
    int rc = pfl_settings_start(&program, argc, argv, &conf, &message);

    if (rc >= 0)
        return rc;
    rc = serve(&conf);
    pfl_proto_free(message);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
