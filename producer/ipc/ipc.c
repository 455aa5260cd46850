/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the producer's messages without a generated parser: few, small, and free of a
 * dependency.
 *
 * Decoding uses bounds-checked readers; unknown fields are skipped, nested messages get their own
 * reader, anything malformed makes the whole message PFL_EPARSE. Encoding computes lengths first.
 * Nothing is allocated; spans point into the caller's frame.
 */
#include "producer/ipc/ipc.h"

#include "perfetto/commit_data.fields.h"
#include "perfetto/data_source_config.fields.h"
#include "perfetto/ipc.fields.h"
#include "perfetto/producer_port.fields.h"

/* The largest entry: see move_bytes and patch_bytes. */
#define ENTRY_MAX 64u

_Static_assert(PFL_IPC_COMMIT_MAX >= PFL_PAGE_MAX_BYTES + 2 * ENTRY_MAX,
               "each move fits a message, whatever it carries");

static const char service_name[] = "ProducerPort";

static const char *const method_names[PFL_IPC_METHODS] = {
    [PFL_IPC_INITIALIZE_CONNECTION] = "InitializeConnection",
    [PFL_IPC_REGISTER_DATA_SOURCE] = "RegisterDataSource",
    [PFL_IPC_UNREGISTER_DATA_SOURCE] = "UnregisterDataSource",
    [PFL_IPC_COMMIT_DATA] = "CommitData",
    [PFL_IPC_GET_ASYNC_COMMAND] = "GetAsyncCommand",
    [PFL_IPC_REGISTER_TRACE_WRITER] = "RegisterTraceWriter",
    [PFL_IPC_UNREGISTER_TRACE_WRITER] = "UnregisterTraceWriter",
    [PFL_IPC_NOTIFY_STARTED] = "NotifyDataSourceStarted",
    [PFL_IPC_NOTIFY_STOPPED] = "NotifyDataSourceStopped",
    [PFL_IPC_ACTIVATE_TRIGGERS] = "ActivateTriggers",
    [PFL_IPC_SYNC] = "Sync",
    [PFL_IPC_UPDATE_DATA_SOURCE] = "UpdateDataSource",
};

/* --- out --------------------------------------------------------------------------------- */

static size_t varint_field_bytes(uint32_t id, uint64_t v)
{
    return pfl_varint_size((uint64_t)id << 3) + pfl_varint_size(v);
}

static size_t bytes_field_bytes(uint32_t id, size_t len)
{
    return varint_field_bytes(id, len) + len;
}

void pfl_ipc_encode_bind(struct pfl_writer *w, uint64_t request_id)
{
    size_t bind_len =
        bytes_field_bytes(IPC_FRAME__BIND_SERVICE__SERVICE_NAME, sizeof(service_name) - 1);

    pfl_writer_u32(w, (uint32_t)(varint_field_bytes(IPC_FRAME__REQUEST_ID, request_id) +
                                 bytes_field_bytes(IPC_FRAME__MSG_BIND_SERVICE, bind_len)));
    pfl_writer_field_varint(w, IPC_FRAME__REQUEST_ID, request_id);
    pfl_writer_field_header(w, IPC_FRAME__MSG_BIND_SERVICE, bind_len);
    pfl_writer_field_bytes(w, IPC_FRAME__BIND_SERVICE__SERVICE_NAME, service_name,
                           sizeof(service_name) - 1);
}

void pfl_ipc_encode_invoke(struct pfl_writer *w, const struct pfl_ipc_invoke *invoke)
{
    size_t len = varint_field_bytes(IPC_FRAME__INVOKE_METHOD__SERVICE_ID, invoke->service_id) +
                 varint_field_bytes(IPC_FRAME__INVOKE_METHOD__METHOD_ID, invoke->method_id) +
                 bytes_field_bytes(IPC_FRAME__INVOKE_METHOD__ARGS_PROTO, invoke->args.len) +
                 varint_field_bytes(IPC_FRAME__INVOKE_METHOD__DROP_REPLY, invoke->drop_reply);

    pfl_writer_u32(w, (uint32_t)(varint_field_bytes(IPC_FRAME__REQUEST_ID, invoke->request_id) +
                                 bytes_field_bytes(IPC_FRAME__MSG_INVOKE_METHOD, len)));
    pfl_writer_field_varint(w, IPC_FRAME__REQUEST_ID, invoke->request_id);
    pfl_writer_field_header(w, IPC_FRAME__MSG_INVOKE_METHOD, len);
    pfl_writer_field_varint(w, IPC_FRAME__INVOKE_METHOD__SERVICE_ID, invoke->service_id);
    pfl_writer_field_varint(w, IPC_FRAME__INVOKE_METHOD__METHOD_ID, invoke->method_id);
    pfl_writer_field_bytes(w, IPC_FRAME__INVOKE_METHOD__ARGS_PROTO, invoke->args.data,
                           invoke->args.len);
    pfl_writer_field_varint(w, IPC_FRAME__INVOKE_METHOD__DROP_REPLY, invoke->drop_reply);
}

