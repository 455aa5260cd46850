/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the answer to QueryServiceState. Happy path: unpack (bounded), print tables or JSON;
 * peers' strings are escaped for the terminal, and made UTF-8 for JSON. Failures: a malformed state
 * (PFL_EPARSE), out of memory. Limits: many hosts share the room of the output.
 */
#include "consumer/report/service_state.h"

#include <inttypes.h>
#include <time.h>

#include "base/log.h"
#include "consumer/text.h"
#include "perfetto/service_state.pb-c.h"
#include "proto/unpack.h"

typedef Perfetto__Protos__TracingServiceState state_t;
typedef Perfetto__Protos__TracingServiceState__Producer producer_t;
typedef Perfetto__Protos__TracingServiceState__DataSource source_t;
typedef Perfetto__Protos__TracingServiceState__TracingSession session_t;
typedef Perfetto__Protos__TracingServiceState__PerfleetLeftOut left_out_t;

static int unpack(const struct pfl_service_state_host *host, state_t **ret_state)
{
    ProtobufCMessage *message;
    int rc = pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, host->state,
                              &message);

    if (rc == 0)
        *ret_state = (state_t *)message;
    return rc;
}

static const char *quote(const char *str)
{
    return pfl_log_quote_str(str != NULL ? str : "");
}

static const char *title(const struct pfl_service_state_host *host)
{
    return host->name[0] != '\0' ? host->name : host->address;
}

static int add_labels(const json_t *labels, struct pfl_buf *out)
{
    const char *name;
    json_t *value;
    int rc = 0;

    json_object_foreach((json_t *)(uintptr_t)labels, name, value)
    {
        const char *text = json_string_value(value);

        if (rc == 0 && text != NULL)
            rc = pfl_text_add(out, " %s=%s", name, text);
    }
    return rc;
}

static int add_end(int64_t end_s, struct pfl_buf *out)
{
    time_t time = (time_t)end_s;
    struct tm tm;
    char day[16] = "?";

    if (gmtime_r(&time, &tm) != NULL)
        (void)strftime(day, sizeof(day), "%Y-%m-%d", &tm);
    return pfl_text_add(out, ", certificate until %s", day);
}

/* The relay's facts, as a line below the host's own. */
static int add_relay_facts(const struct pfl_inventory_host *relay_facts, struct pfl_buf *out)
{
    int rc =
        relay_facts->is_connected
            ? pfl_text_add(out, "  connected from %s", relay_facts->address)
            : pfl_text_add(out, "  not connected, last seen %.0f s ago", relay_facts->last_seen_s);

    if (rc == 0)
        rc = pfl_text_add(out, ", agent %s", quote(relay_facts->version));
    if (rc == 0 && relay_facts->has_clock)
        rc = pfl_text_add(out, ", clock %+.6f s +- %.6f s", (double)relay_facts->offset_ns / 1e9,
                          (double)relay_facts->error_ns / 1e9);
    if (rc == 0 && relay_facts->certificate_end_s != 0)
        rc = add_end(relay_facts->certificate_end_s, out);
    if (rc == 0 && json_object_size(json_object_get(relay_facts->entry, "labels")) != 0)
        rc = pfl_text_add(out, ", labels");
    if (rc == 0)
        rc = add_labels(json_object_get(relay_facts->entry, "labels"), out);
    return rc != 0 ? rc : pfl_text_add(out, "\n");
}

static int add_line(const struct pfl_service_state_host *host, const state_t *state,
                    struct pfl_buf *out)
{
    return pfl_text_add(
        out, "%s: %s, service %s, %zu producers, %zu data sources, %d sessions (%d started)\n",
        title(host), host->address, quote(state->tracing_service_version), state->n_producers,
        state->n_data_sources, state->num_sessions, state->num_sessions_started);
}

static int add_producer(const producer_t *p, struct pfl_buf *out)
{
    const char *name = p->name != NULL ? p->name : "";
    const char *known_as = pfl_text_short_name(name);
    bool is_short = strcmp(known_as, quote(name)) != 0;
    int rc = pfl_text_add(out, "    %-5d uid %-6d pid %-7d %s", p->id, p->uid, p->pid, known_as);

    /* Configs name a producer by all of its name. */
    if (rc == 0 && is_short)
        rc = pfl_text_add(out, " (%s)", quote(name));
    if (rc == 0 && p->has_machine_id && p->machine_id != 0)
        rc = pfl_text_add(out, " on machine %" PRIu32 " %s", p->machine_id, quote(p->machine_name));
    if (rc == 0 && p->sdk_version != NULL && p->sdk_version[0] != '\0')
        rc = pfl_text_add(out, ", %s", quote(p->sdk_version));
    return rc != 0 ? rc : pfl_text_add(out, "\n");
}

