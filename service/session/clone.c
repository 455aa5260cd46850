/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clones a session. A session that writes into a file is cloned into another file: once no data is
 * in transit to its file, the buffers are cloned, the file is copied, and the clone's buffers are
 * appended. Then the consumer is answered.
 *
 * start: find the session, check the user's rights, empty the buffers that are configured for it.
 * Then two flushes: one for data sources whose buffers are transferred, one for all others, so that
 * slow ones of the first kind do not delay the rest. When a flush ends, with or without success,
 * its buffers are transferred, or start to be copied. After both the clone's session is made, with
 * the source's events of that moment. Buffers are copied in turns of PFL_CLONE_TURN_BYTES, for one
 * user after the other; when all are whole the consumer is answered. A buffer is copied for one
 * clone at a time: the next one waits. What is copied at once, which is a buffer's table of
 * writers, is loop time of the clone's user, as its requests are: above its part its next clone
 * waits.
 *
 * Failures: no such session, not allowed, no memory, the session or the consumer is gone, the
 * consumer has got a session meanwhile. What was transferred before a failure is lost, as it is
 * upstream. A clone in progress owns its buffers; the service owns it, in a list.
 */
#include "service/session/clone.h"

#include "base/log.h"
#include "base/mem.h"
#include "perfetto/service_packets.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "service/session/admission.h"
#include "service/session/clone_inner.h"
#include "service/session/session_file.h"
#include "service/session/session_flush.h"
#include "service/session/session_parts.h"
#include "service/session/session_record.h"
#include "service/session/session_vms.h"

#define TRIGGER_MAX_BYTES 65536u

static void free_clone(struct pfl_clone *clone)
{
    pfl_list_remove(&clone->node);
    pfl_shares_give(&clone->service->shares.buffer_bytes, clone->who, clone->held_bytes);
    for (size_t i = 0; clone->buffers != NULL && i < clone->buffers_len; i++)
        pfl_trace_buffer_free(clone->buffers[i]);
    pfl_mem_free(clone->buffers);
    pfl_mem_free(clone->cloned_ns);
    pfl_buf_fini(&clone->trigger);
    if (clone->fd >= 0)
        clone->service->conf.disk->discard(clone->service->conf.disk_user, -1, NULL, clone->fd);
    pfl_mem_free(clone);
}

static void fail(struct pfl_consumer *consumer, const char *why)
{
    const struct pfl_clone_result result = {.why = why};

    pfl_log_info("clone-refused", "uid=%u reason=\"%s\"", consumer->uid, why);
    consumer->ops->on_cloned(consumer->port, &result);
}

/* Frees it, and reports the failure to its consumer. */
static void abort_clone(struct pfl_clone *clone, const char *why)
{
    struct pfl_consumer *consumer = clone->consumer;

    free_clone(clone);
    if (consumer != NULL)
        fail(consumer, why);
}

/* Of sessions that fit, the consumer's own go first: other users choose names and scores, too. */
static bool is_better(const struct pfl_session *session, const struct pfl_session *best,
                      uint32_t uid)
{
    if (best == NULL || (session->uid == uid) != (best->uid == uid))
        return best == NULL || session->uid == uid;
    return session->plan->bugreport_score > best->plan->bugreport_score;
}

static struct pfl_session *find_bugreport(const struct pfl_service *service, uint32_t uid)
{
    struct pfl_session *best = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->plan->bugreport_score > 0 && session->state == PFL_SESSION_STARTED &&
            is_better(session, best, uid))
            best = session;
    }
    return best;
}

static struct pfl_session *find_named(const struct pfl_service *service, struct pfl_span name,
                                      uint32_t uid)
{
    struct pfl_session *found = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (name.len != 0 && session->state != PFL_SESSION_CLONED &&
            pfl_span_eq(session->plan->session_name, name) &&
            (found == NULL || (found->uid != uid && session->uid == uid)))
            found = session;
    }
    return found;
}