static void encode_move(struct pfl_writer *w, const struct pfl_arbiter_move *move,
                        struct pfl_span data)
{
    size_t data_bytes =
        data.len == 0 ? 0 : bytes_field_bytes(COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__DATA, data.len);

    pfl_writer_field_header(
        w, COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE,
        varint_field_bytes(COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__PAGE, move->page) +
            varint_field_bytes(COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK, move->chunk) +
            varint_field_bytes(COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__TARGET_BUFFER, move->buffer) +
            data_bytes);
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__PAGE, move->page);
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK, move->chunk);
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__TARGET_BUFFER, move->buffer);
    if (data.len != 0)
        pfl_writer_field_bytes(w, COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__DATA, data.data, data.len);
}

/* What travels with the move: the whole chunk with its header, if it is ours to send. */
static struct pfl_span data_of(const struct pfl_smb *smb, const struct pfl_arbiter_move *move)
{
    uint32_t bitmap;

    if (smb == NULL)
        return pfl_span_of(NULL, 0);
    bitmap = pfl_page_bitmap(pfl_smb_page(smb, move->page));
    if (pfl_page_chunk_state(bitmap, move->chunk) != PFL_CHUNK_COMPLETE)
        return pfl_span_of(NULL, 0);
    return pfl_span_of(pfl_smb_chunk(smb, move->page, bitmap, move->chunk),
                       pfl_page_payload_bytes(smb->page_bytes, bitmap) + PFL_CHUNK_HEADER_BYTES);
}

static void encode_patch(struct pfl_writer *w, const struct pfl_arbiter_patch *patch)
{
    size_t inner =
        varint_field_bytes(COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__OFFSET, patch->offset) +
        bytes_field_bytes(COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__DATA, sizeof(patch->data));

    pfl_writer_field_header(
        w, COMMIT_DATA_REQUEST__CHUNKS_TO_PATCH,
        varint_field_bytes(COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__TARGET_BUFFER, patch->buffer) +
            varint_field_bytes(COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__WRITER_ID, patch->writer_id) +
            varint_field_bytes(COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__CHUNK_ID, patch->chunk_id) +
            bytes_field_bytes(COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCHES, inner) +
            varint_field_bytes(COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__HAS_MORE_PATCHES,
                               patch->has_more));
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__TARGET_BUFFER, patch->buffer);
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__WRITER_ID, patch->writer_id);
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__CHUNK_ID, patch->chunk_id);
    pfl_writer_field_header(w, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCHES, inner);
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__OFFSET, patch->offset);
    pfl_writer_field_bytes(w, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__DATA, patch->data,
                           sizeof(patch->data));
    pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__HAS_MORE_PATCHES,
                            patch->has_more);
}

bool pfl_ipc_encode_commit(struct pfl_writer *w, const struct pfl_arbiter_batch *batch,
                           struct pfl_ipc_commit_pos *pos)
{
    size_t stop = w->left > PFL_IPC_COMMIT_MAX ? w->left - PFL_IPC_COMMIT_MAX : 0;

    while (pos->moves < batch->moves.len) {
        const struct pfl_arbiter_move *move = &batch->moves.items[pos->moves];
        struct pfl_span data = data_of(pos->emulated, move);

        if (w->left - stop < 2 * ENTRY_MAX + data.len)
            return true;
        encode_move(w, move, data);
        pos->moves++;
    }
    while (pos->moves == batch->moves.len && pos->patches < batch->patches.len &&
           w->left - stop >= 2 * ENTRY_MAX)
        encode_patch(w, &batch->patches.items[pos->patches++]);
    if (pos->moves < batch->moves.len || pos->patches < batch->patches.len)
        return true;
    if (batch->flush_id != 0)
        pfl_writer_field_varint(w, COMMIT_DATA_REQUEST__FLUSH_REQUEST_ID, batch->flush_id);
    return false;
}