static int add_session(const session_t *s, struct pfl_buf *out)
{
    int rc = pfl_text_add(out, "    %-5" PRIu64 " uid %-6d %s, %" PRIu32 " data sources, buffers",
                          s->id, s->consumer_uid, quote(s->state), s->num_data_sources);

    for (size_t i = 0; rc == 0 && i < s->n_buffer_size_kb; i++)
        rc = pfl_text_add(out, " %" PRIu32 " KiB", s->buffer_size_kb[i]);
    if (rc == 0 && s->duration_ms != 0)
        rc = pfl_text_add(out, ", %" PRIu32 " ms", s->duration_ms);
    if (rc == 0 && s->unique_session_name != NULL && s->unique_session_name[0] != '\0')
        rc = pfl_text_add(out, ", name %s", quote(s->unique_session_name));
    if (rc == 0 && s->has_perfleet_detach_key)
        rc = pfl_text_add(
            out, ", left as %s",
            pfl_log_quote((const char *)s->perfleet_detach_key.data, s->perfleet_detach_key.len));
    if (rc == 0 && s->perfleet_is_own)
        rc = pfl_text_add(out, ", yours");
    return rc != 0 ? rc : pfl_text_add(out, "\n");
}

/* NULL: it has none. */
static const Perfetto__Protos__TrackEventDescriptor *get_track_events(const source_t *s)
{
    return s->ds_descriptor != NULL ? s->ds_descriptor->track_event_descriptor : NULL;
}

/* What track_event_config { enabled_categories } can name. */
static int add_categories(const source_t *s, struct pfl_buf *out)
{
    const Perfetto__Protos__TrackEventDescriptor *d = get_track_events(s);
    size_t len = d != NULL ? d->n_available_categories : 0;
    int rc = len != 0 ? pfl_text_add(out, ", categories") : 0;

    for (size_t i = 0; rc == 0 && i < len; i++)
        rc =
            pfl_text_add(out, "%s%s", i != 0 ? ", " : " ", quote(d->available_categories[i]->name));
    return rc;
}

static int add_state(const state_t *state, struct pfl_buf *out)
{
    int rc = pfl_text_add(out, "  sessions (%zu)\n", state->n_tracing_sessions);

    for (size_t i = 0; rc == 0 && i < state->n_tracing_sessions; i++)
        rc = add_session(state->tracing_sessions[i], out);
    if (rc == 0)
        rc = pfl_text_add(out, "  producers (%zu)\n", state->n_producers);
    for (size_t i = 0; rc == 0 && i < state->n_producers; i++)
        rc = add_producer(state->producers[i], out);
    if (rc == 0)
        rc = pfl_text_add(out, "  data sources (%zu)\n", state->n_data_sources);
    for (size_t i = 0; rc == 0 && i < state->n_data_sources; i++) {
        const source_t *s = state->data_sources[i];

        rc = pfl_text_add(out, "    producer %-5d %s", s->producer_id,
                          quote(s->ds_descriptor != NULL ? s->ds_descriptor->name : ""));
        if (rc == 0)
            rc = add_categories(s, out);
        if (rc == 0)
            rc = pfl_text_add(out, "\n");
    }
    return rc;
}

/* One user registered more than its share of an answer. */
static int add_left_out(const state_t *state, struct pfl_buf *out)
{
    const left_out_t *l = state->perfleet_left_out;

    if (l == NULL)
        return 0;
    return pfl_text_add(out,
                        "  left out, for want of room in the answer: %" PRIu64
                        " producers, %" PRIu64 " data sources, %" PRIu64 " sessions; of %" PRIu64
                        " data sources all but the name\n",
                        l->producers, l->data_sources, l->sessions, l->descriptors);
}

static int add_sessions(const struct pfl_service_state_host *host, const state_t *state,
                        struct pfl_buf *out)
{
    int rc = pfl_text_add(out, "%s: %zu sessions\n", title(host), state->n_tracing_sessions);

