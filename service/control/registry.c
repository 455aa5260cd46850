/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers and consumers connect, register, and leave: see registry.h.
 *
 * A producer is added when it introduces itself, and gets an id that no live producer has. It
 * registers data sources (sessions that want them start them at once: session_setup.c) and commits
 * chunks. When its connection ends it is removed: its instances become STOPPED, which can complete
 * a session's stop, and its memory is scraped in turns of the loop. Until that is done it keeps
 * memory, id and what is counted for them. A consumer owns at most one session, which ends with it.
 * Failures are returned and leave everything unchanged.
 */
#include "service/control/registry.h"

#include "base/log.h"
#include "service/session/clone.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_flush.h"
#include "service/session/session_run.h"
#include "service/session/session_setup.h"

/* Charges its current cost. */
static bool count_bytes(struct pfl_service *self, struct pfl_producer *producer)
{
    return pfl_shares_set(&self->shares.peer_bytes, producer->who, &producer->held_bytes,
                          pfl_producer_get_bytes(producer));
}

static void on_copied(struct pfl_copy_job *job)
{
    struct pfl_producer *producer = PFL_CONTAINER_OF(job, struct pfl_producer, copy);

    producer->ops->on_copied(producer->port);
}

/* Without one, its chunks come in messages. */
static void open_copier(struct pfl_service *self, struct pfl_producer *producer)
{
    if (producer->is_emulated || self->conf.copies == NULL ||
        !pfl_shares_is_bound(&self->shares.smb_bytes, producer->who))
        return;
    if (pfl_service_shares_memory(self, producer->who))
        producer->copier = pfl_copies_open(&self->copies, producer->who);
    producer->is_emulated = producer->copier == NULL;
    if (producer->is_emulated)
        pfl_log_info("producer-in-messages",
                     "producer=%s uid=%u reason=\"its user has no copier\" effect=\"its chunks "
                     "come in messages\"",
                     pfl_log_quote_str(producer->name), producer->uid);
    producer->copy.on_change = on_copied;
}

int pfl_registry_add_producer(struct pfl_service *self, const struct pfl_producer_conf *conf,
                              struct pfl_producer **ret_producer)
{
    struct pfl_producer *producer;
    int rc;

    if (self->producers_len + self->leaving_len >= PFL_SERVICE_MAX_PRODUCERS)
        return PFL_ELIMIT;
    /* A network peer's uid is its own word. */
    if (self->is_locked_down && (conf->is_emulated || conf->uid != self->conf.facts->uid))
        return PFL_EPERM;
    rc = pfl_producer_new(conf, &producer);
    if (rc != 0)
        return rc;
    if (!count_bytes(self, producer)) {
        pfl_producer_free(producer);
        return PFL_ELIMIT;
    }
    open_copier(self, producer);
    producer->id = pfl_service_new_producer_id(self);
    pfl_list_append(&self->producers, &producer->node);
    self->producers_len++;
    producer->serial = ++self->producers_seen;
    *ret_producer = producer;
    return 0;
}

static void drop_instances(struct pfl_service *self, struct pfl_producer *producer)
{
    while (!pfl_list_is_empty(&producer->instances)) {
        struct pfl_instance *instance =
            PFL_CONTAINER_OF(producer->instances.next, struct pfl_instance, of_producer);

        pfl_list_remove(&instance->of_producer);
        instance->producer = NULL;
        pfl_session_drop_instance(self, instance);
    }
}

static void drop_sources(struct pfl_service *self, struct pfl_producer *producer)
{
    self->sources_len -= producer->sources_len;
    pfl_shares_give(&self->shares.sources, producer->who, producer->sources_len);
    while (!pfl_list_is_empty(&producer->sources))
        pfl_producer_remove_source(
            producer, PFL_CONTAINER_OF(producer->sources.next, struct pfl_data_source, node));
}

