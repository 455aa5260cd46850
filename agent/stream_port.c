/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream at its host: see stream_port.h.
 *
 * Happy path: service -> (spool ->) out ring -> leg, and leg -> in ring -> service, with credit
 * both ways. A leg that is lost leaves both rings and the service's connection; the next one goes
 * on. Failures: a service that ends or breaks is an end of the stream, which the operator still
 * gets in order. An operator that breaks the rules loses the stream. Without a leg for ttl_ms,
 * killed, or done and detached for as long: it goes. Ownership: the service's stream, the rings,
 * the spool. The leg belongs to its connection until its on_closed. Limits: spool_bytes and one
 * read, the spool's, one control window, PFL_AGENT_SERVICE_QUEUE_BYTES.
 */
#include "agent/stream_port.h"

#include <stdio.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/codec.h"
#include "proto/gate/role.h"

#define DELIVER_BYTES (64u * 1024)

struct pfl_agent_stream {
    struct pfl_list node;
    uv_loop_t *loop;
    struct pfl_resume resume;
    struct pfl_stream *service; /* owned; NULL once closed */
    struct pfl_h2_stream *leg;  /* borrowed until its on_closed */
    uv_timer_t ttl;
    struct pfl_encoder *encoder; /* owned; NULL: plain */
    struct pfl_spool_pool *pool;
    struct pfl_spool *spool; /* owned; NULL: memory only */
    struct pfl_gate *gate;   /* owned; NULL: the operator has no role */
    size_t spool_bytes;
    size_t counted_bytes; /* of ours in the pool's sum */
    uint64_t ttl_ms;
    uint64_t begin_ms;
    uint64_t orphan_since_ms;
    unsigned legs;
    bool is_timer_open;
    bool is_dying;
    bool is_service_held; /* not read at present */
    bool is_service_told; /* the operator's end was passed on */
    bool is_service_over; /* it sends no more: the end follows what the spool has */
    bool is_full_told;    /* in the log */
    void (*on_gone)(void *user);
    void *user;
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
    char operator_name[PFL_IDENTITY_NAME_BYTES];
};

/* ---- the end ---- */

static void free_stream(struct pfl_agent_stream *s)
{
    pfl_spool_close(s->spool);
    pfl_encoder_free(s->encoder);
    pfl_gate_free(s->gate);
    pfl_resume_fini(&s->resume);
    pfl_mem_free(s);
}

