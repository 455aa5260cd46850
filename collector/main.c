/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-collector: keeps the traces of a fleet.
 *
 * Happy path: read flags and file, drop unneeded rights, run the daemon. Failures: wrong usage or
 * configuration: stderr, exit 2; a start that fails is logged, exit 1.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "collector/daemon.h"
#include "collector/index/index.h"
#include "collector/retain/rebuild_port.h"
#include "perfleet/config.pb-c.h"
#include "proto/tunnel/identity.h"
#include "proto/unpack.h"
#include "settings/settings.h"
#include "tunnel/dialer.h"

#define FIRST_FREE_FD 3u

static const char usage_text[] =
    "usage: perfleet-collector --relay HOST --store WHERE --ca FILE --cert FILE --key FILE "
    "[OPTION]...\n"
    "       perfleet-collector rebuild --store WHERE --index WHERE [OPTION]...\n"
    "\n"
    "Fetches the segments that hosts record, through the relay, and keeps them in a store, with "
    "an\n"
    "index. rebuild adds to the index what the store has, and exits.\n"
    "\n"
    "  --relay HOST[:PORT]        a relay to dial (port 9910); may be given 8 times\n"
    "  --store WHERE              folder of the traces, or s3://BUCKET[/PREFIX]\n"
    "  --index WHERE              sqlite:PATH (index.sqlite in the store's folder), or\n"
    "                             postgres:CONNINFO, which several collectors may share\n"
    "  --instance NAME            this one of several with one certificate and one index\n"
    "                             (the certificate's name)\n"
    "  --ca FILE                  the fleet's authority, PEM\n"
    "  --cert FILE                the collector's certificate chain, an operator's, PEM\n"
    "  --key FILE                 its key, PEM, readable by its owner only\n"
    "  --crl FILE                 revocation list, PEM\n"
    "  --max-visits N             hosts that are read at the same time (8, at most 8)\n"
    "  --newest-first CLASS       segments of this class of retention: the newest first; may be\n"
    "                             given again\n"
    "  --keep CLASS:BOUND,...     how long traces of a class are kept; may be given again. "
    "Bounds:\n"
    "                             age=30d, triggered=90d (made by a trigger), bytes=500G,\n"
    "                             host-bytes=10G, order-bytes=50G, per-trigger=20; none. Class\n"
    "                             *: all others (*:age=30d,triggered=90d)\n"
    "  --keep-bytes SIZE          of all traces: 500G, or none (80 % of the store's file system)\n"
    "  --s3-endpoint URL          https://HOST[:PORT] of the store (AWS's of the region)\n"
    "  --s3-region NAME           its region (us-east-1)\n"
    "  --s3-credentials-file FILE its keys, as AWS's tools have them (the environment, then the\n"
    "                             instance's metadata service)\n"
    "  --s3-profile NAME          section of that file (default)\n"
    "  --s3-ca-file FILE          authorities of its certificate, PEM (the system's)\n"
    "  --s3-proxy URL             proxy to it (the environment's)\n"
    "  --s3-path-style            ENDPOINT/BUCKET/KEY instead of BUCKET.ENDPOINT/KEY\n"
    "  --s3-encryption KIND       AES256, aws:kms or aws:kms:KEY-ID, at the server\n"
    "  --s3-staging-dir DIR       holds what the store does not have yet (/var/tmp)\n"
    "  --metrics-listen HOST:PORT listener for Prometheus, over mutual TLS\n"
    "  --metrics-socket PATH      the same on a UNIX socket\n"
    "  --user NAME                change to this user after files are read; needs root\n"
    "  --sandbox auto|require|off all that the kernel supports (auto), fail without it, none\n"
    "  --log-level LEVEL          error, warn, info, debug (info)\n"
    "  --config FILE              the same as text: max_visits: 4 for --max-visits 4\n"
    "  --check-config             checks flags and file, and exits\n"
    "  --dump-config              prints each value and its origin, and exits\n"
    "  --help, --version\n"
    "\n"
    "SIGHUP reloads certificates, key and CRL. SIGTERM stops; what is not stored stays at its\n"
    "hosts. Exit status: 0 stopped by a signal, or rebuilt; 1 could not start, or not rebuild;\n"
    "2 wrong usage or configuration.\n";

static const struct pfl_settings_key keys[] = {
    {"ca", .is_file = true},
    {"cert", .is_file = true},
    {"key", .is_file = true},
    {"crl", .is_file = true},
    {"max_visits", .min = 1, .max = 8},
    {"s3_credentials_file", .is_file = true},
    {"s3_ca_file", .is_file = true},
};

static bool refuse(struct pfl_settings_fault *fault, const char *key, const char *what,
                   const char *value)
{
    *fault = (struct pfl_settings_fault){key, what, value};
    return false;
}

static bool apply_relays(const Perfleet__CollectorConfig *m, struct pfl_collector_conf *conf,
                         struct pfl_settings_fault *fault)
{
    struct pfl_dialer_address address;

    if (m->n_relay == 0)
        return refuse(fault, "relay", "is missing: HOST or HOST:PORT of the relay", NULL);
    if (m->n_relay > PFL_RELAYS_MAX)
        return refuse(fault, "relay", "may be given 8 times", NULL);
    for (size_t i = 0; i < m->n_relay; i++) {
        if (!pfl_dialer_parse_address(m->relay[i], &address))
            return refuse(fault, "relay", "wants HOST or HOST:PORT", m->relay[i]);
        conf->relays[i] = m->relay[i];
    }
    conf->relays_len = m->n_relay;
    return true;
}

