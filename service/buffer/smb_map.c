/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a producer's shared memory.
 *
 * Happy path: create makes a memfd of the chosen size, seals it and maps it; adopt checks what a
 * producer offers and maps that. Chunks are then taken and released by the steps of abi/state.h.
 * Memory: pages that the producer never wrote are never touched (pfl_smb_map_is_written).
 * Failures: memory that could shrink under us, or has a size that the service would not choose, is
 * refused; kernel errors are PFL_EIO. A producer that changes pages under us costs a bounded number
 * of attempts and at worst loses its own chunk. A page that cannot be read becomes zeros.
 * Owns the mapping and the descriptor. Limit: PFL_SMB_CAP_BYTES.
 */
#include "service/buffer/smb_map.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "abi/state.h"
#include "base/closer.h"
#include "base/mem.h"

#define WINDOW_BYTES  (64u * 1024) /* PFL_PAGE_MAX_BYTES at least */
#define SEALS         (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define OS_PAGE_BYTES 4096u
#define LARGE_BYTES   (1u << 20) /* the last close takes 0.5 ms per MiB: a thread does it */
#define STUCK_CPU_NS  10000000   /* of CPU time that one page takes; or twice as much */

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

void pfl_smb_map_init(struct pfl_smb_map *self)
{
    memset(self, 0, sizeof(*self));
    self->fd = -1;
    self->who = PFL_CLOSER_NOBODY;
}

/* For on_bus_error. */
static struct pfl_list open_maps = {&open_maps, &open_maps};

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    uintptr_t fault = (uintptr_t)info->si_addr;

    (void)context;
    for (struct pfl_list *it = open_maps.next; it != &open_maps; it = it->next) {
        struct pfl_smb_map *m = PFL_CONTAINER_OF(it, struct pfl_smb_map, node);
        uintptr_t at = fault - (uintptr_t)m->smb.base;

        if (at >= m->bytes)
            continue;
        m->has_faulted = true;
        if (mmap((uint8_t *)m->smb.base + at / OS_PAGE_BYTES * OS_PAGE_BYTES, OS_PAGE_BYTES,
                 PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
                 0) != MAP_FAILED)
            return;
    }
    (void)signal(number, SIG_DFL); /* not of a map: the instruction faults again */
}

/*
 * A page that the kernel cannot bring back now, because no memory may be charged to those whose it
 * is, is no SIGBUS: the access is tried again for ever. So what the loop is reading is noted, and a
 * timer of its CPU time looks whether it is the same as at the last look. The timer runs only while
 * pages are read. Everything here is of one thread.
 */
static struct {
    struct pfl_smb_map *volatile map; /* NULL: nothing is read */
    volatile uint32_t serial;
    uint32_t seen;
    volatile bool is_armed;
    bool has_timer;
    timer_t timer;
} touch;

static void arm(void)
{
    const struct itimerspec when = {.it_value = {.tv_nsec = STUCK_CPU_NS}};

    touch.is_armed = timer_settime(touch.timer, 0, &when, NULL) == 0;
}

void pfl_smb_map_begin_touch(struct pfl_smb_map *self)
{
    touch.serial++;
    touch.map = self;
    if (touch.has_timer && !touch.is_armed)
        arm();
}

void pfl_smb_map_end_touch(void)
{
    touch.map = NULL;
}

struct pfl_smb_map *pfl_smb_map_pause_touch(void)
{
    struct pfl_smb_map *map = touch.map;

    touch.map = NULL;
    return map;
}

void pfl_smb_map_resume_touch(struct pfl_smb_map *self)
{
    if (self != NULL)
        pfl_smb_map_begin_touch(self);
}

