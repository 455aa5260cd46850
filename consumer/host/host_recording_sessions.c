/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that outlive connections: found by name, visited, watched, copied, left.
 *
 *     find:  QueryServiceState -> a visit
 *     visit: Attach, [Flush or DisableTracing,] Detach, in one write
 *     stop:  a visit to flush, one to disable -> QueryServiceState until the session has stopped
 *     watch: a visit -> EnableTracing of a session of our own with its triggers -> ObserveEvents
 *            -> the trigger -> FreeBuffers of our own
 *
 * Happy path: each request follows the previous answer; the last one advances the state. Failures:
 * a session that is missing, that another consumer holds, or that the service will not copy,
 * reported with the command that helps. When a connection ends, the service frees the attached
 * session. So a session that is to be read is visited: the service does a visit's requests one
 * after the other, even if the connection is lost, and answers the flush after the detach. If the
 * service does not list a session's triggers, the session stays attached while waiting for them.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "consumer/host/host_recording_impl.h"
#include "consumer/host/session_find.h"
#include "consumer/host/trigger_wait.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/service_state.fields.h"

#define REQUEST_MAX_BYTES  512u
#define ALARMS_COPY_SUFFIX ".triggered" /* docs/protocol-tunnel.md, "Alarms" */
#define KEPT_SUFFIX        ".kept"      /* of pfl_host_recording_conf.kept_key */
#define BUGREPORT_SESSION  UINT64_MAX   /* docs/abi/service.md 1 */
#define WAIT_MARGIN_MS     1000u        /* with the flush, in which the copy is made */

/* What a hit says of its trigger, the request has in the same order from its own number on. */
enum {
    CLONE_AFTER_HIT = CLONE_SESSION_REQUEST__CLONE_TRIGGER_NAME -
                      OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRIGGER_NAME,
};

static void note_hit(struct pfl_host_recording *h, struct pfl_span hit)
{
    struct pfl_reader r = pfl_reader_of(hit);
    struct pfl_field f;
    uint8_t bytes[REQUEST_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    snprintf(h->report.trigger, sizeof(h->report.trigger), "%s", "?");
    while (pfl_reader_field(&r, &f)) {
        if (f.id < OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRIGGER_NAME ||
            f.id > OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRIGGER_DELAY_MS)
            continue;
        if (f.id == OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRIGGER_NAME && f.type == PFL_WIRE_BYTES)
            snprintf(h->report.trigger, sizeof(h->report.trigger), "%s",
                     pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
        if (f.type == PFL_WIRE_BYTES && f.bytes.len < PFL_HOST_NAME_MAX)
            pfl_writer_field_bytes(&w, f.id + CLONE_AFTER_HIT, f.bytes.data, f.bytes.len);
        else if (f.type == PFL_WIRE_VARINT)
            pfl_writer_field_varint(&w, f.id + CLONE_AFTER_HIT, f.value);
    }
    /* Without memory for it the copy is made without the reason. */
    if (pfl_buf_append(&h->trigger, bytes, sizeof(bytes) - w.left) != 0)
        pfl_buf_clear(&h->trigger);
}

static int on_observed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field events;
    struct pfl_field f;

    if (h->state > PFL_HOST_RECORDING)
        return 0;
    while (pfl_reader_field(&r, &events)) {
        struct pfl_reader e = pfl_reader_of(events.bytes);

        while (events.id == OBSERVE_EVENTS_RESPONSE__EVENTS && pfl_reader_field(&e, &f))
            if (f.id == OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT && f.type == PFL_WIRE_BYTES &&
                h->report.trigger[0] == '\0')
                note_hit(h, f.bytes);
    }
    /* A trigger that is raised before all hosts are ready waits for them: pfl_host_recording_begin.
     */
    if (h->report.trigger[0] != '\0' && h->state == PFL_HOST_RECORDING)
        pfl_host_recording_move(h, PFL_HOST_DETACHING);
    return 0;
}

static void observe(struct pfl_host_recording *h)
{
    static const uint8_t events[] = {OBSERVE_EVENTS_REQUEST__EVENTS_TO_OBSERVE << 3,
                                     OBSERVABLE_EVENTS__TYPE_CLONE_TRIGGER_HIT};

    pfl_host_recording_ask(h, "ObserveEvents", pfl_span_of(events, sizeof(events)), on_observed);
}

static void ask_notice_of_end(struct pfl_host_recording *h)
{
    static const uint8_t args[] = {ENABLE_TRACING_REQUEST__ATTACH_NOTIFICATION_ONLY << 3, 1};

    if (!h->is_session_over)
        pfl_host_recording_ask(h, "EnableTracing", pfl_span_of(args, sizeof(args)),
                               pfl_host_recording_on_session_end);
    if (h->state == PFL_HOST_SETUP && h->conf.task == PFL_HOST_TASK_WATCH)
        observe(h);
    if (h->state == PFL_HOST_SETUP)
        pfl_host_recording_move(h, PFL_HOST_READY);
}

/* With the policy's words, where it was the policy. */
static void fail_refused(struct pfl_host_recording *h, const struct pfl_rpc_reply *reply,
                         const char *why)
{
    char text[512];

    if (reply->why.len == 0) {
        pfl_host_recording_fail(h, why);
        return;
    }
    snprintf(text, sizeof(text), "%s",
             pfl_log_quote((const char *)reply->why.data, reply->why.len));
    pfl_host_recording_fail(h, text);
}

/* A session of our own that waits for the triggers. */

static int on_wait_fence(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_SETUP || !h->has_own_wait)
        return 0;
    if (reply->success)
        pfl_host_recording_move(h, PFL_HOST_READY);
    else
        fail_refused(h, reply, "the service makes no session that waits for the triggers");
    return 0;
}