bool pfl_registry_remove_producer(struct pfl_service *self, struct pfl_producer *producer)
{
    bool is_scraped;

    pfl_list_remove(&producer->node);
    self->producers_len--;
    is_scraped = pfl_scrape_turns_take_producer(self, producer);
    if (is_scraped)
        pfl_service_forbid(self, producer);
    drop_instances(self, producer);
    drop_sources(self, producer);
    pfl_session_lose_flushes(self, producer); /* which may end sessions */
    if (is_scraped)
        pfl_service_free_producer(self, producer);
    return is_scraped;
}

/* It is in no list yet, and freed on failure. */
static int add_source(struct pfl_service *self, struct pfl_producer *producer,
                      struct pfl_data_source *source)
{
    int rc = PFL_ELIMIT;

    if (!pfl_shares_take(&self->shares.sources, producer->who, 1))
        goto no_share;
    rc = pfl_producer_add_source(producer, source);
    if (rc != 0)
        goto not_added;
    if (count_bytes(self, producer))
        return 0;
    pfl_producer_remove_source(producer, source);
    pfl_shares_give(&self->shares.sources, producer->who, 1);
    return PFL_ELIMIT;

not_added:
    pfl_shares_give(&self->shares.sources, producer->who, 1);
no_share:
    pfl_data_source_free(source);
    return rc;
}

int pfl_registry_register_source(struct pfl_service *self, struct pfl_producer *producer,
                                 struct pfl_span descriptor)
{
    struct pfl_data_source *source;
    int rc = pfl_data_source_new(descriptor, &source);

    if (rc == PFL_EINVAL)
        return 0;
    if (rc != 0)
        return rc;
    if (pfl_producer_find_source_id(producer, source->info.id) != NULL) {
        pfl_data_source_free(source);
        return 0;
    }
    rc = add_source(self, producer, source);
    if (rc != 0)
        return rc;
    self->sources_len++;
    source->serial = ++self->sources_seen;
    source->producer = producer;
    pfl_list_append(pfl_service_get_named(self, source->info.name), &source->of_name);
    pfl_session_setup_source(self, source);
    return 0;
}

int pfl_registry_update_source(struct pfl_service *self, struct pfl_producer *producer,
                               struct pfl_span descriptor)
{
    struct pfl_data_source_info info;
    struct pfl_data_source *source;
    uint64_t more;
    int rc = pfl_data_source_parse(descriptor, &info);

    if (rc != 0)
        return rc;
    source = pfl_producer_find_source_id(producer, info.id);
    if (source == NULL || !pfl_span_eq(source->info.name, info.name))
        return 0;
    more = descriptor.len > source->bytes_len ? descriptor.len - source->bytes_len : 0;
    if (more != 0 && !pfl_shares_take(&self->shares.peer_bytes, producer->who, more))
        return PFL_ELIMIT;
    producer->held_bytes += more;
    rc = pfl_producer_update_source(producer, source, descriptor);
    (void)count_bytes(self, producer); /* which has room, if it is not less */
    return rc;
}

/* Those of that name leave the producer's list, so that each is looked at once. */
static void take_instances(struct pfl_producer *producer, struct pfl_span name,
                           struct pfl_list *ret_taken)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    pfl_list_init(ret_taken);
    PFL_LIST_EACH_SAFE (it, tmp, &producer->instances) {
        const struct pfl_instance *instance =
            PFL_CONTAINER_OF(it, struct pfl_instance, of_producer);

        if (!pfl_span_eq(pfl_session_source_of(instance->session, instance)->name, name))
            continue;
        pfl_list_remove(it);
        pfl_list_append(ret_taken, it);
    }
}

void pfl_registry_unregister_source(struct pfl_service *self, struct pfl_producer *producer,
                                    struct pfl_span name)
{
    struct pfl_data_source *source = pfl_producer_find_source(producer, name);
    struct pfl_list taken;

    if (source == NULL)
        return;
    take_instances(producer, name, &taken);
    while (!pfl_list_is_empty(&taken)) /* one may free others of its session */
        pfl_session_drop_instance(self,
                                  PFL_CONTAINER_OF(taken.next, struct pfl_instance, of_producer));
    pfl_producer_remove_source(producer, source);
    pfl_shares_give(&self->shares.sources, producer->who, 1);
    (void)count_bytes(self, producer);
    self->sources_len--;
}

