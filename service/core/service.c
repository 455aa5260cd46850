/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's state: shares, producers' ids, names of data sources, and the table of buffers.
 *
 * Ids of producers and buffers are service-wide, cyclic, and never 0. Failures are returned and
 * leave everything as it was; limits: ids are 16 bits.
 */
#include "service/core/service.h"

#include <assert.h>

#include "base/closer.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/buffer/retired_rings.h"

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
    self->shares.buffer_ids.owner = self->shares.writer_bytes.owner = uid;
    self->flushes.waits.owner = uid;
    self->shares.sequence_id_bytes.owner = uid;
    self->triggers.shares.owner = self->scrape_budget.owner = self->vm_budget.owner = uid;
    self->judging.owner = uid;
}

static void open_shares(struct pfl_service *self)
{
    const struct pfl_service_conf *conf = &self->conf;
    const uint64_t buffer_bytes_max = conf->buffer_bytes_max;

    self->scrape_budget.units = PFL_SCRAPING_UNITS;
    self->vm_budget.units = PFL_SERVICE_VM_UNITS;
    self->judging.units = PFL_JUDGING_UNITS;
    self->judging.window_ms = PFL_JUDGING_WINDOW_MS;
    self->judging.leaves_half = true;
    self->connects.at_once = PFL_SERVICE_CONNECT_AT_ONCE;
    self->connects.per_s = PFL_SERVICE_CONNECT_PER_S;
    self->shares.producers.max = PFL_SERVICE_MAX_PRODUCERS;
    self->shares.consumers.max = PFL_SERVICE_MAX_CONSUMERS;
    self->shares.fds.max = conf->fds_max != 0 ? conf->fds_max : UINT32_MAX;
    self->shares.sources.max = PFL_SERVICE_MAX_SOURCES;
    self->shares.smb_bytes.max = PFL_SERVICE_MAX_SMB_BYTES;
    if (conf->memory_max != 0 &&
        conf->memory_max / PFL_SERVICE_SMB_PART < PFL_SERVICE_MAX_SMB_BYTES)
        self->shares.smb_bytes.max = conf->memory_max / PFL_SERVICE_SMB_PART;
    self->shares.peer_bytes.max = PFL_SERVICE_MAX_PEER_BYTES;
    self->shares.buffer_ids.max = PFL_SERVICE_MAX_BUFFERS;
    self->shares.writer_bytes.max = PFL_SERVICE_MAX_WRITER_BYTES;
    self->shares.sequence_id_bytes.max = PFL_SERVICE_MAX_SEQUENCE_ID_BYTES;
    self->shares.buffer_bytes.max = buffer_bytes_max != 0 ? buffer_bytes_max : INT64_MAX;
    if (conf->facts != NULL)
        pfl_service_set_owner(self, conf->facts->uid);
}

/* What the copier had is not read any more, and its user's next producers have no shared memory. */
static void on_copier_lost(void *user, const struct pfl_copier *copier)
{
    const struct pfl_turns_who who = {.user = copier->who, .subject = copier->who};
    const bool was_there = copier->has_answered || copier->is_late;
    const uint64_t unshared_ms = was_there ? PFL_SERVICE_UNSHARED_MS : PFL_SERVICE_UNSTARTED_MS;
    const uint64_t unshared_ns = unshared_ms * 1000000;
    struct pfl_service *self = user;
    struct pfl_list *lists[] = {&self->producers, &self->leaving, &self->copying};
    struct pfl_list *it;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        PFL_LIST_EACH (it, lists[i]) {
            struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);

            if (producer->copier != copier)
                continue;
            producer->copier = NULL;
            producer->is_attached = false;
            producer->smb.has_faulted = true;
        }
    }
    self->has_unshared = true;
    pfl_turns_take(&self->unshared, who, unshared_ns / PFL_TURNS_PART + PFL_TURNS_AT_ONCE,
                   pfl_service_now_ns(self));
    pfl_log_warn(was_there ? "copier-lost" : "copier-not-started",
                 "uid=%llu reason=\"the process that reads this user's shared memory %s\" "
                 "effect=\"producers are disconnected; for %llu s the user's chunks come in "
                 "messages\"",
                 (unsigned long long)copier->who,
                 copier->is_late ? "did not answer for 10 s" : "ended",
                 (unsigned long long)unshared_ms / 1000);
}

