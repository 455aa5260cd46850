/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file is: see file_kind.h. A trace of packets begins with the tag and the length of its
 * first packet, which begins with the tag of a field of TracePacket. Failure: UNKNOWN. No state.
 */
#include "consumer/open/file_kind.h"

#include <string.h>

#define TAR_MAGIC_AT 257u

static bool begins(struct pfl_span head, const char *magic, size_t len)
{
    return head.len >= len && memcmp(head.data, magic, len) == 0;
}

static bool is_packets(struct pfl_span head)
{
    struct pfl_reader r = pfl_reader_of(head);
    uint64_t tag = pfl_reader_varint(&r);
    uint64_t len = pfl_reader_varint(&r);
    uint64_t field;

    if (r.failed || tag != ((1u << 3) | PFL_WIRE_BYTES))
        return false;
    if (len == 0)
        return true;
    field = pfl_reader_varint(&r);
    return !r.failed && field >> 3 != 0 && field >> 32 == 0 &&
           ((field & 7) == PFL_WIRE_VARINT || (field & 7) == PFL_WIRE_FIXED64 ||
            (field & 7) == PFL_WIRE_BYTES || (field & 7) == PFL_WIRE_FIXED32);
}

static bool is_tar(struct pfl_span head)
{
    return head.len >= TAR_MAGIC_AT + 5 && memcmp(head.data + TAR_MAGIC_AT, "ustar", 5) == 0;
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static struct pfl_span skip_space(struct pfl_span head)
{
    while (head.len != 0 && is_space(head.data[0])) {
        head.data++;
        head.len--;
    }
    return head;
}

enum pfl_file_kind pfl_file_kind_find(struct pfl_span head)
{
    struct pfl_span text = skip_space(head);

    if (head.len == 0)
        return PFL_FILE_KIND_EMPTY;
    if (begins(head, "\x1f\x8b", 2) || begins(head, "\x28\xb5\x2f\xfd", 4))
        return PFL_FILE_KIND_COMPRESSED;
    if (begins(head, "PK\x03\x04", 4) || is_tar(head))
        return PFL_FILE_KIND_ARCHIVE;
    if (is_packets(head))
        return PFL_FILE_KIND_PACKETS;
    if (begins(text, "{", 1) || begins(text, "[", 1))
        return PFL_FILE_KIND_JSON;
    if (begins(text, "# tracer", 8) || begins(text, "TRACE:", 6))
        return PFL_FILE_KIND_TEXT;
    return PFL_FILE_KIND_UNKNOWN;
}