static void on_look(int number)
{
    struct pfl_smb_map *map = touch.map;
    int saved_errno = errno;

    (void)number;
    touch.is_armed = false;
    if (map != NULL && touch.serial == touch.seen) { /* all of it: nothing more is read there */
        map->has_faulted = true;
        (void)mmap(map->smb.base, map->bytes, PROT_READ | PROT_WRITE,
                   MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    touch.seen = touch.serial;
    if (map != NULL)
        arm();
    errno = saved_errno;
}

static bool make_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
    struct sigaction action = {.sa_handler = on_look, .sa_flags = SA_RESTART};

    event.sigev_notify_thread_id = gettid();
    (void)sigemptyset(&action.sa_mask);
    return sigaction(SIGVTALRM, &action, NULL) == 0 &&
           timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &touch.timer) == 0;
}

void pfl_smb_map_guard(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
    if (!touch.has_timer)
        touch.has_timer = make_timer();
}

void pfl_smb_map_fini(struct pfl_smb_map *self)
{
    uint32_t who = self->who;

    if (self->smb.base != NULL) {
        pfl_list_remove(&self->node);
        (void)munmap(self->smb.base, self->bytes);
    }
    pfl_mem_free(self->written);
    if (self->bytes != 0 && self->bytes < LARGE_BYTES && self->smb.base != NULL)
        (void)close(self->fd);
    else
        pfl_closer_close_memory(self->fd, who);
    pfl_smb_map_init(self);
    self->who = who;
}

