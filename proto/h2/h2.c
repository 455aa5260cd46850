/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 by nghttp2: see h2.h. What nghttp2 calls back is in h2_events.c.
 *
 * Happy path: new sends the settings and opens the connection's window; feed and drain move bytes;
 * requests and answers are passed to nghttp2, which asks the streams for their bytes when their
 * windows have room. Credit is summed per stream and sent once per drain. Failures: if a peer
 * breaks the protocol or floods, the connection ends: feed returns an error, drain still has the
 * GOAWAY. Out of memory ends it, too. Ownership: the session, the streams; a stream's on_closed
 * comes before it is freed. Limits: h2.h's; nghttp2's own for settings and acknowledgements (32,
 * 1000).
 */
#include "proto/h2/h2.h"

#include <assert.h>
#include <stdio.h>

#include "base/mem.h"
#include "proto/h2/h2_impl.h"

#define CONNECTION_WINDOW_BYTES INT32_MAX

/* ---- memory ---- */

static void *mem_alloc(size_t size, void *user)
{
    (void)user;
    return pfl_mem_alloc(size);
}

static void mem_free(void *ptr, void *user)
{
    (void)user;
    pfl_mem_free(ptr);
}

static void *mem_calloc(size_t count, size_t size, void *user)
{
    (void)user;
    return pfl_mem_calloc(count, size);
}

static void *mem_realloc(void *ptr, size_t size, void *user)
{
    (void)user;
    return pfl_mem_realloc(ptr, size);
}

static int err_of(int code)
{
    switch (code) {
    case NGHTTP2_ERR_NOMEM:
        return PFL_ENOMEM;
    case NGHTTP2_ERR_FLOODED:
    case NGHTTP2_ERR_TOO_MANY_SETTINGS:
        return PFL_ELIMIT;
    case NGHTTP2_ERR_INVALID_ARGUMENT:
    case NGHTTP2_ERR_INVALID_STATE:
    case NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE:
        return PFL_ESTATE;
    default:
        return PFL_EPROTO;
    }
}

/* ---- streams ---- */

struct pfl_h2_stream *pfl_h2_stream_new(struct pfl_h2 *h2, int32_t id)
{
    struct pfl_h2_stream *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->h2 = h2;
    s->id = id;
    pfl_list_append(&h2->streams, &s->node);
    h2->count++;
    return s;
}

void pfl_h2_stream_end(struct pfl_h2_stream *s, uint32_t code)
{
    struct pfl_h2 *h2 = s->h2;

    pfl_list_remove(&s->node);
    pfl_list_remove(&s->creditor);
    h2->count--;
    if (s->is_own)
        h2->own_count--;
    if (s->ops != NULL)
        s->ops->on_closed(s->user, code);
    pfl_mem_free(s->head);
    pfl_buf_fini(&s->body);
    pfl_mem_free(s);
}

/* ---- the connection ---- */

static int make_options(const struct pfl_h2_conf *conf, nghttp2_option **ret_option)
{
    uint64_t resetters = conf->resetters != 0 ? conf->resetters : 1;
    nghttp2_option *option;

    if (nghttp2_option_new(&option) != 0)
        return PFL_ENOMEM;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, 2 * PFL_H2_HEAD_BYTES);
    nghttp2_option_set_stream_reset_rate_limit(option, resetters * PFL_H2_RESET_BURST,
                                               resetters * PFL_H2_RESET_PER_SEC);
    *ret_option = option;
    return 0;
}

static int make_session(struct pfl_h2 *h2)
{
    nghttp2_mem mem = {NULL, mem_alloc, mem_free, mem_calloc, mem_realloc};
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int rc = make_options(&h2->conf, &option);

    if (rc != 0)
        return rc;
    rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc == 0) {
        pfl_h2_set_callbacks(callbacks);
        if (h2->conf.is_answering)
            rc = nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &mem);
        else
            rc = nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &mem);
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return rc == 0 ? 0 : PFL_ENOMEM;
}

