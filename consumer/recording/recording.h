/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One recording of many hosts: connect all, set all up, start together, stop together, read all at
 * once into one file. Partial failure is a result: hosts that fail are left out or cut short, the
 * others go on.
 */
#ifndef PFL_CONSUMER_RECORDING_H
#define PFL_CONSUMER_RECORDING_H

#include "consumer/link/host_link.h"
#include "consumer/merge/merge.h"

#define PFL_RECORDING_MAX_HOSTS PFL_MERGE_MAX_HOSTS

enum pfl_recording_phase {
    PFL_RECORDING_CONNECT, /* until every host is ready or has failed */
    PFL_RECORDING_START,
    PFL_RECORDING_RUN,
    PFL_RECORDING_STOP,
    PFL_RECORDING_READ,
    PFL_RECORDING_CLOSE, /* the file's last bytes */
    PFL_RECORDING_OVER,
};

struct pfl_recording;

struct pfl_recording_conf {
    struct pfl_host_link_conf link;    /* spec, on_change, on_packet, on_run and user are ours */
    const struct pfl_host_spec *specs; /* borrowed while the recording lives */
    size_t specs_len;                  /* 1 .. PFL_RECORDING_MAX_HOSTS */
    const char *output_path;           /* borrowed; "-" = standard output; NULL: nothing is read */
    size_t quorum;                     /* hosts that must be ready to start; >= 1 */
    uint64_t duration_ms;              /* of the config, for the shell; 0 = until stopped */
    /* A host changed its state, or the phase changed (link NULL). */
    void (*on_progress)(void *user, const struct pfl_recording *self,
                        const struct pfl_host_link *link);
    /* Last callback, once; results are valid until free. */
    void (*on_over)(void *user);
    void *user;
};

/* What became of one host. */
struct pfl_recording_host {
    const struct pfl_host_spec *spec;
    const struct pfl_host_report *report;
    enum pfl_link_state state;
    struct pfl_merge_stats merged; /* zero before reading */
    bool is_merged;                /* has packets or could have had: it was started */
    bool is_reference;
    bool has_offset;
    int64_t offset_ns; /* its boot clock - the reference's, at the beginning */
    int64_t drift_ns;  /* how much that changed until the end */
    int64_t error_ns;
};

PFL_MUST_USE int pfl_recording_new(const struct pfl_recording_conf *conf,
                                   struct pfl_recording **ret_recording);
/* Only after on_over. */
void pfl_recording_free(struct pfl_recording *self);
/* "Stop and read": before the start it aborts. */
void pfl_recording_stop(struct pfl_recording *self);
/* Gives up everything; the file keeps what is in it. */
void pfl_recording_abort(struct pfl_recording *self, const char *why);

enum pfl_recording_phase pfl_recording_get_phase(const struct pfl_recording *self);
size_t pfl_recording_get_hosts_len(const struct pfl_recording *self);
void pfl_recording_get_host(const struct pfl_recording *self, size_t host,
                            struct pfl_recording_host *ret_host);
uint64_t pfl_recording_get_file_bytes(const struct pfl_recording *self);
/* Why the whole of it failed, in words; "" when it did not. */
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
