/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet arm`, `disarm`, `alarms`: standing orders at hosts' agents, through a relay; also
 * `raise` through a relay, and `forget`, which the relay does itself.
 *
 * Happy path: one request for each host, at most PFL_HOST_CALLS_OPEN at a time. After arming, the
 * alarms are polled until none is still being set, or the time is over, and each host is queried
 * for the session, because an order for a missing one copies nothing. Failures: one line per failed
 * host; when no host has answered for --timeout, the remaining ones are reported. Ownership: the
 * rows, until the connection is closed. Limits: PFL_TARGETS_MAX_HOSTS.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/host/host_calls_port.h"
#include "consumer/host/host_state.h"
#include "consumer/host/session_find.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel.h"

#define LOOK_AGAIN_MS    50u
#define OUTPUT_MAX_BYTES (16u << 20)

struct row {
    struct run *run;
    const char *host;
    bool is_settled;   /* it needs no further request */
    json_t *answer;    /* owned; NULL: none, or no JSON */
    char why[320];     /* "": it is well */
    const char *lacks; /* static; armed, but this is missing; NULL: nothing */
};

struct run {
    struct pfl_targets *targets;
    const char *method;
    const char *leaf;    /* of the path: "alarms" or "triggers"; NULL: none */
    const char *session; /* of the path; "": the list of alarms */
    const char *armed;   /* the session of the order that was just given; else NULL */
    const char *by_whom; /* for one without a relay: what does this */
    const struct pfl_h2_field *fields;
    size_t fields_len;
    struct row *rows;  /* owned */
    bool is_over;      /* all have answered, or answer no more */
    bool is_over_time; /* some did not answer in time */
};

/* ---- asking ---- */

static void take_answer(struct row *r, int err, unsigned status, struct pfl_span body)
{
    bool is_put = strcmp(r->run->method, "PUT") == 0;

    json_decref(r->answer);
    r->answer = json_loadb((const char *)body.data, body.len, 0, NULL);
    pfl_host_calls_explain(err, status, body, r->why, sizeof(r->why));
    if (r->why[0] == '\0') {
        if (strcmp(r->run->method, "GET") == 0 &&
            !json_is_array(json_object_get(r->answer, "alarms")))
            (void)snprintf(r->why, sizeof(r->why), "its answer makes no sense");
    } else if (r->run->leaf == NULL && status == 405) {
        (void)snprintf(r->why, sizeof(r->why), "the relay is too old: it forgets no host");
    } else if (is_put && status == 404) {
        (void)snprintf(r->why, sizeof(r->why),
                       "its agent, or the relay, is too old: it knows no %s", r->run->leaf);
    }
}

static void on_answer(void *user, size_t host, int err, unsigned status, struct pfl_span body)
{
    struct run *run = user;

    run->is_over_time |= err == PFL_ETIMEOUT;
    take_answer(&run->rows[host], err, status, body);
}

static const char *get_host(void *user, size_t host)
{
    const struct row *r = &((const struct run *)user)->rows[host];

    return r->why[0] == '\0' && !r->is_settled ? r->host : NULL;
}

static void on_over(void *user)
{
    ((struct run *)user)->is_over = true;
}

/* Sends a request to every host whose row has no error and is not settled. */
static void ask_all(struct run *run)
{
    const struct pfl_host_calls_conf conf = {.loop = run->targets->loop,
                                             .tunnel = run->targets->tunnel,
                                             .method = run->method,
                                             .leaf = run->leaf,
                                             .name = run->session,
                                             .fields = run->fields,
                                             .fields_len = run->fields_len,
                                             .hosts_len = run->targets->specs_len,
                                             .timeout_ms = run->targets->timeout_ms,
                                             .get_host = get_host,
                                             .on_answer = on_answer,
                                             .on_over = on_over,
                                             .user = run};
    struct pfl_host_calls *calls;

    run->is_over = false;
    if (pfl_host_calls_open(&conf, &calls) != 0) {
        for (size_t i = 0; i < run->targets->specs_len; i++)
            if (get_host(run, i) != NULL)
                on_answer(run, i, PFL_ENOMEM, 0, pfl_span_of(NULL, 0));
        return;
    }
    while (!run->is_over)
        uv_run(run->targets->loop, UV_RUN_ONCE);
    pfl_host_calls_free(calls);
}

/* ---- after arming ---- */

static const json_t *find_alarm(const struct row *r, const char *session)
{
    const json_t *list = json_object_get(r->answer, "alarms");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *alarm = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(alarm, "session"));

        if (name != NULL && strcmp(name, session) == 0)
            return alarm;
    }
    return NULL;
}

static const char *text_of(const json_t *alarm, const char *key)
{
    const char *text = json_string_value(json_object_get(alarm, key));

    return text != NULL ? text : "";
}

/* Hosts whose alarm is set need no further request. False: no other is left. */
static bool settle(struct run *run, const char *session)
{
    bool is_any = false;

    for (size_t i = 0; i < run->targets->specs_len; i++) {
        struct row *r = &run->rows[i];

        r->is_settled =
            r->why[0] != '\0' || strcmp(text_of(find_alarm(r, session), "state"), "arming") != 0;
        is_any |= !r->is_settled;
    }
    return is_any;
}

static void on_nothing(uv_timer_t *timer)
{
    (void)timer;
}

/* A host whose alarm is still being set at the end is reported: its service does not answer. */
static void look_until_set(struct run *run, const char *session)
{
    uint64_t begin_ms = uv_now(run->targets->loop);
    uv_timer_t pause;

    (void)uv_timer_init(run->targets->loop, &pause);
    run->method = "GET";
    run->session = "";
    run->fields_len = 0;
    ask_all(run);
    while (settle(run, session) && !run->is_over_time &&
           uv_now(run->targets->loop) - begin_ms < run->targets->timeout_ms) {
        (void)uv_timer_start(&pause, on_nothing, LOOK_AGAIN_MS, 0);
        while (uv_is_active((uv_handle_t *)&pause))
            uv_run(run->targets->loop, UV_RUN_ONCE);
        ask_all(run);
    }
    uv_close((uv_handle_t *)&pause, NULL);
    uv_run(run->targets->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < run->targets->specs_len; i++) {
        struct row *r = &run->rows[i];
        const json_t *alarm = find_alarm(r, session);

        if (r->why[0] == '\0' && alarm == NULL)
            (void)snprintf(r->why, sizeof(r->why), "its agent does not have the order any more");
        else if (r->why[0] == '\0' && strcmp(text_of(alarm, "state"), "arming") == 0)
            (void)snprintf(r->why, sizeof(r->why), "not armed yet: %s",
                           pfl_log_quote_str(text_of(alarm, "why")));
    }
}

/* ---- is there anything to be copied? ---- */

/* An order may be there before its session; or its name is misspelt. */
static void on_sessions(struct pfl_fan_out_host *h)
{
    struct run *run = pfl_fan_out_get_user(h);
    struct row *r = &run->rows[h->index];

    switch (pfl_session_find(pfl_buf_get(&h->answer), run->armed)) {
    case PFL_SESSION_NONE:
        r->lacks =
            "there is no session of that name yet: perfleet ps shows those that are, perfleet "
            "disarm takes the order back";
        break;
    case PFL_SESSION_OVER:
        r->lacks = "the session has ended, so there is nothing to copy; see perfleet read";
        break;
    case PFL_SESSION_RUNNING:
        break;
    }
    pfl_fan_out_done(h);
}

static void ask_sessions(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    pfl_host_state_query(host, PFL_HOST_STATE_SESSIONS, on_sessions);
}

/* Hosts that cannot be queried are not checked. */
static void check_sessions(struct run *run)
{
    struct pfl_fan_out_conf conf = {.on_ready = ask_sessions, .user = run};
    struct pfl_fan_out *fan_out = NULL;

    pfl_targets_fill_conn(run->targets, &conf.conn);
    conf.specs = run->targets->specs;
    conf.specs_len = run->targets->specs_len;
    conf.timeout_ms = run->targets->timeout_ms;
    if (pfl_fan_out_run(&conf, &fan_out) == 0)
        pfl_fan_out_free(fan_out);
}

/* ---- output ---- */

/* Whatever else a host says is not for a terminal. */
static bool is_state(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz");

    return len >= 1 && len <= 16 && text[len] == '\0';
}

static int add_alarm(const char *host, const json_t *alarm, struct pfl_buf *out)
{
    const char *trigger = text_of(alarm, "trigger");
    const char *at = text_of(alarm, "host");
    const char *why = text_of(alarm, "why");
    int rc = pfl_text_add(out, "host %s: session %s: %s", host,
                          pfl_log_quote_str(text_of(alarm, "session")),
                          is_state(text_of(alarm, "state")) ? text_of(alarm, "state") : "?");

    if (rc == 0 && trigger[0] != '\0')
        rc = pfl_text_add(out, ", trigger %s", pfl_log_quote_str(trigger));
    if (rc == 0 && trigger[0] != '\0')
        rc = pfl_text_add(out, " at %s", at[0] != '\0' ? pfl_log_quote_str(at) : "this host");
    if (rc == 0 && why[0] != '\0')
        rc = pfl_text_add(out, ": %s", pfl_log_quote_str(why));
    return rc == 0 ? pfl_text_add(out, "\n") : rc;
}

static int add_text(const struct row *r, bool is_list, const char *done, struct pfl_buf *out)
{
    const json_t *list = json_object_get(r->answer, "alarms");
    int rc = 0;

    if (r->why[0] != '\0')
        return pfl_text_add(out, "host %s: FAILED: %s\n", r->host, r->why);
    if (!is_list && r->lacks != NULL)
        return pfl_text_add(out, "host %s: %s, but %s\n", r->host, done, r->lacks);
    if (!is_list)
        return pfl_text_add(out, "host %s: %s\n", r->host, done);
    if (json_array_size(list) == 0)
        return pfl_text_add(out, "host %s: no alarm\n", r->host);
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
        rc = add_alarm(r->host, json_array_get(list, i), out);
    return rc;
}

static int tell(const struct run *run, const struct pfl_args *args, const char *done,
                struct pfl_buf *out)
{
    bool is_list = strcmp(args->command, "alarms") == 0;
    json_t *all = args->is_json ? json_array() : NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < run->targets->specs_len; i++) {
        const struct row *r = &run->rows[i];
        json_t *list = json_object_get(r->answer, "alarms");
        json_t *one;

        if (!args->is_json) {
            rc = add_text(r, is_list, done, out);
            continue;
        }
        one = pfl_text_json_outcome(r->host, r->why);
        if (r->lacks != NULL)
            json_object_set_new(one, "warning", json_string(r->lacks));
        if (is_list && json_is_array(list))
            (void)json_object_set(one, "alarms", list);
        if (json_array_append_new(all, one) != 0)
            rc = PFL_ENOMEM;
    }
    if (rc == 0 && args->is_json)
        return pfl_text_dump_json(all, out);
    json_decref(all);
    return rc;
}

static int finish(struct run *run, const struct pfl_args *args, const char *done)
{
    struct pfl_buf out;
    size_t failed = 0;
    size_t lacking = 0;
    int rc;

    pfl_buf_init(&out, OUTPUT_MAX_BYTES);
    rc = tell(run, args, done, &out);
    if (rc == 0)
        (void)fwrite(out.data + out.start, 1, out.len, stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    pfl_buf_fini(&out);
    for (size_t i = 0; i < run->targets->specs_len; i++) {
        failed += run->rows[i].why[0] != '\0';
        lacking += run->rows[i].lacks != NULL;
        json_decref(run->rows[i].answer);
    }
    if (rc != 0 || failed == run->targets->specs_len)
        return PFL_EXIT_NOTHING;
    if (failed != 0)
        return PFL_EXIT_PARTIAL;
    return lacking != 0 ? PFL_EXIT_EMPTY : PFL_EXIT_OK;
}

/* ---- the commands ---- */

/* A name as the protocol has them in paths and fields. */
static bool is_name(const char *what, const char *name)
{
    if (pfl_identity_is_name(name))
        return true;
    pfl_cmd_error("%s %s: an alarm's names have 1 to 63 letters, digits, . _ and -, and do not "
                  "begin with . or -",
                  what, pfl_log_quote_str(name));
    return false;
}

/* "a,b" of the words from the `first` one on. */
static bool join_triggers(const struct pfl_args *args, size_t first, char *dst, size_t room)
{
    size_t len = 0;

    for (size_t i = first; i < args->words_len; i++) {
        if (!is_name("trigger", args->words[i]))
            return false;
        len +=
            (size_t)snprintf(dst + len, room - len, "%s%s", i > first ? "," : "", args->words[i]);
    }
    return true;
}

/* With the rows. */
static int run_all(struct pfl_args *args, struct run *run, const char *done)
{
    const char *session = run->session;

    for (size_t i = 0; i < args->targets.specs_len; i++)
        run->rows[i] = (struct row){.run = run, .host = args->targets.specs[i].name};
    ask_all(run);
    if (strcmp(run->method, "PUT") == 0 && session[0] != '\0') {
        run->armed = session;
        look_until_set(run, session);
        check_sessions(run);
    }
    return finish(run, args, done);
}

static int run_alarms(struct pfl_args *args, struct run *run, const char *done)
{
    uv_loop_t loop;
    int code;

    pfl_text_init_json();
    run->targets = &args->targets;
    code = pfl_targets_open(&args->targets, &loop);
    if (code != PFL_EXIT_OK)
        return code;
    code = PFL_EXIT_NOTHING;
    if (args->targets.tunnel == NULL) {
        pfl_cmd_error("%s: give --relay", run->by_whom != NULL
                                              ? run->by_whom
                                              : "an alarm is kept by the hosts' agents");
        pfl_targets_close(&args->targets);
        return PFL_EXIT_USAGE;
    }
    if (args->targets.specs_len == 0) { /* of an age: there is none so old */
        puts(args->is_json ? "[]" : "no host left so long ago");
        pfl_targets_close(&args->targets);
        return PFL_EXIT_OK;
    }
    run->rows = pfl_mem_calloc(args->targets.specs_len, sizeof(*run->rows));
    if (run->rows == NULL)
        pfl_cmd_error("out of memory");
    else
        code = run_all(args, run, done);
    pfl_targets_close(&args->targets); /* requests without an answer fail here */
    pfl_mem_free(run->rows);
    return code;
}

int pfl_cmd_arm(struct pfl_args *args)
{
    char triggers[PFL_ARGS_MAX_WORDS * PFL_IDENTITY_NAME_BYTES];
    struct pfl_h2_field field = {PFL_TUNNEL_H_TRIGGERS, triggers};
    struct run run = {.method = "PUT",
                      .leaf = "alarms",
                      .session = args->words[0],
                      .fields = &field,
                      .fields_len = 1};

    if (!is_name("session", args->words[0]) || !join_triggers(args, 1, triggers, sizeof(triggers)))
        return PFL_EXIT_USAGE;
    return run_alarms(args, &run, "armed");
}

int pfl_cmd_raise_at_relay(struct pfl_args *args)
{
    char triggers[PFL_ARGS_MAX_WORDS * PFL_IDENTITY_NAME_BYTES];
    struct pfl_h2_field field = {PFL_TUNNEL_H_TRIGGERS, triggers};
    struct run run = {
        .method = "PUT", .leaf = "triggers", .session = "", .fields = &field, .fields_len = 1};

    if (!join_triggers(args, 0, triggers, sizeof(triggers)))
        return PFL_EXIT_USAGE;
    return run_alarms(args, &run, "raised");
}

int pfl_cmd_disarm(struct pfl_args *args)
{
    struct run run = {.method = "DELETE", .leaf = "alarms", .session = args->words[0]};

    if (!is_name("session", args->words[0]))
        return PFL_EXIT_USAGE;
    return run_alarms(args, &run, "disarmed");
}

int pfl_cmd_alarms(struct pfl_args *args)
{
    struct run run = {.method = "GET", .leaf = "alarms", .session = ""};

    return run_alarms(args, &run, "");
}

/* Hosts by name, or by age; a selection alone would mean hosts that are connected, too. */
static bool is_clear(const struct pfl_targets *t)
{
    if (t->selection != NULL && t->min_away_ms == 0)
        pfl_cmd_error("give --older-than TIME with --select: a selection alone means hosts that "
                      "are connected, too");
    else if (t->hosts_len == 0 && t->min_away_ms == 0)
        pfl_cmd_error("which hosts? Give HOST..., or --older-than TIME");
    else if (t->hosts_len != 0 && t->min_away_ms != 0)
        pfl_cmd_error("give HOST..., or --older-than TIME, not both");
    else
        return true;
    return false;
}

int pfl_cmd_forget(struct pfl_args *args)
{
    static const char by_whom[] = "hosts are forgotten by the relay that knows them";
    struct run run = {.method = "DELETE", .session = "", .by_whom = by_whom};

    for (size_t i = 0; i < args->words_len; i++)
        if (!pfl_targets_add(&args->targets, args->words[i]))
            return PFL_EXIT_USAGE;
    if (!is_clear(&args->targets))
        return PFL_EXIT_USAGE;
    if (args->targets.relay == NULL) {
        pfl_cmd_error("%s: give --relay", by_whom);
        return PFL_EXIT_USAGE;
    }
    args->targets.hosts_max = PFL_INVENTORY_MAX_HOSTS;
    return run_alarms(args, &run, "forgotten");
}
