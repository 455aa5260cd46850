/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's connection to the service, and the gate before it: see stream_impl.h.
 *
 * Happy path: the operator's bytes stay in the ring until the service's socket has taken them. With
 * a role the gate judges each whole frame first, one after the other. The service's bytes pass the
 * gate, too, into the pipe (stream_out_port.c). Credit follows the bytes that the socket took.
 * Failures: bytes that are not frames end the stream; if the service ends or breaks, the operator
 * still gets all bytes and then the end. Ownership: the stream's. Limits: the control window; a
 * gate's answers wait for room in the spool.
 */
#include "agent/daemon/stream/stream_impl.h"
#include "base/log.h"
#include "proto/gate/gate.h"

/* ---- the gate ---- */

/* The gate's: bytes that pass. After the service's end nothing comes any more. */
static int pass_to_operator(void *user, struct pfl_span bytes)
{
    struct pfl_agent_stream *s = user;

    return s->is_service_over ? 0 : pfl_agent_stream_out_write(s, bytes);
}

/* One frame was given to it, and passes as it is. */
static int pass_to_service(void *user, struct pfl_span bytes)
{
    struct pfl_agent_stream *s = user;

    (void)bytes;
    s->is_passed = true;
    return 0;
}

/* Nothing is decided in these, and they are many: a recording asks for statistics 70 times, for the
 * host's clock. */
static bool is_routine(enum pfl_method method)
{
    return method == PFL_METHOD_READ_BUFFERS || method == PFL_METHOD_QUERY_SERVICE_STATE ||
           method == PFL_METHOD_GET_TRACE_STATS;
}

static void on_judged(void *user, enum pfl_method method, const char *why)
{
    struct pfl_agent_stream *s = user;

    if (why == NULL && is_routine(method))
        return;
    pfl_events_tell_request(s->events,
                            &(struct pfl_request_event){.operator_name = s->facts.operator_name,
                                                        .stream = s->facts.id,
                                                        .method = pfl_method_name(method),
                                                        .why = why},
                            uv_now(s->loop));
    if (why != NULL)
        pfl_log_warn("request-refused", "operator=%s stream=%s method=%s reason=%s",
                     s->facts.operator_name, s->facts.id, pfl_method_name(method),
                     pfl_log_quote_str(why));
    else
        pfl_log_info("request", "operator=%s stream=%s method=%s", s->facts.operator_name,
                     s->facts.id, pfl_method_name(method));
}

static struct pfl_gate_conf get_gate_conf(struct pfl_agent_stream *s, struct pfl_span role)
{
    return (struct pfl_gate_conf){.role = role,
                                  .to_service = pass_to_service,
                                  .to_operator = pass_to_operator,
                                  .on_judged = on_judged,
                                  .user = s};
}

int pfl_agent_stream_service_judge(struct pfl_agent_stream *self, struct pfl_span role)
{
    struct pfl_gate_conf conf = get_gate_conf(self, role);

    return pfl_gate_new(&conf, &self->gate);
}

int pfl_agent_stream_service_judge_again(struct pfl_agent_stream *self)
{
    struct pfl_gate_conf conf = get_gate_conf(self, pfl_span_of(NULL, 0));

    return pfl_gate_restore(&conf, pfl_stream_memory_get_gate(self->memory), &self->gate);
}

/* ---- operator to service ---- */

static void send_credit(struct pfl_agent_stream *s)
{
    uint32_t credit = s->h2_stream != NULL ? pfl_resume_take_credit(&s->resume) : 0;

    if (credit != 0)
        pfl_h2_stream_credit(s->h2_stream, credit);
}

/* Sends of `data`, and notes it. What a service that is gone, or going, was sent is used up all the
 * same. */
static size_t send_noted(struct pfl_agent_stream *s, struct pfl_span data)
{
    size_t len = data.len;

    if (s->service != NULL && pfl_service_socket_send(s->service, data, s->writes, &len) != 0)
        len = data.len;
    else
        s->writes += s->service != NULL && len != 0;
    return len;
}