static struct pfl_session *find_whole(const struct pfl_service *service, uint64_t id)
{
    struct pfl_session *session = pfl_service_find_session(service, id);

    return session != NULL && !session->is_copied ? session : NULL;
}

static struct pfl_session *find_source(const struct pfl_service *service, uint32_t uid,
                                       const struct pfl_clone_request *request)
{
    if (request->session_id == PFL_CLONE_BUGREPORT)
        return find_bugreport(service, uid);
    if (request->session_id != 0)
        return find_whole(service, request->session_id);
    return find_named(service, request->session_name, uid);
}

/* What the session's buffer counted until now is not counted there any more. */
static int take_buffer(struct pfl_service *service, struct pfl_trace_buffer *ring,
                       struct pfl_trace_buffer **ret_taken)
{
    struct pfl_figures counted = service->gone;
    int rc;

    pfl_figures_keep_buffer(&counted, ring);
    rc = pfl_trace_buffer_take(ring, ret_taken);
    if (rc == 0)
        service->gone = counted;
    return rc;
}

static int clear_buffers(struct pfl_service *service, struct pfl_session *session)
{
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        struct pfl_trace_buffer *old;
        int rc;

        if (!session->plan->buffers[i].clear_before_clone ||
            !pfl_trace_buffer_has_data(session->buffers[i].ring))
            continue;
        rc = take_buffer(service, session->buffers[i].ring, &old);
        if (rc != 0)
            return rc;
        pfl_trace_buffer_free(old);
        pfl_session_vms_moved(service, session, i);
    }
    return 0;
}

static int encode_trigger(struct pfl_buf *buf, const struct pfl_service *service,
                          const struct pfl_clone_trigger *trigger)
{
    struct pfl_message m = pfl_message_of(buf);
    size_t packet;
    size_t content;

    if (trigger->name.len == 0)
        return 0;
    packet = pfl_service_packet_begin(&m, service->conf.facts);
    pfl_message_varint(&m, TRACE_PACKET__TIMESTAMP, trigger->boottime_ns);
    content = pfl_message_begin(&m, TRACE_PACKET__CLONE_SNAPSHOT_TRIGGER);
    pfl_message_bytes(&m, TRIGGER__TRIGGER_NAME, trigger->name);
    pfl_message_bytes(&m, TRIGGER__PRODUCER_NAME, trigger->producer_name);
    pfl_message_varint(&m, TRIGGER__TRUSTED_PRODUCER_UID, (uint64_t)(int64_t)trigger->producer_uid);
    pfl_message_varint(&m, TRIGGER__STOP_DELAY_MS, trigger->delay_ms);
    pfl_message_end(&m, content);
    pfl_service_packet_end(&m, packet);
    return m.rc;
}

/* Charges further bytes to the clone. False: its user's share is used up. */
static bool hold(struct pfl_service *service, struct pfl_clone *clone, uint64_t bytes)
{
    return pfl_shares_set(&service->shares.buffer_bytes, clone->who, &clone->held_bytes,
                          clone->held_bytes + bytes);
}

static const char *explain(int rc)
{
    return rc == PFL_EPERM
               ? "this user's share of clones, or of memory for them, is used up; free some"
               : "the service has no memory for a clone now";
}

static int make_clone(struct pfl_service *service, const struct pfl_consumer *consumer,
                      const struct pfl_session *session, const struct pfl_clone_request *request,
                      struct pfl_clone **ret_clone)
{
    struct pfl_clone *clone = pfl_mem_zalloc(sizeof(*clone));
    size_t len = session->plan->buffers_len;
    int rc;

