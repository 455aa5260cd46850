/* SPDX-License-Identifier: Apache-2.0 */
/* The gate: what a role allows passes byte for byte, and nothing else does, however it is put. */
#include "proto/gate/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/consumer_port.pb-c.h"
#include "perfetto/ipc.fields.h"
#include "proto/gate/role.h"
#include "tests/support/capture.h"
#include "tests/support/sweep.h"
#include "tests/unit/proto/gate/gate_kit.h"

static const char guests[] =
    "name: \"guests\" data_source: \"linux.ftrace\" data_source: \"track_event*\" "
    "session: \"flight-*\" max_duration_ms: 10000 max_buffer_kb: 4096";
static const char fine[] =
    "buffers { size_kb: 1024 } duration_ms: 5000 data_sources { config { name: \"linux.ftrace\" "
    "ftrace_config { ftrace_events: \"sched/sched_switch\" } } } ";

/* ---- claims ---- */

static void what_the_role_allows_passes_as_it_is(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_enable(&f, fine);
    assert_passes(&w, &f);
    /* The longest time, by each of the ways to set it. */
    make_enable(&f, "buffers { size_kb: 4096 } duration_ms: 10000");
    assert_passes(&w, &f);
    make_enable(&f, "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 10000 "
                    "triggers { name: \"t\" } }");
    assert_passes(&w, &f);
    make_enable(&f, "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 9000 "
                    "triggers { stop_delay_ms: 1000 } triggers { stop_delay_ms: 999 } }");
    assert_passes(&w, &f);
    make_invoke(&f, READ, pfl_span_of(NULL, 0));
    assert_passes(&w, &f);
    make_invoke(&f, FREE, pfl_span_of(NULL, 0));
    assert_passes(&w, &f);
    end(&w);
}

static void what_it_does_not_allow_is_refused_in_words(void **state)
{
    static const struct {
        const char *more;
        const char *with;
    } cases[] = {
        {"data_sources { config { name: \"linux.perf\" } }", "data source \"linux.perf\""},
        {"data_sources { config { target_buffer: 0 } }", "data source \"\""},
        {"data_sources { }", "data source \"\""},
        {"buffers { size_kb: 3073 }", "size_kb"},
        {"data_sources { config { name: \"linux.ftrace\" protovm_config { memory_limit_kb: 3073 } "
         "} }",
         "memory_limit_kb"},
        {"buffers { size_kb: 4294967295 } buffers { size_kb: 4294967295 }", "8589935614"},
        {"write_into_file: true", "output_path"},
        {"output_path: \"/etc/x\"", "output_path"},
        {"output_path: \"\"", "output_path"},
        {"perfleet_rotation { max_segments: 1 }", "output_path"},
        {"lockdown_mode: LOCKDOWN_SET", "lockdown_mode"},
        {"exclusive_prio: 1", "exclusive_prio"},
        {"priority_boost { priority: 1 }", "priority_boost"},
        {"data_sources { config { name: \"track_event\" priority_boost { } } }", "priority_boost"},
        {"duration_ms: 5000", "twice"},
        {"trigger_config { trigger_mode: STOP_TRACING }", "trigger_timeout_ms"},
        {"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 86400000 }", "timeout"},
        {"trigger_config { trigger_mode: 4 trigger_timeout_ms: 9000 triggers { stop_delay_ms: 1 } "
         "triggers { stop_delay_ms: 1001 } }",
         "timeout"},
    };
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, guests);
    bind(&w);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_enable_of(&f, fine, cases[i].more);
        assert_refused(&w, &f, cases[i].with);
    }
    make_enable(&f, "buffers { size_kb: 64 }");
    assert_refused(&w, &f, "duration_ms of 0");
    make_enable(&f, "duration_ms: 10001");
    assert_refused(&w, &f, "ask for 1 to 10000");
    make_enable(&f, "trigger_config { trigger_timeout_ms: 1000 }");
    assert_refused(&w, &f, "duration_ms of 0");
    make_enable(&f, "trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 1000 }");
    assert_refused(&w, &f, "duration_ms of 0");
    make_invoke(&f, ENABLE, pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "duration_ms of 0");
    assert_int_equal(w.passed, 0);
    end(&w);
}

