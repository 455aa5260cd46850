/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers queries about the service's state.
 *
 * The state is sent in parts; each is made when the one before it is on its way. An entry that
 * would make a part exceed PFL_QUERY_SPLIT_BYTES begins the next one, alone if it is larger than
 * that. Entries are repeated fields, so concatenated parts are the whole. Entries may be removed
 * between two parts; the cursor is the serial number of the last entry sent, so that each remaining
 * entry is sent once. Producers that connect meanwhile are not included.
 * A descriptor that fills a frame does not fit into a reply, which adds bytes around it: for such a
 * source only the name is sent. A session whose name and file name do not fit is left out.
 * All entries of an answer share PFL_QUERY_MAX_BYTES by user. If a descriptor exceeds its share,
 * only the name is sent; an entry that does not fit at all is left out, and the last part says how
 * much was left out.
 * Failures: PFL_ENOMEM.
 */
#include "service/control/query.h"

#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/data_source_descriptor.fields.h"
#include "perfetto/service_state.fields.h"
#include "perfetto/trace_config.fields.h"
#include "service/session/session_timers.h"

enum {
    STATE_FIGURES = TRACING_SERVICE_STATE__PERFLEET_FIGURES,
    STATE_LEFT_OUT = TRACING_SERVICE_STATE__PERFLEET_LEFT_OUT,
};

#define KEY_TOLD_MAX_BYTES      128u /* a longer key was not typed by a person */
#define TRIGGERS_TOLD_MAX_BYTES 4096u
#define STATE_HEADER_BYTES      4u /* in the reply: tag and length */

struct part {
    struct pfl_buf state; /* owned */
    struct pfl_message m;
    struct pfl_shares *room; /* borrowed: of the query */
};

typedef void (*encode_entry)(struct pfl_message *m, const void *entry);

enum fit {
    FITS,
    NEXT_PART, /* it belongs there, or has failed */
    TOO_LARGE, /* for any part */
    NO_ROOM,   /* its user's share of the answer is used up */
};

static enum fit add_entry(struct part *p, uint64_t who, encode_entry encode, const void *entry)
{
    size_t before = p->state.len;

    encode(&p->m, entry);
    if (p->m.rc == 0 && (before == 0 || p->state.len <= PFL_QUERY_SPLIT_BYTES)) {
        if (pfl_shares_take(p->room, who, p->state.len - before + PFL_QUERY_ENTRY_BYTES))
            return FITS;
        p->state.len = before;
        return NO_ROOM;
    }
    p->state.len = before;
    if (p->m.rc != 0 && p->m.rc != PFL_ELIMIT)
        return NEXT_PART;
    p->m.rc = 0;
    return before != 0 ? NEXT_PART : TOO_LARGE;
}

static void encode_producer(struct pfl_message *m, const void *entry)
{
    const struct pfl_producer *producer = entry;
    size_t mark = pfl_message_begin(m, TRACING_SERVICE_STATE__PRODUCERS);

    pfl_message_varint(m, TRACING_SERVICE_STATE__PRODUCER__ID, producer->id);
    pfl_message_str(m, TRACING_SERVICE_STATE__PRODUCER__NAME, producer->name);
    pfl_message_varint(m, TRACING_SERVICE_STATE__PRODUCER__UID,
                       (uint64_t)(int64_t)(int32_t)producer->uid);
    pfl_message_str(m, TRACING_SERVICE_STATE__PRODUCER__SDK_VERSION, producer->sdk_version);
    pfl_message_varint(m, TRACING_SERVICE_STATE__PRODUCER__PID,
                       (uint64_t)(int64_t)(int32_t)producer->pid);
    pfl_message_varint(m, TRACING_SERVICE_STATE__PRODUCER__FROZEN, 0);
    if (producer->machine_id != 0)
        pfl_message_varint(m, TRACING_SERVICE_STATE__PRODUCER__MACHINE_ID, producer->machine_id);
    if (producer->machine_name != NULL)
        pfl_message_str(m, TRACING_SERVICE_STATE__PRODUCER__MACHINE_NAME, producer->machine_name);
    pfl_message_end(m, mark);
}

struct source_entry {
    const struct pfl_producer *producer;
    const struct pfl_data_source *source;
};

