/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of one shared memory buffer for any number of writers, and the batch of the next commit.
 *
 * Happy path: a writer asks for a chunk; the search starts where the last one ended, cuts a free
 * page into one chunk if need be, and takes the first free chunk by compare-and-swap. The full
 * chunk becomes Complete and is listed; the first one wakes the commit thread to start its timer.
 * The writer that makes a COMMIT_SHARE of the memory pending commits the batch itself: this saves a
 * wake-up before the service acts. If it cannot (another thread sends, the socket is full) it wakes
 * the commit thread. A commit exchanges the batch for an empty one.
 *
 * No chunk free: the drop policy commits and fails; the stalling policies watch the page that
 * should become free next, then commit and sleep with increasing delays. A page with a corrupt
 * bitmap is skipped. Chunks of a reservation (startup) are held back until it is resolved.
 * Ownership: reference counted; writers and the connection hold references. The mapping goes with
 * the last one. Limits: moves <= chunks of the SMB, patches <= PFL_ARBITER_PATCHES_MAX, then they
 * are counted and dropped (the packets they belong to stay incomplete in the service).
 */
#include "producer/shared_memory/arbiter.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "producer/platform/fork.h"
#include "producer/platform/heap.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pfl_arbiter *list; /* guarded by list_lock */

#define LIST_FIRST_BYTES 4096u
#define COMMIT_SHARE     4u /* a quarter of the memory: the rest is for the time until it is taken */

/* Sleep before stall n, in microseconds; the last one repeats. 0: watches for WATCH_NS. */
static const uint32_t stall_us[] = {0, 0, 8, 72, 584, 4680, 37448, 100000};

static bool is_dead(struct pfl_arbiter *self)
{
    return atomic_load_explicit(&self->is_dead, memory_order_acquire) != 0;
}

int pfl_arbiter_new(const struct pfl_arbiter_conf *conf, struct pfl_arbiter **ret)
{
    struct pfl_arbiter *a = pfl_heap_map(sizeof(*a));

    if (a == NULL)
        return PFL_ENOMEM;
    a->smb.base = conf->base;
    a->smb.page_bytes = conf->page_bytes;
    a->smb.pages = (uint32_t)(conf->smb_bytes / conf->page_bytes);
    a->smb_bytes = conf->smb_bytes;
    a->wake_fd = conf->wake_fd;
    a->connection_fd = conf->connection_fd;
    a->commit_now = conf->commit_now;
    a->commit_here = conf->commit_here;
    a->user = conf->user;
    a->is_online = conf->connection_fd >= 0;
    a->commit_thread = pthread_self();
    atomic_init(&a->refs, 1);
    atomic_init(&a->is_dead, 0);
    pfl_search_init(&a->search);
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->send_lock, NULL);
    pthread_mutex_lock(&list_lock);
    a->next_in_process = list;
    list = a;
    pthread_mutex_unlock(&list_lock);
    *ret = a;
    return 0;
}

/* Relaxed: the caller has a reference, or the lock of the list. The last unref acquires what all
 * others released: no other thread uses this memory any more. */
void pfl_arbiter_ref(struct pfl_arbiter *self)
{
    atomic_fetch_add_explicit(&self->refs, 1, memory_order_relaxed);
}

static void remove_from_list(struct pfl_arbiter *self)
{
    struct pfl_arbiter **at = &list;

    pthread_mutex_lock(&list_lock);
    while (*at != NULL && *at != self)
        at = &(*at)->next_in_process;
    if (*at != NULL)
        *at = self->next_in_process;
    pthread_mutex_unlock(&list_lock);
}

void pfl_arbiter_unref(struct pfl_arbiter *self)
{
    if (self == NULL || pfl_fork_is_child())
        return;
    if (atomic_fetch_sub_explicit(&self->refs, 1, memory_order_acq_rel) != 1)
        return;
    remove_from_list(self);
    munmap(self->smb.base, self->smb_bytes);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->send_lock);
    pfl_arbiter_batch_fini(&self->pending);
    pfl_arbiter_batch_fini(&self->held);
    pfl_heap_unmap(self, sizeof(*self));
}

