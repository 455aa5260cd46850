/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copiers and their jobs: see copies.h.
 *
 * Happy path: open starts a user's copier; attach passes it a memory. A job begins: it owns the
 * area at once, or when those before it have ended. It asks; the answer comes from the loop; the
 * job reads the entries, each of which is copied and checked, and ends.
 * Failures: a copier that ends, by itself or because it does not answer or takes no message, is
 * lost: its jobs are, too, then the service knows. A job that ends while the copier is at work
 * leaves the area to the copier until the answer. Owns the copiers. Limits: PFL_COPIES_*.
 */
#include "service/core/copies.h"

#include <string.h>

#include "base/mem.h"

void pfl_copies_init(struct pfl_copies *self, const struct pfl_copies_conf *conf)
{
    *self = (struct pfl_copies){.conf = *conf};
    pfl_list_init(&self->copiers);
}

static bool has_many_ids(uint64_t who)
{
    return who >= PFL_COPIES_MANY_IDS;
}

/* Takes it out of the list, and ends the process. */
static void end(struct pfl_copier *copier)
{
    struct pfl_copies *copies = copier->copies;

    pfl_list_remove(&copier->node);
    copies->len--;
    copies->of_many_ids -= has_many_ids(copier->who);
    copies->conf.ops->close(copier->process);
}

static void free_copier(struct pfl_copier *copier)
{
    pfl_mem_free(copier->left);
    pfl_mem_free(copier);
}

void pfl_copies_fini(struct pfl_copies *self)
{
    while (!pfl_list_is_empty(&self->copiers)) {
        struct pfl_copier *copier = PFL_CONTAINER_OF(self->copiers.next, struct pfl_copier, node);

        end(copier);
        free_copier(copier);
    }
}

static struct pfl_copier *find(const struct pfl_copies *self, uint64_t who)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->copiers) {
        struct pfl_copier *copier = PFL_CONTAINER_OF(it, struct pfl_copier, node);

        if (copier->who == who)
            return copier;
    }
    return NULL;
}

static bool has_room(const struct pfl_copies *self, uint64_t who)
{
    return self->len < PFL_COPIES_MAX &&
           (!has_many_ids(who) || self->of_many_ids < PFL_COPIES_MAX / 2);
}

/* Of those whose ids are as many, or of all: one that nobody needs. */
static void end_idle(struct pfl_copies *self, uint64_t who)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->copiers) {
        struct pfl_copier *copier = PFL_CONTAINER_OF(it, struct pfl_copier, node);

        if (copier->memories != 0 || copier->is_asked ||
            (has_many_ids(who) && !has_many_ids(copier->who)))
            continue;
        end(copier);
        free_copier(copier);
        return;
    }
}

static struct pfl_copier *start(struct pfl_copies *self, uint64_t who)
{
    struct pfl_copier *copier = pfl_mem_zalloc(sizeof(*copier));

    if (copier == NULL)
        return NULL;
    copier->copies = self;
    copier->who = who;
    pfl_list_init(&copier->waiting);
    copier->process = self->conf.ops->open(self->conf.ops_user, copier, &copier->area);
    if (copier->process == NULL) {
        free_copier(copier);
        return NULL;
    }
    pfl_list_append(&self->copiers, &copier->node);
    self->len++;
    self->of_many_ids += has_many_ids(who);
    return copier;
}

struct pfl_copier *pfl_copies_open(struct pfl_copies *self, uint64_t who)
{
    struct pfl_copier *copier = find(self, who);

    if (copier == NULL && self->conf.ops != NULL) {
        if (!has_room(self, who))
            end_idle(self, who);
        if (has_room(self, who))
            copier = start(self, who);
    }
    if (copier != NULL)
        copier->memories++;
    return copier;
}

void pfl_copies_close(struct pfl_copier *copier)
{
    if (--copier->memories != 0 || copier->is_asked || copier->copies->len <= PFL_COPIES_IDLE)
        return;
    end(copier);
    free_copier(copier);
}

/* ---- the end of a copier ---- */

static void lose_job(struct pfl_copy_job *job)
{
    job->copier = NULL;
    job->state = PFL_COPY_JOB_LOST;
    if (job->on_change != NULL)
        job->on_change(job);
}

