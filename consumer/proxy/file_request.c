/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes write_into_file and its options from a request. Happy path: the config is copied field by
 * field, its buffers too; everything else of the request stays. Failure: a malformed request.
 */
#include "consumer/proxy/file_request.h"

#include "base/message.h"
#include "consumer/proxy/message_copy.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_config.fields.h"

enum {
    IDENTITY_MAX_BYTES = 24,
};

/* The config's request for a file, which may be none. */
static int read_config(struct pfl_span config, struct pfl_file_request *file_request)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    bool has_path = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__WRITE_INTO_FILE)
            file_request->is_requested = f.value != 0;
        else if (f.id == TRACE_CONFIG__FILE_WRITE_PERIOD_MS && f.value != 0)
            file_request->period_ms = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__MAX_FILE_SIZE_BYTES)
            file_request->max_bytes = f.value;
        else if (f.id == TRACE_CONFIG__TRACE_UUID_MSB)
            file_request->uuid_msb = f.value;
        else if (f.id == TRACE_CONFIG__TRACE_UUID_LSB)
            file_request->uuid_lsb = f.value;
        else if (f.id == TRACE_CONFIG__OUTPUT_PATH)
            has_path = f.bytes.len != 0;
    }
    file_request->is_requested = file_request->is_requested && !has_path;
    if (file_request->period_ms < PFL_FILE_REQUEST_MIN_PERIOD_MS)
        file_request->period_ms = PFL_FILE_REQUEST_MIN_PERIOD_MS;
    return r.failed ? PFL_EPARSE : 0;
}

static bool is_of_file(uint32_t id)
{
    return id == TRACE_CONFIG__WRITE_INTO_FILE || id == TRACE_CONFIG__FILE_WRITE_PERIOD_MS ||
           id == TRACE_CONFIG__MAX_FILE_SIZE_BYTES || id == TRACE_CONFIG__WRITE_FLUSH_MODE ||
           id == TRACE_CONFIG__FFLUSH_POST_WRITE;
}

static bool is_buffer(const struct pfl_field *f)
{
    return f->id == TRACE_CONFIG__BUFFERS && f->type == PFL_WIRE_BYTES;
}

static bool is_of_clones(const struct pfl_field *f)
{
    return f->id == TRACE_CONFIG__BUFFER_CONFIG__TRANSFER_ON_CLONE ||
           f->id == TRACE_CONFIG__BUFFER_CONFIG__CLEAR_BEFORE_CLONE;
}

static size_t measure_field(const struct pfl_field *f)
{
    if (is_buffer(f))
        return pfl_message_copy_bytes(f->id, f->bytes, is_of_clones);
    return is_of_file(f->id) ? 0 : f->raw.len;
}

static int append_field(const struct pfl_field *f, struct pfl_buf *out)
{
    if (is_buffer(f))
        return pfl_message_copy_append(f->id, f->bytes, is_of_clones, out);
    return is_of_file(f->id) ? 0 : pfl_buf_append(out, f->raw.data, f->raw.len);
}

/* The config, with `more` fields behind its own. */
static int append_config(struct pfl_span config, struct pfl_span more, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    size_t kept = more.len;
    int rc;

    while (pfl_reader_field(&r, &f))
        kept += measure_field(&f);
    rc = pfl_message_append_header(out, ENABLE_TRACING_REQUEST__TRACE_CONFIG, kept);
    r = pfl_reader_of(config);
    while (rc == 0 && pfl_reader_field(&r, &f))
        rc = append_field(&f, out);
    return rc == 0 ? pfl_buf_append(out, more.data, more.len) : rc;
}

/* What makes `random` the trace's identity, unless it has one. */
static struct pfl_span encode_identity(const uint64_t random[2],
                                       struct pfl_file_request *file_request,
                                       uint8_t bytes[IDENTITY_MAX_BYTES])
{
    struct pfl_writer w = pfl_writer_of(bytes, IDENTITY_MAX_BYTES);

    if (file_request->uuid_msb == 0 && file_request->uuid_lsb == 0) {
        file_request->uuid_msb = (random[0] & ~0xf000ull) | 0x4000ull; /* RFC 4122, version 4 */
        file_request->uuid_lsb = (random[1] & ~(3ull << 62)) | (2ull << 62);
        pfl_writer_field_varint(&w, TRACE_CONFIG__TRACE_UUID_MSB, file_request->uuid_msb);
        pfl_writer_field_varint(&w, TRACE_CONFIG__TRACE_UUID_LSB, file_request->uuid_lsb);
    }
    return pfl_span_of(bytes, IDENTITY_MAX_BYTES - w.left);
}

int pfl_file_request_take(struct pfl_span request, const uint64_t random[2], struct pfl_buf *out,
                          struct pfl_file_request *ret_file_request)
{
    uint8_t bytes[IDENTITY_MAX_BYTES];
    struct pfl_span identity;
    struct pfl_file_request file_request = {.period_ms = PFL_FILE_REQUEST_PERIOD_MS};
    struct pfl_reader r = pfl_reader_of(request);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == ENABLE_TRACING_REQUEST__TRACE_CONFIG && f.type == PFL_WIRE_BYTES)
            rc = read_config(f.bytes, &file_request);
    if (rc == 0 && r.failed)
        rc = PFL_EPARSE;
    identity = encode_identity(random, &file_request, bytes);
    r = pfl_reader_of(request);
    while (rc == 0 && file_request.is_requested && pfl_reader_field(&r, &f))
        rc = f.id == ENABLE_TRACING_REQUEST__TRACE_CONFIG && f.type == PFL_WIRE_BYTES
                 ? append_config(f.bytes, identity, out)
                 : pfl_buf_append(out, f.raw.data, f.raw.len);
    if (rc == 0)
        *ret_file_request = file_request;
    return rc;
}
