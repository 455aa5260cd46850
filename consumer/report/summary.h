/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a recording: numbers in, text or JSON and an exit code out. Pure. */
#ifndef PFL_CONSUMER_SUMMARY_H
#define PFL_CONSUMER_SUMMARY_H

#include "base/buf.h"
#include "consumer/host/losses.h"
#include "consumer/host/registered_sources.h"
#include "consumer/host/session_fate.h"
#include "consumer/merge/interned.h"
#include "consumer/merge/lossy_processes.h"

/* The exit codes of perfleet record, documented in its man page. */
enum pfl_exit {
    PFL_EXIT_OK = 0,
    PFL_EXIT_NOTHING = 1, /* no host could be recorded */
    PFL_EXIT_USAGE = 2,   /* the command line or the config is wrong */
    PFL_EXIT_LOSS = 3,    /* every host is in the file, but data was lost */
    PFL_EXIT_PARTIAL = 4, /* a host is missing or cut short */
    PFL_EXIT_FILE = 5,    /* the trace file could not be written, or has no more room */
    PFL_EXIT_EMPTY = 6,   /* a host's data sources wrote nothing, or no host offers them */
    PFL_EXIT_ABORT = 130, /* aborted by the operator */
};

struct pfl_summary_host {
    const char *name;         /* borrowed, like all strings here */
    const char *address;      /* as given */
    const char *why;          /* "" or why it failed */
    const char *failed_while; /* NULL, or the step of the failure; `why` was printed already */
    const char *trigger;      /* "" or NULL, or the trigger that was raised there */
    bool is_merged; /* its packets are in the file, perhaps not all; without file: it runs */
    bool is_reference;
    uint64_t packets;
    uint64_t bytes; /* in the file */
    uint32_t sequences;
    bool is_given_up; /* for the reason of the whole recording, which is printed there */
    enum pfl_session_fate fate;
    unsigned resumes;            /* of its connection */
    double read_seconds;         /* 0: unknown */
    uint64_t loss_marks;         /* gaps that packets report */
    uint64_t refused_packets;    /* that could not be read or merged */
    uint64_t unrepeated_packets; /* that each file of a rotation should have, and did not fit */
    struct pfl_interned_counts unreadable;
    struct pfl_lossy_processes lossy_processes;
    const struct pfl_registered_sources *sources; /* for producers' names; NULL: not known */
    bool is_empty;   /* no producer's packet arrived, although the session was to record some */
    bool has_losses; /* the service's own counters are known */
    struct pfl_losses losses;
    bool has_offset;
    int64_t offset_ns;
    int64_t drift_ns;
    int64_t error_ns;
};

struct pfl_summary {
    const struct pfl_summary_host *hosts;
    size_t hosts_len;
    const char *path;         /* NULL: sessions were left running, nothing was read */
    const char *session;      /* its name, or NULL */
    bool is_ring;             /* overwriting the oldest data is intended */
    const char *partial;      /* NULL, or the remaining partial file */
    const char *kept_session; /* of hosts with PFL_SESSION_KEPT */
    uint64_t file_bytes;
    const char *first_file; /* of a rotation: the existing complete files; NULL: none */
    const char *last_file;
    uint32_t files;         /* how many; 0: no rotation */
    uint32_t removed_files; /* before them */
    const char *why;        /* "" or why the whole failed */
    bool is_aborted;
    bool has_file_failed;
    bool is_disk_low;   /* stopped to keep space on the disk free */
    bool has_no_source; /* not started: no host offers its data sources */
    bool has_skew;
    int64_t skew_ns;
    double seconds; /* that were recorded */
};

enum pfl_exit pfl_summary_exit(const struct pfl_summary *summary);
/* All known losses of this host's data, in loss events. */
uint64_t pfl_summary_losses(const struct pfl_summary *summary, const struct pfl_summary_host *host);
/* PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_summary_text(const struct pfl_summary *summary, struct pfl_buf *out);
PFL_MUST_USE int pfl_summary_json(const struct pfl_summary *summary, struct pfl_buf *out);

#endif
