/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scraping: copies what registered writers have written and not committed yet, without changing
 * anything in shared memory (docs/abi/smb.md 9). The session decides when.
 */
#ifndef PFL_SERVICE_SMB_SCRAPE_H
#define PFL_SERVICE_SMB_SCRAPE_H

#include "service/buffer/commit.h"
#include "service/buffer/copy_area.h"

/*
 * The cost of a scrape, in units of some microseconds: per chunk, and per bytes of chunks; per
 * group of pages that are looked at, and again if they were not known to be written.
 */
#define PFL_SCRAPE_COST_CHUNK   2u
#define PFL_SCRAPE_BYTES_A_UNIT 4096u
#define PFL_SCRAPE_COST_PAGES   2u
#define PFL_SCRAPE_COST_READ    5u

struct pfl_smb_scrape_conf {
    struct pfl_commit_identity identity;
    struct pfl_smb_map *map; /* borrowed; an empty one has nothing to scrape */
    /* The buffer for which the writer is registered, if the session owns it; else NULL. */
    struct pfl_trace_buffer *(*get_writer_buffer)(void *user, uint16_t writer_id);
    bool (*may_continue)(void *user); /* asked after each page; NULL: always true */
    void *user;
    uint32_t page;   /* to begin at */
    uint64_t credit; /* units; the page at which they run out is finished */
};

struct pfl_smb_scrape_result {
    size_t offered; /* chunks offered to buffers */
    uint64_t units;
    uint32_t next_page; /* where to continue; past the last one: finished */
};

/* A credit of 1 or more scrapes at least one page. */
struct pfl_smb_scrape_result pfl_smb_scrape(const struct pfl_smb_scrape_conf *conf);

/* The same for a chunk that a copier found. Returns the units. */
uint64_t pfl_smb_scrape_copy(const struct pfl_smb_scrape_conf *conf,
                             const struct pfl_copy_entry *copy, const uint8_t *payload);

#endif
