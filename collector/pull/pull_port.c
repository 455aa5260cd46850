/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits on a loop: see pull_port.h.
 *
 * Happy path: while the queue has a host and a slot is free, begin a visit; perform each step that
 * it asks for: a request on the host's stream, or a call of an engine on its thread; give the
 * result back. One thing of a slot is under way at a time. Failures: those of visit.c; each is
 * logged once, limited. Ownership: a slot owns its visit, stream, reply and put. Limits: slots, a
 * frame of a stream; a write holds one reply of at most PFL_SPOOL_STREAM_FRAME_MAX_BYTES.
 */
#include "collector/pull/pull_port.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ulid.h"
#include "collector/describe/description.h"
#include "collector/pull/reservation.h"
#include "collector/relay/host_map.h"
#include "collector/relay/host_timeout.h"
#include "proto/tunnel/identity.h"
#include "proto/unpack.h"

#define RETRY_MS        500u /* before a stream is opened again, times the number of tries */
#define NS_OF_MS        1000000u
#define LEASE           "visit:" /* and the host: a lease of its own, beside that for orders */
#define LEASE_BYTES     (sizeof(LEASE) + PFL_IDENTITY_NAME_BYTES)
#define HOST_SILENCE_MS 60000u                /* then the visit ends */
#define SLOW_LOOK_MS    5000u                 /* a host that is too slow: does another one wait? */
#define CLOCK_BEHIND_NS UINT64_C(60000000000) /* is worth a line in the log */
#define FULL_MS         30000u                /* after a put without room: others wait for it */

struct slot {
    struct pfl_work work; /* first: its callbacks cast */
    struct pfl_pull *pull;
    struct pfl_queued_host *host;    /* NULL: free */
    struct pfl_visit *visit;         /* owned */
    struct pfl_spool_stream *stream; /* owned */
    Perfleet__SpoolReply *reply;     /* owned; the bytes being written are in it */
    struct pfl_store_put *put;       /* owned */
    uv_timer_t timer;
    struct pfl_host_timeout pace;
    uint64_t silent_ms; /* when the host is silent for too long */
    enum pfl_visit_step step;
    enum pfl_index_reserve reserved;
    unsigned relay;
    unsigned tries;
    uint32_t request_id;
    bool is_ready; /* the stream */
    bool is_leased;
    bool is_working;
    bool is_running;
    int rc; /* of the work */
    struct pfl_span data;
    Perfleet__Segment segment; /* the current one, with the host's verified name */
    struct pfl_index_place place;
    uint64_t stored_unix_ns;
    uint64_t index_unix_ns; /* another collector's clock, which the index has; 0: none */
    uint64_t index_boot_ns; /* ours, then */
    struct pfl_buf description;
    char description_key[PFL_STORE_KEY_BYTES];
    char why[PFL_INDEX_WHY_BYTES];
};

struct pfl_pull {
    struct pfl_pull_conf conf;
    struct pfl_host_queue *queue; /* owned */
    struct slot slots[PFL_HOST_QUEUE_VISITS_MAX];
    uv_timer_t timer;
    struct pfl_pull_figures figures;
    unsigned handles;
    bool is_stopped;
    bool is_full;     /* the store was, at full_ms */
    uint64_t full_ms; /* when the hosts that are visited had to hurry last */
    struct pfl_corrupt_segments corrupt;
};

static void run(struct slot *s);
static void await(struct slot *s);
static void watch(struct slot *s);
static void begin_visits(struct pfl_pull *p);

static uint64_t make_random(void)
{
    uint64_t random = 0;

    (void)!getrandom(&random, sizeof(random), 0);
    return random;
}

/* ---- calls of engines ---- */

static int call_store(struct slot *s)
{
    if (s->step == PFL_VISIT_BEGIN)
        return pfl_store_put_begin(s->put, s->place.key, s->segment.bytes, s->segment.sha256.data);
    if (s->step == PFL_VISIT_WRITE)
        return pfl_store_put_write(s->put, s->data);
    if (s->step == PFL_VISIT_COMMIT)
        return pfl_store_put_commit(s->put);
    if (s->step == PFL_VISIT_DESCRIBE)
        return pfl_store_put_all(s->put, s->description_key, pfl_buf_get(&s->description));
    pfl_store_put_abort(s->put);
    return 0;
}

