/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream to a collector: see collector_conn.h. Happy path: a request becomes a frame, frames
 * become replies. Failures: a malformed frame or reply closes the stream with the reason; what the
 * relay or the collector says when it refuses is passed on. Ownership: the stream, the reader.
 * Limits: a frame (proto/ipc/frame.h); QUEUE_MAX_BYTES of requests.
 */
#include "consumer/collector/collector_conn.h"

#include <jansson.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/ipc/frame.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel.h"
#include "proto/unpack.h"

#define QUEUE_MAX_BYTES ((size_t)PFL_TUNNEL_CONTROL_WINDOW_BYTES)
#define PATH_BYTES      128u
#define WHY_BYTES       512u

struct pfl_collector_conn {
    struct pfl_collector_conn_conf conf;
    struct pfl_stream *stream;
    struct pfl_frame_reader reader;
    uint32_t last_id;
    bool is_closing;
    char why[WHY_BYTES];
};

static void fail(struct pfl_collector_conn *c, const char *why)
{
    if (c->why[0] == '\0')
        (void)snprintf(c->why, sizeof(c->why), "%s", why);
    c->is_closing = true;
    pfl_stream_close(c->stream);
}

static int on_frame(void *user, struct pfl_span payload)
{
    struct pfl_collector_conn *c = user;
    ProtobufCMessage *message = NULL;
    int rc;

    if (c->is_closing)
        return 0;
    rc = pfl_proto_unpack(&perfleet__collector_reply__descriptor, payload, &message);
    if (rc != 0)
        return rc;
    c->conf.on_reply(c->conf.user, (const Perfleet__CollectorReply *)message);
    pfl_proto_free(message);
    return 0;
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_collector_conn *c = user;
    int rc = c->is_closing ? 0 : pfl_frame_reader_feed(&c->reader, data, on_frame, c);

    if (rc != 0)
        fail(c, rc == PFL_ENOMEM ? "out of memory" : "the collector's reply is malformed");
}

static void on_fd(void *user, int fd)
{
    (void)user;
    (void)fd;
}

static void on_eof(void *user)
{
    fail(user, "the collector ended the stream");
}

static void on_closed(void *user, int err)
{
    struct pfl_collector_conn *c = user;
    const char *why = pfl_tunnel_stream_get_error(c->stream);
    struct pfl_collector_conn_conf conf = c->conf;

    if (c->why[0] == '\0' && err != 0)
        (void)snprintf(c->why, sizeof(c->why), "%s",
                       why[0] != '\0' ? pfl_log_quote_reason(why) : pfl_err_str(err));
    conf.on_closed(conf.user, c->why);
    pfl_frame_reader_fini(&c->reader);
    pfl_mem_free(c);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_fd = on_fd, .on_eof = on_eof, .on_closed = on_closed};

int pfl_collector_conn_open(const struct pfl_collector_conn_conf *conf,
                            struct pfl_collector_conn **ret_conn)
{
    char path[PATH_BYTES];
    const struct pfl_tunnel_place place = {.path = path, .protocol = PFL_TUNNEL_PROTOCOL_COLLECTOR};
    struct pfl_stream_conf stream = {
        .loop = conf->loop, .ops = &ops, .queue_max_bytes = QUEUE_MAX_BYTES};
    struct pfl_collector_conn *c;
    int rc;

    if (!pfl_identity_is_name(conf->name))
        return PFL_EINVAL;
    c = pfl_mem_zalloc(sizeof(*c));
    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    c->conf.name = NULL;
    pfl_frame_reader_init_large(&c->reader);
    stream.user = c;
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_COLLECTORS_PATH "/%s", conf->name);
    rc = pfl_tunnel_client_dial(conf->tunnel, &place, &stream, &c->stream);
    if (rc != 0) {
        pfl_frame_reader_fini(&c->reader);
        pfl_mem_free(c);
        return rc;
    }
    *ret_conn = c;
    return 0;
}

int pfl_collector_conn_send(struct pfl_collector_conn *self, Perfleet__CollectorRequest *request)
{
    struct pfl_buf out;
    struct iovec iov;
    int rc;

    if (self->is_closing)
        return PFL_ESTATE;
    request->has_id = 1;
    request->id = ++self->last_id;
    pfl_buf_init(&out, PFL_FRAME_LARGE_MAX_BYTES);
    rc = pfl_frame_write(&request->base, &out);
    if (rc == 0) {
        iov = (struct iovec){(void *)(uintptr_t)pfl_buf_get(&out).data, out.len};
        rc = pfl_stream_writev(self->stream, &iov, 1, -1);
    }
    pfl_buf_fini(&out);
    return rc;
}

void pfl_collector_conn_pause(struct pfl_collector_conn *self, bool is_paused)
{
    if (is_paused)
        pfl_stream_read_stop(self->stream);
    else
        pfl_stream_read_start(self->stream);
}

void pfl_collector_conn_close(struct pfl_collector_conn *self)
{
    self->is_closing = true;
    pfl_stream_close(self->stream);
}

size_t pfl_collector_conn_read_names(struct pfl_span answer, char *ret_name, size_t name_len)
{
    json_t *object = json_loadb((const char *)answer.data, answer.len, 0, NULL);
    const json_t *list = json_object_get(object, "collectors");
    size_t found = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));

        if (name == NULL || !pfl_identity_is_name(name))
            continue;
        found++;
        (void)snprintf(ret_name, name_len, "%s", name);
    }
    json_decref(object);
    return found;
}
