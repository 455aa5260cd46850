/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two HTTP/2 streams of an operator's stream: see stream_splice.h.
 *
 * Happy path: CONNECT to the agent with the operator's fields; its answer becomes ours. Then each
 * HTTP/2 stream's bytes wait in a ring until the other HTTP/2 stream has room, and each HTTP/2
 * stream's credit is passed to the other. The end of one direction is passed on after its last
 * byte. Failures: if an HTTP/2 stream is lost, the other is reset with DETACH, so that both ends
 * resume; CANCEL is passed on as CANCEL. An HTTP/2 stream that sends past its window, or credits
 * bytes that it was not sent, is reset. If a ring gets no memory both HTTP/2 streams are reset.
 * Ownership: the rings; HTTP/2 streams belong to their connections until on_closed. Limits: one
 * window a ring, and what take_memory says.
 */
#include "relay/hub/stream_splice.h"

#include <stdio.h>

#include "base/mem.h"
#include "proto/gate/role.h"
#include "proto/h2/problem.h"
#include "proto/tunnel/tunnel_offer.h"

enum { OPERATOR, HOST, SIDES };

struct side {
    struct pfl_stream_splice *splice;
    struct side *other;
    struct pfl_h2_stream *h2_stream; /* borrowed until its on_closed; NULL then */
    struct pfl_replay queue;         /* bytes from this HTTP/2 stream, for the other */
    uint64_t sent;                   /* to this HTTP/2 stream */
    uint64_t credited;               /* by this HTTP/2 stream */
    uint64_t allowance;              /* bytes that it had received before, and not used up */
    uint32_t code;
    bool has_ended; /* it sends no more */
};

struct pfl_stream_splice {
    struct side sides[SIDES];
    unsigned status;
    bool is_answered;
    bool is_kept;    /* the agent keeps the role, if there is one: bytes may go there */
    bool is_refused; /* by us: the operator's HTTP/2 stream ends with that answer */
    char role_name[PFL_ROLE_PATTERN_MAX + 1]; /* "": none */
    size_t (*get_room)(void *user, size_t want);
    void (*on_sent)(void *user, size_t bytes);
    bool (*take_memory)(void *user, size_t bytes);
    void (*give_memory)(void *user, size_t bytes);
    void (*on_ended)(void *user, const struct pfl_stream_splice_stats *stats);
    void *user;
    struct pfl_replay_memory memory; /* of both rings */
};

/* ---- memory ---- */

static uint8_t *get_memory(void *user, size_t capacity)
{
    struct pfl_stream_splice *p = user;
    uint8_t *data;

    if (p->take_memory != NULL && !p->take_memory(p->user, capacity))
        return NULL;
    data = pfl_mem_alloc(capacity);
    if (data == NULL && p->give_memory != NULL)
        p->give_memory(p->user, capacity);
    return data;
}

static void give_memory_back(void *user, uint8_t *data, size_t capacity)
{
    struct pfl_stream_splice *p = user;

    pfl_mem_free(data);
    if (p->give_memory != NULL)
        p->give_memory(p->user, capacity);
}

static void init_rings(struct pfl_stream_splice *p, const struct pfl_stream_splice_conf *conf)
{
    p->take_memory = conf->take_memory;
    p->give_memory = conf->give_memory;
    p->memory = (struct pfl_replay_memory){get_memory, give_memory_back, p};
    pfl_replay_init(&p->sides[HOST].queue, conf->host_window_bytes);
    pfl_replay_init(&p->sides[OPERATOR].queue, conf->operator_window_bytes);
    for (int i = 0; i < SIDES; i++)
        pfl_replay_set_memory(&p->sides[i].queue, &p->memory);
}

static void free_rings(struct pfl_stream_splice *p)
{
    for (int i = 0; i < SIDES; i++)
        pfl_replay_fini(&p->sides[i].queue);
}

size_t pfl_stream_splice_get_memory(const struct pfl_stream_splice *self)
{
    return self->sides[OPERATOR].queue.capacity + self->sides[HOST].queue.capacity;
}

