/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service says about itself.
 *
 * The state goes out in parts, each made when the one before it is on its way: an entry with which
 * a part would exceed PFL_QUERY_SPLIT_BYTES begins the next one, alone if it is larger than that.
 * Entries are repeated fields, so concatenated parts are the whole. Between two parts entries may
 * go; the cursor is the serial number of the last one told, so none is told twice and none that
 * stays is left out. Producers that come meanwhile are not told.
 * A descriptor that fills a frame has no room in a reply, which has more around it: of such a
 * source the name is told. A session whose name and file name have no room is left out.
 * Failures: PFL_ENOMEM.
 */
#include "service/control/query.h"

enum {
    STATE_PRODUCER = 1,
    STATE_DATA_SOURCE = 2,
    STATE_SESSIONS = 3,
    STATE_SESSIONS_STARTED = 4,
    STATE_VERSION = 5,
    STATE_SESSION = 6,
    STATE_SUPPORTS_SESSIONS = 7,
    STATE_FIGURES = PFL_FIGURES_FIELD,
};

#define STATE_HEADER_BYTES 4u /* in the reply: tag and length */

struct part {
    struct pfl_buf state; /* owned */
    struct pfl_message m;
};

typedef void (*encode_entry)(struct pfl_message *m, const void *entry);

enum fit {
    FITS,
    NEXT_PART, /* it belongs there, or has failed */
    TOO_LARGE, /* for any part */
};

static enum fit add_entry(struct part *p, encode_entry encode, const void *entry)
{
    size_t before = p->state.len;

    encode(&p->m, entry);
    if (p->m.rc == 0 && (before == 0 || p->state.len <= PFL_QUERY_SPLIT_BYTES))
        return FITS;
    p->state.len = before;
    if (p->m.rc != 0 && p->m.rc != PFL_ELIMIT)
        return NEXT_PART;
    p->m.rc = 0;
    return before != 0 ? NEXT_PART : TOO_LARGE;
}

static void encode_producer(struct pfl_message *m, const void *entry)
{
    const struct pfl_producer *producer = entry;
    size_t mark = pfl_message_begin(m, STATE_PRODUCER);

    pfl_message_varint(m, 1, producer->id);
    pfl_message_str(m, 2, producer->name);
    pfl_message_varint(m, 3, (uint64_t)(int64_t)(int32_t)producer->uid);
    pfl_message_str(m, 4, producer->sdk_version);
    pfl_message_varint(m, 5, (uint64_t)(int64_t)(int32_t)producer->pid);
    pfl_message_varint(m, 6, 0);
    if (producer->machine_id != 0)
        pfl_message_varint(m, 7, producer->machine_id);
    if (producer->machine_name != NULL)
        pfl_message_str(m, 8, producer->machine_name);
    pfl_message_end(m, mark);
}

struct source_entry {
    const struct pfl_producer *producer;
    const struct pfl_data_source *source;
};

static void encode_source(struct pfl_message *m, const void *entry)
{
    const struct source_entry *e = entry;
    size_t mark = pfl_message_begin(m, STATE_DATA_SOURCE);

    pfl_message_bytes(m, 1, pfl_span_of(e->source->bytes, e->source->bytes_len));
    pfl_message_varint(m, 2, e->producer->id);
    pfl_message_end(m, mark);
}

/* Of a descriptor that leaves no room for what is around it. */
static void encode_source_name(struct pfl_message *m, const void *entry)
{
    const struct source_entry *e = entry;
    size_t mark = pfl_message_begin(m, STATE_DATA_SOURCE);
    size_t descriptor = pfl_message_begin(m, 1);

    pfl_message_bytes(m, 1, e->source->info.name);
    pfl_message_end(m, descriptor);
    pfl_message_varint(m, 2, e->producer->id);
    pfl_message_end(m, mark);
}

