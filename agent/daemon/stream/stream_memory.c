/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's memory: see stream_memory.h.
 *
 *     head | gate, 2 slots | read | frame | pipe | spool ring | out: the ring of capacity C is at C
 *
 * Happy path: a sparse memfd, mapped; pages are allocated when they are written. A record is
 * written into the slot that is not current, then the index changes. A ring of out that grew, or is
 * empty, is dropped after a record that no longer refers to it was published. Failures: no memfd,
 * no mapping: PFL_ENOMEM. Memory of another process is checked like any input: sizes, order,
 * bounds. Order: no other process reads this memory while its process lives. A later reader sees,
 * on any machine, all that the dead process's threads had stored: a kill comes between two
 * instructions. So only the compiler, and the writes of other threads (zstd, the spool's file),
 * must be ordered: their notes reach the loop by acquire and release before it publishes
 * (base/io/wakeup.c). `current` and `at` are atomic and stored with full order for that: bytes are
 * written before, pages are dropped after. Ownership: the descriptor and the mapping. Limits:
 * OUT_MAX_BYTES.
 */
#include "agent/daemon/stream/stream_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "proto/gate/gate.h"
#include "proto/ipc/frame.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

#define VERSION       1u
#define PAGE_BYTES    4096u
#define GATE_BYTES    ((PFL_GATE_SAVED_MAX_BYTES + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES)
#define OUT_MAX_BYTES (1u << 30)
#define BEHIND_BYTES  (PFL_TUNNEL_DATA_WINDOW_BYTES / 2)
#define CALL_NOTHING  UINT32_MAX
#define TRIES_MAX     5u
/* Above every valid value; sums with sizes that fit into memory do not overflow. */
#define COUNT_MAX ((uint64_t)1 << 62)

#define AT_GATE  PAGE_BYTES
#define AT_READ  (AT_GATE + 2 * (size_t)GATE_BYTES)
#define AT_FRAME (AT_READ + PFL_STREAM_READ_BYTES)
#define AT_PIPE  (AT_FRAME + PFL_FRAME_MAX_BYTES)
#define AT_SPOOL (AT_PIPE + PFL_STREAM_PIPE_BYTES)
#define AT_OUT   (AT_SPOOL + PFL_SPOOL_RING_BYTES)

static const char magic[8] = "pflstrm";

struct head {
    char magic[8];
    uint32_t version;
    uint32_t head_bytes; /* of this struct: another build's may differ */
    uint64_t bytes;      /* of all */
    struct pfl_stream_facts facts;
    struct pfl_stream_record records[2];
    _Atomic uint32_t current;
    struct pfl_noted_call reading;
    struct pfl_noted_call writing;
    uint32_t tries; /* attempts to continue with it that did not end: processes that died in it */
};
_Static_assert(sizeof(struct head) <= PAGE_BYTES, "the head is one page, which is locked");

struct pfl_stream_memory {
    uint8_t *base; /* owned, mapped */
    size_t bytes;
    int fd; /* owned */
    struct pfl_replay_memory out;
    uint64_t dropped; /* capacities (powers of two) that were given back since the last record */
    bool has_spooled; /* there are pages in the spool's ring */
};

static struct head *head_of(const struct pfl_stream_memory *m)
{
    return (struct head *)(void *)m->base;
}

/* ---- noted calls ---- */

void pfl_noted_call_begin(struct pfl_noted_call *self, uint64_t at)
{
    self->message.msg_len = CALL_NOTHING;
    atomic_store(&self->at, at);
}

size_t pfl_noted_call_get(const struct pfl_noted_call *self, uint64_t at)
{
    return atomic_load(&self->at) == at && self->message.msg_len != CALL_NOTHING
               ? self->message.msg_len
               : 0;
}

/* ---- the ring that is not credited ---- */

static size_t round_up(uint64_t bytes)
{
    size_t capacity = PAGE_BYTES;

    while (capacity < bytes)
        capacity *= 2;
    return capacity;
}

static bool is_capacity(const struct pfl_stream_memory *m, uint64_t capacity)
{
    return capacity >= PAGE_BYTES && (capacity & (capacity - 1)) == 0 &&
           capacity <= (m->bytes - AT_OUT) / 2;
}

static uint8_t *get_out(void *user, size_t capacity)
{
    struct pfl_stream_memory *m = user;

    if (!is_capacity(m, capacity))
        return NULL;
    m->dropped &= ~(uint64_t)capacity;
    return m->base + AT_OUT + capacity;
}

static void give_out_back(void *user, uint8_t *data, size_t capacity)
{
    struct pfl_stream_memory *m = user;

    (void)data;
    m->dropped |= capacity;
}

/* Not MADV_REMOVE, which rounds up to the kernel's pages: those of arm64 may have 16 or 64 KiB. */
static void punch(const struct pfl_stream_memory *m, size_t at, size_t bytes)
{
    (void)fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}

/* Pages that the published record does not refer to. While the operator is behind, the spool's are
 * soon needed again, and fresh pages cost more than the writes into them. */
static void drop(struct pfl_stream_memory *m, const struct pfl_stream_record *record)
{
    bool is_empty = record->spool.ring_begin == record->spool.ring_end;
    bool is_behind = record->out_end - record->out_base >= BEHIND_BYTES;

    if (m->has_spooled && is_empty && !is_behind)
        punch(m, AT_SPOOL, PFL_SPOOL_RING_BYTES);
    m->has_spooled = !is_empty || (m->has_spooled && is_behind);
    for (uint64_t capacity = PAGE_BYTES; m->dropped != 0; capacity *= 2) {
        if ((m->dropped & capacity) != 0)
            punch(m, AT_OUT + (size_t)capacity, (size_t)capacity);
        m->dropped &= ~capacity;
    }
}

/* ---- making ---- */

/* Takes `fd` on success. */
static int map(int fd, size_t bytes, struct pfl_stream_memory **ret_memory)
{
    struct pfl_stream_memory *m = pfl_mem_zalloc(sizeof(*m));
    void *base;

    if (m == NULL)
        return PFL_ENOMEM;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        pfl_mem_free(m);
        return PFL_ENOMEM;
    }
    /* The kernel notes calls there: it must not have to wait for the page. */
    (void)mlock(base, PAGE_BYTES);
    *m = (struct pfl_stream_memory){
        .base = base, .bytes = bytes, .fd = fd, .out = {get_out, give_out_back, m}};
    *ret_memory = m;
    return 0;
}