    if (clone == NULL)
        return PFL_ENOMEM;
    pfl_buf_init(&clone->trigger, TRIGGER_MAX_BYTES);
    clone->service = service;
    clone->who = consumer->who;
    clone->subject = consumer->subject;
    clone->fd = -1;
    clone->buffers_len = len;
    clone->buffers = pfl_mem_calloc(len + 1, sizeof(struct pfl_trace_buffer *));
    clone->cloned_ns = pfl_mem_calloc(len + 1, sizeof(*clone->cloned_ns));
    rc = clone->buffers == NULL || clone->cloned_ns == NULL
             ? PFL_ENOMEM
             : encode_trigger(&clone->trigger, service, &request->trigger);
    if (rc == 0 && (!pfl_admission_may_clone(service, consumer->who) ||
                    !hold(service, clone, PFL_SERVICE_CLONE_BYTES)))
        rc = PFL_EPERM;
    if (rc != 0) {
        free_clone(clone);
        return rc;
    }
    clone->id = ++service->last_clone_id;
    clone->session_id = session->id;
    clone->skips_filter = request->skips_filter || request->session_id == PFL_CLONE_BUGREPORT;
    clone->is_compressed = request->is_compressed;
    *ret_clone = clone;
    return 0;
}

static void flush_group(struct pfl_service *service, struct pfl_session *session, uint64_t clone_id,
                        enum pfl_command_scope scope, bool for_bugreport)
{
    const struct pfl_session_flush_conf conf = {
        .flags = PFL_FLUSH_TRACE_CLONE | PFL_FLUSH_INITIATOR_SERVICE |
                 (for_bugreport ? PFL_FLUSH_FOR_BUGREPORT : 0u),
        .then = PFL_FLUSH_THEN_CLONE,
        .request_id = clone_id << 1 | (scope == PFL_SCOPE_TRANSFERRED),
        .scope = scope,
    };

    pfl_session_flush(service, session, &conf);
}

/* What it has written is not in the buffers any more: the clone needs it too, and a place for it.
 */
static bool can_copy_file(const struct pfl_service *service, const struct pfl_consumer *consumer,
                          const struct pfl_session *session,
                          const struct pfl_clone_request *request, const char **why)
{
    if (!pfl_session_file_is_open(session->file))
        return true;
    if (request->fd == NULL || *request->fd < 0) {
        *why = "this session writes into a file: a descriptor is needed to copy it to";
        return false;
    }
    if (!pfl_session_may_close_later(service, consumer->who)) {
        *why = "too many earlier traces are still being written; try again later";
        return false;
    }
    return true;
}

void pfl_clone_start(struct pfl_service *service, struct pfl_consumer *consumer,
                     const struct pfl_clone_request *request)
{
    struct pfl_session *session = find_source(service, consumer->uid, request);
    bool for_bugreport = request->for_bugreport || request->session_id == PFL_CLONE_BUGREPORT;
    struct pfl_clone *clone;
    const char *why;
    uint64_t clone_id;
    int rc;

    if (session == NULL) {
        fail(consumer, "there is no such session to clone");
        return;
    }
    if (consumer->uid != 0 && consumer->uid != session->uid) {
        fail(consumer, "this session belongs to another user, and you are not root");
        return;
    }
    if (!can_copy_file(service, consumer, session, request, &why)) {
        fail(consumer, why);
        return;
    }
    rc = make_clone(service, consumer, session, request, &clone);
    if (rc == 0 && clear_buffers(service, session) != 0) {
        free_clone(clone);
        rc = PFL_ENOMEM;
    }
    if (rc != 0) {
        fail(consumer, explain(rc));
        return;
    }
    clone->consumer = consumer;
    if (pfl_session_file_is_open(session->file)) {
        clone->fd = *request->fd;
        *request->fd = -1;
    }
    clone_id = clone->id; /* either flush may end the clone */
    pfl_list_append(&service->clones, &clone->node);
    pfl_session_snapshot_clocks(service, session);
    pfl_session_record(service, session, PFL_EVENT_FLUSH_STARTED, (struct pfl_span){0});
    clone->started_ns = pfl_service_boottime_ns(service);
    flush_group(service, session, clone_id, PFL_SCOPE_TRANSFERRED, for_bugreport);
    flush_group(service, session, clone_id, PFL_SCOPE_COPIED, for_bugreport);
}

