/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-agent: dials relays and carries operators' streams to this host's consumer socket.
 *
 * Happy path: read flags and file, drop unneeded rights, run the daemon. Failures: wrong usage or
 * configuration: stderr, exit 2; a start that fails is logged, exit 1.
 */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "agent/daemon/daemon.h"
#include "agent/daemon/join/join_port.h"
#include "agent/daemon/renew_port.h"
#include "base/io/fdsock.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfleet/config.pb-c.h"
#include "proto/tunnel/tunnel.h"
#include "proto/unpack.h"
#include "settings/settings.h"
#include "tunnel/dialer.h"
#include "tunnel/trigger_producer_port.h"

static const char usage_text[] =
    "usage: perfleet-agent --relay HOST --ca FILE --cert FILE --key FILE [OPTION]...\n"
    "       perfleet-agent join --help\n"
    "       perfleet-agent renew [--due | --force] OPTION...\n"
    "\n"
    "Dials the relay and carries operators' streams to the consumer socket of this host's\n"
    "tracing service.\n"
    "\n"
    "  --relay HOST[:PORT]        a relay to dial (port 9910); may be given 8 times\n"
    "  --ca FILE                  the fleet's authority, PEM\n"
    "  --cert FILE                this host's certificate chain, PEM\n"
    "  --key FILE                 its key, PEM, readable by its owner only\n"
    "  --crl FILE                 revocation list, PEM\n"
    "  --label NAME=VALUE[,...]   labels of this host; may be given again\n"
    "  --consumer-socket PATH     the service's socket; @NAME is an abstract one\n"
    "                             ($PERFETTO_CONSUMER_SOCK_NAME, else\n"
    "                             /run/perfetto/traced-consumer.sock if that folder is\n"
    "                             there, else /tmp/perfetto-consumer)\n"
    "  --producer-socket PATH     its socket for producers, at which triggers are raised\n"
    "                             ($PERFETTO_PRODUCER_SOCK_NAME, else the one beside)\n"
    "  --service-user NAME[,...]  users besides root and its own who may serve those sockets,\n"
    "                             in any place ($PERFLEET_SERVICE_USER)\n"
    "  --max-streams N            at the same time (64, at most 256)\n"
    "  --spool-mib N              memory that takes in a stream's data before the network does "
    "(16)\n"
    "  --spool-total-mib N        the same for all streams together (256)\n"
    "  --spool-dir DIR            folder for unnamed files with data that memory cannot hold\n"
    "  --spool-disk-mib N         size of a stream's file (1024)\n"
    "  --spool-disk-total-mib N   size of all files together (4096)\n"
    "  --segments-dir DIR         folder of segments that wait for a collector; perfleetd writes\n"
    "                             there, too. Without it this host takes no orders\n"
    "  --segments-mib N           size of all segments (4096)\n"
    "  --segments-age-h N         age of a segment in hours (168)\n"
    "  --orders-expire-h N        an order whose collector was not here for so long is removed\n"
    "                             (2160; 0: never)\n"
    "  --max-ttl-ms N             longest life of a stream without connection (3600000)\n"
    "  --retry-max-ms N           longest wait before a relay is redialled (30000)\n"
    "  --metrics-listen HOST:PORT listener for Prometheus, over mutual TLS\n"
    "  --metrics-socket PATH      the same on a UNIX socket\n"
    "  --user NAME                change to this user after files are read; needs root\n"
    "  --sandbox auto|require|off all that the kernel supports (auto), fail without it, none\n"
    "  --silence-ms N             redial a relay that is silent for so long (15000)\n"
    "  --join-port N              relays' join port, for renew (9911; 0: never renew)\n"
    "  --log-level LEVEL          error, warn, info, debug (info)\n"
    "  --config FILE              the same as text: max_streams: 8 for --max-streams 8\n"
    "  --check-config             checks flags and file, and exits\n"
    "  --dump-config              prints each value and its origin, and exits\n"
    "  --help, --version\n"
    "\n"
    "SIGHUP reloads certificates, key and CRL. SIGTERM stops; streams end, but those that a\n"
    "service manager keeps for the next process. Exit status: 0 stopped by a signal, 1 could not\n"
    "start, 2 wrong usage or configuration.\n";

