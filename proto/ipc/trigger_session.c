/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that waits for triggers: see trigger_session.h. Its mode is CLONE_SNAPSHOT, which tells
 * of a trigger without an effect on the session; its buffer is the smallest. Failures: the
 * buffer's.
 */
#include "proto/ipc/trigger_session.h"

#include "base/message.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_config.fields.h"

#define BUFFER_KB 4u

int pfl_trigger_session_encode(struct pfl_span triggers, uint64_t timeout_ms, struct pfl_buf *out)
{
    struct pfl_message m = pfl_message_of(out);
    size_t config = pfl_message_begin(&m, ENABLE_TRACING_REQUEST__TRACE_CONFIG);
    size_t part = pfl_message_begin(&m, TRACE_CONFIG__BUFFERS);

    pfl_message_varint(&m, TRACE_CONFIG__BUFFER_CONFIG__SIZE_KB, BUFFER_KB);
    pfl_message_end(&m, part);
    part = pfl_message_begin(&m, TRACE_CONFIG__TRIGGER_CONFIG);
    pfl_message_varint(&m, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE,
                       TRACE_CONFIG__TRIGGER_CONFIG__CLONE_SNAPSHOT);
    pfl_message_raw(&m, triggers);
    pfl_message_varint(&m, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_TIMEOUT_MS, timeout_ms);
    pfl_message_end(&m, part);
    pfl_message_end(&m, config);
    return m.rc;
}