/* Each of these means one thing to one reader and another to another. */
static void what_can_be_read_in_two_ways_is_refused(void **state)
{
    static const struct {
        const char *args; /* of EnableTracing; hexadecimal */
        const char *with;
    } cases[] = {
        {"0a031888270a0318887f", "trace_config of EnableTracingRequest is there twice"},
        {"0a0318882718b80a", "field 3 of EnableTracingRequest is not known"},
        {"0a071888278a01020801", "malformed"},            /* cut off */
        {"0a06188827a81801", "field 389 of TraceConfig"}, /* unknown */
        {"0a0718888880808000", "shortest"},               /* a padded varint */
        {"0a0518888880801", "malformed"},                 /* not even bytes */
        {"0a0b1888a7808080808080800110", "out of range"}, /* 64 bits in 32 */
        {"0a0298001a", "malformed"},
        {"0a051d88270000", "another type"}, /* duration as fixed32 */
        {"0a041a021827", "another type"},   /* ... as bytes */
        {"0a0498001888", "shortest"},       /* a padded tag */
        {"0a0b188827120712050a03782e00", "malformed"},
        {"0a0e18882712097a070a0078797a0000", "not known"},
        {"0a0d188827 1208 0a06 0a04 61006263", "NUL"},
        {"0a0c188827 1207 0a05 0a0161 0a00", "name of DataSourceConfig is there twice"},
        {"0a0e188827 1209 0a03 0a0161 0a02 0a00", "config of DataSource is there twice"},
        {"0a0c188827 8a01 06 1801 1801 0801", "trigger_timeout_ms of TriggerConfig is there twice"},
        {"0b18882724", "malformed"}, /* a group */
    };
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, guests);
    bind(&w);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t args[64];
        size_t len = 0;
        int high = -1;

        for (const char *c = cases[i].args; *c != '\0'; c++) {
            int digit = *c <= '9' ? *c - '0' : *c - 'a' + 10;

            if (*c == ' ')
                continue;
            if (high >= 0)
                args[len++] = (uint8_t)(high << 4 | digit);
            high = high >= 0 ? -1 : digit;
        }
        make_invoke(&f, ENABLE, pfl_span_of(args, len));
        w.why[0] = '\0';
        pfl_buf_clear(&w.to_service);
        feed(&w, &f);
        if (w.to_service.len != 0 || strstr(w.why, cases[i].with) == NULL)
            fail_msg("case %zu, not \"%s\": %s", i, cases[i].with, w.why);
    }
    end(&w);
}

static void requests_before_the_bind_and_unknown_numbers_are_refused(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, guests);
    make_invoke(&f, READ, pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "did not name");
    bind(&w);
    make_invoke(&f, NEW, pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "not known here");
    make_invoke(&f, 1, pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "did not name");
    make_invoke(&f, READ + (1ull << 32), pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "out of range");
    end(&w);
}

static void a_service_that_gives_itself_no_number_gets_no_request(void **state)
{
    /* success: 1, methods { id: 41 name: "ReadBuffers" }; the request is for service 1. */
    static const uint8_t answer[] = {23,  0,    0,   0,    0x10, 1,    0x22, 19,  0x08,
                                     1,   0x1a, 15,  0x08, 41,   0x12, 11,   'R', 'e',
                                     'a', 'd',  'B', 'u',  'f',  'f',  'e',  'r', 's'};
    static const uint8_t request[] = {8, 0, 0, 0, 0x10, 9, 0x2a, 4, 0x08, 1, 0x10, 41};
    struct frame f;
    struct world w;

    (void)state;
    begin(&w, guests);
    make_bind(&f, "ConsumerPort");
    feed(&w, &f);
    pfl_buf_clear(&w.to_service);
    assert_int_equal(pfl_gate_from_service(w.gate, pfl_span_of(answer, sizeof(answer))), 0);
    memcpy(f.bytes, request, sizeof(request));
    f.len = sizeof(request);
    assert_refused(&w, &f, "");
    end(&w);
}

static void other_services_are_not_bound(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, guests);
    make_bind(&f, "ProducerPort");
    feed(&w, &f);
    assert_int_equal(w.to_service.len, 0);
    assert_int_not_equal(w.to_operator.len, 0);
    end(&w);
}

