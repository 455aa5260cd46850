/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet raise`: triggers, for which sessions and alarms wait.
 *
 * Happy path: with a relay, hosts' agents raise them (cmd_alarms.c). Without one, they are raised
 * at this machine's services, one after the other, each at the producer socket next to its consumer
 * socket. Failures: a host's are a line for that host. Ownership: none that outlives a function.
 */
#include <stdio.h>
#include <string.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"
#include "tunnel/trigger_producer_port.h"

#define PRODUCER_NAME    "perfleet-raise"
#define OUTPUT_MAX_BYTES (1u << 20)

struct outcome {
    int err;
    bool is_done;
};

static void on_done(void *user, int err)
{
    *(struct outcome *)user = (struct outcome){err, true};
}

static int raise_at(uv_loop_t *loop, const char *socket, const struct pfl_args *args)
{
    struct pfl_span triggers[PFL_ARGS_MAX_WORDS];
    struct outcome outcome = {0};
    struct pfl_trigger_producer_conf conf = {.loop = loop,
                                             .socket = socket,
                                             .producer_name = PRODUCER_NAME,
                                             .triggers = triggers,
                                             .triggers_len = args->words_len,
                                             .on_done = on_done,
                                             .user = &outcome};
    struct pfl_trigger_producer *port;
    int rc;

    for (size_t i = 0; i < args->words_len; i++)
        triggers[i] = pfl_span_of(args->words[i], strlen(args->words[i]));
    rc = pfl_trigger_producer_open(&conf, &port);
    while (rc == 0 && !outcome.is_done)
        uv_run(loop, UV_RUN_ONCE);
    return rc != 0 ? rc : outcome.err;
}

static void say_why(int err, const char *socket, char *dst, size_t room)
{
    const char *quoted = pfl_log_quote_str(socket);

    dst[0] = '\0';
    if (err == PFL_ENOENT || err == PFL_ECLOSED)
        (void)snprintf(dst, room,
                       "no service listens for producers at %s: is perfleetd (or traced) running?",
                       quoted);
    else if (err == PFL_ESTRANGER)
        (void)snprintf(dst, room, "%s", pfl_fdsock_get_service_why());
    else if (err != 0)
        (void)snprintf(dst, room, "%s: %s", quoted, pfl_err_str(err));
}

/* The output at the end. */
struct answer {
    struct pfl_buf text;
    json_t *list; /* owned; NULL: as text */
    size_t hosts;
    size_t failed;
    int rc;
};

static void begin_answer(struct answer *answer, const struct pfl_args *args)
{
    memset(answer, 0, sizeof(*answer));
    pfl_buf_init(&answer->text, OUTPUT_MAX_BYTES);
    if (args->is_json)
        answer->list = json_array();
}

static void add_host(struct answer *answer, const char *host, const char *why)
{
    answer->hosts++;
    answer->failed += why[0] != '\0';
    if (answer->rc != 0)
        return;
    if (answer->list != NULL)
        answer->rc = json_array_append_new(answer->list, pfl_text_json_outcome(host, why)) == 0
                         ? 0
                         : PFL_ENOMEM;
    else if (why[0] == '\0')
        answer->rc = pfl_text_add(&answer->text, "host %s: raised\n", host);
    else
        answer->rc = pfl_text_add(&answer->text, "host %s: FAILED: %s\n", host, why);
}

/* The exit code. */
static int end_answer(struct answer *answer)
{
    int code = answer->failed != 0 ? PFL_EXIT_PARTIAL : PFL_EXIT_OK;

    if (answer->rc == 0 && answer->list != NULL)
        answer->rc = pfl_text_dump_json(answer->list, &answer->text);
    if (answer->rc == 0)
        (void)fwrite(answer->text.data + answer->text.start, 1, answer->text.len, stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(answer->rc));
    if (answer->rc != 0 || answer->failed == answer->hosts)
        code = PFL_EXIT_NOTHING;
    pfl_buf_fini(&answer->text);
    json_decref(answer->list);
    return code;
}

/* Of this machine; `spec` NULL: the default one. */
static void raise_here(uv_loop_t *loop, const struct pfl_args *args,
                       const struct pfl_host_spec *spec, struct answer *answer)
{
    const char *equals = spec != NULL ? strchr(spec->text, '=') : NULL;
    const char *text = spec == NULL ? "local" : equals != NULL ? equals + 1 : spec->text;
    const char *socket = strcmp(text, "local") == 0
                             ? pfl_trigger_producer_default_socket()
                             : pfl_trigger_producer_socket_beside(spec->address);
    char why[320];

    say_why(raise_at(loop, socket, args), socket, why, sizeof(why));
    add_host(answer, spec == NULL ? "local" : spec->text, why);
}

/* An invalid host is reported when the hosts are opened. */
static bool has_only_sockets(const struct pfl_targets *targets)
{
    struct pfl_host_spec spec;
    char why[256];

    for (size_t i = 0; i < targets->hosts_len; i++) {
        if (pfl_host_spec_parse(targets->hosts[i], &spec, why, sizeof(why)) != 0 ||
            spec.kind == PFL_HOST_UNIX)
            continue;
        pfl_cmd_error("%s: triggers are raised at a host's socket for producers: give --relay, or "
                      "run perfleet-trigger on the host",
                      targets->hosts[i]);
        return false;
    }
    return true;
}

static int raise_at_hosts(struct pfl_args *args)
{
    struct pfl_targets *targets = &args->targets;
    struct answer answer;
    uv_loop_t loop;
    int code = has_only_sockets(targets) ? pfl_targets_open(targets, &loop) : PFL_EXIT_USAGE;

    if (code != PFL_EXIT_OK)
        return code;
    begin_answer(&answer, args);
    for (size_t i = 0; i < targets->specs_len; i++)
        raise_here(&loop, args, &targets->specs[i], &answer);
    code = end_answer(&answer);
    pfl_targets_close(targets);
    return code;
}

static int raise_at_default(struct pfl_args *args)
{
    struct answer answer;
    uv_loop_t loop;

    if (pfl_loop_init(&loop) != 0) {
        pfl_cmd_error("out of memory");
        return PFL_EXIT_NOTHING;
    }
    begin_answer(&answer, args);
    raise_here(&loop, args, NULL, &answer);
    (void)uv_loop_close(&loop);
    return end_answer(&answer);
}

/* As pfl_targets_open decides it. */
static bool has_relay(const struct pfl_targets *targets)
{
    for (size_t i = 0; i < targets->hosts_len; i++) {
        if (!pfl_host_is_address(targets->hosts[i]))
            return targets->relay != NULL;
    }
    return targets->relay != NULL &&
           (!targets->is_relay_default || targets->hosts_len == 0 || targets->selection != NULL);
}

int pfl_cmd_raise(struct pfl_args *args)
{
    pfl_text_init_json();
    if (has_relay(&args->targets))
        return pfl_cmd_raise_at_relay(args);
    return args->targets.hosts_len != 0 ? raise_at_hosts(args) : raise_at_default(args);
}
