/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the example writes: packets of Perfetto's trace_packet.proto, field by field.
 *
 * Load: TracePacket.for_testing with a counter of the sequence. Track events: a process, a thread
 * with nested slices, and a counter track; descriptors are written whenever readers do not know
 * them (a new writer, a loss, cleared state).
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "producer/example/example.h"

enum { PACKET_TIMESTAMP = 8, PACKET_TRACK_EVENT = 11, PACKET_SEQUENCE_FLAGS = 13 };
enum { PACKET_TRACK_DESCRIPTOR = 60, PACKET_FOR_TESTING = 900 };
enum { TEST_EVENT_STR = 1, TEST_EVENT_SEQ_VALUE = 2 };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4 };
enum { TRACK_PARENT_UUID = 5, TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { EVENT_TYPE = 9, EVENT_TRACK_UUID = 11, EVENT_CATEGORIES = 22, EVENT_NAME = 23 };
enum { EVENT_COUNTER_VALUE = 30 };
enum { SLICE_BEGIN = 1, SLICE_END = 2, COUNTER = 4 };
enum { INCREMENTAL_STATE_CLEARED = 1 };

void example_write_load(struct example_thread *t, struct perfleet_writer *w, uint32_t seq_value)
{
    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(w, PACKET_FOR_TESTING);
    perfleet_uint(w, TEST_EVENT_SEQ_VALUE, seq_value);
    perfleet_bytes(w, TEST_EVENT_STR, t->example->text, t->example->size_bytes);
    perfleet_end(w);
    perfleet_packet_end(w);
}

/* Track ids only need to differ within the trace: the process id sets processes apart. */
static uint64_t track_uuid(const struct example_thread *t, uint32_t kind)
{
    return (uint64_t)getpid() << 32 | (uint64_t)(t == NULL ? 0 : t->index + 1) << 8 | kind;
}

enum { KIND_PROCESS = 1, KIND_THREAD = 2, KIND_COUNTER = 3 };

static void write_process(struct perfleet_writer *w)
{
    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
    perfleet_begin(w, PACKET_TRACK_DESCRIPTOR);
    perfleet_uint(w, TRACK_UUID, track_uuid(NULL, KIND_PROCESS));
    perfleet_begin(w, TRACK_PROCESS);
    perfleet_int(w, PROCESS_PID, getpid());
    perfleet_string(w, PROCESS_NAME, "perfleet-example");
    perfleet_end(w);
    perfleet_end(w);
    perfleet_packet_end(w);
}

static void write_tracks(struct example_thread *t, struct perfleet_writer *w)
{
    char name[32];

    snprintf(name, sizeof(name), "load-%u", t->index);
    write_process(w);
    perfleet_packet_begin(w);
    perfleet_begin(w, PACKET_TRACK_DESCRIPTOR);
    perfleet_uint(w, TRACK_UUID, track_uuid(t, KIND_THREAD));
    perfleet_uint(w, TRACK_PARENT_UUID, track_uuid(NULL, KIND_PROCESS));
    perfleet_begin(w, TRACK_THREAD);
    perfleet_int(w, THREAD_PID, getpid());
    perfleet_int(w, THREAD_TID, syscall(SYS_gettid));
    perfleet_string(w, THREAD_NAME, name);
    perfleet_end(w);
    perfleet_end(w);
    perfleet_packet_end(w);

    snprintf(name, sizeof(name), "queue of load-%u", t->index);
    perfleet_packet_begin(w);
    perfleet_begin(w, PACKET_TRACK_DESCRIPTOR);
    perfleet_uint(w, TRACK_UUID, track_uuid(t, KIND_COUNTER));
    perfleet_uint(w, TRACK_PARENT_UUID, track_uuid(NULL, KIND_PROCESS));
    perfleet_string(w, TRACK_NAME, name);
    perfleet_begin(w, TRACK_COUNTER);
    perfleet_end(w);
    perfleet_end(w);
    perfleet_packet_end(w);
}

static void write_slice(struct example_thread *t, struct perfleet_writer *w, const char *name)
{
    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(w, PACKET_TRACK_EVENT);
    perfleet_uint(w, EVENT_TYPE, name != NULL ? SLICE_BEGIN : SLICE_END);
    perfleet_uint(w, EVENT_TRACK_UUID, track_uuid(t, KIND_THREAD));
    if (name != NULL) {
        perfleet_string(w, EVENT_CATEGORIES, "example");
        perfleet_string(w, EVENT_NAME, name);
    }
    perfleet_end(w);
    perfleet_packet_end(w);
}

static void write_counter(struct example_thread *t, struct perfleet_writer *w, int64_t value)
{
    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(w, PACKET_TRACK_EVENT);
    perfleet_uint(w, EVENT_TYPE, COUNTER);
    perfleet_uint(w, EVENT_TRACK_UUID, track_uuid(t, KIND_COUNTER));
    perfleet_int(w, EVENT_COUNTER_VALUE, value);
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

void example_write_track_events(struct example_thread *t, struct perfleet_writer *w)
{
    static const char *const steps[] = {"parse", "plan", "execute", "answer"};
    uint32_t n = t->steps;

    if (perfleet_writer_take_reset(w))
        write_tracks(t, w);
    write_slice(t, w, "request");
    for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        write_slice(t, w, steps[i]);
        work(2000 + (n * 7 + i * 13) % 20 * 1000);
        write_slice(t, w, NULL);
    }
    write_slice(t, w, NULL);
    write_counter(t, w, n % 64 < 32 ? n % 64 : 64 - n % 64);
}
