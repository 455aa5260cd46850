/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' streams: see operator_streams_port.h.
 *
 * Happy path: a relay's CONNECT names an operator; that relay is asked for the operator's scope;
 * then frames become jobs, whose steps run on the engines' threads and whose replies are sent as
 * the peer takes them. Of the index one step of all streams is under way at a time, so that storing
 * and beats have their turn, and operators take turns. Failures: a request that makes no sense is
 * refused; a frame that is none, or replies that nobody takes, end the stream; a scope that cannot
 * be had any more, too. Ownership: a stream until its HTTP/2 stream closed, its steps ended, and
 * the relay answered. Limits: those of the header.
 */
#include "collector/serve/operator_streams_port.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "collector/serve/job_work_port.h"
#include "perfleet/collector.fields.h"
#include "proto/gate/policy.h"
#include "proto/h2/problem.h"
#include "proto/ipc/frame.h"
#include "proto/tunnel/route.h"

#define PATH_BYTES 128u
#define OPERATORS  (UINT64_C(1) << 32) /* shares of operators: above those of visits */

/* A request that waits; its bytes follow. */
struct waiting {
    struct pfl_list node;
    size_t len;
    uint8_t bytes[];
};

enum stream_phase {
    STREAM_NEW = 0, /* its CONNECT is not answered */
    STREAM_OPEN,
    STREAM_BROKEN, /* it ends as soon as nothing is under way */
};

struct stream {
    struct pfl_list node;
    struct pfl_operator_streams *streams;
    struct pfl_h2_stream *h2_stream; /* borrowed until its on_closed; then NULL */
    struct pfl_scope *scope;         /* owned; NULL: the relay has not answered */
    struct pfl_frame_reader reader;
    struct pfl_buf out;
    struct pfl_list waiting;
    size_t waiting_len;
    size_t waiting_bytes;
    struct pfl_list slots;
    unsigned slots_len;
    unsigned relay;
    uint64_t scope_ms; /* when the scope was asked for */
    enum stream_phase phase;
    bool is_asking; /* the relay, for the scope */
    bool is_ended;  /* the peer sends no more */
    bool is_running;
    char operator_name[PFL_IDENTITY_NAME_BYTES];
};

/* A request at work. */
struct slot {
    struct pfl_work work; /* first: its callbacks cast */
    struct pfl_list node;
    struct pfl_list queued; /* in index_queue */
    struct stream *stream;
    struct pfl_job *job; /* owned */
    uint64_t replied_ms;
    bool is_working;
};

static void run_stream(struct stream *s);
static int ask_scope(struct stream *s);

/* ---- audit ---- */

static const char *get_detail(const struct pfl_job *j)
{
    if (j->checked.kind == PFL_REQUEST_PIN && j->request->pin->pin != NULL)
        return j->request->pin->pin->reason;
    if (j->checked.kind == PFL_REQUEST_PUT_ORDER)
        return j->request->put_order->name;
    if (j->checked.order != NULL)
        return j->checked.order->name;
    return j->checked.kind == PFL_REQUEST_GET ? j->request->get->trace : NULL;
}

/* The step's, in one line; the number of lines is bounded by that of the changes. */
static void log_changed_traces(struct stream *s, struct pfl_job *j)
{
    char ids[PFL_JOB_CHANGES * PFL_INDEX_ID_BYTES + 1] = "";
    size_t len = 0;

    if (j->changed_len == 0)
        return;
    for (unsigned i = 0; i < j->changed_len; i++)
        len += (size_t)snprintf(ids + len, sizeof(ids) - len, "%s%s", i != 0 ? "," : "",
                                j->changed_ids[i]);
    pfl_log_unlimited(PFL_LOG_INFO, "operator-changed-traces", "operator=%s request=%s traces=%s",
                      s->operator_name, pfl_request_name(j->checked.kind), ids);
    j->changed_len = 0;
}

