/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as bytes, methods by name, commands whole and cut, commits that need several messages. */
#include "producer/ipc/ipc.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_bind_is_the_bytes_of_the_reference(void **state)
{
    static const uint8_t want[] = {18,  0,   0,   0,   0x10, 1,   0x1a, 14,  0x0a, 12,  'P',
                                   'r', 'o', 'd', 'u', 'c',  'e', 'r',  'P', 'o',  'r', 't'};
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    (void)state;
    pfl_ipc_encode_bind(&w, 1);
    assert_false(w.failed);
    assert_int_equal(sizeof(bytes) - w.left, sizeof(want));
    assert_memory_equal(bytes, want, sizeof(want));
}

static void an_invoke_is_the_bytes_of_the_reference(void **state)
{
    static const uint8_t want[] = {15, 0,    0, 0,    0x10, 0xac, 0x02, 0x2a, 10, 0x08,
                                   3,  0x10, 7, 0x1a, 2,    0xaa, 0xbb, 0x20, 1};
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_ipc_invoke call = {.request_id = 300,
                                  .service_id = 3,
                                  .method_id = 7,
                                  .args = pfl_span_of("\xaa\xbb", 2),
                                  .drop_reply = true};

    (void)state;
    pfl_ipc_encode_invoke(&w, &call);
    assert_int_equal(sizeof(bytes) - w.left, sizeof(want));
    assert_memory_equal(bytes, want, sizeof(want));
    w = pfl_writer_of(bytes, 8);
    pfl_ipc_encode_invoke(&w, &call);
    assert_true(w.failed);
}

static void methods_are_found_by_name_and_unknown_ones_ignored(void **state)
{
    static const uint8_t body[] = "\x08\x01\x10\x05\x1a\x08\x08\x63\x12\x04Sync"
                                  "\x1a\x0a\x08\x09\x12\x06"
                                  "FooBar"
                                  "\x1a\x0e\x08\x02\x12\x0a"
                                  "CommitData\x1a\x02\x08\x04";
    struct pfl_ipc_service service;

    (void)state;
    assert_int_equal(pfl_ipc_parse_bind(pfl_span_of(body, sizeof(body) - 1), &service), 0);
    assert_int_equal(service.service_id, 5);
    assert_int_equal(service.method_ids[PFL_IPC_SYNC], 99);
    assert_int_equal(service.method_ids[PFL_IPC_COMMIT_DATA], 2);
    assert_int_equal(service.method_ids[PFL_IPC_INITIALIZE_CONNECTION], 0);
    assert_int_equal(pfl_ipc_parse_bind(pfl_span_of(NULL, 0), &service), PFL_ENOENT);
}

static void commands_are_read_whole_and_refused_when_cut(void **state)
{
    /* setup_data_source {1: 150, 2: {name: "abc", target_buffer: 4, 3: 1}} */
    static const uint8_t bytes[] = {0x32, 14,  0x08, 0x96, 0x01, 0x12, 9,    0x0a,
                                    3,    'a', 'b',  'c',  0x10, 4,    0x18, 1};
    static struct pfl_ipc_command cmd;

    (void)state;
    assert_int_equal(pfl_ipc_parse_command(pfl_span_of(bytes, 0), &cmd), 0);
    assert_int_equal(cmd.kind, PFL_IPC_CMD_UNKNOWN);
    for (size_t cut = 1; cut < sizeof(bytes); cut++)
        assert_int_equal(pfl_ipc_parse_command(pfl_span_of(bytes, cut), &cmd), PFL_EPARSE);
    assert_int_equal(pfl_ipc_parse_command(pfl_span_of(bytes, sizeof(bytes)), &cmd), 0);
    assert_int_equal(cmd.kind, PFL_IPC_CMD_SETUP_DATA_SOURCE);
    assert_int_equal(cmd.instance_id, 150);
    assert_int_equal(cmd.config.len, 9);
    assert_memory_equal(cmd.config.data, bytes + 7, 9);
    assert_int_equal(cmd.name.len, 3);
    assert_memory_equal(cmd.name.data, "abc", 3);
}

