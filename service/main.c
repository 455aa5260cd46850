/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleetd: command line and environment -> pfl_daemon_conf -> pfl_daemon_run.
 *
 * Addresses: flags, else PERFETTO_PRODUCER_SOCK_NAME (a list with commas) and
 * PERFETTO_CONSUMER_SOCK_NAME, else /run/perfetto/, else /tmp. --background forks; the parent
 * waits until the child listens, prints its pid and leaves. Exit codes: 0, 1 the service could not
 * start, 2 wrong usage. docs/man/perfleetd.8.md is the manual.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "perfleet/config.pb-c.h"
#include "proto/unpack.h"
#include "service/core/service.h"
#include "service/daemon.h"
#include "service/port/inherited.h"
#include "service/port/readiness.h"
#include "service/port/socket_names.h"
#include "settings/settings.h"

struct options {
    struct pfl_socket_names names;
    struct pfl_daemon_conf conf;
    struct pfl_socket_permissions permissions;
    struct pfl_inherited inherited;
    bool is_background;
    int ready_fd; /* of the waiting parent, -1 */
};

static const char help[] =
    "usage: perfleetd [options]\n"
    "The tracing service of this host: speaks Perfetto's protocol to producers and consumers.\n"
    "\n"
    "  --producer-socket ADDR[,ADDR...]  default $PERFETTO_PRODUCER_SOCK_NAME, else\n"
    "                                    /run/perfetto/traced-producer.sock or\n"
    "                                    /tmp/perfetto-producer\n"
    "  --consumer-socket ADDR            default $PERFETTO_CONSUMER_SOCK_NAME, else\n"
    "                                    /run/perfetto/traced-consumer.sock or\n"
    "                                    /tmp/perfetto-consumer\n"
    "  --set-socket-permissions PRODUCER_GROUP:MODE:CONSUMER_GROUP:MODE\n"
    "                                    groups by name or number, modes in octal: "
    "tracing:0660:...\n"
    "  --enable-relay-endpoint           serve the relays of other machines on all producer "
    "sockets\n"
    "  --enable-relay-endpoint-on ADDR   or on this one; may be repeated\n"
    "  --allow-plain-network             allow producer addresses that other machines can reach;\n"
    "                                    without authentication and encryption\n"
    "  --max-sessions N[,M]              sessions at a time, and of one user; default 15,5; N "
    "alone: N of each user\n"
    "  --user NAME                       change to this user after the sockets listen (needs "
    "root)\n"
    "  --output-dir DIR                  where configs may create files (output_path); may be\n"
    "                                    repeated. Without it: root's and its own user's configs,\n"
    "                                    wherever that user may\n"
    "  --privileged-group NAME           its members, too, may use exclusive_prio and "
    "lockdown_mode\n"
    "  --sandbox auto|require|off        default auto: all that the kernel supports\n"
    "  --guardrails                      end itself on runaway memory or CPU time\n"
    "  --background                      run in the background and print the pid\n"
    "  --log-level error|warn|info|debug default info\n"
    "  --config FILE                     the same as text: sandbox: off for --sandbox off\n"
    "  --check-config                    checks flags and file, and exits\n"
    "  --dump-config                     prints what holds, and where each value is from, and "
    "exits\n"
    "  --version, --help\n"
    "\n"
    "An address is a path or, beginning with @, an abstract name; of producers also HOST:PORT,\n"
    "[V6]:PORT or vsock://CID:PORT. Sockets that systemd passes (LISTEN_FDS) go before all of\n"
    "these.\n";

static bool parse_number(const char **at, uint32_t *ret_number)
{
    char *end;
    unsigned long value;

    if (**at < '0' || **at > '9')
        return false;
    value = strtoul(*at, &end, 10);
    *at = end;
    *ret_number = (uint32_t)value;
    return value != 0 && value <= PFL_SERVICE_SESSIONS_LIMIT;
}

/* N sessions in all and M of one user; without M there is no difference between users. */
static bool parse_session_limits(struct pfl_daemon_conf *conf, const char *text)
{
    if (!parse_number(&text, &conf->sessions_max))
        return false;
    conf->sessions_per_uid_max = conf->sessions_max;
    if (*text == ',') {
        text++;
        if (!parse_number(&text, &conf->sessions_per_uid_max))
            return false;
    }
    return *text == '\0';
}

