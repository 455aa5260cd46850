/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole answers: see h2_call.h.
 *
 * Happy path: status from the head, body collected and credited at once, on_done when the stream is
 * closed. Failures: too large a body resets the stream; a stream that closes before its end is
 * PFL_ECLOSED. Ownership: freed at the stream's end. Limits: body_max_bytes.
 */
#include "proto/h2/h2_call.h"

#include "base/mem.h"

struct pfl_h2_call {
    struct pfl_h2_stream *stream; /* borrowed until its on_closed */
    struct pfl_buf body;
    unsigned status;
    int err;
    bool has_ended;
    void (*on_done)(void *user, int err, unsigned status, struct pfl_span body);
    void *user;
};

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct pfl_h2_call *c = user;

    c->status = pfl_h2_head_get_status(head);
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_h2_call *c = user;

    if (c->err == 0)
        c->err = pfl_buf_append(&c->body, data.data, data.len);
    if (c->err != 0)
        pfl_h2_stream_reset(c->stream, PFL_H2_CANCEL);
    else
        pfl_h2_stream_credit(c->stream, (uint32_t)data.len);
}

static void on_end(void *user)
{
    struct pfl_h2_call *c = user;

    c->has_ended = true;
}

static void on_closed(void *user, uint32_t code)
{
    struct pfl_h2_call *c = user;

    (void)code;
    if (c->err == 0 && (!c->has_ended || c->status == 0))
        c->err = PFL_ECLOSED;
    if (c->on_done != NULL && c->err != 0)
        c->on_done(c->user, c->err, 0, pfl_span_of(NULL, 0));
    else if (c->on_done != NULL)
        c->on_done(c->user, 0, c->status, pfl_buf_get(&c->body));
    pfl_buf_fini(&c->body);
    pfl_mem_free(c);
}

static const struct pfl_h2_stream_ops ops = {
    .on_response = on_response,
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
};

int pfl_h2_call_start(struct pfl_h2 *h2, const struct pfl_h2_call_conf *conf,
                      struct pfl_h2_call **ret_call)
{
    struct pfl_h2_call *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_h2_request request = {
        .method = conf->method,
        .path = conf->path,
        .fields = conf->fields,
        .fields_len = conf->fields_len,
        .ops = &ops,
        .user = c,
    };
    int rc;

    if (c == NULL)
        return PFL_ENOMEM;
    c->on_done = conf->on_done;
    c->user = conf->user;
    pfl_buf_init(&c->body, conf->body_max_bytes);
    rc = pfl_h2_request(h2, &request, &c->stream);
    if (rc != 0) {
        pfl_mem_free(c);
        return rc;
    }
    if (ret_call != NULL)
        *ret_call = c;
    return 0;
}

void pfl_h2_call_cancel(struct pfl_h2_call *self)
{
    pfl_h2_stream_reset(self->stream, PFL_H2_CANCEL);
}
