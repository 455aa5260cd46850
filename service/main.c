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
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "service/control/service.h"
#include "service/control/socket_names.h"
#include "service/daemon.h"
#include "service/port/inherited.h"
#include "service/port/readiness.h"

#define EXIT_USAGE 2

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
    "  --allow-plain-network             let producer addresses be reachable from other machines;\n"
    "                                    nothing is authenticated or encrypted there\n"
    "  --max-sessions N[,M]              sessions at a time, and of one user; default 15,5; N "
    "alone: N of each user\n"
    "  --user NAME                       become this user once the sockets listen (as root only)\n"
    "  --output-dir DIR                  where configs may create files (output_path); may be\n"
    "                                    repeated. Without it: wherever the user may\n"
    "  --sandbox auto|require|off        default auto: what the kernel has\n"
    "  --background                      run in the background and print the pid\n"
    "  --log-level error|warn|info|debug default info\n"
    "  --version, --help\n"
    "\n"
    "An address is a path or, beginning with @, an abstract name; of producers also HOST:PORT,\n"
    "[V6]:PORT or vsock://CID:PORT. Sockets that systemd passes (LISTEN_FDS) go before all of\n"
    "these.\n";

enum {
    OPT_PRODUCER = 256,
    OPT_CONSUMER,
    OPT_PERMISSIONS,
    OPT_RELAY,
    OPT_RELAY_ON,
    OPT_NETWORK,
    OPT_SESSIONS,
    OPT_USER,
    OPT_OUTPUT,
    OPT_SANDBOX,
    OPT_BACKGROUND,
    OPT_LOG,
    OPT_VERSION,
};

static const struct option long_options[] = {
    {"producer-socket", required_argument, NULL, OPT_PRODUCER},
    {"consumer-socket", required_argument, NULL, OPT_CONSUMER},
    {"set-socket-permissions", required_argument, NULL, OPT_PERMISSIONS},
    {"enable-relay-endpoint", no_argument, NULL, OPT_RELAY},
    {"enable-relay-endpoint-on", required_argument, NULL, OPT_RELAY_ON},
    {"allow-plain-network", no_argument, NULL, OPT_NETWORK},
    {"max-sessions", required_argument, NULL, OPT_SESSIONS},
    {"user", required_argument, NULL, OPT_USER},
    {"output-dir", required_argument, NULL, OPT_OUTPUT},
    {"sandbox", required_argument, NULL, OPT_SANDBOX},
    {"background", no_argument, NULL, OPT_BACKGROUND},
    {"log-level", required_argument, NULL, OPT_LOG},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int wrong_usage(const char *what, const char *value)
{
    (void)fprintf(stderr, "perfleetd: %s: %s\nTry perfleetd --help.\n", what, value);
    return EXIT_USAGE;
}

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

/* What it may do with the host; 0 or the exit code. */
static int apply_confinement(struct pfl_daemon_conf *conf, int option)
{
    if (option == OPT_USER) {
        conf->run_as = optarg;
        return 0;
    }
    if (option == OPT_SANDBOX)
        return pfl_sandbox_mode_parse(optarg, &conf->sandbox)
                   ? 0
                   : wrong_usage("--sandbox wants auto, require or off, not", optarg);
    if (conf->output_dirs_len == PFL_DAEMON_MAX_OUTPUT_DIRS)
        return wrong_usage("--output-dir too often", optarg);
    conf->output_dirs[conf->output_dirs_len++] = optarg;
    return 0;
}

static int apply_option(struct options *o, int option)
{
    enum pfl_log_level level;

    switch (option) {
    case OPT_PRODUCER:
        o->names.producer_list = optarg;
        return 0;
    case OPT_CONSUMER:
        o->names.consumer = optarg;
        return 0;
    case OPT_PERMISSIONS:
        if (pfl_socket_permissions_parse(&o->permissions, optarg) != 0)
            return wrong_usage("--set-socket-permissions wants GROUP:MODE:GROUP:MODE with modes of "
                               "four octal digits, not",
                               optarg);
        return 0;
    case OPT_RELAY:
        o->names.has_relay_all = true;
        return 0;
    case OPT_RELAY_ON:
        if (o->names.relay_on_len == PFL_DAEMON_MAX_PRODUCER_SOCKETS)
            return wrong_usage("--enable-relay-endpoint-on too often", optarg);
        o->names.relay_on[o->names.relay_on_len++] = optarg;
        return 0;
    case OPT_NETWORK:
        o->names.allows_network = true;
        return 0;
    case OPT_SESSIONS:
        if (!parse_session_limits(&o->conf, optarg))
            return wrong_usage("--max-sessions wants N[,M], each from 1 to 1000, not", optarg);
        return 0;
    case OPT_USER:
    case OPT_OUTPUT:
    case OPT_SANDBOX:
        return apply_confinement(&o->conf, option);
    case OPT_BACKGROUND:
        o->is_background = true;
        return 0;
    case OPT_LOG:
        if (!pfl_log_level_parse(optarg, &level))
            return wrong_usage("--log-level wants error, warn, info or debug, not", optarg);
        pfl_log_set_level(level);
        return 0;
    default:
        (void)fprintf(stderr, "Try perfleetd --help.\n");
        return EXIT_USAGE;
    }
}

/* Parses the command line. Returns -1 to go on, else the exit code. */
static int parse_options(struct options *o, int argc, char **argv)
{
    int option;
    int rc;

    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(help, stdout);
            return EXIT_SUCCESS;
        }
        if (option == OPT_VERSION) {
            (void)printf("perfleetd %s\n", PFL_VERSION);
            return EXIT_SUCCESS;
        }
        rc = apply_option(o, option);
        if (rc != 0)
            return rc;
    }
    if (optind < argc)
        return wrong_usage("unexpected argument", argv[optind]);
    if (o->conf.output_dirs_len != 0 && o->conf.sandbox == PFL_SANDBOX_OFF)
        return wrong_usage("--output-dir is kept by the sandbox, which is", "off");
    return -1;
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

static void on_ready(void *user)
{
    const struct options *o = user;

    pfl_readiness_tell();
    if (o->ready_fd >= 0 && write(o->ready_fd, "1", 1) != 1)
        pfl_log_warn("parent-not-told", "errno=%d", errno);
    if (o->ready_fd >= 0)
        (void)close(o->ready_fd);
    pfl_log_info("listening", "version=%s consumer=%s producer=%s", PFL_VERSION,
                 pfl_log_quote_str(o->conf.consumer.address),
                 pfl_log_quote_str(o->conf.producers[0].address));
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

/* The rest goes in pfl_confinement_enter, once the sockets listen. */
static void drop_privileges(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* other processes' data is in our memory */
    (void)signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    struct options o = {.permissions = {.producer = {.mode = -1}, .consumer = {.mode = -1}},
                        .ready_fd = -1};
    int rc = parse_options(&o, argc, argv);

    if (rc < 0)
        rc = resolve_sockets(&o);
    if (rc < 0 && o.is_background)
        rc = go_to_background(&o);
    if (rc >= 0) {
        pfl_socket_names_fini(&o.names);
        return rc;
    }
    drop_privileges();
    pfl_log_limit_every_event(); /* nearly every line can be caused by any local program */
    pfl_readiness_open();
    o.conf.on_ready = on_ready;
    o.conf.user = &o;
    rc = pfl_daemon_run(&o.conf);
    pfl_socket_names_fini(&o.names);
    if (rc != 0)
        pfl_log_error("not-started", "reason=\"%s\"", pfl_err_str(rc));
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
