/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of orders: see order_set.h. */
#include "proto/order/order_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FNV_BASIS 14695981039346656037ull
#define FNV_PRIME 1099511628211ull

static int compare(const void *a, const void *b)
{
    const struct pfl_order_key *x = a;
    const struct pfl_order_key *y = b;
    int order = strcmp(x->orderer, y->orderer);

    if (order == 0)
        order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->generation > y->generation) - (x->generation < y->generation);
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * FNV_PRIME;
    return hash;
}

uint64_t pfl_order_set_hash(struct pfl_order_key *keys, size_t len)
{
    uint64_t hash = FNV_BASIS;

    if (len != 0)
        qsort(keys, len, sizeof(*keys), compare);
    for (size_t i = 0; i < len; i++) {
        char generation[16];

        (void)snprintf(generation, sizeof(generation), "/%" PRIu32 "\n", keys[i].generation);
        hash = add_text(add_text(add_text(hash, keys[i].orderer), "/"), keys[i].name);
        hash = add_text(hash, generation);
    }
    return hash;
}

void pfl_order_set_write(uint64_t hash, char ret_text[PFL_ORDER_SET_TEXT_BYTES])
{
    (void)snprintf(ret_text, PFL_ORDER_SET_TEXT_BYTES, "%016" PRIx64, hash);
}