/* Without the flag the kernel complains, or refuses where that is its policy; older ones do not
 * know it. */
static int make_memfd(void)
{
    int fd = memfd_create("perfleet-stream", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create("perfleet-stream", MFD_CLOEXEC) : fd;
}

int pfl_stream_memory_new(const struct pfl_stream_facts *facts,
                          struct pfl_stream_memory **ret_memory)
{
    struct head *h;
    size_t bytes;
    int rc;
    int fd;

    if (facts->out_max_bytes == 0 || facts->out_max_bytes > OUT_MAX_BYTES)
        return PFL_ELIMIT;
    bytes = AT_OUT + 2 * round_up(facts->out_max_bytes);
    fd = make_memfd();
    if (fd < 0)
        return PFL_ENOMEM;
    if (ftruncate(fd, (off_t)bytes) == 0)
        rc = map(fd, bytes, ret_memory);
    else
        rc = errno == EFBIG ? PFL_ELIMIT : PFL_ENOMEM;
    if (rc != 0) {
        (void)close(fd);
        return rc;
    }
    h = head_of(*ret_memory);
    memcpy(h->magic, magic, sizeof(magic));
    h->version = VERSION;
    h->head_bytes = sizeof(*h);
    h->bytes = bytes;
    h->facts = *facts;
    pfl_noted_call_begin(&h->reading, UINT64_MAX);
    pfl_noted_call_begin(&h->writing, UINT64_MAX);
    return 0;
}

void pfl_stream_memory_forget(struct pfl_stream_memory *self)
{
    (void)munmap(self->base, self->bytes);
    pfl_mem_free(self);
}

void pfl_stream_memory_free(struct pfl_stream_memory *self)
{
    if (self == NULL)
        return;
    (void)close(self->fd);
    pfl_stream_memory_forget(self);
}

/* ---- taking back ---- */

static bool is_ring(uint64_t begin, uint64_t end, uint64_t bytes)
{
    return begin <= end && end - begin <= bytes && end <= COUNT_MAX;
}

static bool is_text(const char *text, size_t size)
{
    return text[0] != '\0' && memchr(text, '\0', size) != NULL;
}

static bool are_facts_fine(const struct pfl_stream_facts *f, size_t bytes)
{
    return f->out_max_bytes != 0 && f->out_max_bytes <= OUT_MAX_BYTES &&
           bytes == AT_OUT + 2 * round_up(f->out_max_bytes) && f->ttl_ms <= PFL_TUNNEL_TTL_MAX_MS &&
           is_text(f->id, sizeof(f->id)) && is_text(f->operator_name, sizeof(f->operator_name));
}

static bool is_way_in_fine(const struct pfl_stream_memory *m, const struct pfl_stream_record *r)
{
    return r->in_used <= COUNT_MAX && r->reads <= COUNT_MAX && r->writes <= COUNT_MAX &&
           r->passed_bytes <= r->passing_bytes && r->passing_bytes <= PFL_FRAME_MAX_BYTES &&
           r->gate_slot <= 1 && r->gate_bytes <= PFL_GATE_SAVED_MAX_BYTES &&
           (r->gate_bytes != 0) == (head_of(m)->facts.has_gate != 0) &&
           (r->gate_bytes != 0 || r->passing_bytes == 0);
}

static bool is_way_out_fine(const struct pfl_stream_memory *m, const struct pfl_stream_record *r)
{
    bool has_ring = r->out_capacity != 0;

    return is_ring(r->pipe_begin, r->pipe_end, PFL_STREAM_PIPE_BYTES) &&
           (has_ring ? is_capacity(m, r->out_capacity) : r->out_base == r->out_end) &&
           is_ring(r->out_base, r->out_end, r->out_capacity) &&
           r->out_end - r->out_base <= head_of(m)->facts.out_max_bytes;
}

static bool is_fine(const struct pfl_stream_memory *m)
{
    const struct head *h = head_of(m);
    uint32_t current = atomic_load(&h->current);

    return memcmp(h->magic, magic, sizeof(magic)) == 0 && h->version == VERSION &&
           h->head_bytes == sizeof(*h) && h->bytes == m->bytes && current <= 1 &&
           are_facts_fine(&h->facts, m->bytes) && is_way_in_fine(m, &h->records[current]) &&
           is_way_out_fine(m, &h->records[current]);
}

/* Finds rings that the other process did not drop. */
static void find_dropped(struct pfl_stream_memory *m)
{
    m->has_spooled = true;
    for (uint64_t capacity = PAGE_BYTES; is_capacity(m, capacity); capacity *= 2)
        m->dropped |= capacity;
    m->dropped &= ~pfl_stream_memory_get_record(m)->out_capacity;
}

int pfl_stream_memory_take_back(int fd, struct pfl_stream_memory **ret_memory)
{
    struct stat st;
    int rc;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)AT_OUT ||
        st.st_size > (off_t)(AT_OUT + 2 * (uint64_t)OUT_MAX_BYTES))
        return PFL_EPARSE;
    rc = map(fd, (size_t)st.st_size, ret_memory);
    if (rc != 0)
        return rc;
    if (is_fine(*ret_memory)) {
        find_dropped(*ret_memory);
        return 0;
    }
    pfl_stream_memory_forget(*ret_memory);
    *ret_memory = NULL;
    return PFL_EPARSE;
}

