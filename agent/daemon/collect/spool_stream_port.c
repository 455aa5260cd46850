/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector's stream: see spool_stream_port.h.
 *
 * Happy path: a frame is a request; each is answered when the disk has done it. A read is answered
 * in parts; the next part is read when the peer has taken the ones before. Failures: a request that
 * makes no sense is answered 400, too many 429; a frame that is none, or answers that nobody takes,
 * end the stream. Ownership: a stream until its HTTP/2 stream closes; requests until they are
 * answered. Limits: those of the header.
 */
#include "agent/daemon/collect/spool_stream_port.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/shares.h"
#include "perfleet/spool.fields.h"
#include "proto/gate/role.h"
#include "proto/ipc/frame.h"
#include "proto/tunnel/tunnel.h"
#include "proto/unpack.h"

struct stream {
    struct pfl_list node;
    struct pfl_spool_streams *streams;
    struct pfl_h2_stream *h2_stream; /* borrowed until its on_closed */
    struct pfl_frame_reader reader;
    struct pfl_buf out;
    struct pfl_list requests;
    unsigned requests_len;
    bool is_ended; /* the peer sends no more */
    bool is_broken;
    bool is_for_orderer;
    char collector[PFL_IDENTITY_NAME_BYTES];
    char operator_name[PFL_IDENTITY_NAME_BYTES];
    struct pfl_buf role;
};

/* One that the disk is at work on, or that waits until the peer takes data. */
struct request {
    struct pfl_list node;
    struct stream *stream;
    struct pfl_segments_op *op;  /* NULL: none now */
    struct pfl_order_keep *keep; /* of an order that is put; else NULL */
    uint32_t id;
    bool is_read;
    struct pfl_segment_entry what;
    uint64_t offset;
    uint64_t left;
};

static void reset_stream(struct stream *s, enum pfl_h2_code code)
{
    if (s->is_broken)
        return;
    s->is_broken = true;
    pfl_h2_stream_reset(s->h2_stream, code);
}

/* ---- answers ---- */

static void send_reply(struct stream *s, const Perfleet__SpoolReply *reply)
{
    if (pfl_frame_write(&reply->base, &s->out) != 0)
        reset_stream(s, PFL_H2_CALM);
    else
        pfl_h2_stream_wake(s->h2_stream);
}

static void answer(struct stream *s, uint32_t id, unsigned status, const char *why)
{
    Perfleet__SpoolReply reply = PERFLEET__SPOOL_REPLY__INIT;
    char text[PFL_ORDER_REASON_BYTES];

    (void)snprintf(text, sizeof(text), "%s", why);
    reply.has_id = reply.has_status = 1;
    reply.id = id;
    reply.status = status;
    if (text[0] != '\0')
        reply.why = text;
    send_reply(s, &reply);
}

static void answer_code(struct stream *s, uint32_t id, int rc, const char *why)
{
    switch (rc) {
    case 0:
        answer(s, id, 0, "");
        return;
    case PFL_ENOENT:
        answer(s, id, 404, why[0] != '\0' ? why : "there is no such segment");
        return;
    case PFL_ESTATE:
        answer(s, id, 409, "it is not what was read");
        return;
    case PFL_EPERM:
        answer(s, id, 403, why);
        return;
    case PFL_ELIMIT:
        answer(s, id, 429, why);
        return;
    case PFL_EINVAL:
        answer(s, id, 400, why);
        return;
    case PFL_EIO:
        answer(s, id, 507, why[0] != '\0' ? why : "the host's disk fails");
        return;
    default:
        answer(s, id, 503, "the host's agent is out of memory");
        return;
    }
}

/* ---- requests to the disk ---- */

static void end_request(struct request *r)
{
    if (r->op != NULL)
        pfl_segments_cancel(r->op);
    if (r->keep != NULL)
        pfl_order_keep_cancel(r->keep);
    pfl_list_remove(&r->node);
    r->stream->requests_len--;
    pfl_mem_free(r);
}

static struct request *add_request(struct stream *s, uint32_t id)
{
    struct request *r = pfl_mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->stream = s;
    r->id = id;
    s->requests_len++;
    pfl_list_append(&s->requests, &r->node);
    return r;
}

/* Notes are messages already: they go into the reply as they are. */
static int encode_list(const struct request *request, const struct pfl_segments_result *result,
                       struct pfl_buf *out)
{
    struct pfl_message m = pfl_message_of(out);
    struct pfl_reader r = pfl_reader_of(result->bytes);