static void frames_that_are_no_requests_are_refused(void **state)
{
    static const uint8_t both[] = {0x0e, 0,    0, 0, 0x10, 1,    0x1a, 2, 0x0a,
                                   0,    0x2a, 6, 8, 7,    0x10, 41,   0, 0};
    static const uint8_t identity[] = {4, 0, 0, 0, 0x42, 2, 8, 1};
    static const uint8_t testing[] = {3, 0, 0, 0, 0x0a, 1, 0};
    struct world w;

    (void)state;
    begin(&w, guests);
    bind(&w);
    assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of(both, sizeof(both))), 0);
    assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of(identity, sizeof(identity))), 0);
    assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of(testing, sizeof(testing))), 0);
    assert_int_equal(w.refused, 3);
    assert_int_equal(w.to_service.len, 0);
    assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of("GET / HTTP/1.1", 14)), PFL_EPROTO);
    end(&w);
}

/* Its duration counts from its start. */
static void a_session_that_was_not_started_is_not_left(void **state)
{
    struct frame detach;
    struct frame f;
    struct world w;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_request(&detach, DETACH, &perfetto__protos__detach_request__descriptor,
                 "key: \"flight-1\"");
    make_enable_of(&f, fine, "deferred_start: true");
    assert_passes(&w, &f);
    assert_refused(&w, &detach, "leaving a session that was not started");
    make_invoke(&f, START, pfl_span_of(NULL, 0));
    assert_passes(&w, &f);
    assert_passes(&w, &detach);
    make_enable_of(&f, fine, "deferred_start: true");
    assert_passes(&w, &f);
    assert_refused(&w, &detach, "start it");
    make_enable(&f, fine);
    assert_passes(&w, &f);
    assert_passes(&w, &detach);
    end(&w);
    begin(&w, "name: \"any\" session: \"*\"");
    bind(&w);
    make_enable_of(&f, fine, "deferred_start: true");
    assert_passes(&w, &f);
    assert_passes(&w, &detach);
    end(&w);
}

static void sessions_of_others_are_not_taken_over(void **state)
{
    static const struct {
        uint64_t method;
        const ProtobufCMessageDescriptor *type;
        const char *args;
        bool is_allowed;
    } cases[] = {
        {CLONE, &perfetto__protos__clone_session_request__descriptor,
         "unique_session_name: \"flight-1\"", true},
        {CLONE, &perfetto__protos__clone_session_request__descriptor,
         "unique_session_name: \"flight-1\" skip_trace_filter: true", false},
        {CLONE, &perfetto__protos__clone_session_request__descriptor, "session_id: 3", false},
        {CLONE, &perfetto__protos__clone_session_request__descriptor, "", false},
        {CLONE, &perfetto__protos__clone_session_request__descriptor,
         "unique_session_name: \"secret\"", false},
        {ATTACH, &perfetto__protos__attach_request__descriptor, "key: \"flight-2\"", true},
        {ATTACH, &perfetto__protos__attach_request__descriptor, "key: \"xflight-2\"", false},
        {ATTACH, &perfetto__protos__attach_request__descriptor, "", false},
    };
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, guests);
    bind(&w);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_request(&f, cases[i].method, cases[i].type, cases[i].args);
        if (cases[i].is_allowed)
            assert_passes(&w, &f);
        else
            assert_refused(&w, &f, "refused by the relay's policy");
    }
    end(&w);
}

static void methods_are_those_of_the_role(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, "name: \"look\" method: \"Query*\" method: \"ReadBuffers\"");
    bind(&w);
    make_invoke(&f, READ, pfl_span_of(NULL, 0));
    assert_passes(&w, &f);
    make_invoke(&f, FREE, pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "method \"FreeBuffers\" (allowed: Query*, ReadBuffers)");
    make_enable(&f, fine);
    assert_refused(&w, &f, "method \"EnableTracing\"");
    end(&w);
}

