/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that enters the sandbox and tries things. No cmocka assertion runs in it: what it
 * tried is its exit code. */
#ifndef PFL_TESTS_SANDBOX_KIT_H
#define PFL_TESTS_SANDBOX_KIT_H

#include <stdbool.h>

#include "base/sandbox/sandbox.h"

#define KIT_WORKED  0
#define KIT_KILLED  1000 /* by the filter */
#define KIT_OUTSIDE 1001 /* entering failed */

struct kit {
    char inside[64]; /* folders; each has a file `there` with the word "there" */
    char outside[64];
    struct pfl_sandbox_folder folder;
    struct pfl_sandbox_conf conf; /* its only folder is `inside` with `folder.rights` */
};

void kit_init(struct kit *kit);
void kit_fini(struct kit *kit);

/* 0 when it worked, else the errno (below 200). */
typedef int (*kit_act_fn)(const struct kit *kit);
/* Runs `act` in a child within the sandbox: KIT_WORKED, an errno, KIT_KILLED or KIT_OUTSIDE. */
int kit_try(const struct kit *kit, kit_act_fn act);
/* What pfl_sandbox_enter returns in a child for which the kernel seems to lack both Landlock and
 * seccomp. */
int kit_enter_on_old_kernel(const struct kit *kit);
/* A line of /proc/PID/status of a child within: "NoNewPrivs", "CapEff", ... */
bool kit_child_has(const struct kit *kit, const char *field, const char *value);

#endif