static void finish_if_gone(struct pfl_agent_stream *s)
{
    if (!s->is_dying || s->service != NULL || s->is_timer_open)
        return;
    pfl_spool_pool_leave(s->pool, s->counted_bytes, s->resume.out.next, s->legs);
    pfl_list_remove(&s->node);
    s->on_gone(s->user);
    free_stream(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_agent_stream *s = handle->data;

    s->is_timer_open = false;
    finish_if_gone(s);
}

static void drop_leg(struct pfl_agent_stream *s, enum pfl_h2_code code)
{
    struct pfl_h2_stream *leg = s->leg;

    s->leg = NULL;
    pfl_resume_detach(&s->resume);
    if (leg == NULL)
        return;
    pfl_h2_stream_set_user(leg, NULL, NULL);
    pfl_h2_stream_reset(leg, code);
}

void pfl_agent_stream_kill(struct pfl_agent_stream *self)
{
    if (self->is_dying)
        return;
    self->is_dying = true;
    pfl_spool_close(self->spool);
    self->spool = NULL;
    drop_leg(self, PFL_H2_CANCEL);
    uv_close((uv_handle_t *)&self->ttl, on_timer_closed);
    if (self->service != NULL)
        pfl_stream_close(self->service);
}

static void on_ttl(uv_timer_t *timer)
{
    pfl_agent_stream_kill(timer->data);
}

static void orphan(struct pfl_agent_stream *s)
{
    s->orphan_since_ms = uv_now(s->loop);
    if (s->id[0] == '\0')
        pfl_agent_stream_kill(s);
    else
        (void)uv_timer_start(&s->ttl, on_ttl, s->ttl_ms, 0);
}

/* ---- service to operator ---- */

/* The ring's part of the memory: one window always, more while there is some. */
static size_t get_mark(struct pfl_agent_stream *s)
{
    size_t kept = pfl_replay_kept(&s->resume.out);
    size_t mark = s->spool_bytes - PFL_AGENT_READ_BYTES;

    if (s->spool != NULL)
        kept += pfl_spool_memory_bytes(s->spool);
    s->pool->used_bytes += kept;
    s->pool->used_bytes -= s->counted_bytes;
    s->counted_bytes = kept;
    if (s->pool->used_bytes > s->pool->max_bytes && mark > PFL_TUNNEL_DATA_WINDOW_BYTES)
        mark = PFL_TUNNEL_DATA_WINDOW_BYTES;
    return mark;
}

static void tell_full(struct pfl_agent_stream *s)
{
    if (s->is_full_told)
        return;
    s->is_full_told = true;
    pfl_log_warn("spool-full",
                 "stream=%s operator=%s memory_bytes=%zu file_bytes=%llu "
                 "effect=\"the service is held back until the operator reads\"",
                 s->id, s->operator_name, s->counted_bytes,
                 (unsigned long long)(s->spool != NULL ? pfl_spool_file_bytes(s->spool) : 0));
}

/* Reads the service while there is room. */
static void hold_or_read(struct pfl_agent_stream *s)
{
    size_t mark = get_mark(s);
    bool is_full =
        s->spool != NULL ? pfl_spool_is_full(s->spool) : pfl_replay_kept(&s->resume.out) >= mark;

    if (s->service == NULL)
        return;
    if (is_full && (s->spool == NULL || !pfl_spool_is_busy(s->spool)))
        tell_full(s);
    if (is_full && !s->is_service_held)
        pfl_stream_read_stop(s->service);
    else if (!is_full && s->is_service_held)
        pfl_stream_read_start(s->service);
    s->is_service_held = is_full;
}

/* What waits in the spool goes into the ring as that empties, and after it the end. */
static int refill(struct pfl_agent_stream *s)
{
    size_t mark = get_mark(s);
    int rc = 0;

    while (rc == 0 && s->spool != NULL && pfl_replay_kept(&s->resume.out) < mark) {
        struct pfl_span piece = pfl_spool_peek(s->spool, mark - pfl_replay_kept(&s->resume.out));

        if (piece.len == 0)
            break;
        rc = pfl_resume_write(&s->resume, piece);
        if (rc == 0)
            pfl_spool_use(s->spool, piece.len);
    }
    if (s->is_service_over && (s->spool == NULL || pfl_spool_is_empty(s->spool)))
        pfl_resume_end(&s->resume);
    return rc;
}

static void on_spool_change(void *user)
{
    struct pfl_agent_stream *s = user;

    if (pfl_spool_is_broken(s->spool) || refill(s) != 0) {
        pfl_agent_stream_kill(s);
        return;
    }
    hold_or_read(s);
    if (s->leg != NULL)
        pfl_h2_stream_wake(s->leg);
}

/* Encoded bytes, in order: into the ring, or behind what waits for it. */
static int keep(struct pfl_agent_stream *s, struct pfl_span data)
{
    if (s->spool != NULL &&
        (!pfl_spool_is_empty(s->spool) || pfl_replay_kept(&s->resume.out) >= get_mark(s)))
        return pfl_spool_write(s->spool, data);
    return pfl_resume_write(&s->resume, data);
}

static int encode(struct pfl_agent_stream *s, struct pfl_span data, bool is_end)
{
    struct pfl_span out;
    bool is_done = false;
    int rc = 0;

    if (s->encoder == NULL)
        return keep(s, data);
    while (rc == 0 && !is_done) {
        rc = pfl_encoder_next(s->encoder, &data, is_end, &out, &is_done);
        if (rc == 0)
            rc = keep(s, out);
    }
    return rc;
}

/* The gate's, when there is one: bytes that pass. After the service's end nothing comes any more.
 */
static int pass_to_operator(void *user, struct pfl_span bytes)
{
    struct pfl_agent_stream *s = user;
    int rc = s->is_service_over ? 0 : encode(s, bytes, false);

    if (s->leg != NULL)
        pfl_h2_stream_wake(s->leg);
    return rc;
}

static int pass_to_service(void *user, struct pfl_span bytes)
{
    struct pfl_agent_stream *s = user;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes.data, .iov_len = bytes.len};

    /* What a service that is gone, or going, was sent is used up all the same. */
    if (s->service != NULL)
        (void)!pfl_stream_writev(s->service, &iov, 1, -1);
    return 0;
}

