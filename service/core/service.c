/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's state: shares, producers' ids, names of data sources, and the table of buffers.
 *
 * Ids of producers and buffers are service-wide, cyclic, and never 0. Failures are returned and
 * leave everything as it was; limits: ids are 16 bits.
 */
#include "service/core/service.h"

#include <assert.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/buffer/retired_rings.h"

#define SEAL_LOOK_MAX_MS 250u
#define SEAL_LATE_MS     1000u

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
    pfl_list_init(&self->sealing);
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
    while (!pfl_list_is_empty(&self->sealing)) {
        struct pfl_producer *producer =
            PFL_CONTAINER_OF(self->sealing.next, struct pfl_producer, node);

        if (producer->writers_len != 0)
            pfl_log_warn("scrape-cut", "producer=%s uid=%u reason=\"the service stops\"",
                         pfl_log_quote_str(producer->name), producer->uid);
        pfl_service_free_left(self, producer);
    }
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

static void skip_passes(struct pfl_list *sessions, const struct pfl_list *at)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions) {
        struct pfl_scrape_pass *pass = &PFL_CONTAINER_OF(it, struct pfl_session, node)->scrape;

        if (pass->at != at)
            continue;
        pass->at = at->next;
        pass->page = 0;
    }
}

void pfl_service_forbid(struct pfl_service *self, struct pfl_producer *producer)
{
    if (producer->permitted.next == NULL)
        return;
    skip_passes(&self->sessions, &producer->permitted);
    skip_passes(&self->closing, &producer->permitted);
    pfl_list_remove(&producer->permitted);
}

void pfl_service_free_producer(struct pfl_service *self, struct pfl_producer *producer)
{
    pfl_service_forbid(self, producer);
    *id_word(self, producer->id) &= ~id_bit(producer->id);
    pfl_shares_give(&self->shares.peer_bytes, producer->who, producer->held_bytes);
    if (producer->smb.state == PFL_SMB_OURS) /* else it stays */
        pfl_service_give_smb(self, producer);
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
    const struct pfl_turns_who user = {.user = producer->who, .subject = producer->who};
    const uint64_t fault_ns = PFL_SERVICE_FAULT_MS * (uint64_t)1000000;
    uint64_t now_ns;

    if (!producer->smb.has_faulted || producer->is_unreadable)
        return;
    producer->is_unreadable = true;
    pfl_log_warn("producer-memory-unreadable", "producer=%s uid=%u",
                 pfl_log_quote_str(producer->name), producer->uid);
    if (!pfl_shares_is_bound(&self->shares.smb_bytes, producer->who))
        return;
    now_ns = pfl_service_now_ns(self);
    pfl_turns_take(&self->faults, user, fault_ns / PFL_TURNS_PART + PFL_TURNS_AT_ONCE, now_ns);
    if (self->faults_end_ns < now_ns)
        self->faults_end_ns = now_ns;
    self->faults_end_ns += 2 * fault_ns; /* more than it adds to any user's due time */
}

/* Its memory stays mapped, and counted: no more of it is made. */
static void on_foreign_memory(struct pfl_service *self, struct pfl_producer *producer)
{
    const struct pfl_turns_who user = {.user = producer->who, .subject = producer->who};
    const uint64_t unshared_ns = PFL_SERVICE_UNSHARED_MS * (uint64_t)1000000;

    if (producer->is_unreadable)
        return;
    producer->is_unreadable = true;
    self->has_unshared = true;
    pfl_turns_take(&self->unshared, user, unshared_ns / PFL_TURNS_PART + PFL_TURNS_AT_ONCE,
                   pfl_service_now_ns(self));
    pfl_log_warn(
        "producer-memory-foreign",
        "producer=%s uid=%u reason=\"the memory that the service made got a seal against seals\" "
        "effect=\"this user's producers have no shared memory for 30 days\"",
        pfl_log_quote_str(producer->name), producer->uid);
}

static void note_late_seal(struct pfl_producer *producer, uint64_t waited_ms)
{
    if (producer->is_seal_late || waited_ms < SEAL_LATE_MS)
        return;
    producer->is_seal_late = true;
    pfl_log_warn(
        "producer-memory-unsealed",
        "producer=%s uid=%u waited_ms=%llu reason=\"a hole is being made in the memory that "
        "the service made, or there is no thread or pipe\" effect=\"the producer waits\"",
        pfl_log_quote_str(producer->name), producer->uid, (unsigned long long)waited_ms);
}

uint64_t pfl_service_get_seal_wait_ms(struct pfl_service *self, struct pfl_producer *producer)
{
    uint64_t now_ms;
    uint64_t waited_ms;

    if (producer->smb.state == PFL_SMB_OURS)
        return 0;
    now_ms = pfl_service_now_ms(self);
    if (producer->sealing_since_ms == 0)
        producer->sealing_since_ms = now_ms;
    switch (pfl_smb_map_seal(&producer->smb)) {
    case PFL_SMB_FOREIGN:
        on_foreign_memory(self, producer);
        return 0;
    case PFL_SMB_OURS:
        return 0;
    case PFL_SMB_SHARED:
    case PFL_SMB_SEALING:
    default:
        waited_ms = now_ms - producer->sealing_since_ms;
        note_late_seal(producer, waited_ms);
        return waited_ms < 4                      ? 1
               : waited_ms / 4 < SEAL_LOOK_MAX_MS ? waited_ms / 4
                                                  : SEAL_LOOK_MAX_MS;
    }
}

bool pfl_service_shares_memory(const struct pfl_service *self, uint64_t who)
{
    const struct pfl_turns_who user = {.user = who, .subject = who};

    return !self->has_unshared ||
           pfl_turns_get_wait_ms(&self->unshared, user, pfl_service_now_ns(self)) == 0;
}

uint64_t pfl_service_get_fault_wait_ms(const struct pfl_service *self, uint64_t who)
{
    const struct pfl_turns_who user = {.user = who, .subject = who};
    uint64_t now_ns = self->faults_end_ns != 0 ? pfl_service_now_ns(self) : 0;

    return now_ns < self->faults_end_ns ? pfl_turns_get_wait_ms(&self->faults, user, now_ns) : 0;
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
