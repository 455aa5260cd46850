/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded unpacking: see unpack.h.
 *
 * Happy path: one walk over the bytes by the descriptor proves that the nesting is shallow enough
 * for protobuf-c's recursion; then protobuf-c unpacks with an allocator that counts.
 *
 * Failures: protobuf-c does not give a reason; the allocator notes whether the limit or memory was
 * the cause, else the message is malformed. Nothing stays allocated.
 */
#include "proto/unpack.h"

#include "base/mem.h"

struct budget {
    size_t left_bytes;
    bool is_spent;
    bool is_out_of_memory;
};

static void *alloc_counted(void *user, size_t size)
{
    struct budget *b = user;
    void *block;

    if (size > b->left_bytes) {
        b->is_spent = true;
        return NULL;
    }
    block = pfl_mem_alloc(size);
    if (block == NULL)
        b->is_out_of_memory = true;
    else
        b->left_bytes -= size;
    return block;
}

static void free_counted(void *user, void *block)
{
    (void)user;
    pfl_mem_free(block);
}

/* False on malformed bytes too: what we and protobuf-c read differently could hide a nesting. */
static bool is_shallow(const ProtobufCMessageDescriptor *type, struct pfl_span bytes,
                       unsigned depth_left)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    if (depth_left == 0)
        return false;
    while (pfl_reader_field(&r, &f)) {
        const ProtobufCFieldDescriptor *field;

        if (f.type != PFL_WIRE_BYTES)
            continue;
        field = protobuf_c_message_descriptor_get_field(type, f.id);
        if (field == NULL || field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (!is_shallow(field->descriptor, f.bytes, depth_left - 1))
            return false;
    }
    return !r.failed;
}

int pfl_proto_unpack(const ProtobufCMessageDescriptor *type, struct pfl_span bytes,
                     ProtobufCMessage **ret_message)
{
    struct budget budget = {.left_bytes = PFL_PROTO_MAX_MEM_BYTES};
    ProtobufCAllocator allocator = {alloc_counted, free_counted, &budget};
    ProtobufCMessage *message;

    if (!is_shallow(type, bytes, PFL_PROTO_MAX_DEPTH))
        return PFL_EPARSE;
    message = protobuf_c_message_unpack(type, &allocator, bytes.len, bytes.data);
    if (message != NULL) {
        *ret_message = message;
        return 0;
    }
    if (budget.is_out_of_memory)
        return PFL_ENOMEM;
    return budget.is_spent ? PFL_ELIMIT : PFL_EPARSE;
}

void pfl_proto_free(ProtobufCMessage *message)
{
    ProtobufCAllocator allocator = {alloc_counted, free_counted, NULL};

    if (message != NULL)
        protobuf_c_message_free_unpacked(message, &allocator);
}

int pfl_proto_pack(const ProtobufCMessage *message, struct pfl_buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *room;
    int rc;

    if (len == 0)
        return 0;
    rc = pfl_buf_reserve(out, len, &room);
    if (rc != 0)
        return rc;
    pfl_buf_extend(out, protobuf_c_message_pack(message, room));
    return 0;
}