static int open_connection(struct pfl_h2 *h2)
{
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h2->conf.max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, h2->conf.window_bytes},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, PFL_H2_HEAD_BYTES},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
    };
    size_t count = sizeof(settings) / sizeof(settings[0]);

    /* Only a client says the one before the last, only a server the last one. */
    if (h2->conf.is_answering)
        settings[3] = settings[4];
    if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, count - 1) != 0 ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                              CONNECTION_WINDOW_BYTES) != 0)
        return PFL_ENOMEM;
    return 0;
}

int pfl_h2_new(const struct pfl_h2_conf *conf, struct pfl_h2 **ret_h2)
{
    struct pfl_h2 *h2 = pfl_mem_zalloc(sizeof(*h2));
    int rc;

    assert(conf->window_bytes > 0 && conf->window_bytes <= INT32_MAX);
    assert(!conf->is_answering || conf->on_request != NULL);
    if (h2 == NULL)
        return PFL_ENOMEM;
    h2->conf = *conf;
    if (h2->conf.max_streams == 0)
        h2->conf.max_streams = PFL_H2_MAX_STREAMS;
    pfl_list_init(&h2->streams);
    pfl_list_init(&h2->creditors);
    rc = make_session(h2);
    if (rc == 0)
        rc = open_connection(h2);
    if (rc != 0) {
        pfl_h2_free(h2);
        return rc;
    }
    *ret_h2 = h2;
    return 0;
}

void pfl_h2_free(struct pfl_h2 *self)
{
    if (self == NULL)
        return;
    self->depth++; /* on_wake is not called for streams that end here */
    self->is_going = true;
    while (!pfl_list_is_empty(&self->streams))
        pfl_h2_stream_end(PFL_CONTAINER_OF(self->streams.next, struct pfl_h2_stream, node),
                          PFL_H2_DETACH);
    nghttp2_session_del(self->session);
    pfl_mem_free(self);
}

int pfl_h2_feed(struct pfl_h2 *self, struct pfl_span bytes)
{
    ssize_t rc;

    if (self->err != 0)
        return self->err;
    self->depth++;
    rc = nghttp2_session_mem_recv(self->session, bytes.data, bytes.len);
    self->depth--;
    if (rc < 0 && self->err == 0)
        self->err = err_of((int)rc);
    if (self->err == 0 &&
        nghttp2_session_get_outbound_queue_size(self->session) > PFL_H2_MAX_QUEUED_FRAMES)
        self->err = PFL_ELIMIT; /* it asks for more than it reads */
    return self->err;
}

static int send_credit(struct pfl_h2 *h2)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &h2->creditors) {
        struct pfl_h2_stream *s = PFL_CONTAINER_OF(it, struct pfl_h2_stream, creditor);
        uint32_t due = s->credit_due;

        s->credit_due = 0;
        pfl_list_remove(&s->creditor);
        if (!s->is_reset && nghttp2_submit_window_update(h2->session, NGHTTP2_FLAG_NONE, s->id,
                                                         (int32_t)due) == NGHTTP2_ERR_NOMEM)
            return PFL_ENOMEM;
    }
    return 0;
}

static int drain(struct pfl_h2 *h2, struct pfl_writer *out)
{
    int rc = send_credit(h2);

    while (rc == 0 && out->left >= PFL_H2_DRAIN_BYTES) {
        const uint8_t *data;
        ssize_t len = nghttp2_session_mem_send(h2->session, &data);

        if (len == 0)
            break;
        if (len < 0)
            rc = err_of((int)len);
        else
            pfl_writer_bytes(out, data, (size_t)len);
    }
    assert(!out->failed);
    return rc;
}

int pfl_h2_drain(struct pfl_h2 *self, struct pfl_writer *out)
{
    int rc;

    self->depth++;
    rc = drain(self, out);
    self->depth--;
    if (rc != 0 && self->err == 0)
        self->err = rc;
    return rc;
}

