/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-relay: gives this host's consumer socket to operators over mutual TLS.
 *
 * Happy path: read the arguments, drop what a relay does not need, run the daemon.
 * Failures: wrong usage is told on stderr, exit 2; a start that fails is logged, exit 1.
 */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "relay/daemon.h"

#define EXIT_USAGE 2

static const char usage_text[] =
    "usage: perfleet-relay --ca FILE --cert FILE --key FILE [OPTION]...\n"
    "\n"
    "With a host's certificate: listens for operators over mutual TLS and forwards each of\n"
    "them to the consumer socket of this host's tracing service. With a relay's: a meeting\n"
    "point, which carries operators' streams to hosts whose perfleet-agent has dialled it.\n"
    "\n"
    "  --listen HOST:PORT         where to listen (0.0.0.0:9910; [V6]:PORT; port 0 = any)\n"
    "  --ca FILE                  the fleet's authority, PEM\n"
    "  --cert FILE                its certificate chain, PEM: a host's or a relay's\n"
    "  --key FILE                 its key, PEM, readable by its owner only\n"
    "  --crl FILE                 revocation list, PEM\n"
    "  --fleet NAME               whose operators may connect (the certificate's fleet)\n"
    "  --consumer-socket PATH     the service's socket; @NAME is an abstract one\n"
    "                             ($PERFETTO_CONSUMER_SOCK_NAME, else\n"
    "                             /run/perfetto/traced-consumer.sock if that folder is\n"
    "                             there, else /tmp/perfetto-consumer)\n"
    "  --policy FILE              which operators may use which hosts (else all, all)\n"
    "  --audit-log FILE           one JSON line for each control action (reopened on SIGHUP)\n"
    "  --max-connections N        at the same time (4096)\n"
    "  --handshake-timeout-ms N   until a peer must have shown its certificate (5000)\n"
    "  --half-closed-timeout-ms N quiet time after which a half-ended connection is cut (60000)\n"
    "  --drain-timeout-ms N       from SIGTERM until connections are cut (10000)\n"
    "  --user NAME                become this user once it listens (as root only); for SIGHUP it\n"
    "                             must be able to read the files above\n"
    "  --sandbox auto|require|off what the kernel has (auto), all of it or no start, nothing\n"
    "  --log-level LEVEL          error, warn, info, debug (info)\n"
    "  --help, --version\n"
    "\n"
    "SIGHUP reads certificates, key, CRL and policy again. SIGTERM stops. Exit status: 0 stopped "
    "by\n"
    "a signal, 1 could not start, 2 wrong usage.\n";

enum option_id {
    OPT_LISTEN = 256,
    OPT_CA,
    OPT_CERT,
    OPT_KEY,
    OPT_CRL,
    OPT_FLEET,
    OPT_SOCKET,
    OPT_AUDIT,
    OPT_POLICY,
    OPT_MAX,
    OPT_HANDSHAKE,
    OPT_HALF_CLOSED,
    OPT_DRAIN,
    OPT_USER,
    OPT_SANDBOX,
    OPT_LOG_LEVEL,
    OPT_HELP,
    OPT_VERSION,
};

static const struct option options[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"ca", required_argument, NULL, OPT_CA},
    {"cert", required_argument, NULL, OPT_CERT},
    {"key", required_argument, NULL, OPT_KEY},
    {"crl", required_argument, NULL, OPT_CRL},
    {"fleet", required_argument, NULL, OPT_FLEET},
    {"consumer-socket", required_argument, NULL, OPT_SOCKET},
    {"policy", required_argument, NULL, OPT_POLICY},
    {"audit-log", required_argument, NULL, OPT_AUDIT},
    {"max-connections", required_argument, NULL, OPT_MAX},
    {"handshake-timeout-ms", required_argument, NULL, OPT_HANDSHAKE},
    {"half-closed-timeout-ms", required_argument, NULL, OPT_HALF_CLOSED},
    {"drain-timeout-ms", required_argument, NULL, OPT_DRAIN},
    {"user", required_argument, NULL, OPT_USER},
    {"sandbox", required_argument, NULL, OPT_SANDBOX},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static _Noreturn void wrong_usage(const char *what, const char *value)
{
    fprintf(stderr, "perfleet-relay: %s%s%s\ntry: perfleet-relay --help\n", what,
            value != NULL ? ": " : "", value != NULL ? value : "");
    exit(EXIT_USAGE);
}

static unsigned parse_number(const char *text)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || v == 0 || v > INT_MAX)
        wrong_usage("a number from 1 to 2147483647 is wanted", text);
    return (unsigned)v;
}

