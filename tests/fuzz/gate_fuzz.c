/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate between a hostile operator and a service. Whatever the operator says: what reaches the
 * service is whole frames of the operator's, in order and unchanged, and none that the role forbids
 * by a second, other reading of it (protobuf-c's); what reaches the operator is whole frames.
 * Layout: piece size, then records of direction (0 operator, 1 service), length (2 bytes), bytes.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "perfetto/consumer_port.pb-c.h"
#include "perfetto/ipc.pb-c.h"
#include "proto/gate/gate.h"
#include "proto/gate/role.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

#define ROOM (1u << 22)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfl_buf passed;

static int to_service(void *user, struct pfl_span bytes)
{
    (void)user;
    note_bytes("to the service", bytes);
    return pfl_buf_append(&passed, bytes.data, bytes.len);
}

static int to_operator(void *user, struct pfl_span bytes)
{
    (void)user;
    note_bytes("to the operator", bytes);
    return 0;
}

/* As a service would read it: no file, and no source but the role's. */
static void judge_config(const Perfetto__Protos__TraceConfig *config)
{
    if (config == NULL)
        return;
    if (config->output_path != NULL || config->write_into_file || config->duration_ms > 1000)
        abort();
    for (size_t i = 0; i < config->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceConfig *source = config->data_sources[i]->config;

        if (source == NULL || source->name == NULL || strcmp(source->name, "a") != 0)
            abort();
    }
}

static int on_passed(void *user, struct pfl_span payload)
{
    ProtobufCMessage *message;
    Perfetto__Protos__IPCFrame *frame;

    (void)user;
    if (pfl_proto_unpack(&perfetto__protos__ipcframe__descriptor, payload, &message) != 0)
        abort();
    frame = (Perfetto__Protos__IPCFrame *)message;
    if (frame->msg_case == PERFETTO__PROTOS__IPCFRAME__MSG_MSG_INVOKE_METHOD) {
        const Perfetto__Protos__IPCFrame__InvokeMethod *invoke = frame->msg_invoke_method;
        struct pfl_span args = pfl_span_of(invoke->args_proto.data, invoke->args_proto.len);
        ProtobufCMessage *request;

        /* The corpus's service calls EnableTracing 1. */
        if (invoke->method_id == 1 &&
            pfl_proto_unpack(&perfetto__protos__enable_tracing_request__descriptor, args,
                             &request) == 0) {
            judge_config(((Perfetto__Protos__EnableTracingRequest *)request)->trace_config);
            pfl_proto_free(request);
        }
    } else if (frame->msg_case != PERFETTO__PROTOS__IPCFRAME__MSG_MSG_BIND_SERVICE) {
        abort();
    }
    pfl_proto_free(message);
    return 0;
}

static void on_judged(void *user, enum pfl_method method, const char *why)
{
    (void)user;
    note("method %d: %s", method, why != NULL ? why : "allowed");
}

static int feed(struct pfl_gate *gate, bool is_service, struct pfl_span bytes, size_t piece)
{
    int rc = 0;

    while (rc == 0 && bytes.len != 0) {
        size_t len = piece < bytes.len ? piece : bytes.len;
        struct pfl_span part = pfl_span_of(bytes.data, len);

        rc = is_service ? pfl_gate_from_service(gate, part) : pfl_gate_from_operator(gate, part);
        bytes = pfl_span_of(bytes.data + len, bytes.len - len);
    }
    note("fed: %s", pfl_err_str(rc));
    return rc;
}

/* What the service says is not hostile: the one answer to a bind. */
static const uint8_t bind_answer[] = {
    0x1b, 0x00, 0x00, 0x00, 0x10, 0x01, 0x22, 0x17, 0x08, 0x01, 0x10, 0x01, 0x1a, 0x11, 0x08, 0x01,
    0x12, 0x0d, 0x45, 0x6e, 0x61, 0x62, 0x6c, 0x65, 0x54, 0x72, 0x61, 0x63, 0x69, 0x6e, 0x67};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t role[] = {0x0a, 1, 'r', 0x1a, 1, 'a', 0x28, 0xe8, 0x07};
    struct pfl_gate_conf conf = {.role = pfl_span_of(role, sizeof(role)),
                                 .to_service = to_service,
                                 .to_operator = to_operator,
                                 .on_judged = on_judged};
    struct pfl_frame_reader frames;
    struct pfl_gate *gate;
    struct pfl_mem_stats before;
    struct pfl_mem_stats after;

    if (size < 2)
        return 0;
    pfl_mem_stats_get(&before);
    pfl_buf_init(&passed, ROOM);
    pfl_frame_reader_init(&frames);
    if (pfl_gate_new(&conf, &gate) != 0)
        abort();
    /* A bind of ours first, so that requests can be reached. */
    (void)!feed(gate, false,
                pfl_span_of("\x12\0\0\0\x10\x01\x1a\x0e\x0a\x0c"
                            "ConsumerPort",
                            22),
                64);
    (void)!feed(gate, true, pfl_span_of(bind_answer, sizeof(bind_answer)), 7);
    (void)!feed(gate, false, pfl_span_of(data + 1, size - 1), data[0] + 1u);
    if (pfl_frame_reader_feed(&frames, pfl_buf_get(&passed), on_passed, NULL) != 0 ||
        frames.partial.len != 0)
        abort();
    pfl_gate_free(gate);
    pfl_frame_reader_fini(&frames);
    pfl_buf_fini(&passed);
    pfl_mem_stats_get(&after);
    if (before.live_blocks != after.live_blocks)
        abort();
    return 0;
}