static bool refuse(struct pfl_settings_fault *fault, const char *key, const char *what,
                   const char *value)
{
    *fault = (struct pfl_settings_fault){key, what, value};
    return false;
}

/* Its rights on the host. */
static bool apply_confinement(const Perfleet__ServiceConfig *m, struct pfl_daemon_conf *conf,
                              struct pfl_settings_fault *fault)
{
    conf->run_as = m->user;
    conf->privileged_group = m->privileged_group;
    conf->sandbox = (enum pfl_sandbox_mode)m->sandbox;
    conf->has_guardrails = m->guardrails != 0;
    if (m->n_output_dir > PFL_DAEMON_MAX_OUTPUT_DIRS)
        return refuse(fault, "output_dir", "may be given 16 times", NULL);
    for (size_t i = 0; i < m->n_output_dir; i++)
        conf->output_dirs[i] = m->output_dir[i];
    conf->output_dirs_len = m->n_output_dir;
    if (m->n_output_dir != 0 && conf->sandbox == PFL_SANDBOX_OFF)
        return refuse(fault, "output_dir", "is kept by the sandbox, which is off", NULL);
    return true;
}

static bool apply_sockets(const Perfleet__ServiceConfig *m, struct options *o,
                          struct pfl_settings_fault *fault)
{
    o->names.producer_list = m->producer_socket;
    o->names.consumer = m->consumer_socket;
    o->names.has_relay_all = m->enable_relay_endpoint != 0;
    o->names.allows_network = m->allow_plain_network != 0;
    if (m->n_enable_relay_endpoint_on > PFL_DAEMON_MAX_PRODUCER_SOCKETS)
        return refuse(fault, "enable_relay_endpoint_on", "may be given 16 times", NULL);
    for (size_t i = 0; i < m->n_enable_relay_endpoint_on; i++)
        o->names.relay_on[i] = m->enable_relay_endpoint_on[i];
    o->names.relay_on_len = m->n_enable_relay_endpoint_on;
    if (m->set_socket_permissions != NULL &&
        pfl_socket_permissions_parse(&o->permissions, m->set_socket_permissions) != 0)
        return refuse(fault, "set_socket_permissions",
                      "wants GROUP:MODE:GROUP:MODE with modes of four octal digits",
                      m->set_socket_permissions);
    return true;
}

static bool apply(const ProtobufCMessage *message, void *user, struct pfl_settings_fault *fault)
{
    const Perfleet__ServiceConfig *m = (const Perfleet__ServiceConfig *)message;
    struct options *o = user;

    if (!parse_session_limits(&o->conf, m->max_sessions))
        return refuse(fault, "max_sessions", "wants N[,M], each from 1 to 1000", m->max_sessions);
    o->is_background = m->background != 0;
    pfl_log_set_level((enum pfl_log_level)m->log_level);
    return apply_sockets(m, o, fault) && apply_confinement(m, &o->conf, fault);
}

static int wrong_usage(const char *what, const char *value)
{
    (void)fprintf(stderr, "perfleetd: %s: %s\ntry: perfleetd --help\n", what, value);
    return PFL_SETTINGS_EXIT;
}

/* Sockets that listen already take the place of those with names. */
static int take_inherited(struct options *o)
{
    struct pfl_inherited *inherited = &o->inherited;

    if (pfl_inherited_take(inherited) != 0)
        return EXIT_FAILURE;
    for (size_t i = 0; i < inherited->producers_len; i++)
        inherited->producers[i].has_relay = o->names.has_relay_all;
    if (inherited->producers_len != 0) {
        o->conf.producers = inherited->producers;
        o->conf.producers_len = inherited->producers_len;
    }
    if (inherited->consumer.inherited_fd != 0)
        o->conf.consumer = inherited->consumer;
    return -1;
}