static bool apply_files(const Perfleet__CollectorConfig *m, struct pfl_collector_conf *conf,
                        struct pfl_settings_fault *fault)
{
    conf->files.ca_path = m->ca;
    conf->files.cert_path = m->cert;
    conf->files.key_path = m->key;
    conf->files.crl_path = m->crl;
    if (m->ca == NULL)
        return refuse(fault, "ca", "is missing: the fleet's authority", NULL);
    if (m->cert == NULL)
        return refuse(fault, "cert", "is missing: the collector's certificate", NULL);
    if (m->key == NULL)
        return refuse(fault, "key", "is missing: the key of the certificate", NULL);
    return true;
}

static bool apply_keep(const Perfleet__CollectorConfig *m, struct pfl_collector_conf *conf,
                       struct pfl_settings_fault *fault)
{
    const char *why = NULL;

    pfl_keep_rules_init(&conf->keep);
    for (size_t i = 0; i < m->n_keep; i++)
        if (!pfl_keep_rules_add(&conf->keep, m->keep[i], &why))
            return refuse(fault, "keep", why, m->keep[i]);
    conf->is_capacity_kept = m->keep_bytes == NULL;
    if (m->keep_bytes != NULL && !pfl_keep_rules_parse_bytes(m->keep_bytes, &conf->keep.bytes))
        return refuse(fault, "keep_bytes", "wants a size, such as 500G, or none", m->keep_bytes);
    return true;
}

static bool apply_store(const Perfleet__CollectorConfig *m, struct pfl_collector_conf *conf,
                        struct pfl_settings_fault *fault)
{
    struct pfl_store_refusal refusal;

    if (m->store == NULL || m->store[0] == '\0')
        return refuse(fault, "store", "is missing: the folder of the traces, or s3://BUCKET", NULL);
    conf->store = (struct pfl_store_conf){
        .where = m->store,
        .endpoint = m->s3_endpoint,
        .region = m->s3_region,
        .credentials_file = m->s3_credentials_file,
        .profile = m->s3_profile,
        .ca_file = m->s3_ca_file,
        .proxy = m->s3_proxy,
        .encryption = m->s3_encryption,
        .staging_dir = m->s3_staging_dir,
        .has_path_style = m->s3_path_style,
    };
    return pfl_store_judge(&conf->store, &refusal) ||
           refuse(fault, refusal.setting, refusal.what, refusal.value);
}

static bool apply_index(const Perfleet__CollectorConfig *m, struct pfl_collector_conf *conf,
                        struct pfl_settings_fault *fault)
{
    const char *what;

    conf->index = m->index;
    conf->instance = m->instance;
    if (m->index == NULL && strncmp(m->store, "s3://", strlen("s3://")) == 0)
        return refuse(fault, "index", "is missing: sqlite:PATH, as the store is no folder", NULL);
    if (m->instance != NULL && !pfl_identity_is_name(m->instance))
        return refuse(fault, "instance", "wants a name of letters, digits, \".\", \"_\" and \"-\"",
                      m->instance);
    if (m->index == NULL || pfl_index_judge(m->index, &what))
        return true;
    return refuse(fault, "index", what, NULL); /* its value may be a password */
}

static bool is_rebuild; /* the program's first word */

static bool apply(const ProtobufCMessage *message, void *user, struct pfl_settings_fault *fault)
{
    const Perfleet__CollectorConfig *m = (const Perfleet__CollectorConfig *)message;
    struct pfl_collector_conf *conf = user;

    conf->max_visits = m->max_visits;
    conf->newest_first = m->newest_first;
    conf->newest_first_len = m->n_newest_first;
    conf->metrics_listen = m->metrics_listen;
    conf->metrics_socket = m->metrics_socket;
    conf->run_as = m->user;
    conf->sandbox = (enum pfl_sandbox_mode)m->sandbox;
    pfl_log_set_level((enum pfl_log_level)m->log_level);
    if (is_rebuild && m->index == NULL)
        return refuse(fault, "index", "is missing: sqlite:PATH, which is made", NULL);
    return (is_rebuild || (apply_relays(m, conf, fault) && apply_files(m, conf, fault))) &&
           apply_store(m, conf, fault) && apply_index(m, conf, fault) && apply_keep(m, conf, fault);
}

static void drop_privileges(void)
{
    (void)close_range(FIRST_FREE_FD, ~0u, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error, not the end */
}

static int rebuild(const struct pfl_collector_conf *conf)
{
    struct pfl_rebuild_figures figures;

    return pfl_rebuild_run(&conf->store, conf->index, &figures);
}

int main(int argc, char **argv)
{
    static const struct pfl_settings_program program = {
        "perfleet-collector",           usage_text, &perfleet__collector_config__descriptor, keys,
        sizeof(keys) / sizeof(keys[0]), apply};
    static struct pfl_collector_conf conf;
    ProtobufCMessage *message;
    int rc;

    is_rebuild = argc > 1 && strcmp(argv[1], "rebuild") == 0;
    if (is_rebuild) {
        argv++;
        argc--;
    }
    rc = pfl_settings_start(&program, argc, argv, &conf, &message);
    if (rc >= 0)
        return rc;
    drop_privileges();
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    pfl_log_limit_every_event();
    rc = is_rebuild ? rebuild(&conf) : pfl_collector_run(&conf);
    pfl_log_limit_flush_every_event();
    pfl_proto_free(message);
    return rc == 0 ? 0 : 1;
}