static void ask_wait(struct pfl_host_recording *h)
{
    h->has_own_wait = true;
    pfl_host_recording_ask(h, "EnableTracing", pfl_buf_get(&h->wait),
                           pfl_host_recording_on_session_end);
    if (h->state == PFL_HOST_SETUP)
        observe(h);
    if (h->state == PFL_HOST_SETUP)
        pfl_host_recording_ask(h, "GetTraceStats", pfl_span_of(NULL, 0), on_wait_fence);
}

static int on_wait_freed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_DETACHING)
        return 0;
    if (reply->success)
        pfl_host_recording_move(h, PFL_HOST_CLONING);
    else
        fail_refused(h, reply, "the service does not free a session");
    return 0;
}

static int on_attached(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_SETUP)
        return 0;
    h->hold = reply->success ? PFL_HOLD_ATTACHED : PFL_HOLD_NONE;
    if (reply->success)
        ask_notice_of_end(h);
    else
        fail_refused(h, reply,
                     "another consumer holds the session: only one that was left running "
                     "(perfleet start, perfetto --detach) can be taken over");
    return 0;
}

static void ask_by_key(struct pfl_host_recording *h, const char *method, pfl_rpc_reply_cb cb);

/* Closing before the answer must detach as well: the service frees what is attached then. */
static void ask_attach(struct pfl_host_recording *h, pfl_rpc_reply_cb cb)
{
    h->hold = PFL_HOLD_ATTACHED;
    ask_by_key(h, "Attach", cb);
}

static void ask_by_key(struct pfl_host_recording *h, const char *method, pfl_rpc_reply_cb cb)
{
    const char *key = h->is_to_keep ? h->conf.kept_key : h->conf.session;
    uint8_t args[REQUEST_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_bytes(&w, ATTACH_REQUEST__KEY, key, strlen(key));
    pfl_host_recording_ask(h, method, pfl_span_of(args, sizeof(args) - w.left), cb);
}

void pfl_host_recording_attach_watched(struct pfl_host_recording *self)
{
    self->has_own_wait = false;
    self->is_session_over = false;
    ask_attach(self, on_attached);
}

static int on_visited(void *user, const struct pfl_rpc_reply *reply);

static int on_visit_attached(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->hold != PFL_HOLD_VISITED || reply->success)
        return 0;
    h->hold = PFL_HOLD_NONE;
    if (h->state == PFL_HOST_CLOSING) {
        h->report.fate = PFL_SESSION_GONE;
        pfl_host_recording_close_now(h);
    } else {
        fail_refused(h, reply,
                     "another consumer holds the session: only one that was left running "
                     "(perfleet start, perfetto --detach) can be taken over");
    }
    return 0;
}