static void lose(struct pfl_copier *copier)
{
    struct pfl_copies *copies = copier->copies;
    struct pfl_copy_job *owner = copier->owner;

    end(copier);
    copies->conf.on_lost(copies->conf.user, copier);
    copier->owner = NULL;
    if (owner != NULL)
        lose_job(owner);
    while (!pfl_list_is_empty(&copier->waiting)) {
        struct pfl_copy_job *job =
            PFL_CONTAINER_OF(copier->waiting.next, struct pfl_copy_job, node);

        pfl_list_remove(&job->node);
        lose_job(job);
    }
    free_copier(copier);
}

void pfl_copier_on_end(struct pfl_copier *self)
{
    lose(self);
}

static uint64_t get_due_ms(const struct pfl_copier *copier)
{
    if (!copier->is_asked)
        return UINT64_MAX;
    return copier->is_late ? copier->late_ms + PFL_COPIES_LAST_MS
                           : copier->asked_ms + PFL_COPIES_LIMIT_MS;
}

uint64_t pfl_copies_get_due_ms(const struct pfl_copies *self)
{
    uint64_t due_ms = UINT64_MAX;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->copiers) {
        uint64_t its_ms = get_due_ms(PFL_CONTAINER_OF(it, struct pfl_copier, node));

        due_ms = its_ms < due_ms ? its_ms : due_ms;
    }
    return due_ms;
}

void pfl_copies_check(struct pfl_copies *self)
{
    uint64_t now_ms = self->len != 0 ? self->conf.now_ms(self->conf.user) : 0;
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->copiers) {
        struct pfl_copier *copier = PFL_CONTAINER_OF(it, struct pfl_copier, node);

        if (get_due_ms(copier) > now_ms)
            continue;
        if (copier->is_late) {
            lose(copier);
            continue;
        }
        copier->is_late = true;
        copier->late_ms = now_ms;
    }
}

/* A copier that takes no message has not answered hundreds of them. */
static int send(struct pfl_copier *self, const struct pfl_copy_message *message, int fd)
{
    return self->copies->conf.ops->send(self->process, message, fd);
}

static int send_detach(struct pfl_copier *self, uint32_t map)
{
    const struct pfl_copy_message message = {.kind = PFL_COPY_DETACH, .map = map};

    self->in_flight++;
    return send(self, &message, -1);
}

/* It may have been the map of another memory, which is not detached yet. */
static int detach_left(struct pfl_copier *self, uint32_t map)
{
    const uint64_t bit = 1ull << map % 64;

    if (self->left == NULL || (self->left[map / 64] & bit) == 0)
        return 0;
    self->left[map / 64] &= ~bit;
    self->left_len--;
    return send_detach(self, map);
}

int pfl_copier_attach(struct pfl_copier *self, uint32_t map, uint32_t page_bytes, int fd,
                      bool is_needed)
{
    const struct pfl_copy_message message = {
        .kind = PFL_COPY_ATTACH, .map = map, .page_bytes = page_bytes};
    int rc;

    if (self->in_flight >= PFL_COPIES_IN_FLIGHT && !is_needed)
        return PFL_EAGAIN;
    rc = detach_left(self, map);
    if (rc == 0)
        rc = send(self, &message, fd);
    self->in_flight += rc == 0;
    return rc;
}

/* False: out of memory. */
static bool note_left(struct pfl_copier *self, uint32_t map)
{
    if (self->left == NULL)
        self->left = pfl_mem_calloc(PFL_COPY_MAPS / 64, sizeof(self->left[0]));
    if (self->left == NULL)
        return false;
    self->left[map / 64] |= 1ull << map % 64;
    self->left_len++;
    return true;
}

void pfl_copier_detach(struct pfl_copier *self, uint32_t map)
{
    bool is_done =
        self->in_flight < PFL_COPIES_IN_FLIGHT ? send_detach(self, map) == 0 : note_left(self, map);

    if (is_done)
        pfl_copies_close(self);
    else
        lose(self);
}

/* As many as there is room for. False: the copier has ended. */
static bool detach_some(struct pfl_copier *self)
{
    for (uint32_t i = 0; self->left_len != 0 && i < PFL_COPY_MAPS / 64; i++) {
        while (self->left[i] != 0) {
            if (self->in_flight >= PFL_COPIES_IN_FLIGHT)
                return true;
            if (detach_left(self, i * 64 + (uint32_t)__builtin_ctzll(self->left[i])) != 0)
                return false;
        }
    }
    return true;
}

