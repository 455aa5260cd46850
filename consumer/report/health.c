/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doctor's checks. Happy path: each check examines one host (or all together) and adds a
 * finding with level, text and remedy; a host without findings is reported as healthy. Failures:
 * out of memory; a malformed state is a finding. Checks: reachability, certificates' expiry, the
 * clock's error, data sources of the config that no host has, ftrace/print that cannot be recorded,
 * room for one more session, different versions. Limits: FINDINGS_OF_HOST_MAX; the rest is counted.
 */
#include "consumer/report/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "perfetto/data_source_config.fields.h"
#include "perfetto/service_state.pb-c.h"
#include "perfetto/trace_config.fields.h"
#include "proto/unpack.h"

#define DAY_S         86400
#define CERT_WARN_S   (14 * DAY_S)
#define CLOCK_WARN_NS 1000000 /* one millisecond */
#define SESSIONS_WARN 14u     /* of 15: measuring the clock takes one too */

#define FINDINGS_OF_HOST_MAX 16u

typedef Perfetto__Protos__TracingServiceState state_t;

struct finding {
    enum pfl_health level;
    const char *check;
    char text[512];
};

/* Where findings go: one of text and list. */
struct judge {
    const struct pfl_health_conf *conf;
    struct pfl_buf *text; /* borrowed; NULL: JSON */
    json_t *findings;
    enum pfl_health worst;
    size_t of_host; /* findings about the host that is looked at */
    int rc;
};

static const char *const levels[] = {"well", "warning", "bad"};

static void add(struct judge *j, const char *who, const struct finding *f)
{
    json_t *o;

    if (j->rc != 0)
        return;
    if (j->text != NULL) {
        j->rc = pfl_text_add(j->text, "%s %s: %s: %s\n",
                             f->level == PFL_HEALTH_BAD ? "BAD    " : "warning", who, f->check,
                             f->text);
        return;
    }
    o = json_object();
    json_object_set_new(o, "level", json_string(levels[f->level]));
    json_object_set_new(o, "who", pfl_text_json_peer(who));
    json_object_set_new(o, "check", json_string(f->check));
    json_object_set_new(o, "text", pfl_text_json_peer(f->text));
    j->rc = json_array_append_new(j->findings, o) == 0 ? 0 : PFL_ENOMEM;
}

static void say(struct judge *j, const char *who, const struct finding *f)
{
    j->worst = f->level > j->worst ? f->level : j->worst;
    if (j->of_host++ < FINDINGS_OF_HOST_MAX)
        add(j, who, f);
}

/* A host says how many sources it has, and a config names as many as it likes. */
static void say_left_out(struct judge *j, const char *who)
{
    struct finding f = {.level = PFL_HEALTH_WARNING, .check = "findings"};

    if (j->of_host <= FINDINGS_OF_HOST_MAX)
        return;
    snprintf(f.text, sizeof(f.text), "%zu more are left out", j->of_host - FINDINGS_OF_HOST_MAX);
    add(j, who, &f);
}

static void check_cert(struct judge *j, const char *who, int64_t end_s)
{
    struct finding f = {.check = "certificate"};
    int64_t left_s = end_s - j->conf->now_s;

    if (end_s == 0 || left_s > CERT_WARN_S)
        return;
    f.level = left_s <= 0 ? PFL_HEALTH_BAD : PFL_HEALTH_WARNING;
    snprintf(f.text, sizeof(f.text), "%s %" PRId64 " days; issue a new one (perfleet pki renew)",
             left_s <= 0 ? "expired since" : "expires in",
             (left_s <= 0 ? -left_s : left_s) / DAY_S);
    say(j, who, &f);
}

static void check_clock(struct judge *j, const struct pfl_health_host *h)
{
    struct finding f = {.level = PFL_HEALTH_WARNING, .check = "clock"};

    if (h->has_clock && h->error_ns <= CLOCK_WARN_NS)
        return;
    if (h->has_clock)
        snprintf(f.text, sizeof(f.text),
                 "known to +- %.3f ms only: the way there is slow or the host is busy",
                 (double)h->error_ns / 1e6);
    else
        snprintf(f.text, sizeof(f.text),
                 "cannot be measured: the host would be placed by its wall clock");
    say(j, h->name, &f);
}