static struct pfl_clone *find_clone(const struct pfl_service *service, uint64_t id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->clones) {
        struct pfl_clone *clone = PFL_CONTAINER_OF(it, struct pfl_clone, node);

        if (clone->id == id)
            return clone;
    }
    return NULL;
}

/* Copying continues in the next turn of the loop. */
static void want_turn(struct pfl_service *service)
{
    service->is_copying = true;
    pfl_service_look_at(service, 0);
}

static struct pfl_turns_who who_of(const struct pfl_clone *clone)
{
    return (struct pfl_turns_who){.user = clone->who,
                                  .subject = clone->subject != 0 ? clone->subject : clone->who};
}

/* Its user has taken its part of the loop's time: no buffers are taken for the clone until that is
 * paid. */
static bool must_wait(struct pfl_service *service, const struct pfl_clone *clone)
{
    uint64_t wait_ms = pfl_service_get_wait_ms(service, who_of(clone));
    uint64_t due_ms = pfl_service_now_ms(service) + wait_ms;
    bool has_work = (clone->is_flushed[0] && !clone->is_taken[0]) ||
                    (clone->is_flushed[1] && !clone->is_taken[1]);

    if (wait_ms == 0 || !has_work)
        return false;
    if (due_ms < service->clone_due_ms)
        service->clone_due_ms = due_ms;
    pfl_service_look_at(service, due_ms);
    return true;
}

static bool can_take(const struct pfl_session *session, bool is_transfer)
{
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        if (!is_transfer && !session->plan->buffers[i].transfer_on_clone &&
            !pfl_trace_buffer_can_clone(session->buffers[i].ring))
            return false;
    }
    return true;
}

static int clone_buffers(struct pfl_service *service, struct pfl_clone *clone,
                         struct pfl_session *session, bool is_transfer)
{
    clone->is_taken[is_transfer] = true;
    if (clone->fd >= 0 && !is_transfer &&
        !hold(service, clone, pfl_sequence_ids_get_bytes(&session->sequences)))
        return PFL_EPERM;
    for (size_t i = 0; i < clone->buffers_len; i++) {
        struct pfl_trace_buffer *ring = session->buffers[i].ring;
        int rc;

        if (session->plan->buffers[i].transfer_on_clone != is_transfer)
            continue;
        if (!hold(service, clone,
                  pfl_trace_buffer_get_used_bytes(ring) + pfl_trace_buffer_get_vm_bytes(ring) +
                      (is_transfer ? 0 : pfl_trace_buffer_get_table_bytes(ring))))
            return PFL_EPERM;
        rc = is_transfer ? take_buffer(service, ring, &clone->buffers[i])
                         : pfl_trace_buffer_clone(ring, &clone->buffers[i]);
        if (rc != 0)
            return rc;
        if (is_transfer)
            pfl_session_vms_moved(service, session, i);
        clone->cloned_ns[i] = pfl_service_boottime_ns(service);
    }
    return 0;
}

/* The clone's session, in the service and its consumer's. */
static const char *finish(struct pfl_service *service, struct pfl_session *source,
                          struct pfl_clone *clone, struct pfl_session **ret_copy)
{
    struct pfl_session *copy;
    int rc;

