/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's connection to the service, and the gate before it: see stream_impl.h.
 *
 * Happy path: what the operator sent is judged by the gate, when he has a role, and written to the
 * service; what the service says goes to stream_out_port.c, through the gate likewise; credit
 * follows what was passed on. Failures: bytes that are no frames end the stream; a service that
 * ends, or breaks, is an end that the operator still gets in order. Ownership: the stream's.
 * Limits: PFL_AGENT_SERVICE_QUEUE_BYTES; a gate's answers wait for room in the spool.
 */
#include <unistd.h>

#include "agent/stream_impl.h"
#include "base/io/fdsock.h"
#include "base/log.h"

/* ---- the gate ---- */

/* The gate's, when there is one: bytes that pass. After the service's end nothing comes any more.
 */
static int pass_to_operator(void *user, struct pfl_span bytes)
{
    struct pfl_agent_stream *s = user;
    int rc = s->is_service_over ? 0 : pfl_agent_stream_out_write(s, bytes);

    pfl_agent_stream_wake(s);
    return rc;
}

static int pass_to_service(void *user, struct pfl_span bytes)
{
    struct pfl_agent_stream *s = user;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes.data, .iov_len = bytes.len};

    /* What a service that is gone, or going, was sent is used up all the same. */
    if (s->service != NULL)
        (void)!pfl_stream_writev(s->service, &iov, 1, -1);
    return 0;
}

/* Read-outs are many, and nothing is decided in them. */
static void on_judged(void *user, enum pfl_method method, const char *why)
{
    struct pfl_agent_stream *s = user;

    if (why == NULL && method == PFL_METHOD_READ_BUFFERS)
        return;
    pfl_events_tell_request(s->events, s->operator_name, s->id, pfl_method_name(method), why);
    if (why != NULL)
        pfl_log_warn("request-refused", "operator=%s stream=%s method=%s reason=%s",
                     s->operator_name, s->id, pfl_method_name(method), pfl_log_quote_str(why));
    else
        pfl_log_info("request", "operator=%s stream=%s method=%s", s->operator_name, s->id,
                     pfl_method_name(method));
}

static int make_gate(struct pfl_agent_stream *s, struct pfl_span role)
{
    struct pfl_gate_conf conf = {.role = role,
                                 .to_service = pass_to_service,
                                 .to_operator = pass_to_operator,
                                 .on_judged = on_judged,
                                 .user = s};

    return pfl_gate_new(&conf, &s->gate);
}

/* ---- operator to service ---- */

static void send_credit(struct pfl_agent_stream *s)
{
    uint32_t credit = s->leg != NULL ? pfl_resume_take_credit(&s->resume) : 0;

    if (credit != 0)
        pfl_h2_stream_credit(s->leg, credit);
}

/* Nor may a gate's answers, while there are any, fill a spool that is full already. */
static bool is_service_willing(const struct pfl_agent_stream *s)
{
    if (s->gate != NULL && s->is_service_held && !s->is_service_over)
        return false;
    return s->service == NULL ||
           pfl_stream_queued_bytes(s->service) < PFL_AGENT_SERVICE_QUEUE_BYTES;
}

void pfl_agent_stream_service_deliver(struct pfl_agent_stream *self)
{
    while (pfl_resume_held(&self->resume) != 0 && is_service_willing(self)) {
        struct pfl_span piece = pfl_resume_peek(&self->resume, PFL_AGENT_DELIVER_BYTES);

        if ((self->gate != NULL ? pfl_gate_from_operator(self->gate, piece)
                                : pass_to_service(self, piece)) != 0) {
            pfl_log_warn("stream-broken",
                         "operator=%s stream=%s reason=\"what was sent is no frame "
                         "of the protocol, or its answers are not read\"",
                         self->operator_name, self->id);
            pfl_agent_stream_kill(self);
            return;
        }
        pfl_resume_use(&self->resume, piece.len);
    }
    send_credit(self);
    if (!self->resume.is_in_ended || pfl_resume_held(&self->resume) != 0 || self->is_service_told)
        return;
    self->is_service_told = true;
    if (self->service != NULL)
        pfl_stream_shutdown(self->service);
}

/* ---- what the service says ---- */

static void on_service_data(void *user, struct pfl_span data)
{
    struct pfl_agent_stream *s = user;

    if (s->is_dying)
        return;
    if ((s->gate != NULL ? pfl_gate_from_service(s->gate, data)
                         : pfl_agent_stream_out_write(s, data)) != 0) {
        pfl_agent_stream_kill(s);
        return;
    }
    pfl_agent_stream_out_pace(s);
    pfl_agent_stream_wake(s);
}

static void on_service_eof(void *user)
{
    pfl_agent_stream_out_end(user);
}

static void on_service_closed(void *user, int err)
{
    struct pfl_agent_stream *s = user;

    (void)err;
    s->service = NULL;
    if (s->is_dying)
        pfl_agent_stream_finish(s);
    else
        pfl_agent_stream_out_end(s);
}

static void on_service_writable(void *user)
{
    struct pfl_agent_stream *s = user;

    if (!s->is_dying)
        pfl_agent_stream_service_deliver(s);
}

static const struct pfl_stream_ops service_ops = {
    .on_data = on_service_data,
    .on_eof = on_service_eof,
    .on_writable = on_service_writable,
    .on_closed = on_service_closed,
};

/* ---- opening ---- */

static int connect_service(struct pfl_agent_stream *s, const char *path)
{
    struct pfl_stream_conf conf = {
        .loop = s->loop,
        .ops = &service_ops,
        .user = s,
        .queue_max_bytes =
            PFL_AGENT_SERVICE_QUEUE_BYTES + PFL_AGENT_DELIVER_BYTES + PFL_FRAME_MAX_BYTES,
        .queue_low_bytes = PFL_AGENT_SERVICE_QUEUE_BYTES / 4,
    };
    int fd;
    int rc = pfl_fdsock_connect_unix(path, &fd);

    if (rc != 0)
        return rc;
    rc = pfl_fdsock_open(&conf, fd, &s->service);
    if (rc != 0)
        close(fd);
    return rc;
}

int pfl_agent_stream_service_open(struct pfl_agent_stream *self,
                                  const struct pfl_agent_stream_conf *conf)
{
    int rc = conf->role.len != 0 ? make_gate(self, conf->role) : 0;

    return rc == 0 ? connect_service(self, conf->consumer_socket) : rc;
}