/* What changed nothing has the limit of all events; what did is an audit. */
static void log_outcome(struct stream *s, const struct pfl_job *j)
{
    s->streams->figures.requests++;
    s->streams->figures.refused += j->status != 0;
    if (j->status != 0 && j->changed != 0)
        pfl_log_unlimited(PFL_LOG_WARN, "operator-changed",
                          "operator=%s request=%s what=%s changed=%llu status=%u reason=%s",
                          s->operator_name, pfl_request_name(j->checked.kind),
                          pfl_log_quote_str(get_detail(j)), (unsigned long long)j->changed,
                          j->status, pfl_log_quote_reason(j->why));
    else if (j->status != 0)
        pfl_log_warn(
            "operator-refused", "operator=%s request=%s what=%s status=%u changed=%llu reason=%s",
            s->operator_name, pfl_request_name(j->checked.kind), pfl_log_quote_str(get_detail(j)),
            j->status, (unsigned long long)j->changed, pfl_log_quote_reason(j->why));
    else if (pfl_request_is_change(j->checked.kind))
        pfl_log_unlimited(PFL_LOG_INFO, "operator-changed",
                          "operator=%s request=%s what=%s changed=%llu", s->operator_name,
                          pfl_request_name(j->checked.kind), pfl_log_quote_str(get_detail(j)),
                          (unsigned long long)j->changed);
}

static void free_slot(struct slot *slot)
{
    pfl_list_remove(&slot->queued);
    pfl_list_remove(&slot->node);
    slot->stream->slots_len--;
    pfl_job_work_release(slot->job);
    pfl_job_free(slot->job);
    pfl_mem_free(slot);
}

/* A change that was cut short is one, too. */
static void end_slot(struct slot *slot)
{
    struct stream *s = slot->stream;
    struct pfl_operator_streams *v = s->streams;
    const struct pfl_job *j = slot->job;
    bool is_order = j->status == 0 && j->checked.kind >= PFL_REQUEST_PUT_ORDER &&
                    pfl_request_is_change(j->checked.kind);

    log_outcome(s, j);
    free_slot(slot);
    if (is_order && !v->is_stopped && v->conf.on_orders_changed != NULL)
        v->conf.on_orders_changed(v->conf.user);
}

/* ---- the end ---- */

static void drop_waiting(struct stream *s)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &s->waiting) {
        pfl_list_remove(it);
        pfl_mem_free(PFL_CONTAINER_OF(it, struct waiting, node));
    }
    s->waiting_len = s->waiting_bytes = 0;
}

/* What nothing waits for any more goes. */
static void shrink(struct stream *s)
{
    struct pfl_operator_streams *v = s->streams;
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (s->phase != STREAM_BROKEN)
        return;
    drop_waiting(s);
    PFL_LIST_EACH_SAFE (it, tmp, &s->slots) {
        struct slot *slot = PFL_CONTAINER_OF(it, struct slot, node);

        if (!slot->is_working || slot->queued.next != NULL)
            end_slot(slot);
    }
    if (s->h2_stream != NULL || s->slots_len != 0 || s->is_asking)
        return;
    pfl_list_remove(&s->node);
    v->figures.streams--;
    pfl_scope_free(s->scope);
    pfl_frame_reader_fini(&s->reader);
    pfl_buf_fini(&s->out);
    pfl_mem_free(s);
    if (pfl_list_is_empty(&v->list))
        v->conf.on_empty(v->conf.user);
}

/* The stream stays until its HTTP/2 stream is closed. */
static void reset_stream(struct stream *s, enum pfl_h2_code code)
{
    if (s->phase == STREAM_BROKEN)
        return;
    s->phase = STREAM_BROKEN;
    pfl_h2_stream_reset(s->h2_stream, code);
}

/* ---- steps on threads ---- */

static void run_work(struct pfl_work *work)
{
    struct slot *slot = (struct slot *)(void *)work;
    const struct pfl_engines *e = slot->stream->streams->conf.engines;
    const struct pfl_job_work_engines engines = {e->store, e->index};

    pfl_job_work_run(slot->job, &engines);
}

/* What the operator's own words do not cause. */
static bool is_fault(int rc)
{
    return rc != 0 && rc != PFL_EINVAL && rc != PFL_ELIMIT && rc != PFL_ENOENT && rc != PFL_ENOTSUP;
}

static uint64_t *get_index_turn(struct pfl_operator_streams *v, const struct slot *slot)
{
    return &v->index_turns[pfl_hash_str(slot->stream->operator_name) % PFL_OPERATOR_TURNS];
}

/* Of the operator whose last turn is the longest ago, the request that waits longest. */
static struct slot *choose_index_slot(struct pfl_operator_streams *v)
{
    struct slot *best = PFL_CONTAINER_OF(v->index_queue.next, struct slot, queued);
    struct pfl_list *it;

    PFL_LIST_EACH (it, &v->index_queue) {
        struct slot *slot = PFL_CONTAINER_OF(it, struct slot, queued);

        if (*get_index_turn(v, slot) < *get_index_turn(v, best))
            best = slot;
    }
    *get_index_turn(v, best) = ++v->index_turn;
    return best;
}

