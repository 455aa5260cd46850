/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ring buffer of the kernel that sessions record into: this program's own instance, which is
 * made ahead, one for the function graph, or a borrowed one: instances/<name>, or the top of
 * tracefs. Changes of a borrowed one are first noted in the undo log. A shell.
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

struct pfl_ftrace_instance {
    char path[PFL_INSTANCE_PATH_MAX]; /* below tracefs; "": own, made ahead; a name that no other
                                         has */
    int dir_fd;                       /* borrowed from our own tracefs, else owned; -1: closed */
    uint32_t buffer_size_kb;
    uint32_t clock;    /* FtraceClock; 0: boot time */
    bool is_made;      /* made by us, and removed at the end: nothing to restore */
    bool is_running;   /* a session records into it */
    bool is_preserved; /* the content is to be read, so its size and clock stay */
    bool is_altered;   /* more was changed than stop restores: it is not used again */
    bool is_exclusive; /* the first session restricts what is recorded */
    bool has_graph;    /* the function graph tracer is on */
    bool has_poll;     /* the kernel reports that a buffer is filling up */
    /* Of the top-level buffer, borrowed for events that only it gets (adr/0031): */
    bool is_watched; /* set by the owner before the start; ends when another program uses it */
    bool is_lost;    /* another program uses it: nothing is read any more */
    uint16_t marker_users; /* number of sessions' events that need options/copy_trace_marker */
    struct pfl_tracefs graph_fs; /* of the function graph's own instance */
    struct pfl_cpu_buffers buffers;
    struct pfl_bundle bundle;
    uint64_t clock_ns[2]; /* that clock and boot time, at the start of a drain */
    uint64_t pages_read;
    struct {
        struct pfl_top_files files; /* as set up */
        uint64_t next_ns;           /* the next check */
        size_t next_cpu;
    } top;
    uint16_t *users; /* owned; the number of sessions that have an event on, by its index in the
                        catalog; one more if another program had it on before */
    size_t users_count;
};

/* The data source's objects that an instance needs. */
struct pfl_ftrace_host {
    struct pfl_tracefs *fs;           /* borrowed; the maker's while it is busy, except root_fd */
    struct pfl_instance_maker *maker; /* borrowed */
    struct pfl_undo *undo;            /* borrowed */
    bool is_ending;                   /* set by the owner: there will be no further session */
};

/* Sets up everything for the first session; for a further one only enlarges the buffers. PFL_EIO,
 * PFL_ENOMEM, PFL_EPERM (another program's tracer is active): nothing runs then. `errors` gets the
 * reasons. */
PFL_MUST_USE int pfl_ftrace_instance_start(struct pfl_ftrace_instance *self,
                                           struct pfl_ftrace_host *host,
                                           const struct pfl_ftrace_conf *conf,
                                           struct pfl_probe_message *errors);
/* Does it get programs' writes to the top-level trace_marker? Either newer kernels copy them
 * (6.16), or it is that buffer. */
bool pfl_ftrace_instance_has_markers(const struct pfl_ftrace_instance *self);
/* For our own instance: does the kernel copy those writes into it? */
bool pfl_ftrace_instance_copies_markers(int dir_fd);
/* Is it our own, so that it lacks events that only the top-level buffer gets? */
bool pfl_ftrace_instance_is_own(const struct pfl_ftrace_instance *self);
/* Call after the last session: restores everything. */
void pfl_ftrace_instance_stop(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host);

/* Exclusive features: only the first session may have them; others get an entry in `errors`. */
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
/* Can this event of group synthetic be made here? Tries it. */
bool pfl_ftrace_instance_can_trigger(struct pfl_ftrace_instance *self, const char *name);
/* Makes the kernel drop system calls that `wanted` does not include. */
void pfl_ftrace_instance_filter_syscalls(struct pfl_ftrace_instance *self,
                                         struct pfl_ftrace_host *host,
                                         const struct pfl_syscall_filter *wanted);
/* Reads the clocks, if it does not use boot time. */
void pfl_ftrace_instance_read_clocks(struct pfl_ftrace_instance *self);

/* Notes the file's value in the undo log if the instance is borrowed; `path` is below the instance.
 * PFL_EIO: it cannot be read; PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_ftrace_instance_note(const struct pfl_ftrace_instance *self,
                                          struct pfl_ftrace_host *host, const char *path);

#endif
