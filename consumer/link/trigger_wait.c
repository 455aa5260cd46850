/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The config of a session that waits for another's triggers: see trigger_wait.h.
 *
 * Happy path: the triggers are copied from the service's state into a CLONE_SNAPSHOT config with
 * the smallest buffer. Failures: a service that lists none; no memory. Limits: the buffer's.
 */
#include "consumer/link/trigger_wait.h"

#include "consumer/link/session_find.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/service_state.fields.h"
#include "perfetto/trace_config.fields.h"

#define LONGEST_MS 86400000u /* for a session whose service does not report its end */

static int add_bytes(struct pfl_buf *out, uint32_t id, struct pfl_span bytes)
{
    uint8_t header[16];
    struct pfl_writer w = pfl_writer_of(header, sizeof(header));
    int rc;

    pfl_writer_field_header(&w, id, bytes.len);
    rc = pfl_buf_append(out, header, sizeof(header) - w.left);
    return rc == 0 ? pfl_buf_append(out, bytes.data, bytes.len) : rc;
}

static int add_varint(struct pfl_buf *out, uint32_t id, uint64_t value)
{
    uint8_t field[24];
    struct pfl_writer w = pfl_writer_of(field, sizeof(field));

    pfl_writer_field_varint(&w, id, value);
    return pfl_buf_append(out, field, sizeof(field) - w.left);
}

static uint64_t choose_timeout_ms(struct pfl_span session, uint64_t margin_ms)
{
    struct pfl_reader r = pfl_reader_of(session);
    uint64_t duration_ms = 0;
    uint64_t left_ms = UINT64_MAX;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_ENDS_IN_MS &&
            f.type == PFL_WIRE_VARINT)
            left_ms = f.value;
        if (f.id == TRACING_SERVICE_STATE__TRACING_SESSION__DURATION_MS &&
            f.type == PFL_WIRE_VARINT)
            duration_ms = (uint32_t)f.value;
    }
    if (left_ms == UINT64_MAX)
        left_ms = duration_ms != 0 ? duration_ms : LONGEST_MS;
    if (left_ms > UINT32_MAX)
        left_ms = UINT32_MAX;
    return left_ms > margin_ms ? left_ms - margin_ms : 1;
}

/* PFL_ENOENT: the session has none. */
static int add_triggers(struct pfl_span session, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(session);
    struct pfl_field f;
    bool has_any = false;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.id != TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_TRIGGERS ||
            f.type != PFL_WIRE_BYTES)
            continue;
        rc = add_bytes(out, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGERS, f.bytes);
        has_any = true;
    }
    return rc != 0 || has_any ? rc : PFL_ENOENT;
}

static int encode_config(struct pfl_span session, uint64_t margin_ms, struct pfl_buf *triggers,
                         struct pfl_buf *config)
{
    static const uint8_t buffer[] = {TRACE_CONFIG__BUFFER_CONFIG__SIZE_KB << 3, 4};
    int rc = add_triggers(session, triggers);

    if (rc == 0)
        rc = add_varint(triggers, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE,
                        TRACE_CONFIG__TRIGGER_CONFIG__CLONE_SNAPSHOT);
    if (rc == 0)
        rc = add_varint(triggers, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_TIMEOUT_MS,
                        choose_timeout_ms(session, margin_ms));
    if (rc == 0)
        rc = add_bytes(config, TRACE_CONFIG__BUFFERS, pfl_span_of(buffer, sizeof(buffer)));
    return rc == 0 ? add_bytes(config, TRACE_CONFIG__TRIGGER_CONFIG, pfl_buf_get(triggers)) : rc;
}

int pfl_trigger_wait_encode(struct pfl_span state, const char *name, uint64_t margin_ms,
                            struct pfl_buf *out)
{
    struct pfl_span session;
    struct pfl_buf triggers;
    struct pfl_buf config;
    int rc;

    if (!pfl_session_get(state, name, &session))
        return PFL_ENOENT;
    pfl_buf_init(&triggers, PFL_TRIGGER_WAIT_MAX_BYTES);
    pfl_buf_init(&config, PFL_TRIGGER_WAIT_MAX_BYTES);
    rc = encode_config(session, margin_ms, &triggers, &config);
    if (rc == 0)
        rc = add_bytes(out, ENABLE_TRACING_REQUEST__TRACE_CONFIG, pfl_buf_get(&config));
    pfl_buf_fini(&config);
    pfl_buf_fini(&triggers);
    return rc;
}