static void begin_index(struct pfl_operator_streams *v)
{
    while (!v->is_index_busy && !v->is_stopped && !pfl_list_is_empty(&v->index_queue)) {
        struct slot *slot = choose_index_slot(v);
        int rc;

        pfl_list_remove(&slot->queued);
        rc = pfl_worker_submit(v->conf.engines->index_worker, &slot->work);
        if (rc == 0) {
            v->is_index_busy = true;
        } else {
            slot->is_working = false;
            pfl_job_fail(slot->job, rc);
            run_stream(slot->stream);
        }
    }
}

static void on_work_done(struct pfl_work *work)
{
    struct slot *slot = (struct slot *)(void *)work;
    struct stream *s = slot->stream;
    struct pfl_operator_streams *v = s->streams;
    bool is_index = pfl_job_is_of_index(slot->job->step);

    slot->is_working = false;
    if (is_index)
        v->is_index_busy = false;
    if (is_fault(slot->job->rc))
        pfl_log_warn(is_index ? "index-failed" : "store-failed", "operator=%s reason=%s",
                     s->operator_name, pfl_log_quote_reason(slot->job->why));
    log_changed_traces(s, slot->job);
    pfl_job_on_done(slot->job);
    run_stream(s);
    begin_index(v);
}

static void begin_work(struct slot *slot)
{
    struct stream *s = slot->stream;
    struct pfl_operator_streams *v = s->streams;
    int rc;

    slot->is_working = true;
    if (pfl_job_is_of_index(slot->job->step)) {
        pfl_list_append(&v->index_queue, &slot->queued);
        begin_index(v);
        return;
    }
    rc = pfl_worker_submit(v->conf.engines->store_worker, &slot->work);
    if (rc == 0)
        return;
    slot->is_working = false;
    pfl_job_fail(slot->job, rc);
}

/* ---- a stream's requests ---- */

static void wake(struct stream *s, int rc)
{
    if (rc != 0)
        reset_stream(s, PFL_H2_CALM);
    else
        pfl_h2_stream_wake(s->h2_stream);
}

static void refuse_request(struct stream *s, uint32_t id, unsigned status, const char *why)
{
    s->streams->figures.requests++;
    s->streams->figures.refused++;
    pfl_log_warn("operator-refused", "operator=%s request=unknown status=%u reason=\"%s\"",
                 s->operator_name, status, why);
    wake(s, pfl_job_reply_refusal(id, status, why, &s->out));
}

static const struct refusal {
    int rc;
    unsigned status;
    const char *why;
} refusals[] = {
    {PFL_ENOMEM, 503, "the collector is out of memory"},
    {PFL_EAGAIN, 429, "you make more than 10 changes a second: try later"},
    {0, 400, "it is no request"},
};

static const struct refusal *get_refusal(int rc)
{
    const struct refusal *r = refusals;

    while (r->rc != 0 && r->rc != rc)
        r++;
    return r;
}

static uint32_t peek_id(struct pfl_span packed)
{
    struct pfl_reader r = pfl_reader_of(packed);
    struct pfl_field f;
    uint32_t id = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == COLLECTOR_REQUEST__ID)
            id = (uint32_t)f.value;
    }
    return id;
}

static bool is_too_fast(struct stream *s, const struct pfl_job *j)
{
    return j->status == 0 && pfl_request_is_change(j->checked.kind) &&
           !pfl_operator_rates_take(&s->streams->rates, s->operator_name, 1,
                                    uv_now(s->streams->conf.loop));
}

/* PFL_EAGAIN: the operator makes changes too fast. */
static int add_slot(struct stream *s, struct pfl_span packed)
{
    const struct pfl_job_conf conf = {.packed = packed,
                                      .scope = s->scope,
                                      .operator_name = s->operator_name,
                                      .now_unix_ns = pfl_clock_now_ns(PFL_CLOCK_REALTIME)};
    struct slot *slot = pfl_mem_zalloc(sizeof(*slot));
    int rc;

    if (slot == NULL)
        return PFL_ENOMEM;
    rc = pfl_job_new(&conf, &slot->job);
    if (rc == 0 && is_too_fast(s, slot->job))
        rc = PFL_EAGAIN;
    if (rc == 0)
        rc = pfl_job_work_prepare(slot->job);
    if (rc != 0) {
        pfl_job_free(slot->job);
        pfl_mem_free(slot);
        return rc;
    }
    slot->work.run = run_work;
    slot->work.on_done = on_work_done;
    slot->work.who = OPERATORS | pfl_hash_str(s->operator_name);
    slot->stream = s;
    slot->replied_ms = uv_now(s->streams->conf.loop);
    pfl_list_append(&s->slots, &slot->node);
    s->slots_len++;
    return 0;
}

