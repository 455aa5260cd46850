/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: see gate.h.
 *
 * Happy path: a bind of ConsumerPort passes; the service's answer assigns a number to each method;
 * then a request is looked up, judged and passed on. Failures: a refused request is answered here
 * in its method's form, and never reaches the service. Requests before the bind's answer, or with
 * unknown numbers, are refused. Bytes that are not frames break the stream. Ownership: partial
 * frames, the role, and permitted requests that still run. Limits: one frame each way,
 * PFL_GATE_WAITING_MAX_BYTES, those of gate_impl.h.
 */
#include <stdio.h>

#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/ipc.fields.h"
#include "perfetto/ipc.pb-c.h"
#include "proto/gate/gate_impl.h"
#include "proto/gate/role.h"
#include "proto/gate/strict.h"

#define SERVICE_NAME "ConsumerPort"

struct request {
    uint64_t id;
    enum pfl_method method;
    struct pfl_span args;
    bool drop_reply;
    struct pfl_span frame; /* with its prefix */
};

/* ---- answers of ours ---- */

static bool is_between_frames(const struct pfl_gate *g)
{
    return g->prefix_len == 0;
}

static int send_waiting(struct pfl_gate *g)
{
    int rc = 0;

    if (g->waiting.len != 0)
        rc = g->conf.to_operator(g->conf.user, pfl_buf_get(&g->waiting));
    pfl_buf_clear(&g->waiting);
    return rc;
}

/* `w` has written the message of an answer to `payload`. */
static int answer(struct pfl_gate *g, uint64_t request_id, uint32_t kind, struct pfl_span message)
{
    uint8_t frame[PFL_GATE_ANSWER_BYTES + 32];
    struct pfl_writer w =
        pfl_writer_of(frame + PFL_FRAME_PREFIX_BYTES, sizeof(frame) - PFL_FRAME_PREFIX_BYTES);
    struct pfl_writer prefix = pfl_writer_of(frame, PFL_FRAME_PREFIX_BYTES);
    size_t len;
    int rc;

    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, request_id);
    pfl_writer_field_bytes(&w, kind, message.data, message.len);
    len = sizeof(frame) - PFL_FRAME_PREFIX_BYTES - w.left;
    pfl_writer_u32(&prefix, (uint32_t)len);
    rc = pfl_buf_append(&g->waiting, frame, PFL_FRAME_PREFIX_BYTES + len);
    return rc == 0 && is_between_frames(g) ? send_waiting(g) : rc;
}

/* The body by which a method's callers learn a reason; 0: it has none. */
static size_t write_body(enum pfl_method method, const char *why, uint8_t *dst, size_t room)
{
    struct pfl_writer w = pfl_writer_of(dst, room);

    if (method == PFL_METHOD_ENABLE_TRACING) {
        pfl_writer_field_varint(&w, ENABLE_TRACING_RESPONSE__DISABLED, 1);
        pfl_writer_field_bytes(&w, ENABLE_TRACING_RESPONSE__ERROR, why, strlen(why));
    } else if (method == PFL_METHOD_CLONE_SESSION ||
               method == PFL_METHOD_SAVE_TRACE_FOR_BUGREPORT) {
        /* SaveTraceForBugreportResponse has the same two fields. */
        pfl_writer_field_varint(&w, CLONE_SESSION_RESPONSE__SUCCESS, 0);
        pfl_writer_field_bytes(&w, CLONE_SESSION_RESPONSE__ERROR, why, strlen(why));
    }
    return room - w.left;
}

static int answer_refused(struct pfl_gate *g, const struct request *r, const char *why)
{
    uint8_t body[PFL_JUDGE_WHY_BYTES + 16];
    uint8_t message[PFL_GATE_ANSWER_BYTES];
    struct pfl_writer w = pfl_writer_of(message, sizeof(message));
    size_t body_len = write_body(r->method, why, body, sizeof(body));

    if (r->drop_reply)
        return 0;
    pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD_REPLY__SUCCESS, body_len != 0);
    if (body_len != 0)
        pfl_writer_field_bytes(&w, IPC_FRAME__INVOKE_METHOD_REPLY__REPLY_PROTO, body, body_len);
    else
        pfl_writer_field_bytes(&w, IPC_FRAME__INVOKE_METHOD_REPLY__PERFLEET_WHY, why, strlen(why));
    return answer(g, r->id, IPC_FRAME__MSG_INVOKE_METHOD_REPLY,
                  pfl_span_of(message, sizeof(message) - w.left));
}

