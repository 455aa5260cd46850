/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One recording of many hosts: connect all, set all up, start together, stop together, read all in
 * parallel into one file; free the hosts' data when the file is complete. Partial failure is a
 * result: hosts that fail are left out or cut short, the others continue. A disconnected host is
 * waited for only when nothing else is left to do.
 */
#ifndef PFL_CONSUMER_RECORDING_H
#define PFL_CONSUMER_RECORDING_H

#include "consumer/host/host_recording.h"
#include "consumer/merge/merge.h"
#include "consumer/recording/trace_files.h"

#define PFL_RECORDING_MAX_HOSTS PFL_MERGE_MAX_HOSTS

enum pfl_recording_phase {
    PFL_RECORDING_CONNECT, /* until every host is ready or has failed */
    PFL_RECORDING_START,
    PFL_RECORDING_RUN,
    PFL_RECORDING_STOP,  /* until most hosts have stopped */
    PFL_RECORDING_READ,  /* those that have stopped; the others join when they have */
    PFL_RECORDING_CLOSE, /* the file is completed */
    PFL_RECORDING_FREE,  /* what was read is freed on the hosts */
    PFL_RECORDING_OVER,
};

#define PFL_RECORDING_WAIT_MS 60000u

struct pfl_recording;

struct pfl_recording_conf {
    struct pfl_host_recording_conf
        each_host; /* the recording sets spec, on_change, on_packet, on_run and user */
    const struct pfl_host_spec *specs; /* borrowed while the recording lives */
    size_t specs_len;                  /* 1 .. PFL_RECORDING_MAX_HOSTS */
    const char *output_path;           /* borrowed; "-" = standard output; NULL: nothing is read */
    bool no_clobber;                   /* output_path must not exist */
    struct pfl_trace_files_rotation rotation; /* only with each_host.is_streamed */
    uint64_t change_ms;       /* maximal time of the transition from one file to the next */
    bool has_keep_free;       /* the operator set keep_free_bytes */
    uint64_t keep_free_bytes; /* of the disk, while it is streamed */
    bool has_wait;            /* the operator set wait_ms */
    uint64_t wait_ms;         /* for disconnected hosts; 0: PFL_RECORDING_WAIT_MS */
    size_t quorum;            /* hosts that must be ready to start; >= 1 */
    uint64_t duration_ms;     /* of the config, for the shell; 0 = until stopped */
    /* All hosts are ready, or have failed: returns why none should start, or NULL. The text is
     * valid until on_over. May be NULL. */
    const char *(*why_not_start)(void *user, const struct pfl_recording *self);
    /* A host changed its state, or the phase changed (host_recording NULL). */
    void (*on_progress)(void *user, const struct pfl_recording *self,
                        const struct pfl_host_recording *host_recording);
    /* Last callback, once; results are valid until free. */
    void (*on_over)(void *user);
    void *user;
};

/* The result of one host. */
struct pfl_recording_host {
    const struct pfl_host_spec *spec;
    const struct pfl_host_report *report;
    enum pfl_host_recording_state state;
    uint64_t away_ms;              /* as pfl_host_recording_get_away_ms */
    struct pfl_merge_stats merged; /* zero before reading */
    bool is_merged;                /* has packets or could have had some: it was started */
    bool is_reference;
    bool has_offset;
    int64_t offset_ns; /* its boot clock - the reference's, at the beginning */
    int64_t drift_ns;  /* its change until the end */
    int64_t error_ns;
};

/* Hosts whose connections are lost now. */
struct pfl_recording_absent {
    size_t hosts;
    const struct pfl_host_recording *longest; /* borrowed; NULL: none */
    uint64_t away_ms;                         /* of that host */
    bool is_relay;                            /* the relay itself cannot be reached */
    bool is_waited_for;                       /* nothing else is left to do */
};

PFL_MUST_USE int pfl_recording_new(const struct pfl_recording_conf *conf,
                                   struct pfl_recording **ret_recording);
/* Only after on_over. */
void pfl_recording_free(struct pfl_recording *self);
/* "Stop and read": before the start it aborts. */
void pfl_recording_stop(struct pfl_recording *self);
/*
 * The operator's Ctrl-C. The first one ends the current phase in order: before the start it aborts,
 * then it stops and reads, then it leaves out disconnected hosts. The second one ends at once: the
 * file keeps its content. False: nothing is left to cut short.
 */
bool pfl_recording_interrupt(struct pfl_recording *self);
/* Aborts everything; the file keeps its content. */
void pfl_recording_abort(struct pfl_recording *self, const char *why);

/* While it runs, not streamed: updates the hosts' counters in their reports, a little later. */
void pfl_recording_ask_losses(struct pfl_recording *self);

enum pfl_recording_phase pfl_recording_get_phase(const struct pfl_recording *self);
size_t pfl_recording_get_hosts_len(const struct pfl_recording *self);
void pfl_recording_get_host(const struct pfl_recording *self, size_t host,
                            struct pfl_recording_host *ret_host);
uint64_t pfl_recording_get_file_bytes(const struct pfl_recording *self);
/* The complete files of a rotation, by number; false: none, or no rotation. */
bool pfl_recording_get_files(const struct pfl_recording *self, uint32_t *ret_first,
                             uint32_t *ret_last);
/* It was stopped because the disk is nearly full. */
bool pfl_recording_is_disk_low(const struct pfl_recording *self);
/* The partial file that could not be completed; NULL: none. */
const char *pfl_recording_get_partial(const struct pfl_recording *self);
void pfl_recording_get_absent(const struct pfl_recording *self,
                              struct pfl_recording_absent *ret_absent);
/* Why the whole recording failed, as text; "" if it did not. */
const char *pfl_recording_get_why(const struct pfl_recording *self);
bool pfl_recording_has_file_failed(const struct pfl_recording *self);
bool pfl_recording_is_aborted(const struct pfl_recording *self);
/* Latest minus earliest start of tracing on the reference's timeline; false when fewer than two
 * hosts are known. */
bool pfl_recording_get_skew(const struct pfl_recording *self, int64_t *ret_skew_ns);
/* From the first request to start to the last answer: without a trace, an upper bound of the skew.
 */
bool pfl_recording_get_skew_bound(const struct pfl_recording *self, int64_t *ret_skew_ns);

#endif
