/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers, consumers and the buffer table.
 *
 * A producer is added when it introduces itself, gets an id that no live producer has, registers
 * data sources (sessions that want them are joined at once: session_setup.c), commits chunks, and
 * is removed when its connection is over: its instances end as STOPPED and may thereby end a
 * session's stop, what lies in its memory is scraped in turns of the loop, and it keeps memory, id
 * and what is counted for them until that is done. A consumer owns at most one session, which
 * goes with it. Buffer ids are service-wide, cyclic, and never 0.
 *
 * Failures are returned and leave everything as it was; limits: ids are 16 bits.
 */
#include "service/control/service.h"

#include <assert.h>

#include "base/hash.h"
#include "base/mem.h"
#include "service/buffer/retired_rings.h"
#include "service/session/clone.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_flush.h"
#include "service/session/session_run.h"
#include "service/session/session_setup.h"

static void ignore(void *port)
{
    (void)port;
}

static void ignore_flush(void *port, const struct pfl_flush *flush, bool is_ok)
{
    (void)port;
    (void)flush;
    (void)is_ok;
}

static void ignore_clone(void *port, const struct pfl_clone_result *result)
{
    (void)port;
    (void)result;
}

static void ignore_end(void *port, const char *why)
{
    (void)port;
    (void)why;
}

static const struct pfl_consumer_ops nobody_ops = {.on_disabled = ignore_end,
                                                   .on_flush_done = ignore_flush,
                                                   .on_session_gone = ignore,
                                                   .on_read_ready = ignore,
                                                   .on_cloned = ignore_clone,
                                                   .on_observed = ignore};

void pfl_service_set_owner(struct pfl_service *self, uint32_t uid)
{
    self->shares.producers.owner = self->shares.consumers.owner = self->shares.fds.owner = uid;
    self->shares.sources.owner = self->shares.smb_bytes.owner = uid;
    self->shares.peer_bytes.owner = self->shares.buffer_bytes.owner = uid;
    self->triggers.shares.owner = self->scraping.owner = self->vms.owner = uid;
}

static void open_shares(struct pfl_service *self)
{
    const struct pfl_service_conf *conf = &self->conf;
    const uint64_t buffer_bytes_max = conf->buffer_bytes_max;

    self->scraping.units = PFL_SCRAPING_UNITS;
    self->vms.units = PFL_SERVICE_VM_UNITS;
    self->shares.producers.max = PFL_SERVICE_MAX_PRODUCERS;
    self->shares.consumers.max = PFL_SERVICE_MAX_CONSUMERS;
    self->shares.fds.max = conf->fds_max != 0 ? conf->fds_max : UINT32_MAX;
    self->shares.sources.max = PFL_SERVICE_MAX_SOURCES;
    self->shares.smb_bytes.max = PFL_SERVICE_MAX_SMB_BYTES;
    self->shares.peer_bytes.max = PFL_SERVICE_MAX_PEER_BYTES;
    self->shares.buffer_bytes.max = buffer_bytes_max != 0 ? buffer_bytes_max : INT64_MAX;
    if (conf->facts != NULL)
        pfl_service_set_owner(self, conf->facts->uid);
}

int pfl_service_init(struct pfl_service *self, const struct pfl_service_conf *conf)
{
    *self = (struct pfl_service){.conf = *conf};
    if (conf->random != NULL)
        conf->random(conf->user, &self->hash_key, sizeof(self->hash_key));
    if (self->conf.sessions_max == 0)
        self->conf.sessions_max = PFL_SERVICE_MAX_SESSIONS;
    if (self->conf.sessions_per_uid_max == 0)
        self->conf.sessions_per_uid_max = PFL_SERVICE_MAX_SESSIONS_PER_UID;
    pfl_list_init(&self->producers);
    pfl_list_init(&self->leaving);
    pfl_list_init(&self->permitted);
    for (size_t i = 0; i < PFL_SERVICE_NAMES; i++)
        pfl_list_init(&self->sources_by_name[i]);
    pfl_list_init(&self->consumers);
    pfl_list_init(&self->sessions);
    pfl_list_init(&self->closing);
    pfl_list_init(&self->clones);
    pfl_observe_init(&self->nobody.observe);
    self->nobody.ops = &nobody_ops;
    pfl_flush_book_init(&self->flushes);
    pfl_remote_machines_init(&self->relays);
    pfl_trigger_history_init(&self->triggers);
    open_shares(self);
    self->due_ms = PFL_SESSION_NEVER;
    self->copy_bytes_left = PFL_CLONE_TURN_BYTES;
    self->scrape_units_left = PFL_SCRAPE_TURN_UNITS;
    self->buffers = pfl_mem_calloc(PFL_SERVICE_BUFFER_IDS, sizeof(self->buffers[0]));
    return self->buffers != NULL ? 0 : PFL_ENOMEM;
}

