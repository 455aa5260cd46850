/* SPDX-License-Identifier: Apache-2.0 */
/* A producer's registrations, writers and permissions; message and sequence ids with it. */
#include "service/core/producer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/message.h"
#include "tests/support/sweep.h"

static const struct pfl_producer_conf conf = {.uid = 7,
                                              .pid = 8,
                                              .name = {(const uint8_t *)"name", 4},
                                              .sdk_version = {(const uint8_t *)"sdk", 3}};

static int use_producer(void *arg)
{
    struct pfl_producer *p;
    int rc = pfl_producer_new(&conf, &p);

    (void)arg;
    if (rc != 0)
        return rc;
    rc = pfl_producer_set_writer(p, 1000, 3);
    if (rc == 0)
        rc = pfl_producer_allow(p, 65535);
    if (rc == 0) {
        assert_int_equal(pfl_producer_get_writer(p, 1000), 3);
        assert_true(pfl_producer_is_allowed(p, 65535));
    }
    pfl_producer_free(p);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(use_producer, NULL, false);
}

static void writers_are_remembered_replaced_and_forgotten(void **state)
{
    struct pfl_producer *p;

    (void)state;
    assert_int_equal(pfl_producer_new(&conf, &p), 0);
    assert_int_equal(pfl_producer_get_writer(p, 1), 0);
    assert_int_equal(pfl_producer_set_writer(p, 1, 5), 0);
    assert_int_equal(pfl_producer_set_writer(p, 32767, 6), 0);
    assert_int_equal(pfl_producer_set_writer(p, 1, 65536 + 9), 0);
    assert_int_equal(p->writers_len, 2);
    assert_int_equal(pfl_producer_get_writer(p, 1), 9);
    assert_int_equal(pfl_producer_set_writer(p, 0, 5), 0);
    assert_int_equal(pfl_producer_set_writer(p, 32768, 5), 0);
    assert_int_equal(pfl_producer_set_writer(p, UINT32_MAX, 5), 0);
    assert_int_equal(p->writers_len, 2);
    assert_int_equal(pfl_producer_set_writer(p, 1, 0), 0);
    assert_int_equal(p->writers_len, 1);
    assert_int_equal(pfl_producer_get_writer(p, 65535), 0);
    pfl_producer_free(p);
    pfl_sweep_assert_no_leak();
}

static void permission_is_per_buffer(void **state)
{
    struct pfl_producer *p;

    (void)state;
    assert_int_equal(pfl_producer_new(&conf, &p), 0);
    assert_false(pfl_producer_is_allowed(p, 1));
    pfl_producer_forbid(p, 1);
    assert_int_equal(pfl_producer_allow(p, 64), 0);
    assert_true(pfl_producer_is_allowed(p, 64));
    assert_false(pfl_producer_is_allowed(p, 63));
    pfl_producer_forbid(p, 64);
    assert_false(pfl_producer_is_allowed(p, 64));
    pfl_producer_free(p);
}

static void a_descriptor_is_kept_whole_and_read_in_part(void **state)
{
    static const uint8_t bytes[] = {0x0a, 1, 'n',  0x10, 1,    0x20, 1,
                                    0x38, 5, 0x48, 1,    0x32, 1,    0xff};
    static const uint8_t no_name[] = {0x38, 5};
    struct pfl_data_source *source;

    (void)state;
    assert_int_equal(pfl_data_source_new(pfl_span_of(bytes, sizeof(bytes)), &source), 0);
    assert_int_equal(source->info.id, 5);
    assert_int_equal(source->info.flags, PFL_DATA_SOURCE_NOTIFIES_STOP |
                                             PFL_DATA_SOURCE_CLEARS_STATE |
                                             PFL_DATA_SOURCE_NO_FLUSH);
    assert_int_equal(source->bytes_len, sizeof(bytes));
    assert_int_equal(pfl_data_source_update(source, pfl_span_of(no_name, 2)), PFL_EINVAL);
    assert_int_equal(pfl_data_source_update(source, pfl_span_of(bytes, 2)), PFL_EPARSE);
    assert_int_equal(source->info.id, 5);
    pfl_data_source_free(source);
    assert_int_equal(pfl_data_source_new(pfl_span_of(no_name, 2), &source), PFL_EINVAL);
    pfl_sweep_assert_no_leak();
}

static void data_sources_are_bounded_in_number_and_bytes(void **state)
{
    static uint8_t large[1u << 20] = {0x0a, 1, 'n', 0x32, 0xf8, 0xff, 0x3f};
    static const uint8_t small[] = {0x0a, 1, 'n'};
    struct pfl_data_source *source;
    struct pfl_producer *p;

    (void)state;
    assert_int_equal(pfl_producer_new(&conf, &p), 0);
    for (size_t i = 0; i < PFL_PRODUCER_MAX_SOURCES; i++) {
        assert_int_equal(pfl_data_source_new(pfl_span_of(small, sizeof(small)), &source), 0);
        assert_int_equal(pfl_producer_add_source(p, source), 0);
    }
    assert_int_equal(pfl_data_source_new(pfl_span_of(small, sizeof(small)), &source), 0);
    assert_int_equal(pfl_producer_add_source(p, source), PFL_ELIMIT);
    pfl_data_source_free(source);
    pfl_producer_free(p);
    assert_int_equal(pfl_producer_new(&conf, &p), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pfl_data_source_new(pfl_span_of(large, sizeof(large) - 1), &source), 0);
        assert_int_equal(pfl_producer_add_source(p, source), 0);
    }
    assert_int_equal(pfl_producer_update_source(p, source, pfl_span_of(small, 3)), 0);
    assert_int_equal(p->source_bytes, 3 * (sizeof(large) - 1) + 3);
    pfl_producer_free(p);
    pfl_sweep_assert_no_leak();
}