static void nothing_of_the_command_before_stays(void **state)
{
    /* setup_tracing {1: 4}; flush {1: 5, 2: 6, 3: 7} */
    static const uint8_t tracing[] = {0x1a, 2, 0x08, 4};
    static const uint8_t flush[] = {0x2a, 6, 0x08, 5, 0x10, 6, 0x18, 7};
    static const uint8_t unknown[] = {0x7a, 0};
    static struct pfl_ipc_command cmd;
    static struct pfl_ipc_command nothing;

    (void)state;
    assert_int_equal(pfl_ipc_parse_command(pfl_span_of(tracing, sizeof(tracing)), &cmd), 0);
    assert_int_equal(cmd.kind, PFL_IPC_CMD_SETUP_TRACING);
    assert_int_equal(cmd.page_kb, 4);
    assert_int_equal(pfl_ipc_parse_command(pfl_span_of(flush, sizeof(flush)), &cmd), 0);
    assert_int_equal(cmd.kind, PFL_IPC_CMD_FLUSH);
    assert_int_equal(cmd.page_kb, 0);
    assert_int_equal(cmd.ids_len, 1);
    assert_int_equal(cmd.ids[0], 5);
    assert_int_equal(cmd.flush_id, 6);
    assert_int_equal(cmd.flush_flags, 7);
    assert_int_equal(pfl_ipc_parse_command(pfl_span_of(unknown, sizeof(unknown)), &cmd), 0);
    assert_int_equal(cmd.kind, PFL_IPC_CMD_UNKNOWN);
    cmd.ids[0] = 0; /* of ids_len = 0 */
    assert_memory_equal(&cmd, &nothing, sizeof(cmd));
}

static void repeated_ids_come_packed_or_not_and_are_bounded(void **state)
{
    static struct pfl_ipc_command cmd;
    static uint8_t many[4 + 2 * (PFL_IPC_IDS_MAX + 10)];
    struct pfl_writer w = pfl_writer_of(many, sizeof(many));
    static const uint8_t packed[] = {0x3a, 6, 0x0a, 2, 5, 6, 0x08, 7};

    (void)state;
    assert_int_equal(pfl_ipc_parse_command(pfl_span_of(packed, sizeof(packed)), &cmd), 0);
    assert_int_equal(cmd.kind, PFL_IPC_CMD_CLEAR_INCREMENTAL);
    assert_int_equal(cmd.ids_len, 3);
    assert_int_equal(cmd.ids[0] + cmd.ids[1] * 10 + cmd.ids[2] * 100, 765);
    pfl_writer_field_header(&w, 5, 2 * (PFL_IPC_IDS_MAX + 10));
    for (uint32_t i = 0; i < PFL_IPC_IDS_MAX + 10; i++)
        pfl_writer_field_varint(&w, 1, 1);
    assert_int_equal(pfl_ipc_parse_command(pfl_span_of(many, sizeof(many) - w.left), &cmd), 0);
    assert_int_equal(cmd.kind, PFL_IPC_CMD_FLUSH);
    assert_int_equal(cmd.ids_len, PFL_IPC_IDS_MAX);
}

static void random_bytes_never_do_harm(void **state)
{
    static struct pfl_ipc_command cmd;
    struct pfl_ipc_reply reply;
    struct pfl_ipc_service service;
    uint32_t x = 1;

    (void)state;
    for (uint32_t round = 0; round < 20000; round++) {
        uint8_t bytes[48];
        size_t len = round % sizeof(bytes);

        for (size_t i = 0; i < len; i++) {
            x = x * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)(x >> 24 & (round % 2 == 0 ? 0xffu : 0x3fu));
        }
        (void)!pfl_ipc_parse_command(pfl_span_of(bytes, len), &cmd);
        (void)!pfl_ipc_parse_frame(pfl_span_of(bytes, len), &reply);
        (void)!pfl_ipc_parse_bind(pfl_span_of(bytes, len), &service);
        assert_true(cmd.ids_len <= PFL_IPC_IDS_MAX);
    }
}

static void a_commit_is_the_bytes_of_the_reference(void **state)
{
    static const uint8_t want[] = {0x0a, 7, 0x08, 0xac, 0x02, 0x10, 2,    0x18, 3,    0x12, 0x13,
                                   0x08, 4, 0x10, 5,    0x18, 6,    0x22, 0x09, 0x08, 200,  1,
                                   0x12, 4, 'a',  'b',  'c',  'd',  0x28, 1,    0x18, 9};
    struct pfl_arbiter_move move = {.page = 300, .chunk = 2, .buffer = 3};
    struct pfl_arbiter_patch patch = {.buffer = 4,
                                      .writer_id = 5,
                                      .chunk_id = 6,
                                      .offset = 200,
                                      .data = {'a', 'b', 'c', 'd'},
                                      .has_more = true};
    struct pfl_arbiter_batch batch = {.flush_id = 9};
    struct pfl_ipc_commit_pos pos = {0};
    static uint8_t bytes[PFL_IPC_COMMIT_MAX];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    (void)state;
    batch.moves.items = &move;
    batch.patches.items = &patch;
    batch.moves.len = batch.patches.len = 1;
    assert_false(pfl_ipc_encode_commit(&w, &batch, &pos));
    assert_int_equal(sizeof(bytes) - w.left, sizeof(want));
    assert_memory_equal(bytes, want, sizeof(want));
}

