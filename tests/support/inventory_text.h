/* SPDX-License-Identifier: Apache-2.0 */
/* The inventory as one text, read piece by piece as the relay does. */
#ifndef PFL_TESTS_INVENTORY_TEXT_H
#define PFL_TESTS_INVENTORY_TEXT_H

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "relay/hub/host_inventory.h"

/* To be freed with pfl_mem_free. PFL_ENOMEM. */
static inline int inventory_text(const struct pfl_host_inventory *inventory,
                                 const struct pfl_host_inventory_view *view, char **ret_text)
{
    struct pfl_host_inventory_reader reader = {0};
    struct pfl_buf text;
    unsigned hosts;
    int rc = 0;

    pfl_buf_init(&text, 1u << 20);
    while (rc == 0 && !reader.is_over)
        rc = pfl_host_inventory_read(inventory, view, &reader, &text, &hosts);
    if (rc == 0)
        rc = pfl_buf_append(&text, "", 1);
    *ret_text = rc == 0 ? pfl_mem_alloc(text.len) : NULL;
    if (*ret_text != NULL)
        memcpy(*ret_text, pfl_buf_get(&text).data, text.len);
    pfl_buf_fini(&text);
    return *ret_text != NULL ? 0 : PFL_ENOMEM;
}

#endif
