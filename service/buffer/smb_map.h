/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer's shared memory as the service sees it: created here (a sealed memfd) or offered by
 * the producer, mapped read-write, and unable to shrink under us (docs/abi/smb.md 1, 3, 7).
 *
 * Who has the descriptor of a memfd can make holes in it, and the kernel lets all who read a page
 * there, map the memory or unmap it wait for the end of that, however long it takes. So once the
 * producer has mapped what was created here, a seal forbids that (docs/adr/0063). Likewise, who has
 * it mapped very often can have the kernel make huge pages of it, which keeps its pages locked: of
 * each huge page's range one page is held then, which forbids that (docs/adr/0064). Until then
 * nothing is read.
 */
#ifndef PFL_SERVICE_SMB_MAP_H
#define PFL_SERVICE_SMB_MAP_H

#include "abi/page.h"
#include "base/err.h"
#include "base/list.h"

enum pfl_smb_state {
    PFL_SMB_OURS,    /* nobody else has the descriptor, or its owner is trusted; or it is sealed */
    PFL_SMB_SHARED,  /* the producer has it; it is not known to have mapped it */
    PFL_SMB_SEALING, /* a thread adds the seal, and holds pages */
    PFL_SMB_FOREIGN, /* the producer keeps it from that: it is not touched any more, or unmapped */
};

struct pfl_smb_seal;

struct pfl_smb_map {
    struct pfl_smb smb;        /* smb.base is NULL while there is no memory */
    size_t bytes;              /* mapped */
    int fd;                    /* owned; -1 when there is none */
    int held;                  /* owned: a pipe with a byte of each page that is held; -1 */
    struct pfl_smb_seal *seal; /* owned: being added; NULL */
    enum pfl_smb_state state;
    bool is_adopted;           /* the producer's own memory */
    volatile bool has_faulted; /* a page could not be read, and became zeros: no more are read */
    uint64_t *written;         /* owned: bitmap of pages that are known to hold data */
    uint32_t who;              /* whose it is, for base/closer.h */
    struct pfl_list node;      /* of all open maps */
};

/* One chunk taken out of shared memory: its words, each read once. */
struct pfl_smb_chunk {
    struct pfl_chunk_header *header;
    struct pfl_chunk_view view;
    const uint8_t *payload; /* shared: may change at any time */
    uint32_t payload_bytes;
    bool is_complete;
};

/* An empty map: no memory, fd -1. */
void pfl_smb_map_init(struct pfl_smb_map *self);
/* Memory that is shared and not sealed stays mapped. */
void pfl_smb_map_fini(struct pfl_smb_map *self);
static inline bool pfl_smb_map_is_open(const struct pfl_smb_map *self)
{
    return self->smb.base != NULL;
}

/* Creates the memory; pfl_limits_choose_smb gives `size`. The producer is sent the map's `fd`:
 * then call share.
 * PFL_ESTATE when it is open already, PFL_EINVAL, PFL_EIO; PFL_ELIMIT: a smaller one may be made.
 */
PFL_MUST_USE int pfl_smb_map_create(struct pfl_smb_map *self, struct pfl_smb_size size);
/* The producer has the descriptor. */
void pfl_smb_map_share(struct pfl_smb_map *self);
/*
 * It has mapped the memory: that may be sealed now, which a thread does, for it may take long. To
 * be called until the state is PFL_SMB_OURS or PFL_SMB_FOREIGN; it is PFL_SMB_SHARED again if there
 * was no pipe.
 */
enum pfl_smb_state pfl_smb_map_seal(struct pfl_smb_map *self);
/*
 * Takes memory that a producer offers, who is trusted not to make holes in it. It needs the seals
 * against shrinking, growing and more seals, and a size that the service would choose for that page
 * size. On success `fd` is the map's, on failure still the caller's. PFL_EPERM (seals), PFL_EINVAL
 * (sizes), PFL_ESTATE, PFL_EIO.
 */
PFL_MUST_USE int pfl_smb_map_adopt(struct pfl_smb_map *self, int fd, uint64_t page_bytes_untrusted);

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
