/* SPDX-License-Identifier: Apache-2.0 */
/* Losses are counted by the process whose packets mark them. */
#include "consumer/merge/lossy_processes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/consumer/merge/merge_world.h"

static void each_process_has_its_count(void **state)
{
    struct pfl_lossy_processes lossy_processes = {0};

    (void)state;
    for (uint32_t i = 0; i < 30; i++)
        pfl_lossy_processes_note(&lossy_processes, 100 + i % 3);
    pfl_lossy_processes_note(&lossy_processes, 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(lossy_processes.list[i].marks, 10);
    assert_int_equal(lossy_processes.list[3].pid, 0);
}

static void those_with_most_stay(void **state)
{
    struct pfl_lossy_processes lossy_processes = {0};
    uint64_t most = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        pfl_lossy_processes_note(&lossy_processes, 7);
        pfl_lossy_processes_note(&lossy_processes, 1000 + i);
    }
    for (size_t i = 0; i < PFL_LOSSY_PROCESSES_MAX; i++)
        most = lossy_processes.list[i].pid == 7 ? lossy_processes.list[i].marks : most;
    assert_int_equal(most, 1000);
}

static void the_merge_knows_whose_packet_marks_a_loss(void **state)
{
    struct merge_world w;
    const struct pfl_merge_stats *stats;
    uint8_t packet[64];

    (void)state;
    assert_int_equal(merge_world_open(&w), 0);
    for (unsigned i = 0; i < 5; i++) {
        struct pfl_writer p = pfl_writer_of(packet, sizeof(packet));

        pfl_writer_field_varint(&p, TIMESTAMP, 12345);
        if (i == 3)
            pfl_writer_field_varint(&p, DROPPED, 257);
        pfl_writer_field_varint(&p, 3, 1000);
        pfl_writer_field_varint(&p, SEQUENCE, 9);
        pfl_writer_field_varint(&p, 79, 4711);
        assert_int_equal(merge_world_give(&w, w.b, packet, sizeof(packet) - p.left), 0);
    }
    stats = pfl_merge_get_stats(w.merge, w.b);
    assert_int_equal(stats->loss_marks, 1);
    assert_int_equal(stats->lossy_processes.list[0].pid, 4711);
    assert_int_equal(stats->lossy_processes.list[0].marks, 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->lossy_processes.list[0].pid, 0);
    merge_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_process_has_its_count),
        cmocka_unit_test(those_with_most_stay),
        cmocka_unit_test(the_merge_knows_whose_packet_marks_a_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