void pfl_service_fini(struct pfl_service *self)
{
    assert(pfl_list_is_empty(&self->producers) && pfl_list_is_empty(&self->consumers) &&
           pfl_list_is_empty(&self->sessions) && pfl_list_is_empty(&self->closing) &&
           pfl_list_is_empty(&self->clones));
    while (!pfl_list_is_empty(&self->leaving))
        pfl_service_free_left(self,
                              PFL_CONTAINER_OF(self->leaving.next, struct pfl_producer, node));
    pfl_trigger_history_fini(&self->triggers);
    pfl_observe_fini(&self->nobody.observe);
    pfl_flush_book_fini(&self->flushes);
    pfl_remote_machines_fini(&self->relays);
    pfl_mem_free(self->buffers);
    self->buffers = NULL;
    pfl_retired_rings_release_all();
}

uint64_t pfl_service_now_ms(const struct pfl_service *self)
{
    return self->conf.now_ns(self->conf.user, PFL_CLOCK_MONOTONIC) / 1000000;
}

uint64_t pfl_service_boottime_ns(const struct pfl_service *self)
{
    return self->conf.now_ns(self->conf.user, PFL_CLOCK_BOOTTIME);
}

static uint64_t *id_word(struct pfl_service *self, uint16_t id)
{
    return &self->producer_ids[id / 64];
}

static uint64_t id_bit(uint16_t id)
{
    return 1ull << (id % 64);
}

static uint16_t next_producer_id(struct pfl_service *self)
{
    do {
        if (++self->last_producer_id == 0)
            self->last_producer_id = 1;
    } while (*id_word(self, self->last_producer_id) & id_bit(self->last_producer_id));
    *id_word(self, self->last_producer_id) |= id_bit(self->last_producer_id);
    return self->last_producer_id;
}

/* What it costs now is counted. */
static bool count_bytes(struct pfl_service *self, struct pfl_producer *producer)
{
    return pfl_shares_set(&self->shares.peer_bytes, producer->who, &producer->held_bytes,
                          pfl_producer_get_bytes(producer));
}