/* Without a role: as it comes. False: the service takes no more now. */
static bool deliver_bytes(struct pfl_agent_stream *s)
{
    struct pfl_span piece = pfl_resume_peek(&s->resume, PFL_AGENT_DELIVER_BYTES);
    size_t len = send_noted(s, piece);

    pfl_resume_use(&s->resume, len);
    pfl_agent_stream_publish(s);
    return len == piece.len;
}

/* Of the frame at the front, with its prefix; 0: it has not come yet, UINT32_MAX: it cannot come.
 */
static uint32_t find_frame(const struct pfl_agent_stream *s)
{
    const struct pfl_replay *in = &s->resume.in;
    size_t held = pfl_resume_held(&s->resume);
    uint64_t len = 0;

    if (held < PFL_FRAME_PREFIX_BYTES)
        return 0;
    for (unsigned i = PFL_FRAME_PREFIX_BYTES; i-- > 0;)
        len = len << 8 | pfl_replay_peek_at(in, in->base + i, 1).data[0];
    len += PFL_FRAME_PREFIX_BYTES;
    if (len > PFL_FRAME_MAX_BYTES)
        return UINT32_MAX;
    return len <= held ? (uint32_t)len : 0;
}

/* A permitted frame is kept as it was judged: the operator can no longer change it. */
static int judge_frame(struct pfl_agent_stream *s, uint32_t len)
{
    uint8_t *frame = pfl_stream_memory_get_frame(s->memory);
    const struct pfl_replay *in = &s->resume.in;
    int rc;

    if (len > PFL_FRAME_MAX_BYTES)
        return PFL_EPROTO;
    for (uint32_t at = 0; at < len;) {
        struct pfl_span piece = pfl_replay_peek_at(in, in->base + at, len - at);

        memcpy(frame + at, piece.data, piece.len);
        at += (uint32_t)piece.len;
    }
    s->is_passed = false;
    rc = pfl_gate_from_operator(s->gate, pfl_span_of(frame, len));
    if (rc != 0)
        return rc;
    pfl_resume_use(&s->resume, len);
    s->passing_bytes = s->is_passed ? len : 0;
    pfl_agent_stream_publish(s);
    pfl_agent_stream_wake(s); /* an answer of the gate's */
    return 0;
}

/* The rest of the frame that was let through. False: the service takes no more now. */
static bool deliver_frame(struct pfl_agent_stream *s)
{
    const uint8_t *frame = pfl_stream_memory_get_frame(s->memory);

    while (s->passing_bytes != 0) {
        size_t len =
            send_noted(s, pfl_span_of(frame + s->passed_bytes, s->passing_bytes - s->passed_bytes));

        if (len == 0)
            return false;
        s->passed_bytes += (uint32_t)len;
        if (s->passed_bytes == s->passing_bytes)
            s->passing_bytes = s->passed_bytes = 0;
        pfl_agent_stream_publish(s);
    }
    return true;
}

/* A gate's answers may not, while there are any, fill a spool that is full already. */
static bool may_judge(const struct pfl_agent_stream *s)
{
    return !s->is_service_held || s->is_service_over;
}

/* One frame, as far as it goes. Done: nothing more can be done now. */
static int deliver_judged(struct pfl_agent_stream *s, bool *ret_is_done)
{
    uint32_t len = s->passing_bytes == 0 && may_judge(s) ? find_frame(s) : 0;
    int rc = len != 0 ? judge_frame(s, len) : 0;

    if (rc == 0 && s->passing_bytes != 0)
        *ret_is_done = !deliver_frame(s);
    else
        *ret_is_done = len == 0;
    return rc;
}

static bool has_to_deliver(const struct pfl_agent_stream *s)
{
    return s->passing_bytes != 0 || pfl_resume_held(&s->resume) != 0;
}

