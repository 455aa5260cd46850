/* SPDX-License-Identifier: Apache-2.0 */
/* A hello of a hostile agent, and the same bytes as its clock: whatever is taken of them, the
 * inventory stays JSON with our names in it, and a clock has an error that can be. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "relay/hub/host_inventory.h"
#include "tests/support/fuzz_note.h"
#include "tests/support/inventory_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ASKED_NS INT64_C(1000000000)
#define NOW_NS   INT64_C(1000200000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pfl_host_inventory_view view = {.relay = "r", .fleet = "lab"};
    struct pfl_host_inventory inventory;
    struct pfl_host *host;
    char *text = NULL;
    json_t *root;
    json_t *name;

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    pfl_host_inventory_init(&inventory);
    if (pfl_host_inventory_join(&inventory, "a", &inventory, &host) != 0)
        abort();
    (void)!pfl_host_inventory_take_hello(host, pfl_span_of(data, size));
    if (pfl_host_inventory_take_clock(host, pfl_span_of(data, size), ASKED_NS, NOW_NS) == 0 &&
        (host->clock_error_ns < 1 || host->clock_error_ns > (NOW_NS - ASKED_NS) / 2 + 1))
        abort();
    if (pfl_host_inventory_encode_spool(host, &text) != 0)
        abort();
    note_text("spool", pfl_span_of(text, strlen(text)));
    root = json_loads(text, 0, NULL);
    if (json_object_get(root, "name") == NULL)
        abort();
    json_decref(root);
    pfl_mem_free(text);
    if (inventory_text(&inventory, &view, &text) != 0)
        abort();
    note_text("inventory", pfl_span_of(text, strlen(text)));
    root = json_loads(text, 0, NULL);
    name = json_object_get(json_array_get(json_object_get(root, "hosts"), 0), "name");
    if (name == NULL || strcmp(json_string_value(name), "a") != 0)
        abort();
    json_decref(root);
    pfl_mem_free(text);
    pfl_host_inventory_fini(&inventory);
    return 0;
}
