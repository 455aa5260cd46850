/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry of every legal page size and layout, and the bitmap's bits. */
#include "abi/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void sizes_for_4096_are_those_of_the_reference(void **state)
{
    static const uint32_t want[8] = {0, 4088, 2044, 1020, 584, 292, 0, 0};

    (void)state;
    for (uint32_t layout = 0; layout < 8; layout++)
        assert_int_equal(pfl_page_chunk_bytes(4096, layout), want[layout]);
}

static void chunks_of_all_pages_are_aligned_apart_and_inside(void **state)
{
    (void)state;
    for (uint32_t page = PFL_PAGE_MIN_BYTES; page <= PFL_PAGE_MAX_BYTES; page += 4096) {
        for (uint32_t layout = PFL_PAGE_DIV1; layout <= PFL_PAGE_DIV14; layout++) {
            uint32_t bytes = pfl_page_chunk_bytes(page, layout);
            uint32_t chunks = pfl_page_layout_chunks(layout);

            assert_int_equal(bytes % 4, 0);
            assert_true(bytes > PFL_CHUNK_HEADER_BYTES && bytes <= 65528);
            for (uint32_t i = 0; i < chunks; i++)
                assert_int_equal(pfl_page_chunk_offset(page, layout, i),
                                 PFL_PAGE_HEADER_BYTES + i * bytes);
            assert_true(pfl_page_chunk_offset(page, layout, chunks) <= page);
            assert_true(page - pfl_page_chunk_offset(page, layout, chunks) < 4 * chunks);
        }
    }
}

static void reserved_layouts_hold_no_chunk(void **state)
{
    static const uint32_t layouts[] = {0, 6, 7};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint32_t bitmap = layouts[i] << PFL_PAGE_LAYOUT_SHIFT | PFL_PAGE_STATES_MASK;

        assert_int_equal(pfl_page_chunks(bitmap), 0);
        assert_int_equal(pfl_page_payload_bytes(4096, bitmap), 0);
    }
    /* bit 31 means nothing */
    assert_int_equal(pfl_page_chunks(0x80000000u | 5u << PFL_PAGE_LAYOUT_SHIFT), 14);
}

static void a_state_changes_no_other_bit(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PFL_PAGE_CHUNKS_MAX; i++) {
        for (uint32_t s = 0; s < 4; s++) {
            uint32_t on = pfl_page_with_chunk_state(0xffffffffu, i, (enum pfl_chunk_state)s);
            uint32_t off = pfl_page_with_chunk_state(0, i, (enum pfl_chunk_state)s);

            assert_int_equal(pfl_page_chunk_state(on, i), s);
            assert_int_equal(pfl_page_chunk_state(off, i), s);
            assert_int_equal(on | 3u << (2 * i), 0xffffffffu);
            assert_int_equal(off & ~(3u << (2 * i)), 0);
        }
    }
}

static void pages_and_chunks_that_do_not_exist_have_no_address(void **state)
{
    static _Alignas(4096) uint8_t memory[2 * 4096];
    struct pfl_smb smb = {.base = memory, .page_bytes = 4096, .pages = 2};
    uint32_t div4 = (uint32_t)PFL_PAGE_DIV4 << PFL_PAGE_LAYOUT_SHIFT;

    (void)state;
    assert_ptr_equal(pfl_smb_page(&smb, 1), memory + 4096);
    assert_null(pfl_smb_page(&smb, 2));
    assert_null(pfl_smb_page(&smb, UINT32_MAX));
    assert_ptr_equal(pfl_smb_chunk(&smb, 1, div4, 3), memory + 4096 + 8 + 3 * 1020);
    assert_null(pfl_smb_chunk(&smb, 1, div4, 4));
    assert_null(pfl_smb_chunk(&smb, 2, div4, 0));
    assert_null(pfl_smb_chunk(&smb, 0, 0, 0));
    assert_null(pfl_smb_chunk(&smb, 0, div4, UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_for_4096_are_those_of_the_reference),
        cmocka_unit_test(chunks_of_all_pages_are_aligned_apart_and_inside),
        cmocka_unit_test(reserved_layouts_hold_no_chunk),
        cmocka_unit_test(a_state_changes_no_other_bit),
        cmocka_unit_test(pages_and_chunks_that_do_not_exist_have_no_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