/* ---- jobs ---- */

static void own(struct pfl_copier *copier, struct pfl_copy_job *job)
{
    copier->owner = job;
    job->state = PFL_COPY_JOB_OWNS;
}

static void pass_area(struct pfl_copier *copier)
{
    struct pfl_copy_job *job;

    if (copier->owner != NULL || copier->is_asked || pfl_list_is_empty(&copier->waiting))
        return;
    job = PFL_CONTAINER_OF(copier->waiting.next, struct pfl_copy_job, node);
    pfl_list_remove(&job->node);
    own(copier, job);
    if (job->on_change != NULL)
        job->on_change(job);
}

void pfl_copy_job_begin(struct pfl_copy_job *self, struct pfl_copier *copier)
{
    self->copier = copier;
    self->used = 0;
    if (copier->owner == NULL && !copier->is_asked && pfl_list_is_empty(&copier->waiting)) {
        own(copier, self);
        return;
    }
    self->state = PFL_COPY_JOB_WAITS;
    pfl_list_append(&copier->waiting, &self->node);
}

void pfl_copy_job_ask(struct pfl_copy_job *self, enum pfl_copy_kind kind, uint32_t map,
                      uint32_t page)
{
    const struct pfl_copy_message message = {.kind = kind, .map = map, .page = page};
    struct pfl_copier *copier = self->copier;
    struct pfl_copies *copies = copier->copies;

    copier->is_asked = true;
    copier->is_late = false;
    copier->asked_ms = copies->conf.now_ms(copies->conf.user);
    self->state = PFL_COPY_JOB_ASKED;
    self->kind = kind;
    self->used = 0;
    if (send(copier, &message, -1) != 0)
        lose(copier);
}

void pfl_copier_on_answer(struct pfl_copier *self, const struct pfl_copy_message *answer)
{
    struct pfl_copy_job *job = self->owner;

    self->has_answered = true;
    if (answer->kind != PFL_COPY_COMMIT && answer->kind != PFL_COPY_SCRAPE) {
        self->in_flight -= self->in_flight != 0;
        if (!detach_some(self))
            lose(self);
        return;
    }
    self->is_asked = false;
    if (job == NULL) {
        pass_area(self);
        return;
    }
    if (answer->error != 0) {
        self->owner = NULL;
        lose_job(job);
        pass_area(self);
        return;
    }
    job->state = PFL_COPY_JOB_DONE;
    if (job->on_change != NULL)
        job->on_change(job);
}

static uint32_t get_entries_len(const struct pfl_copy_job *self)
{
    uint32_t len = self->copier->area->entries_len;

    return len < PFL_COPY_ENTRIES ? len : PFL_COPY_ENTRIES;
}

bool pfl_copy_job_has_more(const struct pfl_copy_job *self)
{
    return self->state == PFL_COPY_JOB_DONE && self->used < get_entries_len(self);
}

const struct pfl_copy_entry *pfl_copy_job_next(struct pfl_copy_job *self)
{
    struct pfl_copy_entry *entry = &self->entry;

    if (!pfl_copy_job_has_more(self))
        return NULL;
    memcpy(entry, &self->copier->area->entries[self->used++], sizeof(*entry));
    if (entry->at > PFL_COPY_DATA_BYTES || entry->bytes > PFL_COPY_DATA_BYTES - entry->at)
        entry->result = PFL_COPY_NONE;
    return entry;
}

void pfl_copy_job_end(struct pfl_copy_job *self)
{
    struct pfl_copier *copier = self->copier;
    enum pfl_copy_job_state state = self->state;

    self->copier = NULL;
    self->state = PFL_COPY_JOB_IDLE;
    if (state == PFL_COPY_JOB_WAITS)
        pfl_list_remove(&self->node);
    if (copier == NULL || state == PFL_COPY_JOB_WAITS)
        return;
    copier->owner = NULL;
    pass_area(copier);
}

void pfl_copy_job_wait(struct pfl_copy_job *self, uint32_t limit_ms)
{
    if (self->state == PFL_COPY_JOB_WAITS || self->state == PFL_COPY_JOB_ASKED)
        self->copier->copies->conf.ops->wait(self->copier->process, limit_ms);
}