    for (size_t i = 0; rc == 0 && i < state->n_tracing_sessions; i++)
        rc = add_session(state->tracing_sessions[i], out);
    return rc;
}

int pfl_service_state_text(const struct pfl_service_state_host *host,
                           enum pfl_service_state_detail detail, struct pfl_buf *out)
{
    state_t *state;
    int rc;

    if (host->why[0] != '\0') {
        rc = pfl_text_add(out, "%s: FAILED: %s\n", title(host), host->why);
        return rc != 0 || host->relay_facts == NULL ? rc : add_relay_facts(host->relay_facts, out);
    }
    rc = unpack(host, &state);
    if (rc == PFL_EPARSE)
        return pfl_text_add(out, "%s: FAILED: its service state is malformed\n", title(host));
    if (rc != 0)
        return rc;
    rc = detail == PFL_SERVICE_STATE_SESSIONS ? add_sessions(host, state, out)
                                              : add_line(host, state, out);
    if (rc == 0 && detail == PFL_SERVICE_STATE_ALL)
        rc = add_state(state, out);
    if (rc == 0)
        rc = add_left_out(state, out);
    if (rc == 0 && detail == PFL_SERVICE_STATE_BRIEF && host->relay_facts != NULL)
        rc = add_relay_facts(host->relay_facts, out);
    pfl_proto_free(&state->base);
    return rc;
}

