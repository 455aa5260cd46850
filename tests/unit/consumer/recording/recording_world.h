/* SPDX-License-Identifier: Apache-2.0 */
/* A recording of two played hosts into a file, for the recording's tests. */
#ifndef PFL_TESTS_CONSUMER_RECORDING_WORLD_H
#define PFL_TESTS_CONSUMER_RECORDING_WORLD_H

#include "consumer/recording/recording.h"
#include "tests/unit/consumer/fake_host.h"

#define HOSTS      2u
#define PACKETS    100u
#define PREAMBLE   5u /* clock, two names, one clock point, one clock quality */
#define STEP_MS    60000u
#define SILENCE_MS 150u /* waiting for a silent host, on a machine that is not slow */
#define OFFSET_NS  7000000000000ll
#define CLOCK_SLOP 50000000ll /* a machine under load */

struct recording_world {
    uv_loop_t loop;
    struct fake_host fakes[HOSTS];
    struct pfl_host_spec specs[HOSTS];
    struct pfl_recording *recording;
    char path[64];
    size_t quorum;
    uint32_t step_ms;
    uint64_t read_limit;  /* 0: none was given */
    bool is_left_running; /* the test does not stop it */
    bool loses_file;      /* it is removed in the meantime */
    unsigned passes;      /* streamed: it is stopped when each host was read so often */
    struct pfl_trace_files_rotation rotation;
    uint64_t keep_free; /* of the disk */
    bool is_over;
    bool has_run;
};

/* Then the test changes what it wants otherwise. */
void recording_world_prepare(struct recording_world *self);
/* What pfl_recording_new says; finish is due in any case. */
int recording_world_start(struct recording_world *self);
void recording_world_finish(struct recording_world *self);
void recording_world_fini(struct recording_world *self);
/* start and finish. */
void recording_world_run(struct recording_world *self);
struct pfl_recording_host recording_world_result(const struct recording_world *self, size_t host);
/* The file is packets from end to end; returns how many. */
size_t recording_world_count_packets(const struct recording_world *self);

#endif