/* For a frame that is not a request. */
static int answer_error(struct pfl_gate *g, uint64_t request_id, const char *why)
{
    uint8_t message[PFL_GATE_ANSWER_BYTES];
    struct pfl_writer w = pfl_writer_of(message, sizeof(message));

    if (g->conf.on_judged != NULL)
        g->conf.on_judged(g->conf.user, PFL_METHOD_UNKNOWN, why);
    pfl_writer_field_bytes(&w, IPC_FRAME__REQUEST_ERROR__ERROR, why, strlen(why));
    return answer(g, request_id, IPC_FRAME__MSG_REQUEST_ERROR,
                  pfl_span_of(message, sizeof(message) - w.left));
}

/* ---- the operator's frames ---- */

static void forget_held(struct pfl_gate *g)
{
    for (unsigned i = 0; i < g->held_len; i++)
        pfl_buf_fini(&g->held[i].args);
    g->held_len = 0;
    g->version++;
}

bool pfl_gate_is_to_be_held(enum pfl_method method)
{
    return method == PFL_METHOD_ENABLE_TRACING || method == PFL_METHOD_ATTACH ||
           method == PFL_METHOD_CLONE_SESSION;
}

static bool has_room(const struct pfl_gate *g, const struct request *r, char *ret_why)
{
    if (!pfl_gate_is_to_be_held(r->method) || g->held_len < PFL_GATE_HELD_MAX)
        return true;
    (void)snprintf(ret_why, PFL_JUDGE_WHY_BYTES,
                   "refused by the relay's policy: %u sessions were begun on this connection; free "
                   "them, or use another connection",
                   PFL_GATE_HELD_MAX);
    return false;
}

static bool may_leave(const struct pfl_gate *g, const struct request *r, char *ret_why)
{
    return r->method != PFL_METHOD_DETACH || !g->is_unstarted ||
           pfl_judge_may_leave_unstarted(pfl_buf_get(&g->role), ret_why);
}

static void note_start(struct pfl_gate *g, const struct request *r)
{
    if (r->method == PFL_METHOD_ENABLE_TRACING)
        g->is_unstarted = pfl_judge_is_deferred(r->args);
    else if (r->method == PFL_METHOD_START_TRACING || r->method == PFL_METHOD_FREE_BUFFERS)
        g->is_unstarted = false;
}

static int hold(struct pfl_gate *g, const struct request *r)
{
    struct pfl_gate_held *h = &g->held[g->held_len];

    if (r->method == PFL_METHOD_FREE_BUFFERS)
        forget_held(g);
    if (!pfl_gate_is_to_be_held(r->method))
        return 0;
    pfl_buf_init(&h->args, PFL_FRAME_PAYLOAD_MAX);
    h->method = r->method;
    g->held_len++;
    g->version++;
    return pfl_buf_append(&h->args, r->args.data, r->args.len);
}

static enum pfl_method find_method(const struct pfl_gate *g, uint64_t service_id, uint64_t id)
{
    if (g->service_id == 0 || service_id != g->service_id)
        return PFL_METHOD_UNKNOWN;
    for (unsigned i = 0; i < g->methods_len; i++) {
        if (g->method_ids[i] == id)
            return g->methods[i];
    }
    return PFL_METHOD_UNKNOWN;
}

static int take_invoke(struct pfl_gate *g, struct request *r, struct pfl_span invoke)
{
    struct pfl_reader reader = pfl_reader_of(invoke);
    struct pfl_field f;
    uint64_t service_id = 0;
    uint64_t method_id = 0;
    char why[PFL_JUDGE_WHY_BYTES];
    bool is_fine;
    int rc;

    while (pfl_reader_field(&reader, &f)) {
        if (f.id == IPC_FRAME__INVOKE_METHOD__SERVICE_ID)
            service_id = f.value;
        if (f.id == IPC_FRAME__INVOKE_METHOD__METHOD_ID)
            method_id = f.value;
        if (f.id == IPC_FRAME__INVOKE_METHOD__ARGS_PROTO)
            r->args = f.bytes;
        if (f.id == IPC_FRAME__INVOKE_METHOD__DROP_REPLY)
            r->drop_reply = f.value != 0;
    }
    r->method = find_method(g, service_id, method_id);
    is_fine = pfl_judge_request(pfl_buf_get(&g->role), r->method, r->args, why) &&
              has_room(g, r, why) && may_leave(g, r, why);
    if (g->conf.on_judged != NULL)
        g->conf.on_judged(g->conf.user, r->method, is_fine ? NULL : why);
    if (!is_fine)
        return answer_refused(g, r, why);
    note_start(g, r);
    rc = hold(g, r);
    return rc == 0 ? g->conf.to_service(g->conf.user, r->frame) : rc;
}

