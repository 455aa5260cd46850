/* SPDX-License-Identifier: Apache-2.0 */
/* FtraceConfig.syscall_events: system calls by name, and the kernel's filter for them. Pure. */
#ifndef PFL_PROBES_SYSCALL_FILTER_H
#define PFL_PROBES_SYSCALL_FILTER_H

#include "base/bytes.h"

#define PFL_SYSCALLS_MAX         1024u
#define PFL_SYSCALL_FILTER_BYTES 4000u /* the kernel accepts less than a page */

struct pfl_syscall_name {
    const char *name; /* without sys_ */
    uint32_t number;
};

/* Ends with a NULL; made by the build. */
extern const struct pfl_syscall_name pfl_syscall_names[];

/* Which system calls: a bit a number. */
struct pfl_syscall_filter {
    uint8_t bits[PFL_SYSCALLS_MAX / 8];
    bool is_on; /* otherwise: all */
};

/* Does this call return a file that it opened? The same six calls as in traced_probes. */
bool pfl_syscall_opens_file(int64_t number);

/* "sys_read" to this machine's number; false: there is no such call. */
bool pfl_syscall_find(struct pfl_span name, uint32_t *ret_number);

void pfl_syscall_filter_add(struct pfl_syscall_filter *self, uint32_t number);
static inline bool pfl_syscall_filter_takes(const struct pfl_syscall_filter *self, int64_t number)
{
    return !self->is_on || (number >= 0 && number < (int64_t)PFL_SYSCALLS_MAX &&
                            (self->bits[number / 8] >> (number % 8) & 1) != 0);
}
/* `self` becomes the union of both. */
void pfl_syscall_filter_join(struct pfl_syscall_filter *self,
                             const struct pfl_syscall_filter *other);
/* "id == 0 || id == 1", or "0" (no filter) if all are wanted or the text does not fit. */
void pfl_syscall_filter_text(const struct pfl_syscall_filter *self,
                             char ret_text[PFL_SYSCALL_FILTER_BYTES]);

#endif