    pfl_message_varint(&m, SPOOL_REPLY__ID, request->id);
    pfl_message_varint(&m, SPOOL_REPLY__STATUS, 0);
    if (result->has_more)
        pfl_message_varint(&m, SPOOL_REPLY__HAS_MORE, 1);
    while (r.left > 0)
        pfl_message_bytes(&m, SPOOL_REPLY__SEGMENT, pfl_reader_bytes(&r, pfl_reader_u32(&r)));
    return m.rc;
}

static void send_raw(struct stream *s, const struct pfl_buf *message)
{
    uint8_t prefix[PFL_FRAME_PREFIX_BYTES];
    struct pfl_writer w = pfl_writer_of(prefix, sizeof(prefix));

    pfl_writer_u32(&w, (uint32_t)message->len);
    if (pfl_buf_append(&s->out, prefix, sizeof(prefix)) != 0 ||
        pfl_buf_append(&s->out, pfl_buf_get(message).data, message->len) != 0)
        reset_stream(s, PFL_H2_CALM);
    else
        pfl_h2_stream_wake(s->h2_stream);
}

static void on_listed(void *user, const struct pfl_segments_result *result)
{
    struct request *r = user;
    struct stream *s = r->stream;
    struct pfl_buf message;

    r->op = NULL;
    pfl_buf_init(&message, PFL_FRAME_LARGE_MAX_BYTES);
    if (result->rc != 0)
        answer_code(s, r->id, result->rc, "");
    else if (encode_list(r, result, &message) != 0)
        answer_code(s, r->id, PFL_ENOMEM, "");
    else
        send_raw(s, &message);
    pfl_buf_fini(&message);
    end_request(r);
}

static void on_released(void *user, const struct pfl_segments_result *result)
{
    struct request *r = user;

    r->op = NULL;
    answer_code(r->stream, r->id, result->rc, "");
    end_request(r);
}

static void read_on(struct request *r);

static void on_read(void *user, const struct pfl_segments_result *result)
{
    struct request *r = user;
    struct stream *s = r->stream;
    Perfleet__SpoolReply reply = PERFLEET__SPOOL_REPLY__INIT;

    r->op = NULL;
    if (result->rc != 0) {
        answer_code(s, r->id, result->rc, "");
        end_request(r);
        return;
    }
    r->offset += result->bytes.len;
    r->left -= result->bytes.len < r->left ? result->bytes.len : r->left;
    if (result->bytes.len == 0)
        r->left = 0; /* its end */
    reply.has_id = reply.has_status = reply.has_has_more = reply.has_data = 1;
    reply.id = r->id;
    reply.has_more = r->left != 0;
    reply.data.len = result->bytes.len;
    memcpy(&reply.data.data, &result->bytes.data, sizeof(reply.data.data));
    send_reply(s, &reply);
    if (r->left == 0)
        end_request(r);
    else
        read_on(r);
}

/* The next part, unless the peer has to take what there is. */
static void read_on(struct request *r)
{
    struct stream *s = r->stream;
    struct pfl_segments_request ask = {
        .collector = s->collector,
        .what = r->what,
        .offset = r->offset,
        .len = r->left < PFL_SEGMENTS_READ_BYTES ? (size_t)r->left : PFL_SEGMENTS_READ_BYTES,
        .done = on_read,
        .user = r};

    if (s->out.len >= PFL_SPOOL_READ_AHEAD || s->is_broken || r->op != NULL)
        return;
    if (pfl_segments_read(s->streams->segments, &ask, &r->op) == 0)
        return;
    r->op = NULL;
    answer_code(s, r->id, PFL_ENOMEM, "");
    end_request(r);
}

static bool copy_id(const char *text_untrusted, struct pfl_segment_entry *what)
{
    if (text_untrusted == NULL || !pfl_segment_is_id(text_untrusted))
        return false;
    memcpy(what->id, text_untrusted, sizeof(what->id));
    return true;
}

