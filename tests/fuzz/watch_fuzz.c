/* SPDX-License-Identifier: Apache-2.0 */
/* What a service says of itself, as figures; and any text, as a journal's event. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/journal.h"
#include "base/mem.h"
#include "tests/support/fuzz_note.h"
#include "tunnel/service_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void view(const uint8_t *data, size_t size)
{
    struct pfl_service_view view = {0};
    struct pfl_metrics metrics;
    struct pfl_span text;

    view.is_known = pfl_service_view_feed(&view, pfl_span_of(data, size)) == 0;
    pfl_metrics_init(&metrics, 1 << 16);
    pfl_service_view_collect(&view, &metrics);
    pfl_service_view_collect_losses(&view, &metrics);
    if (pfl_metrics_get(&metrics, &text) != 0 || text.len == 0 || text.data[text.len - 1] != '\n')
        __builtin_trap(); /* a bounded number of rows, whatever was said */
    note_text("metrics", text);
    pfl_metrics_fini(&metrics);
}

static void encode(const char *text)
{
    static char out[PFL_JOURNAL_MAX_BYTES];
    const struct pfl_journal_event event = {
        .program = "p", .priority = 6, .level = "info", .event = "e", .text = text};
    size_t len = pfl_journal_encode(&event, out);
    const char *at = out;

    while (at < out + len) {
        const char *end = memchr(at, '\n', (size_t)(out + len - at));
        size_t name_len = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

        if (end == NULL || name_len == 0 || at[name_len] != '=')
            __builtin_trap(); /* no field but NAME=value */
        if (at >= out + 3 * sizeof("PRIORITY") && memcmp(at, "PRIORITY", 8) == 0)
            __builtin_trap(); /* and none that the text made up */
        at = end + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = pfl_mem_strndup((const char *)data, size);

    view(data, size);
    if (text != NULL)
        encode(text);
    pfl_mem_free(text);
    return 0;
}
