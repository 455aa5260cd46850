/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer's shared memory as the service or a copier sees it: created (a sealed memfd) or
 * offered by the producer, and unable to shrink under us (docs/abi/smb.md 1, 3, 7). The service
 * maps that of root's producers and of its own user's. Who has the descriptor can have the kernel
 * let all others wait that read it, map it or unmap it, so of other users' memory the service has
 * the descriptor alone, and a copier maps it (docs/adr/0065).
 */
#ifndef PFL_SERVICE_SMB_MAP_H
#define PFL_SERVICE_SMB_MAP_H

#include "abi/page.h"
#include "base/err.h"
#include "base/list.h"

struct pfl_smb_map {
    struct pfl_smb smb;        /* smb.base is NULL while it is not mapped */
    size_t bytes;              /* 0: there is no memory */
    int fd;                    /* owned; -1 when there is none */
    bool is_adopted;           /* the producer's own memory */
    volatile bool has_faulted; /* a page could not be read, and became zeros: no more are read */
    uint64_t *written;         /* owned: bitmap of pages that are known to hold data */
    uint32_t who;              /* whose it is, for base/closer.h */
    struct pfl_list node;      /* of all that are mapped */
};

/* One chunk taken out of shared memory: its words, each read once. */
struct pfl_smb_chunk {
    struct pfl_chunk_header *header;
    struct pfl_chunk_view view;
    const uint8_t *payload; /* shared: may change at any time */
    uint32_t payload_bytes;
    bool is_complete;
};

/* No memory, fd -1. */
void pfl_smb_map_init(struct pfl_smb_map *self);
void pfl_smb_map_fini(struct pfl_smb_map *self);
static inline bool pfl_smb_map_is_open(const struct pfl_smb_map *self)
{
    return self->bytes != 0;
}

/* Creates the memory, and maps it if that is wanted; pfl_limits_choose_smb gives `size`. The
 * producer is sent the map's `fd`. PFL_ESTATE when it is open already, PFL_EINVAL, PFL_EIO. */
PFL_MUST_USE int pfl_smb_map_create(struct pfl_smb_map *self, struct pfl_smb_size size,
                                    bool is_mapped);
/*
 * Takes memory that a producer offers. It needs the seals against shrinking, growing and more
 * seals, and a size that the service would choose for that page size. On success `fd` is the map's,
 * on failure still the caller's. Never waits, unless it maps. PFL_EPERM (seals), PFL_EINVAL
 * (sizes), PFL_ESTATE, PFL_EIO.
 */
PFL_MUST_USE int pfl_smb_map_adopt(struct pfl_smb_map *self, int fd, uint64_t page_bytes_untrusted,
                                   bool is_mapped);

/*
 * Has the producer ever written this page's header? Reading an unwritten page through the mapping
 * would make the kernel allocate it, at our cost; so pread(2) asks, until the answer is yes.
 */
bool pfl_smb_map_find_written(struct pfl_smb_map *self, uint32_t page);
static inline bool pfl_smb_map_is_known_written(const struct pfl_smb_map *self, uint32_t page)
{
    return (self->written[page / 64] >> page % 64 & 1) != 0;
}
static inline bool pfl_smb_map_is_written(struct pfl_smb_map *self, uint32_t page)
{
    return pfl_smb_map_is_known_written(self, page) || pfl_smb_map_find_written(self, page);
}

/* The same for several pages from `begin` on: one call for each of a producer's 8192 pages would
 * take 20 ms. Returns the page after them; `*ret_has_read` says whether the memory had to be
 * read. */
uint32_t pfl_smb_map_find_some_written(struct pfl_smb_map *self, uint32_t begin,
                                       bool *ret_has_read);

/* For the thread that uses the maps: a page of a map that cannot be read becomes zeros and sets
 * has_faulted. Either there is no memory for it, or it is broken (a handler of SIGBUS); or the
 * kernel tries without end to bring it back (a timer of CPU time, with SIGVTALRM: then all pages
 * become zeros). */
void pfl_smb_map_guard(void);
/* What follows reads, or writes, one page of the map, until the end. */
void pfl_smb_map_begin_touch(struct pfl_smb_map *self);
void pfl_smb_map_end_touch(void);
/* In between nothing is read there; what is done then may take any time. NULL is legal. */
struct pfl_smb_map *pfl_smb_map_pause_touch(void);
void pfl_smb_map_resume_touch(struct pfl_smb_map *self);

/* Prefetches the cache line of the page's header, and that of its first chunk, which the producer
 * wrote last. */
static inline void pfl_smb_map_prefetch(const struct pfl_smb_map *self, uint32_t page_untrusted)
{
    const void *page = pfl_smb_page(&self->smb, page_untrusted);

    if (page != NULL)
        __builtin_prefetch(page, 1);
}

/*
 * Complete -> BeingRead. PFL_ENOENT: no such page or chunk, or not Complete, or a page could not be
 * read before, or the memory may not be touched: skip the entry. PFL_EAGAIN: the producer kept
 * changing the page under us; nothing was done. On success the page is touched until its release.
 */
PFL_MUST_USE int pfl_smb_map_take(struct pfl_smb_map *self, uint32_t page_untrusted,
                                  uint32_t chunk_untrusted, struct pfl_smb_chunk *ret_chunk);
/* Clears the header, BeingRead -> Free; the last free chunk of a page takes its layout away.
 * PFL_EAGAIN when the producer interferes: the chunk is lost to it. */
PFL_MUST_USE int pfl_smb_map_release(const struct pfl_smb_map *self, uint32_t page, uint32_t chunk,
                                     struct pfl_chunk_header *header);

#endif