int pfl_registry_set_writer(struct pfl_service *self, struct pfl_producer *producer,
                            uint32_t writer_id_untrusted, uint32_t buffer_id_untrusted)
{
    int rc = pfl_producer_set_writer(producer, writer_id_untrusted, buffer_id_untrusted);

    return rc == 0 && !count_bytes(self, producer) ? PFL_ELIMIT : rc;
}

struct commit_scope {
    struct pfl_service *service;
    struct pfl_producer *producer;
};

static struct pfl_trace_buffer *get_allowed_buffer(void *user, uint16_t buffer_id,
                                                   uint16_t writer_id)
{
    const struct commit_scope *scope = user;
    uint16_t registered = pfl_producer_get_writer(scope->producer, writer_id);

    if (!pfl_producer_is_allowed(scope->producer, buffer_id) ||
        (registered != 0 && registered != buffer_id))
        return NULL;
    return scope->service->buffers[buffer_id].ring;
}

static struct pfl_trace_buffer *get_buffer(void *user, uint16_t buffer_id)
{
    const struct commit_scope *scope = user;

    return scope->service->buffers[buffer_id].ring;
}

static bool may_continue(void *user)
{
    const struct commit_scope *scope = user;
    const struct pfl_producer *producer = scope->producer;

    return producer->ops->may_continue == NULL || producer->ops->may_continue(producer->port);
}

static const struct pfl_copy_entry *next_copy(void *user, const uint8_t **ret_payload)
{
    const struct commit_scope *scope = user;
    struct pfl_copy_job *job = &scope->producer->copy;
    const struct pfl_copy_entry *copy = pfl_copy_job_next(job);

    if (copy != NULL)
        *ret_payload = job->copier->area->data + copy->at;
    return copy;
}

static bool has_more_copies(void *user)
{
    const struct commit_scope *scope = user;

    return pfl_copy_job_has_more(&scope->producer->copy);
}

static int apply(struct pfl_service *self, struct pfl_producer *producer, struct pfl_span request)
{
    struct commit_scope scope = {.service = self, .producer = producer};
    struct pfl_commit_conf conf = {
        .identity = {.producer_id = producer->id,
                     .producer_serial = (uint32_t)producer->serial,
                     .uid = producer->uid,
                     .pid = producer->pid,
                     .machine_id = producer->machine_id,
                     .who = producer->who,
                     .credit = &producer->credit},
        .map = &producer->smb,
        .is_emulated = producer->is_emulated,
        .next_copy = producer->copy.state == PFL_COPY_JOB_DONE ? next_copy : NULL,
        .has_more_copies = has_more_copies,
        .get_allowed_buffer = get_allowed_buffer,
        .get_buffer = get_buffer,
        .may_continue = may_continue,
        .user = &scope,
        .counters = &self->commits,
    };
    uint64_t flush_id = 0;
    int rc = pfl_commit_apply(&conf, request, &producer->commit_at, &flush_id);

    pfl_service_check_memory(self, producer);
    if (rc == 0 && flush_id != 0)
        pfl_session_ack_flush(self, producer, flush_id);
    return rc;
}

/* ---- a copier takes the chunks out ---- */

/* What is left of a request, as far as it fits into the area. */
struct moves {
    uint32_t len;
    uint32_t max;
    struct {
        uint32_t page;
        uint32_t chunk;
    } list[PFL_COPY_ENTRIES];
};

static void note_move(void *user, const struct pfl_commit_data_move *move)
{
    struct moves *moves = user;

    if (move->has_data || moves->len == moves->max)
        return;
    moves->list[moves->len].page = move->page_untrusted;
    moves->list[moves->len].chunk = move->chunk_untrusted;
    moves->len++;
}

static bool is_full(void *user)
{
    const struct moves *moves = user;

    return moves->len == moves->max;
}

static bool has_room(void *user)
{
    return !is_full(user);
}

/* PFL_EPARSE; PFL_EAGAIN is no failure here. */
static int find_moves(const struct pfl_producer *producer, struct pfl_span request,
                      struct moves *ret_moves)
{
    const struct pfl_commit_data_visitor visitor = {
        .on_move = note_move, .may_continue = has_room, .was_long = is_full, .user = ret_moves};
    struct pfl_commit_data_position at = producer->commit_at;
    uint32_t fit = PFL_COPY_DATA_BYTES / producer->smb.smb.page_bytes;
    uint64_t flush_id;
    int rc;

