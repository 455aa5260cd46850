/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of a program that is not ours and reads what strangers wrote: this process enters it
 * and becomes that program. It reads what programs need (/usr, /lib) and itself; it writes to its
 * standard descriptors alone, has no others, no network, no capability, and bounds for memory and
 * time.
 */
#ifndef PFL_BASE_SANDBOX_GUEST_H
#define PFL_BASE_SANDBOX_GUEST_H

#include "base/sandbox/sandbox.h"

struct pfl_guest_conf {
    enum pfl_sandbox_mode mode;
    const char *program;  /* absolute path */
    uint64_t max_bytes;   /* of its address space */
    uint64_t max_seconds; /* of CPU time */
};

/* What this kernel, or what surrounds this process, lacks of it: "Landlock", "seccomp", both with
 * "and" between them; NULL: nothing. Static. */
const char *pfl_guest_find_missing(void);

/*
 * Enters and executes the program with `argv`. Returns only on failure: PFL_ESTATE: REQUIRE and
 * something is missing; PFL_EIO: errno has the reason. The process has to exit then. Only for a
 * process with one thread.
 */
int pfl_guest_run(const struct pfl_guest_conf *conf, char *const *argv);

#endif
