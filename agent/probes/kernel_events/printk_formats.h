/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the kernel by address (tracefs printk_formats): the meaning of a `char *` in an
 * event. */
#ifndef PFL_PROBES_PRINTK_FORMATS_H
#define PFL_PROBES_PRINTK_FORMATS_H

#include "base/bytes.h"
#include "base/err.h"

struct pfl_printk_entry {
    uint64_t address;
    uint32_t offset; /* in text */
    uint32_t len;
};

struct pfl_printk_formats {
    char *text;                       /* owned */
    struct pfl_printk_entry *entries; /* owned; by address */
    size_t count;
};

/* Lines `0xADDRESS : "text"`; others are skipped. PFL_ENOMEM. */
PFL_MUST_USE int pfl_printk_formats_init(struct pfl_printk_formats *self, struct pfl_span file);
void pfl_printk_formats_fini(struct pfl_printk_formats *self); /* legal on zeroed memory */
/* Empty when the address is unknown. Borrowed from self. */
struct pfl_span pfl_printk_formats_find(const struct pfl_printk_formats *self, uint64_t address);

#endif