static bool has_source(const state_t *state, struct pfl_span name)
{
    for (size_t i = 0; i < state->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceDescriptor *d = state->data_sources[i]->ds_descriptor;

        if (d != NULL && d->name != NULL && strlen(d->name) == name.len &&
            memcmp(d->name, name.data, name.len) == 0)
            return true;
    }
    return false;
}

static void check_source(struct judge *j, const struct pfl_health_host *h, const state_t *state,
                         struct pfl_span source)
{
    struct finding f = {.level = PFL_HEALTH_WARNING, .check = "data source"};
    struct pfl_reader r = pfl_reader_of(source);
    struct pfl_field config;
    struct pfl_field name;

    while (pfl_reader_field(&r, &config)) {
        struct pfl_reader c = pfl_reader_of(config.bytes);

        while (config.id == TRACE_CONFIG__DATA_SOURCE__CONFIG && pfl_reader_field(&c, &name)) {
            if (name.id != DATA_SOURCE_CONFIG__NAME || name.type != PFL_WIRE_BYTES ||
                has_source(state, name.bytes))
                continue;
            snprintf(
                f.text, sizeof(f.text),
                "no producer there offers %s: is its program (perfleet-probes, the app) running?",
                pfl_log_quote((const char *)name.bytes.data, name.bytes.len));
            say(j, h->name, &f);
        }
    }
}

static void check_sources(struct judge *j, const struct pfl_health_host *h, const state_t *state)
{
    struct pfl_reader r = pfl_reader_of(j->conf->trace_config);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == TRACE_CONFIG__DATA_SOURCES && f.type == PFL_WIRE_BYTES)
            check_source(j, h, state, f.bytes);
}

/* A config that names neither it nor all of ftrace does without. */
static bool wants_print(struct pfl_span config)
{
    return config.len == 0 || memmem(config.data, config.len, "ftrace/print", 12) != NULL ||
           memmem(config.data, config.len, "ftrace/*", 8) != NULL;
}

static void check_print(struct judge *j, const struct pfl_health_host *h, const state_t *state)
{
    struct finding f = {.level = PFL_HEALTH_WARNING, .check = "ftrace/print"};

    for (size_t i = 0; wants_print(j->conf->trace_config) && i < state->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceDescriptor *d = state->data_sources[i]->ds_descriptor;
        const char *why = d != NULL && d->ftrace_descriptor != NULL
                              ? d->ftrace_descriptor->perfleet_no_print
                              : NULL;

        if (why == NULL)
            continue;
        snprintf(f.text, sizeof(f.text),
                 "the kernel's top-level buffer, where it comes from before Linux 6.16, is "
                 "in use: %s; end that recording, or do without",
                 pfl_log_quote_str(why));
        say(j, h->name, &f);
    }
}

static void check_sessions(struct judge *j, const struct pfl_health_host *h, const state_t *state)
{
    struct finding f = {.level = PFL_HEALTH_WARNING, .check = "sessions"};

    if (state->num_sessions < (int)SESSIONS_WARN)
        return;
    snprintf(f.text, sizeof(f.text),
             "%d are there, a service takes 15 by default: see perfleet ps, perfleet kill",
             state->num_sessions);
    say(j, h->name, &f);
}

/* Of the service; `first` is the first host's that has one. */
static void check_version(struct judge *j, const struct pfl_health_host *h, const state_t *state,
                          char first[128])
{
    struct finding f = {.level = PFL_HEALTH_WARNING, .check = "version"};
    const char *version =
        state->tracing_service_version != NULL ? state->tracing_service_version : "";

    if (first[0] == '\0')
        snprintf(first, 128, "%s", version);
    if (strncmp(first, version, 127) == 0)
        return;
    snprintf(f.text, sizeof(f.text), "the service is %s, elsewhere %s", pfl_log_quote_str(version),
             pfl_log_quote_str(first));
    say(j, h->name, &f);
}

