/* SPDX-License-Identifier: Apache-2.0 */
/* Producers' packets: what passes, what does not, and that the cut into slices makes no difference.
 */
#include "perfetto/trace_packet.fields.h"
#include "proto/packet.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/capture.h"
#include "tests/support/sweep.h"

static bool is_valid_in_slices(const uint8_t *data, size_t len, size_t first, size_t step)
{
    struct iovec slices[256];
    size_t n = 0;
    size_t size = first;

    for (size_t at = 0; at < len; at += size, size = step) {
        size = size < len - at ? size : len - at;
        slices[n].iov_base = (void *)(uintptr_t)(data + at);
        slices[n++].iov_len = size;
        slices[n].iov_base = NULL; /* empty slices in between */
        slices[n++].iov_len = 0;
        assert_true(n < 254);
    }
    return pfl_packet_is_valid(slices, n);
}

/* Whatever the 8 bytes behind it are, that it may look at. */
static bool is_valid_hot(const uint8_t *data, size_t len)
{
    uint8_t *room = pfl_mem_alloc(len + 8);
    bool is_ok;

    assert_non_null(room);
    memcpy(room, data, len);
    memset(room + len, 0, 8);
    is_ok = pfl_packet_is_valid_hot(room, len);
    memset(room + len, 0xff, 8);
    assert_int_equal(pfl_packet_is_valid_hot(room, len), is_ok);
    memset(room + len, 0x08, 8);
    assert_int_equal(pfl_packet_is_valid_hot(room, len), is_ok);
    pfl_mem_free(room);
    return is_ok;
}

/* The same answer in one slice, in two cut anywhere, byte by byte, and from the hot loop's check;
 * from exact memory. */
static bool is_valid(const char *bytes, size_t len)
{
    uint8_t *data = pfl_mem_memdup(bytes, len);
    struct iovec one = {data, len};
    bool is_ok = pfl_packet_is_valid(&one, 1);

    for (size_t cut = 1; cut < len; cut++)
        assert_int_equal(is_valid_in_slices(data, len, cut, len), is_ok);
    assert_int_equal(is_valid_in_slices(data, len, 1, 1), is_ok);
    assert_int_equal(is_valid_in_slices(data, len, 2, 3), is_ok);
    assert_int_equal(is_valid_hot(data, len), is_ok);
    pfl_mem_free(data);
    return is_ok;
}
#define IS_VALID(literal) is_valid(literal, sizeof(literal) - 1)

static void ordinary_packets_pass(void **state)
{
    (void)state;
    assert_true(pfl_packet_is_valid(NULL, 0));
    assert_true(IS_VALID(""));
    assert_true(IS_VALID("\x40\x05"));
    assert_true(IS_VALID("\x40\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    assert_true(IS_VALID("\x5a\x03"
                         "abc"
                         "\xa2\x38\x00"
                         "\x68\x01"));
    assert_true(IS_VALID("\xa1\x06\x01\x02\x03\x04\x05\x06\x07\x08\xa5\x06\x01\x02\x03\x04"));
    /* Lengths and tags in redundant form, as writers with patches make them. */
    assert_true(IS_VALID("\x5a\x83\x80\x80\x00"
                         "abc"));
    assert_true(IS_VALID("\xda\x80\x00\x01x"));
}

static void nested_content_is_not_looked_at(void **state)
{
    (void)state;
    assert_true(IS_VALID("\x5a\x04\x18\x01\xff\xff"));
}