void pfl_host_recording_visit_session(struct pfl_host_recording *self,
                                      void (*act)(struct pfl_host_recording *))
{
    enum pfl_host_recording_state state = self->state;
    int rc;

    pfl_host_conn_cork(self->conn);
    ask_by_key(self, "Attach", on_visit_attached);
    if (act != NULL)
        act(self);
    ask_by_key(self, "Detach", on_visited);
    if (self->state != state)
        return; /* it has failed, and nothing was written */
    rc = pfl_host_conn_uncork(self->conn);
    if (rc == 0)
        self->hold = PFL_HOLD_VISITED;
    else if (rc != PFL_ESTATE) /* which is about to say why it ended */
        pfl_host_recording_fail(self, pfl_err_str(rc));
}

/* Stopped, it is copied. */
static void judge_stop(struct pfl_host_recording *h)
{
    enum pfl_session_found found =
        pfl_session_find(pfl_buf_get(&h->service_state), h->conf.session);

    pfl_buf_fini(&h->service_state);
    if (found == PFL_SESSION_OVER) {
        pfl_host_recording_move(h, PFL_HOST_CLONING);
    } else if (found == PFL_SESSION_RUNNING) {
        pfl_host_recording_look_later(h);
    } else {
        h->hold = PFL_HOLD_NONE;
        pfl_host_recording_fail(h, "the session is gone: it was killed, or its duration is over");
    }
}

static int on_state_of_stop(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_DISABLING)
        return 0;
    if (!reply->success || pfl_session_take_state(reply->body, &h->service_state) != 0)
        fail_refused(h, reply, "the service does not report its sessions");
    else if (!reply->has_more)
        judge_stop(h);
    return 0;
}

static int on_visited(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->hold != PFL_HOLD_VISITED)
        return 0;
    h->hold = reply->success ? PFL_HOLD_DETACHED : PFL_HOLD_ATTACHED;
    if (h->state == PFL_HOST_CLOSING) {
        h->report.fate = reply->success ? PFL_SESSION_LEFT : PFL_SESSION_GONE;
        pfl_host_recording_close_now(h);
    } else if (!reply->success) {
        fail_refused(h, reply, "the service does not let the session run by itself");
    } else if (h->state == PFL_HOST_SETUP && h->conf.task == PFL_HOST_TASK_WATCH) {
        ask_wait(h);
    } else if (h->state == PFL_HOST_SETUP) {
        pfl_host_recording_move(h, PFL_HOST_READY);
    } else if (h->state == PFL_HOST_FLUSHING && h->is_flushed) {
        pfl_host_recording_move(h, PFL_HOST_DISABLING);
    } else if (h->state == PFL_HOST_DISABLING) {
        pfl_host_recording_look_at_session(h);
    }
    return 0;
}

static bool ends_in(const char *text, const char *suffix)
{
    size_t len = strlen(text);

    return len > strlen(suffix) && strcmp(text + len - strlen(suffix), suffix) == 0;
}

/* What an alarm left, and what a recording could not write, have no name of their own, only the key
 * under which they were left. */
static bool has_only_key(const struct pfl_host_recording *h)
{
    return h->conf.task == PFL_HOST_TASK_READ &&
           (ends_in(h->conf.session, ALARMS_COPY_SUFFIX) || ends_in(h->conf.session, KEPT_SUFFIX));
}

/* WATCH: the service lists the triggers. Without memory for them the session is attached. */
static bool is_wait_possible(struct pfl_host_recording *h)
{
    return h->conf.task == PFL_HOST_TASK_WATCH &&
           pfl_trigger_wait_encode(pfl_buf_get(&h->service_state), h->conf.session,
                                   h->conf.flush_timeout_ms + WAIT_MARGIN_MS, &h->wait) == 0;
}