bool pfl_stream_memory_begin_try(struct pfl_stream_memory *self)
{
    return head_of(self)->tries++ < TRIES_MAX;
}

void pfl_stream_memory_end_try(struct pfl_stream_memory *self)
{
    head_of(self)->tries = 0;
}

/* ---- reading and writing it ---- */

int pfl_stream_memory_get_fd(const struct pfl_stream_memory *self)
{
    return self->fd;
}

const struct pfl_stream_facts *pfl_stream_memory_get_facts(const struct pfl_stream_memory *self)
{
    return &head_of(self)->facts;
}

const struct pfl_stream_record *pfl_stream_memory_get_record(const struct pfl_stream_memory *self)
{
    return &head_of(self)->records[atomic_load(&head_of(self)->current)];
}

void pfl_stream_memory_publish(struct pfl_stream_memory *self,
                               const struct pfl_stream_record *record)
{
    struct head *h = head_of(self);
    uint32_t next = 1 - atomic_load(&h->current);

    h->records[next] = *record;
    h->records[next].gate_slot = next;
    atomic_store(&h->current, next);
    drop(self, record);
}

struct pfl_noted_call *pfl_stream_memory_get_reading(struct pfl_stream_memory *self)
{
    return &head_of(self)->reading;
}

struct pfl_noted_call *pfl_stream_memory_get_writing(struct pfl_stream_memory *self)
{
    return &head_of(self)->writing;
}

uint8_t *pfl_stream_memory_get_read(struct pfl_stream_memory *self)
{
    return self->base + AT_READ;
}

uint8_t *pfl_stream_memory_get_frame(struct pfl_stream_memory *self)
{
    return self->base + AT_FRAME;
}

uint8_t *pfl_stream_memory_get_pipe(struct pfl_stream_memory *self)
{
    return self->base + AT_PIPE;
}

uint8_t *pfl_stream_memory_get_spool(struct pfl_stream_memory *self)
{
    return self->base + AT_SPOOL;
}

struct pfl_writer pfl_stream_memory_get_gate_room(struct pfl_stream_memory *self)
{
    uint32_t next = 1 - atomic_load(&head_of(self)->current);

    return pfl_writer_of(self->base + AT_GATE + (size_t)next * GATE_BYTES,
                         PFL_GATE_SAVED_MAX_BYTES);
}

struct pfl_span pfl_stream_memory_get_gate(const struct pfl_stream_memory *self)
{
    const struct pfl_stream_record *r = pfl_stream_memory_get_record(self);

    return pfl_span_of(self->base + AT_GATE + (size_t)r->gate_slot * GATE_BYTES, r->gate_bytes);
}

const struct pfl_replay_memory *pfl_stream_memory_get_out(struct pfl_stream_memory *self)
{
    return &self->out;
}