static const struct pfl_settings_key keys[] = {
    {"ca", .is_file = true},
    {"cert", .is_file = true},
    {"key", .is_file = true},
    {"crl", .is_file = true},
    {"max_streams", .min = 1, .max = PFL_AGENT_MAX_STREAMS},
    {"spool_mib", .min = 1, .max = 1024},
    {"spool_total_mib", .min = 1, .max = INT_MAX},
    {"spool_disk_mib", .min = 1, .max = INT_MAX},
    {"spool_disk_total_mib", .min = 1, .max = INT_MAX},
    {"segments_mib", .min = 1, .max = INT_MAX},
    {"segments_age_h", .min = 1, .max = 24 * 365},
    {"orders_expire_h", .max = 24 * 3650},
    {"max_ttl_ms", .min = 1, .max = PFL_TUNNEL_TTL_MAX_MS},
    {"retry_max_ms", .min = 1, .max = 3600000},
    {"silence_ms", .min = 1000, .max = 3600000},
    {"join_port", .max = UINT16_MAX},
};

static bool refuse(struct pfl_settings_fault *fault, const char *key, const char *what,
                   const char *value)
{
    *fault = (struct pfl_settings_fault){key, what, value};
    return false;
}

static bool apply_relays(const Perfleet__AgentConfig *m, struct pfl_agent_conf *conf,
                         struct pfl_settings_fault *fault)
{
    struct pfl_dialer_address address;

    if (m->n_relay == 0)
        return refuse(fault, "relay", "is missing: HOST or HOST:PORT of the relay", NULL);
    if (m->n_relay > PFL_AGENT_MAX_RELAYS)
        return refuse(fault, "relay", "may be given 8 times", NULL);
    for (size_t i = 0; i < m->n_relay; i++) {
        if (!pfl_dialer_parse_address(m->relay[i], &address))
            return refuse(fault, "relay", "wants HOST or HOST:PORT", m->relay[i]);
        conf->relays[i] = m->relay[i];
    }
    conf->relays_len = m->n_relay;
    return true;
}

static bool apply_files(const Perfleet__AgentConfig *m, struct pfl_agent_conf *conf,
                        struct pfl_settings_fault *fault)
{
    conf->files.ca_path = m->ca;
    conf->files.cert_path = m->cert;
    conf->files.key_path = m->key;
    conf->files.crl_path = m->crl;
    if (m->ca == NULL)
        return refuse(fault, "ca", "is missing: the fleet's authority", NULL);
    if (m->cert == NULL)
        return refuse(fault, "cert", "is missing: this host's certificate", NULL);
    if (m->key == NULL)
        return refuse(fault, "key", "is missing: the key of the certificate", NULL);
    return true;
}