/* --- in ---------------------------------------------------------------------------------- */

static void read_invoke_reply(struct pfl_span bytes, struct pfl_ipc_reply *reply, bool *failed)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__SUCCESS)
            reply->is_success = f.value != 0;
        else if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__HAS_MORE)
            reply->has_more = f.value != 0;
        else if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__REPLY_PROTO)
            reply->body = f.bytes;
    }
    *failed = *failed || r.failed;
}

int pfl_ipc_parse_frame(struct pfl_span frame, struct pfl_ipc_reply *ret_reply)
{
    struct pfl_reader r = pfl_reader_of(frame);
    struct pfl_ipc_reply reply = {.kind = PFL_IPC_OTHER};
    struct pfl_field f;
    bool failed = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__REQUEST_ID && f.type == PFL_WIRE_VARINT) {
            reply.request_id = f.value;
        } else if (f.id == IPC_FRAME__MSG_BIND_SERVICE_REPLY && f.type == PFL_WIRE_BYTES) {
            reply.kind = PFL_IPC_BIND_REPLY;
            reply.body = f.bytes;
        } else if (f.id == IPC_FRAME__MSG_INVOKE_METHOD_REPLY && f.type == PFL_WIRE_BYTES) {
            reply.kind = PFL_IPC_INVOKE_REPLY;
            read_invoke_reply(f.bytes, &reply, &failed);
        } else if (f.id == IPC_FRAME__MSG_REQUEST_ERROR && f.type == PFL_WIRE_BYTES) {
            reply.kind = PFL_IPC_REQUEST_ERROR;
        }
    }
    if (r.failed || failed)
        return PFL_EPARSE;
    *ret_reply = reply;
    return 0;
}

static void read_method(struct pfl_span bytes, struct pfl_ipc_service *service)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_span name = {0};
    struct pfl_field f;
    uint32_t id = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__ID && f.type == PFL_WIRE_VARINT)
            id = (uint32_t)f.value;
        else if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__NAME &&
                 f.type == PFL_WIRE_BYTES)
            name = f.bytes;
    }
    for (uint32_t i = 0; i < PFL_IPC_METHODS; i++) {
        if (name.len == strlen(method_names[i]) &&
            memcmp(name.data, method_names[i], name.len) == 0)
            service->method_ids[i] = id;
    }
}

int pfl_ipc_parse_bind(struct pfl_span body, struct pfl_ipc_service *ret_service)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_ipc_service service = {0};
    struct pfl_field f;
    bool is_success = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__SUCCESS)
            is_success = f.value != 0;
        else if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__SERVICE_ID)
            service.service_id = (uint32_t)f.value;
        else if (f.id == IPC_FRAME__BIND_SERVICE_REPLY__METHODS && f.type == PFL_WIRE_BYTES)
            read_method(f.bytes, &service);
    }
    if (r.failed)
        return PFL_EPARSE;
    if (!is_success)
        return PFL_ENOENT;
    *ret_service = service;
    return 0;
}

static void add_id(struct pfl_ipc_command *cmd, uint64_t id)
{
    if (cmd->ids_len < PFL_IPC_IDS_MAX)
        cmd->ids[cmd->ids_len++] = id;
}

/* Repeated numbers come one by one or packed. */
static void add_ids(struct pfl_ipc_command *cmd, const struct pfl_field *f, bool *failed)
{
    struct pfl_reader r = pfl_reader_of(f->bytes);

    if (f->type == PFL_WIRE_VARINT) {
        add_id(cmd, f->value);
        return;
    }
    while (f->type == PFL_WIRE_BYTES && r.left > 0 && !r.failed) {
        uint64_t id = pfl_reader_varint(&r);

        if (!r.failed)
            add_id(cmd, id);
    }
    *failed = *failed || r.failed;
}

static void read_config_name(struct pfl_ipc_command *cmd, bool *failed)
{
    struct pfl_reader r = pfl_reader_of(cmd->config);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == DATA_SOURCE_CONFIG__NAME && f.type == PFL_WIRE_BYTES)
            cmd->name = f.bytes;
    }
    *failed = *failed || r.failed;
}

