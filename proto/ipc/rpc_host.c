/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the tracing protocol (docs/abi/wire.md section 2).
 *
 * Happy path: feed cuts frames; a frame is parsed into `struct request_frame`, whose spans point
 * into the caller's bytes; bind answers from the static tables, invoke calls the handler with the
 * arguments in place; a reply is one header of ours in front of the caller's pieces.
 *
 * Failures: a payload that is no IPCFrame is ignored; a frame of no known kind is answered by
 * RequestError; an unknown name is an empty bind reply; an unknown service or method and arguments
 * that the handler cannot read are success=false, even when no reply was asked for.
 *
 * Memory: nothing but the frame reader's partial frame, or the frames that it keeps. Limits:
 * PFL_FRAME_PAYLOAD_MAX per frame, REPLY_MAX_PIECES pieces per reply.
 */
#include "proto/ipc/rpc_host.h"

#include <assert.h>

#include "perfetto/ipc.fields.h"

#define REPLY_MAX_PIECES   1023 /* with the header: IOV_MAX */
#define SMALL_FRAME_BYTES  64u
#define BIND_REPLY_BYTES   4096u
#define TAG(field, type)   ((uint8_t)((field) << 3 | (type)))
#define UNKNOWN_FRAME_TEXT "unknown frame type"

struct request_frame {
    uint64_t request_id;
    bool has_bind;
    bool has_invoke;
    bool has_identity;
    struct pfl_span bind;
    struct pfl_span invoke;
    struct pfl_span identity;
};

struct invocation {
    uint32_t service_id_untrusted;
    uint32_t method_id_untrusted;
    bool drop_reply;
    struct pfl_span args;
};

void pfl_rpc_host_init(struct pfl_rpc_host *self, const struct pfl_rpc_host_conf *conf)
{
    *self = (struct pfl_rpc_host){.conf = *conf};
    pfl_frame_reader_init(&self->reader);
}

void pfl_rpc_host_fini(struct pfl_rpc_host *self)
{
    pfl_frame_reader_fini(&self->reader);
}

static bool is_bytes(const struct pfl_field *f, uint32_t id)
{
    return f->id == id && f->type == PFL_WIRE_BYTES;
}

static bool is_varint(const struct pfl_field *f, uint32_t id)
{
    return f->id == id && f->type == PFL_WIRE_VARINT;
}

static bool parse_frame(struct pfl_span payload, struct request_frame *ret_frame)
{
    struct pfl_reader r = pfl_reader_of(payload);
    struct request_frame frame = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (is_varint(&f, IPC_FRAME__REQUEST_ID)) {
            frame.request_id = f.value;
        } else if (is_bytes(&f, IPC_FRAME__MSG_BIND_SERVICE)) {
            frame.has_bind = true;
            frame.bind = f.bytes;
        } else if (is_bytes(&f, IPC_FRAME__MSG_INVOKE_METHOD)) {
            frame.has_invoke = true;
            frame.invoke = f.bytes;
        } else if (is_bytes(&f, IPC_FRAME__SET_PEER_IDENTITY)) {
            frame.has_identity = true;
            frame.identity = f.bytes;
        }
    }
    *ret_frame = frame;
    return !r.failed;
}

/* Writes prefix, request id and one sub-message, and sends it. */
static int send_frame(struct pfl_rpc_host *self, uint64_t request_id, uint32_t field,
                      struct pfl_span msg)
{
    uint8_t header[SMALL_FRAME_BYTES];
    struct pfl_writer w = pfl_writer_of(header, sizeof(header));
    struct iovec iov[2];
    size_t header_len = 1 + pfl_varint_size(request_id) + 1 + pfl_varint_size(msg.len);

    pfl_writer_u32(&w, (uint32_t)(header_len + msg.len));
    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, request_id);
    pfl_writer_field_header(&w, field, msg.len);
    assert(!w.failed);
    iov[0].iov_base = header;
    iov[0].iov_len = PFL_FRAME_PREFIX_BYTES + header_len;
    iov[1].iov_base = (void *)(uintptr_t)msg.data;
    iov[1].iov_len = msg.len;
    return self->conf.send(self->conf.user, iov, msg.len != 0 ? 2 : 1, -1);
}

static void write_method(struct pfl_writer *w, uint32_t id, const char *name)
{
    uint8_t entry[256];
    struct pfl_writer e = pfl_writer_of(entry, sizeof(entry));

    pfl_writer_field_varint(&e, IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__ID, id);
    pfl_writer_field_bytes(&e, IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__NAME, name,
                           strlen(name));
    assert(!e.failed);
    pfl_writer_field_bytes(w, IPC_FRAME__BIND_SERVICE_REPLY__METHODS, entry,
                           sizeof(entry) - e.left);
}

