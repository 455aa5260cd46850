/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote write_into_file: flushes and reads a host's session periodically and writes the packets to
 * a local descriptor, as the service would.
 */
#ifndef PFL_CONSUMER_FILE_PULL_H
#define PFL_CONSUMER_FILE_PULL_H

#include "consumer/host/host_conn.h"
#include "consumer/proxy/file_request.h"
#include "proto/packet_scan.h"

struct pfl_file_pull_conf {
    uv_loop_t *loop;
    struct pfl_host_conn *conn; /* borrowed until close: owns the session */
    struct pfl_file_request file_request;
    int fd; /* taken */
    /* The file is full or cannot be written (`err`: errno, 0 when full): the session should stop.
     * Once. */
    void (*on_full)(void *user, int err);
    /* A read-out that is not the last is in the file. */
    void (*on_read_out)(void *user);
    /* After pfl_file_pull_finish: all is in the file. Once. */
    void (*on_finished)(void *user);
    void *user;
};

enum pfl_file_pull_phase {
    PFL_FILE_PULL_PERIODIC,
    PFL_FILE_PULL_FINISHING, /* the session has ended; an earlier read-out may be in progress */
    PFL_FILE_PULL_LAST,      /* reads what is left */
    PFL_FILE_PULL_OVER,
};

struct pfl_file_pull {
    struct pfl_file_pull_conf conf;
    uv_timer_t timer;
    struct pfl_packet_scan scan; /* owned */
    uint64_t written_bytes;
    uint64_t wanted; /* the newest mark that was requested, that the current read-out began with,
                        and that is in the file */
    uint64_t begun;
    uint64_t had;
    enum pfl_file_pull_phase phase;
    bool is_busy; /* a flush or read-out is in progress */
    bool is_full;
    bool is_open; /* the timer */
    void (*on_closed)(void *user);
};

/* Legal before the session has started. */
void pfl_file_pull_open(struct pfl_file_pull *self, const struct pfl_file_pull_conf *conf);
/* The session has ended: reads what is left. */
void pfl_file_pull_finish(struct pfl_file_pull *self);
/*
 * Reads out what there is by now, after the current read-out. `mark`: larger than any before;
 * pfl_file_pull_has says when it is done, which may be at once.
 */
void pfl_file_pull_hurry(struct pfl_file_pull *self, uint64_t mark);
bool pfl_file_pull_has(const struct pfl_file_pull *self, uint64_t mark);
/* Asynchronous: `self` may be freed after on_closed. Makes no request and gets no answer any
 * more. */
void pfl_file_pull_close(struct pfl_file_pull *self, void (*on_closed)(void *user));

#endif