static void list_segments(struct stream *s, uint32_t id,
                          const Perfleet__SpoolRequest__ListSegments *q)
{
    struct pfl_segments_request ask = {
        .collector = s->collector, .is_newest_first = q->newest_first, .done = on_listed};
    struct request *r;

    ask.what.number = q->after_number;
    if (q->after_incarnation != NULL && q->after_incarnation[0] != '\0' &&
        !copy_id(q->after_incarnation, &ask.what)) {
        answer(s, id, 400, "after_incarnation is none");
        return;
    }
    r = add_request(s, id);
    ask.user = r;
    if (r != NULL && pfl_segments_list(s->streams->segments, &ask, &r->op) == 0)
        return;
    if (r != NULL) {
        r->op = NULL;
        end_request(r);
    }
    answer_code(s, id, PFL_ENOMEM, "");
}

static void read_segment(struct stream *s, uint32_t id,
                         const Perfleet__SpoolRequest__ReadSegment *q)
{
    struct request *r = add_request(s, id);

    if (r == NULL) {
        answer_code(s, id, PFL_ENOMEM, "");
        return;
    }
    r->is_read = true;
    r->what.number = q->number;
    r->offset = q->offset;
    r->left = q->has_length && q->length != 0 ? q->length : UINT64_MAX;
    if (copy_id(q->incarnation, &r->what) && q->number != 0) {
        read_on(r);
        return;
    }
    answer(s, id, 400, "no incarnation and number");
    end_request(r);
}

static void release_segment(struct stream *s, uint32_t id,
                            const Perfleet__SpoolRequest__ReleaseSegment *q)
{
    struct pfl_segments_request ask = {.collector = s->collector, .done = on_released};
    bool is_gap = q->gap_last != 0;
    struct request *r;

    ask.what.number = q->number;
    ask.what.last = is_gap ? q->gap_last : q->number;
    ask.what.is_gap = is_gap;
    if (!copy_id(q->incarnation, &ask.what) ||
        (!is_gap && q->sha256.len != sizeof(ask.what.sha256))) {
        answer(s, id, 400, "a release has incarnation, number, and sha256 or gap_last");
        return;
    }
    if (!is_gap)
        memcpy(ask.what.sha256, q->sha256.data, sizeof(ask.what.sha256));
    r = add_request(s, id);
    ask.user = r;
    if (r != NULL && pfl_segments_release(s->streams->segments, &ask, &r->op) == 0)
        return;
    if (r != NULL) {
        r->op = NULL;
        end_request(r);
    }
    answer_code(s, id, PFL_ENOMEM, "");
}

/* ---- orders ---- */

static int copy_text(const char *text, char **ret_copy)
{
    *ret_copy = pfl_mem_strdup(text);
    return *ret_copy != NULL ? 0 : PFL_ENOMEM;
}

/* Who ordered, and what that one may, is what the relay says: nothing of it is the message's. */
static int set_orderer(const struct stream *s, Perfleet__HostOrder *order)
{
    struct pfl_span role = pfl_buf_get(&s->role);

    pfl_mem_free(order->orderer);
    pfl_mem_free(order->collector);
    pfl_mem_free(order->role.data);
    order->orderer = order->collector = NULL;
    order->role.data = NULL;
    order->role.len = 0;
    order->has_begun_unix_ms = order->has_is_done = 0;
    order->begun_unix_ms = 0;
    order->is_done = 0;
    order->has_role = role.len != 0;
    if (role.len != 0) {
        order->role.data = pfl_mem_memdup(role.data, role.len);
        if (order->role.data == NULL)
            return PFL_ENOMEM;
        order->role.len = role.len;
    }
    return copy_text(s->operator_name, &order->orderer) != 0 ||
                   copy_text(s->collector, &order->collector) != 0
               ? PFL_ENOMEM
               : 0;
}

static void on_order_kept(void *user, int rc, const char *why)
{
    struct request *r = user;

    r->keep = NULL;
    answer_code(r->stream, r->id, rc, why);
    end_request(r);
}

/* Takes `order`. */
static int submit_order(struct request *r, Perfleet__HostOrder *order, char *ret_why)
{
    struct pfl_order_answer answer = {.done = on_order_kept, .user = r};

    return pfl_orders_put(r->stream->streams->orders, order, &answer, ret_why, &r->keep);
}