static void bytes_may_be_cut_anywhere_in_both_directions(void **state)
{
    struct world w;
    struct frame bind_frame;
    struct frame answer;
    struct frame good;
    struct frame bad;

    (void)state;
    begin(&w, guests);
    make_bind(&bind_frame, "ConsumerPort");
    make_bind_answer(&answer);
    make_enable(&good, fine);
    make_enable(&bad, "duration_ms: 4294967295");
    for (size_t i = 0; i < bind_frame.len; i++)
        assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of(bind_frame.bytes + i, 1)), 0);
    for (size_t i = 0; i < answer.len; i++)
        assert_int_equal(pfl_gate_from_service(w.gate, pfl_span_of(answer.bytes + i, 1)), 0);
    assert_int_equal(w.to_operator.len, answer.len);
    assert_memory_equal(pfl_buf_get(&w.to_operator).data, answer.bytes, answer.len);
    pfl_buf_clear(&w.to_service);
    for (size_t i = 0; i < bad.len; i++)
        assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of(bad.bytes + i, 1)), 0);
    assert_int_equal(w.to_service.len, 0);
    for (size_t i = 0; i < good.len; i++)
        assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of(good.bytes + i, 1)), 0);
    assert_int_equal(w.to_service.len, good.len);
    assert_memory_equal(pfl_buf_get(&w.to_service).data, good.bytes, good.len);
    end(&w);
}

static void refusals_fall_between_the_frames_of_the_service(void **state)
{
    struct world w;
    struct frame data;
    struct frame bad;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_bind_answer(&data); /* any frame */
    make_enable(&bad, "duration_ms: 4294967295");
    for (size_t cut = 1; cut < data.len; cut++) {
        size_t len;

        pfl_buf_clear(&w.to_operator);
        assert_int_equal(pfl_gate_from_service(w.gate, pfl_span_of(data.bytes, cut)), 0);
        feed(&w, &bad);
        assert_int_equal(w.to_operator.len, cut);
        assert_int_equal(
            pfl_gate_from_service(w.gate, pfl_span_of(data.bytes + cut, data.len - cut)), 0);
        len = w.to_operator.len;
        assert_true(len > data.len);
        assert_memory_equal(pfl_buf_get(&w.to_operator).data, data.bytes, data.len);
        assert_true(contains(pfl_buf_get(&w.to_operator), "refused by the relay's policy"));
    }
    end(&w);
}

static void frames_of_the_service_that_come_together_pass_together(void **state)
{
    struct world w;
    struct frame answer;
    struct pfl_buf three;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_bind_answer(&answer); /* any frame */
    pfl_buf_init(&three, 3 * sizeof(answer.bytes));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pfl_buf_append(&three, answer.bytes, answer.len), 0);
    pfl_buf_clear(&w.to_operator);
    w.writes = 0;
    assert_int_equal(pfl_gate_from_service(w.gate, pfl_buf_get(&three)), 0);
    assert_int_equal(w.writes, 1);
    assert_int_equal(w.to_operator.len, three.len);
    pfl_buf_fini(&three);
    end(&w);
}

static void who_asks_for_refusals_without_reading_ends(void **state)
{
    struct world w;
    struct frame data;
    struct frame bad;
    int rc = 0;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_bind_answer(&data);
    make_enable(&bad, "duration_ms: 4294967295");
    assert_int_equal(pfl_gate_from_service(w.gate, pfl_span_of(data.bytes, 5)), 0);
    for (int i = 0; i < 1000 && rc == 0; i++)
        rc = pfl_gate_from_operator(w.gate, span_of(&bad));
    assert_int_equal(rc, PFL_ELIMIT);
    end(&w);
}

static void a_new_role_judges_again_what_runs(void **state)
{
    struct world w;
    struct frame f;
    struct pfl_buf role;
    char why[PFL_JUDGE_WHY_BYTES];

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_enable(&f, fine);
    assert_passes(&w, &f);
    /* Asking for a notice of the end does not take the config's place. */
    make_request(&f, ENABLE, &perfetto__protos__enable_tracing_request__descriptor,
                 "attach_notification_only: true");
    assert_passes(&w, &f);
    make_role("name: \"short\" max_duration_ms: 4999", &role);
    assert_int_equal(pfl_gate_set_role(w.gate, pfl_buf_get(&role), why), PFL_EPERM);
    assert_non_null(strstr(why, "role short"));
    pfl_buf_fini(&role);
    make_role("name: \"look\" max_duration_ms: 5000", &role);
    assert_int_equal(pfl_gate_set_role(w.gate, pfl_buf_get(&role), why), 0);
    pfl_buf_fini(&role);
    make_invoke(&f, FREE, pfl_span_of(NULL, 0));
    assert_passes(&w, &f);
    make_role("name: \"none\" method: \"Query*\"", &role);
    assert_int_equal(pfl_gate_set_role(w.gate, pfl_buf_get(&role), why), 0);
    pfl_buf_fini(&role);
    make_invoke(&f, READ, pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "ReadBuffers");
    end(&w);
}

