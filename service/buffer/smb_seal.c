/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals shared memory on a thread.
 *
 * Happy path: the thread adds F_SEAL_FUTURE_WRITE, which forbids holes (and new writable mappings:
 * the producer has its own by then). Then it makes a pipe, and puts a byte of a page of each range
 * of HUGE_BYTES into it. A page in a pipe has a reference more than the kernel expects, so it makes
 * no huge page of that range; and from the seal on no page goes away. The pipe is made as late, so
 * that what waits takes no descriptors for it.
 * Failures: a seal against seals, or a hole where a page is to be held, is the producer's doing.
 * Without a descriptor or room in a pipe it is tried again.
 * Ownership: of the loop and the thread, the last one closes and frees, but memory that the thread
 * leaves is freed by the loop, at its next call. Limits: a thread for each user,
 * PFL_CLOSER_WORK_THREADS in all.
 */
#include "service/buffer/smb_seal.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/mem.h"

#define HUGE_BYTES (2u << 20) /* or a multiple of it: the more pages are held */

struct pfl_smb_seal {
    atomic_bool is_alone; /* the loop has left it, or the thread has ended */
    int fd;
    enum pfl_smb_sealed result; /* of the thread */
    int held;                   /* likewise */
    struct pfl_smb_seal *next;
};

/* Those that the loop left first: to be freed. */
static _Atomic(struct pfl_smb_seal *) left;

static void free_left(void)
{
    struct pfl_smb_seal *seal = atomic_exchange(&left, NULL);

    while (seal != NULL) {
        struct pfl_smb_seal *next = seal->next;

        pfl_mem_free(seal);
        seal = next;
    }
}

bool pfl_smb_seal_is_possible(void)
{
    static int known; /* 1 yes, -1 no */
    int fd;

    if (known != 0)
        return known > 0;
    fd = memfd_create("perfetto_probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return true; /* nothing else can be made then, either */
    known = fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 ? 1 : -1;
    (void)close(fd);
    return known > 0;
}

/* ---- pages are held ---- */

static off_t count_ranges(off_t bytes)
{
    return (bytes + HUGE_BYTES - 1) / HUGE_BYTES;
}

/* For a page of each range. */
static bool open_pipe(off_t ranges, int ends[2])
{
    int bytes = (int)ranges * (int)sysconf(_SC_PAGESIZE);

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    if (fcntl(ends[0], F_SETPIPE_SZ, bytes) >= bytes)
        return true;
    (void)close(ends[0]); /* many pipes are small */
    (void)close(ends[1]);
    return false;
}

int pfl_smb_seal_prepare(int fd, uint32_t bytes)
{
    off_t ranges = count_ranges(bytes);
    int ends[2];

    if (!open_pipe(ranges, ends))
        return PFL_ELIMIT;
    (void)close(ends[0]);
    (void)close(ends[1]);
    for (off_t i = 0; i < ranges; i++) {
        if (pwrite(fd, "", 1, i * HUGE_BYTES) != 1)
            return PFL_EIO;
    }
    return 0;
}

static bool hold_pages(int fd, off_t bytes, int to)
{
    for (off_t begin = 0; begin < bytes; begin += HUGE_BYTES) {
        off_t at = lseek(fd, begin, SEEK_DATA);

        if (at < begin || at >= begin + HUGE_BYTES ||
            splice(fd, &at, to, NULL, 1, SPLICE_F_NONBLOCK) != 1)
            return false;
    }
    return true;
}

/* ---- the thread ---- */

/* What is huge already, and held, stays so. */
static enum pfl_smb_sealed seal_and_hold(int fd, int *ret_held)
{
    struct stat st;
    int ends[2];

    if ((fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0)
        return PFL_SMB_SEALED_NEVER;
    if (fstat(fd, &st) != 0 || !open_pipe(count_ranges(st.st_size), ends))
        return PFL_SMB_SEALED_AGAIN;
    if (hold_pages(fd, st.st_size, ends[1])) {
        (void)close(ends[1]);
        *ret_held = ends[0];
        return PFL_SMB_SEALED;
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    return PFL_SMB_SEALED_NEVER;
}

static void run(void *work)
{
    struct pfl_smb_seal *self = work;

    self->result = seal_and_hold(self->fd, &self->held);
    if (!atomic_exchange(&self->is_alone, true))
        return; /* from here on it is the loop's */
    (void)close(self->fd);
    if (self->held >= 0)
        (void)close(self->held);
    self->next = atomic_load(&left);
    while (!atomic_compare_exchange_weak(&left, &self->next, self))
        ;
}

/* ---- the loop ---- */

struct pfl_smb_seal *pfl_smb_seal_begin(int fd, uint32_t uid)
{
    struct pfl_smb_seal *self = pfl_mem_zalloc(sizeof(*self));

    free_left();
    if (self == NULL)
        return NULL;
    self->fd = fd;
    self->held = -1;
    pfl_closer_run(run, self, uid);
    return self;
}

/* Only to ask for the seals never waits for who makes a hole. */
enum pfl_smb_sealed pfl_smb_seal_look(const struct pfl_smb_seal *self)
{
    int seals;

    if (atomic_load(&self->is_alone))
        return self->result;
    pfl_closer_retry();
    seals = fcntl(self->fd, F_GET_SEALS);
    return (seals & (F_SEAL_SEAL | F_SEAL_FUTURE_WRITE)) == F_SEAL_SEAL ? PFL_SMB_SEALED_NEVER
                                                                        : PFL_SMB_SEALED_NOT_YET;
}

bool pfl_smb_seal_end(struct pfl_smb_seal *self, int *ret_held)
{
    *ret_held = -1;
    if (!atomic_exchange(&self->is_alone, true))
        return false; /* from here on it is the thread's */
    *ret_held = self->held;
    pfl_mem_free(self);
    return true;
}

void pfl_smb_seal_wait(void)
{
    pfl_closer_wait();
    free_left();
}
