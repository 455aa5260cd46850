/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector's stream (CONNECT /v1/spool): its requests for orders and segments
 * (proto/perfleet/spool.proto) in frames. The collector is not trusted: requests, answers that wait
 * and messages are bounded. One life: what is lost with the stream is asked for again.
 */
#ifndef PFL_AGENT_SPOOL_STREAM_PORT_H
#define PFL_AGENT_SPOOL_STREAM_PORT_H

#include "agent/daemon/order/orders_port.h"
#include "agent/daemon/segment/segments_port.h"
#include "base/list.h"
#include "proto/h2/h2.h"

#define PFL_SPOOL_STREAMS_MAX  16u          /* of which collectors have shares */
#define PFL_SPOOL_REQUESTS_MAX 16u          /* of a stream, under way */
#define PFL_SPOOL_OUT_BYTES    (4u << 20)   /* answers that wait */
#define PFL_SPOOL_READ_AHEAD   (512u << 10) /* of these: no further part is read */

struct pfl_spool_streams {
    struct pfl_list list; /* freed when their HTTP/2 streams close */
    unsigned len;
    struct pfl_segments *segments; /* borrowed; NULL: this host keeps none */
    struct pfl_orders *orders;     /* borrowed; likewise */
};

struct pfl_collect_stream_conf {
    const char *collector;     /* copied */
    const char *operator_name; /* the orderer for whom it speaks; copied */
    struct pfl_span role;      /* of that one; copied; empty: anything */
    bool is_for_orderer;       /* the relay let that one order here: without it no order is taken */
};

void pfl_spool_streams_init(struct pfl_spool_streams *self);
/* Answers `h2_stream`. PFL_ELIMIT: too many streams, of all or of
 * this collector; PFL_ENOMEM: `h2_stream` is unchanged. */
PFL_MUST_USE int pfl_spool_streams_add(struct pfl_spool_streams *self,
                                       struct pfl_h2_stream *h2_stream,
                                       const struct pfl_collect_stream_conf *conf);
/* Resets all: before segments and orders are closed. */
void pfl_spool_streams_end(struct pfl_spool_streams *self);

#endif
