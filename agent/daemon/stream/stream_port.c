/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream at its host, its life and its HTTP/2 streams (`h2_stream`): see stream_port.h.
 *
 * Happy path: service -> (spool ->) out ring -> HTTP/2 stream, and back through the in ring, with
 * credit both ways (stream_out_port.c, stream_service_port.c). When an HTTP/2 stream is lost, both
 * rings and the service's connection stay, and the next one continues. Failures: an operator that
 * breaks the rules loses the stream. It ends when it is killed, or after ttl_ms without an HTTP/2
 * stream. Ownership: the service's stream, the rings, the spool. An HTTP/2 stream belongs to its
 * connection until its on_closed. Limits: one control window, and those of the two other files.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/stream/stream_impl.h"
#include "base/clock.h"
#include "base/io/fdsock.h"
#include "base/mem.h"
#include "proto/gate/role.h"

/* ---- the end ---- */

static void free_stream(struct pfl_agent_stream *s)
{
    pfl_gate_free(s->gate);
    pfl_resume_fini(&s->resume);
    pfl_stream_memory_free(s->memory);
    pfl_mem_free(s);
}

void pfl_agent_stream_finish(struct pfl_agent_stream *self)
{
    if (!self->is_dying || self->busy != 0)
        return;
    pfl_spool_pool_leave(self->pool, self->who, &self->counted_bytes, self->resume.out.next,
                         self->h2_streams);
    pfl_list_remove(&self->node);
    self->on_gone(self->user);
    free_stream(self);
}

static void on_part_idle(void *user)
{
    struct pfl_agent_stream *s = user;

    s->busy--;
    pfl_agent_stream_finish(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_part_idle(handle->data);
}

static void drop_h2_stream(struct pfl_agent_stream *s, enum pfl_h2_code code)
{
    struct pfl_h2_stream *h2_stream = s->h2_stream;

    s->h2_stream = NULL;
    pfl_resume_detach(&s->resume);
    if (h2_stream == NULL)
        return;
    pfl_h2_stream_set_user(h2_stream, NULL, NULL);
    pfl_h2_stream_reset(h2_stream, code);
}

/* The memory stays until no thread has work in it. */
static void close_parts(struct pfl_agent_stream *s)
{
    struct pfl_spool *spool = s->spool;
    struct pfl_encode_port *encoder = s->encoder;

    pfl_agent_stream_service_close(s);
    s->spool = NULL;
    s->encoder = NULL;
    s->busy += (spool != NULL ? 1u : 0u) + (encoder != NULL ? 1u : 0u);
    if (spool != NULL)
        pfl_spool_close(spool, on_part_idle, s);
    if (encoder != NULL)
        pfl_encode_port_close(encoder, on_part_idle, s);
}

/* The timers' handles, which are closed from the loop, keep the stream until its caller is done. */
static void end(struct pfl_agent_stream *s, enum pfl_h2_code code)
{
    s->is_dying = true;
    drop_h2_stream(s, code);
    uv_close((uv_handle_t *)&s->ttl, on_timer_closed);
    uv_close((uv_handle_t *)&s->judge, on_timer_closed);
    close_parts(s);
}

void pfl_agent_stream_kill(struct pfl_agent_stream *self)
{
    if (self->is_dying)
        return;
    pfl_agent_stream_unkeep(self);
    pfl_service_socket_break(self->service);
    end(self, PFL_H2_CANCEL);
}

void pfl_agent_stream_leave(struct pfl_agent_stream *self)
{
    if (!self->is_kept)
        pfl_agent_stream_kill(self);
    else if (!self->is_dying)
        end(self, PFL_H2_DETACH);
}

static void on_ttl(uv_timer_t *timer)
{
    struct pfl_agent_stream *s = timer->data;

    s->pool->expired += !pfl_resume_is_done(&s->resume);
    pfl_agent_stream_kill(s);
}

/* CLOCK_BOOTTIME, which the next process has, too. */
static uint64_t get_now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_BOOTTIME) / 1000000;
}

