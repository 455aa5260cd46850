/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a VM's state as a message.
 *
 * Fields come in the order of their ids, elements in the order of their index or key; empty values
 * are left out. Four bytes are reserved for a nested message's length and filled in at its end; a
 * short message is moved to a length of one byte. So each byte is moved a bounded number of times
 * at any depth.
 * Failures: PFL_ENOMEM, PFL_ELIMIT of the buffer, and PFL_ELIMIT of a nested message of 2^28 bytes
 * and more. Borrowed: everything.
 */
#include "service/vm/vm_value.h"

#define LENGTH_BYTES 4u
#define LENGTH_MAX   ((1u << 28) - 1)
#define SHORT_MAX    127u

static int encode_value(struct pfl_buf *buf, uint32_t id, const struct pfl_vm_value *value);

static int append_number(struct pfl_buf *buf, uint32_t id, const struct pfl_vm_value *value)
{
    uint8_t bytes[2 * PFL_VARINT_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    if (value->wire_type == PFL_WIRE_FIXED32)
        pfl_writer_field_fixed32(&w, id, (uint32_t)value->as.number);
    else if (value->wire_type == PFL_WIRE_FIXED64)
        pfl_writer_field_fixed64(&w, id, value->as.number);
    else
        pfl_writer_field_varint(&w, id, value->as.number);
    return pfl_buf_append(buf, bytes, sizeof(bytes) - w.left);
}

static int append_bytes(struct pfl_buf *buf, uint32_t id, const struct pfl_vm_value *value)
{
    uint8_t bytes[2 * PFL_VARINT_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    int rc;

    pfl_writer_field_header(&w, id, value->as.bytes.len);
    rc = pfl_buf_append(buf, bytes, sizeof(bytes) - w.left);
    if (rc == 0 && value->as.bytes.len != 0)
        rc = pfl_buf_append(buf, value->as.bytes.data, value->as.bytes.len);
    return rc;
}

static int append_fields(struct pfl_buf *buf, const struct pfl_vm_map *fields)
{
    const struct pfl_vm_entry *it;
    int rc = 0;

    for (it = pfl_vm_map_from(fields, 0); rc == 0 && it != NULL; it = pfl_vm_map_after(fields, it))
        rc = encode_value(buf, (uint32_t)it->key, &it->value);
    return rc;
}

/* Behind the content: its length, before it. */
static int close_message(struct pfl_buf *buf, size_t mark)
{
    uint8_t *length = buf->data + buf->start + mark;
    size_t len = buf->len - mark - LENGTH_BYTES;

    if (len > LENGTH_MAX)
        return PFL_ELIMIT;
    if (len <= SHORT_MAX) {
        length[0] = (uint8_t)len;
        memmove(length + 1, length + LENGTH_BYTES, len);
        buf->len -= LENGTH_BYTES - 1;
        return 0;
    }
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        length[i] = (uint8_t)((len >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
    return 0;
}

static int append_message(struct pfl_buf *buf, uint32_t id, const struct pfl_vm_value *value)
{
    uint8_t head[PFL_VARINT_MAX_BYTES + LENGTH_BYTES] = {0};
    size_t tag_len = pfl_varint_put(head, (uint64_t)id << 3 | PFL_WIRE_BYTES);
    int rc = pfl_buf_append(buf, head, tag_len + LENGTH_BYTES);
    size_t mark;

    if (rc != 0)
        return rc;
    mark = buf->len - LENGTH_BYTES;
    rc = append_fields(buf, &value->as.map);
    return rc != 0 ? rc : close_message(buf, mark);
}

static int append_elements(struct pfl_buf *buf, uint32_t id, const struct pfl_vm_map *elements)
{
    const struct pfl_vm_entry *it;
    int rc = 0;

    for (it = pfl_vm_map_from(elements, 0); rc == 0 && it != NULL;
         it = pfl_vm_map_after(elements, it))
        rc = encode_value(buf, id, &it->value);
    return rc;
}

static int encode_value(struct pfl_buf *buf, uint32_t id, const struct pfl_vm_value *value)
{
    switch (value->kind) {
    case PFL_VM_NUMBER:
        return append_number(buf, id, value);
    case PFL_VM_BYTES:
        return append_bytes(buf, id, value);
    case PFL_VM_MESSAGE:
        return append_message(buf, id, value);
    case PFL_VM_INDEXED:
    case PFL_VM_MAPPED:
        return append_elements(buf, id, &value->as.map);
    default:
        return 0;
    }
}

int pfl_vm_value_encode(const struct pfl_vm_value *self, struct pfl_buf *buf)
{
    if (self->kind == PFL_VM_BYTES && self->as.bytes.len != 0)
        return pfl_buf_append(buf, self->as.bytes.data, self->as.bytes.len);
    if (self->kind == PFL_VM_MESSAGE)
        return append_fields(buf, &self->as.map);
    return 0;
}
