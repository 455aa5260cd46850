/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops all rights that a program no longer needs once it has opened its resources: docs/adr/0012.
 * A program enters it after its sockets listen and before it starts a thread or reads a byte of a
 * peer.
 */
#ifndef PFL_BASE_SANDBOX_SANDBOX_H
#define PFL_BASE_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum pfl_sandbox_mode {
    PFL_SANDBOX_AUTO,    /* as much as this kernel has; missing features are logged */
    PFL_SANDBOX_REQUIRE, /* all of it, or entering fails */
    PFL_SANDBOX_OFF,     /* only no_new_privs and the user */
};

/* What a program does in the sandbox, besides serving open sockets, in threads. Flags. */
enum pfl_sandbox_need {
    PFL_SANDBOX_SHARES_MEMORY = 1 << 0,     /* makes memfds, and pairs of UNIX sockets */
    PFL_SANDBOX_CONNECTS_UNIX = 1 << 1,     /* makes UNIX sockets and connects them */
    PFL_SANDBOX_CONNECTS_ABSTRACT = 1 << 2, /* with CONNECTS_UNIX: also to abstract names */
    PFL_SANDBOX_BOOSTS = 1 << 3, /* raises its own priority: keeps CAP_SYS_NICE if it has it */
    PFL_SANDBOX_DIALS = 1 << 4,  /* makes TCP connections and resolves names (see dial_ports) */
    PFL_SANDBOX_FORKS = 1 << 5,  /* forks, waits for its children and kills processes (SIGKILL) */
};

/* Allowed operations on the files beneath a folder. Flags. */
enum pfl_sandbox_right {
    PFL_SANDBOX_READ = 1 << 0, /* open regular files to read them */
    PFL_SANDBOX_CREATE =
        1 << 1, /* create regular files that are not there yet, write and read them */
    PFL_SANDBOX_REMOVE = 1 << 2,  /* remove files */
    PFL_SANDBOX_APPEND = 1 << 3,  /* open regular files, created if need be, to append to them */
    PFL_SANDBOX_UNNAMED = 1 << 4, /* make files without a name, write and read them */
    /* make, list, rename, write, lock and remove files and folders. Only Landlock holds such a
     * program to its folders: a filter of calls cannot see names. */
    PFL_SANDBOX_KEEP = 1 << 5,
    /* With CREATE and REMOVE: also rename files, which does no more than these two can. */
    PFL_SANDBOX_RENAME = 1 << 6,
};

struct pfl_sandbox_folder {
    const char *path; /* borrowed during the call */
    unsigned rights;  /* enum pfl_sandbox_right */
};

struct pfl_sandbox_conf {
    enum pfl_sandbox_mode mode;
    const char *user;                         /* name or number to become; NULL: unchanged */
    unsigned needs;                           /* enum pfl_sandbox_need */
    const struct pfl_sandbox_folder *folders; /* borrowed during the call */
    size_t folders_len;
    const uint16_t *dial_ports; /* with DIALS: only these ports, if Landlock supports TCP */
    size_t dial_ports_len;      /* 0: any */
};

/* "auto", "require" or "off". */
bool pfl_sandbox_mode_parse(const char *name, enum pfl_sandbox_mode *ret_mode);

/* Enters, permanently, and logs one line with the effective restrictions. Failures are logged too
 * and leave the process half restricted; it must exit: PFL_EINVAL: no such user or folder,
 * PFL_EPERM: cannot become that user, PFL_ESTATE: REQUIRE and something is missing, PFL_ENOMEM. */
PFL_MUST_USE int pfl_sandbox_enter(const struct pfl_sandbox_conf *conf);

/* For a child of a process with PFL_SANDBOX_FORKS: it gives that need up, and threads too. Not
 * logged. PFL_ESTATE: the kernel refuses, PFL_ENOMEM. */
PFL_MUST_USE int pfl_sandbox_end_forks(void);

#endif
