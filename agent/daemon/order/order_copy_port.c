/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a ring: see order_copy_port.h.
 *
 *     WAITING --delay--> CLONING --> READING --> DONE
 *
 * Happy path: CloneSession by name, ReadBuffers; the folder's thread writes the note of the run
 * meanwhile, and then 256 KiB at a time; no more is read from the service until they are written.
 * Failures: a clone that is refused, too large, or does not fit on the disk, not even its note,
 * becomes a gap of the run, with the reason. Ownership: a
 * connection, a timer and what is written; the last of them frees. Limits: max_bytes, those of
 * copy_reader.h, PFL_ORDER_COPY_MS.
 */
#include "agent/daemon/order/order_copy_port.h"

#include <stdio.h>
#include <string.h>

#include "agent/daemon/order/copy_reader.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "tunnel/service_conn.h"

#define WRITE_BYTES   (256u << 10)
#define REQUEST_BYTES 1024u
#define SESSION_BYTES 192u
#define WHY_BYTES     256u

#define SERVICE_DIED PERFLEET__SEGMENT_GAP__WHY__SERVICE_DIED

enum copy_state {
    COPY_WAITING, /* for the delay */
    COPY_CLONING, /* for the answer to CloneSession */
    COPY_READING, /* for packets, or the disk */
    COPY_DONE,    /* for its parts to close */
};

struct pfl_order_copy {
    struct pfl_list node;
    struct pfl_order_copy_conf conf;
    enum copy_state state;
    struct pfl_order_raise raise;
    struct pfl_service_conn *conn;   /* owned until its on_closed */
    struct pfl_segments_op *writing; /* the note, or bytes; NULL: nothing */
    struct pfl_copy_reader bytes;
    uint64_t cloned_ns; /* the boot clock */
    uv_timer_t timer;
    bool is_timer_open;
    bool is_read_whole;
    bool is_closing;
    char session[SESSION_BYTES];
    char id[PFL_SEGMENT_ID_BYTES]; /* of the run */
};

/* ---- the end ---- */

static void finish(struct pfl_order_copy *c)
{
    if (!c->is_closing || c->conn != NULL || c->is_timer_open)
        return;
    if (c->writing != NULL)
        pfl_segments_cancel(c->writing);
    pfl_copy_reader_fini(&c->bytes);
    pfl_list_remove(&c->node);
    c->conf.on_closed(c->conf.user);
    pfl_mem_free(c);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_order_copy *c = handle->data;

    c->is_timer_open = false;
    finish(c);
}

void pfl_order_copy_close(struct pfl_order_copy *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    self->state = COPY_DONE;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
    if (self->conn != NULL)
        pfl_service_conn_close(self->conn);
}

/* `gap` 0: the copy is whole. */
static void end(struct pfl_order_copy *c, uint8_t gap, const char *why)
{
    struct pfl_segments_copy_end copy_end = {
        .begin_boot_ns = pfl_copy_reader_get_begin_ns(&c->bytes),
        .end_boot_ns = c->cloned_ns != 0 ? c->cloned_ns : pfl_clock_now_ns(PFL_CLOCK_BOOTTIME),
        .why = gap,
        .losses = pfl_copy_reader_get_skipped(&c->bytes)};

    if (c->state == COPY_DONE)
        return;
    c->state = COPY_DONE;
    pfl_segments_end_copy(c->conf.segments, c->id, &copy_end);
    c->conf.on_done(c->conf.user, c, why);
    pfl_order_copy_close(c);
}

static void watch_progress(struct pfl_order_copy *c);

static void on_late(uv_timer_t *timer)
{
    end(timer->data, SERVICE_DIED, "the service did not make the copy in time");
}

static void watch_progress(struct pfl_order_copy *c)
{
    (void)uv_timer_start(&c->timer, on_late, PFL_ORDER_COPY_MS, 0);
}

/* ---- writing ---- */

static void write_on(struct pfl_order_copy *c);

static void set_paused(struct pfl_order_copy *c, bool is_paused)
{
    if (c->conn != NULL)
        pfl_service_conn_set_paused(c->conn, is_paused);
}

static void on_written(void *user, const struct pfl_segments_result *result)
{
    struct pfl_order_copy *c = user;

    c->writing = NULL;
    if (c->state == COPY_DONE)
        return;
    if (result->rc == PFL_ELIMIT) {
        end(c, PERFLEET__SEGMENT_GAP__WHY__DISK_FULL, "the disk of the segments is full");
        return;
    }
    if (result->rc != 0) {
        end(c, PERFLEET__SEGMENT_GAP__WHY__CORRUPT, "the copy cannot be written");
        return;
    }
    watch_progress(c);
    set_paused(c, false);
    write_on(c);
}

static void write_on(struct pfl_order_copy *c)
{
    struct pfl_segments_part part = {
        .id = c->id, .bytes = &c->bytes.out, .done = on_written, .user = c};
    bool is_due = c->bytes.out.len >= WRITE_BYTES || c->is_read_whole;

    if (!is_due)
        return;
    if (c->writing != NULL) {
        set_paused(c, true);
        return;
    }
    if (c->bytes.out.len == 0) {
        end(c, 0, "");
        return;
    }
    set_paused(c, true);
    if (pfl_segments_append(c->conf.segments, &part, &c->writing) != 0) {
        c->writing = NULL;
        end(c, SERVICE_DIED, "the agent is out of memory");
    }
}

