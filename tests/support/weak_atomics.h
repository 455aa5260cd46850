/* SPDX-License-Identifier: Apache-2.0 */
/* stdatomic.h for code that runs on tests/support/weak_memory.c: included before it, by the
 * compiler's command line. */
#ifndef PFL_TESTS_WEAK_ATOMICS_H
#define PFL_TESTS_WEAK_ATOMICS_H

#include <stdatomic.h>
#include <string.h>

#include "tests/support/weak_memory.h"

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit

#define PFL_WEAK_WORD(ptr)                                                                         \
    (struct pfl_weak_word)                                                                         \
    {                                                                                              \
        (ptr), sizeof(*(ptr)), __func__, __LINE__                                                  \
    }
/* The value's type without _Atomic. */
#define PFL_WEAK_TYPE(ptr) __typeof__((void)0, *(ptr))

/* Nobody need use it. */
#define PFL_WEAK_VALUE(ptr, value) __extension__({ (PFL_WEAK_TYPE(ptr))(value); })

#define atomic_load_explicit(ptr, order)                                                           \
    PFL_WEAK_VALUE(ptr, pfl_weak_load(PFL_WEAK_WORD(ptr), (order)))
#define atomic_store_explicit(ptr, value, order)                                                   \
    pfl_weak_store(PFL_WEAK_WORD(ptr), (uint64_t)(value), (order))
#define atomic_exchange_explicit(ptr, value, order)                                                \
    PFL_WEAK_VALUE(                                                                                \
        ptr, pfl_weak_change(PFL_WEAK_WORD(ptr), PFL_WEAK_EXCHANGE, (uint64_t)(value), (order)))
#define atomic_fetch_add_explicit(ptr, value, order)                                               \
    PFL_WEAK_VALUE(ptr,                                                                            \
                   pfl_weak_change(PFL_WEAK_WORD(ptr), PFL_WEAK_ADD, (uint64_t)(value), (order)))
#define atomic_fetch_sub_explicit(ptr, value, order)                                               \
    PFL_WEAK_VALUE(ptr,                                                                            \
                   pfl_weak_change(PFL_WEAK_WORD(ptr), PFL_WEAK_SUB, (uint64_t)(value), (order)))
#define atomic_compare_exchange_strong_explicit(ptr, expected, desired, order, failure)            \
    __extension__({                                                                                \
        uint64_t pfl_expected_ = 0;                                                                \
        bool pfl_done_;                                                                            \
        memcpy(&pfl_expected_, (expected), sizeof(*(expected)));                                   \
        pfl_done_ = pfl_weak_compare(PFL_WEAK_WORD(ptr), &pfl_expected_, (uint64_t)(desired),      \
                                     (const int[2]){(order), (failure)});                          \
        memcpy((expected), &pfl_expected_, sizeof(*(expected)));                                   \
        pfl_done_;                                                                                 \
    })
/* It does not fail for no reason here. */
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit

#endif