void pfl_stream_splice_trim(struct pfl_stream_splice *self)
{
    for (int i = 0; i < SIDES; i++) {
        if (pfl_replay_kept(&self->sides[i].queue) == 0)
            pfl_replay_fini(&self->sides[i].queue);
    }
}

/* ---- the end ---- */

static uint64_t get_unused(const struct side *s)
{
    return s->h2_stream != NULL ? s->sent + s->allowance - s->credited : 0;
}

void pfl_stream_splice_get_stats(const struct pfl_stream_splice *self,
                                 struct pfl_stream_splice_stats *ret_stats)
{
    *ret_stats = (struct pfl_stream_splice_stats){
        .bytes_to_host = self->sides[HOST].sent,
        .bytes_to_operator = self->sides[OPERATOR].sent,
        .status = self->status,
        .held_to_host = pfl_replay_kept(&self->sides[OPERATOR].queue),
        .held_to_operator = pfl_replay_kept(&self->sides[HOST].queue),
        .unused_to_host = get_unused(&self->sides[HOST]),
        .unused_to_operator = get_unused(&self->sides[OPERATOR]),
        .operator_code = self->sides[OPERATOR].code,
        .host_code = self->sides[HOST].code,
    };
}

static void finish_if_gone(struct pfl_stream_splice *p)
{
    struct pfl_stream_splice_stats stats;

    if (p->sides[OPERATOR].h2_stream != NULL || p->sides[HOST].h2_stream != NULL)
        return;
    pfl_stream_splice_get_stats(p, &stats);
    free_rings(p);
    p->on_ended(p->user, &stats);
    pfl_mem_free(p);
}

static void reset(struct side *s, enum pfl_h2_code code)
{
    if (s->h2_stream != NULL)
        pfl_h2_stream_reset(s->h2_stream, code);
}

/* This side broke the rules. */
static void condemn(struct side *s, enum pfl_h2_code code)
{
    reset(s, code);
    reset(s->other, PFL_H2_DETACH);
}

/* ---- events of either HTTP/2 stream ---- */

static void on_data(void *user, struct pfl_span data)
{
    struct side *s = user;
    int rc;

    if (s->other->h2_stream == NULL)
        return;
    rc = s->has_ended ? PFL_ELIMIT : pfl_replay_append(&s->queue, data.data, data.len);
    if (rc == PFL_ENOMEM)
        pfl_stream_splice_detach(s->splice);
    else if (rc != 0)
        condemn(s, PFL_H2_FLOW_CONTROL_ERROR);
    else
        pfl_h2_stream_wake(s->other->h2_stream);
}

static void on_end(void *user)
{
    struct side *s = user;

    s->has_ended = true;
    if (s->other->h2_stream != NULL)
        pfl_h2_stream_wake(s->other->h2_stream);
}

/* Room towards this side. */
static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct side *s = user;
    struct side *from = s->other;
    struct pfl_stream_splice *p = s->splice;
    size_t done = 0;
    int rc;

    if (s == &p->sides[HOST] && !p->is_kept)
        return 0;
    if (p->get_room != NULL && s == &p->sides[OPERATOR] && pfl_replay_kept(&from->queue) != 0)
        room = p->get_room(p->user, room);
    while (done < room) {
        struct pfl_span piece = pfl_replay_peek(&from->queue, room - done);

        if (piece.len == 0)
            break;
        memcpy(dst + done, piece.data, piece.len);
        pfl_replay_skip(&from->queue, piece.len);
        done += piece.len;
    }
    rc = pfl_replay_release(&from->queue, from->queue.next);
    s->sent += done;
    if (p->on_sent != NULL && s == &p->sides[OPERATOR])
        p->on_sent(p->user, done);
    *ret_is_end = rc == 0 && from->has_ended && pfl_replay_kept(&from->queue) == 0;
    return done;
}