static uint64_t get_now_ms(void *user)
{
    return pfl_service_now_ms(user);
}

static void open_copies(struct pfl_service *self)
{
    pfl_copies_init(&self->copies, &(struct pfl_copies_conf){.ops = self->conf.copies,
                                                             .ops_user = self->conf.copies_user,
                                                             .now_ms = get_now_ms,
                                                             .on_lost = on_copier_lost,
                                                             .user = self});
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
    pfl_list_init(&self->copying);
    open_copies(self);
    pfl_list_init(&self->permitted);
    for (size_t i = 0; i < PFL_SERVICE_NAMES; i++)
        pfl_list_init(&self->sources_by_name[i]);
    for (size_t i = 0; i < PFL_SERVICE_INSTANCE_LISTS; i++)
        pfl_list_init(&self->instances_by_id[i]);
    pfl_list_init(&self->consumers);
    pfl_list_init(&self->sessions);
    pfl_list_init(&self->closing);
    pfl_list_init(&self->clones);
    pfl_observe_init(&self->nobody.observe);
    self->nobody.ops = &nobody_ops;
    pfl_flush_book_init(&self->flushes, &self->shares.peer_bytes);
    pfl_remote_machines_init(&self->relays);
    pfl_trigger_history_init(&self->triggers);
    open_shares(self);
    self->due_ms = self->clone_due_ms = PFL_SESSION_NEVER;
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
    while (!pfl_list_is_empty(&self->copying)) {
        struct pfl_producer *producer =
            PFL_CONTAINER_OF(self->copying.next, struct pfl_producer, node);

        if (producer->writers_len != 0)
            pfl_log_warn("scrape-cut", "producer=%s uid=%u reason=\"the service stops\"",
                         pfl_log_quote_str(producer->name), producer->uid);
        pfl_service_free_left(self, producer);
    }
    pfl_copies_fini(&self->copies);
    pfl_trigger_history_fini(&self->triggers);
    pfl_observe_fini(&self->nobody.observe);
    pfl_flush_book_fini(&self->flushes);
    pfl_remote_machines_fini(&self->relays);
    pfl_mem_free(self->buffers);
    self->buffers = NULL;
    pfl_retired_rings_release_all();
}

uint64_t pfl_service_now_ns(const struct pfl_service *self)
{
    return self->conf.now_ns(self->conf.user, PFL_CLOCK_MONOTONIC);
}

uint64_t pfl_service_now_ms(const struct pfl_service *self)
{
    return pfl_service_now_ns(self) / 1000000;
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

uint16_t pfl_service_new_producer_id(struct pfl_service *self)
{
    do {
        if (++self->last_producer_id == 0)
            self->last_producer_id = 1;
    } while (*id_word(self, self->last_producer_id) & id_bit(self->last_producer_id));
    *id_word(self, self->last_producer_id) |= id_bit(self->last_producer_id);
    return self->last_producer_id;
}

static void skip_passes(struct pfl_service *self, struct pfl_list *sessions,
                        const struct pfl_list *at)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions) {
        struct pfl_scrape_pass *pass = &PFL_CONTAINER_OF(it, struct pfl_session, node)->scrape;

        if (pass->at != at)
            continue;
        pfl_copy_job_end(&pass->copy);
        pass->waits_since_ms = 0;
        pass->at = at->next;
        pass->page = 0;
        self->is_scraping = true; /* it does not wait any more */
        pfl_service_look_at(self, 0);
    }
}

void pfl_service_forbid(struct pfl_service *self, struct pfl_producer *producer)
{
    if (producer->permitted.next == NULL)
        return;
    skip_passes(self, &self->sessions, &producer->permitted);
    skip_passes(self, &self->closing, &producer->permitted);
    pfl_list_remove(&producer->permitted);
}