static int resolve_sockets(struct options *o)
{
    const char *bad = NULL;
    int rc;

    pfl_socket_names_default(&o->names);
    rc = pfl_socket_names_split(&o->names, &bad);
    if (rc == PFL_EPERM)
        return wrong_usage(
            bad == o->names.consumer
                ? "consumers are served on a UNIX socket only (perfleet-relay serves "
                  "them over TLS), not on"
                : "other machines can reach this address and nothing is "
                  "authenticated on it; --allow-plain-network insists",
            bad);
    if (rc == PFL_ENOENT)
        return wrong_usage("--enable-relay-endpoint-on names no producer socket", bad);
    if (rc != 0)
        return wrong_usage("not usable as socket addresses", bad);
    o->conf.producers = o->names.producers;
    o->conf.producers_len = o->names.producers_len;
    o->conf.consumer.address = o->names.consumer;
    o->conf.producer_access = o->permissions.producer;
    o->conf.consumer_access = o->permissions.consumer;
    return take_inherited(o);
}

/* The user that starts the service is rarely the one that uses it. */
static void say_who_reaches(const char *what, const char *path)
{
    struct stat st;

    if (path[0] == '@' || stat(path, &st) != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return;
    pfl_log_info("socket-for-owner-only",
                 "socket=%s for=%s owner=%u effect=\"other users' programs are not allowed to "
                 "connect\" remedy=\"--set-socket-permissions\"",
                 pfl_log_quote_str(path), what, (unsigned)st.st_uid);
}

static void on_ready(void *user)
{
    const struct options *o = user;

    pfl_readiness_tell();
    if (o->ready_fd >= 0 && write(o->ready_fd, "1", 1) != 1)
        pfl_log_warn("parent-notify-failed", "was=parent-not-told errno=%d", errno);
    if (o->ready_fd >= 0)
        (void)close(o->ready_fd);
    pfl_log_info("listening", "version=%s consumer=%s producer=%s", PFL_VERSION,
                 pfl_log_quote_str(o->conf.consumer.address),
                 pfl_log_quote_str(o->conf.producers[0].address));
    say_who_reaches("producers", o->conf.producers[0].address);
    say_who_reaches("consumers", o->conf.consumer.address);
}

static void detach(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)setsid();
    if (null_fd < 0)
        return;
    (void)dup2(null_fd, STDIN_FILENO);
    (void)dup2(null_fd, STDOUT_FILENO);
    if (null_fd > STDERR_FILENO)
        (void)close(null_fd);
}

/* In the child -1; in the parent the exit code, once the child listens or failed. */
static int go_to_background(struct options *o)
{
    char byte;
    pid_t pid;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return EXIT_FAILURE;
    pid = fork();
    if (pid < 0)
        return EXIT_FAILURE;
    if (pid == 0) {
        (void)close(fds[0]);
        o->ready_fd = fds[1];
        detach();
        return -1;
    }
    (void)close(fds[1]);
    if (read(fds[0], &byte, 1) != 1)
        return EXIT_FAILURE;
    (void)printf("%ld\n", (long)pid);
    return EXIT_SUCCESS;
}

/* The rest goes in pfl_service_sandbox_enter, once the sockets listen. */
static void drop_privileges(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* our memory holds data of other processes */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error, not the end */
}

static int serve(struct options *o)
{
    int rc;

    drop_privileges();
    pfl_log_open("perfleetd", NULL);
    pfl_log_limit_every_event(); /* nearly every line can be caused by any local program */
    pfl_readiness_open();
    o->conf.on_ready = on_ready;
    o->conf.user = o;
    rc = pfl_daemon_run(&o->conf);
    pfl_log_limit_flush_every_event();
    if (rc != 0)
        pfl_log_error("not-started", "reason=\"%s\"", pfl_err_str(rc));
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct pfl_settings_program program = {
        "perfleetd", help, &perfleet__service_config__descriptor, NULL, 0, apply};
    struct options o = {.permissions = {.producer = {.mode = -1}, .consumer = {.mode = -1}},
                        .ready_fd = -1};
    ProtobufCMessage *message = NULL;
    int rc = pfl_settings_start(&program, argc, argv, &o, &message);

    if (rc < 0)
        rc = resolve_sockets(&o);
    if (rc < 0 && o.is_background)
        rc = go_to_background(&o);
    if (rc < 0)
        rc = serve(&o);
    pfl_socket_names_fini(&o.names);
    pfl_proto_free(message);
    return rc;
}
