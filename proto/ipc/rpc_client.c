/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the tracing protocol (docs/abi/wire.md section 2).
 *
 * Happy path: bind asks for a service and keeps the names and ids of its methods; invoke looks the
 * method up by name, remembers the request in `pending`, and sends; a reply finds its request by id
 * and kind, and calls back where the body lies in the caller's bytes.
 *
 * Failures: a reply without a pending request is dropped; RequestError ends its request as a
 * failure reply, so that no caller waits forever. Bytes that are no IPCFrame, and a second reply to
 * a method that has one, are PFL_EPROTO. A failure is the last reply. A callback's failure becomes
 * the result. Callbacks may start new requests; `pending` may move, so entries are copied.
 *
 * Limits: PFL_RPC_CLIENT_MAX_PENDING requests; METHODS_MAX methods of NAME_MAX_BYTES from a host.
 */
#include "proto/ipc/rpc_client.h"

#include <assert.h>

#include "base/mem.h"
#include "perfetto/ipc.fields.h"

#define METHODS_MAX          256u
#define NAME_MAX_BYTES       63u
#define REQUEST_HEADER_BYTES 64u

struct method {
    uint32_t id;
    char name[NAME_MAX_BYTES + 1];
};

struct pending {
    uint64_t id;
    bool is_bind;
    bool may_have_more;
    pfl_rpc_bound_cb on_bound; /* is_bind */
    pfl_rpc_reply_cb on_reply; /* otherwise */
    void *user;
};

struct pfl_rpc_client {
    struct pfl_rpc_client_conf conf;
    struct pfl_frame_reader reader; /* owned */
    uint64_t last_request_id;
    bool is_bound;
    uint32_t service_id;
    struct method *methods; /* owned */
    size_t methods_len;
    struct pending *pending; /* owned */
    size_t pending_len;
    size_t pending_capacity;
};

struct reply_frame {
    uint64_t request_id;
    uint32_t kind; /* the last sub-message's field number; 0 = none */
    struct pfl_span msg;
};

int pfl_rpc_client_new(const struct pfl_rpc_client_conf *conf, struct pfl_rpc_client **ret_client)
{
    struct pfl_rpc_client *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    self->conf = *conf;
    pfl_frame_reader_init(&self->reader);
    *ret_client = self;
    return 0;
}

void pfl_rpc_client_free(struct pfl_rpc_client *self)
{
    if (self == NULL)
        return;
    pfl_frame_reader_fini(&self->reader);
    pfl_mem_free(self->methods);
    pfl_mem_free(self->pending);
    pfl_mem_free(self);
}

static int reserve_pending(struct pfl_rpc_client *self)
{
    size_t capacity = self->pending_capacity != 0 ? self->pending_capacity * 2 : 8;
    struct pending *grown;

    if (self->pending_len < self->pending_capacity)
        return 0;
    if (self->pending_len >= PFL_RPC_CLIENT_MAX_PENDING)
        return PFL_ELIMIT;
    grown = pfl_mem_realloc(self->pending, capacity * sizeof(*grown));
    if (grown == NULL)
        return PFL_ENOMEM;
    self->pending = grown;
    self->pending_capacity = capacity;
    return 0;
}

static struct pending *find_pending(struct pfl_rpc_client *self, uint64_t id, bool is_bind)
{
    for (size_t i = 0; i < self->pending_len; i++) {
        if (self->pending[i].id == id)
            return self->pending[i].is_bind == is_bind ? &self->pending[i] : NULL;
    }
    return NULL;
}

static void remove_pending(struct pfl_rpc_client *self, struct pending *entry)
{
    *entry = self->pending[--self->pending_len];
}

static void cancel_pending(struct pfl_rpc_client *self, uint64_t id)
{
    for (size_t i = 0; i < self->pending_len; i++) {
        if (self->pending[i].id == id) {
            remove_pending(self, &self->pending[i]);
            return;
        }
    }
}

/* Sends prefix, request id and the head of one sub-message, then `tail`, its last field's value. */
static int send_request(struct pfl_rpc_client *self, uint32_t kind, struct pfl_span head,
                        struct pfl_span tail, int fd)
{
    uint8_t header[REQUEST_HEADER_BYTES * 2];
    struct pfl_writer w = pfl_writer_of(header, sizeof(header));
    uint64_t id = self->last_request_id;
    size_t msg_bytes = head.len + tail.len;
    size_t frame_bytes = 1 + pfl_varint_size(id) + 1 + pfl_varint_size(msg_bytes) + msg_bytes;
    struct iovec iov[2];

