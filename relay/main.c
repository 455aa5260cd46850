/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-relay: gives this host's consumer socket to operators over mutual TLS.
 *
 * Happy path: read flags and file, drop unneeded rights, run the daemon. Failures: wrong usage or
 * configuration: stderr, exit 2; a start that fails is logged, exit 1.
 */
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/io/fdsock.h"
#include "base/listen_fds.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfleet/config.pb-c.h"
#include "proto/unpack.h"
#include "relay/accept/tls_port.h"
#include "relay/daemon.h"
#include "relay/hub/stream_table.h"
#include "relay/policy/policy_file_port.h"
#include "settings/settings.h"

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
    "  --service-user NAME[,...]  users besides root and its own who may serve that socket,\n"
    "                             in any place ($PERFLEET_SERVICE_USER)\n"
    "  --policy FILE              who may do what on which hosts (default: no limits)\n"
    "  --check-policy FILE        alone: checks the file, reports mistakes, and exits\n"
    "  --audit-log FILE           one JSON line for each control action (reopened on SIGHUP)\n"
    "  --audit-optional           streams begin also while it cannot be written\n"
    "  --signer PATH              socket of perfleet pki serve: machines with a join token get\n"
    "                             their certificate through this relay\n"
    "  --join-listen HOST:PORT    listener for them (0.0.0.0:9911)\n"
    "  --metrics-listen HOST:PORT listener for Prometheus, over mutual TLS\n"
    "  --metrics-socket PATH      the same on a UNIX socket\n"
    "  --max-connections N        at the same time (4096)\n"
    "  --max-connections-per-operator N  in the tunnel (64)\n"
    "  --max-handshakes-per-min N begun by one address; 0: no limit (0)\n"
    "  --max-unread-mib N         memory for stream data that waits for its reader (4096, at most\n"
    "                             half of the machine's); one operator may have half of it\n"
    "  --forget-hosts-after-s N   forget hosts that left this long ago (2592000; 0: never)\n"
    "  --silence-ms N             close connections of peers that are silent so long (30000)\n"
    "  --handshake-timeout-ms N   time for a peer to show its certificate (5000)\n"
    "  --half-closed-timeout-ms N quiet time before a half-closed connection is cut (60000)\n"
    "  --drain-timeout-ms N       time from SIGTERM until connections are cut (10000)\n"
    "  --user NAME                change to this user after it listens (needs root); for SIGHUP "
    "it\n"
    "                             must be able to read the files above\n"
    "  --sandbox auto|require|off all that the kernel supports (auto), fail without it, none\n"
    "  --log-level LEVEL          error, warn, info, debug (info)\n"
    "  --config FILE              the same as text: max_connections: 100 for --max-connections "
    "100\n"
    "  --check-config             checks flags and file, and exits\n"
    "  --dump-config              prints each value and its origin, and exits\n"
    "  --help, --version\n"
    "\n"
    "SIGHUP reloads certificates, key, CRL and policy. SIGTERM stops. Exit status: 0 stopped\n"
    "by a signal, 1 could not start, 2 wrong usage or configuration.\n";

static const struct pfl_settings_key keys[] = {
    {"ca", .is_file = true},
    {"cert", .is_file = true},
    {"key", .is_file = true},
    {"crl", .is_file = true},
    {"policy", .is_file = true},
    {"max_connections", .min = 1, .max = INT_MAX},
    {"max_connections_per_operator", .min = 1, .max = INT_MAX},
    {"max_handshakes_per_min", .min = 0, .max = INT_MAX},
    {"max_unread_mib", .min = PFL_STREAM_TABLE_UNREAD_MIN_MIB, .max = 1u << 30},
    {"forget_hosts_after_s", .min = 0, .max = INT_MAX},
    {"handshake_timeout_ms", .min = 1, .max = INT_MAX},
    {"silence_ms", .min = 1000, .max = 3600000},
    {"half_closed_timeout_ms", .min = 1, .max = INT_MAX},
    {"drain_timeout_ms", .min = 1, .max = INT_MAX},
};

static bool refuse(struct pfl_settings_fault *fault, const char *key, const char *what,
                   const char *value)
{
    *fault = (struct pfl_settings_fault){key, what, value};
    return false;
}

static bool apply_files(const Perfleet__RelayConfig *m, struct pfl_tls_port_conf *port,
                        struct pfl_settings_fault *fault)
{
    port->files.ca_path = m->ca;
    port->files.cert_path = m->cert;
    port->files.key_path = m->key;
    port->files.crl_path = m->crl;
    port->policy_path = m->policy;
    port->audit_path = m->audit_log;
    port->is_audit_optional = m->audit_optional;
    if (m->ca == NULL)
        return refuse(fault, "ca", "is missing: the fleet's authority", NULL);
    if (m->cert == NULL)
        return refuse(fault, "cert", "is missing: the own certificate", NULL);
    if (m->key == NULL)
        return refuse(fault, "key", "is missing: the key of the certificate", NULL);
    return true;
}