static void on_credit(void *user, uint32_t bytes)
{
    struct side *s = user;

    s->credited += bytes;
    if (s->credited > s->sent + s->allowance)
        condemn(s, PFL_H2_FLOW_CONTROL_ERROR);
    else if (s->other->h2_stream != NULL)
        pfl_h2_stream_credit(s->other->h2_stream, bytes);
}

/* Everything of both directions has passed: the HTTP/2 streams end by themselves. */
static bool is_in_order(const struct side *s, uint32_t code)
{
    return code == PFL_H2_NO_ERROR && (s->has_ended || s->splice->status != 200);
}

static void on_closed(void *user, uint32_t code)
{
    struct side *s = user;

    s->h2_stream = NULL;
    s->code = code;
    if (is_in_order(s, code))
        on_end(s);
    else if (!s->splice->is_refused)
        reset(s->other, code == PFL_H2_CANCEL ? PFL_H2_CANCEL : PFL_H2_DETACH);
    finish_if_gone(s->splice);
}

/* ---- the answer ---- */

static const char *const to_operator[] = {
    PFL_TUNNEL_H_RECEIVED, PFL_TUNNEL_H_CREDITED, PFL_TUNNEL_H_WINDOW, PFL_TUNNEL_H_TTL,
    PFL_TUNNEL_H_ENCODING, PFL_TUNNEL_H_PROBLEM,  "content-type",
};

static const char *const to_host[] = {
    PFL_TUNNEL_H_STREAM, PFL_TUNNEL_H_RECEIVED, PFL_TUNNEL_H_CREDITED,
    PFL_TUNNEL_H_WINDOW, PFL_TUNNEL_H_TTL,      PFL_TUNNEL_H_ACCEPT,
};

static size_t copy_fields(const struct pfl_h2_head *head, const char *const *names, size_t len,
                          struct pfl_h2_field *fields)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++) {
        const char *value = pfl_h2_head_get(head, names[i]);

        if (value != NULL)
            fields[count++] = (struct pfl_h2_field){names[i], value};
    }
    return count;
}

/* What a side holds unused from before this HTTP/2 stream, by its own account. */
static uint64_t allowance_of(const struct pfl_resume_offer *offer)
{
    if (offer == NULL || offer->credited > offer->received)
        return 0;
    /* More than a window cannot be held; and sums of credit stay small. */
    if (offer->received - offer->credited > PFL_TUNNEL_DATA_WINDOW_BYTES)
        return PFL_TUNNEL_DATA_WINDOW_BYTES;
    return offer->received - offer->credited;
}

static bool keeps_role(const struct pfl_stream_splice *p, const struct pfl_h2_head *head)
{
    const char *kept = pfl_h2_head_get(head, PFL_TUNNEL_H_ROLE);

    return p->role_name[0] == '\0' || (kept != NULL && strcmp(kept, p->role_name) == 0);
}

/* An agent that does not confirm the operator's role does not get the stream. */
static void refuse_agent(struct pfl_stream_splice *p)
{
    static const struct pfl_problem problem = {
        502, "relay", "agent too old",
        "the host's agent does not keep operators to roles: update perfleet-agent there"};

    p->status = 502;
    p->is_refused = true;
    pfl_problem_respond(p->sides[OPERATOR].h2_stream, &problem);
    reset(&p->sides[HOST], PFL_H2_CANCEL);
}

static void on_host_response(void *user, const struct pfl_h2_head *head)
{
    struct side *s = user;
    struct pfl_stream_splice *p = s->splice;
    struct pfl_h2_field fields[PFL_STREAM_SPLICE_FIELDS];
    struct pfl_resume_offer offer;
    size_t count;

    if (p->is_answered || p->sides[OPERATOR].h2_stream == NULL)
        return;
    p->is_answered = true;
    p->status = pfl_h2_head_get_status(head);
    if (p->status == 200 && !keeps_role(p, head)) {
        refuse_agent(p);
        return;
    }
    p->is_kept = true;
    pfl_h2_stream_wake(s->h2_stream);
    s->allowance = allowance_of(pfl_tunnel_offer_read(head, &offer) ? &offer : NULL);
    count = copy_fields(head, to_operator, sizeof(to_operator) / sizeof(to_operator[0]), fields);
    if (pfl_h2_stream_respond(p->sides[OPERATOR].h2_stream, p->status, fields, count) != 0)
        condemn(s, PFL_H2_DETACH);
}