enum { MOVES = 9000, PATCHES = 5000 };

static void a_big_batch_becomes_several_messages_in_order(void **state)
{
    static struct pfl_arbiter_move moves[MOVES];
    static struct pfl_arbiter_patch patches[PATCHES];
    static uint8_t args[PFL_IPC_COMMIT_MAX];
    struct pfl_arbiter_batch batch = {.flush_id = 6};
    struct pfl_ipc_commit_pos pos = {0};
    uint32_t messages = 0;
    uint32_t seen_moves = 0;
    uint32_t seen_patches = 0;
    uint32_t seen_flush = 0;
    bool has_more = true;

    (void)state;
    memset(moves, 0xff, sizeof(moves));
    memset(patches, 0xff, sizeof(patches));
    for (uint32_t i = 0; i < PATCHES; i++)
        patches[i].has_more = true;
    batch.moves.items = moves;
    batch.moves.len = MOVES;
    batch.patches.items = patches;
    batch.patches.len = PATCHES;
    while (has_more) {
        struct pfl_writer w = pfl_writer_of(args, sizeof(args));
        struct pfl_reader r;
        struct pfl_field f;

        has_more = pfl_ipc_encode_commit(&w, &batch, &pos);
        assert_false(w.failed);
        r = pfl_reader_of(pfl_span_of(args, sizeof(args) - w.left));
        while (pfl_reader_field(&r, &f)) {
            assert_true(f.id != 1 || seen_patches == 0);
            seen_moves += f.id == 1;
            seen_patches += f.id == 2;
            seen_flush += f.id == 3;
            assert_true(f.id != 3 || !has_more);
        }
        assert_false(r.failed);
        messages++;
    }
    assert_int_equal(seen_moves, MOVES);
    assert_int_equal(seen_patches, PATCHES);
    assert_int_equal(seen_flush, 1);
    assert_true(messages > 3);
}

/* Without shared memory: the page of 64 KiB that a service may ask for, with one chunk. */
static void the_largest_chunk_fits_a_message(void **state)
{
    static _Alignas(4096) uint8_t page[PFL_PAGE_MAX_BYTES];
    static uint8_t args[PFL_IPC_COMMIT_MAX];
    struct pfl_smb smb = {.base = page, .page_bytes = sizeof(page), .pages = 1};
    struct pfl_arbiter_move move = {.buffer = 65535};
    struct pfl_arbiter_batch batch = {.flush_id = UINT64_MAX};
    struct pfl_ipc_commit_pos pos = {.emulated = &smb};
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    (void)state;
    batch.moves.items = &move;
    batch.moves.len = 1;
    atomic_store(&pfl_smb_page(&smb, 0)->bitmap,
                 (uint32_t)PFL_PAGE_DIV1 << PFL_PAGE_LAYOUT_SHIFT | PFL_CHUNK_COMPLETE);
    assert_false(pfl_ipc_encode_commit(&w, &batch, &pos));
    assert_false(w.failed);
    assert_int_equal(pos.moves, 1);
    assert_true(sizeof(args) - w.left > sizeof(page) - 64);
}

static void a_method_without_a_number_is_one_the_service_has_not(void **state)
{
    static const uint8_t body[] = "\x08\x01\x10\x05\x1a\x0c\x12\x0a"
                                  "CommitData";
    struct pfl_ipc_service service;

    (void)state;
    assert_int_equal(pfl_ipc_parse_bind(pfl_span_of(body, sizeof(body) - 1), &service), 0);
    assert_int_equal(service.service_id, 5);
    assert_int_equal(service.method_ids[PFL_IPC_COMMIT_DATA], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bind_is_the_bytes_of_the_reference),
        cmocka_unit_test(an_invoke_is_the_bytes_of_the_reference),
        cmocka_unit_test(methods_are_found_by_name_and_unknown_ones_ignored),
        cmocka_unit_test(commands_are_read_whole_and_refused_when_cut),
        cmocka_unit_test(nothing_of_the_command_before_stays),
        cmocka_unit_test(repeated_ids_come_packed_or_not_and_are_bounded),
        cmocka_unit_test(random_bytes_never_do_harm),
        cmocka_unit_test(a_commit_is_the_bytes_of_the_reference),
        cmocka_unit_test(a_big_batch_becomes_several_messages_in_order),
        cmocka_unit_test(the_largest_chunk_fits_a_message),
        cmocka_unit_test(a_method_without_a_number_is_one_the_service_has_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