static void fields_of_the_service_are_refused(void **state)
{
    static const uint32_t ids[] = {3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133};
    (void)state;

    for (uint32_t id = 1; id < 1000; id++) {
        uint8_t packet[32];
        bool is_reserved = false;

        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
            is_reserved = is_reserved || ids[i] == id;
        for (unsigned type = 0; type < 8; type++) {
            struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));
            bool is_known_type = type != 3 && type != 4 && type != 6 && type != 7;

            pfl_writer_varint(&w, 8 << 3);
            pfl_writer_varint(&w, 7);
            pfl_writer_varint(&w, id << 3 | type);
            if (type == PFL_WIRE_VARINT || type == PFL_WIRE_BYTES)
                pfl_writer_u8(&w, 0);
            else if (type == PFL_WIRE_FIXED64)
                pfl_writer_u64(&w, 1);
            else if (type == PFL_WIRE_FIXED32)
                pfl_writer_u32(&w, 1);
            assert_int_equal(is_valid((char *)packet, sizeof(packet) - w.left),
                             is_known_type && !is_reserved);
        }
    }
}

static void reserved_fields_in_redundant_form_are_refused(void **state)
{
    (void)state;
    assert_false(IS_VALID("\x98\x00\x01"));
    assert_false(IS_VALID("\x98\x80\x80\x00\x01"));
    assert_false(IS_VALID("\x98\x80\x80\x80\x10\x01")); /* id 3 under a bit that parsers drop */
}

static void lengths_up_to_the_maximum_pass_and_no_further(void **state)
{
    enum { HEAD = 5, MAX = 0x0fffffff, SLICES = 16 };
    static uint8_t part[(MAX + 1) / SLICES];
    static const uint8_t at_max[] = {0x5a, 0xff, 0xff, 0xff, 0x7f};
    struct iovec slices[SLICES + 1] = {{(void *)(uintptr_t)at_max, HEAD}};
    (void)state;

    for (int i = 1; i <= SLICES; i++)
        slices[i] = (struct iovec){part, sizeof(part)};
    slices[SLICES].iov_len--;
    assert_true(pfl_packet_is_valid(slices, SLICES + 1));
    slices[SLICES].iov_len--;
    assert_false(pfl_packet_is_valid(slices, SLICES + 1)); /* one byte missing */
    assert_false(IS_VALID("\x5a\x80\x80\x80\x80\x01"));
    assert_false(IS_VALID("\x5a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
}

static void malformed_packets_are_refused(void **state)
{
    (void)state;
    assert_false(IS_VALID("\x00\x00"));                                         /* id 0 */
    assert_false(IS_VALID("\x40\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")); /* 11 bytes */
    assert_false(IS_VALID("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01")); /* so the tag */
    assert_false(IS_VALID("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
}

static void a_redundant_form_has_ten_bytes_at_most(void **state)
{
    (void)state;
    assert_true(IS_VALID("\x5a\x83\x80\x80\x80\x80\x80\x80\x80\x80\x00"
                         "abc"));
    assert_false(IS_VALID("\x5a\x83\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"
                          "abc"));
    assert_true(IS_VALID("\xda\x80\x80\x80\x80\x80\x80\x80\x80\x00\x01x"));
    assert_false(IS_VALID("\xda\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x01x"));
    assert_true(IS_VALID("\x40\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"));
    assert_false(IS_VALID("\x40\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"));
}

static void packet_that_ends_inside_a_field_is_refused(void **state)
{
    static const char packet[] = "\x40\x85\x01\x5a\x03"
                                 "abc"
                                 "\xa1\x06\x01\x02\x03\x04\x05\x06\x07\x08"
                                 "\xa5\x06\x01\x02\x03\x04\xa2\x38\x81\x00x";
    static const size_t ends[] = {0, 3, 8, 18, 24, 29};
    size_t next = 0;
    (void)state;

    assert_int_equal(sizeof(packet) - 1, 29);
    for (size_t cut = 0; cut < sizeof(packet); cut++) {
        bool is_end = next < 6 && ends[next] == cut;

        assert_int_equal(is_valid(packet, cut), is_end);
        next += is_end;
    }
    assert_int_equal(next, 6);
}

static void any_short_packet_is_judged_as_its_slices_are(void **state)
{
    uint64_t random = 88172645463325252u;
    size_t good = 0;
    char bytes[24];

    (void)state;
    for (unsigned round = 0; round < 40000; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            static const char usual[] = "\x40\x68\x5a\x0d\x18\x82\x01\x05";

            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes[i] = (random & 7) != 0 ? usual[random >> 8 & 7] : (char)(random >> 32);
        }
        good += is_valid(bytes, round % (sizeof(bytes) + 1));
    }
    assert_true(good > 1000 && good < 39000);
}

/* Without the reserved fields that the service appended, which are last. */
static size_t producers_part(struct pfl_span packet)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_PACKET__TRUSTED_UID)
            return (size_t)(f.raw.data - packet.data);
    }
    return packet.len;
}

