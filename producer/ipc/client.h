/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the service and the thread that keeps it.
 *
 *   AWAY --socket open, bind sent--> BINDING --InitializeConnection sent--> GREETING --ok--> READY
 *    ^                                  |                                      |              |
 *    +----------- the connection failed, or the service refused
 * ---------------------+--------------+
 *
 * perfleet.c is the program's side (any thread), client.c the thread's side.
 */
#ifndef PFL_PRODUCER_CLIENT_H
#define PFL_PRODUCER_CLIENT_H

#include <pthread.h>
#include <unistd.h>

#include "producer/data_source/source.h"
#include "producer/ipc/connection.h"
#include "producer/ipc/ipc.h"
#include "producer/perfleet.h"
#include "producer/shared_memory/arbiter.h"

#define PFL_CLIENT_TRIGGERS_MAX     16u
#define PFL_CLIENT_FLUSHES_MAX      64u
#define PFL_CLIENT_BATCH_MS         5u
#define PFL_CLIENT_RETRY_STEPS      10u
#define PFL_CLIENT_RETRY_SLOW_MS    30000u
#define PFL_CLIENT_CLOSE_MS         1000u /* how long a close may wait for the socket to drain */
#define PFL_CLIENT_TRIGGER_NAME_MAX 255u

enum pfl_client_state {
    PFL_CLIENT_AWAY,
    PFL_CLIENT_BINDING,
    PFL_CLIENT_GREETING,
    PFL_CLIENT_READY,
};

struct pfl_client_trigger {
    char *name;           /* owned */
    uint64_t deadline_ms; /* until then it waits for a connection */
};

struct perfleet {
    struct perfleet_conf conf; /* producer_name owned, socket NULL */
    struct pfl_connection_address address;
    pthread_t thread;
    int wake_fd; /* eventfd, owned */

    pthread_mutex_t lock; /* guards what follows up to the thread's own part */
    pthread_cond_t changed;
    bool is_ending;
    bool is_ready; /* the service has accepted us */
    bool is_categories_changed;
    uint32_t triggers_len;
    uint64_t lives; /* connections lost */
    uint64_t syncs_wanted;
    uint64_t syncs_done;
    uint64_t registered_at; /* the sync whose reply means that all data sources are registered */
    struct pfl_source *sources[PERFLEET_MAX_SOURCES]; /* owned; NULL: free */
    struct pfl_client_trigger triggers[PFL_CLIENT_TRIGGERS_MAX];
    struct pfl_startup_request *startup_requests; /* of waiting threads; borrowed */
    char refusal[PFL_SERVICE_USER_WHY_BYTES]; /* about the user that serves the socket; empty: not
                                                 refused */

    /* The thread's own. */
    enum pfl_client_state state;
    struct pfl_connection connection;
    struct pfl_ipc_service service;
    struct pfl_ipc_command command;
    uint64_t last_request;
    uint64_t greeting_request;
    uint64_t command_request;
    uint64_t sync_request; /* 0: none in progress */
    uint64_t syncs_asked;  /* syncs_wanted when it was sent */
    bool has_startups;     /* there may be startup sessions */
    bool is_emulated;      /* no shared memory: chunks are sent */
    int own_fd;            /* owned: our memory, to offer to the service; -1: none */
    int noted_err;         /* of the last logged attempt */
    bool is_own_adopted;   /* by the service of this connection */
    bool is_refused; /* our memory was refused: the next connection is made at once, without it */
    uint32_t flushes_len; /* not answered yet */
    uint64_t flushes[PFL_CLIENT_FLUSHES_MAX];
    struct pfl_arbiter *arbiter;             /* NULL until there is memory; a reference */
    struct pfl_arbiter_batch batch;          /* with the arbiter's send_lock */
    uint8_t commit_args[PFL_IPC_COMMIT_MAX]; /* likewise */
    uint64_t commit_at_ms;                   /* 0: no timer */
    uint64_t retry_at_ms;
    uint32_t retries;
};

/* 1000; a test may use a smaller value. Read when a connection was lost. */
extern uint32_t pfl_client_retry_step_ms;

/* The thread. */
void *pfl_client_run(void *arg);

/* Any thread: makes the thread check everything again. */
static inline void pfl_client_wake(const struct perfleet *p)
{
    uint64_t one = 1;
    ssize_t n = write(p->wake_fd, &one, sizeof(one));

    (void)n; /* full means readable: fine */
}

#endif
