/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The config of a session that waits for another's triggers: see trigger_wait.h.
 *
 * Happy path: the triggers are copied from the service's state into a CLONE_SNAPSHOT config with
 * the smallest buffer. Failures: a service that lists none; no memory. Limits: the buffer's.
 */
#include "consumer/host/trigger_wait.h"

#include "base/message.h"
#include "consumer/host/session_find.h"
#include "perfetto/service_state.fields.h"
#include "perfetto/trace_config.fields.h"
#include "proto/ipc/trigger_session.h"

#define LONGEST_MS 86400000u /* for a session whose service does not report its end */

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
    struct pfl_message m = pfl_message_of(out);
    bool has_any = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_TRIGGERS ||
            f.type != PFL_WIRE_BYTES)
            continue;
        pfl_message_bytes(&m, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGERS, f.bytes);
        has_any = true;
    }
    return m.rc != 0 || has_any ? m.rc : PFL_ENOENT;
}

int pfl_trigger_wait_encode(struct pfl_span state, const char *name, uint64_t margin_ms,
                            struct pfl_buf *out)
{
    struct pfl_span session;
    struct pfl_buf triggers;
    int rc;

    if (!pfl_session_get(state, name, &session))
        return PFL_ENOENT;
    pfl_buf_init(&triggers, PFL_TRIGGER_WAIT_MAX_BYTES);
    rc = add_triggers(session, &triggers);
    if (rc == 0)
        rc = pfl_trigger_session_encode(pfl_buf_get(&triggers),
                                        choose_timeout_ms(session, margin_ms), out);
    pfl_buf_fini(&triggers);
    return rc;
}