/* What real clients say passes a role that allows it, and what the service says arrives. */
static void real_clients_pass(void **state)
{
    static const char *const captures[] = {
        "consumer-query.cap",           "consumer-read-small.cap",   "consumer-read-fragmented.cap",
        "consumer-read-trackevent.cap", "consumer-attach-query.cap", "consumer-attach-stop.cap",
        "consumer-clone.cap",           "consumer-trigger.cap",      "consumer-clone-source.cap"};

    (void)state;
    for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
        struct pfl_capture c;
        struct pfl_capture_record record;
        struct world w;

        begin(&w, "name: \"all\" data_source: \"*\" session: \"*\" max_buffer_kb: 4000000");
        pfl_capture_open(&c, captures[i]);
        while (pfl_capture_next(&c, &record)) {
            struct pfl_buf *out = record.is_from_service ? &w.to_operator : &w.to_service;
            uint8_t prefix[4];
            struct pfl_writer p = pfl_writer_of(prefix, 4);
            int rc;

            if (record.kind != PFL_CAPTURE_FRAME)
                continue;
            pfl_buf_clear(out);
            pfl_writer_u32(&p, (uint32_t)record.payload.len);
            rc = record.is_from_service ? pfl_gate_from_service(w.gate, pfl_span_of(prefix, 4))
                                        : pfl_gate_from_operator(w.gate, pfl_span_of(prefix, 4));
            assert_int_equal(rc, 0);
            rc = record.is_from_service ? pfl_gate_from_service(w.gate, record.payload)
                                        : pfl_gate_from_operator(w.gate, record.payload);
            assert_int_equal(rc, 0);
            if (w.refused != 0)
                fail_msg("%s: %s", captures[i], w.why);
            assert_int_equal(out->len, record.payload.len + 4);
            assert_memory_equal(pfl_buf_get(out).data + 4, record.payload.data, record.payload.len);
        }
        assert_true(w.passed != 0);
        pfl_capture_close(&c);
        end(&w);
    }
}

static void a_role_fits_a_field_and_comes_back(void **state)
{
    char text[PFL_ROLE_FIELD_BYTES];
    struct pfl_buf role;
    struct pfl_buf back;

    (void)state;
    make_role(guests, &role);
    pfl_role_write(pfl_buf_get(&role), text);
    pfl_buf_init(&back, PFL_ROLE_MAX_BYTES);
    assert_int_equal(pfl_role_read(text, &back), 0);
    assert_int_equal(back.len, role.len);
    assert_memory_equal(back.data, role.data, role.len);
    pfl_buf_clear(&back);
    assert_int_equal(pfl_role_read("", &back), PFL_EPARSE);
    assert_int_equal(pfl_role_read("0", &back), PFL_EPARSE);
    assert_int_equal(pfl_role_read("zz", &back), PFL_EPARSE);
    assert_int_equal(pfl_role_read("0a0161a00601", &back), PFL_EPARSE); /* field 100 */
    assert_int_equal(pfl_role_read("0a01613801", &back), PFL_EPARSE);   /* field 7 */
    assert_int_equal(pfl_role_read("0a016128ffffffffff01", &back), PFL_EPARSE);
    assert_int_equal(pfl_role_read("280a", &back), PFL_EPARSE); /* no name */
    pfl_buf_fini(&role);
    pfl_buf_fini(&back);
    pfl_sweep_assert_no_leak();
}

