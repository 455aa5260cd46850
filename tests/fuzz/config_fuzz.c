/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as an EnableTracingRequest: found, walked, rewritten. A rewritten config must be readable
 * again and, rewritten once more, must not change.
 */
#include <stdlib.h>

#include "perfetto/consumer_port.fields.h"
#include "proto/ipc/ds_config.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX_BYTES (256u << 10)

static const struct pfl_ds_config_overrides overrides = {
    .target_buffer = 3, .tracing_session_id = 9, .prefer_suspend_clock_for_duration = true};

static void rewrite_twice(struct pfl_span raw)
{
    struct pfl_buf once;
    struct pfl_buf again;

    pfl_buf_init(&once, OUT_MAX_BYTES);
    pfl_buf_init(&again, OUT_MAX_BYTES);
    if (pfl_ds_config_rewrite(raw, &overrides, &once) == 0) {
        note_message("rewritten", pfl_buf_get(&once));
        if (pfl_ds_config_rewrite(pfl_buf_get(&once), &overrides, &again) != 0 ||
            once.len != again.len ||
            memcmp(pfl_buf_get(&once).data, pfl_buf_get(&again).data, once.len) != 0)
            abort();
    } else if (once.len != 0) {
        abort();
    }
    pfl_buf_fini(&once);
    pfl_buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span request = pfl_span_of(data, size);
    struct pfl_span config;
    struct pfl_span raw;
    struct pfl_reader r;

    rewrite_twice(request);
    if (pfl_ds_config_find(request, ENABLE_TRACING_REQUEST__TRACE_CONFIG, &config) != 0)
        return 0;
    r = pfl_reader_of(config);
    while (pfl_ds_config_next(&r, &raw) == 0)
        rewrite_twice(raw);
    return 0;
}
