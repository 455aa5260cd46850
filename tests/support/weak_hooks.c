/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain loads and stores of code that is compiled with -fsanitize=thread: the compiler puts these
 * calls before them. Its own library is not linked; they go to weak_memory.c.
 */
#include "tests/support/weak_memory.h"

#include <string.h>

#define ACCESSES(bytes)                                                                            \
    void __tsan_read##bytes(void *at);                                                             \
    void __tsan_write##bytes(void *at);                                                            \
    void __tsan_unaligned_read##bytes(void *at);                                                   \
    void __tsan_unaligned_write##bytes(void *at);                                                  \
    void __tsan_read##bytes(void *at)                                                              \
    {                                                                                              \
        pfl_weak_touch(at, bytes, false);                                                          \
    }                                                                                              \
    void __tsan_write##bytes(void *at)                                                             \
    {                                                                                              \
        pfl_weak_touch(at, bytes, true);                                                           \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *at)                                                    \
    {                                                                                              \
        pfl_weak_touch(at, bytes, false);                                                          \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *at)                                                   \
    {                                                                                              \
        pfl_weak_touch(at, bytes, true);                                                           \
    }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_read_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *at, size_t bytes)
{
    pfl_weak_touch(at, bytes, false);
}

void __tsan_write_range(void *at, size_t bytes)
{
    pfl_weak_touch(at, bytes, true);
}

/* clang from 15 on calls these in the place of the library's. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int byte, size_t bytes);

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int byte, size_t bytes)
{
    return memset(to, byte, bytes);
}
