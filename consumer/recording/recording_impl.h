/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by recording.c and recording_merge.c; private to them. */
#ifndef PFL_CONSUMER_RECORDING_IMPL_H
#define PFL_CONSUMER_RECORDING_IMPL_H

#include "consumer/recording/recording.h"
#include "consumer/recording/trace_files.h"

struct pfl_recording;

struct pfl_recording_member {
    struct pfl_recording *owner;
    struct pfl_host_recording *recording; /* owned */
    enum pfl_host_recording_state state;  /* as it is counted in `in` */
    size_t merge_index;
    uint64_t charged_packets; /* of those that came compressed */
    uint64_t charged_bytes;
    bool is_merged;
    bool has_line;
    struct pfl_clock_line line; /* relative to the operator's clock */
    struct pfl_clock_line last; /* streamed: the last measurement */
    struct pfl_clock_line now;  /* streamed: through the last two; the basis of clock points */
    bool has_laid;
    int64_t laid_ns; /* its offset against the reference at the last point */
};

struct pfl_recording {
    struct pfl_recording_conf conf;
    enum pfl_recording_phase phase;
    struct pfl_recording_member hosts[PFL_RECORDING_MAX_HOSTS];
    size_t hosts_len;
    size_t in[PFL_HOST_STATES];   /* how many hosts are in a state */
    size_t reference;             /* index in hosts, once merging */
    struct pfl_merge *merge;      /* owned; NULL before reading */
    struct pfl_trace_files *file; /* owned; NULL before start and after close */
    uv_timer_t timer;             /* of the phase */
    uv_timer_t watch;             /* checks for disconnected hosts */
    unsigned open_timers;
    struct pfl_recording_absent absent; /* at the last check */
    uint64_t waiting_since_ms; /* of the loop: only disconnected hosts are left; 0: not so */
    uint64_t pushed_ms;        /* streamed: the last push to the file */
    unsigned interrupts;
    char *partial; /* owned; NULL: no partial file */
    uint64_t run_began_ns;
    uint64_t file_bytes;
    int64_t merge_from_ns; /* operator's clock: what the clock points span */
    int64_t merge_to_ns;
    uint32_t first_file; /* of a rotation that is over */
    uint32_t last_file;
    uint64_t packets_before; /* in the files before the current one */
    int file_error;          /* errno */
    bool is_disk_low;
    bool is_triggered;   /* a trigger was raised on a host */
    bool has_self_ended; /* a host's session ended by itself */
    bool is_ending;
    bool is_gathering; /* in STOP: reading begins soon */
    bool is_aborted;
    bool is_evaluating;
    bool is_dirty;
    char why[512];
};

/* Some hosts have stopped: writes names and clock points of those. */
PFL_MUST_USE int pfl_recording_begin_merge(struct pfl_recording *self);
/* Adds a host that stopped after them. */
PFL_MUST_USE int pfl_recording_join_merge(struct pfl_recording *self, size_t host);

/* As struct pfl_host_recording_conf has them; `user` is the member. */
int pfl_recording_on_packet(void *user, struct pfl_host_recording *host_recording,
                            const struct iovec *slices, int slices_len, size_t bytes);
int pfl_recording_on_run(void *user, struct pfl_host_recording *host_recording,
                         const struct pfl_packet_run *run, uint64_t *ret_bytes);

/* The first reason is kept. */
void pfl_recording_set_why(struct pfl_recording *self, const char *why);
/* It cannot be written, or not be opened: an errno. */
void pfl_recording_set_file_why(struct pfl_recording *self, const char *path, int err);
void pfl_recording_set_open_why(struct pfl_recording *self, int err);
/* Whether the file is still in place, and the disk has room for the hosts' reported data. */
PFL_MUST_USE bool pfl_recording_has_room(struct pfl_recording *self);
/* The file cannot be written (errno): unread data stays on the hosts. */
void pfl_recording_fail_file(struct pfl_recording *self, const char *path, int err);

/* Streamed: begins with the hosts that have started, and those that do so later. */
PFL_MUST_USE int pfl_recording_begin_stream(struct pfl_recording *self);
/* Streamed, call often: makes each host read its buffers. */
void pfl_recording_stream(struct pfl_recording *self);
/* Streamed: the disk has more free space than required. False: the reason as text. */
bool pfl_recording_has_disk_room(const struct pfl_recording *self, char *ret_why, size_t why_size);
/* Streamed: when due, begins the next file, and completes the previous one. 0, or an errno: the
 * next one cannot be opened. */
int pfl_recording_rotate(struct pfl_recording *self);
/* Streamed: a host's clock was measured again. */
void pfl_recording_note_clock(struct pfl_recording *self, size_t host);
/* Streamed: a host has stopped, its last data follow. */
PFL_MUST_USE int pfl_recording_rejoin_merge(struct pfl_recording *self, size_t host);

/* Hosts that the phase waits for, as bits of enum pfl_host_recording_state. */
unsigned pfl_recording_waited_states(const struct pfl_recording *self);
/* Checks for disconnected hosts, and fails those that were waited for long enough. */
void pfl_recording_watch(struct pfl_recording *self);
/* Leaves out disconnected hosts. */
void pfl_recording_leave_absent(struct pfl_recording *self, const char *why);

#endif
