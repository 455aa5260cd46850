/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses packets and answers of clones: see clone_response.h. Happy path: a packet of the service's
 * own sequence is recognized by its content's field; statistics are copied except one field.
 * Failure: a malformed message. Nothing is kept.
 */
#include "consumer/proxy/clone_response.h"

#include <string.h>

#include "base/message.h"
#include "consumer/proxy/message_copy.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "perfetto/trace_stats.fields.h"
#include "proto/packet.h"

enum {
    SERVICE_SEQUENCE = 1,
};

static bool is_service_packet(uint32_t id)
{
    return id == TRACE_PACKET__TRACE_UUID || id == TRACE_PACKET__SERVICE_EVENT ||
           id == TRACE_PACKET__TRIGGER || id == TRACE_PACKET__CLONE_SNAPSHOT_TRIGGER ||
           id == TRACE_PACKET__TRACE_STATS;
}

static bool is_of_writers(const struct pfl_field *f)
{
    return f->id == TRACE_STATS__WRITER_STATS;
}

static bool is_stats(const struct pfl_field *f)
{
    return f->id == TRACE_PACKET__TRACE_STATS && f->type == PFL_WIRE_BYTES;
}

int pfl_clone_response_take_packet(struct pfl_span packet, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;
    uint64_t sequence = 0;
    size_t kept = 0;
    bool is_wanted = false;
    int rc;

    while (pfl_reader_field(&r, &f)) {
        is_wanted = is_wanted || is_service_packet(f.id);
        if (f.id == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID)
            sequence = f.value;
        kept += is_stats(&f) ? pfl_message_copy_bytes(f.id, f.bytes, is_of_writers) : f.raw.len;
    }
    if (r.failed)
        return PFL_EPARSE;
    if (!is_wanted || sequence != SERVICE_SEQUENCE)
        return 0;
    rc = pfl_message_append_header(out, TRACE__PACKET, kept);
    r = pfl_reader_of(packet);
    while (rc == 0 && pfl_reader_field(&r, &f))
        rc = is_stats(&f) ? pfl_message_copy_append(f.id, f.bytes, is_of_writers, out)
                          : pfl_buf_append(out, f.raw.data, f.raw.len);
    return rc;
}

int pfl_clone_response_parse(struct pfl_span body, struct pfl_clone_response *ret_answer)
{
    struct pfl_clone_response answer = {0};
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == CLONE_SESSION_RESPONSE__SUCCESS)
            answer.is_ok = f.value != 0;
        else if (f.id == CLONE_SESSION_RESPONSE__UUID_LSB)
            answer.uuid_lsb = f.value;
        else if (f.id == CLONE_SESSION_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES)
            answer.is_for_descriptor = memmem(f.bytes.data, f.bytes.len, "descriptor", 10) != NULL;
    }
    if (r.failed)
        return PFL_EPARSE;
    *ret_answer = answer;
    return 0;
}

/* The last of a field's values is the one that counts. */
int pfl_clone_response_mark(struct pfl_buf *body)
{
    static const uint8_t mark[] = {CLONE_SESSION_RESPONSE__WAS_WRITE_INTO_FILE << 3, 1};

    return pfl_buf_append(body, mark, sizeof(mark));
}

int pfl_clone_response_refuse(const char *why, struct pfl_buf *out)
{
    static const uint8_t no_success[] = {CLONE_SESSION_RESPONSE__SUCCESS << 3, 0};
    size_t len = strlen(why);
    int rc = pfl_buf_append(out, no_success, sizeof(no_success));

    if (rc == 0)
        rc = pfl_message_append_header(out, CLONE_SESSION_RESPONSE__ERROR, len);
    return rc != 0 ? rc : pfl_buf_append(out, why, len);
}
