/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole service on a loop of its own, with a clock that the test turns, and clients on real
 * UNIX sockets that are only served when the test says so. Every failure fails the test.
 */
#ifndef PFL_TESTS_SERVICE_PORT_KIT_H
#define PFL_TESTS_SERVICE_PORT_KIT_H

#include <uv.h>

#include "base/buf.h"
#include "base/io/wakeup.h"
#include "service/port/consumer_port.h"
#include "service/port/producer_port.h"

struct pfl_port_kit {
    const char *subject; /* in whose name clients connect (base/io/subject.h); NULL: their own */
    uv_loop_t loop;
    struct pfl_wakeup wakeup; /* of the files' threads */
    uint64_t now_ns;          /* of every clock */
    uint64_t step_ns;         /* how far each look at a clock moves them all */
    struct pfl_service_facts facts;
    struct pfl_disk_ops disk; /* the disk port's, which wait for a file as long as it takes */
    struct pfl_service service;
    struct pfl_producer_port *producers;
    struct pfl_consumer_port *consumers;
    char producer_address[64];
    char consumer_address[64];
    unsigned open_ports;
    uint64_t slept_ns; /* how far CLOCK_BOOTTIME is ahead */
    bool is_disk_slow; /* the kit does not wait for files that are written */
};

void pfl_port_kit_open(struct pfl_port_kit *self);
/* Closes the ports, runs the loop dry, asserts that nothing is left. */
void pfl_port_kit_close(struct pfl_port_kit *self);
/* Serves everything that is there to be served. */
void pfl_port_kit_run(struct pfl_port_kit *self);
/* Turns the clock and runs what is due. */
void pfl_port_kit_pass_ms(struct pfl_port_kit *self, uint64_t ms);

/* One IPCFrame that the service sent. */
struct pfl_kit_reply {
    uint64_t request_id;
    bool is_bind;
    bool is_error;
    bool success;
    bool has_success;
    bool has_more;
    uint8_t *body; /* owned */
    size_t body_len;
};

struct pfl_kit_client {
    struct pfl_port_kit *kit;
    int fd;
    struct pfl_buf in;
    uint64_t last_id;
    int received_fd; /* owned; -1 */
    uint8_t *memory; /* owned: of received_fd; mapped as soon as it comes, as producers do */
    size_t memory_bytes;
    bool is_closed; /* the service closed the connection */
};

void pfl_kit_client_open(struct pfl_kit_client *self, struct pfl_port_kit *kit,
                         const char *address);
void pfl_kit_client_close(struct pfl_kit_client *self);
/* Raw bytes, an IPCFrame's payload with its prefix, a method by its id in the table. */
void pfl_kit_client_send(struct pfl_kit_client *self, const void *data, size_t len, int fd);
void pfl_kit_client_send_frame(struct pfl_kit_client *self, struct pfl_span payload, int fd);
uint64_t pfl_kit_client_invoke(struct pfl_kit_client *self, unsigned method, struct pfl_span args);
/* As invoke, with a descriptor and without a reply. */
uint64_t pfl_kit_client_invoke_fd(struct pfl_kit_client *self, unsigned method,
                                  struct pfl_span args, int fd);
uint64_t pfl_kit_client_invoke_drop(struct pfl_kit_client *self, unsigned method,
                                    struct pfl_span args);
/* The next frame, after serving; false when there is none. The caller frees it. */
bool pfl_kit_client_take(struct pfl_kit_client *self, struct pfl_kit_reply *ret_reply);
void pfl_kit_reply_free(struct pfl_kit_reply *reply);
/* Takes a reply and asserts its request and kind; returns it. */
struct pfl_kit_reply pfl_kit_client_expect(struct pfl_kit_client *self, uint64_t request_id,
                                           bool success, bool has_more);
/* As expect, without its body. */
void pfl_kit_client_expect_empty(struct pfl_kit_client *self, uint64_t request_id, bool success,
                                 bool has_more);
void pfl_kit_client_expect_nothing(struct pfl_kit_client *self);
/* Reads a whole ReadBuffers answer as the bytes of a trace file; transfer: the caller's. */
void pfl_kit_client_read_trace(struct pfl_kit_client *self, uint64_t request_id,
                               struct pfl_buf *ret_trace);

enum pfl_kit_producer_method {
    KIT_INITIALIZE = 1,
    KIT_REGISTER,
    KIT_UNREGISTER,
    KIT_COMMIT,
    KIT_COMMANDS,
    KIT_REGISTER_WRITER,
    KIT_UNREGISTER_WRITER,
    KIT_STARTED,
    KIT_STOPPED,
    KIT_TRIGGERS,
    KIT_SYNC,
    KIT_UPDATE,
};
enum pfl_kit_consumer_method {
    KIT_ENABLE = 1,
    KIT_DISABLE,
    KIT_READ,
    KIT_FREE,
    KIT_FLUSH,
    KIT_START,
    KIT_CHANGE,
    KIT_DETACH,
    KIT_ATTACH,
    KIT_STATS,
    KIT_OBSERVE,
    KIT_QUERY,
    KIT_CAPABILITIES,
    KIT_SAVE,
    KIT_CLONE,
};

#endif
