/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of buffers that are freed. The kernel takes 0.05 ms to release a MiB, 30 ms for 600 MiB:
 * large ones are released in turns of the loop. Of the process, for the thread of the loop.
 */
#ifndef PFL_SERVICE_RETIRED_RINGS_H
#define PFL_SERVICE_RETIRED_RINGS_H

#include <stddef.h>
#include <stdint.h>

/* Of what was written, in a turn; where more than so many turns' worth waits, an equal part. */
#define PFL_RETIRED_TURN_BYTES (1u << 20)
#define PFL_RETIRED_TURNS      512u

/* Transfers the mapping, of which the first `used_bytes` were written to. */
void pfl_retired_rings_add(void *base, size_t bytes, size_t used_bytes);
/* The next turn. */
void pfl_retired_rings_release(void);
void pfl_retired_rings_release_all(void);
/* That were written to and wait; 0: nothing waits. */
uint64_t pfl_retired_rings_get_bytes(void);

#endif