static void leave_copier(struct pfl_producer *producer)
{
    struct pfl_copier *copier = producer->copier;

    pfl_copy_job_end(&producer->copy);
    producer->copier = NULL;
    if (copier == NULL)
        return;
    if (producer->is_attached)
        pfl_copier_detach(copier, producer->id);
    else
        pfl_copies_close(copier);
}

void pfl_service_free_producer(struct pfl_service *self, struct pfl_producer *producer)
{
    pfl_service_forbid(self, producer);
    pfl_list_remove(&producer->node);
    *id_word(self, producer->id) &= ~id_bit(producer->id);
    pfl_shares_give(&self->shares.peer_bytes, producer->who, producer->held_bytes);
    pfl_service_give_smb(self, producer);
    leave_copier(producer);
    pfl_producer_free(producer);
}

void pfl_service_free_left(struct pfl_service *self, struct pfl_producer *producer)
{
    pfl_list_remove(&producer->node);
    self->leaving_len--;
    if (producer->is_counted)
        pfl_service_give_connection(self, &self->shares.producers, producer->who);
    pfl_service_free_producer(self, producer);
}

static size_t hash_name(const struct pfl_service *self, struct pfl_span name)
{
    return pfl_hash_keyed(&self->hash_key, name) % PFL_SERVICE_NAMES;
}

struct pfl_list *pfl_service_get_named(struct pfl_service *self, struct pfl_span name)
{
    return &self->sources_by_name[hash_name(self, name)];
}

void pfl_service_add_instance(struct pfl_service *self, struct pfl_instance *instance)
{
    instance->id = ++self->last_instance_id;
    pfl_list_append(&self->instances_by_id[instance->id % PFL_SERVICE_INSTANCE_LISTS],
                    &instance->of_id);
}

struct pfl_instance *pfl_service_find_instance(const struct pfl_service *self,
                                               const struct pfl_producer *producer,
                                               uint64_t id_untrusted)
{
    const struct pfl_list *instances =
        &self->instances_by_id[id_untrusted % PFL_SERVICE_INSTANCE_LISTS];
    struct pfl_list *it;

    PFL_LIST_EACH (it, instances) {
        struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_id);

        if (instance->id == id_untrusted && instance->producer == producer)
            return instance;
    }
    return NULL;
}

int pfl_service_allow(struct pfl_service *self, struct pfl_producer *producer, uint16_t buffer_id)
{
    int rc = pfl_producer_allow(producer, buffer_id);

    if (rc == 0 && producer->permitted.next == NULL) {
        producer->permitted_serial = ++self->permitted_seen;
        pfl_list_append(&self->permitted, &producer->permitted);
    }
    return rc;
}

/* A user that is not bound is charged what is really in use: most connections need fewer. */
static uint64_t count_fds(const struct pfl_service *self, uint64_t who)
{
    return pfl_shares_is_bound(&self->shares.fds, who) ? PFL_SERVICE_CONN_FDS : 0;
}

bool pfl_service_may_connect(struct pfl_service *self, uint64_t who)
{
    if (!pfl_shares_is_bound(&self->shares.producers, who) ||
        pfl_user_rates_take(&self->connects, who,
                            self->conf.now_ns(self->conf.user, PFL_CLOCK_MONOTONIC)))
        return true;
    self->connections_refused++;
    return false;
}