static void packets_of_a_real_trace_pass_without_what_the_service_added(void **state)
{
    struct pfl_span file = pfl_capture_read_file("tests/fixtures/captures/small.pftrace");
    struct pfl_reader r = pfl_reader_of(file);
    struct pfl_field f;
    unsigned n = 0;
    (void)state;

    while (pfl_reader_field(&r, &f)) {
        struct iovec whole = {(void *)(uintptr_t)f.bytes.data, f.bytes.len};
        struct iovec part = {whole.iov_base, producers_part(f.bytes)};

        if (part.iov_len == 0 || part.iov_len == whole.iov_len)
            continue;
        assert_false(pfl_packet_is_valid(&whole, 1));
        n += pfl_packet_is_valid(&part, 1);
    }
    assert_false(r.failed);
    assert_true(n > 1000);
    pfl_mem_free((void *)(uintptr_t)file.data);
    pfl_sweep_assert_no_leak();
}

static void trusted_fields_leave_out_what_is_unknown(void **state)
{
    uint8_t out[PFL_PACKET_TRUSTED_MAX];
    const struct pfl_packet_trusted few = {.uid = 1000, .sequence_id = 2, .pid = -1};
    const struct pfl_packet_trusted all = {.uid = UINT32_MAX,
                                           .sequence_id = UINT32_MAX,
                                           .pid = INT32_MIN,
                                           .machine_id = UINT32_MAX,
                                           .loss_reasons = UINT32_MAX};
    (void)state;

    assert_int_equal(pfl_packet_encode_trusted(out, &few), 5);
    assert_memory_equal(out, "\x18\xe8\x07\x50\x02", 5);
    assert_int_equal(pfl_packet_encode_trusted(out, &all), 11 + 6 + 12 + 7 + 7);
}

static void preamble_announces_the_packet(void **state)
{
    uint8_t out[PFL_TRACE_PREAMBLE_MAX];
    (void)state;

    assert_int_equal(pfl_packet_encode_preamble(out, 300), 3);
    assert_memory_equal(out, "\x0a\xac\x02", 3);
    assert_int_equal(pfl_packet_encode_preamble(out, 0), 2);
    assert_memory_equal(out, "\x0a\x00", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_packets_pass),
        cmocka_unit_test(nested_content_is_not_looked_at),
        cmocka_unit_test(fields_of_the_service_are_refused),
        cmocka_unit_test(reserved_fields_in_redundant_form_are_refused),
        cmocka_unit_test(lengths_up_to_the_maximum_pass_and_no_further),
        cmocka_unit_test(malformed_packets_are_refused),
        cmocka_unit_test(a_redundant_form_has_ten_bytes_at_most),
        cmocka_unit_test(packet_that_ends_inside_a_field_is_refused),
        cmocka_unit_test(any_short_packet_is_judged_as_its_slices_are),
        cmocka_unit_test(packets_of_a_real_trace_pass_without_what_the_service_added),
        cmocka_unit_test(trusted_fields_leave_out_what_is_unknown),
        cmocka_unit_test(preamble_announces_the_packet),
    };

    return cmocka_run_group_tests_name("packet", tests, NULL, NULL);
}