/* With a role the rest may be part of a frame that never comes whole: it is used up. */
static bool is_all_delivered(struct pfl_agent_stream *s)
{
    if (s->gate != NULL && s->passing_bytes == 0 && find_frame(s) == 0)
        pfl_resume_use(&s->resume, pfl_resume_held(&s->resume));
    return !has_to_deliver(s);
}

/* For others at this host: a window of refused requests takes 0.1 s. */
static bool is_turn_over(const struct pfl_agent_stream *s, uint64_t since_ns)
{
    return s->gate != NULL && uv_hrtime() - since_ns >= PFL_AGENT_JUDGE_NS;
}

static void on_judge(uv_timer_t *timer)
{
    pfl_agent_stream_service_deliver(timer->data);
}

void pfl_agent_stream_service_deliver(struct pfl_agent_stream *self)
{
    uint64_t since_ns = uv_hrtime();
    bool is_done = false;

    if (uv_is_active((uv_handle_t *)&self->judge))
        return;
    while (!is_done && has_to_deliver(self)) {
        if (is_turn_over(self, since_ns)) {
            (void)uv_timer_start(&self->judge, on_judge, 1, 0);
            break;
        }
        if (self->gate == NULL) {
            is_done = !deliver_bytes(self);
        } else if (deliver_judged(self, &is_done) != 0) {
            pfl_log_warn("stream-broken",
                         "operator=%s stream=%s reason=\"what was sent is no frame "
                         "of the protocol, or its answers are not read\"",
                         self->facts.operator_name, self->facts.id);
            pfl_agent_stream_kill(self);
            return;
        }
    }
    send_credit(self);
    if (!self->resume.is_in_ended || self->is_end_passed_on || !is_all_delivered(self))
        return;
    self->is_end_passed_on = true;
    if (self->service != NULL)
        pfl_service_socket_shutdown(self->service);
}

/* ---- what the service says ---- */

/* With a gate it reads first; without, the pipe is read into at once. */
static int get_room(void *user, struct iovec *ret_pieces, uint64_t *ret_reads)
{
    struct pfl_agent_stream *s = user;

    *ret_reads = s->reads;
    if (s->is_dying)
        return 0;
    pfl_agent_stream_publish(s);
    if (s->gate == NULL)
        return (int)pfl_encode_port_get_room(s->encoder, PFL_STREAM_READ_BYTES, ret_pieces);
    ret_pieces[0] = (struct iovec){pfl_stream_memory_get_read(s->memory), PFL_STREAM_READ_BYTES};
    return 1;
}

void pfl_agent_stream_service_take(struct pfl_agent_stream *self, size_t len)
{
    int rc;

    self->reads++;
    if (self->gate != NULL)
        rc = pfl_gate_from_service(self->gate,
                                   pfl_span_of(pfl_stream_memory_get_read(self->memory), len));
    else
        rc = pfl_encode_port_wrote(self->encoder, len);
    if (rc != 0) {
        pfl_agent_stream_kill(self);
        return;
    }
    pfl_agent_stream_publish(self);
    pfl_agent_stream_out_pace(self);
    pfl_agent_stream_wake(self);
}

static void on_read(void *user, size_t len)
{
    pfl_agent_stream_service_take(user, len);
}

static void on_eof(void *user)
{
    pfl_agent_stream_out_end(user);
}

static void on_writable(void *user)
{
    struct pfl_agent_stream *s = user;

    if (!s->is_dying)
        pfl_agent_stream_service_deliver(s);
}

static const struct pfl_service_socket_ops service_ops = {
    .get_room = get_room,
    .on_read = on_read,
    .on_eof = on_eof,
    .on_writable = on_writable,
};

int pfl_agent_stream_service_open(struct pfl_agent_stream *self, int fd)
{
    struct pfl_service_socket_conf conf = {
        .loop = self->loop, .ops = &service_ops, .user = self, .memory = self->memory, .fd = fd};

    return pfl_service_socket_open(&conf, &self->service);
}

void pfl_agent_stream_service_close(struct pfl_agent_stream *self)
{
    pfl_service_socket_close(self->service);
    self->service = NULL;
}