static void encode_session(struct pfl_message *m, const void *entry)
{
    const struct pfl_session *session = entry;
    const struct pfl_session_plan *plan = session->plan;
    size_t mark = pfl_message_begin(m, STATE_SESSION);

    pfl_message_varint(m, 1, session->id);
    pfl_message_varint(m, 2, (uint64_t)(int64_t)(int32_t)session->uid);
    pfl_message_str(m, 3, pfl_session_state_str(session->state));
    if (plan->session_name.len != 0)
        pfl_message_bytes(m, 4, plan->session_name);
    for (size_t i = 0; i < plan->buffers_len; i++)
        pfl_message_varint(m, 5, plan->buffers[i].size_kb);
    pfl_message_varint(m, 6, plan->duration_ms);
    pfl_message_varint(m, 7, session->instances_len);
    if (session->start_realtime_ns != 0 && session->pending.is_first_pass)
        pfl_message_varint(m, 8, session->start_realtime_ns);
    if (plan->bugreport_score != 0)
        pfl_message_varint(m, 9, (uint64_t)(int64_t)plan->bugreport_score);
    if (plan->bugreport_filename.len != 0)
        pfl_message_bytes(m, 10, plan->bugreport_filename);
    if (session->state == PFL_SESSION_STARTED)
        pfl_message_varint(m, 11, 1);
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
    pfl_message_str(&p->m, STATE_VERSION, service->conf.facts->version);
    pfl_message_varint(&p->m, STATE_SESSIONS, service->sessions_len);
    pfl_message_varint(&p->m, STATE_SESSIONS_STARTED, started);
    pfl_message_varint(&p->m, STATE_SUPPORTS_SESSIONS, 1);
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

        if (session->id <= self->told || (self->uid != 0 && self->uid != session->uid))
            continue;
        if (add_entry(p, encode_session, session) == NEXT_PART)
            return false;
        self->told = session->id;
    }
    return true;
}

static bool add_producers(struct pfl_query *self, struct part *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->service->producers) {
        const struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);

        if (producer->serial <= self->told || producer->serial > self->last_producer)
            continue;
        if (add_entry(p, encode_producer, producer) == NEXT_PART)
            return false;
        self->told = producer->serial;
    }
    return true;
}

static bool add_sources_of(struct pfl_query *self, struct part *p,
                           const struct pfl_producer *producer)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &producer->sources) {
        struct source_entry entry = {.producer = producer,
                                     .source = PFL_CONTAINER_OF(it, struct pfl_data_source, node)};
        enum fit fit;

        if (entry.source->serial <= self->told_source)
            continue;
        fit = add_entry(p, encode_source, &entry);
        if (fit == TOO_LARGE)
            fit = add_entry(p, encode_source_name, &entry);
        if (fit == NEXT_PART)
            return false;
        self->told_source = entry.source->serial;
    }
    return true;
}

static bool add_sources(struct pfl_query *self, struct part *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->service->producers) {
        const struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);

        if (producer->serial <= self->told || producer->serial > self->last_producer)
            continue;
        if (!add_sources_of(self, p, producer))
            return false;
        self->told = producer->serial;
        self->told_source = 0;
    }
    return true;
}

static bool (*const steps[])(struct pfl_query *self, struct part *p) = {add_head, add_sessions,
                                                                        add_producers, add_sources};

#define STEPS          (sizeof(steps) / sizeof(steps[0]))
#define STEPS_SESSIONS 2u /* of a query for sessions only */

int pfl_query_next(struct pfl_query *self, struct pfl_buf *part, bool *ret_has_more)
{
    struct pfl_message m = pfl_message_of(part);
    size_t end = self->sessions_only ? STEPS_SESSIONS : STEPS;
    struct part p = {0};
    int rc;

    pfl_buf_init(&p.state, PFL_RPC_REPLY_BODY_MAX - STATE_HEADER_BYTES);
    p.m = pfl_message_of(&p.state);
    while (self->step < end && steps[self->step](self, &p)) {
        self->step++;
        self->told = 0;
    }
    rc = p.m.rc;
    if (rc == 0) {
        pfl_buf_clear(part);
        pfl_message_bytes(&m, 1, pfl_buf_get(&p.state));
        rc = m.rc;
    }
    pfl_buf_fini(&p.state);
    if (rc == 0)
        *ret_has_more = self->step < end;
    return rc;
}

void pfl_query_capabilities(struct pfl_message *m)
{
    size_t mark = pfl_message_begin(m, 1);

    pfl_message_varint(m, 1, 1);
    pfl_message_varint(m, 2, PFL_OBSERVE_INSTANCES);
    pfl_message_varint(m, 2, PFL_OBSERVE_ALL_STARTED);
    pfl_message_varint(m, 2, PFL_OBSERVE_CLONE_TRIGGER);
    pfl_message_varint(m, 3, 1);
    pfl_message_varint(m, 4, 1);
    pfl_message_end(m, mark);
}