static int map(struct pfl_smb_map *self, int fd, uint32_t smb_bytes, uint32_t page_bytes)
{
    uint32_t words = (smb_bytes / page_bytes + 63) / 64;
    void *base = mmap(NULL, smb_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return PFL_EIO;
    self->written = pfl_mem_calloc(words, sizeof(self->written[0]));
    if (self->written == NULL) {
        (void)munmap(base, smb_bytes);
        return PFL_ENOMEM;
    }
    pfl_list_append(&open_maps, &self->node);
    self->smb.base = base;
    return 0;
}

/* Makes `fd` the map's. */
static int take_memory(struct pfl_smb_map *self, int fd, struct pfl_smb_size size, bool is_mapped)
{
    int rc = is_mapped ? map(self, fd, size.smb_bytes, size.page_bytes) : 0;

    if (rc != 0)
        return rc;
    self->smb.page_bytes = size.page_bytes;
    self->smb.pages = size.smb_bytes / size.page_bytes;
    self->bytes = size.smb_bytes;
    self->fd = fd;
    return 0;
}

int pfl_smb_map_create(struct pfl_smb_map *self, struct pfl_smb_size size, bool is_mapped)
{
    int rc = PFL_EIO;
    int fd;

    if (pfl_smb_map_is_open(self))
        return PFL_ESTATE;
    if (!pfl_limits_is_smb(size.smb_bytes, size.page_bytes))
        return PFL_EINVAL;
    fd = memfd_create("perfetto_shmem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return PFL_EIO;
    if (ftruncate(fd, size.smb_bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        rc = take_memory(self, fd, size, is_mapped);
    if (rc != 0)
        (void)close(fd);
    return rc;
}

int pfl_smb_map_adopt(struct pfl_smb_map *self, int fd, uint64_t page_bytes_untrusted,
                      bool is_mapped)
{
    struct pfl_smb_size size;
    struct stat st;
    struct statfs fs;
    int seals;
    int rc;

    if (pfl_smb_map_is_open(self))
        return PFL_ESTATE;
    /* Without the seals the producer could shrink the file and the next access would be SIGBUS. */
    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return PFL_EPERM;
    /* And it has to be mapped for writing. */
    if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0 ||
        (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
        return PFL_EPERM;
    /* Huge pages come from a pool that any process may have emptied: then a hole is SIGBUS. */
    if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return PFL_EPERM;
    if (fstat(fd, &st) != 0)
        return PFL_EIO;
    if (st.st_size <= 0 || !pfl_limits_is_smb((uint64_t)st.st_size, page_bytes_untrusted))
        return PFL_EINVAL;
    size = (struct pfl_smb_size){(uint32_t)st.st_size, (uint32_t)page_bytes_untrusted};
    rc = take_memory(self, fd, size, is_mapped);
    self->is_adopted = rc == 0;
    return rc;
}

bool pfl_smb_map_find_written(struct pfl_smb_map *self, uint32_t page)
{
    uint32_t header = 0;
    off_t at = (off_t)page * self->smb.page_bytes;
    ssize_t n = pread(self->fd, &header, sizeof(header), at);

    self->has_faulted = self->has_faulted || n < 0;
    if (n != sizeof(header) || header == 0)
        return false;
    self->written[page / 64] |= 1ull << page % 64;
    return true;
}

static bool are_written(const struct pfl_smb_map *self, uint32_t begin, uint32_t end)
{
    while (begin < end && (self->written[begin / 64] >> begin % 64 & 1) != 0)
        begin++;
    return begin == end;
}

uint32_t pfl_smb_map_find_some_written(struct pfl_smb_map *self, uint32_t begin, bool *ret_has_read)
{
    static uint8_t window[WINDOW_BYTES]; /* one loop, one thread */
    const struct pfl_smb *smb = &self->smb;
    uint32_t step = WINDOW_BYTES / smb->page_bytes;
    uint32_t end = smb->pages - begin < step ? smb->pages : begin + step;
    size_t bytes = (size_t)(end - begin) * smb->page_bytes;
    ssize_t n;

    *ret_has_read = !are_written(self, begin, end);
    if (!*ret_has_read)
        return end;
    n = pread(self->fd, window, bytes, (off_t)begin * smb->page_bytes);
    self->has_faulted = self->has_faulted || n < 0;
    if (n != (ssize_t)bytes)
        return end;
    for (uint32_t page = begin; page < end; page++) {
        uint32_t header;

        memcpy(&header, window + (size_t)(page - begin) * smb->page_bytes, sizeof(header));
        if (header != 0)
            self->written[page / 64] |= 1ull << page % 64;
    }
    return end;
}

static int take(const struct pfl_smb_map *self, uint32_t page_untrusted, uint32_t chunk_untrusted,
                struct pfl_smb_chunk *ret_chunk)
{
    struct pfl_page_header *page = pfl_smb_page(&self->smb, page_untrusted);
    struct pfl_chunk_header *header;
    uint32_t bitmap = 0;

    switch (pfl_state_begin_read(page, chunk_untrusted, &bitmap)) {
    case PFL_STATE_DONE:
        break;
    case PFL_STATE_CONTENDED:
        return PFL_EAGAIN;
    case PFL_STATE_REFUSED:
    default:
        return PFL_ENOENT;
    }
    /* `bitmap` is our copy: it names a chunk inside the page whatever the page says by now. */
    header = pfl_smb_chunk(&self->smb, page_untrusted, bitmap, chunk_untrusted);
    if (header == NULL)
        return PFL_ENOENT;
    *ret_chunk = (struct pfl_smb_chunk){
        .header = header,
        .view = pfl_chunk_look(header),
        .payload = pfl_chunk_payload(header),
        .payload_bytes = pfl_page_payload_bytes(self->smb.page_bytes, bitmap),
        .is_complete = true,
    };
    return 0;
}

int pfl_smb_map_take(struct pfl_smb_map *self, uint32_t page_untrusted, uint32_t chunk_untrusted,
                     struct pfl_smb_chunk *ret_chunk)
{
    int rc;

    if (self->has_faulted || pfl_smb_page(&self->smb, page_untrusted) == NULL ||
        !pfl_smb_map_is_written(self, page_untrusted))
        return PFL_ENOENT;
    pfl_smb_map_begin_touch(self);
    rc = take(self, page_untrusted, chunk_untrusted, ret_chunk);
    if (rc != 0)
        pfl_smb_map_end_touch();
    return rc;
}

int pfl_smb_map_release(const struct pfl_smb_map *self, uint32_t page, uint32_t chunk,
                        struct pfl_chunk_header *header)
{
    enum pfl_state_result result =
        pfl_state_end_read(pfl_smb_page(&self->smb, page), chunk, header);

    pfl_smb_map_end_touch();
    return result == PFL_STATE_DONE ? 0 : PFL_EAGAIN;
}