static json_t *json_producers(const state_t *state)
{
    json_t *list = json_array();

    for (size_t i = 0; i < state->n_producers; i++) {
        const producer_t *p = state->producers[i];
        json_t *o = json_object();

        json_object_set_new(o, "id", json_integer(p->id));
        json_object_set_new(o, "name", pfl_text_json_peer(p->name));
        json_object_set_new(o, "uid", json_integer(p->uid));
        json_object_set_new(o, "pid", json_integer(p->pid));
        json_object_set_new(o, "sdk_version", pfl_text_json_peer(p->sdk_version));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *json_categories(const Perfetto__Protos__TrackEventDescriptor *d)
{
    json_t *list = json_array();

    for (size_t i = 0; i < d->n_available_categories; i++)
        json_array_append_new(list, pfl_text_json_peer(d->available_categories[i]->name));
    return list;
}

static json_t *json_sources(const state_t *state)
{
    json_t *list = json_array();

    for (size_t i = 0; i < state->n_data_sources; i++) {
        const source_t *s = state->data_sources[i];
        const Perfetto__Protos__TrackEventDescriptor *d = get_track_events(s);
        json_t *o = json_object();

        json_object_set_new(o, "producer_id", json_integer(s->producer_id));
        json_object_set_new(
            o, "name", pfl_text_json_peer(s->ds_descriptor != NULL ? s->ds_descriptor->name : ""));
        if (d != NULL && d->n_available_categories != 0)
            json_object_set_new(o, "categories", json_categories(d));
        json_array_append_new(list, o);
    }
    return list;
}

/* Any bytes: as they are quoted in text. */
static json_t *json_key(const session_t *s)
{
    return json_string(
        pfl_log_quote((const char *)s->perfleet_detach_key.data, s->perfleet_detach_key.len));
}

static json_t *json_sessions(const state_t *state)
{
    json_t *list = json_array();

    for (size_t i = 0; i < state->n_tracing_sessions; i++) {
        const session_t *s = state->tracing_sessions[i];
        json_t *o = json_object();

        pfl_text_json_number(o, "id", s->id);
        json_object_set_new(o, "uid", json_integer(s->consumer_uid));
        json_object_set_new(o, "state", pfl_text_json_peer(s->state));
        json_object_set_new(o, "name", pfl_text_json_peer(s->unique_session_name));
        if (s->has_perfleet_detach_key)
            json_object_set_new(o, "left_as", json_key(s));
        if (s->perfleet_is_own)
            json_object_set_new(o, "yours", json_true());
        json_object_set_new(o, "duration_ms", json_integer(s->duration_ms));
        json_object_set_new(o, "data_sources", json_integer(s->num_data_sources));
        if (s->has_start_realtime_ns)
            json_object_set_new(o, "start_realtime_ns", json_integer(s->start_realtime_ns));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *json_left_out(const left_out_t *l)
{
    json_t *o = json_object();

    pfl_text_json_number(o, "producers", l->producers);
    pfl_text_json_number(o, "data_sources", l->data_sources);
    pfl_text_json_number(o, "descriptors", l->descriptors);
    pfl_text_json_number(o, "sessions", l->sessions);
    return o;
}

static int json_host(const struct pfl_service_state_host *host,
                     enum pfl_service_state_detail detail, json_t *o)
{
    state_t *state;
    int rc;

    json_object_set_new(o, "name", json_string(host->name));
    json_object_set_new(o, "address", json_string(host->address));
    if (host->relay_facts != NULL)
        json_object_set_new(o, "relay", json_deep_copy(host->relay_facts->entry));
    if (host->why[0] != '\0') {
        json_object_set_new(o, "error", pfl_text_json_peer(host->why));
        return 0;
    }
    rc = unpack(host, &state);
    if (rc != 0) {
        json_object_set_new(o, "error", json_string("its service state is malformed"));
        return rc == PFL_EPARSE ? 0 : rc;
    }
    json_object_set_new(o, "version", pfl_text_json_peer(state->tracing_service_version));
    json_object_set_new(o, "sessions", json_sessions(state));
    pfl_text_json_number(o, "producers_len", state->n_producers);
    pfl_text_json_number(o, "data_sources_len", state->n_data_sources);
    if (state->perfleet_left_out != NULL)
        json_object_set_new(o, "left_out", json_left_out(state->perfleet_left_out));
    if (detail == PFL_SERVICE_STATE_ALL) {
        json_object_set_new(o, "producers", json_producers(state));
        json_object_set_new(o, "data_sources", json_sources(state));
    }
    pfl_proto_free(&state->base);
    return 0;
}

#define JSON_LIST_END "\n]\n"

/* A list of one, without its end. */
static int add_json(const struct pfl_service_state_host *host, enum pfl_service_state_detail detail,
                    struct pfl_buf *out)
{
    json_t *list = json_array();
    json_t *o = json_object();
    int rc = list != NULL && o != NULL ? json_host(host, detail, o) : PFL_ENOMEM;

    if (json_array_append_new(list, o) != 0)
        rc = PFL_ENOMEM;
    if (rc != 0) {
        json_decref(list);
        return rc;
    }
    rc = pfl_text_dump_json(list, out);
    if (rc == 0)
        out->len -= sizeof(JSON_LIST_END) - 1;
    return rc;
}

/* ---- many hosts ---- */

typedef int (*add_host_fn)(const struct pfl_service_state_host *host,
                           enum pfl_service_state_detail detail, struct pfl_buf *out);

/* `host` is the first of `left` hosts, which share the rest of `out`. */
static int add_share(const struct pfl_service_state_host *host, size_t left,
                     enum pfl_service_state_detail detail, add_host_fn add, struct pfl_buf *out)
{
    struct pfl_service_state_host failed = *host;
    size_t max_bytes = out->max_bytes;
    size_t before = out->len;
    int rc;

    out->max_bytes = before + (max_bytes - before) / left;
    rc = add(host, detail, out);
    out->max_bytes = max_bytes;
    if (rc != PFL_ELIMIT)
        return rc;
    out->len = before;
    failed.why = "its answer is too long to be shown beside those of the others: query it alone";
    return add(&failed, detail, out);
}

int pfl_service_state_texts(const struct pfl_service_state_host *hosts, size_t len,
                            enum pfl_service_state_detail detail, struct pfl_buf *out)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = add_share(&hosts[i], len - i, detail, pfl_service_state_text, out);
    return rc;
}

/* One tree at a time is in memory: it is many times as large as its text. */
int pfl_service_state_json(const struct pfl_service_state_host *hosts, size_t len,
                           enum pfl_service_state_detail detail, struct pfl_buf *out)
{
    int rc = 0;

    pfl_text_init_json();
    for (size_t i = 0; rc == 0 && i < len; i++) {
        size_t begin = out->start + out->len;

        rc = add_share(&hosts[i], len - i, detail, add_json, out);
        if (rc == 0 && i != 0)
            out->data[begin] = ','; /* in place of the bracket */
    }
    return rc == 0 ? pfl_text_add(out, "%s", len != 0 ? JSON_LIST_END : "[]\n") : rc;
}