static int send_bind_reply(struct pfl_rpc_host *self, uint64_t request_id, size_t service)
{
    const struct pfl_rpc_service *s = &self->conf.services[service];
    uint8_t msg[BIND_REPLY_BYTES];
    struct pfl_writer w = pfl_writer_of(msg, sizeof(msg));

    pfl_writer_field_varint(&w, IPC_FRAME__BIND_SERVICE_REPLY__SUCCESS, 1);
    pfl_writer_field_varint(&w, IPC_FRAME__BIND_SERVICE_REPLY__SERVICE_ID, service + 1);
    for (size_t i = 0; i < s->methods_len; i++)
        write_method(&w, (uint32_t)(i + 1), s->methods[i].name);
    assert(!w.failed); /* the tables are ours */
    return send_frame(self, request_id, IPC_FRAME__MSG_BIND_SERVICE_REPLY,
                      pfl_span_of(msg, sizeof(msg) - w.left));
}

static int handle_bind(struct pfl_rpc_host *self, const struct request_frame *frame)
{
    struct pfl_reader r = pfl_reader_of(frame->bind);
    struct pfl_span name = {NULL, 0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (is_bytes(&f, IPC_FRAME__BIND_SERVICE__SERVICE_NAME))
            name = f.bytes;
    }
    for (size_t i = 0; i < self->conf.services_len && !r.failed; i++) {
        const char *known = self->conf.services[i].name;

        if (name.len != 0 && strlen(known) == name.len && memcmp(known, name.data, name.len) == 0)
            return send_bind_reply(self, frame->request_id, i);
    }
    return send_frame(self, frame->request_id, IPC_FRAME__MSG_BIND_SERVICE_REPLY,
                      pfl_span_of(NULL, 0));
}

static bool parse_invocation(struct pfl_span bytes, struct invocation *ret_invocation)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct invocation inv = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (is_varint(&f, IPC_FRAME__INVOKE_METHOD__SERVICE_ID))
            inv.service_id_untrusted = (uint32_t)f.value;
        else if (is_varint(&f, IPC_FRAME__INVOKE_METHOD__METHOD_ID))
            inv.method_id_untrusted = (uint32_t)f.value;
        else if (is_bytes(&f, IPC_FRAME__INVOKE_METHOD__ARGS_PROTO))
            inv.args = f.bytes;
        else if (is_varint(&f, IPC_FRAME__INVOKE_METHOD__DROP_REPLY))
            inv.drop_reply = f.value != 0;
    }
    *ret_invocation = inv;
    return !r.failed;
}

static const struct pfl_rpc_method *find_method(const struct pfl_rpc_host *self,
                                                const struct invocation *inv)
{
    const struct pfl_rpc_service *s;

    if (inv->service_id_untrusted == 0 || inv->service_id_untrusted > self->conf.services_len)
        return NULL;
    s = &self->conf.services[inv->service_id_untrusted - 1];
    if (inv->method_id_untrusted == 0 || inv->method_id_untrusted > s->methods_len)
        return NULL;
    return &s->methods[inv->method_id_untrusted - 1];
}

static int handle_invoke(struct pfl_rpc_host *self, const struct request_frame *frame)
{
    static const uint8_t refused[] = {TAG(IPC_FRAME__INVOKE_METHOD_REPLY__SUCCESS, PFL_WIRE_VARINT),
                                      0};
    const struct pfl_rpc_method *method = NULL;
    struct invocation inv;
    int rc = PFL_EPARSE;

    if (parse_invocation(frame->invoke, &inv))
        method = find_method(self, &inv);
    if (method != NULL) {
        struct pfl_rpc_request request = {.id = frame->request_id, .drop_reply = inv.drop_reply};

        rc = method->handle(self->conf.user, request, inv.args);
    }
    if (rc != PFL_EPARSE)
        return rc;
    return send_frame(self, frame->request_id, IPC_FRAME__MSG_INVOKE_METHOD_REPLY,
                      pfl_span_of(refused, sizeof(refused)));
}

static void handle_identity(struct pfl_rpc_host *self, struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_rpc_peer_identity id = {.pid = -1};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (is_varint(&f, IPC_FRAME__SET_PEER_IDENTITY__PID))
            id.pid = (int32_t)(uint32_t)f.value;
        else if (is_varint(&f, IPC_FRAME__SET_PEER_IDENTITY__UID))
            id.uid = (uint32_t)f.value;
        else if (is_bytes(&f, IPC_FRAME__SET_PEER_IDENTITY__MACHINE_ID_HINT))
            id.machine_id_hint = f.bytes;
        else if (is_bytes(&f, IPC_FRAME__SET_PEER_IDENTITY__MACHINE_NAME))
            id.machine_name = f.bytes;
    }
    if (!r.failed && self->conf.on_peer_identity != NULL)
        self->conf.on_peer_identity(self->conf.user, &id);
}

