/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions by name: see running_rows.h. Copies that are being read have no name, and are rows of
 * their own, as sessions of single recordings are. Failures: malformed bytes, no memory. Limits:
 * those of the header.
 */
#include "consumer/web/record/running_rows.h"

#include <stdio.h>
#include <string.h>

#include "perfetto/service_state.pb-c.h"
#include "proto/unpack.h"

typedef Perfetto__Protos__TracingServiceState state_t;
typedef Perfetto__Protos__TracingServiceState__TracingSession session_t;

static const char *name_of(const session_t *s)
{
    return s->unique_session_name != NULL ? s->unique_session_name : "";
}

static bool is_running(const session_t *s)
{
    return s->state != NULL && strcmp(s->state, "STARTED") == 0;
}

/* Of that name, or a new one; NULL: there is no room, or the name is too long. */
static struct pfl_running_row *find_row(struct pfl_running_rows *r, const session_t *s)
{
    struct pfl_running_row *row;

    for (size_t i = 0; name_of(s)[0] != '\0' && i < r->len; i++)
        if (strcmp(r->rows[i].name, name_of(s)) == 0)
            return &r->rows[i];
    if (r->len == PFL_RUNNING_ROWS_MAX || strlen(name_of(s)) >= PFL_RUNNING_ROWS_NAME_BYTES)
        return NULL;
    row = &r->rows[r->len++];
    *row = (struct pfl_running_row){.user = s->consumer_uid};
    (void)snprintf(row->name, sizeof(row->name), "%s", name_of(s));
    (void)snprintf(row->state, sizeof(row->state), "%s", s->state != NULL ? s->state : "");
    return row;
}

static void add_host(struct pfl_running_row *row, const char *host)
{
    size_t len = strlen(row->hosts);
    size_t room = sizeof(row->hosts) - len;

    row->hosts_len++;
    if (strlen(host) + 3 > room)
        return;
    (void)snprintf(row->hosts + len, room, "%s%s", len != 0 ? ", " : "", host);
}

static void add_session(struct pfl_running_rows *r, const char *host, const session_t *s)
{
    struct pfl_running_row *row = find_row(r, s);
    int64_t since_s = s->has_start_realtime_ns ? s->start_realtime_ns / 1000000000 : 0;

    if (row == NULL) {
        r->left_out++;
        return;
    }
    add_host(row, host);
    if (since_s > 0 && (row->since_s == 0 || since_s < row->since_s))
        row->since_s = since_s;
    row->can_be_copied |= row->name[0] != '\0' && is_running(s);
    for (size_t i = 0; i < s->n_buffer_size_kb; i++)
        row->ring_bytes += (uint64_t)s->buffer_size_kb[i] * 1024;
}

int pfl_running_rows_add(struct pfl_running_rows *self, const char *host, struct pfl_span state)
{
    ProtobufCMessage *message;
    const state_t *s;
    int rc =
        pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, state, &message);

    if (rc != 0)
        return rc;
    s = (const state_t *)message;
    for (size_t i = 0; i < s->n_tracing_sessions; i++)
        add_session(self, host, s->tracing_sessions[i]);
    pfl_proto_free(message);
    return 0;
}

bool pfl_running_rows_has(struct pfl_span state, const char *name)
{
    ProtobufCMessage *message;
    const state_t *s;
    bool is_there = false;

    if (pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, state, &message) !=
        0)
        return false;
    s = (const state_t *)message;
    for (size_t i = 0; i < s->n_tracing_sessions; i++)
        is_there |= is_running(s->tracing_sessions[i]) &&
                    strcmp(name_of(s->tracing_sessions[i]), name) == 0;
    pfl_proto_free(message);
    return is_there;
}
