/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's functions by address (/proc/kallsyms), and the addresses that a session met. Pure.
 *
 * Names reveal nothing about the kernel's location in memory; addresses never leave this program.
 */
#ifndef PFL_PROBES_KSYMS_H
#define PFL_PROBES_KSYMS_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_KSYMS_MAX       2000000u
#define PFL_KSYMS_NAMES_MAX (64u * 1024u * 1024u)
#define PFL_KSYMS_REACH     (1024u * 1024u) /* bytes after a symbol that still belong to it */
#define PFL_KSYM_LINE_MAX   1024u
#define PFL_KSYM_SLOTS      8192u /* a power of two */

struct pfl_ksym {
    uint64_t address;
    uint32_t name; /* in names */
    uint32_t len;
};

struct pfl_ksyms {
    struct pfl_ksym *symbols; /* owned; sorted after seal */
    size_t count;
    size_t room;
    char *names; /* owned */
    size_t names_len;
    size_t names_room;
    char line[PFL_KSYM_LINE_MAX]; /* an incomplete line at the end of the bytes so far */
    size_t line_len;
};

/* Takes text in pieces of any length; malformed lines and hidden addresses are skipped. PFL_ENOMEM,
 * PFL_ELIMIT. On zeroed memory. */
PFL_MUST_USE int pfl_ksyms_feed(struct pfl_ksyms *self, struct pfl_span text);
/* After the last piece. */
void pfl_ksyms_seal(struct pfl_ksyms *self);
void pfl_ksyms_fini(struct pfl_ksyms *self); /* legal on zeroed memory */
/* The function that contains the address; empty: none. Borrowed. */
struct pfl_span pfl_ksyms_find(const struct pfl_ksyms *self, uint64_t address);

/* Addresses met since the last clear. */
struct pfl_ksym_set {
    uint64_t *slots; /* owned; PFL_KSYM_SLOTS, 0: free */
    uint64_t *fresh; /* owned; those added since take_fresh */
    size_t count;
    size_t fresh_count;
};

PFL_MUST_USE int pfl_ksym_set_init(struct pfl_ksym_set *self); /* PFL_ENOMEM */
void pfl_ksym_set_fini(struct pfl_ksym_set *self);             /* legal on zeroed memory */
/* Addresses that do not fit (three quarters of the slots) stay without a name. */
void pfl_ksym_set_add(struct pfl_ksym_set *self, uint64_t address);
void pfl_ksym_set_clear(struct pfl_ksym_set *self);

#endif
