/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program gives up once it has opened what it needs: docs/adr/0012. A program enters it
 * after its sockets listen and before it starts a thread or reads a byte of a peer.
 */
#ifndef PFL_BASE_SANDBOX_SANDBOX_H
#define PFL_BASE_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum pfl_sandbox_mode {
    PFL_SANDBOX_AUTO,    /* what this kernel has; what it lacks is logged */
    PFL_SANDBOX_REQUIRE, /* all of it, or entering fails */
    PFL_SANDBOX_OFF,     /* only no_new_privs and the user */
};

/* What a program does after entering, besides serving open sockets, in threads. Flags. */
enum pfl_sandbox_need {
    PFL_SANDBOX_SHARES_MEMORY = 1 << 0,     /* makes memfds */
    PFL_SANDBOX_CONNECTS_UNIX = 1 << 1,     /* makes UNIX sockets and connects them */
    PFL_SANDBOX_CONNECTS_ABSTRACT = 1 << 2, /* with CONNECTS_UNIX: also to abstract names */
    PFL_SANDBOX_BOOSTS = 1 << 3, /* raises its own priority: keeps CAP_SYS_NICE if it has it */
    PFL_SANDBOX_DIALS = 1 << 4,  /* makes TCP connections and asks for names (see dial_ports) */
};

/* What it may do with the files beneath a folder. Flags. */
enum pfl_sandbox_right {
    PFL_SANDBOX_READ = 1 << 0, /* open regular files to read them */
    PFL_SANDBOX_CREATE =
        1 << 1, /* create regular files that are not there yet, write and read them */
    PFL_SANDBOX_REMOVE = 1 << 2,  /* remove files */
    PFL_SANDBOX_APPEND = 1 << 3,  /* open regular files, created if need be, to append to them */
    PFL_SANDBOX_UNNAMED = 1 << 4, /* make files without a name, write and read them */
};

struct pfl_sandbox_folder {
    const char *path; /* borrowed during the call */
    unsigned rights;  /* enum pfl_sandbox_right */
};

struct pfl_sandbox_conf {
    enum pfl_sandbox_mode mode;
    const char *user;                         /* name or number to become; NULL stays */
    unsigned needs;                           /* enum pfl_sandbox_need */
    const struct pfl_sandbox_folder *folders; /* borrowed during the call */
    size_t folders_len;
    const uint16_t *dial_ports; /* with DIALS: no other ports, where Landlock knows TCP */
    size_t dial_ports_len;      /* 0: any */
};

/* "auto", "require" or "off". */
bool pfl_sandbox_mode_parse(const char *name, enum pfl_sandbox_mode *ret_mode);

/* Enters, for good, and logs one line: what holds now. Failures are logged too and leave the
 * process in between, to be ended: PFL_EINVAL no such user or folder, PFL_EPERM that user cannot be
 * had, PFL_ESTATE REQUIRE and something is missing, PFL_ENOMEM. */
PFL_MUST_USE int pfl_sandbox_enter(const struct pfl_sandbox_conf *conf);

#endif
