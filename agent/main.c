/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-agent: dials relays and carries operators' streams to this host's consumer socket.
 *
 * Happy path: read the arguments, drop what an agent does not need, run the daemon.
 * Failures: wrong usage is told on stderr, exit 2; a start that fails is logged, exit 1.
 */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "agent/daemon.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/tunnel.h"
#include "tunnel/dialer.h"

#define EXIT_USAGE 2

static const char usage_text[] =
    "usage: perfleet-agent --relay HOST:PORT --ca FILE --cert FILE --key FILE [OPTION]...\n"
    "\n"
    "Dials the relay and carries operators' streams to the consumer socket of this host's\n"
    "tracing service.\n"
    "\n"
    "  --relay HOST:PORT          whom to dial; may be given 8 times\n"
    "  --ca FILE                  the fleet's authority, PEM\n"
    "  --cert FILE                this host's certificate chain, PEM\n"
    "  --key FILE                 its key, PEM, readable by its owner only\n"
    "  --crl FILE                 revocation list, PEM\n"
    "  --label NAME=VALUE[,...]   labels of this host; may be given again\n"
    "  --consumer-socket PATH     the service's socket; @NAME is an abstract one\n"
    "                             ($PERFETTO_CONSUMER_SOCK_NAME, else\n"
    "                             /run/perfetto/traced-consumer.sock if that folder is\n"
    "                             there, else /tmp/perfetto-consumer)\n"
    "  --max-streams N            at the same time (64, at most 256)\n"
    "  --spool-mib N              memory that takes in a stream's data before the network does "
    "(16)\n"
    "  --spool-total-mib N        the same of all streams together (256)\n"
    "  --max-ttl-ms N             longest life of a stream without connection (3600000)\n"
    "  --retry-max-ms N           longest wait before a relay is dialled again (30000)\n"
    "  --log-level LEVEL          error, warn, info, debug (info)\n"
    "  --help, --version\n"
    "\n"
    "SIGHUP reads certificates, key and CRL again. SIGTERM stops and ends every stream. Exit\n"
    "status: 0 stopped by a signal, 1 could not start, 2 wrong usage.\n";

enum option_id {
    OPT_RELAY = 256,
    OPT_CA,
    OPT_CERT,
    OPT_KEY,
    OPT_CRL,
    OPT_LABEL,
    OPT_SOCKET,
    OPT_MAX,
    OPT_SPOOL,
    OPT_SPOOL_TOTAL,
    OPT_TTL,
    OPT_RETRY,
    OPT_LOG_LEVEL,
    OPT_HELP,
    OPT_VERSION,
};

static const struct option options[] = {
    {"relay", required_argument, NULL, OPT_RELAY},
    {"ca", required_argument, NULL, OPT_CA},
    {"cert", required_argument, NULL, OPT_CERT},
    {"key", required_argument, NULL, OPT_KEY},
    {"crl", required_argument, NULL, OPT_CRL},
    {"label", required_argument, NULL, OPT_LABEL},
    {"consumer-socket", required_argument, NULL, OPT_SOCKET},
    {"max-streams", required_argument, NULL, OPT_MAX},
    {"spool-mib", required_argument, NULL, OPT_SPOOL},
    {"spool-total-mib", required_argument, NULL, OPT_SPOOL_TOTAL},
    {"max-ttl-ms", required_argument, NULL, OPT_TTL},
    {"retry-max-ms", required_argument, NULL, OPT_RETRY},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static _Noreturn void wrong_usage(const char *what, const char *value)
{
    fprintf(stderr, "perfleet-agent: %s%s%s\ntry: perfleet-agent --help\n", what,
            value != NULL ? ": " : "", value != NULL ? value : "");
    exit(EXIT_USAGE);
}

static unsigned parse_number(const char *text, unsigned max)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || v == 0 || v > max)
        wrong_usage("a number from 1, and not so large, is wanted", text);
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

static void add_relay(struct pfl_agent_conf *conf, const char *value)
{
    if (!pfl_dialer_is_address(value))
        wrong_usage("--relay wants HOST:PORT", value);
    if (conf->relays_len == PFL_AGENT_MAX_RELAYS)
        wrong_usage("there may be 8 relays", value);
    conf->relays[conf->relays_len++] = value;
}

static void add_labels(struct pfl_agent_conf *conf, const char *value)
{
    const char *why;

    if (pfl_hello_parse_labels(value, conf->labels, &conf->labels_len, &why) != 0)
        wrong_usage(why, value);
}

/* False: not one of these. */
static bool apply_file(struct pfl_agent_conf *conf, int id, const char *value)
{
    switch (id) {
    case OPT_CA:
        conf->files.ca_path = value;
        return true;
    case OPT_CERT:
        conf->files.cert_path = value;
        return true;
    case OPT_KEY:
        conf->files.key_path = value;
        return true;
    case OPT_CRL:
        conf->files.crl_path = value;
        return true;
    case OPT_SOCKET:
        conf->consumer_socket = value;
        return true;
    default:
        return false;
    }
}

static void apply_option(struct pfl_agent_conf *conf, int id, const char *value)
{
    switch (id) {
    case OPT_RELAY:
        add_relay(conf, value);
        break;
    case OPT_LABEL:
        add_labels(conf, value);
        break;
    case OPT_MAX:
        conf->max_streams = parse_number(value, PFL_AGENT_MAX_STREAMS);
        break;
    case OPT_SPOOL:
        conf->spool_bytes = (size_t)parse_number(value, 1024) << 20;
        break;
    case OPT_SPOOL_TOTAL:
        conf->spool_max_bytes = (uint64_t)parse_number(value, INT_MAX) << 20;
        break;
    case OPT_TTL:
        conf->ttl_max_ms = parse_number(value, PFL_TUNNEL_TTL_MAX_MS);
        break;
    case OPT_RETRY:
        conf->retry_max_ms = parse_number(value, 3600000);
        break;
    case OPT_LOG_LEVEL:
        set_log_level(value);
        break;
    case OPT_HELP:
        (void)fputs(usage_text, stdout);
        exit(0);
    case OPT_VERSION:
        printf("perfleet-agent %s\n", PFL_VERSION);
        exit(0);
    default:
        if (!apply_file(conf, id, value))
            wrong_usage("see the line above", NULL);
    }
}

static void parse_arguments(int argc, char **argv, struct pfl_agent_conf *conf)
{
    int id;

    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1)
        apply_option(conf, id, optarg);
    if (optind != argc)
        wrong_usage("unexpected argument", argv[optind]);
    if (conf->files.ca_path == NULL || conf->files.cert_path == NULL ||
        conf->files.key_path == NULL || conf->relays_len == 0)
        wrong_usage("--relay, --ca, --cert and --key are needed", NULL);
}

static void drop_privileges(void)
{
    (void)close_range(3, ~0u, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    static struct pfl_agent_conf conf;

    conf.consumer_socket = default_consumer_socket();
    conf.max_streams = 64;
    conf.spool_bytes = 16u << 20;
    conf.spool_max_bytes = 256u << 20;
    conf.ttl_max_ms = PFL_TUNNEL_TTL_MAX_MS;
    parse_arguments(argc, argv, &conf);
    drop_privileges();
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    pfl_log_limit_every_event();
    return pfl_agent_daemon_run(&conf) == 0 ? 0 : 1;
}