void pfl_arbiter_kill(struct pfl_arbiter *self)
{
    pthread_mutex_lock(&self->send_lock); /* a writer that sends is waited for */
    pthread_mutex_lock(&self->lock);
    /* It says only that; what else changes here is under the locks. */
    atomic_store_explicit(&self->is_dead, 1, memory_order_release);
    self->wake_fd = -1;
    self->connection_fd = -1;
    pfl_arbiter_batch_clear(&self->pending);
    pfl_arbiter_batch_clear(&self->held);
    self->pending_bytes = 0;
    pthread_mutex_unlock(&self->lock);
    pthread_mutex_unlock(&self->send_lock);
}

static bool is_commit_thread(const struct pfl_arbiter *self)
{
    return pthread_equal(self->commit_thread, pthread_self()) != 0;
}

void pfl_arbiter_set_commit_thread(struct pfl_arbiter *self)
{
    self->commit_thread = pthread_self();
}

void pfl_arbiter_set_online(struct pfl_arbiter *self, bool is_online, int connection_fd)
{
    pthread_mutex_lock(&self->send_lock); /* a writer that sends is waited for */
    pthread_mutex_lock(&self->lock);
    self->is_online = is_online;
    self->connection_fd = connection_fd;
    pthread_mutex_unlock(&self->lock);
    pthread_mutex_unlock(&self->send_lock);
}

/* Locked. Urgency only grows until the batch is taken, so a batch costs at most two wake-ups. */
static void raise_due(struct pfl_arbiter *self, enum pfl_arbiter_due due)
{
    uint64_t one = 1;
    ssize_t n;

    if (due <= self->due)
        return;
    self->due = due;
    if (self->wake_fd < 0 || is_commit_thread(self) || (due == PFL_ARBITER_LATER && self->is_timed))
        return;
    /* An eventfd that is full is readable, which is all that is wanted. */
    n = write(self->wake_fd, &one, sizeof(one));
    (void)n;
}

/* Unlocked. Commits here and now, or has the commit thread do it soon. */
static void commit_soon(struct pfl_arbiter *self)
{
    bool is_done = false;

    if (!is_commit_thread(self) && self->commit_here != NULL &&
        pthread_mutex_trylock(&self->send_lock) == 0) {
        is_done = is_dead(self) || self->commit_here(self->user);
        pthread_mutex_unlock(&self->send_lock);
    }
    if (is_done)
        return;
    pthread_mutex_lock(&self->lock);
    if (self->pending.moves.len > 0)
        raise_due(self, PFL_ARBITER_NOW);
    pthread_mutex_unlock(&self->lock);
}

/* Room for one more item; the list at most doubles. */
static bool grow(void **items, size_t *cap, size_t len, size_t max, size_t item_bytes)
{
    size_t wanted = *cap == 0 ? LIST_FIRST_BYTES / item_bytes : *cap * 2;
    void *grown;

    if (len < *cap)
        return true;
    if (*cap >= max)
        return false;
    wanted = wanted < max ? wanted : max;
    grown = pfl_heap_remap(*items, *cap * item_bytes, wanted * item_bytes);
    if (grown == NULL)
        return false;
    *items = grown;
    *cap = wanted;
    return true;
}

#define GROW(list_, max_)                                                                          \
    grow((void **)&(list_).items, &(list_).cap, (list_).len, (max_), sizeof(*(list_).items))

#define UNMAP(list_) pfl_heap_unmap((list_).items, (list_).cap * sizeof(*(list_).items))

/* --- writers ---------------------------------------------------------------------------- */

/* Locked. Ids are used in a circle: a chunk of an id's last life must be gone before its next. */
static uint16_t take_writer_id(struct pfl_arbiter *self)
{
    for (uint32_t i = 0; i < PFL_WRITER_ID_MAX; i++) {
        uint32_t id = self->last_writer_id % PFL_WRITER_ID_MAX + 1;
        uint32_t bit = 1u << (id % 32);

        self->last_writer_id = (uint16_t)id;
        if ((self->is_writer_live[id / 32] & bit) == 0) {
            self->is_writer_live[id / 32] |= bit;
            self->writers_live++;
            return (uint16_t)id;
        }
    }
    return PFL_WRITER_ID_NONE;
}

