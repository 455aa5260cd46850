/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host: see host_page.h.
 *
 * Happy path: the facts of the relay, the doctor's findings (health.h) for this host, its sessions
 * with their buffers, its producers, its data sources by name with the number of producers that
 * offer each, and its traces. Failures: a state that is malformed is a finding; no memory. Limits:
 * PFL_HOST_PAGE_MAX_ROWS a table.
 */
#include "consumer/web/hosts/host_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/report/health.h"
#include "consumer/web/hosts/hosts_page.h"
#include "perfetto/service_state.pb-c.h"
#include "proto/unpack.h"

#define FINDINGS_MAX_BYTES 16384u

typedef Perfetto__Protos__TracingServiceState state_t;
typedef Perfetto__Protos__TracingServiceState__Producer producer_t;
typedef Perfetto__Protos__TracingServiceState__TracingSession session_t;

/* ---- small parts ---- */

static void begin_fact(struct pfl_html *h, const char *name)
{
    pfl_html_leaf(h, "dt", name);
    pfl_html_open(h, "dd");
}

static void add_fact(struct pfl_html *h, const char *name, const char *value)
{
    begin_fact(h, name);
    pfl_html_text(h, value[0] != '\0' ? value : "–");
    pfl_html_close(h);
}

static void begin_table(struct pfl_html *h, const char *title, size_t count,
                        const char *const *columns)
{
    pfl_html_open(h, "h2");
    pfl_html_textf(h, "%s ", title);
    pfl_html_open(h, "span");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, "%zu", count);
    pfl_html_close(h);
    pfl_html_close(h);
    if (count == 0)
        return;
    pfl_layout_begin_table(h, title, columns);
}

static void end_table(struct pfl_html *h, size_t count)
{
    if (count == 0)
        return;
    pfl_layout_end_table(h);
    if (count > PFL_HOST_PAGE_MAX_ROWS) {
        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", "count");
        pfl_html_textf(h, "and %zu more: the command below prints all",
                       count - PFL_HOST_PAGE_MAX_ROWS);
        pfl_html_close(h);
    }
}

static void add_cell(struct pfl_html *h, const char *label, const char *text)
{
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", label);
    pfl_html_text(h, text != NULL && text[0] != '\0' ? text : "–");
    pfl_html_close(h);
}

static size_t shown(size_t count)
{
    return count < PFL_HOST_PAGE_MAX_ROWS ? count : PFL_HOST_PAGE_MAX_ROWS;
}

/* ---- facts ---- */

static void add_relay_facts(const struct pfl_host_page *p, struct pfl_html *h)
{
    const struct pfl_inventory_host *r = &p->row->relay;
    const json_t *facts = json_object_get(r->entry, "facts");
    static const char *const names[] = {"hostname", "kernel", "arch"};
    static const char *const titles[] = {"Host name", "Kernel", "Architecture"};

    add_fact(h, "Address", r->address);
    add_fact(h, "Agent", r->version);
    add_fact(h, "TLS of the agent", r->tls);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = json_string_value(json_object_get(facts, names[i]));

        add_fact(h, titles[i], value != NULL ? value : "");
    }
    begin_fact(h, "Clock against the relay's");
    if (r->has_clock)
        pfl_html_textf(h, "%+.6f s ", (double)r->offset_ns / 1e9);
    pfl_hosts_page_add_clock(r, h);
    pfl_html_close(h);
    begin_fact(h, "Certificate until");
    pfl_hosts_page_add_certificate(r->certificate_end_s, p->now_s, h);
    pfl_html_close(h);
    begin_fact(h, "Labels");
    pfl_hosts_page_add_labels(r, h);
    pfl_html_close(h);
}