/* `since_ms`: it has been one since then, perhaps in another process. */
static void orphan(struct pfl_agent_stream *s, uint64_t since_ms)
{
    uint64_t been_ms = get_now_ms() - since_ms;
    uint64_t left_ms = been_ms < s->facts.ttl_ms ? s->facts.ttl_ms - been_ms : 0;

    s->orphan_since_ms = since_ms;
    if (s->facts.id[0] == '\0')
        pfl_agent_stream_kill(s);
    else
        (void)uv_timer_start(&s->ttl, on_ttl, left_ms, 0);
}

/* ---- the HTTP/2 stream ---- */

static void on_h2_stream_data(void *user, struct pfl_span data)
{
    struct pfl_agent_stream *s = user;

    if (pfl_resume_feed(&s->resume, data) != 0)
        pfl_agent_stream_kill(s);
    else
        pfl_agent_stream_service_deliver(s);
}

static void on_h2_stream_end(void *user)
{
    struct pfl_agent_stream *s = user;

    pfl_resume_feed_end(&s->resume);
    pfl_agent_stream_service_deliver(s);
    pfl_agent_stream_publish(s);
}

static size_t on_h2_stream_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct pfl_agent_stream *s = user;

    return pfl_resume_pull(&s->resume, dst, room, ret_is_end);
}

static void on_h2_stream_credit(void *user, uint32_t bytes)
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

static void on_h2_stream_closed(void *user, uint32_t code)
{
    struct pfl_agent_stream *s = user;

    s->h2_stream = NULL;
    pfl_resume_detach(&s->resume);
    if (code == PFL_H2_CANCEL)
        pfl_agent_stream_kill(s);
    else
        orphan(s, get_now_ms());
    pfl_agent_stream_publish(s);
}

static const struct pfl_h2_stream_ops h2_stream_ops = {
    .on_data = on_h2_stream_data,
    .on_end = on_h2_stream_end,
    .on_pull = on_h2_stream_pull,
    .on_credit = on_h2_stream_credit,
    .on_closed = on_h2_stream_closed,
};

static int answer(struct pfl_agent_stream *s, struct pfl_h2_stream *h2_stream,
                  const struct pfl_resume_offer *sent_offer)
{
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 2];
    char role[PFL_ROLE_PATTERN_MAX + 1];
    struct pfl_tunnel_offer_text text;
    size_t count = PFL_TUNNEL_OFFER_FIELDS;

    pfl_tunnel_offer_write(sent_offer, s->facts.ttl_ms, &text, fields);
    if (s->facts.is_zstd != 0)
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_ENCODING, PFL_TUNNEL_ENCODING_ZSTD};
    if (s->gate != NULL) {
        pfl_role_copy_name(pfl_gate_get_role(s->gate), role);
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, role};
    }
    pfl_h2_stream_set_user(h2_stream, &h2_stream_ops, s);
    return pfl_h2_stream_respond(h2_stream, 200, fields, count);
}