static bool is_of_index(enum pfl_visit_step step)
{
    return step == PFL_VISIT_RESERVE || step == PFL_VISIT_SET_LIVE || step == PFL_VISIT_DROP ||
           step == PFL_VISIT_LEASE || step == PFL_VISIT_GIVE_LEASE;
}

/* With the time by which retention goes: see get_stored_unix_ns. */
static int take_lease(struct slot *s, struct pfl_index *index, const char *lease)
{
    int rc = pfl_index_lease(index, lease, &s->is_leased);

    s->index_boot_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    return rc == 0 && s->is_leased ? pfl_index_get_clock(index, &s->index_unix_ns) : rc;
}

static int call_index(struct slot *s)
{
    struct pfl_index *index = s->pull->conf.engines->index;
    char lease[LEASE_BYTES];

    (void)snprintf(lease, sizeof(lease), LEASE "%s", pfl_queued_host_get_name(s->host));
    if (s->step == PFL_VISIT_LEASE)
        return take_lease(s, index, lease);
    if (s->step == PFL_VISIT_GIVE_LEASE)
        return pfl_index_give_lease(index, lease);
    if (s->step == PFL_VISIT_SET_LIVE)
        return pfl_index_set_live(index, s->place.id, s->stored_unix_ns);
    if (s->step == PFL_VISIT_DROP)
        return pfl_index_drop(index, s->place.id);
    return pfl_reservation_make(index, &s->segment, s->stored_unix_ns, &s->place, &s->reserved);
}

static void run_work(struct pfl_work *work)
{
    struct slot *s = (struct slot *)(void *)work;

    s->rc = is_of_index(s->step) ? call_index(s) : call_store(s);
    if (s->rc != 0)
        (void)snprintf(s->why, sizeof(s->why), "%s",
                       is_of_index(s->step) ? pfl_index_get_error(s->pull->conf.engines->index)
                                            : pfl_store_get_error());
}

static void drop_reply(struct slot *s)
{
    if (s->reply != NULL)
        pfl_proto_free(&s->reply->base);
    s->reply = NULL;
}

static enum pfl_visit_reserve judge_reserved(enum pfl_index_reserve reserved)
{
    switch (reserved) {
    case PFL_INDEX_RESERVE_STORED:
        return PFL_VISIT_IS_LIVE;
    case PFL_INDEX_RESERVE_CONFLICT:
        return PFL_VISIT_CONFLICT;
    case PFL_INDEX_RESERVE_BUSY:
        return PFL_VISIT_BUSY;
    default:
        return PFL_VISIT_RESERVED;
    }
}

static void give_result(struct slot *s, int rc)
{
    if (s->step == PFL_VISIT_RESERVE)
        pfl_visit_on_reserve(s->visit, rc, judge_reserved(s->reserved));
    else if (s->step == PFL_VISIT_LEASE)
        pfl_visit_on_lease(s->visit, rc, s->is_leased);
    else
        pfl_visit_on_done(s->visit, rc);
}

static bool is_full(const struct pfl_pull *p, uint64_t now_ms)
{
    return p->is_full && now_ms - p->full_ms < FULL_MS;
}

/* Others wait for the room of what is half there: its host has to give the rest at a visit's pace
 * from now on, however much it gave before. */
static void note_full(struct pfl_pull *p)
{
    uint64_t now_ms = uv_now(p->conf.loop);

    if (is_full(p, now_ms))
        return;
    p->is_full = true;
    p->full_ms = now_ms;
    for (unsigned i = 0; i < p->conf.visits_max; i++) {
        struct slot *s = &p->slots[i];

        if (s->visit == NULL)
            continue;
        pfl_host_timeout_restart(&s->pace, now_ms);
        if (s->pace.is_waiting && s->stream != NULL)
            watch(s);
    }
}

