/* SPDX-License-Identifier: Apache-2.0 */
/* A host's description of itself as JSON. Pure. */
#ifndef PFL_AGENT_HELLO_H
#define PFL_AGENT_HELLO_H

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

#define PFL_HELLO_MAX_LABELS 32u
#define PFL_HELLO_LABEL_MAX  63u

struct pfl_hello_label {
    char name[PFL_HELLO_LABEL_MAX + 1];
    char value[PFL_HELLO_LABEL_MAX + 1];
};

struct pfl_hello_facts {
    char hostname[128];
    char kernel[128];
    char arch[64];
    char boot_id[PFL_CLOCK_BOOT_ID_BYTES];
    long cpus;
};

/* Appends "role=web,zone=b" to `labels` (room for PFL_HELLO_MAX_LABELS). PFL_EINVAL: `ret_why` is
 * static and describes a valid label; PFL_ELIMIT. */
PFL_MUST_USE int pfl_hello_parse_labels(const char *text, struct pfl_hello_label *labels,
                                        size_t *count, const char **ret_why);
/* Free with pfl_mem_free. PFL_ENOMEM. */
PFL_MUST_USE int pfl_hello_encode(const struct pfl_hello_facts *facts,
                                  const struct pfl_hello_label *labels, size_t count,
                                  char **ret_json);

#endif
