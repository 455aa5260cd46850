/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of operators (CONNECT /v1/collector): requests in frames, and their replies
 * (proto/perfleet/collector.proto). One life. An operator is not trusted: streams, requests and
 * replies that wait are bounded.
 */
#ifndef PFL_COLLECTOR_SERVE_OPERATOR_STREAMS_PORT_H
#define PFL_COLLECTOR_SERVE_OPERATOR_STREAMS_PORT_H

#include "base/list.h"
#include "collector/engines/engines_port.h"
#include "collector/relay/relays_port.h"
#include "collector/serve/known_hosts.h"
#include "proto/tunnel/operator_rates.h"

#define PFL_OPERATOR_STREAMS_MAX    64u
#define PFL_OPERATOR_STREAMS_OF_ONE 4u   /* of one operator */
#define PFL_OPERATOR_JOBS_MAX       4u   /* requests of a stream that are at work */
#define PFL_OPERATOR_WAITING_MAX    512u /* those that wait, of a stream */
#define PFL_OPERATOR_WAITING_BYTES  (2u << 20)
#define PFL_OPERATOR_OUT_BYTES      (8u << 20) /* replies that wait to be sent */
#define PFL_OPERATOR_READ_AHEAD     (1u << 20) /* of these: no further step is begun */
#define PFL_OPERATOR_SCOPE_MS       60000u     /* then the relay is asked again */
#define PFL_OPERATOR_ALIVE_MS       3000u      /* a request at work gets a part so often */
#define PFL_OPERATOR_TURNS          64u        /* of operators, by hash */
#define PFL_CHANGE_RATES_PER_S      10u        /* each change is in the log */
#define PFL_CHANGE_RATES_BURST      100u

struct pfl_operator_streams_conf {
    uv_loop_t *loop;
    struct pfl_engines *engines; /* borrowed until stop, and until they are closed */
    struct pfl_relays *relays;   /* borrowed until stop */
    const struct pfl_known_hosts *hosts;
    void (*on_orders_changed)(void *user); /* in the index. May be NULL */
    void (*on_empty)(void *user);          /* the last stream is gone; may free all */
    void *user;
};

struct pfl_operator_figures {
    unsigned streams;
    uint64_t requests; /* that ended, with those that were refused */
    uint64_t refused;
    uint64_t sent_bytes;
};

struct pfl_operator_streams {
    struct pfl_operator_streams_conf conf;
    struct pfl_list list;
    struct pfl_list index_queue; /* requests whose step waits for the index */
    bool is_index_busy;
    bool is_stopped;
    uint64_t index_turn;
    uint64_t index_turns[PFL_OPERATOR_TURNS]; /* when an operator had its last one; by hash */
    struct pfl_operator_figures figures;
    struct pfl_operator_rates rates; /* of changes */
};

void pfl_operator_streams_init(struct pfl_operator_streams *self,
                               const struct pfl_operator_streams_conf *conf);
/* A request of a relay, which is answered here: for `on_request` of its connection. */
void pfl_operator_streams_take(struct pfl_operator_streams *self, unsigned relay,
                               struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head);
/* Sends an empty part for each request that has had none for PFL_OPERATOR_ALIVE_MS. */
void pfl_operator_streams_keep_alive(struct pfl_operator_streams *self);
/* Ends all, begins no more work. */
void pfl_operator_streams_stop(struct pfl_operator_streams *self);

#endif