/* Locked. */
static bool add_writer_op(struct pfl_arbiter_batch *batch, struct pfl_arbiter_writer_op op)
{
    if (!GROW(batch->writers, 4 * PFL_WRITER_ID_MAX))
        return false;
    batch->writers.items[batch->writers.len++] = op;
    return true;
}

/* Locked. Where what names the buffer goes; a reservation that was resolved becomes the buffer. */
static struct pfl_arbiter_batch *batch_of(struct pfl_arbiter *self, uint32_t *buffer)
{
    return pfl_reservation_resolve(&self->reservations, buffer) ? &self->pending : &self->held;
}

int pfl_arbiter_open_writer(struct pfl_arbiter *self, uint32_t buffer, uint16_t *ret_writer_id)
{
    struct pfl_arbiter_writer_op op = {.buffer = buffer};
    int rc = 0;

    pthread_mutex_lock(&self->lock);
    if (is_dead(self)) {
        rc = PFL_ECLOSED;
    } else if (self->writers_live == PFL_WRITER_ID_MAX) {
        rc = PFL_ELIMIT;
    } else {
        op.writer_id = take_writer_id(self);
        if (add_writer_op(batch_of(self, &op.buffer), op)) {
            *ret_writer_id = op.writer_id;
            raise_due(self, PFL_ARBITER_LATER);
        } else {
            self->is_writer_live[op.writer_id / 32] &= ~(1u << (op.writer_id % 32));
            self->writers_live--;
            rc = PFL_ENOMEM;
        }
    }
    pthread_mutex_unlock(&self->lock);
    return rc;
}

void pfl_arbiter_close_writer(struct pfl_arbiter *self, uint16_t writer_id, uint32_t buffer)
{
    struct pfl_arbiter_writer_op op = {.writer_id = writer_id, .buffer = buffer, .is_closed = true};

    if (pfl_fork_is_child())
        return;
    pthread_mutex_lock(&self->lock);
    self->is_writer_live[writer_id / 32] &= ~(1u << (writer_id % 32));
    self->writers_live--;
    /* Without the memory to say so the service keeps the id registered: harmless. */
    if (!is_dead(self) && add_writer_op(batch_of(self, &op.buffer), op))
        raise_due(self, PFL_ARBITER_LATER);
    pthread_mutex_unlock(&self->lock);
}

/* --- chunks ----------------------------------------------------------------------------- */

/* Gives the service time, or on the commit thread something to do. False: there is no hope. */
static bool wait_for_room(struct pfl_arbiter *self, uint32_t stalls)
{
    const uint32_t last = sizeof(stall_us) / sizeof(stall_us[0]) - 1;
    uint32_t us = stall_us[stalls < last ? stalls : last];
    struct timespec ts = {.tv_nsec = (long)us * 1000};

    if (is_commit_thread(self) && (self->commit_now == NULL || !self->commit_now(self->user)))
        return false;
    if (is_dead(self))
        return false;
    if (stalls > 0) /* earlier ones wait for the committed chunks to be freed */
        commit_soon(self);
    if (us == 0)
        pfl_search_watch(&self->search, &self->smb);
    else
        nanosleep(&ts, NULL);
    return true;
}

/* The service does not free chunks that are held back. */
static bool is_held(struct pfl_arbiter *self, uint32_t buffer)
{
    bool answer;

    pthread_mutex_lock(&self->lock);
    answer = batch_of(self, &buffer) == &self->held;
    pthread_mutex_unlock(&self->lock);
    return answer;
}

bool pfl_arbiter_get_chunk(struct pfl_arbiter *self, const struct pfl_arbiter_want *want,
                           struct pfl_arbiter_chunk *ret_chunk)
{
    /* The commit thread must not wait forever: no other thread would detect that the service
     * hangs. */
    bool is_patient = want->policy == PERFLEET_STALL && !is_commit_thread(self);