static void add_service_facts(const struct pfl_host_facts *f, struct pfl_html *h)
{
    char used[32];
    char all[32];

    if (f == NULL || f->why[0] != '\0')
        return;
    add_fact(h, "Service", f->service);
    if (!f->has_figures)
        return;
    begin_fact(h, "Buffers");
    pfl_html_textf(h, "%s of %s are filled",
                   pfl_layout_bytes(f->ring_used_bytes, used, sizeof(used)),
                   pfl_layout_bytes(f->ring_bytes, all, sizeof(all)));
    pfl_html_close(h);
    begin_fact(h, "Lost since the service began");
    pfl_html_textf(h, "%" PRIu64 " chunks and packets", f->lost);
    pfl_html_close(h);
}

static void add_facts(const struct pfl_host_page *p, struct pfl_html *h)
{
    pfl_html_open(h, "dl");
    begin_fact(h, "State");
    pfl_hosts_page_add_state(p->row, h);
    pfl_html_close(h);
    add_service_facts(p->row->facts, h);
    if (p->row->has_relay)
        add_relay_facts(p, h);
    else
        add_fact(h, "Address", p->row->spec->text);
    pfl_html_close(h);
}

/* ---- findings ---- */

/* "warning NAME: CHECK: TEXT": without the name. */
static void add_finding(struct pfl_html *h, const char *line, const char *name)
{
    bool is_bad = strncmp(line, "BAD", 3) == 0;
    const char *text = line + strcspn(line, " ");

    text += strspn(text, " ");
    if (strncmp(text, name, strlen(name)) == 0 && strncmp(text + strlen(name), ": ", 2) == 0)
        text += strlen(name) + 2;
    pfl_html_open(h, "li");
    pfl_html_leaf_of(h, "span", is_bad ? "bad" : "warn", is_bad ? "bad" : "warning");
    pfl_html_textf(h, " %s", text);
    pfl_html_close(h);
}

static void add_lines(struct pfl_html *h, char *lines, const char *name)
{
    pfl_html_leaf(h, "h2", "Findings");
    pfl_html_open(h, "ul");
    pfl_html_attr(h, "class", "findings");
    while (*lines != '\0') {
        char *end = lines + strcspn(lines, "\n");
        bool is_last = *end == '\0';

        *end = '\0';
        if (strncmp(lines, "well", 4) == 0)
            pfl_html_leaf(h, "li", "Nothing is wrong that the checks of perfleet doctor find.");
        else
            add_finding(h, lines, name);
        lines = is_last ? end : end + 1;
    }
    pfl_html_close(h);
}

static int add_findings(const struct pfl_host_page *p, struct pfl_html *h)
{
    const struct pfl_inventory_host *r = &p->row->relay;
    struct pfl_health_host host = {
        .name = p->row->title,
        .why = p->row->facts != NULL ? p->row->facts->why : "it was not asked",
        .state = p->state,
        .tls = p->row->has_relay ? r->tls : NULL,
        .cert_end_s = r->certificate_end_s,
        .agent = p->row->has_relay ? r->version : "",
        .has_clock = p->row->has_relay ? r->has_clock : true, /* direct: recordings measure it */
        .offset_ns = r->offset_ns,
        .error_ns = r->error_ns,
    };
    struct pfl_health_conf conf = {
        .hosts = &host, .hosts_len = 1, .now_s = p->now_s, .own_version = p->version};
    enum pfl_health worst;
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, FINDINGS_MAX_BYTES);
    rc = pfl_health_text(&conf, &out, &worst);
    if (rc == 0)
        rc = pfl_buf_append(&out, "", 1);
    if (rc == 0)
        add_lines(h, (char *)out.data + out.start, host.name);
    pfl_buf_fini(&out);
    return rc;
}

/* ---- sessions, producers, data sources ---- */

static void add_buffers(const session_t *s, struct pfl_html *h)
{
    char size[32];

    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "Buffers");
    for (size_t i = 0; i < s->n_buffer_size_kb; i++)
        pfl_html_textf(h, "%s%s", i != 0 ? ", " : "",
                       pfl_layout_bytes((uint64_t)s->buffer_size_kb[i] * 1024, size, sizeof(size)));
    pfl_html_close(h);
}

