/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copier's process: maps, and copies (copy_area.h). It is forked by the copiers' parent
 * (copier_parent.h), has one user's memory, and ends with its socket.
 */
#ifndef PFL_SERVICE_COPIER_H
#define PFL_SERVICE_COPIER_H

#include "service/buffer/copy_area.h"
#include "service/buffer/smb_map.h"

/* Serves until the socket ends, which waits from now on. `area` is mapped. */
void pfl_copier_run(int sock, struct pfl_copy_area *area);

/* Its parts, without a process. COMMIT: each entry in turn. An entry for which `data` has not a
 * page left is PFL_COPY_NONE and stays complete: PFL_COPY_DATA_BYTES / page_bytes entries always
 * fit. */
void pfl_copier_commit(struct pfl_smb_map *map, struct pfl_copy_area *area);
/* SCRAPE: chunks in use, of pages from `page` on that were ever written, until `entries` or `data`
 * might not hold another page. Nothing in the memory changes. */
void pfl_copier_scrape(struct pfl_smb_map *map, uint32_t page, struct pfl_copy_area *area);

#endif
