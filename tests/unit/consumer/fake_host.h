/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service played on the test's own loop: answers the consumer port as docs/abi says, and
 * misbehaves at one method of the recording's session when asked to.
 */
#ifndef PFL_TESTS_CONSUMER_FAKE_HOST_H
#define PFL_TESTS_CONSUMER_FAKE_HOST_H

#include "base/bytes.h"
#include "base/io/listener.h"

enum fake_trick {
    FAKE_HONEST,
    FAKE_SILENT,   /* never answers the method */
    FAKE_DIES,     /* closes the connection instead of answering */
    FAKE_GARBAGE,  /* answers with bytes that are no frame */
    FAKE_FAILS,    /* a failure reply */
    FAKE_HALF,     /* ReadBuffers: half of the packets, then the connection ends */
    FAKE_NO_NOTES, /* the flushes' times are not noted: its clock cannot be measured */
    FAKE_ENDS,     /* the session ends by itself right after its start */
    FAKE_TELLS_ON, /* ObserveEvents is answered right behind ReadBuffers */
};

/* A varint of each packet, which rises by one from 1 on. */
#define FAKE_HOST_VALUE 903u

struct fake_conn;

struct fake_host {
    char address[64]; /* abstract socket */
    struct pfl_listener *listener;
    uv_loop_t *loop;
    enum fake_trick trick;
    const char *method;    /* where the trick is played */
    int64_t offset_ns;     /* of its boot clock against the real one */
    unsigned packets;      /* that a read-out brings */
    uint64_t packet_bytes; /* of payload in each */
    uint64_t state_bytes;  /* of what its service's state has besides, about */
    struct pfl_span last;  /* a packet that comes behind them; borrowed */
    uint64_t value;        /* of the last one */
    unsigned
        clears_every; /* so often incremental state begins, which all need; 0: they need none */
    struct fake_conn *conns[32];
    unsigned conns_len;
    bool is_closed;
    int started_order; /* -1: was not started */
    /* A session "flight" that was left running. */
    bool has_flight;
    bool is_flight_over;       /* and has ended */
    bool is_flight_held;       /* a consumer is attached */
    unsigned looks_until_over; /* it is stopped, and says so to the look after these */
    bool tells_triggers;       /* of it: waiting for them does not need to hold it */
    bool kills_flight;         /* ended from outside, while its triggers are waited for */
    bool stops_flight;         /* likewise */
    bool raises_trigger;       /* in it, once it is observed */
    bool was_flight_freed;     /* by FreeBuffers or a connection that ended */
    bool refuses_clones;
    unsigned clones;
};

/* Listens on an address of its own. Returns what pfl_listener_open says. */
int fake_host_open(struct fake_host *self, uv_loop_t *loop);
/* Closes what is connected. */
void fake_host_drop(struct fake_host *self);
/* Stops listening and closes what is still connected; the loop must run. Idempotent. */
void fake_host_close(struct fake_host *self);

#endif
