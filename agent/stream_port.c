/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream at its host, its life and its legs: see stream_port.h.
 *
 * Happy path: service -> (spool ->) out ring -> leg, and leg -> in ring -> service, with credit
 * both ways (stream_out_port.c, stream_service_port.c). A leg that is lost leaves both rings and
 * the service's connection; the next one goes on. Failures: an operator that breaks the rules loses
 * the stream. Without a leg for ttl_ms, killed, or done and detached for as long: it goes.
 * Ownership: the service's stream, the rings, the spool. The leg belongs to its connection until
 * its on_closed. Limits: one control window, and those of the two other files.
 */
#include <stdio.h>

#include "agent/stream_impl.h"
#include "base/mem.h"
#include "proto/gate/role.h"

/* ---- the end ---- */

static void free_stream(struct pfl_agent_stream *s)
{
    pfl_spool_close(s->spool, NULL, NULL); /* nothing ran: it reads the ring no more */
    pfl_mem_free(s->ring);
    pfl_encode_port_close(s->encoder);
    pfl_gate_free(s->gate);
    pfl_resume_fini(&s->resume);
    pfl_mem_free(s);
}

void pfl_agent_stream_finish(struct pfl_agent_stream *self)
{
    if (!self->is_dying || self->service != NULL || self->is_timer_open || self->is_ring_read)
        return;
    pfl_spool_pool_leave(self->pool, self->counted_bytes, self->resume.out.next, self->legs);
    pfl_list_remove(&self->node);
    self->on_gone(self->user);
    free_stream(self);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_agent_stream *s = handle->data;

    s->is_timer_open = false;
    pfl_agent_stream_finish(s);
}

static void on_ring_idle(void *user)
{
    struct pfl_agent_stream *s = user;

    s->is_ring_read = false;
    pfl_agent_stream_finish(s);
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
    self->is_ring_read = true;
    pfl_spool_close(self->spool, on_ring_idle, self);
    self->spool = NULL;
    pfl_encode_port_close(self->encoder);
    self->encoder = NULL;
    drop_leg(self, PFL_H2_CANCEL);
    uv_close((uv_handle_t *)&self->ttl, on_timer_closed);
    if (self->service != NULL)
        pfl_stream_close(self->service);
}

static void on_ttl(uv_timer_t *timer)
{
    struct pfl_agent_stream *s = timer->data;

    s->pool->expired += !pfl_resume_is_done(&s->resume);
    pfl_agent_stream_kill(s);
}

static void orphan(struct pfl_agent_stream *s)
{
    s->orphan_since_ms = uv_now(s->loop);
    if (s->id[0] == '\0')
        pfl_agent_stream_kill(s);
    else
        (void)uv_timer_start(&s->ttl, on_ttl, s->ttl_ms, 0);
}

/* ---- the leg ---- */

static void on_leg_data(void *user, struct pfl_span data)
{
    struct pfl_agent_stream *s = user;

    if (pfl_resume_feed(&s->resume, data) != 0)
        pfl_agent_stream_kill(s);
    else
        pfl_agent_stream_service_deliver(s);
}

static void on_leg_end(void *user)
{
    struct pfl_agent_stream *s = user;

    pfl_resume_feed_end(&s->resume);
    pfl_agent_stream_service_deliver(s);
}

static size_t on_leg_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct pfl_agent_stream *s = user;

    return pfl_resume_pull(&s->resume, dst, room, ret_is_end);
}

static void on_leg_credit(void *user, uint32_t bytes)
{
    struct pfl_agent_stream *s = user;

    if (pfl_resume_on_credit(&s->resume, bytes) != 0 || pfl_agent_stream_out_refill(s) != 0) {
        pfl_agent_stream_kill(s);
        return;
    }
    pfl_agent_stream_out_pace(s);
    if (s->gate != NULL)
        pfl_agent_stream_service_deliver(s);
    pfl_agent_stream_wake(s);
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
    if (pfl_agent_stream_out_refill(self) != 0) {
        pfl_agent_stream_kill(self);
        return 0;
    }
    pfl_agent_stream_out_pace(self);
    pfl_agent_stream_service_deliver(self);
    return 0;
}

/* ---- opening ---- */

int pfl_agent_stream_set_role(struct pfl_agent_stream *self, struct pfl_span role, char *ret_why)
{
    if (self->gate != NULL)
        return pfl_gate_set_role(self->gate, role, ret_why);
    (void)snprintf(ret_why, PFL_JUDGE_WHY_BYTES,
                   "the stream was begun before the operator had a role: begin another");
    return PFL_EPERM;
}

static int open_spool(struct pfl_agent_stream *s)
{
    struct pfl_spool_conf conf = {.loop = s->loop,
                                  .pool = s->pool,
                                  .ring_bytes = PFL_SPOOL_RING_BYTES,
                                  .on_change = pfl_agent_stream_out_on_spool,
                                  .user = s};

    conf.ring = s->ring = pfl_mem_alloc(conf.ring_bytes);
    return s->ring != NULL ? pfl_spool_new(&conf, &s->spool) : PFL_ENOMEM;
}

int pfl_agent_stream_open(const struct pfl_agent_stream_conf *conf,
                          struct pfl_agent_stream **ret_stream)
{
    struct pfl_agent_stream *s = pfl_mem_zalloc(sizeof(*s));
    struct pfl_encode_port_conf encode = {.lane = conf->lane,
                                          .on_output = pfl_agent_stream_out_on_encoded,
                                          .on_progress = pfl_agent_stream_out_on_progress,
                                          .user = s};
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    s->loop = conf->loop;
    s->pool = conf->pool;
    s->events = conf->events;
    s->spool_bytes = conf->spool_bytes > PFL_AGENT_SPOOL_MIN_BYTES ? conf->spool_bytes
                                                                   : PFL_AGENT_SPOOL_MIN_BYTES;
    s->ttl_ms = conf->ttl_ms;
    s->begin_ms = s->orphan_since_ms = uv_now(conf->loop);
    s->on_gone = conf->on_gone;
    s->user = conf->user;
    (void)snprintf(s->id, sizeof(s->id), "%s", conf->id);
    (void)snprintf(s->operator_name, sizeof(s->operator_name), "%s", conf->operator_name);
    pfl_resume_init(&s->resume, s->spool_bytes, PFL_TUNNEL_CONTROL_WINDOW_BYTES);
    rc = conf->wants_zstd ? pfl_encode_port_new(&encode, &s->encoder) : 0;
    if (rc == 0 && s->pool->dir != NULL)
        rc = open_spool(s);
    if (rc == 0)
        rc = pfl_agent_stream_service_open(s, conf);
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
        .queued_bytes = self->service != NULL ? pfl_stream_queued_bytes(self->service) : 0,
        .window_bytes = self->leg != NULL ? self->resume.peer_window_bytes : 0,
        .unused_bytes = self->leg != NULL ? self->resume.out.next - self->resume.out.base : 0,
        .is_waiting = self->leg != NULL && pfl_replay_unsent(&self->resume.out) != 0,
    };
}