static void on_work_done(struct pfl_work *work)
{
    struct slot *s = (struct slot *)(void *)work;

    s->is_working = false;
    if (s->rc == PFL_EFULL && !is_of_index(s->step))
        note_full(s->pull);
    if (s->rc != 0)
        pfl_log_warn(is_of_index(s->step) ? "index-failed" : "store-failed", "host=%s reason=%s",
                     pfl_queued_host_get_name(s->host), pfl_log_quote_reason(s->why));
    drop_reply(s);
    give_result(s, s->rc);
    run(s);
}

static int make_key(struct slot *s, const char *suffix, char *ret_key)
{
    struct pfl_store_key_parts parts = {
        .fleet = pfl_relays_get_fleet(s->pull->conf.relays),
        .host = s->segment.host,
        .id = s->place.id,
        .suffix = suffix,
        .unix_ns = s->segment.begin_unix_ns,
    };

    return pfl_store_key_make(&parts, ret_key);
}

/* Another collector's retention would take what a clock that is behind stores for old. */
static uint64_t get_stored_unix_ns(const struct slot *s)
{
    uint64_t unix_ns = pfl_clock_now_ns(PFL_CLOCK_REALTIME);
    uint64_t there_ns = s->index_unix_ns;

    if (there_ns == 0)
        return unix_ns;
    there_ns += pfl_clock_now_ns(PFL_CLOCK_BOOTTIME) - s->index_boot_ns;
    if (there_ns > unix_ns && there_ns - unix_ns > CLOCK_BEHIND_NS)
        pfl_log_warn("clock-behind",
                     "seconds=%llu effect=\"traces are stored with the time of the index\" "
                     "remedy=\"set the clock right, here or at the other collector\"",
                     (unsigned long long)((there_ns - unix_ns) / 1000000000));
    return there_ns > unix_ns ? there_ns : unix_ns;
}

static int prepare_reserve(struct slot *s)
{
    s->segment = *pfl_visit_get_segment(s->visit);
    s->segment.host = (char *)(uintptr_t)pfl_queued_host_get_name(s->host);
    s->segment.collector = NULL;
    s->stored_unix_ns = get_stored_unix_ns(s);
    if (pfl_ulid_make(s->stored_unix_ns / NS_OF_MS, s->place.id) != 0)
        return PFL_EIO;
    s->place.key[0] = '\0';
    return s->segment.gap != NULL ? 0 : make_key(s, "pftrace", s->place.key);
}

static int prepare_description(struct slot *s)
{
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;

    s->stored_unix_ns = get_stored_unix_ns(s);
    trace.id = s->place.id;
    trace.segment = &s->segment;
    trace.has_stored_unix_ns = true;
    trace.stored_unix_ns = s->stored_unix_ns;
    pfl_buf_clear(&s->description);
    return pfl_description_write(&trace, &s->description);
}

/* Beside the object, whose key the index may have had before. */
static int make_description_key(struct slot *s)
{
    const char *end = strrchr(s->place.key, '.');

    if (end == NULL)
        return make_key(s, "json", s->description_key);
    (void)snprintf(s->description_key, sizeof(s->description_key), "%.*s.json",
                   (int)(end - s->place.key), s->place.key);
    return 0;
}

static void begin_work(struct slot *s)
{
    struct pfl_engines *e = s->pull->conf.engines;
    int rc = 0;

    (void)uv_timer_stop(&s->timer);
    pfl_host_timeout_end(&s->pace, uv_now(s->pull->conf.loop), 0);
    if (s->step == PFL_VISIT_RESERVE)
        rc = prepare_reserve(s);
    if (s->step == PFL_VISIT_DESCRIBE)
        rc = prepare_description(s);
    if (s->step == PFL_VISIT_DESCRIBE && rc == 0)
        rc = make_description_key(s);
    s->is_working = true;
    if (rc == 0)
        rc = pfl_worker_submit(is_of_index(s->step) ? e->index_worker : e->store_worker, &s->work);
    if (rc == 0)
        return;
    s->is_working = false;
    give_result(s, rc);
}

/* ---- the host's stream ---- */

static void drop_stream(struct slot *s)
{
    pfl_spool_stream_close(s->stream);
    s->stream = NULL;
    s->is_ready = false;
}

static void lose_stream(struct slot *s)
{
    drop_stream(s);
    if (!s->is_working)
        drop_reply(s);
    pfl_visit_on_lost(s->visit);
}