static bool apply(const ProtobufCMessage *message, void *user, struct pfl_settings_fault *fault)
{
    const Perfleet__AgentConfig *m = (const Perfleet__AgentConfig *)message;
    struct pfl_agent_daemon_conf *daemon = user;
    struct pfl_agent_conf *conf = &daemon->agent;
    const char *why;

    for (size_t i = 0; i < m->n_label; i++) {
        if (pfl_hello_parse_labels(m->label[i], conf->labels, &conf->labels_len, &why) != 0)
            return refuse(fault, "label", why, m->label[i]);
    }
    conf->consumer_socket =
        m->consumer_socket != NULL ? m->consumer_socket : pfl_settings_default_consumer_socket();
    conf->producer_socket = m->producer_socket;
    if (m->producer_socket == NULL)
        conf->producer_socket = m->consumer_socket != NULL
                                    ? pfl_trigger_producer_socket_beside(m->consumer_socket)
                                    : pfl_trigger_producer_default_socket();
    if (pfl_fdsock_trust(m->service_user) != 0)
        return refuse(fault, "service_user", "wants at most 16 existing users", m->service_user);
    conf->max_streams = m->max_streams;
    conf->spool_bytes = (size_t)m->spool_mib << 20;
    conf->pool.max_bytes = (uint64_t)m->spool_total_mib << 20;
    conf->pool.dir = m->spool_dir;
    conf->pool.disk_max_stream_bytes = (uint64_t)m->spool_disk_mib << 20;
    conf->pool.disk_max_bytes = (uint64_t)m->spool_disk_total_mib << 20;
    conf->segments_dir = m->segments_dir;
    conf->segments_quota.max_bytes = (uint64_t)m->segments_mib << 20;
    conf->segments_quota.max_age_ms = (uint64_t)m->segments_age_h * 3600000;
    conf->orders_expire_ms = (uint64_t)m->orders_expire_h * 3600000;
    conf->ttl_max_ms = m->max_ttl_ms;
    conf->retry_max_ms = m->retry_max_ms;
    conf->silence_ms = m->silence_ms;
    daemon->metrics_listen = m->metrics_listen;
    daemon->metrics_socket = m->metrics_socket;
    daemon->run_as = m->user;
    daemon->sandbox = (enum pfl_sandbox_mode)m->sandbox;
    pfl_log_set_level((enum pfl_log_level)m->log_level);
    return apply_relays(m, conf, fault) && apply_files(m, conf, fault);
}

/* Closes unknown descriptors; `stored` has those that the manager kept. */
static void close_others(const struct pfl_stored_fds *stored)
{
    (void)close_range(PFL_STORED_FDS_FIRST + (unsigned)(stored->len + stored->left_out), ~0u, 0);
}

static void drop_privileges(void)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error, not the end */
}

/* After `renew`: the words of its own, then those of the agent. */
static enum pfl_renew_mode take_mode(int *argc, char **argv)
{
    bool is_asked = *argc >= 2 && strcmp(argv[1], "--due") == 0;
    bool is_forced = *argc >= 2 && strcmp(argv[1], "--force") == 0;

    if (!is_asked && !is_forced)
        return PFL_RENEW_IF_DUE;
    memmove(argv + 1, argv + 2, (size_t)(*argc - 1) * sizeof(*argv));
    *argc -= 1;
    return is_asked ? PFL_RENEW_ASK : PFL_RENEW_NOW;
}

int main(int argc, char **argv)
{
    static const struct pfl_settings_program program = {"perfleet-agent",
                                                        usage_text,
                                                        &perfleet__agent_config__descriptor,
                                                        keys,
                                                        sizeof(keys) / sizeof(keys[0]),
                                                        apply};
    static struct pfl_agent_daemon_conf conf;
    static struct pfl_stored_fds stored;
    enum pfl_renew_mode mode = PFL_RENEW_IF_DUE;
    ProtobufCMessage *message;
    bool is_renewal = argc >= 2 && strcmp(argv[1], "renew") == 0;
    int rc;

    if (argc >= 2 && strcmp(argv[1], "join") == 0)
        return pfl_agent_join(argc - 1, argv + 1);
    if (is_renewal) {
        argv++;
        argc--;
        mode = take_mode(&argc, argv);
    }
    rc = pfl_settings_start(&program, argc, argv, &conf, &message);

    if (rc >= 0)
        return rc;
    if (is_renewal) {
        rc = pfl_agent_renew(&conf.agent, ((Perfleet__AgentConfig *)message)->join_port, mode);
        pfl_proto_free(message);
        return rc;
    }
    rc = pfl_stored_fds_take(&stored);
    close_others(&stored);
    drop_privileges();
    if (rc != 0)
        pfl_log_warn("streams-not-taken-back", "reason=\"%s\" effect=\"they end\"",
                     pfl_err_str(rc));
    conf.agent.stored = &stored;
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    pfl_log_limit_every_event();
    rc = pfl_agent_daemon_run(&conf);
    pfl_log_limit_flush_every_event();
    pfl_stored_fds_fini(&stored);
    pfl_proto_free(message);
    return rc == 0 ? 0 : 1;
}
