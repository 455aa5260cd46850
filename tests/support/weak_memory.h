/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine with weak memory, to run threads on that use C11 atomics: every order of their steps,
 * and for every load every value that the orders allow. See weak_memory.c for the model.
 *
 * The code under test is compiled with weak_atomics.h before it, and with -fsanitize=thread, so
 * that its atomics and its plain loads and stores call in here.
 */
#ifndef PFL_TESTS_WEAK_MEMORY_H
#define PFL_TESTS_WEAK_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_WEAK_THREADS_MAX 4u

struct pfl_weak_scenario {
    const char *name;
    void (*begin)(void); /* all memory as it is before; names what is watched */
    void (*threads[PFL_WEAK_THREADS_MAX])(void); /* up to the first NULL */
    void (*end)(void);                           /* NULL, or claims once all have ended */
};

struct pfl_weak_result {
    uint64_t executions;
    uint64_t steps;
    const char *violation; /* the first; NULL: none. Valid until the next run */
    bool is_cut;           /* the model gave up after so many */
};

/* Everything that can happen, up to the first violation. */
struct pfl_weak_result pfl_weak_explore(const struct pfl_weak_scenario *scenario);

/* In begin: plain accesses to these bytes must not race. */
void pfl_weak_watch(const void *at, size_t bytes);
/* In a thread or in end: ends this execution with a violation. */
void pfl_weak_claim(bool holds, const char *claim);

/* --- the atomics that were met, and weakening one of them ----------------------------------- */

enum pfl_weak_kind { PFL_WEAK_LOAD, PFL_WEAK_STORE, PFL_WEAK_CHANGE, PFL_WEAK_FAILURE };

struct pfl_weak_site {
    const char *function;
    enum pfl_weak_kind kind;
    unsigned nth; /* of that kind in that function, by line */
    int line;
    int order; /* as written */
    int weakened;
};

size_t pfl_weak_sites_len(void);
const struct pfl_weak_site *pfl_weak_site_at(size_t index);
/* From now on the order is another; with the written one it is as before. */
void pfl_weak_set_order(size_t index, int order);

/* --- for weak_hooks.c: a plain access follows ------------------------------------------------- */

void pfl_weak_touch(const volatile void *at, size_t bytes, bool is_write);

/* --- for weak_atomics.h ---------------------------------------------------------------------- */

struct pfl_weak_word {
    volatile const void *at;
    size_t bytes;
    const char *function;
    int line;
};

uint64_t pfl_weak_load(struct pfl_weak_word word, int order);
void pfl_weak_store(struct pfl_weak_word word, uint64_t value, int order);
enum pfl_weak_change { PFL_WEAK_EXCHANGE, PFL_WEAK_ADD, PFL_WEAK_SUB };
uint64_t pfl_weak_change(struct pfl_weak_word word, enum pfl_weak_change change, uint64_t operand,
                         int order);
/* True: `*expected` was there, and `desired` is now. */
bool pfl_weak_compare(struct pfl_weak_word word, uint64_t *expected, uint64_t desired,
                      const int orders[2]);

#endif