static int answer_unknown(struct pfl_rpc_host *self, uint64_t request_id)
{
    uint8_t msg[sizeof(UNKNOWN_FRAME_TEXT) + 2];
    struct pfl_writer w = pfl_writer_of(msg, sizeof(msg));

    pfl_writer_field_bytes(&w, IPC_FRAME__REQUEST_ERROR__ERROR, UNKNOWN_FRAME_TEXT,
                           sizeof(UNKNOWN_FRAME_TEXT) - 1);
    return send_frame(self, request_id, IPC_FRAME__MSG_REQUEST_ERROR,
                      pfl_span_of(msg, sizeof(msg) - w.left));
}

static int handle_frame(struct pfl_rpc_host *self, struct pfl_span payload)
{
    struct request_frame frame;

    if (!parse_frame(payload, &frame))
        return 0; /* silently, as the protocol has it */
    if (frame.has_bind)
        return handle_bind(self, &frame);
    if (frame.has_invoke)
        return handle_invoke(self, &frame);
    if (frame.has_identity) {
        handle_identity(self, frame.identity);
        return 0;
    }
    return answer_unknown(self, frame.request_id);
}

static int on_frame(void *user, struct pfl_span payload)
{
    struct pfl_rpc_host *self = user;
    int rc = handle_frame(self, payload);

    if (rc == PFL_EAGAIN)
        return PFL_FRAME_AGAIN;
    if (rc == 0 && self->conf.may_continue != NULL && !self->conf.may_continue(self->conf.user))
        return PFL_FRAME_PAUSE;
    return rc;
}

int pfl_rpc_host_feed(struct pfl_rpc_host *self, struct pfl_span data)
{
    return pfl_frame_reader_feed(&self->reader, data, on_frame, self);
}

bool pfl_rpc_host_has_frames(const struct pfl_rpc_host *self)
{
    return pfl_frame_reader_has_frames(&self->reader);
}

size_t pfl_rpc_encode_reply_header(uint8_t *end, uint64_t request_id, unsigned flags,
                                   size_t body_bytes)
{
    bool is_success = (flags & PFL_RPC_SUCCESS) != 0;
    size_t msg_bytes = 2 + (is_success ? 3 + pfl_varint_size(body_bytes) + body_bytes : 0);
    size_t frame_bytes =
        1 + pfl_varint_size(request_id) + 1 + pfl_varint_size(msg_bytes) + msg_bytes;
    size_t header_bytes = PFL_FRAME_PREFIX_BYTES + frame_bytes - (is_success ? body_bytes : 0);
    struct pfl_writer w = pfl_writer_of(end - header_bytes, header_bytes);

    pfl_writer_u32(&w, (uint32_t)frame_bytes);
    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, request_id);
    pfl_writer_field_header(&w, IPC_FRAME__MSG_INVOKE_METHOD_REPLY, msg_bytes);
    if (is_success)
        pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD_REPLY__SUCCESS, 1);
    pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD_REPLY__HAS_MORE,
                            (flags & PFL_RPC_HAS_MORE) != 0);
    if (is_success)
        pfl_writer_field_header(&w, IPC_FRAME__INVOKE_METHOD_REPLY__REPLY_PROTO, body_bytes);
    assert(!w.failed && w.left == 0);
    return header_bytes;
}

int pfl_rpc_host_reply(struct pfl_rpc_host *self, struct pfl_rpc_request request, unsigned flags,
                       const struct iovec *body, int body_len, int fd)
{
    uint8_t header[PFL_RPC_REPLY_HEADER_MAX];
    struct iovec iov[REPLY_MAX_PIECES + 1];
    size_t body_bytes = 0;

    if (request.drop_reply)
        return 0;
    if ((flags & PFL_RPC_SUCCESS) == 0)
        body_len = 0;
    if (body_len > REPLY_MAX_PIECES)
        return PFL_ELIMIT;
    for (int i = 0; i < body_len; i++) {
        if (body[i].iov_len > PFL_FRAME_PAYLOAD_MAX - body_bytes)
            return PFL_ELIMIT;
        body_bytes += body[i].iov_len;
        iov[i + 1] = body[i];
    }
    iov[0].iov_len =
        pfl_rpc_encode_reply_header(header + sizeof(header), request.id, flags, body_bytes);
    if (iov[0].iov_len > PFL_FRAME_MAX_BYTES - body_bytes)
        return PFL_ELIMIT;
    iov[0].iov_base = header + sizeof(header) - iov[0].iov_len;
    return self->conf.send(self->conf.user, iov, body_len + 1, fd);
}

int pfl_rpc_host_reply_empty(struct pfl_rpc_host *self, struct pfl_rpc_request request)
{
    return pfl_rpc_host_reply(self, request, PFL_RPC_SUCCESS, NULL, 0, -1);
}

int pfl_rpc_host_reply_failure(struct pfl_rpc_host *self, struct pfl_rpc_request request)
{
    return pfl_rpc_host_reply(self, request, 0, NULL, 0, -1);
}