static void add_session(const session_t *s, int64_t now_s, struct pfl_html *h)
{
    const char *name = s->unique_session_name != NULL ? s->unique_session_name : "";
    char text[64];

    pfl_html_open(h, "tr");
    (void)snprintf(text, sizeof(text), "%" PRIu64, s->id);
    pfl_layout_add_head_cell(h, text);
    if (name[0] == '\0' && s->has_perfleet_detach_key)
        name = pfl_log_quote((const char *)s->perfleet_detach_key.data, s->perfleet_detach_key.len);
    add_cell(h, "Name", name);
    add_cell(h, "State", s->state);
    text[0] = '\0';
    if (s->has_start_realtime_ns)
        (void)pfl_layout_age((double)(now_s - s->start_realtime_ns / 1000000000), text,
                             sizeof(text));
    add_cell(h, "Since", text);
    add_buffers(s, h);
    (void)snprintf(text, sizeof(text), "%" PRIu32, s->num_data_sources);
    add_cell(h, "Sources", text);
    (void)snprintf(text, sizeof(text), "%d", s->consumer_uid);
    add_cell(h, "User", text);
    pfl_html_close(h);
}

static void add_hidden(struct pfl_html *h, const char *name, const char *value)
{
    pfl_html_open(h, "input");
    pfl_html_attr(h, "type", "hidden");
    pfl_html_attr(h, "name", name);
    pfl_html_attr(h, "value", value);
    pfl_html_close(h);
}

/* The first session that runs and has a name; NULL: none. */
static const char *find_recorder(const state_t *state)
{
    for (size_t i = 0; i < state->n_tracing_sessions; i++) {
        const session_t *s = state->tracing_sessions[i];

        if (s->state != NULL && strcmp(s->state, "STARTED") == 0 &&
            s->unique_session_name != NULL && s->unique_session_name[0] != '\0')
            return s->unique_session_name;
    }
    return NULL;
}

static void add_live_button(const struct pfl_host_page *p, const struct pfl_layout *layout,
                            const char *session, struct pfl_html *h)
{
    pfl_layout_form(layout, h, "/host/live");
    add_hidden(h, "name", p->row->name);
    add_hidden(h, "session", session);
    pfl_html_open(h, "button");
    pfl_html_attr(h, "type", "submit");
    pfl_html_attr(h, "formtarget", "_blank"); /* a tab of its own */
    pfl_html_text(h, "Watch live");
    pfl_html_close(h);
    pfl_html_close(h);
}

/* How to watch the host: a button, where the browser is on this machine, and the command. */
static void add_live(const struct pfl_host_page *p, const struct pfl_layout *layout,
                     const state_t *state, struct pfl_html *h)
{
    const char *name = find_recorder(state);
    struct pfl_command_line line;

    if (p->live == NULL || name == NULL)
        return;
    if (!layout->is_remote)
        add_live_button(p, layout, name, h);
    line = *p->live;
    pfl_command_line_option(&line, "--session", name);
    pfl_html_open(h, "p");
    pfl_html_text(h, "To see it live in a tab of the Perfetto UI: ");
    pfl_html_leaf(h, "code", line.text);
    pfl_html_close(h);
}

static void add_sessions(const state_t *state, int64_t now_s, struct pfl_html *h)
{
    static const char *const columns[] = {"Id",      "Name",    "State", "Since",
                                          "Buffers", "Sources", "User",  NULL};

    begin_table(h, "Sessions", state->n_tracing_sessions, columns);
    for (size_t i = 0; i < shown(state->n_tracing_sessions); i++)
        add_session(state->tracing_sessions[i], now_s, h);
    end_table(h, state->n_tracing_sessions);
}

static void add_producer(const producer_t *p, struct pfl_html *h)
{
    char text[32];

    pfl_html_open(h, "tr");
    (void)snprintf(text, sizeof(text), "%d", p->id);
    pfl_layout_add_head_cell(h, text);
    add_cell(h, "Name", p->name);
    (void)snprintf(text, sizeof(text), "%d", p->pid);
    add_cell(h, "Process", text);
    (void)snprintf(text, sizeof(text), "%d", p->uid);
    add_cell(h, "User", text);
    add_cell(h, "Library", p->sdk_version);
    add_cell(h, "Machine", p->machine_name);
    pfl_html_close(h);
}

