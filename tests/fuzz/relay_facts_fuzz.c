/* SPDX-License-Identifier: Apache-2.0 */
/* A relay's answer about itself: what is taken has texts that end, and times that are no less than
 * 0; a history takes it. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "consumer/web/fleet/fleet_history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pfl_fleet_history history;
    double values[PFL_FLEET_HISTORY_LEN];
    struct pfl_relay_facts f;

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    if (pfl_relay_facts_parse(pfl_span_of(data, size), &f) != 0)
        return 0;
    if (memchr(f.name, '\0', sizeof(f.name)) == NULL ||
        memchr(f.version, '\0', sizeof(f.version)) == NULL || f.certificate_end_s < 0 ||
        f.crl_end_s < 0)
        abort();
    pfl_fleet_history_add(&history, size, &f);
    if (pfl_fleet_history_get(&history, PFL_FLEET_TO_OPERATOR, values) > PFL_FLEET_HISTORY_LEN)
        abort();
    return 0;
}
