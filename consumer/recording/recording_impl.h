/* SPDX-License-Identifier: Apache-2.0 */
/* What recording.c and recording_merge.c share; nobody else includes it. */
#ifndef PFL_CONSUMER_RECORDING_IMPL_H
#define PFL_CONSUMER_RECORDING_IMPL_H

#include "consumer/recording/recording.h"
#include "consumer/recording/trace_file.h"

struct pfl_recording;

struct pfl_recording_member {
    struct pfl_recording *owner;
    struct pfl_host_link *link; /* owned */
    enum pfl_link_state state;  /* as it is counted in `in` */
    size_t merge_index;
    bool is_merged;
    bool has_line;
    struct pfl_clock_line line; /* against the operator's clock */
};

struct pfl_recording {
    struct pfl_recording_conf conf;
    enum pfl_recording_phase phase;
    struct pfl_recording_member hosts[PFL_RECORDING_MAX_HOSTS];
    size_t hosts_len;
    size_t in[PFL_LINK_STATES];  /* how many links are in a state */
    size_t reference;            /* index in hosts, once merging */
    struct pfl_merge *merge;     /* owned; NULL before reading */
    struct pfl_trace_file *file; /* owned; NULL before start and after close */
    uv_timer_t timer;
    uint64_t run_began_ns;
    uint64_t file_bytes;
    int64_t merge_from_ns; /* operator's clock: what the clock points span */
    int64_t merge_to_ns;
    int file_error;      /* errno */
    bool is_triggered;   /* a trigger was raised at some host */
    bool has_self_ended; /* the session of some host ended by itself */
    bool is_ending;
    bool is_aborted;
    bool is_evaluating;
    bool is_dirty;
    char why[512];
};

/* All hosts that can be read have stopped: writes names and clock points. */
PFL_MUST_USE int pfl_recording_begin_merge(struct pfl_recording *self);

#endif