static void encode_source(struct pfl_message *m, const void *entry)
{
    const struct source_entry *e = entry;
    size_t mark = pfl_message_begin(m, TRACING_SERVICE_STATE__DATA_SOURCES);

    pfl_message_bytes(m, TRACING_SERVICE_STATE__DATA_SOURCE__DS_DESCRIPTOR,
                      pfl_span_of(e->source->bytes, e->source->bytes_len));
    pfl_message_varint(m, TRACING_SERVICE_STATE__DATA_SOURCE__PRODUCER_ID, e->producer->id);
    pfl_message_end(m, mark);
}

/* For a descriptor that leaves no room for the fields around it. */
static void encode_source_name(struct pfl_message *m, const void *entry)
{
    const struct source_entry *e = entry;
    size_t mark = pfl_message_begin(m, TRACING_SERVICE_STATE__DATA_SOURCES);
    size_t descriptor = pfl_message_begin(m, TRACING_SERVICE_STATE__DATA_SOURCE__DS_DESCRIPTOR);

    pfl_message_bytes(m, DATA_SOURCE_DESCRIPTOR__NAME, e->source->info.name);
    pfl_message_end(m, descriptor);
    pfl_message_varint(m, TRACING_SERVICE_STATE__DATA_SOURCE__PRODUCER_ID, e->producer->id);
    pfl_message_end(m, mark);
}

/* By which it is found, if it was left: by its name, too, if that is the same. */
static bool has_key_of_its_own(const struct pfl_session *session)
{
    return session->detach_key != NULL && session->detach_key_len <= KEY_TOLD_MAX_BYTES &&
           !pfl_span_eq(pfl_span_of(session->detach_key, session->detach_key_len),
                        session->plan->session_name);
}

/* Each trigger of a config, in its order. */
static size_t walk_triggers(struct pfl_span config, struct pfl_message *m)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field triggers;
    struct pfl_field f;
    size_t bytes = 0;

    while (pfl_reader_field(&r, &triggers)) {
        struct pfl_reader t = pfl_reader_of(triggers.bytes);

        if (triggers.id != TRACE_CONFIG__TRIGGER_CONFIG || triggers.type != PFL_WIRE_BYTES)
            continue;
        while (pfl_reader_field(&t, &f)) {
            if (f.id != TRACE_CONFIG__TRIGGER_CONFIG__TRIGGERS || f.type != PFL_WIRE_BYTES)
                continue;
            bytes += f.bytes.len;
            if (m != NULL)
                pfl_message_bytes(m, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_TRIGGERS,
                                  f.bytes);
        }
    }
    return bytes;
}

/* For clients that wait for triggers without holding the session. */
static void encode_triggers(struct pfl_message *m, const struct pfl_session_plan *plan)
{
    bool is_clone = plan->trigger_mode == PFL_TRIGGER_CLONE;

    pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_CLONE_TRIGGERS,
                       is_clone ? plan->index.triggers_len : 0);
    if (is_clone && walk_triggers(plan->config, NULL) <= TRIGGERS_TOLD_MAX_BYTES)
        (void)walk_triggers(plan->config, m);
}

struct session_entry {
    const struct pfl_service *service;
    const struct pfl_session *session;
    uint64_t subject; /* the requester's */
};

static void encode_session(struct pfl_message *m, const void *entry)
{
    const struct session_entry *e = entry;
    const struct pfl_session *session = e->session;
    uint64_t left_ms = pfl_session_timers_get_left_ms(e->service, session);
    const struct pfl_session_plan *plan = session->plan;
    size_t mark = pfl_message_begin(m, TRACING_SERVICE_STATE__TRACING_SESSIONS);

    pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__ID, session->id);
    pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__CONSUMER_UID,
                       (uint64_t)(int64_t)(int32_t)session->uid);
    pfl_message_str(m, TRACING_SERVICE_STATE__TRACING_SESSION__STATE,
                    pfl_session_state_str(session->state));
    if (plan->session_name.len != 0)
        pfl_message_bytes(m, TRACING_SERVICE_STATE__TRACING_SESSION__UNIQUE_SESSION_NAME,
                          plan->session_name);
    for (size_t i = 0; i < plan->buffers_len; i++)
        pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__BUFFER_SIZE_KB,
                           plan->buffers[i].size_kb);
    pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__DURATION_MS, plan->duration_ms);
    pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__NUM_DATA_SOURCES,
                       session->instances_len);
    if (session->start_realtime_ns != 0 && session->pending.is_first_pass)
        pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__START_REALTIME_NS,
                           session->start_realtime_ns);
    if (plan->bugreport_score != 0)
        pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__BUGREPORT_SCORE,
                           (uint64_t)(int64_t)plan->bugreport_score);
    if (plan->bugreport_filename.len != 0)
        pfl_message_bytes(m, TRACING_SERVICE_STATE__TRACING_SESSION__BUGREPORT_FILENAME,
                          plan->bugreport_filename);
    if (session->state == PFL_SESSION_STARTED)
        pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__IS_STARTED, 1);
    if (has_key_of_its_own(session))
        pfl_message_bytes(m, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_DETACH_KEY,
                          pfl_span_of(session->detach_key, session->detach_key_len));
    encode_triggers(m, plan);
    if (left_ms != PFL_SESSION_NEVER)
        pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_ENDS_IN_MS, left_ms);
    if (e->subject != 0 && e->subject == session->subject)
        pfl_message_varint(m, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_IS_OWN, 1);
    pfl_message_end(m, mark);
}