bool pfl_service_take_connection(struct pfl_service *self, struct pfl_shares *listener,
                                 uint64_t who)
{
    if (!pfl_shares_take(listener, who, 1))
        goto refused;
    if (!pfl_shares_take(&self->shares.fds, who, count_fds(self, who)))
        goto no_fds;
    if (pfl_shares_take(&self->shares.peer_bytes, who, PFL_SERVICE_CONN_BYTES))
        return true;
    pfl_shares_give(&self->shares.fds, who, count_fds(self, who));
no_fds:
    pfl_shares_give(listener, who, 1);
refused:
    self->connections_refused++;
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

struct pfl_service_time pfl_service_begin_time(const struct pfl_service *self)
{
    return (struct pfl_service_time){.began_ns = pfl_service_now_ns(self),
                                     .timed_ns = self->timed_ns};
}

void pfl_service_end_time(struct pfl_service *self, struct pfl_turns_who who,
                          struct pfl_service_time begin)
{
    uint64_t now_ns = pfl_service_now_ns(self);
    uint64_t cost_ns = now_ns - begin.began_ns - (self->timed_ns - begin.timed_ns);

    self->timed_ns += cost_ns;
    if (pfl_shares_is_bound(&self->shares.consumers, who.user))
        pfl_turns_take(&self->turns, who, cost_ns, now_ns);
}

uint64_t pfl_service_get_wait_ms(const struct pfl_service *self, struct pfl_turns_who who)
{
    return pfl_turns_get_wait_ms(&self->turns, who, pfl_service_now_ns(self));
}

void pfl_service_check_memory(struct pfl_service *self, struct pfl_producer *producer)
{
    (void)self;
    if (!producer->smb.has_faulted || producer->is_unreadable)
        return;
    producer->is_unreadable = true;
    pfl_log_warn("producer-memory-unreadable", "producer=%s uid=%u",
                 pfl_log_quote_str(producer->name), producer->uid);
}

/* The charge stays until the producer is freed, or this fails. */
static int attach_smb(struct pfl_service *self, struct pfl_producer *producer, uint64_t taken)
{
    struct pfl_smb_map *smb = &producer->smb;
    int rc = 0;

    if (producer->copier != NULL)
        rc = pfl_copier_attach(producer->copier, producer->id, smb->smb.page_bytes, smb->fd, false);
    producer->is_attached = rc == 0 && producer->copier != NULL;
    if (rc == 0 || rc == PFL_EAGAIN)
        return 0;
    pfl_smb_map_fini(smb);
    pfl_shares_give(&self->shares.smb_bytes, producer->who, taken);
    producer->smb_taken_bytes -= taken;
    return rc;
}

void pfl_service_attach_smb(struct pfl_producer *producer)
{
    const struct pfl_smb_map *smb = &producer->smb;

    if (producer->is_attached)
        return;
    producer->is_attached = true;
    if (pfl_copier_attach(producer->copier, producer->id, smb->smb.page_bytes, smb->fd, true) != 0)
        pfl_copier_on_end(producer->copier); /* it takes nothing more */
}

int pfl_service_create_smb(struct pfl_service *self, struct pfl_producer *producer,
                           struct pfl_smb_size size)
{
    int rc = pfl_service_take_smb(self, producer, size.smb_bytes);

    if (rc != 0)
        return rc;
    rc = pfl_smb_map_create(&producer->smb, size, producer->copier == NULL);
    if (rc != 0) {
        pfl_service_give_smb(self, producer);
        return rc;
    }
    return attach_smb(self, producer, size.smb_bytes);
}

int pfl_service_adopt_smb(struct pfl_service *self, struct pfl_producer *producer, int fd)
{
    int rc =
        pfl_smb_map_adopt(&producer->smb, fd, producer->page_hint_bytes, producer->copier == NULL);

    if (rc != 0) {
        pfl_closer_close(fd, (uint32_t)producer->who);
        return rc;
    }
    rc = pfl_service_take_smb(self, producer, producer->smb.bytes);
    if (rc != 0) {
        pfl_smb_map_fini(&producer->smb);
        return rc;
    }
    return attach_smb(self, producer, producer->smb.bytes);
}

bool pfl_service_shares_memory(const struct pfl_service *self, uint64_t who)
{
    const struct pfl_turns_who user = {.user = who, .subject = who};

    return !self->has_unshared ||
           pfl_turns_get_wait_ms(&self->unshared, user, pfl_service_now_ns(self)) == 0;
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

    if (!pfl_shares_take(&self->shares.buffer_ids, session->who, len))
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
            pfl_service_forbid(self, producer);
    }
    self->buffers_len -= session->plan->buffers_len;
    pfl_shares_give(&self->shares.buffer_ids, session->who, session->plan->buffers_len);
    if (pfl_list_is_empty(&self->sessions))
        pfl_remote_machines_forget_gone(&self->relays);
}
