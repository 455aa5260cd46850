/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics in Prometheus' text format (0.0.4), in a buffer with a maximum: families one after the
 * other, each with its rows. Pure. The first error is kept and returned at the end.
 */
#ifndef PFL_BASE_METRICS_H
#define PFL_BASE_METRICS_H

#include <stdint.h>

#include "base/buf.h"

/* Maximum of the text: rows of all hosts that a relay may know, and a reserve. */
#define PFL_METRICS_MAX_BYTES (8u << 20)

enum pfl_metrics_type {
    PFL_METRICS_GAUGE = 0,
    PFL_METRICS_COUNTER = 1, /* never falls while the process lives; its name ends in _total */
};

struct pfl_metrics {
    struct pfl_buf text; /* owned */
    const char *family;  /* static; of the rows to come */
    int err;             /* the first failure; nothing is written after it */
};

struct pfl_metrics_label {
    const char *name;            /* static */
    const char *value_untrusted; /* any bytes; borrowed until return */
};

void pfl_metrics_init(struct pfl_metrics *self, size_t max_bytes);
void pfl_metrics_fini(struct pfl_metrics *self); /* legal on zeroed memory */

/* Begins a family; `name` (static, [a-z_]) and `help` (one line without \) are ours. */
void pfl_metrics_family(struct pfl_metrics *self, enum pfl_metrics_type type, const char *name,
                        const char *help);
/* A row of the family. In a label's value \, " and line ends are escaped; other control bytes and
 * all that is not ASCII become '?'. */
void pfl_metrics_row(struct pfl_metrics *self, const struct pfl_metrics_label *labels,
                     size_t labels_len, double value);
/* A family of one row without labels. */
void pfl_metrics_single(struct pfl_metrics *self, enum pfl_metrics_type type, const char *name,
                        const char *help, double value);
/* Appends whole families that another one has, with its error. */
void pfl_metrics_append(struct pfl_metrics *self, const struct pfl_metrics *families);
/* The text, borrowed until fini. PFL_ELIMIT, PFL_ENOMEM: it is incomplete. */
PFL_MUST_USE int pfl_metrics_get(const struct pfl_metrics *self, struct pfl_span *ret_text);

#endif