    for (uint32_t stalls = 0;; stalls++) {
        if (is_dead(self) || pfl_fork_is_child())
            return false;
        if (want->policy == PERFLEET_DROP && pfl_search_is_likely_full(&self->search, &self->smb))
            return false;
        if (pfl_search_take(&self->search, &self->smb, ret_chunk)) {
            pfl_chunk_set_header(ret_chunk->header, want->writer_id, want->chunk_id, want->packets);
            return true;
        }
        if (want->policy == PERFLEET_DROP || is_held(self, want->buffer)) {
            commit_soon(self); /* less than the share may be all that can come free */
            return false;
        }
        if (!is_patient && stalls >= PFL_ARBITER_STALLS_MAX)
            return false;
        if (!wait_for_room(self, stalls))
            return false;
        ++*want->stalls;
    }
}

/* Locked. */
static bool add_move(const struct pfl_arbiter *self, struct pfl_arbiter_batch *batch,
                     const struct pfl_arbiter_move *move)
{
    if (!GROW(batch->moves, self->smb.pages * PFL_PAGE_CHUNKS_MAX))
        return false;
    batch->moves.items[batch->moves.len++] = *move;
    return true;
}

void pfl_arbiter_give_chunk(struct pfl_arbiter *self, struct pfl_arbiter_chunk *chunk,
                            uint32_t buffer)
{
    struct pfl_page_header *page = pfl_smb_page(&self->smb, chunk->page);
    struct pfl_arbiter_move move = {chunk->page, chunk->index, buffer};
    struct pfl_arbiter_batch *batch;

    bool is_enough = false;

    chunk->header = NULL;
    /* Refused only if the page was corrupted: then the chunk is lost. */
    if (pfl_fork_is_child() || pfl_state_complete(page, move.chunk) != PFL_STATE_DONE)
        return;
    pthread_mutex_lock(&self->lock);
    batch = batch_of(self, &move.buffer);
    if (!is_dead(self) && add_move(self, batch, &move) && batch == &self->pending) {
        self->pending_bytes += chunk->payload_bytes + PFL_CHUNK_HEADER_BYTES;
        is_enough = self->pending_bytes >= self->smb_bytes / COMMIT_SHARE;
        if (!is_enough)
            raise_due(self, PFL_ARBITER_LATER);
    }
    pthread_mutex_unlock(&self->lock);
    if (is_enough)
        commit_soon(self);
}

/* --- the batch -------------------------------------------------------------------------- */

/* Locked. Drops patches of data that was given up. */
static void add_patch(struct pfl_arbiter *self, struct pfl_arbiter_patch patch)
{
    bool is_reserved = patch.buffer >= PFL_RESERVATION_FIRST;
    struct pfl_arbiter_batch *batch = batch_of(self, &patch.buffer);

    if (is_dead(self) || (is_reserved && patch.buffer == 0))
        return;
    if (!GROW(batch->patches, PFL_ARBITER_PATCHES_MAX)) {
        self->patches_lost++;
        return;
    }
    batch->patches.items[batch->patches.len++] = patch;
    if (batch == &self->pending)
        raise_due(self, PFL_ARBITER_LATER);
}

void pfl_arbiter_add_patch(struct pfl_arbiter *self, const struct pfl_arbiter_patch *patch)
{
    if (pfl_fork_is_child())
        return;
    pthread_mutex_lock(&self->lock);
    add_patch(self, *patch);
    pthread_mutex_unlock(&self->lock);
}

/* --- reservations ----------------------------------------------------------------------- */

uint32_t pfl_arbiter_reserve(struct pfl_arbiter *self)
{
    uint32_t reservation;

    pthread_mutex_lock(&self->lock);
    reservation = pfl_reservation_take(&self->reservations);
    pthread_mutex_unlock(&self->lock);
    return reservation;
}

void pfl_arbiter_unreserve(struct pfl_arbiter *self, uint32_t reservation)
{
    pthread_mutex_lock(&self->lock);
    pfl_reservation_give_back(&self->reservations, reservation);
    pthread_mutex_unlock(&self->lock);
}

