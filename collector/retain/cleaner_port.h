/* SPDX-License-Identifier: Apache-2.0 */
/* Cleaning on a loop: a cycle of clean_work_port.h every PFL_CLEANER_EVERY_MS. */
#ifndef PFL_COLLECTOR_RETAIN_CLEANER_PORT_H
#define PFL_COLLECTOR_RETAIN_CLEANER_PORT_H

#include "collector/engines/engines_port.h"
#include "collector/retain/clean_work_port.h"

#define PFL_CLEANER_EVERY_MS 30000u

struct pfl_cleaner;

struct pfl_cleaner_conf {
    uv_loop_t *loop;
    struct pfl_engines *engines;        /* borrowed */
    const struct pfl_keep_rules *rules; /* copied */
    const char *fleet;                  /* copied */
};

struct pfl_cleaner_figures {
    struct pfl_clean_figures clean;
    struct pfl_retention_figures retention;
    uint64_t bound_bytes; /* of all traces; 0: none */
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_cleaner_open(const struct pfl_cleaner_conf *conf,
                                  struct pfl_cleaner **ret_cleaner);
/* No step begins any more; one that is under way ends with its engine. NULL is legal. */
void pfl_cleaner_stop(struct pfl_cleaner *self);
/* After the engines were closed. Freed in the loop's next turn. NULL is legal. */
void pfl_cleaner_close(struct pfl_cleaner *self);
void pfl_cleaner_get_figures(const struct pfl_cleaner *self,
                             struct pfl_cleaner_figures *ret_figures);

#endif
