/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counted allocation. Each block keeps its size in a 16-byte header so that live bytes are exact.
 * Counters are plain: programs that use this file run one loop on one thread.
 */
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 16u

static struct pfl_mem_stats stats;
static uint64_t fail_at;

static bool take_failure(void)
{
    stats.allocations++;
    if (fail_at != 0 && stats.allocations == fail_at)
        return true;
    return false;
}

static size_t size_of_block(const unsigned char *block)
{
    size_t size;

    memcpy(&size, block, sizeof(size));
    return size;
}

static void *start_block(unsigned char *block, size_t size_bytes)
{
    memcpy(block, &size_bytes, sizeof(size_bytes));
    stats.live_blocks++;
    stats.live_bytes += size_bytes;
    return block + HEADER_BYTES;
}

void *pfl_mem_alloc(size_t size_bytes)
{
    unsigned char *block;

    if (take_failure() || size_bytes > SIZE_MAX - HEADER_BYTES)
        return NULL;
    block = malloc(size_bytes + HEADER_BYTES);
    return block != NULL ? start_block(block, size_bytes) : NULL;
}

void *pfl_mem_zalloc(size_t size_bytes)
{
    unsigned char *block;

    if (take_failure() || size_bytes > SIZE_MAX - HEADER_BYTES)
        return NULL;
    block = calloc(1, size_bytes + HEADER_BYTES);
    return block != NULL ? start_block(block, size_bytes) : NULL;
}

void *pfl_mem_calloc(size_t count, size_t size_bytes)
{
    if (size_bytes != 0 && count > SIZE_MAX / size_bytes)
        return NULL;
    return pfl_mem_zalloc(count * size_bytes);
}

void *pfl_mem_realloc(void *ptr, size_t size_bytes)
{
    unsigned char *old;
    unsigned char *block;
    size_t old_size;

    if (ptr == NULL)
        return pfl_mem_alloc(size_bytes);
    if (take_failure() || size_bytes > SIZE_MAX - HEADER_BYTES)
        return NULL;
    old = (unsigned char *)ptr - HEADER_BYTES;
    old_size = size_of_block(old);
    block = realloc(old, size_bytes + HEADER_BYTES);
    if (block == NULL)
        return NULL;
    stats.live_blocks--;
    stats.live_bytes -= old_size;
    return start_block(block, size_bytes);
}

char *pfl_mem_strdup(const char *str)
{
    return pfl_mem_strndup(str, strlen(str));
}

char *pfl_mem_strndup(const char *str, size_t len)
{
    char *copy = len != SIZE_MAX ? pfl_mem_alloc(len + 1) : NULL;

    if (copy == NULL)
        return NULL;
    if (len != 0)
        memcpy(copy, str, len);
    copy[len] = '\0';
    return copy;
}

void *pfl_mem_memdup(const void *src, size_t len)
{
    void *copy = pfl_mem_alloc(len);

    if (copy != NULL && len != 0)
        memcpy(copy, src, len);
    return copy;
}

void pfl_mem_free(void *ptr)
{
    unsigned char *block;

    if (ptr == NULL)
        return;
    block = (unsigned char *)ptr - HEADER_BYTES;
    stats.live_blocks--;
    stats.live_bytes -= size_of_block(block);
    free(block);
}

void pfl_mem_stats_get(struct pfl_mem_stats *ret_stats)
{
    *ret_stats = stats;
}

void pfl_mem_fail_at(uint64_t nth)
{
    stats.allocations = 0;
    fail_at = nth;
}