static void take_session(struct pfl_host_recording *h)
{
    enum pfl_session_found found =
        pfl_session_find(pfl_buf_get(&h->service_state), h->conf.session);
    char why[256];

    if (found == PFL_SESSION_NONE && has_only_key(h)) {
        found = PFL_SESSION_OVER;
        h->source = PFL_READ_KEY_ONLY;
    } else if (found == PFL_SESSION_NONE && h->conf.task == PFL_HOST_TASK_READ) {
        found = pfl_session_find_left(pfl_buf_get(&h->service_state), h->conf.session);
        if (found != PFL_SESSION_NONE)
            h->source = PFL_READ_KEY_ONLY;
    }

    h->is_session_over = found == PFL_SESSION_OVER;
    if (found == PFL_SESSION_NONE && h->conf.session[0] != '\0') {
        snprintf(why, sizeof(why), "there is no session %s; see perfleet ps",
                 pfl_log_quote_str(h->conf.session));
        pfl_host_recording_fail(h, why);
    } else if (h->conf.task == PFL_HOST_TASK_WATCH && h->is_session_over) {
        pfl_host_recording_fail(h,
                                "the session has ended: nothing can be raised in it any more; see "
                                "perfleet read");
    } else if (h->source == PFL_READ_KEY_ONLY && h->conf.keeps_session) {
        pfl_host_recording_fail(
            h, "what was left under a key alone cannot be copied, and reading takes "
               "it: leave out --keep");
    } else if (h->conf.task == PFL_HOST_TASK_WATCH &&
               pfl_session_count_triggers(pfl_buf_get(&h->service_state), h->conf.session) == 0) {
        pfl_host_recording_fail(h,
                                "the session has no trigger that takes a snapshot, so the wait "
                                "would never end: its config wants trigger_config { trigger_mode: "
                                "CLONE_SNAPSHOT triggers { name: \"x\" } }; see perfleet snapshot");
    } else if (h->conf.task == PFL_HOST_TASK_SNAPSHOT) {
        pfl_host_recording_move(h, PFL_HOST_READY);
    } else if ((h->conf.task == PFL_HOST_TASK_READ && h->source == PFL_READ_NAMED) ||
               is_wait_possible(h)) {
        h->hold = PFL_HOLD_DETACHED;
        pfl_host_recording_visit_session(h, NULL);
    } else {
        ask_attach(h, on_attached);
    }
    pfl_buf_fini(&h->service_state);
}

static int on_state(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_SETUP)
        return 0;
    h->hold = PFL_HOLD_NONE;
    if (!reply->success || pfl_session_take_state(reply->body, &h->service_state) != 0)
        fail_refused(h, reply, "the service does not report its sessions");
    else if (!reply->has_more)
        take_session(h);
    return 0;
}

static void ask_state(struct pfl_host_recording *h, pfl_rpc_reply_cb cb)
{
    static const uint8_t args[] = {QUERY_SERVICE_STATE_REQUEST__SESSIONS_ONLY << 3, 1};

    pfl_host_recording_ask(h, "QueryServiceState", pfl_span_of(args, sizeof(args)), cb);
}

void pfl_host_recording_find_session(struct pfl_host_recording *self)
{
    ask_state(self, on_state);
}

void pfl_host_recording_look_at_session(struct pfl_host_recording *self)
{
    ask_state(self, on_state_of_stop);
}

/* A stopped session is copied unchanged. */
static void judge_watched(struct pfl_host_recording *h)
{
    enum pfl_session_found found =
        pfl_session_find(pfl_buf_get(&h->service_state), h->conf.session);

    pfl_buf_fini(&h->service_state);
    if (found == PFL_SESSION_RUNNING) {
        pfl_host_recording_watch_later(h);
    } else if (found == PFL_SESSION_OVER) {
        h->report.has_ended_itself = true;
        pfl_host_recording_move(h, PFL_HOST_DETACHING);
    } else {
        pfl_host_recording_fail(h, "the session is gone: it was killed");
    }
}

static int on_state_of_watched(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_RECORDING)
        return 0;
    if (!reply->success || pfl_session_take_state(reply->body, &h->service_state) != 0)
        fail_refused(h, reply, "the service does not report its sessions");
    else if (!reply->has_more)
        judge_watched(h);
    return 0;
}

void pfl_host_recording_look_at_watched(struct pfl_host_recording *self)
{
    ask_state(self, on_state_of_watched);
}