/* Half of the machine's memory, as streams may be as many as there are connections. */
static unsigned fit_memory(unsigned mib)
{
    uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;

    if (half < PFL_STREAM_TABLE_UNREAD_MIN_MIB)
        half = PFL_STREAM_TABLE_UNREAD_MIN_MIB;
    return mib < half ? mib : (unsigned)half;
}

static bool apply(const ProtobufCMessage *message, void *user, struct pfl_settings_fault *fault)
{
    const Perfleet__RelayConfig *m = (const Perfleet__RelayConfig *)message;
    struct pfl_relay_daemon_conf *conf = user;
    struct pfl_tls_port_conf *port = &conf->port;

    port->listen_address = m->listen;
    if (m->fleet != NULL && (m->fleet[0] == '\0' || strlen(m->fleet) > 63))
        return refuse(fault, "fleet", "wants a name of 1 to 63 characters", m->fleet);
    port->fleet = m->fleet;
    port->is_socket_given = m->consumer_socket != NULL;
    port->consumer_socket =
        m->consumer_socket != NULL ? m->consumer_socket : pfl_settings_default_consumer_socket();
    if (pfl_fdsock_trust(m->service_user) != 0)
        return refuse(fault, "service_user", "wants at most 16 existing users", m->service_user);
    port->max_connections = m->max_connections;
    port->max_per_operator = m->max_connections_per_operator;
    port->max_handshakes_per_min = m->max_handshakes_per_min;
    port->max_unread_mib = fit_memory(m->max_unread_mib);
    port->forget_after_ms = (uint64_t)m->forget_hosts_after_s * 1000;
    port->handshake_timeout_ms = m->handshake_timeout_ms;
    port->silence_ms = m->silence_ms;
    port->half_closed_timeout_ms = m->half_closed_timeout_ms;
    conf->drain_timeout_ms = m->drain_timeout_ms;
    conf->signer = m->signer;
    conf->join_listen = m->join_listen;
    conf->metrics_listen = m->metrics_listen;
    conf->metrics_socket = m->metrics_socket;
    conf->run_as = m->user;
    conf->sandbox = (enum pfl_sandbox_mode)m->sandbox;
    pfl_log_set_level((enum pfl_log_level)m->log_level);
    return apply_files(m, port, fault);
}

/* Up to two descriptors a connection; takes what the hard limit gives. tls_port.c then keeps to it.
 */
static void raise_file_limit(unsigned max_connections)
{
    rlim_t want = (rlim_t)max_connections * 2 + PFL_TLS_PORT_SPARE_FDS;
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur >= want)
        return;
    lim.rlim_cur = lim.rlim_max < want ? lim.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &lim);
}

/* A socket that the service manager listens on for us takes the place of --listen. */
static int take_socket(struct pfl_tls_port_conf *port, unsigned *ret_first_free)
{
    struct pfl_listen_fds fds;
    int rc = pfl_listen_fds_take(&fds);

    *ret_first_free = PFL_LISTEN_FDS_FIRST;
    if (rc != 0 || fds.len == 0)
        return rc;
    if (fds.len > 1)
        return pfl_listen_fds_refuse(fds.list[1].fd, "a relay listens on one socket");
    if (fds.list[0].domain != AF_INET && fds.list[0].domain != AF_INET6)
        return pfl_listen_fds_refuse(fds.list[0].fd, "a relay listens on TCP");
    port->inherited_fd = fds.list[0].fd;
    port->listen_address = "(inherited)";
    *ret_first_free = PFL_LISTEN_FDS_FIRST + 1;
    return 0;
}

static void drop_privileges(unsigned first_free_fd)
{
    (void)close_range(first_free_fd, ~0u, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error, not the end */
}

int main(int argc, char **argv)
{
    static const struct pfl_settings_program program = {"perfleet-relay",
                                                        usage_text,
                                                        &perfleet__relay_config__descriptor,
                                                        keys,
                                                        sizeof(keys) / sizeof(keys[0]),
                                                        apply};
    struct pfl_relay_daemon_conf conf = {.port = {.files = {.is_server = true}}};
    ProtobufCMessage *message;
    unsigned first_free_fd;
    int rc;

    if (argc == 3 && strcmp(argv[1], "--check-policy") == 0)
        return pfl_policy_file_check(argv[2]) ? 0 : 1;
    rc = pfl_settings_start(&program, argc, argv, &conf, &message);

    if (rc >= 0)
        return rc;
    if (take_socket(&conf.port, &first_free_fd) != 0) {
        pfl_proto_free(message);
        return 1;
    }
    drop_privileges(first_free_fd);
    pfl_log_limit_every_event(); /* every peer can cause most lines */
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    raise_file_limit(conf.port.max_connections);
    rc = pfl_relay_daemon_run(&conf);
    pfl_log_limit_flush_every_event();
    pfl_proto_free(message);
    return rc == 0 ? 0 : 1;
}
