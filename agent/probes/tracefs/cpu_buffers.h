/* SPDX-License-Identifier: Apache-2.0 */
/* The ring buffers of our tracefs instance, one a CPU: reading pages and statistics. A shell. */
#ifndef PFL_PROBES_CPU_BUFFERS_H
#define PFL_PROBES_CPU_BUFFERS_H

#include "agent/probes/tracefs/cpu_stats.h"
#include "base/bytes.h"

#define PFL_CPUS_MAX 1024u

struct pfl_cpu_buffer {
    int fd;       /* owned; trace_pipe_raw; -1: released */
    int stats_fd; /* owned; statistics; -1: unknown */
    uint32_t cpu;
    uint64_t last_ns;           /* of the last record read by any program */
    uint64_t records;           /* read by us, if the owner counts them */
    double reads_before;        /* events that had been read when it was opened */
    struct pfl_cpu_stats final; /* the statistics when it was released */
};

struct pfl_cpu_buffers {
    struct pfl_cpu_buffer *cpus; /* owned */
    size_t count;
    uint8_t *pages; /* owned; batch of pages */
    size_t page_bytes;
    size_t batch_pages;
    bool is_lazy; /* after a first page only full ones: what is being written waits for the next
                     drain */
};

/* Pages of one CPU, borrowed during the call. */
typedef void (*pfl_cpu_buffers_on_pages)(void *user, size_t index, struct pfl_span pages);

/* PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_cpu_buffers_open(struct pfl_cpu_buffers *self, int instance_fd);
void pfl_cpu_buffers_close(struct pfl_cpu_buffers *self); /* legal on zeroed memory */
/* Closes the files and keeps the CPUs and their last statistics: no further reads. */
void pfl_cpu_buffers_release(struct pfl_cpu_buffers *self);

/* Sets the fill level (0: 70 %) at which its descriptor becomes readable; false if this kernel
 * ignores it. */
bool pfl_cpu_buffers_can_poll(int instance_fd, uint32_t percent);

/* Reads what one CPU has, at most `max_pages`; false if the kernel failed in an unknown way. */
bool pfl_cpu_buffers_drain(struct pfl_cpu_buffers *self, size_t index, size_t max_pages,
                           pfl_cpu_buffers_on_pages on_pages, void *user);

/* Current statistics of the CPU at `index`; zeroed if they cannot be read. */
void pfl_cpu_buffers_read_stats(const struct pfl_cpu_buffers *self, size_t index,
                                struct pfl_cpu_stats *ret_stats);
/* Has another program consumed events of this CPU's buffer, or emptied it, since it was opened?
 * Queries the kernel; call it when `records` counts all that we read. */
bool pfl_cpu_buffers_has_other_reader(const struct pfl_cpu_buffers *self, size_t index);

#endif