    if (clone->consumer->session != NULL)
        return "this connection has a session already; free it first or open another one";
    rc = pfl_clone_session_new(service, source, clone, &copy);
    if (rc != 0)
        return explain(rc);
    pfl_clone_session_take_buffers(copy, clone);
    copy->who = clone->consumer->who;
    if (pfl_service_add_buffers(service, copy) != 0) {
        pfl_session_free(copy);
        return "this user's share of the buffers of all sessions is used up; free other sessions "
               "or clones first";
    }
    copy->ops = source->ops;
    copy->id = ++service->last_session_id;
    copy->uid = clone->consumer->uid;
    copy->subject = clone->consumer->subject;
    copy->held_bytes = clone->held_bytes;
    clone->held_bytes = 0;
    copy->state = PFL_SESSION_CLONED;
    copy->consumer = clone->consumer;
    pfl_concurrent_tell(service, copy);
    copy->uuid = pfl_session_make_uuid(service);
    copy->uuid.lsb = source->uuid.lsb; /* ties the clone to what it was cloned for */
    pfl_clone_session_copy_history(service, copy, source, clone);
    if (source->plan->trigger_mode == PFL_TRIGGER_CLONE)
        pfl_trigger_list_set_cloned(&source->triggers);
    pfl_list_append(&service->sessions, &copy->node);
    service->sessions_len++;
    clone->consumer->session = copy;
    *ret_copy = copy;
    return NULL;
}

static void tell(struct pfl_session *copy)
{
    const struct pfl_clone_result result = {
        .is_ok = true, .uuid = copy->uuid, .was_write_into_file = copy->file != NULL};

    copy->consumer->ops->on_cloned(copy->consumer->port, &result);
}

/* Its buffers are whole. It may be gone afterwards. */
static void end_copying(struct pfl_session *copy)
{
    copy->is_copied = false;
    if (copy->file == NULL)
        tell(copy);
    else
        pfl_session_file_resume(copy->file);
}

/* All flushes are over, and of a file all is written that was read. */
static void complete(struct pfl_service *service, struct pfl_session *session,
                     struct pfl_clone *clone)
{
    struct pfl_session *copy;
    const char *why = finish(service, session, clone, &copy);
    int rc;

    if (why != NULL) {
        abort_clone(clone, why);
        return;
    }
    pfl_log_info("session-cloned", "session=%llu clone=%llu uid=%u",
                 (unsigned long long)session->id, (unsigned long long)copy->id, copy->uid);
    rc = clone->fd < 0 ? 0 : pfl_session_file_copy(service, copy, session->file, clone->fd);
    if (rc != 0) {
        pfl_session_remove(service, copy);
        abort_clone(clone, "its file cannot be read, or there is no memory to copy it");
        return;
    }
    clone->fd = -1;
    free_clone(clone);
    copy->is_copied = true;
    if (pfl_clone_turns_copy(service, copy))
        end_copying(copy);
    else
        want_turn(service);
}

/* Takes the buffers of one flush when that is over and no other clone copies them. */
static int try_take(struct pfl_service *service, struct pfl_session *session,
                    struct pfl_clone *clone, bool is_transfer)
{
    if (!clone->is_flushed[is_transfer] || clone->is_taken[is_transfer])
        return 0;
    if (!can_take(session, is_transfer)) {
        want_turn(service);
        return 0;
    }
    return clone_buffers(service, clone, session, is_transfer);
}

/* Those of a session with a file at one moment: what lies between its buffers and its file would be
 * in neither. */
static bool is_ready(const struct pfl_session *session, const struct pfl_clone *clone)
{
    return clone->fd < 0 || (clone->is_flushed[0] && clone->is_flushed[1] &&
                             pfl_session_file_is_idle(session->file) && can_take(session, false));
}

/* May free the clone. */
static void proceed(struct pfl_service *service, struct pfl_session *session,
                    struct pfl_clone *clone)
{
    bool is_flushed = clone->is_flushed[0] && clone->is_flushed[1];
    int rc = 0;

    if (is_flushed && clone->consumer == NULL) {
        free_clone(clone);
        return;
    }
    if (is_flushed && clone->fd >= 0 && !pfl_session_file_is_open(session->file)) {
        abort_clone(clone, "the session ended, and its file is complete: copy that");
        return;
    }
    if (!is_ready(session, clone)) {
        if (is_flushed && !can_take(session, false))
            want_turn(service);
        return;
    }
    if (must_wait(service, clone))
        return;
    rc = try_take(service, session, clone, false);
    if (rc == 0)
        rc = try_take(service, session, clone, true);
    if (rc != 0)
        abort_clone(clone, explain(rc));
    else if (clone->is_taken[0] && clone->is_taken[1])
        complete(service, session, clone);
    else if (clone->is_taken[0])
        want_turn(service);
}