static void check_agent(struct judge *j, const struct pfl_health_host *h)
{
    struct finding f = {.level = PFL_HEALTH_WARNING, .check = "version"};

    if (h->agent[0] == '\0' || strcmp(h->agent, j->conf->own_version) == 0)
        return;
    snprintf(f.text, sizeof(f.text), "its agent is %s, this program %s",
             pfl_log_quote_str(h->agent), j->conf->own_version);
    say(j, h->name, &f);
}

static void check_host(struct judge *j, const struct pfl_health_host *h, char first_version[128])
{
    struct finding f = {.level = PFL_HEALTH_BAD, .check = "reachable"};
    ProtobufCMessage *message;
    const state_t *state;
    int rc;

    /* What is known of a host that cannot be asked may say why. */
    check_cert(j, h->name, h->cert_end_s);
    check_agent(j, h);
    snprintf(f.text, sizeof(f.text), "%s", h->why);
    if (h->why[0] != '\0') {
        say(j, h->name, &f);
        return;
    }
    check_clock(j, h);
    rc = pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, h->state, &message);
    if (rc != 0) {
        snprintf(f.text, sizeof(f.text), "its service state is malformed");
        if (rc == PFL_EPARSE)
            say(j, h->name, &f);
        else
            j->rc = rc;
        return;
    }
    state = (const state_t *)message;
    check_sources(j, h, state);
    check_print(j, h, state);
    check_sessions(j, h, state);
    check_version(j, h, state, first_version);
    pfl_proto_free(message);
}

static void say_well(struct judge *j, const struct pfl_health_host *h)
{
    if (j->rc == 0 && j->text != NULL)
        j->rc = pfl_text_add(j->text, "well    %s: clock %+.6f s +- %.6f s\n", h->name,
                             (double)h->offset_ns / 1e9, (double)h->error_ns / 1e9);
}

static void judge_all(struct judge *j)
{
    char first_version[128] = "";

    check_cert(j, "your certificate", j->conf->our_cert_end_s);
    check_cert(j, "the relay", j->conf->relay_cert_end_s);
    for (size_t i = 0; i < j->conf->hosts_len; i++) {
        j->of_host = 0;
        check_host(j, &j->conf->hosts[i], first_version);
        say_left_out(j, j->conf->hosts[i].name);
        if (j->of_host == 0)
            say_well(j, &j->conf->hosts[i]);
    }
}

int pfl_health_text(const struct pfl_health_conf *conf, struct pfl_buf *out,
                    enum pfl_health *ret_worst)
{
    struct judge j = {.conf = conf, .text = out};

    judge_all(&j);
    *ret_worst = j.worst;
    return j.rc;
}

static json_t *json_hosts(const struct pfl_health_conf *conf)
{
    json_t *list = json_array();

    for (size_t i = 0; i < conf->hosts_len; i++) {
        const struct pfl_health_host *h = &conf->hosts[i];
        json_t *o = pfl_text_json_outcome(h->name, h->why);

        if (h->has_clock) {
            json_object_set_new(o, "clock_offset_ns", json_integer(h->offset_ns));
            json_object_set_new(o, "clock_error_ns", json_integer(h->error_ns));
        }
        if (h->tls != NULL && h->tls[0] != '\0')
            json_object_set_new(o, "tls", json_string(h->tls));
        if (h->cert_end_s != 0)
            json_object_set_new(o, "certificate_end_s", json_integer(h->cert_end_s));
        json_array_append_new(list, o);
    }
    return list;
}

int pfl_health_json(const struct pfl_health_conf *conf, struct pfl_buf *out,
                    enum pfl_health *ret_worst)
{
    struct judge j = {.conf = conf};
    json_t *root;

    pfl_text_init_json();
    root = json_object();
    j.findings = json_array();
    if (j.findings == NULL)
        j.rc = PFL_ENOMEM;
    judge_all(&j);
    *ret_worst = j.worst;
    json_object_set_new(root, "worst", json_string(levels[j.worst]));
    json_object_set_new(root, "findings", j.findings);
    json_object_set_new(root, "hosts", json_hosts(conf));
    if (j.rc == 0)
        return pfl_text_dump_json(root, out);
    json_decref(root);
    return j.rc;
}
