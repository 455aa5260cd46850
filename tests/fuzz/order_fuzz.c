/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: the first byte says whether text, a peer's bytes or a schedule's state follows. Whatever
 * comes: it is refused with words, or it is within its bounds and the same after another trip.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/order/order.h"
#include "proto/order/schedule.h"
#include "proto/order/selector.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_terms(const Perfleet__Order *order)
{
    struct pfl_selector_host host = {.name = "web-1"};
    struct pfl_order_terms t;

    pfl_order_get_terms(order, &t);
    note("fits %d, when %d, every %llu, duration %llu, segment %llu, quota %llu, hosts %u %% or %u",
         pfl_selector_fits(order->select, &host), t.when, (unsigned long long)t.every_ms,
         (unsigned long long)t.duration_ms, (unsigned long long)t.segment_bytes,
         (unsigned long long)t.quota_bytes, (unsigned)t.hosts_percent, (unsigned)t.hosts_count);
    if (t.segment_bytes > PFL_ORDER_MAX_SEGMENT_BYTES ||
        t.duration_ms > PFL_ORDER_MAX_DURATION_MS || t.triggers_len > PFL_ORDER_MAX_TRIGGERS ||
        t.quota_bytes > PFL_ORDER_MAX_QUOTA_BYTES || t.quota_bytes < 2 * t.segment_bytes ||
        (t.when == PFL_ORDER_SCHEDULE && (t.every_ms == 0 || t.duration_ms > t.every_ms)) ||
        (t.when == PFL_ORDER_ON_TRIGGER) != (t.triggers_len != 0) || t.hosts_percent > 100)
        abort();
}

static void check_order(const Perfleet__Order *order)
{
    char why[PFL_ORDER_WHY_BYTES] = "";
    Perfleet__Order *again;
    struct pfl_buf bytes;

    check_terms(order);
    pfl_buf_init(&bytes, 2 * PFL_ORDER_MAX_BYTES);
    if (pfl_proto_pack(&order->base, &bytes) == 0 && bytes.len <= PFL_ORDER_MAX_BYTES &&
        order->preset == NULL) {
        note_message("order", pfl_buf_get(&bytes));
        if (pfl_order_unpack(pfl_buf_get(&bytes), &again, why) != 0)
            abort();
        pfl_proto_free(&again->base);
    }
    pfl_buf_fini(&bytes);
}

static void try_order(struct pfl_span in, bool is_text)
{
    char why[PFL_ORDER_WHY_BYTES] = "";
    Perfleet__Order *order;
    int rc = is_text ? pfl_order_parse(in, PFL_ORDER_MAY_HAVE_PRESET, &order, why)
                     : pfl_order_unpack(in, &order, why);

    if (rc != 0 && why[0] == '\0')
        abort();
    note("%s %s", pfl_err_str(rc), why);
    if (rc != 0)
        return;
    check_order(order);
    pfl_proto_free(&order->base);
}

static void try_schedule(struct pfl_span in)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    const struct pfl_schedule_hosts hosts = {names, 5};
    const struct pfl_order_terms terms = {
        .when = PFL_ORDER_SCHEDULE, .every_ms = 10000, .duration_ms = 10000, .hosts_count = 2};
    bool is_chosen[5] = {false};
    struct pfl_schedule *s;
    struct pfl_buf bytes;

    if (pfl_schedule_load(in, &s) != 0)
        return;
    for (uint64_t now_ms = 0; now_ms < 100000; now_ms += 10000)
        if (pfl_schedule_choose(s, &terms, now_ms, &hosts, is_chosen) == 0 &&
            is_chosen[0] + is_chosen[1] + is_chosen[2] + is_chosen[3] + is_chosen[4] != 2)
            abort();
        else
            note("at %llu: %d%d%d%d%d", (unsigned long long)now_ms, is_chosen[0], is_chosen[1],
                 is_chosen[2], is_chosen[3], is_chosen[4]);
    pfl_buf_init(&bytes, 2 * PFL_SCHEDULE_STATE_MAX_BYTES);
    if (pfl_schedule_save(s, &bytes) == 0) {
        note_message("saved", pfl_buf_get(&bytes));
        pfl_schedule_free(s);
        if (pfl_schedule_load(pfl_buf_get(&bytes), &s) != 0)
            abort();
    }
    pfl_schedule_free(s);
    pfl_buf_fini(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 3 == 2)
        try_schedule(pfl_span_of(data + 1, size - 1));
    else
        try_order(pfl_span_of(data + 1, size - 1), data[0] % 3 == 0);
    return 0;
}