/* A scope that is old is asked for again, once no request is at work under it. False: the next
 * request has to wait for that. */
static bool has_scope(struct stream *s)
{
    if (s->scope == NULL)
        return false;
    if (uv_now(s->streams->conf.loop) - s->scope_ms < PFL_OPERATOR_SCOPE_MS)
        return true;
    if (s->slots_len != 0)
        return false;
    pfl_scope_free(s->scope);
    s->scope = NULL;
    if (ask_scope(s) != 0)
        reset_stream(s, PFL_H2_DETACH);
    return false;
}

/* False: none can be begun now. */
static bool begin_waiting(struct stream *s)
{
    struct waiting *w;
    struct pfl_span packed;
    int rc;

    if (pfl_list_is_empty(&s->waiting) || s->slots_len >= PFL_OPERATOR_JOBS_MAX || !has_scope(s))
        return false;
    w = PFL_CONTAINER_OF(s->waiting.next, struct waiting, node);
    packed = pfl_span_of(w->bytes, w->len);
    rc = add_slot(s, packed);
    if (rc != 0)
        refuse_request(s, peek_id(packed), get_refusal(rc)->status, get_refusal(rc)->why);
    pfl_list_remove(&w->node);
    s->waiting_len--;
    s->waiting_bytes -= w->len;
    pfl_mem_free(w);
    return true;
}

/* One step. False: it waits. */
static bool advance(struct slot *slot)
{
    struct stream *s = slot->stream;
    enum pfl_job_step step;

    if (slot->is_working || s->out.len >= PFL_OPERATOR_READ_AHEAD)
        return false;
    step = pfl_job_take(slot->job);
    if (step == PFL_JOB_WAIT)
        return false;
    if (step == PFL_JOB_END) {
        end_slot(slot);
    } else if (step == PFL_JOB_REPLY) {
        slot->replied_ms = uv_now(s->streams->conf.loop);
        wake(s, pfl_job_reply(slot->job, s->streams->conf.hosts, &s->out));
    } else {
        begin_work(slot);
    }
    return true;
}

static bool run_once(struct stream *s)
{
    struct pfl_list *it;
    struct pfl_list *tmp;
    bool is_moving = false;

    PFL_LIST_EACH_SAFE (it, tmp, &s->slots) {
        if (s->phase != STREAM_BROKEN && advance(PFL_CONTAINER_OF(it, struct slot, node)))
            is_moving = true;
    }
    if (s->phase != STREAM_BROKEN && begin_waiting(s))
        is_moving = true;
    return is_moving && s->phase != STREAM_BROKEN;
}

/* May free the stream. */
static void run_stream(struct stream *s)
{
    if (s->is_running)
        return;
    s->is_running = true;
    while (!s->streams->is_stopped && run_once(s))
        ;
    s->is_running = false;
    if (s->phase == STREAM_OPEN && s->is_ended)
        pfl_h2_stream_wake(s->h2_stream);
    shrink(s);
}

static int add_waiting(struct stream *s, struct pfl_span packed)
{
    struct waiting *w;

    if (s->waiting_len >= PFL_OPERATOR_WAITING_MAX ||
        s->waiting_bytes + packed.len > PFL_OPERATOR_WAITING_BYTES)
        return PFL_ELIMIT;
    w = pfl_mem_alloc(sizeof(*w) + packed.len);
    if (w == NULL)
        return PFL_ENOMEM;
    *w = (struct waiting){.len = packed.len};
    memcpy(w->bytes, packed.data, packed.len);
    pfl_list_append(&s->waiting, &w->node);
    s->waiting_len++;
    s->waiting_bytes += packed.len;
    return 0;
}

static int on_frame(void *user, struct pfl_span packed)
{
    struct stream *s = user;
    int rc = add_waiting(s, packed);

    if (rc != 0)
        refuse_request(s, peek_id(packed), rc == PFL_ENOMEM ? 503 : 429,
                       rc == PFL_ENOMEM ? "the collector is out of memory"
                                        : "too many requests wait on this stream");
    return s->phase == STREAM_BROKEN ? PFL_ELIMIT : 0;
}

