/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bench producer's connection: speaks ProducerPort over a blocking socket, registers one data
 * source, and maps the shared memory that the service hands over. Any failure ends the program
 * with a message.
 */
#ifndef PFL_TESTS_BENCH_FILL_CONNECTION_H
#define PFL_TESTS_BENCH_FILL_CONNECTION_H

#include <stdbool.h>

#include "abi/page.h"
#include "base/bytes.h"

struct pfl_rpc_client;

struct pfl_fill_connection {
    int fd;
    int received_fd;            /* -1: none */
    struct pfl_rpc_client *rpc; /* owned */
    struct pfl_smb smb;         /* base NULL until the service has set it up */
    uint32_t target_buffer;     /* of the last instance that was set up */
    uint32_t starts;
    bool is_stopped; /* since the last start */
    bool is_closed;  /* the service has gone */
    bool is_bound;
    bool is_synced;
    uint64_t flush_request_id; /* not 0: to be acknowledged by the next commit */
};

/* Connects, and registers `source`. `smb_kb` 0 leaves the size to the service. */
void pfl_fill_connection_init(struct pfl_fill_connection *self, const char *socket_path,
                              const char *source, uint32_t smb_kb);
void pfl_fill_connection_fini(struct pfl_fill_connection *self);

/* Handles what the service has sent; `wait`: at least one read, however long it takes. */
void pfl_fill_connection_pump(struct pfl_fill_connection *self, bool wait);
/* Sends a CommitDataRequest without asking for an answer. */
void pfl_fill_connection_commit(struct pfl_fill_connection *self, struct pfl_span request);
/* Returns when the service has processed everything sent so far. */
void pfl_fill_connection_sync(struct pfl_fill_connection *self);

#endif
