/* SPDX-License-Identifier: Apache-2.0 */
/* A session's TrackEventConfig, as any consumer sends it: name NUL tags NUL config. */
#include <stdint.h>
#include <string.h>

#include "producer/perfleet_track_event.h"
#include "producer/track_event/event_filter.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perfleet_category category = PERFLEET_CATEGORY_INIT("net", NULL, "io,slow");
    char strings[2][64] = {{0}};

    for (int i = 0; i < 2; i++) {
        const uint8_t *end = size == 0 ? NULL : memchr(data, 0, size);
        size_t len = end == NULL ? size : (size_t)(end - data);

        if (len != 0)
            memcpy(strings[i], data, len < 63 ? len : 63);
        data += len + (end != NULL);
        size -= len + (end != NULL);
    }
    category.name = strings[0];
    category.tags = strings[1];
    note("wants %s (%s): %d", strings[0], strings[1],
         pfl_event_filter_wants(pfl_span_of(data, size), &category));
    return 0;
}