/* Read-outs are many, and nothing is decided in them. */
static void on_judged(void *user, enum pfl_method method, const char *why)
{
    struct pfl_agent_stream *s = user;

    if (why != NULL)
        pfl_log_warn("request-refused", "operator=%s stream=%s method=%s reason=%s",
                     s->operator_name, s->id, pfl_method_name(method), pfl_log_quote_str(why));
    else if (method != PFL_METHOD_READ_BUFFERS)
        pfl_log_info("request", "operator=%s stream=%s method=%s", s->operator_name, s->id,
                     pfl_method_name(method));
}

static void on_service_data(void *user, struct pfl_span data)
{
    struct pfl_agent_stream *s = user;

    if (s->is_dying)
        return;
    if ((s->gate != NULL ? pfl_gate_from_service(s->gate, data) : encode(s, data, false)) != 0) {
        pfl_agent_stream_kill(s);
        return;
    }
    hold_or_read(s);
    if (s->leg != NULL)
        pfl_h2_stream_wake(s->leg);
}

static void end_service(struct pfl_agent_stream *s)
{
    if (s->is_dying || s->is_service_over)
        return;
    s->is_service_over = true;
    if (encode(s, pfl_span_of(NULL, 0), true) != 0 || refill(s) != 0) {
        pfl_agent_stream_kill(s);
        return;
    }
    if (s->leg != NULL)
        pfl_h2_stream_wake(s->leg);
}

static void on_service_eof(void *user)
{
    end_service(user);
}

static void on_service_closed(void *user, int err)
{
    struct pfl_agent_stream *s = user;

    (void)err;
    s->service = NULL;
    if (s->is_dying)
        finish_if_gone(s);
    else
        end_service(s);
}

/* ---- operator to service ---- */

static void send_credit(struct pfl_agent_stream *s)
{
    uint32_t credit = s->leg != NULL ? pfl_resume_take_credit(&s->resume) : 0;

    if (credit != 0)
        pfl_h2_stream_credit(s->leg, credit);
}

/* Nor may a gate's answers, while there are any, fill a spool that is full already. */
static bool is_service_willing(const struct pfl_agent_stream *s)
{
    if (s->gate != NULL && s->is_service_held && !s->is_service_over)
        return false;
    return s->service == NULL ||
           pfl_stream_queued_bytes(s->service) < PFL_AGENT_SERVICE_QUEUE_BYTES;
}

static void deliver(struct pfl_agent_stream *s)
{
    while (pfl_resume_held(&s->resume) != 0 && is_service_willing(s)) {
        struct pfl_span piece = pfl_resume_peek(&s->resume, DELIVER_BYTES);

        if ((s->gate != NULL ? pfl_gate_from_operator(s->gate, piece)
                             : pass_to_service(s, piece)) != 0) {
            pfl_log_warn("stream-broken",
                         "operator=%s stream=%s reason=\"what was sent is no frame "
                         "of the protocol, or its answers are not read\"",
                         s->operator_name, s->id);
            pfl_agent_stream_kill(s);
            return;
        }
        pfl_resume_use(&s->resume, piece.len);
    }
    send_credit(s);
    if (!s->resume.is_in_ended || pfl_resume_held(&s->resume) != 0 || s->is_service_told)
        return;
    s->is_service_told = true;
    if (s->service != NULL)
        pfl_stream_shutdown(s->service);
}

static void on_service_writable(void *user)
{
    struct pfl_agent_stream *s = user;

    if (!s->is_dying)
        deliver(s);
}

static const struct pfl_stream_ops service_ops = {
    .on_data = on_service_data,
    .on_eof = on_service_eof,
    .on_writable = on_service_writable,
    .on_closed = on_service_closed,
};