/* Locked. Forwards held entries that are resolved; the others are held again. */
static void release_held(struct pfl_arbiter *self)
{
    struct pfl_arbiter_batch held = self->held;

    self->held = (struct pfl_arbiter_batch){0};
    for (size_t i = 0; i < held.writers.len; i++) {
        struct pfl_arbiter_writer_op op = held.writers.items[i];

        (void)add_writer_op(batch_of(self, &op.buffer), op);
    }
    for (size_t i = 0; i < held.moves.len; i++) {
        struct pfl_arbiter_move move = held.moves.items[i];

        (void)add_move(self, batch_of(self, &move.buffer), &move);
    }
    for (size_t i = 0; i < held.patches.len; i++)
        add_patch(self, held.patches.items[i]);
    pfl_arbiter_batch_fini(&held);
}

void pfl_arbiter_resolve(struct pfl_arbiter *self, uint32_t reservation, uint32_t buffer)
{
    uint32_t at = reservation - PFL_RESERVATION_FIRST;

    pthread_mutex_lock(&self->lock);
    if (at < self->reservations.len && self->reservations.buffers[at] == PFL_RESERVATION_BUFFER) {
        self->reservations.buffers[at] = buffer;
        release_held(self);
        raise_due(self, PFL_ARBITER_NOW);
    }
    pthread_mutex_unlock(&self->lock);
}

void pfl_arbiter_ack_flush(struct pfl_arbiter *self, uint64_t flush_id)
{
    pthread_mutex_lock(&self->lock);
    if (flush_id > self->pending.flush_id)
        self->pending.flush_id = flush_id;
    raise_due(self, PFL_ARBITER_NOW);
    pthread_mutex_unlock(&self->lock);
}

enum pfl_arbiter_due pfl_arbiter_get_due(struct pfl_arbiter *self)
{
    enum pfl_arbiter_due due;

    pthread_mutex_lock(&self->lock);
    due = self->due;
    pthread_mutex_unlock(&self->lock);
    return due;
}

void pfl_arbiter_set_timed(struct pfl_arbiter *self, bool is_timed)
{
    pthread_mutex_lock(&self->lock);
    self->is_timed = is_timed;
    pthread_mutex_unlock(&self->lock);
}

void pfl_arbiter_take(struct pfl_arbiter *self, struct pfl_arbiter_batch *batch)
{
    struct pfl_arbiter_batch taken;

    pthread_mutex_lock(&self->lock);
    taken = self->pending;
    self->pending = *batch;
    self->pending_bytes = 0;
    self->due = PFL_ARBITER_NOTHING;
    pthread_mutex_unlock(&self->lock);
    *batch = taken;
}

void pfl_arbiter_free_moved(struct pfl_arbiter *self, const struct pfl_arbiter_batch *batch,
                            size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const struct pfl_arbiter_move *move = &batch->moves.items[i];
        struct pfl_page_header *page = pfl_smb_page(&self->smb, move->page);
        uint32_t bitmap = pfl_page_bitmap(page);

        if (pfl_page_chunk_state(bitmap, move->chunk) == PFL_CHUNK_COMPLETE)
            (void)pfl_state_free_complete(
                page, move->chunk, pfl_smb_chunk(&self->smb, move->page, bitmap, move->chunk));
    }
}

void pfl_arbiter_batch_clear(struct pfl_arbiter_batch *batch)
{
    batch->moves.len = 0;
    batch->patches.len = 0;
    batch->writers.len = 0;
    batch->flush_id = 0;
}

void pfl_arbiter_batch_fini(struct pfl_arbiter_batch *batch)
{
    UNMAP(batch->moves);
    UNMAP(batch->patches);
    UNMAP(batch->writers);
    *batch = (struct pfl_arbiter_batch){0};
}

/* --- fork ------------------------------------------------------------------------------- */

void pfl_arbiter_list_lock(void)
{
    pthread_mutex_lock(&list_lock);
}

void pfl_arbiter_list_unlock(void)
{
    pthread_mutex_unlock(&list_lock);
}

void pfl_arbiter_detach_all(void)
{
    for (struct pfl_arbiter *a = list; a != NULL; a = a->next_in_process) {
        /* Better a fault in the child than its bytes in the parent's trace. */
        if (mmap(a->smb.base, a->smb_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            munmap(a->smb.base, a->smb_bytes);
        /* A kill in the parent at this very moment was not over: then the number still is ours. */
        if (a->connection_fd >= 0)
            close(a->connection_fd);
    }
}
