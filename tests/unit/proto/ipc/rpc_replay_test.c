/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every recorded conversation through our two sides: what real clients sent is understood by the
 * host, message by message; what the real service answered is understood by the client.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "perfetto/commit_data.pb-c.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/consumer_port.pb-c.h"
#include "perfetto/ipc.fields.h"
#include "perfetto/producer_port.pb-c.h"
#include "proto/ipc/commit_data.h"
#include "proto/ipc/ds_config.h"
#include "proto/ipc/rpc_client.h"
#include "proto/ipc/rpc_host.h"
#include "proto/unpack.h"
#include "tests/support/capture.h"
#include "tests/support/sweep.h"

#define P(message) &perfetto__protos__##message##__descriptor

struct replay {
    struct pfl_rpc_host host;
    struct pfl_rpc_client *client;
    unsigned calls;
    unsigned binds;
    unsigned commits;
    unsigned configs;
    unsigned replies;
    unsigned refusals; /* by our host */
    /* What the client side has to send next, from the host side's view of the same frame. */
    bool was_bind;
    size_t method;
    struct pfl_span args;
    bool drop_reply;
};

static void assert_unpacks(const ProtobufCMessageDescriptor *type, struct pfl_span bytes)
{
    ProtobufCMessage *message;

    if (pfl_proto_unpack(type, bytes, &message) != 0)
        fail_msg("%s of %zu bytes cannot be unpacked", type->name, bytes.len);
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        fail_msg("%s: field %u is not in the schema", type->name, message->unknown_fields[i].tag);
    pfl_proto_free(message);
}

static int note_call(struct replay *r, struct pfl_rpc_request request, struct pfl_span args,
                     size_t method)
{
    r->calls++;
    r->method = method;
    r->args = args;
    r->drop_reply = request.drop_reply;
    return 0;
}