static void put_order(struct stream *s, uint32_t id, Perfleet__SpoolRequest *request)
{
    char why[PFL_ORDER_REASON_BYTES] = "";
    Perfleet__HostOrder *order = request->put_order;
    struct request *r;
    int rc;

    if (!s->is_for_orderer) {
        answer(s, id, 403, "this stream is for no orderer (perfleet-for): it takes no orders");
        return;
    }
    r = add_request(s, id);
    rc = r != NULL ? set_orderer(s, order) : PFL_ENOMEM;
    if (rc == 0) {
        request->put_order = NULL;
        rc = submit_order(r, order, why);
    }
    if (rc == 0)
        return;
    answer_code(s, id, rc, why);
    if (r != NULL)
        end_request(r);
}

static void remove_order(struct stream *s, uint32_t id, const Perfleet__SpoolRequest__OrderName *q)
{
    const char *orderer =
        q->orderer != NULL && q->orderer[0] != '\0' ? q->orderer : s->operator_name;
    bool may =
        strcmp(orderer, s->operator_name) == 0 || strcmp(s->operator_name, s->collector) == 0;
    int rc = PFL_EPERM;

    if (q->name == NULL)
        rc = PFL_EINVAL;
    else if (may)
        rc = pfl_orders_remove(s->streams->orders, s->collector, orderer, q->name);
    answer_code(s, id, rc,
                rc == PFL_ENOENT   ? "there is no such order"
                : rc == PFL_EINVAL ? "the order has no name"
                : rc == PFL_EPERM  ? "it is another's order"
                                   : "");
}

static int add_state(void *user, const Perfleet__HostOrderState *state)
{
    struct pfl_message *m = user;
    struct pfl_buf one;

    pfl_buf_init(&one, 4096);
    if (pfl_proto_pack(&state->base, &one) == 0)
        pfl_message_bytes(m, SPOOL_REPLY__ORDER, pfl_buf_get(&one));
    else
        m->rc = PFL_ENOMEM;
    pfl_buf_fini(&one);
    return m->rc;
}

static void list_orders(struct stream *s, uint32_t id)
{
    struct pfl_buf message;
    struct pfl_message m = pfl_message_of(&message);

    pfl_buf_init(&message, PFL_FRAME_LARGE_MAX_BYTES);
    pfl_message_varint(&m, SPOOL_REPLY__ID, id);
    pfl_message_varint(&m, SPOOL_REPLY__STATUS, 0);
    if (pfl_orders_each(s->streams->orders, s->collector, add_state, &m) == 0 && m.rc == 0)
        send_raw(s, &message);
    else
        answer_code(s, id, PFL_ENOMEM, "");
    pfl_buf_fini(&message);
}

/* ---- frames ---- */

static void route(struct stream *s, Perfleet__SpoolRequest *q)
{
    if (s->streams->segments == NULL || s->streams->orders == NULL)
        answer(s, q->id, 503,
               "this host keeps no segments: its agent has no folder for them (segments_dir)");
    else if (s->requests_len >= PFL_SPOOL_REQUESTS_MAX)
        answer(s, q->id, 429, "too many requests are under way");
    else if (q->put_order != NULL)
        put_order(s, q->id, q);
    else if (q->remove_order != NULL)
        remove_order(s, q->id, q->remove_order);
    else if (q->list_orders != NULL)
        list_orders(s, q->id);
    else if (q->list_segments != NULL)
        list_segments(s, q->id, q->list_segments);
    else if (q->read_segment != NULL)
        read_segment(s, q->id, q->read_segment);
    else if (q->release_segment != NULL)
        release_segment(s, q->id, q->release_segment);
    else
        answer(s, q->id, 400, "the host's agent does not know this request");
}

static int on_frame(void *user, struct pfl_span payload)
{
    struct stream *s = user;
    ProtobufCMessage *message;
    int rc = pfl_proto_unpack(&perfleet__spool_request__descriptor, payload, &message);

    if (rc != 0)
        return rc;
    route(s, (Perfleet__SpoolRequest *)message);
    pfl_proto_free(message);
    return s->is_broken ? PFL_ELIMIT : 0;
}

static void on_data(void *user, struct pfl_span data)
{
    struct stream *s = user;

    pfl_h2_stream_credit(s->h2_stream, (uint32_t)data.len);
    if (!s->is_broken && pfl_frame_reader_feed(&s->reader, data, on_frame, s) != 0)
        reset_stream(s, PFL_H2_PROTOCOL_ERROR);
}