/* The service did not copy it (it may have no memory for that): the session itself is read. */
static int on_attached_again(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_CLONING)
        return 0;
    h->hold = reply->success ? PFL_HOLD_ATTACHED : PFL_HOLD_DETACHED;
    if (reply->success)
        pfl_host_recording_move(h, PFL_HOST_STATS);
    else
        fail_refused(h, reply, "the service neither copies the session nor lets it be read");
    return 0;
}

static int on_cloned(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    bool is_cloned = false;
    char why[512] = "the service does not copy the session";

    if (h->state != PFL_HOST_CLONING)
        return 0;
    h->report.start_answered_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    while (pfl_reader_field(&r, &f)) {
        if (f.id == CLONE_SESSION_RESPONSE__SUCCESS)
            is_cloned = f.value != 0;
        if (f.id == CLONE_SESSION_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES)
            snprintf(why, sizeof(why), "the service does not copy the session: %s",
                     pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
    }
    if (reply->success && is_cloned) {
        if (h->conf.task == PFL_HOST_TASK_READ)
            h->source = PFL_READ_COPY;
        pfl_host_recording_move(h, PFL_HOST_STATS);
    } else if (h->conf.task == PFL_HOST_TASK_READ && !h->conf.keeps_session) {
        ask_attach(h, on_attached_again);
    } else {
        pfl_host_recording_fail(h, why);
    }
    return 0;
}

void pfl_host_recording_clone_session(struct pfl_host_recording *self)
{
    uint8_t args[2 * REQUEST_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));
    struct pfl_span trigger = pfl_buf_get(&self->trigger);

    if (self->conf.session[0] != '\0')
        pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__UNIQUE_SESSION_NAME, self->conf.session,
                               strlen(self->conf.session));
    else
        pfl_writer_field_varint(&w, CLONE_SESSION_REQUEST__SESSION_ID, BUGREPORT_SESSION);
    pfl_writer_bytes(&w, trigger.data, trigger.len);
    self->report.start_sent_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    pfl_host_recording_ask(self, "CloneSession", pfl_span_of(args, sizeof(args) - w.left),
                           on_cloned);
}

static int on_detached(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_DETACHING)
        return 0;
    h->hold = reply->success ? PFL_HOLD_DETACHED : PFL_HOLD_ATTACHED;
    if (!reply->success)
        fail_refused(h, reply, "the service does not let the session run by itself");
    else if (h->conf.task == PFL_HOST_TASK_WATCH)
        pfl_host_recording_move(h, PFL_HOST_CLONING);
    else
        pfl_host_recording_begin_close(h);
    return 0;
}

static int on_given_back(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->is_to_keep && reply->success)
        h->report.fate = PFL_SESSION_KEPT;
    else if (h->conf.task != PFL_HOST_TASK_START && reply->success && h->report.read_began_ns == 0)
        h->report.fate = PFL_SESSION_LEFT;
    else if (h->report.fate != PFL_SESSION_NOT_REMOVED)
        h->report.fate = PFL_SESSION_GONE;
    pfl_host_recording_close_now(h);
    return 0;
}

static int on_removed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_REMOVING)
        return 0;
    if (!reply->success)
        h->report.fate = PFL_SESSION_NOT_REMOVED;
    pfl_host_recording_begin_close(h);
    return 0;
}

static int on_attached_to_remove(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_REMOVING)
        return 0;
    if (reply->success)
        pfl_host_recording_ask(h, "FreeBuffers", pfl_span_of(NULL, 0), on_removed);
    else
        (void)on_removed(user, reply);
    return 0;
}

void pfl_host_recording_remove_session(struct pfl_host_recording *self)
{
    ask_by_key(self, "Attach", on_attached_to_remove);
}

void pfl_host_recording_give_session_back(struct pfl_host_recording *self)
{
    self->hold = PFL_HOLD_DETACHED;
    ask_by_key(self, "Detach", on_given_back);
}

void pfl_host_recording_detach_session(struct pfl_host_recording *self)
{
    if (self->has_own_wait)
        pfl_host_recording_ask(self, "FreeBuffers", pfl_span_of(NULL, 0), on_wait_freed);
    else
        ask_by_key(self, "Detach", on_detached);
}