static int take_bind(struct pfl_gate *g, const struct request *r, struct pfl_span bind)
{
    struct pfl_reader reader = pfl_reader_of(bind);
    struct pfl_field f;
    bool is_ours = false;

    while (pfl_reader_field(&reader, &f))
        is_ours = f.bytes.len == sizeof(SERVICE_NAME) - 1 &&
                  memcmp(f.bytes.data, SERVICE_NAME, f.bytes.len) == 0;
    /* A failed bind is an empty answer. */
    if (!is_ours || g->binds == PFL_GATE_BINDS_MAX)
        return answer(g, r->id, IPC_FRAME__MSG_BIND_SERVICE_REPLY, pfl_span_of(NULL, 0));
    g->binds++;
    return g->conf.to_service(g->conf.user, r->frame);
}

static int on_operator_frame(void *user, struct pfl_span payload)
{
    struct pfl_gate *g = user;
    struct pfl_reader reader = pfl_reader_of(payload);
    struct pfl_field kind = {0};
    struct pfl_field f;
    /* The prefix lies before the payload, wherever the frame reader has it. */
    struct request r = {.frame = pfl_span_of(payload.data - PFL_FRAME_PREFIX_BYTES,
                                             payload.len + PFL_FRAME_PREFIX_BYTES)};
    char why[160];
    char text[240];

    if (!pfl_strict_check(&perfetto__protos__ipcframe__descriptor, payload, why, sizeof(why))) {
        (void)snprintf(text, sizeof(text),
                       "refused by the relay's policy: a frame that cannot be judged (%s)", why);
        return answer_error(g, 0, text);
    }
    while (pfl_reader_field(&reader, &f)) {
        if (f.id == IPC_FRAME__REQUEST_ID)
            r.id = f.value;
        else
            kind = f;
    }
    if (kind.id == IPC_FRAME__MSG_INVOKE_METHOD)
        return take_invoke(g, &r, kind.bytes);
    if (kind.id == IPC_FRAME__MSG_BIND_SERVICE)
        return take_bind(g, &r, kind.bytes);
    return answer_error(g, r.id, "refused by the relay's policy: this is no request");
}

int pfl_gate_from_operator(struct pfl_gate *self, struct pfl_span bytes_untrusted)
{
    return pfl_frame_reader_feed(&self->operator_frames, bytes_untrusted, on_operator_frame, self);
}

/* ---- the service's frames ---- */

static void learn_method(struct pfl_gate *g, struct pfl_span info)
{
    struct pfl_reader r = pfl_reader_of(info);
    enum pfl_method method = PFL_METHOD_UNKNOWN;
    uint32_t id = 0;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__ID)
            id = (uint32_t)f.value;
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__NAME)
            method = pfl_method_find(f.bytes);
    }
    if (method == PFL_METHOD_UNKNOWN || g->methods_len == PFL_GATE_METHODS_MAX)
        return;
    g->method_ids[g->methods_len] = id;
    g->methods[g->methods_len++] = method;
}

static void learn_methods(struct pfl_gate *g, struct pfl_span answer)
{
    struct pfl_reader r = pfl_reader_of(answer);
    uint32_t service_id = 0;
    bool is_bound = false;
    struct pfl_field f;

    g->methods_len = 0;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__SUCCESS)
            is_bound = f.value != 0;
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__SERVICE_ID)
            service_id = (uint32_t)f.value;
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHODS)
            learn_method(g, f.bytes);
    }
    g->service_id = is_bound && !r.failed ? service_id : 0;
}

