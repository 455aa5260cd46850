/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service says about itself.
 *
 * The state goes out in parts of at most PFL_QUERY_SPLIT_BYTES: an entry that does not fit any more
 * begins the next part. Entries are repeated fields, so that concatenated parts are the whole. An
 * entry that is itself larger than a part (a huge descriptor) is left out rather than the answer.
 * Failures: PFL_ENOMEM, or what the caller's part function says; the answer then ends there.
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

struct parts {
    struct pfl_buf state; /* owned */
    struct pfl_message m;
    pfl_query_part_cb part;
    void *user;
    int rc;
};

static void send_part(struct parts *p, bool has_more)
{
    struct pfl_buf body;
    struct pfl_message m = pfl_message_of(&body);

    if (p->rc != 0)
        return;
    pfl_buf_init(&body, PFL_QUERY_SPLIT_BYTES + 64);
    pfl_message_bytes(&m, 1, pfl_buf_get(&p->state));
    p->rc = m.rc != 0 ? m.rc : p->part(p->user, pfl_buf_get(&body), has_more);
    pfl_buf_fini(&body);
    pfl_buf_clear(&p->state);
}

typedef void (*encode_entry)(struct pfl_message *m, const void *entry);

/* Encodes an entry whole, in this part or in the next. */
static void add_entry(struct parts *p, encode_entry encode, const void *entry)
{
    for (int attempt = 0; attempt < 2 && p->rc == 0; attempt++) {
        size_t before = p->state.len;

        encode(&p->m, entry);
        if (p->m.rc == 0)
            return;
        p->state.len = before;
        if (p->m.rc != PFL_ELIMIT)
            p->rc = p->m.rc;
        p->m.rc = 0;
        if (before == 0)
            return;
        send_part(p, true);
    }
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

static void add_head(struct parts *p, const struct pfl_query *query)
{
    const struct pfl_service *service = query->service;
    struct pfl_list *it;
    uint64_t started = 0;

    PFL_LIST_EACH (it, &service->sessions) {
        started += PFL_CONTAINER_OF(it, struct pfl_session, node)->state == PFL_SESSION_STARTED;
    }
    pfl_message_str(&p->m, STATE_VERSION, service->conf.facts->version);
    pfl_message_varint(&p->m, STATE_SESSIONS, service->sessions_len);
    pfl_message_varint(&p->m, STATE_SESSIONS_STARTED, started);
    pfl_message_varint(&p->m, STATE_SUPPORTS_SESSIONS, 1);
    p->rc = p->m.rc;
    PFL_LIST_EACH (it, &service->sessions) {
        const struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (query->uid == 0 || query->uid == session->uid)
            add_entry(p, encode_session, session);
    }
}

static void add_sources(struct parts *p, const struct pfl_producer *producer)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &producer->sources) {
        struct source_entry entry = {.producer = producer,
                                     .source = PFL_CONTAINER_OF(it, struct pfl_data_source, node)};

        add_entry(p, encode_source, &entry);
    }
}

int pfl_query_state(const struct pfl_query *query, pfl_query_part_cb part, void *user)
{
    struct parts p = {.part = part, .user = user};
    struct pfl_figures figures;
    struct pfl_list *it;

    pfl_buf_init(&p.state, PFL_QUERY_SPLIT_BYTES);
    p.m = pfl_message_of(&p.state);
    add_head(&p, query);
    if (query->has_figures) {
        pfl_figures_gather(query->service, &figures);
        add_entry(&p, encode_figures, &figures);
    }
    if (!query->sessions_only) {
        PFL_LIST_EACH (it, &query->service->producers) {
            add_entry(&p, encode_producer, PFL_CONTAINER_OF(it, struct pfl_producer, node));
        }
        PFL_LIST_EACH (it, &query->service->producers) {
            add_sources(&p, PFL_CONTAINER_OF(it, struct pfl_producer, node));
        }
    }
    send_part(&p, false);
    pfl_buf_fini(&p.state);
    return p.rc;
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
