/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ring buffer of the kernel that sessions record into: this program's own instance, which is
 * made ahead, one for the function graph, or a borrowed one: instances/<name>, or the top of
 * tracefs. What is borrowed is noted in the undo log before it is changed. A shell.
 */
#ifndef PFL_PROBES_FTRACE_INSTANCE_H
#define PFL_PROBES_FTRACE_INSTANCE_H

#include "agent/probes/ftrace/top_state.h"
#include "agent/probes/kernel_events/event_catalog.h"
#include "agent/probes/kernel_events/page_reader.h"
#include "agent/probes/procfs/probe_message.h"
#include "agent/probes/tracefs/cpu_buffers.h"
#include "agent/probes/tracefs/instance_maker.h"
#include "agent/probes/tracefs/undo.h"

#define PFL_INSTANCE_PATH_MAX 96u
#define PFL_INSTANCE_TOP      "."

/* FtraceStats.atrace_errors: the field for what cannot be set up. */
#define PFL_STATS_SETUP_ERRORS 5u

struct pfl_ftrace_instance {
    char path[PFL_INSTANCE_PATH_MAX]; /* below tracefs; "": own, made ahead; a name that no other
                                         has */
    int dir_fd; /* borrowed from an own one's tracefs, else owned; -1: closed */
    uint32_t buffer_size_kb;
    uint32_t clock;    /* FtraceClock; 0: boot time */
    bool is_made;      /* by us, and goes with us: nothing to put back */
    bool is_running;   /* a session records into it */
    bool is_preserved; /* what was in the buffer is to be read, so its size and clock stay */
    bool is_altered;   /* more was set than stopping takes back: it is not used again */
    bool is_exclusive; /* the first session restricts what is recorded */
    bool has_graph;    /* the function graph tracer is on */
    bool has_poll;     /* the kernel tells when a buffer is filling up */
    /* Of the top-level buffer, borrowed for what only it gets (adr/0031): */
    bool is_watched; /* set by the owner before the start; it ends when somebody else uses it */
    bool is_lost;    /* somebody does: nothing is read any more */
    uint16_t marker_users;       /* sessions' events that options/copy_trace_marker brings */
    struct pfl_tracefs graph_fs; /* of the function graph's own instance */
    struct pfl_cpu_buffers buffers;
    struct pfl_bundle bundle;
    uint64_t clock_ns[2]; /* that clock and boot time, at the begin of a drain */
    uint64_t pages_read;
    struct {
        struct pfl_top_files files; /* as they were set up */
        uint64_t next_ns;           /* when to look again */
        size_t next_cpu;
    } top;
    uint16_t *users; /* owned; sessions that have an event on, by its index in the catalog; one more
                      * when somebody else had it on before */
    size_t users_count;
};

/* What an instance needs of the data source. */
struct pfl_ftrace_host {
    struct pfl_tracefs *fs;           /* borrowed; the maker's while it is busy, but for root_fd */
    struct pfl_instance_maker *maker; /* borrowed */
    struct pfl_undo *undo;            /* borrowed */
    bool is_ending;                   /* set by the owner: no further session will come */
};

/* For the first session everything, for a further one larger buffers if it asks. PFL_EIO,
 * PFL_ENOMEM, PFL_EPERM (somebody else's tracer is at work): nothing runs then. What goes wrong is
 * told in `errors`. */
PFL_MUST_USE int pfl_ftrace_instance_start(struct pfl_ftrace_instance *self,
                                           struct pfl_ftrace_host *host,
                                           const struct pfl_ftrace_conf *conf,
                                           struct pfl_probe_message *errors);
/* Do programs' writes to the top-level trace_marker reach it? Copied by newer kernels (6.16), or
 * because it is that buffer. */
bool pfl_ftrace_instance_has_markers(const struct pfl_ftrace_instance *self);
/* Of an own one: does the kernel copy those writes into it? */
bool pfl_ftrace_instance_copies_markers(int dir_fd);
/* Is it the program's own, so that what lands in the top-level buffer alone is missing? */
bool pfl_ftrace_instance_is_own(const struct pfl_ftrace_instance *self);
/* After the last session: everything is as it was. */
void pfl_ftrace_instance_stop(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host);

/* Exclusive features: only the first session may have them; the others are told in `errors`. */
void pfl_ftrace_instance_restrict(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                                  const struct pfl_ftrace_conf *conf, bool is_first,
                                  struct pfl_probe_message *errors);
/* One more session wants the event, or one less. PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_ftrace_instance_switch_on(struct pfl_ftrace_instance *self,
                                               struct pfl_ftrace_host *host,
                                               const struct pfl_event_catalog *catalog,
                                               size_t event);
void pfl_ftrace_instance_switch_off(struct pfl_ftrace_instance *self,
                                    const struct pfl_event_catalog *catalog, size_t event);
/* Can this event of group synthetic be made here? It is tried. */
bool pfl_ftrace_instance_can_trigger(struct pfl_ftrace_instance *self, const char *name);
/* Has the kernel drop system calls that `wanted` does not take. */
void pfl_ftrace_instance_filter_syscalls(struct pfl_ftrace_instance *self,
                                         struct pfl_ftrace_host *host,
                                         const struct pfl_syscall_filter *wanted);
/* Reads the clocks, where it is not boot time. */
void pfl_ftrace_instance_read_clocks(struct pfl_ftrace_instance *self);

/* Notes the file's value in the undo log, if it is a borrowed instance's; `path` is below the
 * instance. PFL_EIO: it cannot be read; PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_ftrace_instance_note(const struct pfl_ftrace_instance *self,
                                          struct pfl_ftrace_host *host, const char *path);

#endif