/* ---- the leg ---- */

static void on_leg_data(void *user, struct pfl_span data)
{
    struct pfl_agent_stream *s = user;

    if (pfl_resume_feed(&s->resume, data) != 0)
        pfl_agent_stream_kill(s);
    else
        deliver(s);
}

static void on_leg_end(void *user)
{
    struct pfl_agent_stream *s = user;

    pfl_resume_feed_end(&s->resume);
    deliver(s);
}

static size_t on_leg_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct pfl_agent_stream *s = user;

    return pfl_resume_pull(&s->resume, dst, room, ret_is_end);
}

static void on_leg_credit(void *user, uint32_t bytes)
{
    struct pfl_agent_stream *s = user;

    if (pfl_resume_on_credit(&s->resume, bytes) != 0 || refill(s) != 0) {
        pfl_agent_stream_kill(s);
        return;
    }
    hold_or_read(s);
    if (s->gate != NULL)
        deliver(s);
    if (s->leg != NULL)
        pfl_h2_stream_wake(s->leg);
}

static void on_leg_closed(void *user, uint32_t code)
{
    struct pfl_agent_stream *s = user;

    s->leg = NULL;
    pfl_resume_detach(&s->resume);
    if (code == PFL_H2_CANCEL)
        pfl_agent_stream_kill(s);
    else
        orphan(s);
}

static const struct pfl_h2_stream_ops leg_ops = {
    .on_data = on_leg_data,
    .on_end = on_leg_end,
    .on_pull = on_leg_pull,
    .on_credit = on_leg_credit,
    .on_closed = on_leg_closed,
};

static int answer(struct pfl_agent_stream *s, struct pfl_h2_stream *leg,
                  const struct pfl_resume_offer *told)
{
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 2];
    char role[PFL_ROLE_PATTERN_MAX + 1];
    struct pfl_tunnel_offer_text text;
    size_t count = PFL_TUNNEL_OFFER_FIELDS;

    pfl_tunnel_offer_write(told, s->ttl_ms, &text, fields);
    if (s->encoder != NULL)
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_ENCODING, PFL_TUNNEL_ENCODING_ZSTD};
    if (s->gate != NULL) {
        pfl_role_copy_name(pfl_gate_get_role(s->gate), role);
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, role};
    }
    pfl_h2_stream_set_user(leg, &leg_ops, s);
    return pfl_h2_stream_respond(leg, 200, fields, count);
}

int pfl_agent_stream_attach(struct pfl_agent_stream *self, struct pfl_h2_stream *leg,
                            const struct pfl_resume_offer *peer)
{
    static const struct pfl_resume_offer any = {.window_bytes = INT32_MAX};
    struct pfl_resume_offer told;
    int rc;

    if (self->is_dying)
        return PFL_ESTATE;
    pfl_resume_get_offer(&self->resume, &told);
    rc = pfl_resume_attach(&self->resume, peer != NULL ? peer : &any, &told);
    if (rc != 0)
        return rc;
    if (self->leg != NULL) {
        drop_leg(self, PFL_H2_DETACH);
        self->resume.is_attached = true;
    }
    (void)uv_timer_stop(&self->ttl);
    self->legs++;
    self->leg = leg;
    if (answer(self, leg, &told) != 0) {
        drop_leg(self, PFL_H2_INTERNAL_ERROR);
        orphan(self);
        return 0;
    }
    if (refill(self) != 0) {
        pfl_agent_stream_kill(self);
        return 0;
    }
    hold_or_read(self);
    deliver(self);
    return 0;
}

/* ---- opening ---- */

static int open_service(struct pfl_agent_stream *s, const char *path)
{
    struct pfl_stream_conf conf = {
        .loop = s->loop,
        .ops = &service_ops,
        .user = s,
        .queue_max_bytes = PFL_AGENT_SERVICE_QUEUE_BYTES + DELIVER_BYTES + PFL_FRAME_MAX_BYTES,
        .queue_low_bytes = PFL_AGENT_SERVICE_QUEUE_BYTES / 4,
    };
    int fd;
    int rc = pfl_fdsock_connect_unix(path, &fd);

    if (rc != 0)
        return rc;
    rc = pfl_fdsock_open(&conf, fd, &s->service);
    if (rc != 0)
        close(fd);
    return rc;
}

