/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The example's events.
 *
 * Load: TracePacket.for_testing with a counter of the sequence, field by field. Track events: each
 * thread serves requests, a slice with four nested slices and an argument, and has a counter of
 * waiting requests. Every 16th request is slow, some 2 ms; an arrow leads from every tenth request
 * to the next.
 */
#include <stdio.h>

#include "perfetto/test_event.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "producer/example/example.h"

enum { LONG_REQUEST_EACH = 16, LONG_REQUEST_FACTOR = 32 };

PERFLEET_CATEGORY_DEFINE(example_request, "example.request", "Requests, whole", NULL)
PERFLEET_CATEGORY_DEFINE(example_step, "example.step", "What a request does", NULL)

void example_write_load(struct example_thread *t, struct perfleet_writer *w, uint32_t seq_value)
{
    perfleet_packet_begin(w);
    perfleet_uint(w, TRACE_PACKET__TIMESTAMP, perfleet_time_ns());
    perfleet_begin(w, TRACE_PACKET__FOR_TESTING);
    perfleet_uint(w, TEST_EVENT__SEQ_VALUE, seq_value);
    perfleet_bytes(w, TEST_EVENT__STR, t->example->text, t->example->size_bytes);
    perfleet_end(w);
    perfleet_packet_end(w);
}

/* Something with a length, so that slices can be seen. */
static uint64_t work(uint32_t rounds)
{
    volatile uint64_t x = 1;

    for (uint32_t i = 0; i < rounds; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

bool example_has_listeners(const struct example *ex)
{
    if (!ex->has_track_events)
        return perfleet_active(ex->source) != 0;
    return perfleet_category_is_enabled(&example_request) ||
           perfleet_category_is_enabled(&example_step);
}

uint32_t example_write_track_events(struct example_thread *t)
{
    static const char *const steps[] = {"parse", "plan", "execute", "answer"};
    const uint32_t steps_len = sizeof(steps) / sizeof(steps[0]);
    uint32_t n = t->steps;

    PERFLEET_EVENT (ev, &example_request, PERFLEET_SLICE_BEGIN, "request") {
        perfleet_arg(ev, "number", n);
        if (n % 10 < 2) /* an arrow from each tenth request to the one after it */
            perfleet_event_flow(ev, perfleet_process_scoped_id((uint64_t)t->index << 32 | n / 10));
    }
    for (uint32_t i = 0; i < steps_len; i++) {
        uint32_t rounds = 2000 + (n * 7 + i * 13) % 20 * 1000;

        if (n % LONG_REQUEST_EACH == 0)
            rounds *= LONG_REQUEST_FACTOR;

        PERFLEET_EVENT (ev, &example_step, PERFLEET_SLICE_BEGIN | PERFLEET_STATIC_NAME, steps[i]) {
            perfleet_arg(ev, "rounds", rounds);
        }
        work(rounds);
        PERFLEET_TRACE_EVENT_END(&example_step);
    }
    PERFLEET_TRACE_EVENT_END(&example_request);
    PERFLEET_TRACE_COUNTER(&example_request, &t->queue, n % 64 < 32 ? n % 64 : 64 - n % 64);
    return 2 * steps_len + 3;
}