static void encode_figures(struct pfl_message *m, const void *entry)
{
    size_t mark = pfl_message_begin(m, STATE_FIGURES);

    pfl_figures_encode(m, entry);
    pfl_message_end(m, mark);
}

/* Each step adds what the part has room for, and is done when it returns true. */

static bool add_head(struct pfl_query *self, struct part *p)
{
    const struct pfl_service *service = self->service;
    struct pfl_figures figures;
    struct pfl_list *it;
    uint64_t started = 0;

    PFL_LIST_EACH (it, &service->sessions) {
        started += PFL_CONTAINER_OF(it, struct pfl_session, node)->state == PFL_SESSION_STARTED;
    }
    pfl_message_str(&p->m, TRACING_SERVICE_STATE__TRACING_SERVICE_VERSION,
                    service->conf.facts->version);
    pfl_message_varint(&p->m, TRACING_SERVICE_STATE__NUM_SESSIONS, service->sessions_len);
    pfl_message_varint(&p->m, TRACING_SERVICE_STATE__NUM_SESSIONS_STARTED, started);
    pfl_message_varint(&p->m, TRACING_SERVICE_STATE__SUPPORTS_TRACING_SESSIONS, 1);
    if (self->has_figures) {
        pfl_figures_gather(service, &figures);
        encode_figures(&p->m, &figures);
    }
    self->last_producer = service->producers_seen;
    return true;
}

static bool add_sessions(struct pfl_query *self, struct part *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->service->sessions) {
        const struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);
        const struct session_entry entry = {self->service, session, self->subject};
        enum fit fit;

        if (session->id <= self->last_sent || (self->uid != 0 && self->uid != session->uid))
            continue;
        fit = add_entry(p, session->who, encode_session, &entry);
        if (fit == NEXT_PART)
            return false;
        self->left_out.sessions += fit != FITS;
        self->last_sent = session->id;
    }
    return true;
}

static bool add_producers(struct pfl_query *self, struct part *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->service->producers) {
        const struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);
        enum fit fit;

        if (producer->serial <= self->last_sent || producer->serial > self->last_producer)
            continue;
        fit = add_entry(p, producer->who, encode_producer, producer);
        if (fit == NEXT_PART)
            return false;
        self->left_out.producers += fit != FITS;
        self->last_sent = producer->serial;
    }
    return true;
}

/* For an entry of this user. */
static bool has_room(const struct pfl_query *self, uint64_t who)
{
    return pfl_shares_has_room(self->room, who, PFL_QUERY_ENTRY_BYTES);
}

static bool add_sources_of(struct pfl_query *self, struct part *p,
                           const struct pfl_producer *producer)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &producer->sources) {
        struct source_entry entry = {.producer = producer,
                                     .source = PFL_CONTAINER_OF(it, struct pfl_data_source, node)};
        enum fit fit;

        if (entry.source->serial <= self->last_sent_source)
            continue;
        fit = add_entry(p, producer->who, encode_source, &entry);
        if (fit == NO_ROOM || fit == TOO_LARGE) {
            enum fit named = add_entry(p, producer->who, encode_source_name, &entry);

            self->left_out.descriptors += named == FITS;
            self->left_out.sources += named == NO_ROOM;
            fit = named;
        }
        if (fit == NEXT_PART)
            return false;
        self->last_sent_source = entry.source->serial;
    }
    return true;
}

static bool add_sources(struct pfl_query *self, struct part *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->service->producers) {
        const struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);

        if (producer->serial <= self->last_sent || producer->serial > self->last_producer)
            continue;
        if (!has_room(self, producer->who))
            self->left_out.sources += producer->sources_len; /* or of thousands each is tried */
        else if (!add_sources_of(self, p, producer))
            return false;
        self->last_sent = producer->serial;
        self->last_sent_source = 0;
    }
    return true;
}