static void on_ready(void *user)
{
    struct slot *s = user;

    s->is_ready = true;
    pfl_visit_on_done(s->visit, 0);
    run(s);
}

static void on_closed(void *user, int err, const char *why)
{
    struct slot *s = user;
    bool was_ready = s->is_ready;

    s->stream = NULL;
    s->is_ready = false;
    pfl_log_debug("spool-stream-lost", "host=%s reason=%s", pfl_queued_host_get_name(s->host),
                  pfl_log_quote_reason(why));
    if (was_ready)
        pfl_visit_on_lost(s->visit);
    else
        pfl_visit_on_done(s->visit, err == PFL_EPERM || err == PFL_ENOENT ? err : PFL_EAGAIN);
    run(s);
}

static void take_read(struct slot *s, Perfleet__SpoolReply *reply)
{
    struct pfl_span data = pfl_span_of(reply->data.data, reply->data.len);
    bool has_more = reply->has_more;

    s->reply = reply;
    s->data = data;
    if (reply->status != 0) {
        uint32_t status = reply->status;

        drop_reply(s);
        pfl_visit_on_status(s->visit, status);
    } else {
        pfl_visit_on_data(s->visit, data, has_more);
    }
}

static void on_reply(void *user, Perfleet__SpoolReply *reply)
{
    struct slot *s = user;
    uint32_t status = reply->status;

    pfl_host_timeout_end(&s->pace, uv_now(s->pull->conf.loop), reply->data.len);
    s->pace.answers += status != 0 || !reply->has_more;
    if (reply->id != s->request_id || s->reply != NULL || s->request_id == 0) {
        pfl_proto_free(&reply->base);
        lose_stream(s); /* nothing was asked for */
    } else if (s->step == PFL_VISIT_LIST) {
        s->request_id = 0;
        pfl_visit_on_list(s->visit, reply);
    } else if (s->step == PFL_VISIT_RELEASE) {
        s->request_id = 0;
        pfl_proto_free(&reply->base);
        pfl_visit_on_status(s->visit, status);
    } else {
        if (status != 0 || !reply->has_more)
            s->request_id = 0;
        take_read(s, reply);
    }
    run(s);
}

static uint32_t make_request_id(struct slot *s)
{
    static uint32_t last;

    last = last == UINT32_MAX ? 1 : last + 1;
    s->request_id = last;
    return last;
}

static void send_request(struct slot *s)
{
    Perfleet__SpoolRequest request = PERFLEET__SPOOL_REQUEST__INIT;
    Perfleet__SpoolRequest__ListSegments list;
    Perfleet__SpoolRequest__ReadSegment read = PERFLEET__SPOOL_REQUEST__READ_SEGMENT__INIT;
    Perfleet__SpoolRequest__ReleaseSegment release = PERFLEET__SPOOL_REQUEST__RELEASE_SEGMENT__INIT;

    request.has_id = true;
    request.id = make_request_id(s);
    if (s->step == PFL_VISIT_LIST) {
        pfl_visit_get_list(s->visit, &list);
        request.list_segments = &list;
    } else if (s->step == PFL_VISIT_READ) {
        read.incarnation = s->segment.incarnation;
        read.has_number = read.has_offset = read.has_length = true;
        read.number = s->segment.number;
        read.offset = pfl_visit_get_offset(s->visit);
        read.length = s->segment.bytes - read.offset;
        request.read_segment = &read;
    } else {
        release.incarnation = s->segment.incarnation;
        release.has_number = true;
        release.number = pfl_visit_get_segment(s->visit)->number;
        release.has_sha256 = s->segment.gap == NULL;
        release.sha256 = s->segment.sha256;
        release.has_gap_last = s->segment.gap != NULL;
        release.gap_last = s->segment.gap != NULL ? s->segment.gap->last : 0;
        request.release_segment = &release;
    }
    if (pfl_spool_stream_send(s->stream, &request) != 0)
        lose_stream(s);
}

/* The next reply may come. */
static void resume(struct slot *s)
{
    drop_reply(s);
    if (s->stream != NULL)
        pfl_spool_stream_resume(s->stream);
}