    if (frame_bytes > PFL_FRAME_PAYLOAD_MAX)
        return PFL_ELIMIT;
    pfl_writer_u32(&w, (uint32_t)frame_bytes);
    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, id);
    pfl_writer_field_header(&w, kind, msg_bytes);
    pfl_writer_bytes(&w, head.data, head.len);
    assert(!w.failed);
    iov[0].iov_base = header;
    iov[0].iov_len = sizeof(header) - w.left;
    iov[1].iov_base = (void *)(uintptr_t)tail.data;
    iov[1].iov_len = tail.len;
    return self->conf.send(self->conf.user, iov, tail.len != 0 ? 2 : 1, fd);
}

int pfl_rpc_client_bind(struct pfl_rpc_client *self, const char *service_name, pfl_rpc_bound_cb cb,
                        void *user)
{
    uint8_t head[REQUEST_HEADER_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    size_t name_bytes = strlen(service_name);
    struct pending entry;
    int rc = reserve_pending(self);

    if (rc != 0)
        return rc;
    pfl_writer_field_header(&w, IPC_FRAME__BIND_SERVICE__SERVICE_NAME, name_bytes);
    entry = (struct pending){
        .id = ++self->last_request_id, .is_bind = true, .on_bound = cb, .user = user};
    self->pending[self->pending_len++] = entry;
    rc = send_request(self, IPC_FRAME__MSG_BIND_SERVICE, pfl_span_of(head, sizeof(head) - w.left),
                      pfl_span_of(service_name, name_bytes), -1);
    if (rc != 0)
        cancel_pending(self, entry.id);
    return rc;
}

static const struct method *find_method(const struct pfl_rpc_client *self, const char *name)
{
    for (size_t i = 0; i < self->methods_len; i++) {
        if (strcmp(self->methods[i].name, name) == 0)
            return &self->methods[i];
    }
    return NULL;
}

bool pfl_rpc_client_has_method(const struct pfl_rpc_client *self, const char *method_name)
{
    return find_method(self, method_name) != NULL;
}

/* Every other method has exactly one reply: callers rely on that. */
static bool is_streaming(const char *method_name)
{
    static const char *const names[] = {"ReadBuffers", "ObserveEvents", "QueryServiceState",
                                        "GetAsyncCommand"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(method_name, names[i]) == 0)
            return true;
    }
    return false;
}

int pfl_rpc_client_invoke(struct pfl_rpc_client *self, const char *method_name,
                          struct pfl_span args, int fd, pfl_rpc_reply_cb cb, void *user)
{
    const struct method *method = find_method(self, method_name);
    uint8_t head[REQUEST_HEADER_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    struct pending entry;
    int rc;

    if (!self->is_bound)
        return PFL_ESTATE;
    if (method == NULL)
        return PFL_ENOENT;
    rc = cb != NULL ? reserve_pending(self) : 0;
    if (rc != 0)
        return rc;
    pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD__SERVICE_ID, self->service_id);
    pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD__METHOD_ID, method->id);
    if (cb == NULL)
        pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD__DROP_REPLY, 1);
    pfl_writer_field_header(&w, IPC_FRAME__INVOKE_METHOD__ARGS_PROTO, args.len);
    entry = (struct pending){.id = ++self->last_request_id,
                             .may_have_more = is_streaming(method_name),
                             .on_reply = cb,
                             .user = user};
    if (cb != NULL)
        self->pending[self->pending_len++] = entry;
    rc = send_request(self, IPC_FRAME__MSG_INVOKE_METHOD, pfl_span_of(head, sizeof(head) - w.left),
                      args, fd);
    if (rc != 0)
        cancel_pending(self, entry.id);
    return rc;
}

static bool parse_frame(struct pfl_span payload, struct reply_frame *ret_frame)
{
    struct pfl_reader r = pfl_reader_of(payload);
    struct reply_frame frame = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__REQUEST_ID && f.type == PFL_WIRE_VARINT) {
            frame.request_id = f.value;
        } else if (f.type == PFL_WIRE_BYTES && (f.id == IPC_FRAME__MSG_BIND_SERVICE_REPLY ||
                                                f.id == IPC_FRAME__MSG_INVOKE_METHOD_REPLY ||
                                                f.id == IPC_FRAME__MSG_REQUEST_ERROR)) {
            frame.kind = f.id;
            frame.msg = f.bytes;
        }
    }
    *ret_frame = frame;
    return !r.failed;
}

/* Entries without id or name, and names longer than any we ask for, are left out. */
static bool parse_method(struct pfl_span bytes, struct method *ret_method)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_span name = {NULL, 0};
    struct pfl_field f;

    *ret_method = (struct method){0};
    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__ID && f.type == PFL_WIRE_VARINT)
            ret_method->id = (uint32_t)f.value;
        else if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__NAME &&
                 f.type == PFL_WIRE_BYTES)
            name = f.bytes;
    }
    if (r.failed || ret_method->id == 0 || name.len == 0 || name.len > NAME_MAX_BYTES)
        return false;
    memcpy(ret_method->name, name.data, name.len);
    return true;
}

