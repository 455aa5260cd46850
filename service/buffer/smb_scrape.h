/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scraping: copies what registered writers have written and not committed yet, without changing
 * anything in shared memory (docs/abi/smb.md 9). When it is due is the session's business.
 */
#ifndef PFL_SERVICE_SMB_SCRAPE_H
#define PFL_SERVICE_SMB_SCRAPE_H

#include "service/buffer/commit.h"

struct pfl_smb_scrape_conf {
    struct pfl_commit_identity identity;
    const struct pfl_smb_map *map; /* borrowed; an empty one has nothing to scrape */
    /* The buffer the writer is registered for, if that is one of the session's; else NULL. */
    struct pfl_trace_buffer *(*get_writer_buffer)(void *user, uint16_t writer_id);
    void *user;
};

/* Returns how many chunks were offered to buffers. */
size_t pfl_smb_scrape(const struct pfl_smb_scrape_conf *conf);

#endif