/* ---- reading ---- */

static int on_read(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_order_copy *c = user;
    int rc;

    if (c->state != COPY_READING)
        return 0;
    if (!reply->success) {
        end(c, SERVICE_DIED, "the service does not let the copy be read");
        return 0;
    }
    rc = pfl_copy_reader_feed(&c->bytes, reply->body);
    if (rc != 0) {
        end(c, rc == PFL_ELIMIT ? PERFLEET__SEGMENT_GAP__WHY__QUOTA : SERVICE_DIED,
            rc == PFL_ELIMIT   ? "the copy is larger than the order's quota"
            : rc == PFL_ENOMEM ? "the agent is out of memory"
                               : "the service sends what is no trace");
        return 0;
    }
    c->is_read_whole = !reply->has_more;
    if (c->writing == NULL)
        watch_progress(c);
    write_on(c);
    return 0;
}

static int on_cloned(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_order_copy *c = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    bool is_cloned = false;
    char why[WHY_BYTES] = "the service does not copy the session";

    if (c->state != COPY_CLONING)
        return 0;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == CLONE_SESSION_RESPONSE__SUCCESS)
            is_cloned = f.value != 0;
        if (f.id == CLONE_SESSION_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES)
            (void)snprintf(why, sizeof(why), "the service does not copy the session: %.150s",
                           pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
    }
    if (!reply->success || !is_cloned) {
        end(c, SERVICE_DIED, why);
        return 0;
    }
    c->cloned_ns = c->bytes.now_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    c->state = COPY_READING;
    watch_progress(c);
    if (pfl_service_conn_invoke(c->conn, "ReadBuffers", pfl_span_of(NULL, 0), on_read, c) != 0)
        end(c, SERVICE_DIED, "the service does not let the copy be read");
    return 0;
}

/* ---- cloning ---- */

static void on_bound(void *user)
{
    struct pfl_order_copy *c = user;
    uint8_t args[REQUEST_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__UNIQUE_SESSION_NAME, c->session,
                           strlen(c->session));
    pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__CLONE_TRIGGER_NAME, c->raise.trigger,
                           strlen(c->raise.trigger));
    pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__CLONE_TRIGGER_PRODUCER_NAME, c->raise.host,
                           strlen(c->raise.host));
    pfl_writer_field_varint(&w, CLONE_SESSION_REQUEST__CLONE_TRIGGER_BOOT_TIME_NS,
                            pfl_clock_now_ns(PFL_CLOCK_BOOTTIME));
    pfl_writer_field_varint(&w, CLONE_SESSION_REQUEST__PERFLEET_COMPRESSED, 1);
    if (c->state == COPY_CLONING &&
        pfl_service_conn_invoke(c->conn, "CloneSession", pfl_span_of(args, sizeof(args) - w.left),
                                on_cloned, c) != 0)
        end(c, SERVICE_DIED, "this host's tracing service cannot clone sessions");
}

static void on_conn_closed(void *user)
{
    struct pfl_order_copy *c = user;

    c->conn = NULL;
    if (c->state != COPY_READING || !c->is_read_whole)
        end(c, SERVICE_DIED, "the service was lost while it made the copy");
    finish(c);
}

static void on_due(uv_timer_t *timer)
{
    struct pfl_order_copy *c = timer->data;
    struct pfl_service_conn_conf conf = {.loop = c->conf.loop,
                                         .socket = c->conf.socket,
                                         .on_bound = on_bound,
                                         .on_closed = on_conn_closed,
                                         .user = c};
    struct pfl_segments_begin begin = {.done = on_written, .user = c};

    if (c->conf.begin_run(c->conf.user, c, &begin, c->id, &c->writing) != 0) {
        pfl_order_copy_close(c);
        return;
    }
    c->state = COPY_CLONING;
    watch_progress(c);
    if (pfl_service_conn_open(&conf, &c->conn) != 0) {
        c->conn = NULL;
        end(c, SERVICE_DIED, "the service does not answer");
    }
}

int pfl_order_copy_open(const struct pfl_order_copy_conf *conf, struct pfl_order_copy **ret_copy)
{
    struct pfl_order_copy *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_copy_reader_conf bytes = {.max_bytes = conf->max_bytes, .ring_ns = conf->ring_ns};

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    c->conf.session = NULL;
    c->conf.raise = NULL;
    c->raise = *conf->raise;
    (void)snprintf(c->session, sizeof(c->session), "%s", conf->session);
    pfl_copy_reader_init(&c->bytes, &bytes);
    pfl_list_init(&c->node);
    (void)uv_timer_init(conf->loop, &c->timer);
    c->timer.data = c;
    c->is_timer_open = true;
    (void)uv_timer_start(&c->timer, on_due, conf->delay_ms, 0);
    *ret_copy = c;
    return 0;
}

const struct pfl_order_raise *pfl_order_copy_get_raise(const struct pfl_order_copy *self)
{
    return &self->raise;
}

struct pfl_list *pfl_order_copy_get_node(struct pfl_order_copy *self)
{
    return &self->node;
}

struct pfl_order_copy *pfl_order_copy_of_node(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_order_copy, node);
}
