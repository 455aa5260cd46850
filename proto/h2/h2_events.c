/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts nghttp2's callbacks into the events of h2.h.
 *
 * Happy path: headers are collected into a head and reported when complete; bytes, credit and ends
 * are reported to the stream's user, unless we have reset the stream. Failures: after too large a
 * head, padding on a stream, or too many empty frames the stream is reset, or the connection's err
 * is set, which ends it with the current feed. Ownership: see h2.c. Limits: h2.h.
 */
#include <assert.h>

#include "base/mem.h"
#include "proto/h2/h2_impl.h"

#define FATAL NGHTTP2_ERR_CALLBACK_FAILURE

static struct pfl_h2_stream *stream_of(struct pfl_h2 *h2, int32_t id)
{
    return id == 0 ? NULL : nghttp2_session_get_stream_user_data(h2->session, id);
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct pfl_h2 *h2 = user;
    struct pfl_h2_stream *s;

    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    s = stream_of(h2, frame->hd.stream_id);
    if (s == NULL && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        s = pfl_h2_stream_new(h2, frame->hd.stream_id);
        if (s == NULL)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        if (nghttp2_session_set_stream_user_data(session, s->id, s) != 0) {
            pfl_h2_stream_end(s, PFL_H2_INTERNAL_ERROR);
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    }
    if (s == NULL || s->head != NULL)
        return 0;
    s->head = pfl_mem_zalloc(sizeof(*s->head));
    return s->head != NULL ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int take_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                       nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    struct pfl_h2_stream *s = stream_of(user, frame->hd.stream_id);
    nghttp2_vec n = nghttp2_rcbuf_get_buf(name);
    nghttp2_vec v = nghttp2_rcbuf_get_buf(value);

    (void)session;
    (void)flags;
    if (s == NULL || s->head == NULL)
        return 0;
    /* A field of kilobytes that is in the table costs one byte on the wire, and nghttp2 checks each
     * of its characters every time. After this it only keeps the table right. */
    if (s->head->came_bytes > PFL_H2_HEAD_READ_BYTES)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    pfl_h2_head_add(s->head, pfl_span_of(n.base, n.len), pfl_span_of(v.base, v.len));
    return 0;
}

static void refuse(struct pfl_h2_stream *s, unsigned status)
{
    if (pfl_h2_stream_respond_body(s, status, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(s, PFL_H2_REFUSED);
}

/* Heads before the answer, of which there may be any number, are none of the tunnel's. */
static void tell_response(struct pfl_h2_stream *s, const struct pfl_h2_head *head, unsigned status)
{
    if (status != 0 && status < 200)
        s->h2->err = PFL_EPROTO;
    else if (head->is_over || status == 0)
        pfl_h2_stream_reset(s, PFL_H2_PROTOCOL_ERROR);
    else if (s->ops->on_response != NULL)
        s->ops->on_response(s->user, head);
}

static void tell_request(struct pfl_h2 *h2, struct pfl_h2_stream *s, const struct pfl_h2_head *head)
{
    if (head->is_over) {
        refuse(s, 431);
        return;
    }
    h2->conf.on_request(h2->conf.user, s, head);
    if (s->ops == NULL && !s->is_responded)
        refuse(s, 404);
}

static void tell_head(struct pfl_h2 *h2, struct pfl_h2_stream *s)
{
    struct pfl_h2_head *head = s->head;

    s->head = NULL;
    if (!s->is_reset && s->is_own)
        tell_response(s, head, pfl_h2_head_get_status(head));
    else if (!s->is_reset && !s->is_responded &&
             s->ops == NULL) /* else trailing fields: nothing here has them */
        tell_request(h2, s, head);
    pfl_mem_free(head);
}

static void tell_end(struct pfl_h2_stream *s)
{
    s->has_peer_ended = true;
    if (!s->is_reset && s->ops != NULL)
        s->ops->on_end(s->user);
}

static int take_data_frame(struct pfl_h2 *h2, struct pfl_h2_stream *s, const nghttp2_frame *frame)
{
    bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    h2->empty_data = frame->hd.length == 0 && !is_end ? h2->empty_data + 1 : 0;
    if (h2->empty_data > PFL_H2_MAX_EMPTY_DATA) {
        h2->err = PFL_ELIMIT;
        return FATAL;
    }
    if (s == NULL)
        return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_PADDED) != 0)
        pfl_h2_stream_reset(s, PFL_H2_PROTOCOL_ERROR);
    if (is_end)
        tell_end(s);
    return 0;
}

static void take_headers_frame(struct pfl_h2 *h2, struct pfl_h2_stream *s,
                               const nghttp2_frame *frame)
{
    if (s == NULL)
        return;
    if (s->head != NULL)
        tell_head(h2, s);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        tell_end(s);
}

static void take_settings(struct pfl_h2 *h2, const nghttp2_frame *frame)
{
    if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 || h2->is_ready)
        return;
    h2->is_ready = true;
    if (h2->conf.on_ready != NULL)
        h2->conf.on_ready(h2->conf.user);
}

