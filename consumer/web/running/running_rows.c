/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions by name: see running_rows.h. Copies that are being read have no name, and are rows of
 * their own, as sessions of single recordings are; copies that an alarm made have a key. A host has
 * so many new rows of its own, so that its sessions do not take those of others. Failures:
 * malformed bytes, no memory. Limits: those of the header.
 */
#include "consumer/web/running/running_rows.h"

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

/* As the commands take one: printable, without space. What has a name is left under it, unless the
 * service says otherwise. */
static bool is_key(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f)
            return false;
    return len != 0 && len < PFL_RUNNING_ROWS_NAME_BYTES;
}

static void copy_key(const session_t *s, char ret_key[PFL_RUNNING_ROWS_NAME_BYTES])
{
    const char *key =
        s->has_perfleet_detach_key ? (const char *)s->perfleet_detach_key.data : name_of(s);
    size_t len = s->has_perfleet_detach_key ? s->perfleet_detach_key.len : strlen(key);

    ret_key[0] = '\0';
    if (is_key(key, len))
        (void)snprintf(ret_key, PFL_RUNNING_ROWS_NAME_BYTES, "%.*s", (int)len, key);
}

static bool is_running(const session_t *s)
{
    return s->state != NULL && strcmp(s->state, "STARTED") == 0;
}

/* Of that name and key, or a new one; NULL: there is no room, or the name is too long. */
static struct pfl_running_row *find_row(struct pfl_running_rows *r, const session_t *s)
{
    char key[PFL_RUNNING_ROWS_NAME_BYTES];
    struct pfl_running_row *row;

    copy_key(s, key);
    for (size_t i = 0; (name_of(s)[0] != '\0' || key[0] != '\0') && i < r->len; i++)
        if (strcmp(r->rows[i].name, name_of(s)) == 0 && strcmp(r->rows[i].key, key) == 0)
            return &r->rows[i];
    if (r->len == PFL_RUNNING_ROWS_MAX || r->len - r->of_host_begin == r->of_host_max ||
        strlen(name_of(s)) >= PFL_RUNNING_ROWS_NAME_BYTES)
        return NULL;
    row = &r->rows[r->len++];
    *row = (struct pfl_running_row){.user = s->consumer_uid, .is_own = s->perfleet_is_own};
    (void)snprintf(row->name, sizeof(row->name), "%s", name_of(s));
    (void)snprintf(row->key, sizeof(row->key), "%s", key);
    (void)snprintf(row->state, sizeof(row->state), "%s", s->state != NULL ? s->state : "");
    return row;
}

static void add_host(struct pfl_running_row *row, const char *host, size_t number)
{
    size_t len = strlen(row->hosts);
    size_t room = sizeof(row->hosts) - len;

    if (row->last_host == number)
        return;
    row->last_host = number;
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
    add_host(row, host, r->hosts_len);
    if (since_s > 0 && (row->since_s == 0 || since_s < row->since_s))
        row->since_s = since_s;
    row->is_running |= is_running(s);
    for (size_t i = 0; i < s->n_buffer_size_kb; i++)
        row->ring_bytes += (uint64_t)s->buffer_size_kb[i] * 1024;
}

void pfl_running_rows_init(struct pfl_running_rows *self, size_t hosts_len)
{
    size_t part = PFL_RUNNING_ROWS_MAX / (hosts_len != 0 ? hosts_len : 1);

    memset(self, 0, sizeof(*self));
    self->of_host_max = part > PFL_RUNNING_ROWS_OF_HOST ? part : PFL_RUNNING_ROWS_OF_HOST;
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
    self->hosts_len++;
    self->of_host_begin = self->len;
    for (size_t i = 0; i < s->n_tracing_sessions; i++)
        add_session(self, host, s->tracing_sessions[i]);
    pfl_proto_free(message);
    return 0;
}

bool pfl_running_rows_has_key(struct pfl_span state, const char *key)
{
    char other[PFL_RUNNING_ROWS_NAME_BYTES];
    ProtobufCMessage *message;
    const state_t *s;
    bool is_there = false;

    if (pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, state, &message) !=
        0)
        return false;
    s = (const state_t *)message;
    for (size_t i = 0; i < s->n_tracing_sessions; i++) {
        copy_key(s->tracing_sessions[i], other);
        is_there |= other[0] != '\0' && strcmp(other, key) == 0;
    }
    pfl_proto_free(message);
    return is_there;
}