static size_t count_methods(struct pfl_span msg)
{
    struct pfl_reader r = pfl_reader_of(msg);
    struct pfl_field f;
    size_t n = 0;

    while (pfl_reader_field(&r, &f))
        n += f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHODS && f.type == PFL_WIRE_BYTES;
    return n;
}

static void forget_service(struct pfl_rpc_client *self)
{
    pfl_mem_free(self->methods);
    self->methods = NULL;
    self->methods_len = 0;
    self->is_bound = false;
}

/* Replaces the bound service by what the reply says; unbound when it says no. */
static int keep_service(struct pfl_rpc_client *self, struct pfl_span msg)
{
    struct pfl_reader r = pfl_reader_of(msg);
    size_t methods_max = count_methods(msg);
    bool is_success = false;
    struct pfl_field f;

    forget_service(self);
    if (methods_max > METHODS_MAX)
        return PFL_EPROTO;
    self->methods = pfl_mem_calloc(methods_max, sizeof(*self->methods));
    if (self->methods == NULL)
        return PFL_ENOMEM;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__SUCCESS && f.type == PFL_WIRE_VARINT)
            is_success = f.value != 0;
        else if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__SERVICE_ID && f.type == PFL_WIRE_VARINT)
            self->service_id = (uint32_t)f.value;
        else if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHODS && f.type == PFL_WIRE_BYTES &&
                 parse_method(f.bytes, &self->methods[self->methods_len]))
            self->methods_len++;
    }
    self->is_bound = is_success && !r.failed;
    if (!self->is_bound)
        forget_service(self);
    return r.failed ? PFL_EPROTO : 0;
}

static int handle_bind_reply(struct pfl_rpc_client *self, const struct reply_frame *frame)
{
    struct pending *entry = find_pending(self, frame->request_id, true);
    struct pending copy;
    int rc;

    if (entry == NULL)
        return 0;
    copy = *entry;
    remove_pending(self, entry);
    rc = keep_service(self, frame->msg);
    if (rc != 0 || copy.on_bound == NULL)
        return rc;
    return copy.on_bound(copy.user, self->is_bound);
}

static int handle_reply(struct pfl_rpc_client *self, const struct reply_frame *frame)
{
    struct pfl_reader r = pfl_reader_of(frame->msg);
    struct pending *entry = find_pending(self, frame->request_id, false);
    struct pfl_rpc_reply reply = {0};
    struct pending copy;
    struct pfl_field f;

    if (entry == NULL)
        return 0;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__SUCCESS && f.type == PFL_WIRE_VARINT)
            reply.success = f.value != 0;
        else if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__HAS_MORE && f.type == PFL_WIRE_VARINT)
            reply.has_more = f.value != 0;
        else if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__REPLY_PROTO && f.type == PFL_WIRE_BYTES)
            reply.body = f.bytes;
        else if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__PERFLEET_WHY && f.type == PFL_WIRE_BYTES)
            reply.why = f.bytes;
    }
    if (r.failed)
        return PFL_EPROTO;
    if (reply.success)
        reply.why = pfl_span_of(NULL, 0);
    else
        reply.body = pfl_span_of(NULL, 0);
    copy = *entry;
    reply.has_more = reply.has_more && reply.success;
    if (reply.has_more && !copy.may_have_more)
        return PFL_EPROTO;
    if (!reply.has_more)
        remove_pending(self, entry);
    return copy.on_reply(copy.user, &reply);
}

static int handle_request_error(struct pfl_rpc_client *self, const struct reply_frame *frame)
{
    static const struct pfl_rpc_reply failure = {0};
    struct pending *entry = find_pending(self, frame->request_id, false);
    struct pending copy;

    if (entry == NULL)
        entry = find_pending(self, frame->request_id, true);
    if (entry == NULL)
        return 0;
    copy = *entry;
    remove_pending(self, entry);
    if (!copy.is_bind)
        return copy.on_reply(copy.user, &failure);
    return copy.on_bound != NULL ? copy.on_bound(copy.user, false) : 0;
}

static int on_frame(void *user, struct pfl_span payload)
{
    struct pfl_rpc_client *self = user;
    struct reply_frame frame;

    if (!parse_frame(payload, &frame))
        return PFL_EPROTO;
    switch (frame.kind) {
    case IPC_FRAME__MSG_BIND_SERVICE_REPLY:
        return handle_bind_reply(self, &frame);
    case IPC_FRAME__MSG_INVOKE_METHOD_REPLY:
        return handle_reply(self, &frame);
    case IPC_FRAME__MSG_REQUEST_ERROR:
        return handle_request_error(self, &frame);
    default:
        return 0;
    }
}

int pfl_rpc_client_feed(struct pfl_rpc_client *self, struct pfl_span data)
{
    return pfl_frame_reader_feed(&self->reader, data, on_frame, self);
}