static int make_gate(struct pfl_agent_stream *s, struct pfl_span role)
{
    struct pfl_gate_conf conf = {.role = role,
                                 .to_service = pass_to_service,
                                 .to_operator = pass_to_operator,
                                 .on_judged = on_judged,
                                 .user = s};

    return pfl_gate_new(&conf, &s->gate);
}

int pfl_agent_stream_set_role(struct pfl_agent_stream *self, struct pfl_span role, char *ret_why)
{
    if (self->gate != NULL)
        return pfl_gate_set_role(self->gate, role, ret_why);
    (void)snprintf(ret_why, PFL_JUDGE_WHY_BYTES,
                   "the stream was begun before the operator had a role: begin another");
    return PFL_EPERM;
}

int pfl_agent_stream_open(const struct pfl_agent_stream_conf *conf,
                          struct pfl_agent_stream **ret_stream)
{
    struct pfl_agent_stream *s = pfl_mem_zalloc(sizeof(*s));
    struct pfl_spool_conf spool = {
        .loop = conf->loop, .pool = conf->pool, .on_change = on_spool_change, .user = s};
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    s->loop = conf->loop;
    s->pool = conf->pool;
    s->spool_bytes = conf->spool_bytes > PFL_AGENT_SPOOL_MIN_BYTES ? conf->spool_bytes
                                                                   : PFL_AGENT_SPOOL_MIN_BYTES;
    s->ttl_ms = conf->ttl_ms;
    s->begin_ms = s->orphan_since_ms = uv_now(conf->loop);
    s->on_gone = conf->on_gone;
    s->user = conf->user;
    (void)snprintf(s->id, sizeof(s->id), "%s", conf->id);
    (void)snprintf(s->operator_name, sizeof(s->operator_name), "%s", conf->operator_name);
    pfl_resume_init(&s->resume, s->spool_bytes, PFL_TUNNEL_CONTROL_WINDOW_BYTES);
    rc = conf->wants_zstd ? pfl_encoder_new(&s->encoder) : 0;
    if (rc == 0 && s->pool->dir != NULL)
        rc = pfl_spool_new(&spool, &s->spool);
    if (rc == 0 && conf->role.len != 0)
        rc = make_gate(s, conf->role);
    if (rc == 0)
        rc = open_service(s, conf->consumer_socket);
    if (rc != 0) {
        free_stream(s);
        return rc;
    }
    (void)uv_timer_init(s->loop, &s->ttl);
    s->ttl.data = s;
    s->is_timer_open = true;
    *ret_stream = s;
    return 0;
}

void pfl_agent_stream_retry(struct pfl_agent_stream *self)
{
    if (self->spool != NULL && !self->is_dying)
        pfl_spool_retry(self->spool);
}

struct pfl_list *pfl_agent_stream_get_node(struct pfl_agent_stream *self)
{
    return &self->node;
}

struct pfl_agent_stream *pfl_agent_stream_of_node(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_agent_stream, node);
}

void pfl_agent_stream_get_info(const struct pfl_agent_stream *self,
                               struct pfl_agent_stream_info *ret_info)
{
    uint64_t now_ms = uv_now(self->loop);
    uint64_t file_bytes = self->spool != NULL ? pfl_spool_file_bytes(self->spool) : 0;

    *ret_info = (struct pfl_agent_stream_info){
        .id = self->id,
        .operator_name = self->operator_name,
        .age_ms = now_ms - self->begin_ms,
        .orphan_ms = self->leg == NULL ? now_ms - self->orphan_since_ms : 0,
        .sent_bytes = self->resume.out.next,
        .kept_bytes = self->counted_bytes + file_bytes,
        .file_bytes = file_bytes,
        .ttl_ms = self->ttl_ms,
        .resumes = self->legs != 0 ? self->legs - 1 : 0,
        .is_carried = self->leg != NULL,
        .is_over = self->resume.is_in_ended && self->resume.is_out_ended,
        .is_done = pfl_resume_is_done(&self->resume),
    };
}
