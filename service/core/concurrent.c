/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in the traces of other sessions.
 *
 * Each change of a session's state is a packet in the list of every other session that asked for it
 * and is neither over nor a clone. A new session's list begins with all existing sessions, oldest
 * change first, so that the list is in the order of time without being sorted.
 *
 * Failures: past the share that the other session's user has of PFL_CONCURRENT_MAX events, or
 * without memory, the newest is missing from the trace. That is counted, and logged when the count
 * doubles.
 */
#include "service/core/concurrent.h"

#include "base/log.h"
#include "perfetto/service_packets.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "service/core/service.h"

/* ConcurrentSessionEvent.State */
static uint64_t get_number(enum pfl_session_state state)
{
    static const uint8_t numbers[PFL_SESSION_STATES] = {
        [PFL_SESSION_DISABLED] = 1,  [PFL_SESSION_CONFIGURED] = 2, [PFL_SESSION_STARTED] = 3,
        [PFL_SESSION_STOP_WAIT] = 4, [PFL_SESSION_CLONED] = 5,
    };

    return numbers[state];
}

/* The name, without what exceeds the maximum; whole characters of UTF-8. */
static struct pfl_span cut(struct pfl_span name)
{
    size_t len = PFL_CONCURRENT_NAME_MAX;

    if (name.len <= len)
        return name;
    while (len != 0 && (name.data[len] & 0xc0) == 0x80)
        len--;
    return pfl_span_of(name.data, len);
}

static void miss(const struct pfl_session *session, const struct pfl_session *other)
{
    uint64_t missing = session->concurrent.missing;

    if ((missing & (missing - 1)) == 0)
        pfl_log_warn(
            "session-events-missing",
            "session=%llu uid=%u events=%llu reason=\"the share of this user's sessions in "
            "the trace of the session is used up, or there is no memory\" remedy=\"read the "
            "trace more often\"",
            (unsigned long long)session->id, other->uid, (unsigned long long)missing);
}

static void add(const struct pfl_service *service, struct pfl_session *session,
                const struct pfl_session *other)
{
    struct pfl_concurrent *account = &session->concurrent;
    struct pfl_message m = pfl_message_of(&account->packets);
    size_t len_before = account->packets.len;
    struct pfl_span name = cut(other->plan->session_name);
    size_t packet;
    size_t content;

    account->events.owner = service->shares.producers.owner;
    if (!pfl_shares_take(&account->events, other->who, 1)) {
        account->missing++;
        miss(session, other);
        return;
    }
    packet = pfl_service_packet_begin(&m, service->conf.facts);
    pfl_message_varint(&m, TRACE_PACKET__TIMESTAMP, other->concurrent.since_ns);
    content = pfl_message_begin(&m, TRACE_PACKET__CONCURRENT_SESSION_EVENT);
    pfl_message_varint(&m, CONCURRENT_SESSION_EVENT__STATE, get_number(other->state));
    if (name.len != 0)
        pfl_message_bytes(&m, CONCURRENT_SESSION_EVENT__SESSION_NAME, name);
    pfl_message_varint(&m, CONCURRENT_SESSION_EVENT__SESSION_ID, other->id);
    pfl_message_varint(&m, CONCURRENT_SESSION_EVENT__CONSUMER_UID,
                       (uint64_t)(int64_t)(int32_t)other->uid);
    pfl_message_varint(&m, CONCURRENT_SESSION_EVENT__NUM_DATA_SOURCES, other->instances_len);
    pfl_message_end(&m, content);
    pfl_service_packet_end(&m, packet);
    if (m.rc == 0)
        return;
    account->packets.len = len_before;
    pfl_shares_give(&account->events, other->who, 1);
    account->missing++;
    miss(session, other);
}

void pfl_concurrent_init(struct pfl_concurrent *self)
{
    pfl_buf_init(&self->packets, PFL_CONCURRENT_MAX_BYTES);
    self->events.max = PFL_CONCURRENT_MAX;
}

void pfl_concurrent_fini(struct pfl_concurrent *self)
{
    pfl_buf_fini(&self->packets);
}

/* The session with the oldest state change after that of `after_id`. */
static const struct pfl_session *find_next(const struct pfl_service *service, uint64_t after_ns,
                                           uint64_t after_id, const struct pfl_session *except)
{
    const struct pfl_session *best = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->sessions) {
        const struct pfl_session *s = PFL_CONTAINER_OF(it, struct pfl_session, node);
        uint64_t since = s->concurrent.since_ns;

        if (s == except || since < after_ns || (since == after_ns && s->id <= after_id))
            continue;
        if (best == NULL || since < best->concurrent.since_ns ||
            (since == best->concurrent.since_ns && s->id < best->id))
            best = s;
    }
    return best;
}

void pfl_concurrent_begin(struct pfl_service *service, struct pfl_session *session)
{
    const struct pfl_session *other;
    uint64_t after_ns = 0;
    uint64_t after_id = 0;

    if (!session->plan->builtin.wants_sessions)
        return;
    while ((other = find_next(service, after_ns, after_id, session)) != NULL) {
        add(service, session, other);
        after_ns = other->concurrent.since_ns;
        after_id = other->id;
    }
}

void pfl_concurrent_tell(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_list *it;

    session->concurrent.since_ns = pfl_service_boottime_ns(service);
    PFL_LIST_EACH (it, &service->sessions) {
        struct pfl_session *s = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (s != session && s->plan->builtin.wants_sessions && s->state != PFL_SESSION_CLONED &&
            s->state != PFL_SESSION_DISABLED)
            add(service, s, session);
    }
}

void pfl_concurrent_move(struct pfl_service *service, struct pfl_session *session,
                         enum pfl_session_state to)
{
    pfl_session_state_move(&session->state, to);
    pfl_concurrent_tell(service, session);
}

void pfl_concurrent_copy(struct pfl_concurrent *self, const struct pfl_concurrent *from)
{
    if (pfl_buf_append(&self->packets, from->packets.data, from->packets.len) == 0)
        self->events = from->events;
    else
        self->missing += from->events.used;
}

void pfl_concurrent_clear(struct pfl_concurrent *self)
{
    self->packets.len = 0;
    self->events = (struct pfl_shares){.max = PFL_CONCURRENT_MAX};
}