int pfl_agent_stream_attach(struct pfl_agent_stream *self, struct pfl_h2_stream *h2_stream,
                            const struct pfl_resume_offer *peer)
{
    static const struct pfl_resume_offer any = {.window_bytes = INT32_MAX};
    struct pfl_resume_offer sent_offer;
    int rc;

    if (self->is_dying)
        return PFL_ESTATE;
    pfl_resume_get_offer(&self->resume, &sent_offer);
    rc = pfl_resume_attach(&self->resume, peer != NULL ? peer : &any, &sent_offer);
    if (rc != 0)
        return rc;
    if (self->h2_stream != NULL) {
        drop_h2_stream(self, PFL_H2_DETACH);
        self->resume.is_attached = true;
    }
    (void)uv_timer_stop(&self->ttl);
    self->h2_streams++;
    self->h2_stream = h2_stream;
    if (answer(self, h2_stream, &sent_offer) != 0) {
        drop_h2_stream(self, PFL_H2_INTERNAL_ERROR);
        orphan(self, get_now_ms());
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
    int rc;

    if (self->gate != NULL) {
        rc = pfl_gate_set_role(self->gate, role, ret_why);
        pfl_agent_stream_publish(self);
        return rc;
    }
    (void)snprintf(ret_why, PFL_JUDGE_WHY_BYTES,
                   "the stream was begun before the operator had a role: begin another");
    return PFL_EPERM;
}

/* Takes `service_fd` and `spool_fd` (or -1) on success. The spool comes last: it may begin to work.
 */
static int make_parts(struct pfl_agent_stream *s, const struct pfl_agent_stream_conf *conf,
                      const struct pfl_stream_record *at, int service_fd, int spool_fd)
{
    struct pfl_spool_conf spool = {.pool = conf->pool,
                                   .who = s->who,
                                   .ring = pfl_stream_memory_get_spool(s->memory),
                                   .ring_bytes = PFL_SPOOL_RING_BYTES,
                                   .on_change = pfl_agent_stream_out_on_spool,
                                   .on_file = pfl_agent_stream_keep_file,
                                   .user = s};
    struct pfl_encode_port_conf encode = {.worker = conf->worker,
                                          .is_zstd = s->facts.is_zstd != 0,
                                          .pipe = pfl_stream_memory_get_pipe(s->memory),
                                          .pipe_bytes = PFL_STREAM_PIPE_BYTES,
                                          .state = {.begin = at->pipe_begin,
                                                    .end = at->pipe_end,
                                                    .is_frame_open = at->is_frame_open != 0,
                                                    .is_over = at->is_encoded != 0},
                                          .on_output = pfl_agent_stream_out_on_encoded,
                                          .on_progress = pfl_agent_stream_out_on_progress,
                                          .user = s};
    bool has_spooled = spool_fd >= 0 || at->spool.ring_begin != at->spool.ring_end ||
                       at->spool.file_begin != at->spool.file_end;
    int rc = pfl_encode_port_new(&encode, &s->encoder);

    if (rc == 0)
        rc = pfl_agent_stream_service_open(s, service_fd);
    if (rc == 0 && (s->pool->dir != NULL || has_spooled))
        rc = pfl_spool_restore(&spool, spool_fd, &at->spool, &s->spool);
    return rc;
}

static struct pfl_agent_stream *make_stream(const struct pfl_agent_stream_conf *conf,
                                            struct pfl_stream_memory *memory)
{
    struct pfl_agent_stream *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->memory = memory;
    s->facts = *pfl_stream_memory_get_facts(memory);
    s->who = pfl_shares_hash(s->facts.operator_name, strlen(s->facts.operator_name));
    s->loop = conf->loop;
    s->pool = conf->pool;
    s->events = conf->events;
    s->on_gone = conf->on_gone;
    s->user = conf->user;
    pfl_resume_init(&s->resume, s->facts.out_max_bytes, PFL_TUNNEL_CONTROL_WINDOW_BYTES);
    pfl_replay_set_memory(&s->resume.out, pfl_stream_memory_get_out(memory));
    return s;
}

/* From now on it ends by kill, or leave. */
static void begin(struct pfl_agent_stream *s)
{
    (void)uv_timer_init(s->loop, &s->ttl);
    (void)uv_timer_init(s->loop, &s->judge);
    s->ttl.data = s->judge.data = s;
    s->busy = 2;
}

/* Before begin. */
static void take_apart(struct pfl_agent_stream *s)
{
    s->is_dying = true;
    s->busy = 1; /* ours: threads have nothing to do yet */
    close_parts(s);
    assert(s->busy == 1);
    free_stream(s);
}

static int fill(struct pfl_agent_stream *s, const struct pfl_agent_stream_conf *conf)
{
    static const struct pfl_stream_record at_begin;
    int rc = conf->role.len != 0 ? pfl_agent_stream_service_judge(s, conf->role) : 0;
    int fd;

    if (rc == 0)
        rc = pfl_fdsock_connect_service_for(conf->consumer_socket, conf->operator_name, &fd);
    if (rc != 0)
        return rc;
    rc = make_parts(s, conf, &at_begin, fd, -1);
    if (s->service == NULL)
        (void)close(fd);
    return rc;
}

int pfl_agent_stream_open(const struct pfl_agent_stream_conf *conf,
                          struct pfl_agent_stream **ret_stream)
{
    struct pfl_stream_facts facts = {.out_max_bytes = conf->spool_bytes,
                                     .ttl_ms = conf->ttl_ms,
                                     .begin_ms = get_now_ms(),
                                     .is_zstd = conf->wants_zstd,
                                     .has_gate = conf->role.len != 0};
    struct pfl_stream_memory *memory;
    struct pfl_agent_stream *s;
    int rc;

    if (facts.out_max_bytes < PFL_AGENT_SPOOL_MIN_BYTES)
        facts.out_max_bytes = PFL_AGENT_SPOOL_MIN_BYTES;
    (void)snprintf(facts.id, sizeof(facts.id), "%s", conf->id);
    (void)snprintf(facts.operator_name, sizeof(facts.operator_name), "%s", conf->operator_name);
    rc = pfl_stream_memory_new(&facts, &memory);
    if (rc != 0)
        return rc;
    s = make_stream(conf, memory);
    if (s == NULL) {
        pfl_stream_memory_free(memory);
        return PFL_ENOMEM;
    }
    rc = fill(s, conf);
    if (rc != 0) {
        take_apart(s);
        return rc;
    }
    begin(s);
    pfl_agent_stream_publish(s);
    if (conf->is_to_be_kept && s->facts.id[0] != '\0')
        pfl_agent_stream_keep(s);
    *ret_stream = s;
    return 0;
}

/* ---- taking back ---- */

static int restore(struct pfl_agent_stream *s, const struct pfl_agent_stream_conf *conf,
                   const struct pfl_agent_stream_kept *kept_fds)
{
    const struct pfl_stream_record *r = pfl_stream_memory_get_record(s->memory);
    const struct pfl_replay_memory *out = pfl_stream_memory_get_out(s->memory);
    struct pfl_resume_kept kept = {.in_used = r->in_used,
                                   .out_base = r->out_base,
                                   .out_end = r->out_end,
                                   .out_capacity = r->out_capacity};
    int rc;

    s->reads = r->reads;
    s->writes = r->writes;
    s->passing_bytes = r->passing_bytes;
    s->passed_bytes = r->passed_bytes;
    s->h2_streams = r->h2_streams;
    if (r->out_capacity != 0)
        kept.out_data = out->get(out->user, r->out_capacity);
    rc = pfl_resume_restore(&s->resume, &kept);
    s->resume.is_in_ended = r->is_in_over != 0;
    s->resume.is_end_sent = r->is_end_sent != 0;
    if (rc == 0 && s->facts.has_gate != 0)
        rc = pfl_agent_stream_service_judge_again(s);
    return rc == 0 ? make_parts(s, conf, r, kept_fds->service_fd, kept_fds->spool_fd) : rc;
}

/* Completes the last write of the previous process. */
static int pass_written(struct pfl_agent_stream *s)
{
    size_t len = pfl_noted_call_get(pfl_stream_memory_get_writing(s->memory), s->writes);

    s->writes += len != 0;
    if (s->gate != NULL) {
        if (len > s->passing_bytes - s->passed_bytes)
            return PFL_EPARSE;
        s->passed_bytes += (uint32_t)len;
        if (s->passed_bytes == s->passing_bytes)
            s->passing_bytes = s->passed_bytes = 0;
        return 0;
    }
    return len != 0 ? pfl_resume_pass(&s->resume, len) : 0;
}

/* Completes its last read. Without a gate the bytes are in the pipe, behind the pending ones. With
 * a gate they are processed after those, in pages that the record may refer to until then. */
static int take_read(struct pfl_agent_stream *s)
{
    size_t len = pfl_noted_call_get(pfl_stream_memory_get_reading(s->memory), s->reads);
    struct iovec pieces[2];
    size_t room = PFL_STREAM_READ_BYTES;
    int rc = 0;

    if (s->gate == NULL) {
        (void)pfl_encode_port_get_room(s->encoder, room, pieces);
        room = pieces[0].iov_len + pieces[1].iov_len;
    }
    if (len > room)
        return PFL_EPARSE;
    if (len == 0 || s->gate != NULL)
        rc = pfl_encode_port_wrote(s->encoder, 0);
    if (rc == 0 && s->gate != NULL)
        rc = pfl_agent_stream_out_refill(s);
    if (rc == 0 && len != 0)
        pfl_agent_stream_service_take(s, len);
    return rc;
}

/* Completes the last calls of the previous process, and its unfinished work. May kill. */
static void proceed(struct pfl_agent_stream *s, bool is_service_over)
{
    if (pass_written(s) != 0 || take_read(s) != 0)
        pfl_agent_stream_kill(s);
    if (!s->is_dying && is_service_over)
        pfl_agent_stream_out_end(s);
    if (!s->is_dying && pfl_agent_stream_out_refill(s) != 0)
        pfl_agent_stream_kill(s);
    if (s->is_dying)
        return;
    pfl_agent_stream_out_pace(s);
    pfl_agent_stream_service_deliver(s);
    if (s->spool != NULL)
        pfl_spool_retry(s->spool);
}

/* The memory is that of the stream `id`, and its operator's name is valid. */
static bool is_this(const struct pfl_stream_facts *facts, const char *id)
{
    return strcmp(facts->id, id) == 0 && pfl_identity_is_name(facts->operator_name);
}

/* `ret_stream` owns what was taken, also on failure; NULL: nothing. */
static int take(const struct pfl_agent_stream_conf *conf, const struct pfl_agent_stream_kept *kept,
                struct pfl_agent_stream **ret_stream)
{
    struct pfl_stream_memory *memory;
    int rc = pfl_stream_memory_take_back(kept->memory_fd, &memory);

    *ret_stream = NULL;
    if (rc != 0)
        return rc;
    if (!is_this(pfl_stream_memory_get_facts(memory), kept->id))
        rc = PFL_EPARSE;
    else if (!pfl_stream_memory_begin_try(memory))
        rc = PFL_ESTATE;
    if (rc == 0) {
        *ret_stream = make_stream(conf, memory);
        rc = PFL_ENOMEM;
    }
    if (*ret_stream != NULL)
        return restore(*ret_stream, conf, kept);
    pfl_stream_memory_forget(memory);
    return rc;
}

/* The pool's counters are of this process: subtracts what the previous one reported. */
static void leave_out(struct pfl_agent_stream *s)
{
    s->pool->gone_sent_bytes -= s->resume.out.base;
    s->pool->gone_resumes -= s->h2_streams != 0 ? s->h2_streams - 1 : 0;
}

int pfl_agent_stream_take_back(const struct pfl_agent_stream_conf *conf,
                               const struct pfl_agent_stream_kept *kept,
                               struct pfl_agent_stream **ret_stream)
{
    struct pfl_agent_stream *s;
    bool is_service_over;
    uint64_t since_ms;
    int rc = take(conf, kept, &s);

    if (s == NULL)
        (void)close(kept->memory_fd);
    if (s == NULL || s->service == NULL)
        (void)close(kept->service_fd);
    if ((s == NULL || s->spool == NULL) && kept->spool_fd >= 0)
        (void)close(kept->spool_fd);
    if (rc != 0) {
        if (s != NULL)
            take_apart(s);
        return rc;
    }
    is_service_over = pfl_stream_memory_get_record(s->memory)->is_service_over != 0;
    s->is_kept = true;
    leave_out(s);
    begin(s);
    since_ms = pfl_stream_memory_get_record(s->memory)->orphan_since_ms;
    orphan(s, since_ms != 0 && since_ms <= get_now_ms() ? since_ms : get_now_ms());
    *ret_stream = s;
    proceed(s, is_service_over);
    pfl_stream_memory_end_try(s->memory);
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
    uint64_t now_ms = get_now_ms();
    uint64_t file_bytes = self->spool != NULL ? pfl_spool_file_bytes(self->spool) : 0;

    *ret_info = (struct pfl_agent_stream_info){
        .id = self->facts.id,
        .operator_name = self->facts.operator_name,
        .age_ms = now_ms - self->facts.begin_ms,
        .orphan_ms = self->h2_stream == NULL ? now_ms - self->orphan_since_ms : 0,
        .sent_bytes = self->resume.out.next,
        .kept_bytes = self->counted_bytes + file_bytes,
        .file_bytes = file_bytes,
        .ttl_ms = self->facts.ttl_ms,
        .resumes = self->h2_streams != 0 ? self->h2_streams - 1 : 0,
        .is_carried = self->h2_stream != NULL,
        .is_over = self->resume.is_in_ended && self->resume.is_out_ended,
        .is_done = pfl_resume_is_done(&self->resume),
        .queued_bytes = pfl_resume_held(&self->resume),
        .window_bytes = self->h2_stream != NULL ? self->resume.peer_window_bytes : 0,
        .unused_bytes = self->h2_stream != NULL ? self->resume.out.next - self->resume.out.base : 0,
        .is_waiting = self->h2_stream != NULL && pfl_replay_unsent(&self->resume.out) != 0,
    };
}
