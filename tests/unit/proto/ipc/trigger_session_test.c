/* SPDX-License-Identifier: Apache-2.0 */
/* The request for a session that waits for triggers, as a service reads it. */
#include "proto/ipc/trigger_session.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "perfetto/consumer_port.pb-c.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define OUT_MAX_BYTES 4096u
/* triggers { name: "a" } triggers { name: "b" } */
#define TRIGGERS "\x12\x03\x0a\x01\x61\x12\x03\x0a\x01\x62"

static int encode(struct pfl_buf *out)
{
    return pfl_trigger_session_encode(pfl_span_of(TRIGGERS, sizeof(TRIGGERS) - 1), 60000, out);
}

static void a_session_has_the_triggers_and_the_smallest_buffer(void **state)
{
    Perfetto__Protos__EnableTracingRequest *request;
    const Perfetto__Protos__TraceConfig *config;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX_BYTES);
    assert_int_equal(encode(&out), 0);
    assert_int_equal(pfl_proto_unpack(&perfetto__protos__enable_tracing_request__descriptor,
                                      pfl_buf_get(&out), (ProtobufCMessage **)&request),
                     0);
    config = request->trace_config;
    assert_int_equal(config->n_buffers, 1);
    assert_int_equal(config->buffers[0]->size_kb, 4);
    assert_int_equal(config->n_data_sources, 0);
    assert_int_equal(config->trigger_config->trigger_mode,
                     PERFETTO__PROTOS__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__CLONE_SNAPSHOT);
    assert_int_equal(config->trigger_config->n_triggers, 2);
    assert_string_equal(config->trigger_config->triggers[1]->name, "b");
    assert_int_equal(config->trigger_config->trigger_timeout_ms, 60000);
    pfl_proto_free(&request->base);
    pfl_buf_fini(&out);
}

static void a_buffer_that_is_too_small_is_reported(void **state)
{
    (void)state;
    for (size_t max = 1; max < 24; max++) {
        struct pfl_buf out;

        pfl_buf_init(&out, max);
        assert_int_equal(encode(&out), PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
}

static int encode_once(void *user)
{
    struct pfl_buf out;
    int rc;

    (void)user;
    pfl_buf_init(&out, OUT_MAX_BYTES);
    rc = encode(&out);
    pfl_buf_fini(&out);
    return rc;
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    pfl_sweep(encode_once, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_has_the_triggers_and_the_smallest_buffer),
        cmocka_unit_test(a_buffer_that_is_too_small_is_reported),
        cmocka_unit_test(out_of_memory_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests_name("trigger_session", tests, NULL, NULL);
}