static void open_stream(struct slot *s)
{
    struct pfl_pull *p = s->pull;
    struct pfl_spool_stream_conf conf = {
        .loop = p->conf.loop,
        .host = pfl_queued_host_get_name(s->host),
        .on_ready = on_ready,
        .on_reply = on_reply,
        .on_closed = on_closed,
        .user = s,
    };
    int rc = PFL_ECLOSED;

    s->relay = pfl_queued_host_get_relay(s->host, s->relay);
    conf.client = pfl_relays_get_client(p->conf.relays, s->relay);
    if (conf.client != NULL)
        rc = pfl_spool_stream_open(&conf, &s->stream);
    if (rc == 0)
        await(s);
    else
        pfl_visit_on_done(s->visit, rc == PFL_ENOMEM ? PFL_EAGAIN : PFL_ECLOSED);
}

static void on_retry(uv_timer_t *timer)
{
    struct slot *s = timer->data;

    open_stream(s);
    run(s);
}

/* Others wait for the slot, or for the store's room. */
static void give_up(struct slot *s, const char *event)
{
    pfl_log_warn(event, "host=%s effect=\"the visit ends\"", pfl_queued_host_get_name(s->host));
    drop_stream(s);
    pfl_visit_stop(s->visit);
    run(s);
}

static void on_late(uv_timer_t *timer)
{
    struct slot *s = timer->data;
    uint64_t now_ms = uv_now(s->pull->conf.loop);

    if (now_ms >= s->silent_ms)
        give_up(s, "host-silent");
    else if (pfl_host_timeout_get_left_ms(&s->pace, now_ms) == 0 &&
             (is_full(s->pull, now_ms) ||
              pfl_host_queue_is_wanted(s->pull->queue, s->host, now_ms)))
        give_up(s, "host-slow");
    else
        watch(s);
}

/* The timer is free: on_retry needs it only while there is no stream. */
static void watch(struct slot *s)
{
    uint64_t now_ms = uv_now(s->pull->conf.loop);
    uint64_t silent_ms = s->silent_ms > now_ms ? s->silent_ms - now_ms : 0;
    uint64_t wait_ms = pfl_host_timeout_get_left_ms(&s->pace, now_ms);

    if (wait_ms == 0)
        wait_ms = SLOW_LOOK_MS;
    (void)uv_timer_start(&s->timer, on_late, wait_ms < silent_ms ? wait_ms : silent_ms, 0);
}

static void await(struct slot *s)
{
    uint64_t now_ms = uv_now(s->pull->conf.loop);

    pfl_host_timeout_begin(&s->pace, now_ms);
    s->silent_ms = now_ms + HOST_SILENCE_MS;
    watch(s);
}

static void connect_stream(struct slot *s)
{
    drop_stream(s);
    drop_reply(s);
    s->request_id = 0;
    if (s->tries++ == 0)
        open_stream(s);
    else
        (void)uv_timer_start(&s->timer, on_retry, (uint64_t)RETRY_MS * s->tries, 0);
}

/* ---- visits ---- */

static void add_figures(struct pfl_pull *p, struct slot *s)
{
    const struct pfl_visit_figures *f = pfl_visit_get_figures(s->visit);
    struct pfl_visit_figures *sum = &p->figures.visits;

    sum->stored += f->stored;
    sum->stored_bytes += f->stored_bytes;
    sum->gaps += f->gaps;
    sum->released += f->released;
    for (unsigned i = 0; i < PFL_VISIT_LEFT_REASONS; i++)
        sum->left[i] += f->left[i];
    p->figures.ends[pfl_visit_get_end(s->visit)]++;
    if (f->stored + f->gaps != 0)
        pfl_log_info("segments-stored", "host=%s segments=%llu bytes=%llu gaps=%llu",
                     pfl_queued_host_get_name(s->host), (unsigned long long)f->stored,
                     (unsigned long long)f->stored_bytes, (unsigned long long)f->gaps);
    if (f->released != 0 && !p->is_stopped)
        p->conf.on_visited(p->conf.user, pfl_queued_host_get_name(s->host));
}

