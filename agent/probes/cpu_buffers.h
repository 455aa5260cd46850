/* SPDX-License-Identifier: Apache-2.0 */
/* The ring buffers of our tracefs instance, one a CPU: reading pages and statistics. A shell. */
#ifndef PFL_PROBES_CPU_BUFFERS_H
#define PFL_PROBES_CPU_BUFFERS_H

#include "agent/probes/message.h"
#include "base/bytes.h"

#define PFL_CPUS_MAX 1024u

struct pfl_cpu_buffer {
    int fd;       /* owned; trace_pipe_raw */
    int stats_fd; /* owned; how much is in it; -1: unknown */
    uint32_t cpu;
    uint64_t last_ns; /* of the last record read by anybody */
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

/* Sets how full a buffer must be (0: 70 %) for its descriptor to become readable; false when this
 * kernel does not keep to that. */
bool pfl_cpu_buffers_can_poll(int instance_fd, uint32_t percent);

/* Reads what one CPU has, at most `max_pages`; false when the kernel failed in an unknown way. */
bool pfl_cpu_buffers_drain(struct pfl_cpu_buffers *self, size_t index, size_t max_pages,
                           pfl_cpu_buffers_on_pages on_pages, void *user);

/* Appends FtraceStats.cpu_stats for every CPU. `scratch` is used for the files. */
void pfl_cpu_buffers_add_stats(const struct pfl_cpu_buffers *self, int instance_fd,
                               struct pfl_buf *scratch, struct pfl_message *message);

/* per_cpu/cpuN/stats into one FtraceCpuStats. Pure. */
void pfl_cpu_stats_add(uint32_t cpu, struct pfl_span text, struct pfl_message *message);

#endif