/* The same; its time is its user's. */
static void try_complete(struct pfl_service *service, struct pfl_session *session,
                         struct pfl_clone *clone)
{
    struct pfl_service_time begin = pfl_service_begin_time(service);
    struct pfl_turns_who who = who_of(clone);

    proceed(service, session, clone);
    pfl_service_end_time(service, who, begin);
}

void pfl_clone_on_flushed(struct pfl_service *service, struct pfl_session *session,
                          uint64_t flush_request_id, bool is_ok)
{
    struct pfl_clone *clone = find_clone(service, flush_request_id >> 1);

    if (clone == NULL) /* it failed before this flush was over */
        return;
    if (!is_ok)
        clone->is_flush_failed = true;
    clone->is_flushed[flush_request_id & 1] = true;
    try_complete(service, session, clone);
}

static void copy_next(struct pfl_service *service)
{
    struct pfl_clone_next next = pfl_clone_turns_find_next(service);

    if (next.session != NULL) {
        service->last_copied_who = next.session->who;
        if (pfl_clone_turns_copy(service, next.session))
            end_copying(next.session);
    } else if (next.clone != NULL) {
        service->last_copied_who = next.clone->who;
        for (size_t i = 0; i < next.clone->buffers_len; i++) {
            if (next.clone->buffers[i] != NULL)
                pfl_trace_buffer_copy_more(next.clone->buffers[i], &service->copy_bytes_left);
        }
    }
}

void pfl_clone_run(struct pfl_service *service)
{
    struct pfl_clone_next left;
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (!service->is_copying && service->clone_due_ms > pfl_service_now_ms(service))
        return;
    service->is_copying = false;
    service->clone_due_ms = PFL_SESSION_NEVER;
    service->copy_bytes_left = PFL_CLONE_TURN_BYTES;
    copy_next(service);
    PFL_LIST_EACH_SAFE (it, tmp, &service->clones) {
        struct pfl_clone *clone = PFL_CONTAINER_OF(it, struct pfl_clone, node);
        struct pfl_session *session = pfl_service_find_session(service, clone->session_id);

        if (session != NULL)
            try_complete(service, session, clone);
    }
    left = pfl_clone_turns_find_next(service);
    if (left.session != NULL || left.clone != NULL)
        want_turn(service);
}

void pfl_clone_on_file_idle(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &service->clones) {
        struct pfl_clone *clone = PFL_CONTAINER_OF(it, struct pfl_clone, node);

        if (clone->session_id == session->id)
            try_complete(service, session, clone);
    }
}

void pfl_clone_on_file_written(struct pfl_service *service, struct pfl_session *clone)
{
    struct pfl_consumer *consumer = clone->consumer;

    if (clone->file->trouble == PFL_SESSION_FILE_WELL) {
        tell(clone);
        return;
    }
    pfl_session_remove(service, clone);
    fail(consumer, "the file could not be copied; the service's log says why");
}

void pfl_clone_give_up(const struct pfl_session *clone)
{
    fail(clone->consumer, "it was freed before it was whole");
}

void pfl_clone_cancel(struct pfl_service *service, const struct pfl_session *session)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &service->clones) {
        struct pfl_clone *clone = PFL_CONTAINER_OF(it, struct pfl_clone, node);

        if (clone->session_id == session->id)
            abort_clone(clone, "the session ended while it was being cloned");
    }
}

void pfl_clone_forget_consumer(struct pfl_service *service, const struct pfl_consumer *consumer)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->clones) {
        struct pfl_clone *clone = PFL_CONTAINER_OF(it, struct pfl_clone, node);

        if (clone->consumer == consumer)
            clone->consumer = NULL;
    }
}