static void finish(struct slot *s)
{
    struct pfl_pull *p = s->pull;
    enum pfl_visit_end end = pfl_visit_get_end(s->visit);

    add_figures(p, s);
    (void)uv_timer_stop(&s->timer);
    drop_stream(s);
    drop_reply(s);
    pfl_store_put_free(s->put);
    s->put = NULL;
    pfl_buf_fini(&s->description);
    pfl_visit_free(s->visit);
    s->visit = NULL;
    if (end != PFL_VISIT_LEASED && !p->is_stopped)
        pfl_host_queue_set_slow(p->queue, s->host,
                                pfl_host_timeout_was_slow(&s->pace, uv_now(p->conf.loop)));
    pfl_host_queue_give(p->queue, s->host, end, uv_now(p->conf.loop), make_random());
    s->host = NULL;
    s->is_running = false;
    begin_visits(p);
}

static void log_left(struct slot *s)
{
    struct pfl_visit_left_segment left;
    char where[200] = "";

    pfl_visit_take_left(s->visit, &left);
    if (left.why == NULL)
        return;
    if (left.fault.what != NULL)
        (void)snprintf(where, sizeof(where), " what=\"%s\" field=%s index=%zu value=%" PRIu64,
                       left.fault.what, left.fault.field, left.fault.index, left.fault.value);
    pfl_log_warn("segment-left-at-host", "host=%s reason=%s order=%s run=%s number=%" PRIu32 "%s",
                 pfl_queued_host_get_name(s->host), left.why, pfl_log_quote_str(left.order),
                 pfl_log_quote_str(left.incarnation), left.number, where);
}

static void begin_step(struct slot *s)
{
    if (s->step == PFL_VISIT_CONNECT) {
        connect_stream(s);
    } else if (s->step == PFL_VISIT_READ_MORE) {
        await(s);
        resume(s);
    } else if (s->step == PFL_VISIT_LIST || s->step == PFL_VISIT_READ ||
               s->step == PFL_VISIT_RELEASE) {
        s->tries = 1;
        await(s);
        resume(s);
        if (s->stream != NULL)
            send_request(s);
    } else {
        begin_work(s);
    }
}

static void run(struct slot *s)
{
    if (s->is_running || s->visit == NULL)
        return;
    s->is_running = true;
    for (;;) {
        enum pfl_visit_step step = pfl_visit_take(s->visit);

        log_left(s);
        if (step == PFL_VISIT_WAIT)
            break;
        s->step = step;
        if (step == PFL_VISIT_END) {
            finish(s);
            return;
        }
        begin_step(s);
    }
    s->is_running = false;
}

static int begin_visit(struct slot *s, struct pfl_queued_host *host)
{
    struct pfl_pull *p = s->pull;
    struct pfl_visit_conf conf = {
        .host = pfl_queued_host_get_name(host),
        .newest_first = p->conf.newest_first,
        .newest_first_len = p->conf.newest_first_len,
        .is_shared = pfl_index_is_shared(p->conf.engines->conf.index),
        .corrupt = &p->corrupt,
        .now_ms = uv_now(p->conf.loop),
    };
    int rc = pfl_store_put_new(p->conf.engines->store, &s->put);

    if (rc == 0)
        rc = pfl_visit_new(&conf, &s->visit);
    if (rc != 0) {
        pfl_store_put_free(s->put);
        s->put = NULL;
        return rc;
    }
    s->host = host;
    s->relay = (pfl_queued_host_get_turn(host) + PFL_HOST_MAP_RELAYS - 1) % PFL_HOST_MAP_RELAYS;
    s->tries = 0;
    s->request_id = 0;
    s->index_unix_ns = 0;
    s->pace = (struct pfl_host_timeout){.bytes = 0};
    pfl_buf_init(&s->description, PFL_DESCRIPTION_MAX_BYTES);
    run(s);
    return 0;
}

static struct slot *find_slot(struct pfl_pull *p)
{
    for (unsigned i = 0; i < p->conf.visits_max; i++) {
        if (p->slots[i].host == NULL)
            return &p->slots[i];
    }
    return NULL;
}

static void on_timer(uv_timer_t *timer)
{
    begin_visits(timer->data);
}