static void on_service_frame(struct pfl_gate *g)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&g->bind_answer));
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != IPC_FRAME__MSG_BIND_SERVICE_REPLY)
            continue;
        learn_methods(g, f.bytes);
        g->binds--;
        break;
    }
    g->is_taking = false;
    pfl_buf_fini(&g->bind_answer);
}

/* One byte of the length, or as much as there is of the frame. */
static int walk_service(struct pfl_gate *g, struct pfl_span *bytes)
{
    size_t len = 1;
    int rc = 0;

    if (g->prefix_len < PFL_FRAME_PREFIX_BYTES) {
        g->prefix[g->prefix_len++] = bytes->data[0];
        if (g->prefix_len == PFL_FRAME_PREFIX_BYTES) {
            struct pfl_reader r = pfl_reader_of(pfl_span_of(g->prefix, sizeof(g->prefix)));

            g->frame_left = pfl_reader_u32(&r);
            g->is_taking = g->binds != 0 && g->frame_left <= PFL_GATE_BIND_ANSWER_BYTES;
        }
    } else {
        len = g->frame_left < bytes->len ? g->frame_left : bytes->len;
        if (g->is_taking)
            rc = pfl_buf_append(&g->bind_answer, bytes->data, len);
        g->frame_left -= (uint32_t)len;
    }
    bytes->data += len;
    bytes->len -= len;
    if (rc == 0 && g->prefix_len == PFL_FRAME_PREFIX_BYTES && g->frame_left == 0) {
        g->prefix_len = 0;
        if (g->is_taking)
            on_service_frame(g);
    }
    return rc;
}

int pfl_gate_from_service(struct pfl_gate *self, struct pfl_span bytes)
{
    struct pfl_span rest = bytes;
    int rc = 0;

    while (rc == 0 && rest.len != 0) {
        rc = walk_service(self, &rest);
        if (rc != 0 || self->waiting.len == 0 || !is_between_frames(self))
            continue;
        rc = self->conf.to_operator(self->conf.user, pfl_span_of(bytes.data, bytes.len - rest.len));
        bytes = rest;
        if (rc == 0)
            rc = send_waiting(self);
    }
    if (rc == 0 && bytes.len != 0)
        rc = self->conf.to_operator(self->conf.user, bytes);
    return rc;
}

/* ---- the role ---- */

int pfl_gate_set_role(struct pfl_gate *self, struct pfl_span role, char *ret_why)
{
    struct pfl_buf fresh;
    int rc;

    for (unsigned i = 0; i < self->held_len; i++) {
        const struct pfl_gate_held *h = &self->held[i];

        if (!pfl_judge_request(role, h->method, pfl_buf_get(&h->args), ret_why))
            return PFL_EPERM;
    }
    pfl_buf_init(&fresh, PFL_ROLE_MAX_BYTES);
    rc = pfl_buf_append(&fresh, role.data, role.len);
    if (rc != 0)
        return rc;
    pfl_buf_fini(&self->role);
    self->role = fresh;
    self->version++;
    return 0;
}

struct pfl_span pfl_gate_get_role(const struct pfl_gate *self)
{
    return pfl_buf_get(&self->role);
}

int pfl_gate_new(const struct pfl_gate_conf *conf, struct pfl_gate **ret_gate)
{
    struct pfl_gate *g = pfl_mem_zalloc(sizeof(*g));
    int rc;

    if (g == NULL)
        return PFL_ENOMEM;
    g->conf = *conf;
    g->version = 1;
    pfl_frame_reader_init(&g->operator_frames);
    pfl_buf_init(&g->role, PFL_ROLE_MAX_BYTES);
    pfl_buf_init(&g->bind_answer, PFL_GATE_BIND_ANSWER_BYTES);
    pfl_buf_init(&g->waiting, PFL_GATE_WAITING_MAX_BYTES);
    rc = pfl_buf_append(&g->role, conf->role.data, conf->role.len);
    if (rc != 0) {
        pfl_gate_free(g);
        return rc;
    }
    g->conf.role = pfl_span_of(NULL, 0);
    *ret_gate = g;
    return 0;
}

void pfl_gate_free(struct pfl_gate *self)
{
    if (self == NULL)
        return;
    pfl_frame_reader_fini(&self->operator_frames);
    pfl_buf_fini(&self->role);
    pfl_buf_fini(&self->bind_answer);
    pfl_buf_fini(&self->waiting);
    forget_held(self);
    pfl_mem_free(self);
}