int pfl_service_add_producer(struct pfl_service *self, const struct pfl_producer_conf *conf,
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
    producer->id = next_producer_id(self);
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

static void free_producer(struct pfl_service *self, struct pfl_producer *producer)
{
    pfl_scrape_turns_forbid(self, producer);
    *id_word(self, producer->id) &= ~id_bit(producer->id);
    pfl_shares_give(&self->shares.peer_bytes, producer->who, producer->held_bytes);
    pfl_service_give_smb(self, producer);
    pfl_producer_free(producer);
}

void pfl_service_free_left(struct pfl_service *self, struct pfl_producer *producer)
{
    pfl_list_remove(&producer->node);
    self->leaving_len--;
    if (producer->is_counted)
        pfl_service_give_connection(self, &self->shares.producers, producer->who);
    free_producer(self, producer);
}

bool pfl_service_remove_producer(struct pfl_service *self, struct pfl_producer *producer)
{
    uint16_t id = producer->id;
    bool is_scraped;

    pfl_list_remove(&producer->node);
    self->producers_len--;
    is_scraped = pfl_scrape_turns_take_producer(self, producer);
    if (is_scraped)
        pfl_scrape_turns_forbid(self, producer);
    drop_instances(self, producer);
    drop_sources(self, producer);
    if (is_scraped)
        free_producer(self, producer);
    pfl_session_lose_flushes(self, id); /* which may end sessions */
    return is_scraped;
}

static size_t hash_name(const struct pfl_service *self, struct pfl_span name)
{
    return pfl_hash_keyed(&self->hash_key, name) % PFL_SERVICE_NAMES;
}

const struct pfl_list *pfl_service_get_named(const struct pfl_service *self, struct pfl_span name)
{
    return &self->sources_by_name[hash_name(self, name)];
}

int pfl_service_allow(struct pfl_service *self, struct pfl_producer *producer, uint16_t buffer_id)
{
    int rc = pfl_producer_allow(producer, buffer_id);

    if (rc == 0 && producer->permitted.next == NULL)
        pfl_list_append(&self->permitted, &producer->permitted);
    return rc;
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

int pfl_service_register_source(struct pfl_service *self, struct pfl_producer *producer,
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
    pfl_list_append(&self->sources_by_name[hash_name(self, source->info.name)], &source->of_name);
    pfl_session_setup_source(self, producer, source);
    return 0;
}

int pfl_service_update_source(struct pfl_service *self, struct pfl_producer *producer,
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

void pfl_service_unregister_source(struct pfl_service *self, struct pfl_producer *producer,
                                   struct pfl_span name)
{
    struct pfl_data_source *source = pfl_producer_find_source(producer, name);
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (source == NULL)
        return;
    PFL_LIST_EACH_SAFE (it, tmp, &producer->instances) {
        struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_producer);

        if (pfl_span_eq(pfl_session_source_of(instance->session, instance)->name, name))
            pfl_session_drop_instance(self, instance);
    }
    pfl_producer_remove_source(producer, source);
    pfl_shares_give(&self->shares.sources, producer->who, 1);
    (void)count_bytes(self, producer);
    self->sources_len--;
}

int pfl_service_set_writer(struct pfl_service *self, struct pfl_producer *producer,
                           uint32_t writer_id_untrusted, uint32_t buffer_id_untrusted)
{
    int rc = pfl_producer_set_writer(producer, writer_id_untrusted, buffer_id_untrusted);

    return rc == 0 && !count_bytes(self, producer) ? PFL_ELIMIT : rc;
}

/* Who is not bound has what there really is: most connections need fewer. */
static uint64_t count_fds(const struct pfl_service *self, uint64_t who)
{
    return pfl_shares_is_bound(&self->shares.fds, who) ? PFL_SERVICE_CONN_FDS : 0;
}

bool pfl_service_take_connection(struct pfl_service *self, struct pfl_shares *listener,
                                 uint64_t who)
{
    if (!pfl_shares_take(listener, who, 1))
        return false;
    if (!pfl_shares_take(&self->shares.fds, who, count_fds(self, who)))
        goto no_fds;
    if (pfl_shares_take(&self->shares.peer_bytes, who, PFL_SERVICE_CONN_BYTES))
        return true;
    pfl_shares_give(&self->shares.fds, who, count_fds(self, who));
no_fds:
    pfl_shares_give(listener, who, 1);
    return false;
}

void pfl_service_give_connection(struct pfl_service *self, struct pfl_shares *listener,
                                 uint64_t who)
{
    pfl_shares_give(listener, who, 1);
    pfl_shares_give(&self->shares.fds, who, count_fds(self, who));
    pfl_shares_give(&self->shares.peer_bytes, who, PFL_SERVICE_CONN_BYTES);
}

int pfl_service_take_smb(struct pfl_service *self, struct pfl_producer *producer, uint64_t bytes)
{
    if (!pfl_shares_take(&self->shares.smb_bytes, producer->who, bytes))
        return PFL_ELIMIT;
    producer->smb_taken_bytes += bytes;
    return 0;
}

void pfl_service_give_smb(struct pfl_service *self, struct pfl_producer *producer)
{
    pfl_shares_give(&self->shares.smb_bytes, producer->who, producer->smb_taken_bytes);
    producer->smb_taken_bytes = 0;
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

int pfl_service_commit(struct pfl_service *self, struct pfl_producer *producer,
                       struct pfl_span request)
{
    struct commit_scope scope = {.service = self, .producer = producer};
    struct pfl_commit_conf conf = {
        .identity = {.producer_id = producer->id,
                     .uid = producer->uid,
                     .pid = producer->pid,
                     .machine_id = producer->machine_id},
        .map = &producer->smb,
        .is_emulated = producer->is_emulated,
        .get_allowed_buffer = get_allowed_buffer,
        .get_buffer = get_buffer,
        .user = &scope,
        .counters = &self->commits,
    };
    uint64_t flush_id = 0;
    int rc = pfl_commit_apply(&conf, request, &flush_id);

    if (rc == 0 && flush_id != 0)
        pfl_session_ack_flush(self, producer, flush_id);
    return rc;
}

void pfl_service_add_consumer(struct pfl_service *self, struct pfl_consumer *consumer)
{
    if (consumer->who == 0)
        consumer->who = consumer->uid;
    pfl_observe_init(&consumer->observe);
    pfl_list_append(&self->consumers, &consumer->node);
}

void pfl_service_remove_consumer(struct pfl_service *self, struct pfl_consumer *consumer)
{
    pfl_clone_forget_consumer(self, consumer);
    pfl_session_forget_flushes(self, consumer);
    if (consumer->session != NULL)
        pfl_session_end(self, consumer->session);
    pfl_list_remove(&consumer->node);
    pfl_observe_fini(&consumer->observe);
}

struct pfl_session *pfl_service_find_session(const struct pfl_service *self, uint64_t id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->id == id)
            return session;
    }
    return NULL;
}

int pfl_service_add_buffers(struct pfl_service *self, struct pfl_session *session)
{
    size_t len = session->plan->buffers_len;

    if (len > PFL_SERVICE_BUFFER_IDS - 1 - self->buffers_len)
        return PFL_ELIMIT;
    for (size_t i = 0; i < len; i++) {
        do {
            if (++self->last_buffer_id == 0)
                self->last_buffer_id = 1;
        } while (self->buffers[self->last_buffer_id].ring != NULL);
        session->buffers[i].id = self->last_buffer_id;
        self->buffers[self->last_buffer_id] =
            (struct pfl_service_buffer){.ring = session->buffers[i].ring, .session = session};
    }
    self->buffers_len += len;
    return 0;
}

void pfl_service_remove_buffers(struct pfl_service *self, struct pfl_session *session)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    pfl_figures_keep_session(&self->gone, session);
    for (size_t i = 0; i < session->plan->buffers_len; i++)
        self->buffers[session->buffers[i].id] = (struct pfl_service_buffer){0};
    PFL_LIST_EACH_SAFE (it, tmp, &self->permitted) {
        struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, permitted);

        for (size_t i = 0; i < session->plan->buffers_len; i++)
            pfl_producer_forbid(producer, session->buffers[i].id);
        if (producer->allowed == NULL)
            pfl_scrape_turns_forbid(self, producer);
    }
    self->buffers_len -= session->plan->buffers_len;
    if (pfl_list_is_empty(&self->sessions))
        pfl_remote_machines_forget_gone(&self->relays);
}
