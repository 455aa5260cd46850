/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recordings of the pages: made as `perfleet record` makes them (consumer/recording), each into
 * a file without a name, kept for a while after its end.
 */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORDINGS_PORT_H
#define PFL_CONSUMER_WEB_RECORD_RECORDINGS_PORT_H

#include "consumer/config/config.h"
#include "consumer/host/inventory.h"
#include "consumer/recording/recording.h"
#include "consumer/web/record/recording_page.h"

#define PFL_RECORDINGS_MAX         8u /* with those that are over */
#define PFL_RECORDINGS_MAX_RUNNING 4u
/* Of a trace; one that is read while it records is stopped at three quarters of it. */
#define PFL_RECORDINGS_FILE_MAX_BYTES ((uint64_t)2 << 30)
#define PFL_RECORDINGS_KEEP_MS        3600000u /* after the end */
#define PFL_RECORDINGS_WHY_BYTES      1024u

struct pfl_recordings;

struct pfl_recordings_conf {
    struct pfl_host_conn_conf conn; /* of all hosts; the port sets spec and callbacks */
    uint64_t step_timeout_ms;
    uint64_t file_max_bytes;       /* 0: PFL_RECORDINGS_FILE_MAX_BYTES */
    uint64_t keep_ms;              /* 0: PFL_RECORDINGS_KEEP_MS */
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* What is asked for. Strings are borrowed until start returns. */
struct pfl_recordings_order {
    enum pfl_host_task task; /* RECORD, or SNAPSHOT or READ of `session` */
    const char *session;
    bool keeps_session;     /* READ: it is not removed */
    struct pfl_span config; /* as prepared; of RECORD */
    const struct pfl_config_info *info;
    bool is_streamed;
    struct pfl_host_spec *specs; /* transferred, also on failure */
    size_t specs_len;
    const char *what; /* in words, for titles */
    const char *where;
    /* Which command does the same, with the file's name. */
    void (*write_command)(void *user, const char *file_name, struct pfl_command_line *ret_line);
    void *user;
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_recordings_open(const struct pfl_recordings_conf *conf,
                                     struct pfl_recordings **ret_recordings);
/* PFL_EINVAL with `ret_why` (room for PFL_RECORDINGS_WHY_BYTES): reason and remedy; PFL_ENOMEM. */
PFL_MUST_USE int pfl_recordings_start(struct pfl_recordings *self,
                                      const struct pfl_recordings_order *order, char *ret_why,
                                      uint32_t *ret_id);
/* As the first, second, third Ctrl-C of `perfleet record`. False: there is no such recording. */
bool pfl_recordings_stop(struct pfl_recordings *self, uint32_t id);
/* One that is over. False: there is none, or it is not over. */
bool pfl_recordings_remove(struct pfl_recordings *self, uint32_t id);
/* False: there is none. Borrowed until the next turn of the loop. */
bool pfl_recordings_get(struct pfl_recordings *self, uint32_t id,
                        struct pfl_recording_view *ret_view);
/* All, newest first; returns how many. What is known of hosts may be old. */
size_t pfl_recordings_list(struct pfl_recordings *self,
                           struct pfl_recording_view ret_views[PFL_RECORDINGS_MAX]);
/* The trace of one that is over: another descriptor of it, the caller's; -1: there is none. */
int pfl_recordings_open_trace(struct pfl_recordings *self, uint32_t id);
/* Asynchronous, idempotent: what runs is given up. */
void pfl_recordings_close(struct pfl_recordings *self);

#endif