    ret_moves->len = 0;
    ret_moves->max = fit < PFL_COPY_ENTRIES ? fit : PFL_COPY_ENTRIES;
    rc = pfl_commit_data_continue(request, &visitor, &at, &flush_id);
    return rc == PFL_EAGAIN ? 0 : rc;
}

static void ask_for(struct pfl_service *self, struct pfl_producer *producer,
                    const struct moves *moves)
{
    struct pfl_copy_area *area = producer->copy.copier->area;

    pfl_service_attach_smb(producer);
    if (producer->copier == NULL)
        return;
    for (uint32_t i = 0; i < moves->len; i++)
        area->entries[i] =
            (struct pfl_copy_entry){.page = moves->list[i].page, .chunk = moves->list[i].chunk};
    area->entries_len = moves->len;
    pfl_copy_job_ask(&producer->copy, PFL_COPY_COMMIT, producer->id, 0);
    pfl_service_look_at(self, pfl_service_now_ms(self) + PFL_COPIES_LIMIT_MS);
}

/* 0: its next chunks are copied, or there are none. PFL_EAGAIN: not yet. */
static int get_copies(struct pfl_service *self, struct pfl_producer *producer,
                      struct pfl_span request)
{
    struct pfl_copy_job *job = &producer->copy;
    static struct moves moves; /* one loop, one thread */
    int rc;

    if (job->state == PFL_COPY_JOB_DONE)
        return 0;
    if (job->state == PFL_COPY_JOB_LOST)
        return PFL_EIO;
    if (job->state == PFL_COPY_JOB_WAITS || job->state == PFL_COPY_JOB_ASKED)
        return PFL_EAGAIN;
    rc = find_moves(producer, request, &moves);
    if (rc != 0 || moves.len == 0) {
        pfl_copy_job_end(job);
        return rc;
    }
    if (job->state == PFL_COPY_JOB_IDLE)
        pfl_copy_job_begin(job, producer->copier);
    if (job->state == PFL_COPY_JOB_OWNS)
        ask_for(self, producer, &moves);
    return job->state == PFL_COPY_JOB_LOST ? PFL_EIO : PFL_EAGAIN;
}

static int commit_copied(struct pfl_service *self, struct pfl_producer *producer,
                         struct pfl_span request)
{
    struct pfl_copy_job *job = &producer->copy;
    bool has_copies;
    int rc;

    do {
        rc = get_copies(self, producer, request);
        if (rc != 0)
            return rc;
        has_copies = job->state == PFL_COPY_JOB_DONE;
        rc = apply(self, producer, request);
        if (has_copies && rc == PFL_EAGAIN && pfl_copy_job_has_more(job))
            return rc;
        pfl_copy_job_end(job);
    } while (rc == PFL_EAGAIN && has_copies); /* the rest has none yet */
    return rc;
}

int pfl_registry_commit(struct pfl_service *self, struct pfl_producer *producer,
                        struct pfl_span request)
{
    if (producer->smb.has_faulted)
        return PFL_EIO;
    if (producer->copier != NULL && pfl_smb_map_is_open(&producer->smb))
        return commit_copied(self, producer, request);
    return apply(self, producer, request);
}

void pfl_registry_add_consumer(struct pfl_service *self, struct pfl_consumer *consumer)
{
    if (consumer->who == 0)
        consumer->who = consumer->uid;
    pfl_observe_init(&consumer->observe);
    pfl_list_append(&self->consumers, &consumer->node);
}

void pfl_registry_remove_consumer(struct pfl_service *self, struct pfl_consumer *consumer)
{
    pfl_clone_forget_consumer(self, consumer);
    pfl_session_forget_flushes(self, consumer);
    if (consumer->session != NULL)
        pfl_session_end(self, consumer->session);
    pfl_list_remove(&consumer->node);
    pfl_observe_fini(&consumer->observe);
}