/* A handler for each method, which unpacks its request. */
#define HANDLER(name, request_type, index)                                                         \
    static int on_##name(void *user, struct pfl_rpc_request request, struct pfl_span args)         \
    {                                                                                              \
        assert_unpacks(P(request_type##_request), args);                                           \
        return note_call(user, request, args, index);                                              \
    }

HANDLER(disable_tracing, disable_tracing, 1)
HANDLER(read_buffers, read_buffers, 2)
HANDLER(free_buffers, free_buffers, 3)
HANDLER(flush, flush, 4)
HANDLER(start_tracing, start_tracing, 5)
HANDLER(change_trace_config, change_trace_config, 6)
HANDLER(detach, detach, 7)
HANDLER(attach, attach, 8)
HANDLER(get_trace_stats, get_trace_stats, 9)
HANDLER(observe_events, observe_events, 10)
HANDLER(query_service_state, query_service_state, 11)
HANDLER(query_capabilities, query_capabilities, 12)
HANDLER(save_trace_for_bugreport, save_trace_for_bugreport, 13)
HANDLER(clone_session, clone_session, 14)

HANDLER(initialize_connection, initialize_connection, 0)
HANDLER(register_data_source, register_data_source, 1)
HANDLER(unregister_data_source, unregister_data_source, 2)
HANDLER(get_async_command, get_async_command, 4)
HANDLER(register_trace_writer, register_trace_writer, 5)
HANDLER(unregister_trace_writer, unregister_trace_writer, 6)
HANDLER(notify_data_source_started, notify_data_source_started, 7)
HANDLER(notify_data_source_stopped, notify_data_source_stopped, 8)
HANDLER(activate_triggers, activate_triggers, 9)
HANDLER(sync, sync, 10)
HANDLER(update_data_source, update_data_source, 11)

/* The raw configs are those that protobuf-c sees. */
static int on_enable_tracing(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct replay *r = user;
    struct pfl_span config;
    struct pfl_span raw;
    struct pfl_reader reader;
    int rc;

    assert_unpacks(P(enable_tracing_request), args);
    rc = pfl_ds_config_find(args, ENABLE_TRACING_REQUEST__TRACE_CONFIG, &config);
    reader = pfl_reader_of(config);
    while (rc == 0 && (rc = pfl_ds_config_next(&reader, &raw)) == 0) {
        assert_unpacks(P(data_source_config), raw);
        r->configs++;
    }
    assert_true(rc == PFL_EEOF || rc == PFL_ENOENT);
    return note_call(r, request, args, 0);
}

static int on_commit_data(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const struct pfl_commit_data_visitor nobody = {0};
    struct replay *r = user;
    uint64_t flush;

    assert_int_equal(pfl_commit_data_read(args, &nobody, &flush), 0);
    assert_unpacks(P(commit_data_request), args);
    r->commits++;
    return note_call(r, request, args, 3);
}

static const struct pfl_rpc_method consumer_methods[] = {
    {"EnableTracing", on_enable_tracing},
    {"DisableTracing", on_disable_tracing},
    {"ReadBuffers", on_read_buffers},
    {"FreeBuffers", on_free_buffers},
    {"Flush", on_flush},
    {"StartTracing", on_start_tracing},
    {"ChangeTraceConfig", on_change_trace_config},
    {"Detach", on_detach},
    {"Attach", on_attach},
    {"GetTraceStats", on_get_trace_stats},
    {"ObserveEvents", on_observe_events},
    {"QueryServiceState", on_query_service_state},
    {"QueryCapabilities", on_query_capabilities},
    {"SaveTraceForBugreport", on_save_trace_for_bugreport},
    {"CloneSession", on_clone_session},
};
static const ProtobufCMessageDescriptor *const consumer_responses[] = {
    P(enable_tracing_response),
    P(disable_tracing_response),
    P(read_buffers_response),
    P(free_buffers_response),
    P(flush_response),
    P(start_tracing_response),
    P(change_trace_config_response),
    P(detach_response),
    P(attach_response),
    P(get_trace_stats_response),
    P(observe_events_response),
    P(query_service_state_response),
    P(query_capabilities_response),
    P(save_trace_for_bugreport_response),
    P(clone_session_response),
};
static const struct pfl_rpc_method producer_methods[] = {
    {"InitializeConnection", on_initialize_connection},
    {"RegisterDataSource", on_register_data_source},
    {"UnregisterDataSource", on_unregister_data_source},
    {"CommitData", on_commit_data},
    {"GetAsyncCommand", on_get_async_command},
    {"RegisterTraceWriter", on_register_trace_writer},
    {"UnregisterTraceWriter", on_unregister_trace_writer},
    {"NotifyDataSourceStarted", on_notify_data_source_started},
    {"NotifyDataSourceStopped", on_notify_data_source_stopped},
    {"ActivateTriggers", on_activate_triggers},
    {"Sync", on_sync},
    {"UpdateDataSource", on_update_data_source},
};
static const ProtobufCMessageDescriptor *const producer_responses[] = {
    P(initialize_connection_response),
    P(register_data_source_response),
    P(unregister_data_source_response),
    P(commit_data_response),
    P(get_async_command_response),
    P(register_trace_writer_response),
    P(unregister_trace_writer_response),
    P(notify_data_source_started_response),
    P(notify_data_source_stopped_response),
    P(activate_triggers_response),
    P(sync_response),
    P(update_data_source_response),
};
static const struct pfl_rpc_service consumer_port = {"ConsumerPort", consumer_methods, 15};
static const struct pfl_rpc_service producer_port = {"ProducerPort", producer_methods, 12};

/* Our host's frames are only looked at: a bind reply or a refusal. */
static int on_host_send(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct replay *r = user;
    struct pfl_reader reader = pfl_reader_of(pfl_span_of(iov[0].iov_base, iov[0].iov_len));
    (void)iov_len;
    (void)fd;

    (void)pfl_reader_u32(&reader);
    assert_int_equal(pfl_reader_varint(&reader), IPC_FRAME__REQUEST_ID << 3 | PFL_WIRE_VARINT);
    (void)pfl_reader_varint(&reader);
    r->was_bind =
        pfl_reader_varint(&reader) == (IPC_FRAME__MSG_BIND_SERVICE_REPLY << 3 | PFL_WIRE_BYTES);
    r->refusals += !r->was_bind;
    r->binds += r->was_bind;
    return 0;
}

static int on_client_send(void *user, const struct iovec *iov, int iov_len, int fd)
{
    (void)user;
    (void)iov;
    (void)iov_len;
    (void)fd;
    return 0;
}

struct waiter {
    struct replay *replay;
    const ProtobufCMessageDescriptor *response;
};

#define WAITERS_MAX 20000u
static struct waiter waiters[WAITERS_MAX];
static size_t waiters_len;

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct waiter *w = user;

    w->replay->replies++;
    if (reply->success)
        assert_unpacks(w->response, reply->body);
    return 0;
}

static int on_bound(void *user, bool is_bound)
{
    (void)user;
    assert_true(is_bound);
    return 0;
}

static void feed_host(struct replay *r, struct pfl_span payload)
{
    uint8_t prefix[PFL_FRAME_PREFIX_BYTES];
    struct pfl_writer w = pfl_writer_of(prefix, sizeof(prefix));

    r->was_bind = false;
    pfl_writer_u32(&w, (uint32_t)payload.len);
    assert_int_equal(pfl_rpc_host_feed(&r->host, pfl_span_of(prefix, sizeof(prefix))), 0);
    assert_int_equal(pfl_rpc_host_feed(&r->host, payload), 0);
}

/* The client repeats what the host has just understood: the same requests in the same order. */
static void repeat_request(struct replay *r, const struct pfl_rpc_service *port,
                           const ProtobufCMessageDescriptor *const *responses)
{
    struct waiter *w = &waiters[waiters_len];
    int rc;

    if (r->was_bind) {
        assert_int_equal(pfl_rpc_client_bind(r->client, port->name, on_bound, r), 0);
        return;
    }
    assert_true(waiters_len < WAITERS_MAX);
    waiters_len++;
    *w = (struct waiter){r, responses[r->method]};
    rc = pfl_rpc_client_invoke(r->client, port->methods[r->method].name, r->args, -1,
                               r->drop_reply ? NULL : on_reply, w);
    assert_int_equal(rc, 0);
}

static void feed_client(struct replay *r, struct pfl_span payload)
{
    uint8_t prefix[PFL_FRAME_PREFIX_BYTES];
    struct pfl_writer w = pfl_writer_of(prefix, sizeof(prefix));

    pfl_writer_u32(&w, (uint32_t)payload.len);
    assert_int_equal(pfl_rpc_client_feed(r->client, pfl_span_of(prefix, sizeof(prefix))), 0);
    assert_int_equal(pfl_rpc_client_feed(r->client, payload), 0);
}

static void replay_file(const char *name, const struct pfl_rpc_service *port, struct replay *r)
{
    const struct pfl_rpc_host_conf host_conf = {
        .services = port, .services_len = 1, .user = r, .send = on_host_send};
    const struct pfl_rpc_client_conf client_conf = {.user = r, .send = on_client_send};
    const ProtobufCMessageDescriptor *const *responses =
        port == &consumer_port ? consumer_responses : producer_responses;
    struct pfl_capture_record record;
    struct pfl_capture capture;

    memset(r, 0, sizeof(*r));
    waiters_len = 0;
    pfl_rpc_host_init(&r->host, &host_conf);
    assert_int_equal(pfl_rpc_client_new(&client_conf, &r->client), 0);
    pfl_capture_open(&capture, name);
    while (pfl_capture_next(&capture, &record)) {
        if (record.kind != PFL_CAPTURE_FRAME || record.payload.len == 0)
            continue;
        if (record.is_from_service) {
            feed_client(r, record.payload);
        } else {
            feed_host(r, record.payload);
            repeat_request(r, port, responses);
        }
    }
    pfl_capture_close(&capture);
    pfl_rpc_client_free(r->client);
    pfl_rpc_host_fini(&r->host);
    assert_int_equal(r->refusals, 0);
    assert_int_equal(r->binds, 1);
    assert_true(r->calls > 0 && r->replies > 0);
    pfl_sweep_assert_no_leak();
}

static void conversations_of_real_consumers_are_understood(void **state)
{
    static const char *const names[] = {
        "consumer-query.cap",           "consumer-read-small.cap",
        "consumer-read-fragmented.cap", "consumer-read-trackevent.cap",
        "consumer-write-into-file.cap", "consumer-detach.cap",
        "consumer-attach-query.cap",    "consumer-attach-stop.cap",
        "consumer-clone-source.cap",    "consumer-clone.cap",
        "consumer-trigger.cap",
    };
    unsigned configs = 0;
    struct replay r;
    (void)state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        replay_file(names[i], &consumer_port, &r);
        configs += r.configs;
    }
    assert_true(configs >= 5);
}

static void conversations_of_real_producers_are_understood(void **state)
{
    static const char *const names[] = {"producer-small.cap", "producer-fragmented.cap",
                                        "producer-trackevent.cap"};
    struct replay r;
    (void)state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        replay_file(names[i], &producer_port, &r);
        assert_true(r.commits > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_of_real_consumers_are_understood),
        cmocka_unit_test(conversations_of_real_producers_are_understood),
    };

    return cmocka_run_group_tests_name("rpc_replay", tests, NULL, NULL);
}
