/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking of untrusted bytes is bounded in depth and memory, and loses nothing it knows not. */
#include "proto/unpack.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/data_source_descriptor.pb-c.h"
#include "perfetto/trace_config.pb-c.h"
#include "tests/support/capture.h"
#include "tests/support/sweep.h"

static const char config_path[] = "tests/unit/proto/configs/ftrace.pb";

static int unpack_config(struct pfl_span bytes, ProtobufCMessage **ret)
{
    return pfl_proto_unpack(&perfetto__protos__trace_config__descriptor, bytes, ret);
}

static void message_is_packed_again_as_it_came(void **state)
{
    struct pfl_span file = pfl_capture_read_file(config_path);
    ProtobufCMessage *message;
    struct pfl_buf out;
    (void)state;

    pfl_buf_init(&out, 1 << 20);
    assert_int_equal(unpack_config(file, &message), 0);
    assert_int_equal(((Perfetto__Protos__TraceConfig *)message)->duration_ms, 10000);
    assert_int_equal(pfl_proto_pack(message, &out), 0);
    assert_int_equal(out.len, file.len);
    assert_memory_equal(pfl_buf_get(&out).data, file.data, file.len);
    pfl_proto_free(message);
    pfl_buf_fini(&out);
    pfl_mem_free((void *)(uintptr_t)file.data);
    pfl_sweep_assert_no_leak();
}

static void unknown_fields_are_kept(void **state)
{
    static const char bytes[] = "\x18\x05\xf2\xff\x07\x02hi";
    ProtobufCMessage *message;
    struct pfl_buf out;
    (void)state;

    pfl_buf_init(&out, 64);
    assert_int_equal(unpack_config(pfl_span_of(bytes, sizeof(bytes) - 1), &message), 0);
    assert_int_equal(pfl_proto_pack(message, &out), 0);
    assert_int_equal(out.len, sizeof(bytes) - 1);
    assert_memory_equal(pfl_buf_get(&out).data, bytes, sizeof(bytes) - 1);
    pfl_proto_free(message);
    pfl_buf_fini(&out);
}

static void message_cut_anywhere_is_whole_or_refused(void **state)
{
    struct pfl_span file = pfl_capture_read_file(config_path);
    unsigned whole = 0;
    (void)state;

    for (size_t cut = 0; cut <= file.len; cut++) {
        ProtobufCMessage *message;
        int rc = unpack_config(pfl_span_of(file.data, cut), &message);

        assert_true(rc == 0 || rc == PFL_EPARSE);
        if (rc == 0) {
            whole++;
            pfl_proto_free(message);
        }
    }
    assert_in_range(whole, 2, 8); /* the empty one, and at the ends of top-level fields */
    pfl_mem_free((void *)(uintptr_t)file.data);
    pfl_sweep_assert_no_leak();
}

/* VmProgram.instructions.nested_instructions...: `levels` messages, innermost empty. */
static size_t nest(uint8_t *bytes, size_t size, unsigned levels)
{
    uint8_t *end = bytes + size;
    uint8_t *at = end;

    for (unsigned i = 1; i < levels; i++) {
        /* nested_instructions of an instruction, instructions of the program */
        uint32_t id = i + 1 == levels ? 2 : 7;
        uint8_t head[16];
        struct pfl_writer w = pfl_writer_of(head, sizeof(head));

        pfl_writer_field_header(&w, id, (uint64_t)(end - at));
        at -= sizeof(head) - w.left;
        assert_true(at >= bytes);
        memcpy(at, head, sizeof(head) - w.left);
    }
    memmove(bytes, at, (size_t)(end - at));
    return (size_t)(end - at);
}

static int unpack_nested(unsigned levels)
{
    static uint8_t bytes[131068];
    size_t len = nest(bytes, sizeof(bytes), levels);
    ProtobufCMessage *message = NULL;
    int rc = pfl_proto_unpack(&perfetto__protos__vm_program__descriptor, pfl_span_of(bytes, len),
                              &message);

    pfl_proto_free(message);
    return rc;
}

static void nesting_is_bounded(void **state)
{
    const ProtobufCFieldDescriptor *inner =
        protobuf_c_message_descriptor_get_field(&perfetto__protos__vm_instruction__descriptor, 7);
    (void)state;

    assert_non_null(inner);
    assert_ptr_equal(inner->descriptor, &perfetto__protos__vm_instruction__descriptor);
    assert_int_equal(unpack_nested(PFL_PROTO_MAX_DEPTH), 0);
    assert_int_equal(unpack_nested(PFL_PROTO_MAX_DEPTH + 1), PFL_EPARSE);
    assert_int_equal(unpack_nested(20000), PFL_EPARSE);
    pfl_sweep_assert_no_leak();
}

static void memory_is_bounded(void **state)
{
    static uint8_t bytes[131068];
    ProtobufCMessage *message;
    (void)state;

    /* 65534 data sources of two bytes each, with an empty config in every second pair. */
    for (size_t i = 0; i + 4 <= sizeof(bytes); i += 4)
        memcpy(bytes + i, "\x12\x02\x0a\x00", 4);
    assert_int_equal(unpack_config(pfl_span_of(bytes, sizeof(bytes)), &message), PFL_ELIMIT);
    pfl_sweep_assert_no_leak();
}

static void tag_that_readers_take_differently_is_refused(void **state)
{
    static const char bytes[] = "\x9a\x80\x80\x80\x10\x00"; /* field 3 under a 33rd bit */
    ProtobufCMessage *message;
    (void)state;

    assert_int_equal(unpack_config(pfl_span_of(bytes, sizeof(bytes) - 1), &message), PFL_EPARSE);
}

static int unpack_and_pack(void *arg)
{
    struct pfl_span *file = arg;
    ProtobufCMessage *message = NULL;
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 1 << 20);
    rc = unpack_config(*file, &message);
    if (rc == 0)
        rc = pfl_proto_pack(message, &out);
    pfl_proto_free(message);
    pfl_buf_fini(&out);
    return rc;
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    struct pfl_span file = pfl_capture_read_file(config_path);
    (void)state;

    pfl_sweep(unpack_and_pack, &file, false);
    pfl_mem_free((void *)(uintptr_t)file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_is_packed_again_as_it_came),
        cmocka_unit_test(unknown_fields_are_kept),
        cmocka_unit_test(message_cut_anywhere_is_whole_or_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(tag_that_readers_take_differently_is_refused),
        cmocka_unit_test(out_of_memory_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests_name("unpack", tests, NULL, NULL);
}
