/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of an order at the tracing service. That of a schedule is a run, which writes
 * segments; that of an order on a trigger is a ring, which is copied when a trigger is raised.
 */
#ifndef PFL_AGENT_ORDER_SESSION_PORT_H
#define PFL_AGENT_ORDER_SESSION_PORT_H

#include <uv.h>

#include "agent/daemon/order/host_orders.h"
#include "agent/daemon/segment/segments_port.h"
#include "base/list.h"

#define PFL_ORDERS_STOP_MS   10000u /* a session that does not end is left */
#define PFL_ORDER_RING_BYTES (2 * PFL_IDENTITY_NAME_BYTES + PFL_ULID_BYTES + 8)

struct pfl_service_conn;
struct pfl_order_session;

enum pfl_order_session_state {
    PFL_ORDER_SESSION_STARTING, /* waits for the note of its run, or the fence */
    PFL_ORDER_SESSION_RUNNING,  /* waits for its end */
    PFL_ORDER_SESSION_STOPPING, /* waits for the note, or the answer to DisableTracing */
};

struct pfl_order_session_conf {
    uv_loop_t *loop;
    const char *socket;            /* the service's consumer socket; borrowed until on_closed */
    struct pfl_segments *segments; /* likewise */
    const char *const *labels;     /* "name=value", likewise */
    size_t labels_len;
    /* The service runs it. */
    void (*on_running)(void *user, struct pfl_order_session *session);
    /* Last callback: frees it, or lets the owner of the session do so. */
    void (*on_closed)(void *user, struct pfl_order_session *session);
    void *user;
};

/* Read by its owner; the order may be gone while it stops. */
struct pfl_order_session {
    struct pfl_list node;                      /* the owner's */
    const struct pfl_order_session_conf *conf; /* borrowed until on_closed */
    enum pfl_order_session_state state;
    struct pfl_service_conn *conn; /* owned until its on_closed; NULL: the note is being written */
    struct pfl_buf request;
    uint64_t begun_ms; /* RUNNING since; the loop's clock */
    uint64_t stop_ms;  /* closed then */
    uint32_t generation;
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
    char id[PFL_SEGMENT_ID_BYTES];    /* of the run; "": a ring */
    char ring[PFL_ORDER_RING_BYTES];  /* its unique_session_name; "": a run */
    uint64_t begun_ns;                /* of a ring: the boot clock */
    char why[PFL_ORDER_REASON_BYTES]; /* it ended */
};

/* Begins with `duration_ms` (of a run; 0: endless). PFL_ELIMIT: the folder of segments is full;
 * PFL_ENOMEM; another: the service does not answer. */
PFL_MUST_USE int pfl_order_session_open(const struct pfl_order_session_conf *conf,
                                        const struct pfl_host_order *order, uint64_t duration_ms,
                                        struct pfl_order_session **ret_session);
/* Why it could not be opened; static. */
const char *pfl_order_session_explain(int rc);
/* Lets the service end it; on_closed follows. Idempotent. */
void pfl_order_session_stop(struct pfl_order_session *self);
/* Ends the connection; on_closed follows. */
void pfl_order_session_close(struct pfl_order_session *self);
void pfl_order_session_free(struct pfl_order_session *self); /* after on_closed */

/* Begins a run of the order in the folder of segments, with the note that all its segments have.
 * `begin` has the rest: of a copy the trigger. As pfl_segments_begin_run. */
PFL_MUST_USE int pfl_order_session_begin_run(const struct pfl_order_session_conf *conf,
                                             const struct pfl_host_order *order,
                                             const struct pfl_segments_begin *begin,
                                             char ret_id[PFL_SEGMENT_ID_BYTES],
                                             struct pfl_segments_op **ret_op);

#endif