bool pfl_h2_is_over(const struct pfl_h2 *self)
{
    return nghttp2_session_want_read(self->session) == 0 &&
           nghttp2_session_want_write(self->session) == 0;
}

unsigned pfl_h2_count_streams(const struct pfl_h2 *self)
{
    return self->count;
}

bool pfl_h2_is_going(const struct pfl_h2 *self)
{
    return self->is_going;
}

void pfl_h2_wake(struct pfl_h2 *h2)
{
    if (h2->depth == 0 && h2->conf.on_wake != NULL)
        h2->conf.on_wake(h2->conf.wake_user);
}

int pfl_h2_goaway(struct pfl_h2 *self)
{
    self->is_going = true;
    if (nghttp2_submit_goaway(self->session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(self->session),
                              NGHTTP2_NO_ERROR, NULL, 0) != 0)
        return PFL_ENOMEM;
    pfl_h2_wake(self);
    return 0;
}

int pfl_h2_ping(struct pfl_h2 *self)
{
    if (nghttp2_submit_ping(self->session, NGHTTP2_FLAG_NONE, NULL) != 0)
        return PFL_ENOMEM;
    pfl_h2_wake(self);
    return 0;
}

/* ---- requests and answers ---- */

static nghttp2_nv nv_of(const char *name, const char *value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
        .flags = NGHTTP2_NV_FLAG_NONE,
    };
}