static int gate_once(void *arg)
{
    struct world w = {0};
    struct pfl_gate_conf conf = {.to_service = gate_kit_to_service,
                                 .to_operator = gate_kit_to_operator,
                                 .user = &w,
                                 .role = *(struct pfl_span *)arg};
    struct frame f;
    int rc;

    pfl_buf_init(&w.to_service, ROOM);
    pfl_buf_init(&w.to_operator, ROOM);
    rc = pfl_gate_new(&conf, &w.gate);
    make_bind(&f, "ConsumerPort");
    if (rc == 0)
        rc = pfl_gate_from_operator(w.gate, pfl_span_of(f.bytes, 9));
    if (rc == 0)
        rc = pfl_gate_from_operator(w.gate, pfl_span_of(f.bytes + 9, f.len - 9));
    make_bind_answer(&f);
    if (rc == 0)
        rc = pfl_gate_from_service(w.gate, span_of(&f));
    make_invoke(&f, FREE, pfl_span_of(NULL, 0));
    if (rc == 0)
        rc = pfl_gate_from_operator(w.gate, span_of(&f));
    make_invoke(&f, NEW, pfl_span_of(NULL, 0));
    if (rc == 0)
        rc = pfl_gate_from_operator(w.gate, span_of(&f));
    pfl_gate_free(w.gate);
    pfl_buf_fini(&w.to_service);
    pfl_buf_fini(&w.to_operator);
    return rc;
}

static void running_out_of_memory_is_reported(void **state)
{
    struct pfl_buf role;
    struct pfl_span kept;
    uint8_t bytes[PFL_ROLE_MAX_BYTES];

    (void)state;
    make_role(guests, &role);
    memcpy(bytes, role.data, role.len);
    kept = pfl_span_of(bytes, role.len);
    pfl_buf_fini(&role);
    pfl_sweep(gate_once, &kept, false);
}

/* IPCFrame's answer to what is no request: its id, 0 if that is not known. */
static uint64_t id_of_refusal(struct world *w, const void *payload, size_t len)
{
    struct frame bad = {.len = 4 + len};
    struct pfl_reader r;
    struct pfl_field f;
    uint64_t id = 0;

    bad.bytes[0] = (uint8_t)len;
    memcpy(bad.bytes + 4, payload, len);
    pfl_buf_clear(&w->to_operator);
    feed(w, &bad);
    assert_true(w->to_operator.len > 4);
    r = pfl_reader_of(pfl_span_of(pfl_buf_get(&w->to_operator).data + 4, w->to_operator.len - 4));
    while (pfl_reader_field(&r, &f))
        id = f.id == IPC_FRAME__REQUEST_ID ? f.value : id;
    assert_false(r.failed);
    return id;
}

static void a_refusal_has_the_id_of_its_frame_if_that_can_be_judged(void **state)
{
    struct world w;

    (void)state;
    begin(&w, guests);
    bind(&w);
    assert_int_equal(id_of_refusal(&w, "\x10\x07", 2), 7);
    assert_int_equal(id_of_refusal(&w, "\x10\x07\xfa\x7f\x00", 5), 0); /* an unknown field */
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_role_allows_passes_as_it_is),
        cmocka_unit_test(what_it_does_not_allow_is_refused_in_words),
        cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(requests_before_the_bind_and_unknown_numbers_are_refused),
        cmocka_unit_test(a_service_that_gives_itself_no_number_gets_no_request),
        cmocka_unit_test(other_services_are_not_bound),
        cmocka_unit_test(frames_that_are_no_requests_are_refused),
        cmocka_unit_test(a_session_that_was_not_started_is_not_left),
        cmocka_unit_test(sessions_of_others_are_not_taken_over),
        cmocka_unit_test(methods_are_those_of_the_role),
        cmocka_unit_test(bytes_may_be_cut_anywhere_in_both_directions),
        cmocka_unit_test(refusals_fall_between_the_frames_of_the_service),
        cmocka_unit_test(frames_of_the_service_that_come_together_pass_together),
        cmocka_unit_test(who_asks_for_refusals_without_reading_ends),
        cmocka_unit_test(a_new_role_judges_again_what_runs),
        cmocka_unit_test(real_clients_pass),
        cmocka_unit_test(a_role_fits_a_field_and_comes_back),
        cmocka_unit_test(running_out_of_memory_is_reported),
        cmocka_unit_test(a_refusal_has_the_id_of_its_frame_if_that_can_be_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