static void nested_messages_have_minimal_lengths(void **state)
{
    static const uint8_t small[] = {0x0a, 0x04, 0x12, 0x02, 0x18, 0x05};
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t outer;
    size_t inner;
    char text[200];

    (void)state;
    pfl_buf_init(&buf, 1024);
    outer = pfl_message_begin(&m, 1);
    inner = pfl_message_begin(&m, 2);
    pfl_message_varint(&m, 3, 5);
    pfl_message_end(&m, inner);
    pfl_message_end(&m, outer);
    assert_int_equal(buf.len, sizeof(small));
    assert_memory_equal(pfl_buf_get(&buf).data, small, sizeof(small));
    pfl_buf_clear(&buf);
    memset(text, 'x', sizeof(text));
    outer = pfl_message_begin(&m, 1);
    pfl_message_bytes(&m, 1, pfl_span_of(text, sizeof(text)));
    pfl_message_end(&m, outer);
    assert_int_equal(buf.len, 1 + 2 + 1 + 2 + 200);
    pfl_buf_fini(&buf);
}

static void a_full_message_fails_once_and_stays_failed(void **state)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    (void)state;
    pfl_buf_init(&buf, 4);
    pfl_message_varint(&m, 1, 1);
    pfl_message_bytes(&m, 1, pfl_span_of("abcdef", 6));
    assert_int_equal(m.rc, PFL_ELIMIT);
    pfl_message_varint(&m, 1, 1);
    assert_int_equal(m.rc, PFL_ELIMIT);
    pfl_message_end(&m, pfl_message_begin(&m, 1));
    pfl_buf_fini(&buf);
}

static struct pfl_data_source *source_of(size_t bytes)
{
    static uint8_t descriptor[PFL_PRODUCER_MAX_SOURCE_BYTES];
    struct pfl_writer w = pfl_writer_of(descriptor, bytes);
    struct pfl_data_source *source;

    pfl_writer_field_bytes(&w, 1, "n", 1);
    if (w.left != 0)
        pfl_writer_field_header(&w, 1000, w.left - 2 - (w.left > 16000 ? 3 : 1));
    assert_int_equal(pfl_data_source_new(pfl_span_of(descriptor, bytes), &source), 0);
    return source;
}

static void sources_are_taken_up_to_their_number(void **state)
{
    struct pfl_data_source *source;
    struct pfl_producer *p;

    (void)state;
    assert_int_equal(pfl_producer_new(&conf, &p), 0);
    for (size_t i = 0; i < PFL_PRODUCER_MAX_SOURCES; i++)
        assert_int_equal(pfl_producer_add_source(p, source_of(3)), 0);
    assert_int_equal(p->source_bytes, 3 * PFL_PRODUCER_MAX_SOURCES);
    source = source_of(3);
    assert_int_equal(pfl_producer_add_source(p, source), PFL_ELIMIT);
    pfl_producer_remove_source(p, PFL_CONTAINER_OF(p->sources.next, struct pfl_data_source, node));
    assert_int_equal(p->sources_len, PFL_PRODUCER_MAX_SOURCES - 1);
    assert_int_equal(p->source_bytes, 3 * PFL_PRODUCER_MAX_SOURCES - 3);
    assert_int_equal(pfl_producer_add_source(p, source), 0);
    while (!pfl_list_is_empty(&p->sources))
        pfl_producer_remove_source(p,
                                   PFL_CONTAINER_OF(p->sources.next, struct pfl_data_source, node));
    assert_int_equal(p->source_bytes, 0);
    pfl_producer_free(p);
    pfl_sweep_assert_no_leak();
}

static void sources_are_taken_up_to_their_bytes(void **state)
{
    const size_t large = 1u << 20;
    struct pfl_data_source *source;
    struct pfl_producer *p;

    (void)state;
    assert_int_equal(pfl_producer_new(&conf, &p), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pfl_producer_add_source(p, source_of(large)), 0);
    assert_int_equal(pfl_producer_add_source(p, source_of(large - 100)), 0);
    source = source_of(101);
    assert_int_equal(pfl_producer_add_source(p, source), PFL_ELIMIT);
    pfl_data_source_free(source);
    assert_int_equal(pfl_producer_add_source(p, source_of(100)), 0);
    assert_int_equal(p->source_bytes, PFL_PRODUCER_MAX_SOURCE_BYTES);
    while (!pfl_list_is_empty(&p->sources))
        pfl_producer_remove_source(p,
                                   PFL_CONTAINER_OF(p->sources.next, struct pfl_data_source, node));
    pfl_producer_free(p);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(writers_are_remembered_replaced_and_forgotten),
        cmocka_unit_test(permission_is_per_buffer),
        cmocka_unit_test(a_descriptor_is_kept_whole_and_read_in_part),
        cmocka_unit_test(data_sources_are_bounded_in_number_and_bytes),
        cmocka_unit_test(nested_messages_have_minimal_lengths),
        cmocka_unit_test(a_full_message_fails_once_and_stays_failed),
        cmocka_unit_test(sources_are_taken_up_to_their_number),
        cmocka_unit_test(sources_are_taken_up_to_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