/* SetupDataSource has the fields of StartDataSource. */
static void read_command_field(struct pfl_ipc_command *cmd, const struct pfl_field *f, bool *failed)
{
    switch (cmd->kind) {
    case PFL_IPC_CMD_SETUP_TRACING:
        if (f->id == GET_ASYNC_COMMAND_RESPONSE__SETUP_TRACING__SHARED_BUFFER_PAGE_SIZE_KB)
            cmd->page_kb = f->value > UINT32_MAX ? UINT32_MAX : (uint32_t)f->value;
        break;
    case PFL_IPC_CMD_SETUP_DATA_SOURCE:
    case PFL_IPC_CMD_START_DATA_SOURCE:
        if (f->id == GET_ASYNC_COMMAND_RESPONSE__START_DATA_SOURCE__NEW_INSTANCE_ID)
            cmd->instance_id = f->value;
        else if (f->id == GET_ASYNC_COMMAND_RESPONSE__START_DATA_SOURCE__CONFIG &&
                 f->type == PFL_WIRE_BYTES)
            cmd->config = f->bytes;
        break;
    case PFL_IPC_CMD_STOP_DATA_SOURCE:
        if (f->id == GET_ASYNC_COMMAND_RESPONSE__STOP_DATA_SOURCE__INSTANCE_ID)
            cmd->instance_id = f->value;
        break;
    case PFL_IPC_CMD_FLUSH:
        if (f->id == GET_ASYNC_COMMAND_RESPONSE__FLUSH__REQUEST_ID)
            cmd->flush_id = f->value;
        else if (f->id == GET_ASYNC_COMMAND_RESPONSE__FLUSH__FLAGS)
            cmd->flush_flags = f->value;
        else if (f->id == GET_ASYNC_COMMAND_RESPONSE__FLUSH__DATA_SOURCE_IDS)
            add_ids(cmd, f, failed);
        break;
    case PFL_IPC_CMD_CLEAR_INCREMENTAL:
        if (f->id == GET_ASYNC_COMMAND_RESPONSE__CLEAR_INCREMENTAL_STATE__DATA_SOURCE_IDS)
            add_ids(cmd, f, failed);
        break;
    case PFL_IPC_CMD_UNKNOWN:
        break;
    }
}

static enum pfl_ipc_command_kind kind_of(uint32_t field)
{
    switch (field) {
    case GET_ASYNC_COMMAND_RESPONSE__START_DATA_SOURCE:
        return PFL_IPC_CMD_START_DATA_SOURCE;
    case GET_ASYNC_COMMAND_RESPONSE__STOP_DATA_SOURCE:
        return PFL_IPC_CMD_STOP_DATA_SOURCE;
    case GET_ASYNC_COMMAND_RESPONSE__SETUP_TRACING:
        return PFL_IPC_CMD_SETUP_TRACING;
    case GET_ASYNC_COMMAND_RESPONSE__FLUSH:
        return PFL_IPC_CMD_FLUSH;
    case GET_ASYNC_COMMAND_RESPONSE__SETUP_DATA_SOURCE:
        return PFL_IPC_CMD_SETUP_DATA_SOURCE;
    case GET_ASYNC_COMMAND_RESPONSE__CLEAR_INCREMENTAL_STATE:
        return PFL_IPC_CMD_CLEAR_INCREMENTAL;
    default:
        return PFL_IPC_CMD_UNKNOWN;
    }
}

int pfl_ipc_parse_command(struct pfl_span body, struct pfl_ipc_command *ret_command)
{
    struct pfl_reader outer = pfl_reader_of(body);
    struct pfl_reader inner = {0};
    struct pfl_field f;
    bool failed = false;

    ret_command->kind = PFL_IPC_CMD_UNKNOWN;
    ret_command->page_kb = 0;
    ret_command->instance_id = 0;
    ret_command->config = ret_command->name = pfl_span_of(NULL, 0);
    ret_command->flush_id = ret_command->flush_flags = 0;
    ret_command->ids_len = 0;
    while (pfl_reader_field(&outer, &f)) {
        if (f.type != PFL_WIRE_BYTES || kind_of(f.id) == PFL_IPC_CMD_UNKNOWN)
            continue;
        ret_command->kind = kind_of(f.id);
        inner = pfl_reader_of(f.bytes);
    }
    while (pfl_reader_field(&inner, &f))
        read_command_field(ret_command, &f, &failed);
    read_config_name(ret_command, &failed);
    return outer.failed || inner.failed || failed ? PFL_EPARSE : 0;
}
