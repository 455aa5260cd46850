/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses a message type, the rest is unpacked as one. What is accepted is packed,
 * unpacked and packed again: the two packed forms must be equal.
 */
#include <stdlib.h>

#include "perfetto/consumer_port.pb-c.h"
#include "perfetto/producer_port.pb-c.h"
#include "perfetto/relay_port.pb-c.h"
#include "perfetto/trace_packet.pb-c.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX_BYTES (4u << 20)
#define P(message)    &perfetto__protos__##message##__descriptor

static const ProtobufCMessageDescriptor *const types[] = {
    P(enable_tracing_request),
    P(change_trace_config_request),
    P(flush_request),
    P(read_buffers_response),
    P(clone_session_request),
    P(query_service_state_response),
    P(observe_events_response),
    P(get_trace_stats_response),
    P(initialize_connection_request),
    P(register_data_source_request),
    P(get_async_command_response),
    P(activate_triggers_request),
    P(init_relay_request),
    P(sync_clock_request),
    P(trace_packet),
};

static bool unpack_and_pack(const ProtobufCMessageDescriptor *type, struct pfl_span bytes,
                            struct pfl_buf *out)
{
    ProtobufCMessage *message;
    int rc = pfl_proto_unpack(type, bytes, &message);

    if (rc != 0)
        return false;
    rc = pfl_proto_pack(message, out);
    pfl_proto_free(message);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *type;
    struct pfl_buf once;
    struct pfl_buf again;

    if (size == 0)
        return 0;
    type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
    pfl_buf_init(&once, OUT_MAX_BYTES);
    pfl_buf_init(&again, OUT_MAX_BYTES);
    if (unpack_and_pack(type, pfl_span_of(data + 1, size - 1), &once) &&
        unpack_and_pack(type, pfl_buf_get(&once), &again) &&
        (once.len != again.len ||
         (once.len != 0 &&
          memcmp(pfl_buf_get(&once).data, pfl_buf_get(&again).data, once.len) != 0)))
        abort();
    note_message("packed", pfl_buf_get(&once));
    pfl_buf_fini(&once);
    pfl_buf_fini(&again);
    return 0;
}