static const char *default_consumer_socket(void)
{
    const char *name = getenv("PERFETTO_CONSUMER_SOCK_NAME");

    if (name != NULL && name[0] != '\0')
        return name;
    if (access("/run/perfetto", X_OK) == 0)
        return "/run/perfetto/traced-consumer.sock";
    return "/tmp/perfetto-consumer";
}

static void set_log_level(const char *text)
{
    enum pfl_log_level level;

    if (!pfl_log_level_parse(text, &level))
        wrong_usage("no such log level", text);
    pfl_log_set_level(level);
}

/* False: not one of these. */
static bool apply_file(struct pfl_port_conf *port, int id, const char *value)
{
    switch (id) {
    case OPT_CA:
        port->files.ca_path = value;
        return true;
    case OPT_CERT:
        port->files.cert_path = value;
        return true;
    case OPT_KEY:
        port->files.key_path = value;
        return true;
    case OPT_CRL:
        port->files.crl_path = value;
        return true;
    case OPT_POLICY:
        port->policy_path = value;
        return true;
    case OPT_AUDIT:
        port->audit_path = value;
        return true;
    default:
        return false;
    }
}

static void apply_option(struct pfl_daemon_conf *conf, int id, const char *value)
{
    switch (id) {
    case OPT_LISTEN:
        conf->port.listen_address = value;
        break;
    case OPT_FLEET:
        if (value[0] == '\0' || strlen(value) > 63)
            wrong_usage("no name of a fleet", value);
        conf->port.fleet = value;
        break;
    case OPT_SOCKET:
        conf->port.consumer_socket = value;
        conf->port.is_socket_given = true;
        break;
    case OPT_MAX:
        conf->port.max_connections = parse_number(value);
        break;
    case OPT_HANDSHAKE:
        conf->port.handshake_timeout_ms = parse_number(value);
        break;
    case OPT_HALF_CLOSED:
        conf->port.half_closed_timeout_ms = parse_number(value);
        break;
    case OPT_DRAIN:
        conf->drain_timeout_ms = parse_number(value);
        break;
    case OPT_USER:
        conf->run_as = value;
        break;
    case OPT_SANDBOX:
        if (!pfl_sandbox_mode_parse(value, &conf->sandbox))
            wrong_usage("--sandbox wants auto, require or off", value);
        break;
    case OPT_LOG_LEVEL:
        set_log_level(value);
        break;
    case OPT_HELP:
        (void)fputs(usage_text, stdout);
        exit(0);
    case OPT_VERSION:
        printf("perfleet-relay %s\n", PFL_VERSION);
        exit(0);
    default:
        if (!apply_file(&conf->port, id, value))
            wrong_usage("see the line above", NULL);
    }
}

static void parse_arguments(int argc, char **argv, struct pfl_daemon_conf *conf)
{
    int id;

    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1)
        apply_option(conf, id, optarg);
    if (optind != argc)
        wrong_usage("unexpected argument", argv[optind]);
    if (conf->port.files.ca_path == NULL || conf->port.files.cert_path == NULL ||
        conf->port.files.key_path == NULL)
        wrong_usage("--ca, --cert and --key are needed", NULL);
}

/* Two descriptors a connection; takes what the hard limit gives. */
static void fit_file_limit(unsigned *max_connections)
{
    const rlim_t spare = 64;
    rlim_t want = (rlim_t)*max_connections * 2 + spare;
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur >= want)
        return;
    lim.rlim_cur = lim.rlim_max < want ? lim.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &lim);
    if (lim.rlim_cur >= want || lim.rlim_cur < spare + 2)
        return;
    *max_connections = (unsigned)((lim.rlim_cur - spare) / 2);
    pfl_log_warn("file-limit", "max_connections=%u is what %llu open files allow", *max_connections,
                 (unsigned long long)lim.rlim_cur);
}

static void drop_privileges(void)
{
    (void)close_range(3, ~0u, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    struct pfl_daemon_conf conf = {
        .port = {.listen_address = "0.0.0.0:9910",
                 .consumer_socket = default_consumer_socket(),
                 .files = {.is_server = true},
                 .max_connections = 4096,
                 .handshake_timeout_ms = 5000,
                 .half_closed_timeout_ms = 60000},
        .drain_timeout_ms = 10000,
    };

    parse_arguments(argc, argv, &conf);
    drop_privileges();
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    fit_file_limit(&conf.port.max_connections);
    return pfl_daemon_run(&conf) == 0 ? 0 : 1;
}