static void plan(struct pfl_pull *p)
{
    uint64_t next_ms = pfl_host_queue_get_next_ms(p->queue);
    uint64_t now_ms = uv_now(p->conf.loop);

    if (next_ms != UINT64_MAX)
        (void)uv_timer_start(&p->timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 1, 0);
}

static void begin_visits(struct pfl_pull *p)
{
    uint64_t now_ms = uv_now(p->conf.loop);
    struct pfl_queued_host *host;
    struct slot *s;

    if (p->is_stopped)
        return;
    while ((s = find_slot(p)) != NULL && (host = pfl_host_queue_take(p->queue, now_ms)) != NULL) {
        if (begin_visit(s, host) != 0)
            pfl_host_queue_give(p->queue, host, PFL_VISIT_LOST, now_ms, make_random());
    }
    plan(p);
}

/* ---- what relays say ---- */

void pfl_pull_on_host(struct pfl_pull *self, unsigned relay, const struct pfl_spool_host *host)
{
    struct pfl_queued_host_state state = {
        .name = host->name,
        .relay = relay,
        .is_connected = host->is_connected,
        .segments = host->segments,
        .bytes = host->bytes,
    };
    int rc = pfl_host_queue_set(self->queue, &state, uv_now(self->conf.loop));

    if (rc != 0)
        pfl_log_warn("host-ignored", "host=%s reason=\"%s\"", pfl_log_quote_str(host->name),
                     pfl_err_str(rc));
}

void pfl_pull_on_listed(struct pfl_pull *self)
{
    begin_visits(self);
}

void pfl_pull_on_relay_lost(struct pfl_pull *self, unsigned relay)
{
    pfl_host_queue_forget_relay(self->queue, relay);
}

void pfl_pull_get_figures(const struct pfl_pull *self, struct pfl_pull_figures *ret_figures)
{
    *ret_figures = self->figures;
    pfl_host_queue_get_figures(self->queue, &ret_figures->queue);
}

/* ---- opening and the end ---- */

int pfl_pull_open(const struct pfl_pull_conf *conf, struct pfl_pull **ret_pull)
{
    struct pfl_pull *p = pfl_mem_zalloc(sizeof(*p));
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    assert(conf->visits_max <= PFL_HOST_QUEUE_VISITS_MAX);
    p->conf = *conf;
    p->corrupt.key = (struct pfl_hash_key){{make_random(), make_random()}};
    rc = pfl_host_queue_new(conf->visits_max, &p->corrupt.key, &p->queue);
    if (rc != 0) {
        pfl_mem_free(p);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &p->timer);
    p->timer.data = p;
    for (unsigned i = 0; i < PFL_HOST_QUEUE_VISITS_MAX; i++) {
        struct slot *s = &p->slots[i];

        s->pull = p;
        s->work.run = run_work;
        s->work.on_done = on_work_done;
        s->work.who = i + 1;
        (void)uv_timer_init(conf->loop, &s->timer);
        s->timer.data = s;
    }
    p->handles = PFL_HOST_QUEUE_VISITS_MAX + 1;
    *ret_pull = p;
    return 0;
}

void pfl_pull_stop(struct pfl_pull *self)
{
    if (self == NULL)
        return;
    self->is_stopped = true;
    for (unsigned i = 0; i < PFL_HOST_QUEUE_VISITS_MAX; i++) {
        struct slot *s = &self->slots[i];

        if (s->visit == NULL)
            continue;
        drop_stream(s);
        pfl_visit_stop(s->visit);
        run(s);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_pull *p = handle->data;

    if (--p->handles != 0)
        return;
    pfl_host_queue_free(p->queue);
    pfl_mem_free(p);
}

void pfl_pull_close(struct pfl_pull *self)
{
    if (self == NULL)
        return;
    for (unsigned i = 0; i < PFL_HOST_QUEUE_VISITS_MAX; i++) {
        assert(self->slots[i].visit == NULL);
        self->slots[i].timer.data = self;
        uv_close((uv_handle_t *)&self->slots[i].timer, on_handle_closed);
    }
    uv_close((uv_handle_t *)&self->timer, on_handle_closed);
}