static const struct pfl_h2_stream_ops operator_ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_pull = on_pull,
    .on_credit = on_credit,
    .on_closed = on_closed,
};

static const struct pfl_h2_stream_ops host_ops = {
    .on_response = on_host_response,
    .on_data = on_data,
    .on_end = on_end,
    .on_pull = on_pull,
    .on_credit = on_credit,
    .on_closed = on_closed,
};

static size_t copy_place(const struct pfl_stream_splice_place *place, struct pfl_h2_field *fields)
{
    memcpy(fields, place->fields, place->fields_len * sizeof(fields[0]));
    return place->fields_len;
}

static int ask_host(struct pfl_stream_splice *p, const struct pfl_stream_splice_conf *conf)
{
    const struct pfl_stream_splice_place *place = conf->place;
    struct pfl_h2_field fields[PFL_STREAM_SPLICE_FIELDS];
    size_t count = place != NULL ? copy_place(place, fields)
                                 : copy_fields(conf->head, to_host,
                                               sizeof(to_host) / sizeof(to_host[0]), fields);
    struct pfl_h2_request request = {
        .method = "CONNECT",
        .path = place != NULL ? place->path : PFL_TUNNEL_CONSUMER_PATH,
        .protocol = place != NULL ? place->protocol : PFL_TUNNEL_PROTOCOL,
        .fields = fields,
        .ops = &host_ops,
        .user = &p->sides[HOST],
    };

    fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_OPERATOR, conf->operator_name};
    if (conf->role_text != NULL)
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, conf->role_text};
    request.fields_len = count;
    return pfl_h2_request(conf->agent, &request, &p->sides[HOST].h2_stream);
}

int pfl_stream_splice_new(const struct pfl_stream_splice_conf *conf,
                          struct pfl_stream_splice **ret_splice)
{
    struct pfl_stream_splice *p = pfl_mem_zalloc(sizeof(*p));
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    for (int i = 0; i < SIDES; i++) {
        p->sides[i].splice = p;
        p->sides[i].other = &p->sides[SIDES - 1 - i];
    }
    init_rings(p, conf);
    p->sides[OPERATOR].allowance = allowance_of(conf->offer);
    p->on_ended = conf->on_ended;
    p->user = conf->user;
    p->get_room = conf->get_room;
    p->on_sent = conf->on_sent;
    pfl_role_copy_name(conf->role, p->role_name);
    p->is_kept = p->role_name[0] == '\0';
    rc = ask_host(p, conf);
    if (rc != 0) {
        pfl_mem_free(p);
        return rc;
    }
    p->sides[OPERATOR].h2_stream = conf->h2_stream;
    pfl_h2_stream_set_user(conf->h2_stream, &operator_ops, &p->sides[OPERATOR]);
    *ret_splice = p;
    return 0;
}

void pfl_stream_splice_wake(struct pfl_stream_splice *self)
{
    if (self->sides[OPERATOR].h2_stream != NULL)
        pfl_h2_stream_wake(self->sides[OPERATOR].h2_stream);
}

void pfl_stream_splice_detach(struct pfl_stream_splice *self)
{
    reset(&self->sides[OPERATOR], PFL_H2_DETACH);
    reset(&self->sides[HOST], PFL_H2_DETACH);
    free_rings(self);
}

void pfl_stream_splice_cancel(struct pfl_stream_splice *self)
{
    reset(&self->sides[OPERATOR], PFL_H2_CANCEL);
    reset(&self->sides[HOST], PFL_H2_CANCEL);
}
