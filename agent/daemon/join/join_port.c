/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet-agent join`: see join_port.h.
 *
 * Happy path: read the token; make a key and a request; send it to the relay's join port, which
 * must show the authority in the token and a relay's certificate of its fleet; check that the
 * answer is for our key and name; write key, authority, list and, last, certificate: the unit waits
 * for that one. Neither the key nor the token's secret leaves this machine: the secret
 * authenticates the request. Failures: one line on stderr, exit 1; existing files are kept unless
 * --force. Ownership: everything lives in one call. Limits: PFL_JOIN_ANSWER_MAX, TIMEOUT_MS.
 */
#include "agent/daemon/join/join_port.h"

#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/join/agent_conf.h"
#include "agent/daemon/join/join_token.h"
#include "agent/daemon/join/pem_file.h"
#include "base/io/enroll.h"

#define TIMEOUT_MS     20000u
#define USER           "perfleet-agent"
#define DEFAULT_DIR    "/etc/perfleet/agent"
#define DEFAULT_CONFIG "/etc/perfleet/agent.conf"
#define PATH_BYTES     4096u
#define RELAY_PORT     "9910"

static const char usage[] =
    "usage: perfleet-agent join --relay HOST[:PORT] (--token TOKEN | --token-file FILE) "
    "[OPTION]...\n"
    "\n"
    "Makes a key for this host and turns a token of perfleet pki join-token into its certificate.\n"
    "\n"
    "  --relay HOST[:PORT]   the relay's join port (9911)\n"
    "  --token TOKEN         pfl-join:...; other users may see it while this runs\n"
    "  --token-file FILE     where it is; - is standard input\n"
    "  --dir DIR             where key.pem, cert.pem, ca.pem and crl.pem go (" DEFAULT_DIR ")\n"
    "  --label LABELS        of this host, by which operators select it: role=web,zone=b; goes "
    "into\n"
    "                        the agent's settings\n"
    "  --start               makes the relay that of the agent's settings, port 9910, where they\n"
    "                        have none, and starts the agent: systemctl start " USER "\n"
    "  --config FILE         those settings (" DEFAULT_CONFIG ")\n"
    "  --force               although a certificate is there\n"
    "  --help\n"
    "\n"
    "As root, the files become those of the user " USER
    ", if there is one. Exit status: 0 joined,\n"
    "1 not, 2 wrong usage.\n";

struct join {
    const char *relay;
    const char *token_text;
    const char *dir;
    const char *config;
    const char *label; /* NULL: none was given */
    bool is_forced;
    bool is_started;
    char token_file[1024];
    char host[256];
    const char *port;
    struct pfl_join_token token;
    struct pfl_enroll *enroll; /* owned */
    struct pfl_buf answer;
    char uri[160];
    char why[256];
};

static int fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "perfleet-agent join: %s%s%s\n", what, why[0] != '\0' ? ": " : "", why);
    return EXIT_FAILURE;
}

static int wrong_usage(const char *what)
{
    (void)fprintf(stderr, "perfleet-agent join: %s\ntry: perfleet-agent join --help\n", what);
    return 2;
}

/* ---- arguments ---- */

static bool read_token_file(struct join *j, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    bool has_line;

    if (file == NULL)
        return false;
    has_line = fgets(j->token_file, sizeof(j->token_file), file) != NULL; /* it may be typed */
    j->token_text = j->token_file;
    if (file != stdin)
        (void)fclose(file);
    return has_line;
}

/* "host", "host:port", "[v6]", "[v6]:port" */
static bool split_relay(struct join *j)
{
    const char *from = j->relay[0] == '[' ? j->relay + 1 : j->relay;
    size_t len = strcspn(from, j->relay[0] == '[' ? "]" : ":");
    const char *rest = from + len + (j->relay[0] == '[' && from[len] == ']');

    if (len == 0 || len >= sizeof(j->host) || (*rest != '\0' && *rest != ':'))
        return false;
    memcpy(j->host, from, len);
    j->host[len] = '\0';
    j->port = *rest == ':' ? rest + 1 : "9911";
    return j->port[0] != '\0' && j->port[strspn(j->port, "0123456789")] == '\0';
}

/* -1: continue. */
static int take_option(struct join *j, int id)
{
    switch (id) {
    case 'r':
        j->relay = optarg;
        return -1;
    case 't':
        j->token_text = optarg;
        return -1;
    case 'f':
        return read_token_file(j, optarg) ? -1 : fail(optarg, "cannot be read");
    case 'd':
        j->dir = optarg;
        return -1;
    case 'l':
        j->label = optarg;
        return -1;
    case 'c':
        j->config = optarg;
        return -1;
    case 's':
        j->is_started = true;
        return -1;
    case 'o':
        j->is_forced = true;
        return -1;
    case 'h':
        (void)fputs(usage, stdout);
        return EXIT_SUCCESS;
    default:
        return wrong_usage("see the line above");
    }
}

static int parse_arguments(struct join *j, int argc, char **argv)
{
    static const struct option options[] = {
        {"relay", required_argument, NULL, 'r'},
        {"token", required_argument, NULL, 't'},
        {"token-file", required_argument, NULL, 'f'},
        {"dir", required_argument, NULL, 'd'},
        {"label", required_argument, NULL, 'l'},
        {"config", required_argument, NULL, 'c'},
        {"start", no_argument, NULL, 's'},
        {"force", no_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int rc = -1;
    int id;

    while (rc < 0 && (id = getopt_long(argc, argv, "", options, NULL)) != -1)
        rc = take_option(j, id);
    if (rc >= 0)
        return rc;
    if (optind != argc || j->relay == NULL || j->token_text == NULL)
        return wrong_usage("--relay and --token or --token-file are needed");
    if (!split_relay(j))
        return wrong_usage("--relay wants HOST or HOST:PORT");
    if (j->label != NULL && !pfl_agent_conf_is_plain(j->label))
        return wrong_usage("--label wants labels such as role=web,zone=b");
    if (!pfl_agent_conf_is_plain(j->host))
        return wrong_usage("--relay wants HOST or HOST:PORT");
    if (pfl_join_token_parse(j->token_text, &j->token) != 0)
        return wrong_usage("this is no token of perfleet pki join-token, or only a part of one");
    return -1;
}

/* ---- files ---- */

static void path_of(const struct join *j, const char *name, char *ret_path)
{
    (void)snprintf(ret_path, PATH_BYTES, "%s/%s", j->dir, name);
}

static bool write_file(struct join *j, const char *name, const char *text, size_t len)
{
    struct pfl_pem_owner owner = {(uid_t)-1, (gid_t)-1};
    const struct passwd *user = geteuid() == 0 ? getpwnam(USER) : NULL;
    char path[PATH_BYTES];

    if (user != NULL)
        owner = (struct pfl_pem_owner){user->pw_uid, user->pw_gid};
    path_of(j, name, path);
    if (pfl_pem_file_write(path, pfl_span_of(text, len), &owner) == 0)
        return true;
    (void)snprintf(j->why, sizeof(j->why), "%.200s: %s", path, strerror(errno));
    return false;
}

/* Before the token is used; the unit waits for the certificate. */
static bool write_settings(struct join *j)
{
    bool is_v6 = strchr(j->host, ':') != NULL;
    char relay[sizeof(j->host) + 16];

    (void)snprintf(relay, sizeof(relay), "%s%s%s:" RELAY_PORT, is_v6 ? "[" : "", j->host,
                   is_v6 ? "]" : "");
    if ((!j->is_started || pfl_agent_conf_add(j->config, "relay", relay) == 0) &&
        (j->label == NULL || pfl_agent_conf_add(j->config, "label", j->label) == 0))
        return true;
    (void)snprintf(j->why, sizeof(j->why), "%.200s: %s", j->config, strerror(errno));
    return false;
}

static int write_files(struct join *j, const struct pfl_join_answer *answer)
{
    char key[PFL_ENROLL_PEM_MAX];

    if (pfl_enroll_get_key(j->enroll, key) != 0)
        return fail("the key cannot be written", "");
    if (!write_file(j, "key.pem", key, strlen(key)) ||
        !write_file(j, "ca.pem", answer->ca, answer->ca_len) ||
        (answer->crl[0] != '\0' && !write_file(j, "crl.pem", answer->crl, strlen(answer->crl))) ||
        !write_file(j, "cert.pem", answer->cert, answer->cert_len))
        return fail("not written", j->why);
    (void)printf("this host is %s; its certificate and key are in %s\n", j->uri, j->dir);
    return EXIT_SUCCESS;
}

/* ---- the exchange ---- */

static int encode_request(struct join *j, char *text, size_t size)
{
    char csr[PFL_ENROLL_PEM_MAX];
    uint8_t mac[PFL_ENROLL_HASH_BYTES];
    int rc = pfl_enroll_get_request(j->enroll, j->token.name, csr);

    if (rc == 0)
        rc = pfl_enroll_prove(pfl_span_of(j->token.secret, sizeof(j->token.secret)),
                              pfl_span_of(csr, strlen(csr)), mac);
    return rc == 0 ? pfl_join_request_encode(&j->token, mac, csr, text, size) : rc;
}

static int ask(struct join *j)
{
    char text[2 * PFL_ENROLL_PEM_MAX];
    char prefix[128];
    struct pfl_enroll_server server = {.host = j->host,
                                       .port = j->port,
                                       .ca_sha256 = j->token.ca_sha256,
                                       .uri_prefix = prefix,
                                       .timeout_ms = TIMEOUT_MS};

    (void)snprintf(prefix, sizeof(prefix), "perfleet://%s/relay/", j->token.fleet);
    (void)snprintf(j->uri, sizeof(j->uri), "perfleet://%s/host/%s", j->token.fleet, j->token.name);
    if (pfl_enroll_new(&j->enroll) != 0 || encode_request(j, text, sizeof(text)) != 0)
        return fail("no key can be made", "");
    if (pfl_enroll_ask(j->enroll, &server, pfl_span_of(text, strlen(text)), &j->answer) != 0)
        return fail("not joined", pfl_enroll_get_error(j->enroll));
    return pfl_buf_append(&j->answer, "", 1) == 0 ? -1 : fail("out of memory", "");
}

static int take_answer(struct join *j)
{
    struct pfl_join_answer answer;

    if (pfl_join_answer_parse((char *)j->answer.data + j->answer.start, &answer) != 0)
        return fail("not joined", j->answer.len <= 1
                                      ? "the signer did not answer: is perfleet pki serve running?"
                                      : "the answer makes no sense");
    if (answer.refusal != NULL)
        return fail("not joined", answer.refusal);
    if (pfl_enroll_check(j->enroll, answer.cert, j->token.ca_sha256, j->uri) != 0)
        return fail("not joined", pfl_enroll_get_error(j->enroll));
    return write_files(j, &answer);
}

/* Does not come back when there is a systemctl. */
static int start_agent(void)
{
    (void)fflush(NULL);
    (void)execlp("systemctl", "systemctl", "start", USER, (char *)NULL);
    return fail("joined, but the agent was not started: systemctl", strerror(errno));
}

int pfl_agent_join(int argc, char **argv)
{
    struct join j = {.dir = DEFAULT_DIR, .config = DEFAULT_CONFIG};
    char path[PATH_BYTES];
    int rc = parse_arguments(&j, argc, argv);

    if (rc >= 0)
        return rc;
    path_of(&j, "cert.pem", path);
    if (!j.is_forced && access(path, F_OK) == 0)
        return fail(path, "is there already (--force replaces it)");
    if (access(j.dir, W_OK) != 0)
        return fail(j.dir, strerror(errno));
    (void)umask(077);
    if (!write_settings(&j))
        return fail("not joined", j.why);
    pfl_buf_init(&j.answer, PFL_JOIN_ANSWER_MAX);
    rc = ask(&j);
    if (rc < 0)
        rc = take_answer(&j);
    pfl_buf_fini(&j.answer);
    pfl_enroll_free(j.enroll);
    return rc == EXIT_SUCCESS && j.is_started ? start_agent() : rc;
}