static void add_producers(const state_t *state, struct pfl_html *h)
{
    static const char *const columns[] = {"Id",      "Name",    "Process", "User",
                                          "Library", "Machine", NULL};

    begin_table(h, "Producers", state->n_producers, columns);
    for (size_t i = 0; i < shown(state->n_producers); i++)
        add_producer(state->producers[i], h);
    end_table(h, state->n_producers);
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;

    return strcmp(*x, *y);
}

static void write_sources(const char *const *names, size_t len, struct pfl_html *h)
{
    static const char *const columns[] = {"Name", "Offered by", NULL};
    size_t kinds = 0;
    size_t begin = 0;

    for (size_t i = 0; i < len; i++)
        kinds += i == 0 || strcmp(names[i], names[i - 1]) != 0;
    begin_table(h, "Data sources", kinds, columns);
    for (size_t row = 0; row < shown(kinds); row++) {
        size_t end = begin;
        char text[48];

        while (end < len && strcmp(names[end], names[begin]) == 0)
            end++;
        (void)snprintf(text, sizeof(text), "%zu producer%s", end - begin,
                       end - begin == 1 ? "" : "s");
        pfl_html_open(h, "tr");
        pfl_layout_add_head_cell(h, names[begin]);
        add_cell(h, "Offered by", text);
        pfl_html_close(h);
        begin = end;
    }
    end_table(h, kinds);
}

static int add_sources(const state_t *state, struct pfl_html *h)
{
    const char **names = pfl_mem_calloc(state->n_data_sources + 1, sizeof(*names));

    if (names == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < state->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceDescriptor *d = state->data_sources[i]->ds_descriptor;

        names[i] = d != NULL && d->name != NULL ? d->name : "";
    }
    qsort(names, state->n_data_sources, sizeof(*names), compare_texts);
    write_sources(names, state->n_data_sources, h);
    pfl_mem_free(names);
    return 0;
}

static int add_state(const struct pfl_host_page *p, const struct pfl_layout *layout,
                     struct pfl_html *h)
{
    ProtobufCMessage *message;
    const state_t *state;
    int rc;

    if (p->state.len == 0)
        return 0;
    rc = pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, p->state, &message);
    if (rc != 0)
        return rc == PFL_EPARSE ? 0 : rc; /* which is a finding */
    state = (const state_t *)message;
    add_sessions(state, p->now_s, h);
    add_live(p, layout, state, h);
    add_producers(state, h);
    rc = add_sources(state, h);
    pfl_proto_free(message);
    return rc;
}

/* ---- traces ---- */

static void add_traces(const struct pfl_host_page *p, struct pfl_html *h)
{
    const struct pfl_trace_rows *t = p->traces;

    if (t == NULL)
        return;
    pfl_html_open(h, "h2");
    pfl_html_text(h, "Traces ");
    pfl_html_open(h, "span");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, t->has_more ? "the newest %zu" : "%zu", t->len);
    pfl_html_close(h);
    pfl_html_close(h);
    if (p->traces_why[0] != '\0') {
        pfl_html_leaf_of(h, "p", "bad", p->traces_why);
        return;
    }
    if (t->len == 0) {
        pfl_html_leaf_of(h, "p", "count", "The collector keeps none of this host.");
        return;
    }
    pfl_trace_rows_write_bar(t, (uint64_t)p->now_s * 1000000000, h);
    pfl_trace_rows_write_table(t, h);
}

int pfl_host_page_write(const struct pfl_host_page *page, const struct pfl_layout *layout,
                        struct pfl_html *h)
{
    int rc;

    pfl_layout_begin(layout, h);
    pfl_html_leaf(h, "h1", page->row->title);
    add_facts(page, h);
    rc = add_findings(page, h);
    if (rc == 0)
        rc = add_state(page, layout, h);
    if (rc == 0)
        add_traces(page, h);
    pfl_layout_end(layout, h);
    return rc != 0 ? rc : h->rc;
}