static void encode_left_out(struct pfl_message *m, const void *entry)
{
    const struct pfl_query_left_out *left_out = entry;
    size_t mark = pfl_message_begin(m, STATE_LEFT_OUT);

    pfl_message_varint(m, TRACING_SERVICE_STATE__PERFLEET_LEFT_OUT__PRODUCERS, left_out->producers);
    pfl_message_varint(m, TRACING_SERVICE_STATE__PERFLEET_LEFT_OUT__DATA_SOURCES,
                       left_out->sources);
    pfl_message_varint(m, TRACING_SERVICE_STATE__PERFLEET_LEFT_OUT__DESCRIPTORS,
                       left_out->descriptors);
    pfl_message_varint(m, TRACING_SERVICE_STATE__PERFLEET_LEFT_OUT__SESSIONS, left_out->sessions);
    pfl_message_end(m, mark);
}

static bool add_left_out(struct pfl_query *self, struct part *p)
{
    const struct pfl_query_left_out *l = &self->left_out;

    return (l->producers == 0 && l->sources == 0 && l->descriptors == 0 && l->sessions == 0) ||
           add_entry(p, 0, encode_left_out, l) != NEXT_PART;
}

typedef bool (*step_fn)(struct pfl_query *self, struct part *p);

static const step_fn steps[] = {add_head, add_sessions, add_producers, add_sources, add_left_out};
static const step_fn steps_sessions[] = {add_head, add_sessions, add_left_out};

#define STEPS          (sizeof(steps) / sizeof(steps[0]))
#define STEPS_SESSIONS (sizeof(steps_sessions) / sizeof(steps_sessions[0]))

static int open_room(struct pfl_query *self)
{
    if (self->room != NULL)
        return 0;
    self->room = pfl_mem_zalloc(sizeof(*self->room));
    if (self->room == NULL)
        return PFL_ENOMEM;
    self->room->max = PFL_QUERY_MAX_BYTES;
    self->room->owner = self->service->conf.facts->uid;
    return 0;
}

void pfl_query_fini(struct pfl_query *self)
{
    pfl_mem_free(self->room);
    self->room = NULL;
}

int pfl_query_next(struct pfl_query *self, struct pfl_buf *part, bool *ret_has_more)
{
    struct pfl_message m = pfl_message_of(part);
    const step_fn *step = self->sessions_only ? steps_sessions : steps;
    size_t end = self->sessions_only ? STEPS_SESSIONS : STEPS;
    struct part p = {0};
    int rc = open_room(self);

    if (rc != 0)
        return rc;
    p.room = self->room;
    pfl_buf_init(&p.state, PFL_RPC_REPLY_BODY_MAX - STATE_HEADER_BYTES);
    p.m = pfl_message_of(&p.state);
    while (self->step < end && step[self->step](self, &p)) {
        self->step++;
        self->last_sent = 0;
    }
    rc = p.m.rc;
    if (rc == 0) {
        pfl_buf_clear(part);
        pfl_message_bytes(&m, QUERY_SERVICE_STATE_RESPONSE__SERVICE_STATE, pfl_buf_get(&p.state));
        rc = m.rc;
    }
    pfl_buf_fini(&p.state);
    if (rc == 0)
        *ret_has_more = self->step < end;
    return rc;
}

void pfl_query_capabilities(struct pfl_message *m)
{
    size_t mark = pfl_message_begin(m, QUERY_CAPABILITIES_RESPONSE__CAPABILITIES);

    pfl_message_varint(m, TRACING_SERVICE_CAPABILITIES__HAS_QUERY_CAPABILITIES, 1);
    pfl_message_varint(m, TRACING_SERVICE_CAPABILITIES__OBSERVABLE_EVENTS, PFL_OBSERVE_INSTANCES);
    pfl_message_varint(m, TRACING_SERVICE_CAPABILITIES__OBSERVABLE_EVENTS, PFL_OBSERVE_ALL_STARTED);
    pfl_message_varint(m, TRACING_SERVICE_CAPABILITIES__OBSERVABLE_EVENTS,
                       PFL_OBSERVE_CLONE_TRIGGER);
    pfl_message_varint(m, TRACING_SERVICE_CAPABILITIES__HAS_TRACE_CONFIG_OUTPUT_PATH, 1);
    pfl_message_varint(m, TRACING_SERVICE_CAPABILITIES__HAS_CLONE_SESSION, 1);
    pfl_message_end(m, mark);
}
