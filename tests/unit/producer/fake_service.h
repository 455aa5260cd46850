/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service end for tests of the library's connection: the test says what the service does, step
 * by step, and gets what the library sent. Every wait ends with a failed assertion after 10 s.
 */
#ifndef PFL_TESTS_FAKE_SERVICE_H
#define PFL_TESTS_FAKE_SERVICE_H

#include <sys/un.h>

#include "abi/state.h"
#include "base/bytes.h"

enum fake_method { /* in the order of v58.2; numbers on the wire are fake_method * 3 + 5 */
                   FAKE_INITIALIZE_CONNECTION,
                   FAKE_REGISTER_DATA_SOURCE,
                   FAKE_UNREGISTER_DATA_SOURCE,
                   FAKE_COMMIT_DATA,
                   FAKE_GET_ASYNC_COMMAND,
                   FAKE_REGISTER_TRACE_WRITER,
                   FAKE_UNREGISTER_TRACE_WRITER,
                   FAKE_NOTIFY_STARTED,
                   FAKE_NOTIFY_STOPPED,
                   FAKE_ACTIVATE_TRIGGERS,
                   FAKE_SYNC,
                   FAKE_UPDATE_DATA_SOURCE,
                   FAKE_METHODS,
};

struct fake_service {
    char name[64]; /* for perfleet_conf.socket */
    int listen_fd;
    int fd;
    uint32_t lacks; /* bit m: method m is unknown to this service */
    uint8_t in[131072];
    size_t in_len;
    size_t in_pos;
    uint64_t request_id; /* of the request got last */
    uint64_t command_id; /* of GetAsyncCommand */
    bool adopts_memory;  /* that the producer brings along */
    bool is_old;         /* says nothing that it need not say */
    bool is_new;         /* sends unknown fields */
    bool has_updates;    /* of data sources count */
    bool is_network;     /* chunks come with their commits */
    int own_fd;          /* the producer's memory; -1: none came */
    struct pfl_smb smb;
    uint64_t acked_flush; /* by the commits that fake_take_commit saw */
    uint32_t chunks;
    uint32_t packets;     /* begun in them */
    uint32_t last_buffer; /* of the last chunk */
    bool is_held;
    size_t held_len;
    uint8_t held[4096];
};

void fake_listen(struct fake_service *s);
void fake_listen_tcp(struct fake_service *s);
void fake_fini(struct fake_service *s);
/* Accepts, answers the bind, gets InitializeConnection and GetAsyncCommand, answers the first. */
void fake_greet(struct fake_service *s);
void fake_accept(struct fake_service *s);
void fake_hang_up(struct fake_service *s);

/* The next request: its method and arguments, borrowed until the next call. */
enum fake_method fake_get(struct fake_service *s, struct pfl_span *ret_args);
/* The next request other than commits, writers' comings and goings and, unless has_updates,
 * UpdateDataSource, which are taken. */
enum fake_method fake_get_main(struct fake_service *s, struct pfl_span *ret_args);
/* Takes what comes until so many packets have. */
void fake_take_packets(struct fake_service *s, uint32_t packets);
/* Asserts the next main request's method. */
struct pfl_span fake_expect(struct fake_service *s, enum fake_method method);
/* Answers the last request with success. */
void fake_reply(struct fake_service *s, struct pfl_span body);
/* A command: field `id` of GetAsyncCommandResponse with these bytes. */
void fake_command(struct fake_service *s, uint32_t id, struct pfl_span body);
/* setup_tracing with memory of `pages` pages of 4096. */
void fake_setup_tracing(struct fake_service *s, uint32_t pages);
/* setup (6) or start (1) with {1: id, 2: config}. */
void fake_instance_command(struct fake_service *s, uint32_t cmd, uint64_t id,
                           struct pfl_span config);
/* What is sent from now on (without a descriptor) arrives at once with the release. */
void fake_hold(struct fake_service *s);
void fake_release(struct fake_service *s);
/* A raw frame. */
void fake_send(struct fake_service *s, struct pfl_span frame, int fd);

#endif
