/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay's answer to an operator: a selection, a NUL, and the body of GET /v1/hosts. Every host
 * that is taken has a name and is found by it; a selection that is refused says why.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/host/inventory.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct pfl_inventory *inventory, const char *selection)
{
    struct pfl_inventory_host host;

    for (size_t i = 0; i < pfl_inventory_get_len(inventory); i++) {
        pfl_inventory_get_host(inventory, i, &host);
        note("host %s at %s, %s, %s, seen %.3f, streams %llu, up %d, left %d, clock %d %lld %lld, "
             "until %lld, selected %d",
             host.name, host.address, host.version, host.tls, host.last_seen_s,
             (unsigned long long)host.streams, host.is_connected, pfl_inventory_has_left(&host),
             host.has_clock, (long long)host.offset_ns, (long long)host.error_ns,
             (long long)host.certificate_end_s,
             selection != NULL && pfl_inventory_is_selected(&host, selection));
        if (!pfl_host_is_name(host.name) || host.address == NULL || host.version == NULL ||
            pfl_inventory_find(inventory, host.name) > i)
            abort();
        if (selection != NULL)
            (void)pfl_inventory_is_selected(&host, selection);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size != 0 ? memchr(data, '\0', size) : NULL;
    size_t len = end != NULL ? (size_t)(end - data) : 0;
    size_t skip = end != NULL ? len + 1 : 0;
    char *selection = pfl_mem_strndup((const char *)data, len);
    struct pfl_inventory *inventory = NULL;
    char why[200] = "";
    bool is_one;

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    if (selection == NULL)
        abort();
    is_one = pfl_selection_check(selection, why, sizeof(why)) == 0;
    note("selection: %d %s", is_one, why);
    if (!is_one && why[0] == '\0')
        abort();
    if (pfl_inventory_parse(pfl_span_of(data + skip, size - skip), &inventory) == 0)
        walk(inventory, is_one ? selection : NULL);
    pfl_inventory_free(inventory);
    pfl_mem_free(selection);
    return 0;
}
