/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's owner for tests: records everything its stream tells it. */
#ifndef PFL_TESTS_UNIT_IO_ENDPOINT_H
#define PFL_TESTS_UNIT_IO_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/io/stream.h"

#define ENDPOINT_MAX_BYTES (64u * 1024 * 1024)
#define ENDPOINT_MAX_FDS   8

struct endpoint {
    uv_loop_t *loop;
    struct pfl_stream *stream; /* NULL after on_closed */
    struct pfl_buf received;
    uint64_t received_bytes; /* also when `keep` is off */
    int fds[ENDPOINT_MAX_FDS];
    size_t fd_positions[ENDPOINT_MAX_FDS]; /* bytes received before it */
    int fd_count;
    unsigned data_calls;
    unsigned eofs;
    unsigned writables;
    unsigned readies;
    unsigned closes;
    int close_err;
    int close_errno;
    bool is_inside_call; /* set by the test around its calls: callbacks must not see it */
    bool drops_data;
    bool closes_in_data;
    bool closes_in_fd;
    bool stops_in_data;
    bool stops_in_ready;
    bool shuts_on_eof;
};

void endpoint_init(struct endpoint *self, uv_loop_t *loop);
/* Closes what was received; the stream must be gone. */
void endpoint_fini(struct endpoint *self);
struct pfl_stream_conf endpoint_conf(struct endpoint *self, size_t max, size_t low);
/* Opens a plain stream on `fd`. */
void endpoint_open(struct endpoint *self, int fd, size_t max, size_t low);
int endpoint_write(struct endpoint *self, const void *data, size_t len, int fd);
/* Runs the loop until the flag-like counter is at least `n`. */
void endpoint_run_until(uv_loop_t *loop, const unsigned *counter, unsigned n);
void endpoint_run_until_bytes(struct endpoint *self, uint64_t n);
/* Runs what is ready now, some rounds, without waiting. */
void endpoint_run_ready(uv_loop_t *loop);
/* Closes and waits for on_closed. */
void endpoint_close(struct endpoint *self);
/* Ends a loop that must have no live handles. */
void endpoint_end_loop(uv_loop_t *loop);

#endif