static int take_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct pfl_h2 *h2 = user;
    struct pfl_h2_stream *s = stream_of(h2, frame->hd.stream_id);

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        take_headers_frame(h2, s, frame);
        return h2->err == 0 ? 0 : FATAL;
    case NGHTTP2_DATA:
        return take_data_frame(h2, s, frame);
    case NGHTTP2_WINDOW_UPDATE:
        if (s != NULL && !s->is_reset && s->ops != NULL && s->ops->on_credit != NULL)
            s->ops->on_credit(s->user, (uint32_t)frame->window_update.window_size_increment);
        return 0;
    case NGHTTP2_SETTINGS:
        take_settings(h2, frame);
        return 0;
    case NGHTTP2_GOAWAY:
        h2->is_going = true;
        if (h2->conf.on_goaway != NULL)
            h2->conf.on_goaway(h2->conf.user);
        return 0;
    default:
        return 0;
    }
}

static int take_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                     size_t len, void *user)
{
    struct pfl_h2_stream *s = stream_of(user, id);

    (void)flags;
    if (s != NULL && !s->is_reset && s->ops != NULL)
        s->ops->on_data(s->user, pfl_span_of(data, len));
    return nghttp2_session_consume_connection(session, len) == 0 ? 0 : FATAL;
}

static int take_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct pfl_h2_stream *s = stream_of(user, id);

    (void)session;
    if (s != NULL)
        pfl_h2_stream_end(s, code);
    return 0;
}

/* ---- sending ---- */

static ssize_t give_body(struct pfl_h2_stream *s, uint8_t *dst, size_t room, uint32_t *flags)
{
    struct pfl_span body = pfl_buf_get(&s->body);
    size_t len = body.len < room ? body.len : room;

    if (len != 0)
        memcpy(dst, body.data, len);
    pfl_buf_consume(&s->body, len);
    if (s->body.len == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

static ssize_t give_data(nghttp2_session *session, int32_t id, uint8_t *dst, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct pfl_h2_stream *s = source->ptr;
    bool is_end = false;
    size_t len;

    (void)session;
    (void)id;
    (void)user;
    if (s->is_whole)
        return give_body(s, dst, room, flags);
    if (s->ops == NULL || s->ops->on_pull == NULL) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return 0;
    }
    len = s->is_reset ? 0 : s->ops->on_pull(s->user, dst, room, &is_end);
    assert(len <= room);
    if (is_end)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    else if (len == 0) {
        s->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)len;
}

/* A whole answer is given: what the peer might still send is not wanted. */
static int note_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct pfl_h2_stream *s = stream_of(user, frame->hd.stream_id);

    if (s == NULL || s->is_own || !s->is_whole || s->has_peer_ended || s->is_reset ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0 ||
        (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR) == 0
               ? 0
               : FATAL;
}

nghttp2_data_provider pfl_h2_source_of(struct pfl_h2_stream *s)
{
    return (nghttp2_data_provider){.source = {.ptr = s}, .read_callback = give_data};
}

void pfl_h2_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, take_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, take_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, take_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, note_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, take_close);
}
