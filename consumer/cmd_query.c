/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet hosts` and `perfleet query`: asks every host for its service's state, all at once.
 * Happy path: connect, QueryServiceState, collect the replies, print in the order given. A host
 * that fails is a line of its own and makes the exit code 4 (all of them: 1); the others are shown.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>

#include "base/mem.h"
#include "consumer/cmd.h"
#include "consumer/consumer_conn.h"
#include "consumer/service_state.h"
#include "consumer/summary.h"

#define STATE_MAX_BYTES  (16u << 20)
#define OUTPUT_MAX_BYTES (64u << 20)

enum { RESPONSE_SERVICE_STATE = 1 };

static const char hosts_usage[] =
    "Usage: perfleet hosts --host HOST [--host HOST ...] [--json]\n"
    "\n"
    "One line for each host: who answers there, and how busy it is.\n";

static const char query_usage[] = "Usage: perfleet query --host HOST [--host HOST ...] [--json]\n"
                                  "\n"
                                  "The sessions, producers and data sources of each host.\n";

static const char common_usage[] =
    "\n"
    "      --host HOST      [NAME=]tls://ADDRESS:PORT, [NAME=]unix:PATH or [NAME=]local\n"
    "      --timeout TIME   how long to wait for a host (default 10s)\n"
    "      --ca FILE, --cert FILE, --key FILE\n"
    "                       the fleet's CA, your certificate and its key\n"
    "                       (default: ca.pem, cert.pem, key.pem in ~/.config/perfleet)\n"
    "      --json           as JSON\n"
    "  -h, --help           this text\n"
    "\n"
    "Exit codes: 0 all hosts answered, 1 none, 2 usage, 4 some did not.\n";

struct asked_host {
    const struct pfl_host_spec *spec;
    struct pfl_consumer_conn *conn; /* owned; NULL: closed */
    struct pfl_buf state;           /* owned */
    uv_timer_t timer;
    char name[PFL_HOST_NAME_MAX];
    char why[512];
    bool is_done;
};

struct query {
    struct pfl_targets targets;
    bool is_json;
    bool is_brief;
    struct asked_host *hosts; /* owned */
};

static int on_state(void *user, const struct pfl_rpc_reply *reply)
{
    struct asked_host *h = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    int rc = reply->success ? 0 : PFL_EPROTO;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == RESPONSE_SERVICE_STATE && f.type == PFL_WIRE_BYTES)
            rc = pfl_buf_append(&h->state, f.bytes.data, f.bytes.len);
    if (rc == 0 && !reply->has_more) {
        h->is_done = true;
        pfl_consumer_conn_close(h->conn);
    }
    return rc;
}

static void on_ready(void *user)
{
    struct asked_host *h = user;
    int rc;

    snprintf(h->name, sizeof(h->name), "%s",
             h->spec->is_named ? h->spec->name : pfl_consumer_conn_get_name(h->conn));
    rc = pfl_consumer_conn_invoke(h->conn, "QueryServiceState", pfl_span_of(NULL, 0), on_state, h);
    if (rc != 0) {
        pfl_consumer_conn_set_why(h->conn, pfl_err_str(rc));
        pfl_consumer_conn_close(h->conn);
    }
}

static void on_closed(void *user, const char *why)
{
    struct asked_host *h = user;

    if (!h->is_done && h->why[0] == '\0')
        snprintf(h->why, sizeof(h->why), "%s",
                 why[0] != '\0' ? why : "the host closed the connection");
    h->conn = NULL;
    uv_close((uv_handle_t *)&h->timer, NULL);
}

static void on_timeout(uv_timer_t *timer)
{
    struct asked_host *h = timer->data;

    snprintf(h->why, sizeof(h->why), "no answer in time: check address, port and firewall");
    pfl_consumer_conn_close(h->conn);
}

static void ask_host(struct query *q, uv_loop_t *loop, size_t i)
{
    struct asked_host *h = &q->hosts[i];
    struct pfl_consumer_conn_conf conf = {
        .loop = loop,
        .spec = &q->targets.specs[i],
        .tls = q->targets.tls,
        .fleet = q->targets.fleet[0] != '\0' ? q->targets.fleet : NULL,
        .handshake_timeout_ms = q->targets.timeout_ms,
        .on_ready = on_ready,
        .on_closed = on_closed,
        .user = h,
    };

    h->spec = conf.spec;
    pfl_buf_init(&h->state, STATE_MAX_BYTES);
    if (pfl_consumer_conn_open(&conf, &h->conn) != 0) {
        snprintf(h->why, sizeof(h->why), "out of memory");
        return;
    }
    uv_timer_init(loop, &h->timer);
    h->timer.data = h;
    uv_timer_start(&h->timer, on_timeout, q->targets.timeout_ms, 0);
}

static int print_hosts(const struct query *q, const struct pfl_service_state_host *hosts)
{
    struct pfl_buf out;
    int rc = 0;

    pfl_buf_init(&out, OUTPUT_MAX_BYTES);
    if (q->is_json)
        rc = pfl_service_state_json(hosts, q->targets.specs_len, q->is_brief, &out);
    for (size_t i = 0; rc == 0 && !q->is_json && i < q->targets.specs_len; i++)
        rc = q->is_brief ? pfl_service_state_line(&hosts[i], &out)
                         : pfl_service_state_text(&hosts[i], &out);
    if (rc == 0)
        fwrite(out.data + out.start, 1, out.len, stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    pfl_buf_fini(&out);
    return rc;
}

static int print(const struct query *q)
{
    size_t len = q->targets.specs_len;
    struct pfl_service_state_host *hosts = pfl_mem_calloc(len, sizeof(*hosts));
    size_t failed = 0;
    int rc;

    if (hosts == NULL)
        return PFL_EXIT_NOTHING;
    for (size_t i = 0; i < len; i++) {
        const struct asked_host *h = &q->hosts[i];

        hosts[i] = (struct pfl_service_state_host){
            .name = h->name,
            .address = h->spec->text,
            .why = h->why,
            .state = pfl_buf_get(&h->state),
        };
        failed += h->why[0] != '\0';
    }
    rc = print_hosts(q, hosts);
    pfl_mem_free(hosts);
    if (rc != 0 || failed == len)
        return PFL_EXIT_NOTHING;
    return failed != 0 ? PFL_EXIT_PARTIAL : PFL_EXIT_OK;
}

static int run(struct query *q)
{
    uv_loop_t loop;
    int code = PFL_EXIT_NOTHING;

    signal(SIGPIPE, SIG_IGN);
    q->hosts = pfl_mem_calloc(q->targets.specs_len, sizeof(*q->hosts));
    if (q->hosts == NULL || uv_loop_init(&loop) != 0) {
        pfl_cmd_error("out of memory");
        return code;
    }
    for (size_t i = 0; i < q->targets.specs_len; i++)
        ask_host(q, &loop, i);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    code = print(q);
    for (size_t i = 0; i < q->targets.specs_len; i++)
        pfl_buf_fini(&q->hosts[i].state);
    return code;
}

enum {
    OPT_HOST = 256,
    OPT_TIMEOUT,
    OPT_CA,
    OPT_CERT,
    OPT_KEY,
    OPT_JSON,
};

static const struct option options[] = {
    {"host", required_argument, NULL, OPT_HOST},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"ca", required_argument, NULL, OPT_CA},
    {"cert", required_argument, NULL, OPT_CERT},
    {"key", required_argument, NULL, OPT_KEY},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static bool take_option(struct query *q, int option, const char *arg)
{
    uint32_t ms;

    switch (option) {
    case OPT_HOST:
        return pfl_targets_add(&q->targets, arg);
    case OPT_TIMEOUT:
        if (!pfl_cmd_parse_duration(arg, &ms)) {
            pfl_cmd_error("--timeout %s: give a time such as 10s or 500ms", arg);
            return false;
        }
        q->targets.timeout_ms = ms;
        return true;
    case OPT_CA:
        q->targets.ca_path = arg;
        return true;
    case OPT_CERT:
        q->targets.cert_path = arg;
        return true;
    case OPT_KEY:
        q->targets.key_path = arg;
        return true;
    case OPT_JSON:
        q->is_json = true;
        return true;
    default:
        return false;
    }
}

static int ask_all(int argc, char **argv, bool is_brief)
{
    struct query q = {.is_brief = is_brief};
    int code = PFL_EXIT_USAGE;
    bool is_good = true;
    int option;

    pfl_targets_init(&q.targets);
    while (is_good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(is_brief ? hosts_usage : query_usage, stdout);
            fputs(common_usage, stdout);
            code = PFL_EXIT_OK;
            goto done;
        }
        is_good = take_option(&q, option, optarg);
    }
    if (is_good && optind < argc) {
        pfl_cmd_error("%s: unexpected argument; hosts are given with --host", argv[optind]);
        is_good = false;
    }
    if (is_good && pfl_targets_load(&q.targets))
        code = run(&q);
    else
        fprintf(stderr, "Try 'perfleet %s --help'.\n", argv[0]);
done:
    pfl_mem_free(q.hosts);
    pfl_targets_fini(&q.targets);
    return code;
}

int pfl_cmd_hosts(int argc, char **argv)
{
    return ask_all(argc, argv, true);
}

int pfl_cmd_query(int argc, char **argv)
{
    return ask_all(argc, argv, false);
}