/* ---- the HTTP/2 stream ---- */

static void on_data(void *user, struct pfl_span data)
{
    struct stream *s = user;

    pfl_h2_stream_credit(s->h2_stream, (uint32_t)data.len);
    if (s->phase != STREAM_BROKEN && pfl_frame_reader_feed(&s->reader, data, on_frame, s) != 0)
        reset_stream(s, PFL_H2_PROTOCOL_ERROR);
    run_stream(s);
}

static void on_end(void *user)
{
    struct stream *s = user;

    s->is_ended = true;
    run_stream(s);
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct stream *s = user;
    size_t len;

    run_stream(s); /* there is room since the last pull; its HTTP/2 stream is open, so it stays */
    len = s->out.len < room ? s->out.len : room;
    if (len != 0)
        memcpy(dst, pfl_buf_get(&s->out).data, len);
    pfl_buf_consume(&s->out, len);
    s->streams->figures.sent_bytes += len;
    *ret_is_end = s->is_ended && s->slots_len == 0 && s->waiting_len == 0 && s->out.len == 0;
    return len;
}

static void on_closed(void *user, uint32_t code)
{
    struct stream *s = user;

    (void)code;
    s->h2_stream = NULL;
    s->phase = STREAM_BROKEN;
    shrink(s);
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data, .on_end = on_end, .on_pull = on_pull, .on_closed = on_closed};

/* ---- a new stream ---- */

static void refuse(struct pfl_h2_stream *h2_stream, unsigned status, const char *title,
                   const char *detail)
{
    struct pfl_problem problem = {status, "collector", title, detail};

    pfl_problem_respond(h2_stream, &problem);
}

/* The answer is the stream's last: nothing of it is kept. One that has an answer is reset. */
static void refuse_stream(struct stream *s, const char *detail)
{
    struct pfl_h2_stream *h2_stream = s->h2_stream;

    pfl_log_warn("operator-refused", "operator=%s request=connect status=503 reason=%s",
                 s->operator_name, pfl_log_quote_reason(detail));
    if (s->phase == STREAM_OPEN) {
        reset_stream(s, PFL_H2_DETACH);
    } else {
        s->h2_stream = NULL;
        s->phase = STREAM_BROKEN;
        pfl_h2_stream_set_user(h2_stream, NULL, NULL);
        refuse(h2_stream, 503, "no policy", detail);
    }
    shrink(s);
}

static void take_scope(struct stream *s, struct pfl_span body)
{
    char why[PFL_POLICY_WHY_BYTES] = "";
    int rc = pfl_scope_new(body, s->operator_name, why, &s->scope);

    if (rc != 0) {
        refuse_stream(s, why[0] != '\0' ? why : "the collector cannot read what the policy allows");
        return;
    }
    if (s->phase == STREAM_NEW) {
        s->phase = STREAM_OPEN;
        pfl_log_info("operator-connected", "operator=%s", s->operator_name);
        if (pfl_h2_stream_respond(s->h2_stream, 200, NULL, 0) != 0)
            reset_stream(s, PFL_H2_INTERNAL_ERROR);
    }
    run_stream(s);
}

static void on_scope(void *user, int err, unsigned status, struct pfl_span body)
{
    struct stream *s = user;

    s->is_asking = false;
    if (s->phase == STREAM_BROKEN || s->streams->is_stopped)
        shrink(s);
    else if (err == 0 && status == 200)
        take_scope(s, body);
    else
        refuse_stream(s, "the relay does not tell the collector what the policy allows you");
}

static int ask_scope(struct stream *s)
{
    struct pfl_tunnel_client *client = pfl_relays_get_client(s->streams->conf.relays, s->relay);
    char path[PATH_BYTES];
    struct pfl_tunnel_call call = {.method = "GET",
                                   .path = path,
                                   .body_max_bytes = PFL_POLICY_SCOPE_MAX_BYTES,
                                   .on_done = on_scope,
                                   .user = s};
    int rc;

    if (client == NULL)
        return PFL_ESTATE;
    s->scope_ms = uv_now(s->streams->conf.loop);
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_SCOPES_PATH "/%s", s->operator_name);
    rc = pfl_tunnel_client_call(client, &call);
    s->is_asking = rc == 0;
    return rc;
}

