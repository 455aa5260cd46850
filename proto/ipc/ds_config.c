/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits a serialized DataSourceConfig without decoding it: see ds_config.h.
 *
 * Happy path: fields the service owns are left out, all others are copied in their order, and the
 * service's values are appended, the zero ones too (producers see them present).
 *
 * Failures: malformed bytes, `out` full, out of memory; `out` gets its old length. A message that
 * contains a sub-message twice is refused: readers interpret it differently.
 */
#include "proto/ipc/ds_config.h"

#include <assert.h>

#include "perfetto/data_source_config.fields.h"
#include "perfetto/trace_config.fields.h"

#define OVERRIDES_MAX_BYTES 64u

int pfl_ds_config_find(struct pfl_span message, uint32_t id, struct pfl_span *ret)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_span found = {NULL, 0};
    struct pfl_field f;
    unsigned n = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id && f.type == PFL_WIRE_BYTES) {
            found = f.bytes;
            n++;
        }
    }
    if (r.failed || n > 1)
        return PFL_EPARSE;
    if (n == 0)
        return PFL_ENOENT;
    *ret = found;
    return 0;
}

int pfl_ds_config_next(struct pfl_reader *trace_config, struct pfl_span *ret_config)
{
    struct pfl_field f;

    while (pfl_reader_field(trace_config, &f)) {
        int rc;

        if (f.id != TRACE_CONFIG__DATA_SOURCES || f.type != PFL_WIRE_BYTES)
            continue;
        rc = pfl_ds_config_find(f.bytes, TRACE_CONFIG__DATA_SOURCE__CONFIG, ret_config);
        if (rc == PFL_ENOENT)
            *ret_config = pfl_span_of(NULL, 0);
        return rc == PFL_ENOENT ? 0 : rc;
    }
    return trace_config->failed ? PFL_EPARSE : PFL_EEOF;
}

static bool is_service_owned(uint32_t id, const struct pfl_ds_config_overrides *o)
{
    switch (id) {
    case DATA_SOURCE_CONFIG__TARGET_BUFFER:
    case DATA_SOURCE_CONFIG__TRACE_DURATION_MS:
    case DATA_SOURCE_CONFIG__TRACING_SESSION_ID:
    case DATA_SOURCE_CONFIG__ENABLE_EXTRA_GUARDRAILS:
    case DATA_SOURCE_CONFIG__STOP_TIMEOUT_MS:
    case DATA_SOURCE_CONFIG__SESSION_INITIATOR:
        return true;
    case DATA_SOURCE_CONFIG__PREFER_SUSPEND_CLOCK_FOR_DURATION:
        return o->prefer_suspend_clock_for_duration;
    default:
        return false;
    }
}

static int append_overrides(const struct pfl_ds_config_overrides *o, struct pfl_buf *out)
{
    uint8_t bytes[OVERRIDES_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, DATA_SOURCE_CONFIG__TARGET_BUFFER, o->target_buffer);
    pfl_writer_field_varint(&w, DATA_SOURCE_CONFIG__TRACE_DURATION_MS, o->trace_duration_ms);
    pfl_writer_field_varint(&w, DATA_SOURCE_CONFIG__TRACING_SESSION_ID, o->tracing_session_id);
    pfl_writer_field_varint(&w, DATA_SOURCE_CONFIG__ENABLE_EXTRA_GUARDRAILS,
                            o->enable_extra_guardrails);
    pfl_writer_field_varint(&w, DATA_SOURCE_CONFIG__STOP_TIMEOUT_MS, o->stop_timeout_ms);
    pfl_writer_field_varint(&w, DATA_SOURCE_CONFIG__SESSION_INITIATOR, o->session_initiator);
    if (o->prefer_suspend_clock_for_duration)
        pfl_writer_field_varint(&w, DATA_SOURCE_CONFIG__PREFER_SUSPEND_CLOCK_FOR_DURATION, 1);
    assert(!w.failed);
    return pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
}

int pfl_ds_config_rewrite(struct pfl_span raw, const struct pfl_ds_config_overrides *overrides,
                          struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(raw);
    size_t len_before = out->len;
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (!is_service_owned(f.id, overrides))
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    }
    if (rc == 0)
        rc = r.failed ? PFL_EPARSE : append_overrides(overrides, out);
    if (rc != 0)
        out->len = len_before;
    return rc;
}