static int may_request(const struct pfl_h2 *h2, const struct pfl_h2_request *request)
{
    if (h2->is_going || h2->err != 0 || h2->conf.is_answering)
        return PFL_ESTATE;
    if (request->fields_len > PFL_H2_SEND_FIELDS)
        return PFL_EINVAL;
    if (request->protocol != NULL &&
        nghttp2_session_get_remote_settings(h2->session,
                                            NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) != 1)
        return PFL_ESTATE;
    if (h2->own_count >=
        nghttp2_session_get_remote_settings(h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
        return PFL_ELIMIT;
    return 0;
}

static int submit(struct pfl_h2_stream *s, const struct pfl_h2_request *request)
{
    nghttp2_nv nv[PFL_H2_SEND_FIELDS + 5];
    nghttp2_data_provider source = pfl_h2_source_of(s);
    size_t count = 0;
    int32_t id;

    nv[count++] = nv_of(":method", request->method);
    if (request->protocol != NULL)
        nv[count++] = nv_of(":protocol", request->protocol);
    nv[count++] = nv_of(":scheme", "https");
    nv[count++] = nv_of(":authority", "perfleet");
    nv[count++] = nv_of(":path", request->path);
    for (size_t i = 0; i < request->fields_len; i++)
        nv[count++] = nv_of(request->fields[i].name, request->fields[i].value);
    id = nghttp2_submit_request(s->h2->session, NULL, nv, count,
                                request->ops->on_pull != NULL ? &source : NULL, s);
    if (id < 0)
        return err_of(id);
    s->id = id;
    return 0;
}

int pfl_h2_request(struct pfl_h2 *self, const struct pfl_h2_request *request,
                   struct pfl_h2_stream **ret_stream)
{
    struct pfl_h2_stream *s;
    int rc = may_request(self, request);

    if (rc != 0)
        return rc;
    s = pfl_h2_stream_new(self, 0);
    if (s == NULL)
        return PFL_ENOMEM;
    s->is_own = true;
    self->own_count++;
    s->user = request->user;
    rc = submit(s, request);
    if (rc != 0) {
        pfl_h2_stream_end(s, PFL_H2_NO_ERROR); /* it has no ops yet: no callback */
        return rc;
    }
    s->ops = request->ops;
    pfl_h2_wake(self);
    *ret_stream = s;
    return 0;
}

static int respond(struct pfl_h2_stream *s, unsigned status, const struct pfl_h2_field *fields,
                   size_t fields_len)
{
    nghttp2_nv nv[PFL_H2_SEND_FIELDS + 1];
    nghttp2_data_provider source = pfl_h2_source_of(s);
    char status_text[4];
    bool has_body = s->is_whole ? s->body.len != 0 : s->ops != NULL && s->ops->on_pull != NULL;
    size_t count = 0;
    int rc;

    if (s->is_responded || s->is_reset || s->is_own)
        return PFL_ESTATE;
    if (fields_len > PFL_H2_SEND_FIELDS || status < 100 || status > 999)
        return PFL_EINVAL;
    (void)snprintf(status_text, sizeof(status_text), "%u", status % 1000);
    nv[count++] = nv_of(":status", status_text);
    for (size_t i = 0; i < fields_len; i++)
        nv[count++] = nv_of(fields[i].name, fields[i].value);
    rc = nghttp2_submit_response(s->h2->session, s->id, nv, count, has_body ? &source : NULL);
    if (rc != 0)
        return err_of(rc);
    s->is_responded = true;
    s->is_whole |= !has_body;
    pfl_h2_wake(s->h2);
    return 0;
}

int pfl_h2_stream_respond(struct pfl_h2_stream *self, unsigned status,
                          const struct pfl_h2_field *fields, size_t fields_len)
{
    return respond(self, status, fields, fields_len);
}

int pfl_h2_stream_respond_whole(struct pfl_h2_stream *self, unsigned status,
                                const struct pfl_h2_field *fields, size_t fields_len,
                                struct pfl_span body)
{
    int rc;

    if (self->is_responded || self->is_reset)
        return PFL_ESTATE;
    if (body.len != 0) {
        pfl_buf_fini(&self->body);
        pfl_buf_init(&self->body, body.len);
        rc = pfl_buf_append(&self->body, body.data, body.len);
        if (rc != 0)
            return rc;
    }
    self->is_whole = true;
    return respond(self, status, fields, fields_len);
}

int pfl_h2_stream_respond_body(struct pfl_h2_stream *self, unsigned status, const char *type,
                               struct pfl_span body)
{
    struct pfl_h2_field field = {"content-type", type};

    return pfl_h2_stream_respond_whole(self, status, &field, type != NULL ? 1 : 0, body);
}

void pfl_h2_stream_set_user(struct pfl_h2_stream *self, const struct pfl_h2_stream_ops *ops,
                            void *user)
{
    self->ops = ops;
    self->user = user;
}

void pfl_h2_stream_wake(struct pfl_h2_stream *self)
{
    if (!self->is_deferred || self->is_reset)
        return;
    self->is_deferred = false;
    /* Fails only when nothing is deferred there, or out of memory: then the next wake asks again.
     */
    if (nghttp2_session_resume_data(self->h2->session, self->id) != 0)
        self->is_deferred = true;
    pfl_h2_wake(self->h2);
}

void pfl_h2_stream_credit(struct pfl_h2_stream *self, uint32_t bytes)
{
    if (bytes == 0 || self->is_reset)
        return;
    if (bytes > INT32_MAX - self->credit_due) {
        pfl_h2_stream_reset(self, PFL_H2_FLOW_CONTROL_ERROR);
        return;
    }
    self->credit_due += bytes;
    if (self->creditor.next == NULL)
        pfl_list_append(&self->h2->creditors, &self->creditor);
    pfl_h2_wake(self->h2);
}

void pfl_h2_stream_reset(struct pfl_h2_stream *self, enum pfl_h2_code code)
{
    if (self->is_reset)
        return;
    self->is_reset = true;
    if (nghttp2_submit_rst_stream(self->h2->session, NGHTTP2_FLAG_NONE, self->id, (uint32_t)code) !=
        0)
        self->h2->err = PFL_ENOMEM;
    pfl_h2_wake(self->h2);
}