/* Streams that came by this relay; `operator_name` NULL: of all operators. */
static unsigned count_of(const struct pfl_operator_streams *v, unsigned relay,
                         const char *operator_name)
{
    const struct pfl_list *it;
    unsigned n = 0;

    PFL_LIST_EACH (it, &v->list) {
        const struct stream *s = (const struct stream *)(const void *)it;

        n += s->relay == relay &&
             (operator_name == NULL || strcmp(s->operator_name, operator_name) == 0);
    }
    return n;
}

/* Of several relays, one that lies, in whatever names, leaves as many as it has to the others. */
static bool has_room(const struct pfl_operator_streams *v, unsigned relay)
{
    unsigned left = PFL_OPERATOR_STREAMS_MAX - v->figures.streams;

    return left != 0 && (pfl_relays_count(v->conf.relays) == 1 || count_of(v, relay, NULL) < left);
}

static void begin_stream(struct pfl_operator_streams *v, unsigned relay,
                         struct pfl_h2_stream *h2_stream, const char *operator_name)
{
    struct stream *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL) {
        refuse(h2_stream, 503, "out of memory", "the collector is out of memory");
        return;
    }
    s->streams = v;
    s->h2_stream = h2_stream;
    s->relay = relay;
    (void)snprintf(s->operator_name, sizeof(s->operator_name), "%s", operator_name);
    pfl_frame_reader_init_large(&s->reader);
    pfl_buf_init(&s->out, PFL_OPERATOR_OUT_BYTES);
    pfl_list_init(&s->waiting);
    pfl_list_init(&s->slots);
    pfl_list_append(&v->list, &s->node);
    v->figures.streams++;
    pfl_h2_stream_set_user(h2_stream, &ops, s);
    if (ask_scope(s) != 0)
        refuse_stream(s, "the collector cannot ask the relay what the policy allows you: try "
                         "again");
}

void pfl_operator_streams_take(struct pfl_operator_streams *self, unsigned relay,
                               struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    struct pfl_route route;

    pfl_route_parse(head, PFL_ROUTE_AT_COLLECTOR, &route);
    if (route.kind == PFL_ROUTE_NONE)
        return; /* 404 */
    if (route.kind == PFL_ROUTE_METHOD)
        refuse(h2_stream, 405, "wrong method", "this path knows another method");
    else if (route.kind != PFL_ROUTE_COLLECTOR || route.operator_name == NULL)
        refuse(h2_stream, 400, "bad request", "the relay does not say for which operator it asks");
    else if (self->is_stopped)
        refuse(h2_stream, 503, "stopping", "the collector stops");
    else if (!has_room(self, relay))
        refuse(h2_stream, 429, "too many streams", "the collector has as many streams as it may");
    else if (count_of(self, relay, route.operator_name) >= PFL_OPERATOR_STREAMS_OF_ONE)
        refuse(h2_stream, 429, "too many streams",
               "you have as many streams to this collector as you may");
    else
        begin_stream(self, relay, h2_stream, route.operator_name);
}

/* ---- parts that show that work continues ---- */

static void keep_alive(struct stream *s, uint64_t now_ms)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &s->slots) {
        struct slot *slot = PFL_CONTAINER_OF(it, struct slot, node);

        if (s->phase == STREAM_BROKEN || s->out.len >= PFL_OPERATOR_READ_AHEAD ||
            now_ms - slot->replied_ms < PFL_OPERATOR_ALIVE_MS)
            continue;
        slot->replied_ms = now_ms;
        wake(s, pfl_job_reply_empty(slot->job, &s->out));
    }
}

void pfl_operator_streams_keep_alive(struct pfl_operator_streams *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->list)
        keep_alive(PFL_CONTAINER_OF(it, struct stream, node), uv_now(self->conf.loop));
}

/* ---- all of them ---- */

void pfl_operator_streams_init(struct pfl_operator_streams *self,
                               const struct pfl_operator_streams_conf *conf)
{
    *self = (struct pfl_operator_streams){
        .conf = *conf, .rates = {.per_s = PFL_CHANGE_RATES_PER_S, .burst = PFL_CHANGE_RATES_BURST}};
    pfl_list_init(&self->list);
    pfl_list_init(&self->index_queue);
}

void pfl_operator_streams_stop(struct pfl_operator_streams *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    self->is_stopped = true;
    PFL_LIST_EACH_SAFE (it, tmp, &self->list) {
        struct stream *s = PFL_CONTAINER_OF(it, struct stream, node);

        reset_stream(s, PFL_H2_DETACH);
        shrink(s);
    }
}
