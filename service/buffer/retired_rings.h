/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of buffers that are freed. The kernel takes 0.05 ms to release a MiB, 30 ms for 600 MiB,
 * so large ones are released in turns of the loop. One list for the process; for the thread of the
 * loop.
 */
#ifndef PFL_SERVICE_RETIRED_RINGS_H
#define PFL_SERVICE_RETIRED_RINGS_H

#include <stddef.h>
#include <stdint.h>

/* Written bytes that one turn releases. If more than PFL_RETIRED_TURNS turns' worth waits, a turn
 * releases the PFL_RETIRED_TURNS-th part of it. */
#define PFL_RETIRED_TURN_BYTES (1u << 20)
#define PFL_RETIRED_TURNS      512u

/* Transfers the mapping. Its first `used_bytes` were written to. */
void pfl_retired_rings_add(void *base, size_t bytes, size_t used_bytes);
/* Runs the next turn. */
void pfl_retired_rings_release(void);
void pfl_retired_rings_release_all(void);
/* Written bytes that wait to be released; 0: none. */
uint64_t pfl_retired_rings_get_bytes(void);

#endif