static void on_end(void *user)
{
    struct stream *s = user;

    s->is_ended = true;
    pfl_h2_stream_wake(s->h2_stream);
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct stream *s = user;
    size_t len = s->out.len < room ? s->out.len : room;
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (len != 0)
        memcpy(dst, pfl_buf_get(&s->out).data, len);
    pfl_buf_consume(&s->out, len);
    PFL_LIST_EACH_SAFE (it, tmp, &s->requests) {
        struct request *r = PFL_CONTAINER_OF(it, struct request, node);

        if (r->is_read)
            read_on(r);
    }
    *ret_is_end = s->is_ended && s->requests_len == 0 && s->out.len == 0;
    return len;
}

static void on_closed(void *user, uint32_t code)
{
    struct stream *s = user;
    struct pfl_list *it;
    struct pfl_list *tmp;

    (void)code;
    PFL_LIST_EACH_SAFE (it, tmp, &s->requests)
        end_request(PFL_CONTAINER_OF(it, struct request, node));
    pfl_list_remove(&s->node);
    s->streams->len--;
    pfl_frame_reader_fini(&s->reader);
    pfl_buf_fini(&s->out);
    pfl_buf_fini(&s->role);
    pfl_mem_free(s);
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_pull = on_pull,
    .on_closed = on_closed,
};

/* ---- streams ---- */

void pfl_spool_streams_init(struct pfl_spool_streams *self)
{
    *self = (struct pfl_spool_streams){.len = 0};
    pfl_list_init(&self->list);
}

/* With a role, its name says that it is kept: a relay takes no other answer. */
static int respond(const struct stream *s)
{
    char role[PFL_ROLE_PATTERN_MAX + 1];
    struct pfl_h2_field field = {PFL_TUNNEL_H_ROLE, role};

    if (s->role.len == 0)
        return pfl_h2_stream_respond(s->h2_stream, 200, NULL, 0);
    pfl_role_copy_name(pfl_buf_get(&s->role), role);
    return pfl_h2_stream_respond(s->h2_stream, 200, &field, 1);
}

/* A collector leaves as many to all others as it has. */
static bool may_have_one(const struct pfl_spool_streams *self, const char *collector)
{
    const struct pfl_list *it;
    uint64_t own = 0;

    PFL_LIST_EACH (it, &self->list)
        own += strcmp(PFL_CONTAINER_OF(it, struct stream, node)->collector, collector) == 0;
    return pfl_shares_allow(PFL_SPOOL_STREAMS_MAX, self->len, own, 1);
}

int pfl_spool_streams_add(struct pfl_spool_streams *self, struct pfl_h2_stream *h2_stream,
                          const struct pfl_collect_stream_conf *conf)
{
    struct stream *s;
    int rc;

    if (!may_have_one(self, conf->collector))
        return PFL_ELIMIT;
    s = pfl_mem_zalloc(sizeof(*s));
    if (s == NULL)
        return PFL_ENOMEM;
    s->streams = self;
    s->h2_stream = h2_stream;
    s->is_for_orderer = conf->is_for_orderer;
    (void)snprintf(s->collector, sizeof(s->collector), "%s", conf->collector);
    (void)snprintf(s->operator_name, sizeof(s->operator_name), "%s", conf->operator_name);
    pfl_list_init(&s->requests);
    pfl_frame_reader_init_large(&s->reader);
    pfl_buf_init(&s->out, PFL_SPOOL_OUT_BYTES);
    pfl_buf_init(&s->role, conf->role.len + 1);
    rc = pfl_buf_append(&s->role, conf->role.data, conf->role.len);
    pfl_h2_stream_set_user(h2_stream, &ops, s);
    if (rc == 0)
        rc = respond(s);
    if (rc != 0) {
        pfl_h2_stream_set_user(h2_stream, NULL, NULL);
        pfl_buf_fini(&s->role);
        pfl_mem_free(s);
        return PFL_ENOMEM;
    }
    pfl_list_append(&self->list, &s->node);
    self->len++;
    return 0;
}

void pfl_spool_streams_end(struct pfl_spool_streams *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    self->segments = NULL;
    self->orders = NULL;
    PFL_LIST_EACH (it, &self->list) {
        struct stream *s = PFL_CONTAINER_OF(it, struct stream, node);
        struct pfl_list *request;

        PFL_LIST_EACH_SAFE (request, tmp, &s->requests)
            end_request(PFL_CONTAINER_OF(request, struct request, node));
        reset_stream(s, PFL_H2_DETACH);
    }
}
