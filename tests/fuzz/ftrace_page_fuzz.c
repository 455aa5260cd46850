/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A format file and pages of that event, both hostile: text, a NUL, then pages of 4096 bytes.
 * Whatever comes out is protobuf, and a record's text stays in its record (ASan watches).
 */
#include <stdlib.h>

#include "agent/probes/kernel_events/page_reader.h"
#include "base/mem.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void note_bundle(const struct pfl_span *parts, size_t count)
{
    static uint8_t bytes[1u << 16];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    for (size_t i = 0; i < count; i++)
        pfl_writer_bytes(&w, parts[i].data, parts[i].len);
    note("bundle: %zu parts", count);
    note_fields("  ", pfl_span_of(bytes, sizeof(bytes) - w.left));
}

static void on_bundle(void *user, const struct pfl_span *parts, size_t count, uint64_t bytes)
{
    (void)user;
    note_bundle(parts, count);
    for (size_t i = 0; i < count; i++) {
        struct pfl_reader r = pfl_reader_of(parts[i]);
        struct pfl_field f;

        if (parts[i].len > bytes)
            abort();
        bytes -= parts[i].len;
        if (i == 1 && count > 2) /* events, or the head of the columns: not a message by itself */
            continue;
        while (i < 1 && pfl_reader_field(&r, &f)) {
        }
        if (r.failed)
            abort();
    }
    if (bytes != 0)
        abort();
}

static void read_pages(const struct pfl_event_plan *plan, struct pfl_span pages, bool is_compact)
{
    const struct pfl_event_plan **plans = pfl_mem_calloc(65536, sizeof(*plans));
    uint8_t *wanted = pfl_mem_zalloc(65536 / 8);
    struct pfl_page_cpu cpu = {0};
    struct pfl_pid_set pids = {0};
    struct pfl_bundle bundle;

    if (plans != NULL && wanted != NULL && pfl_bundle_init(&bundle, 4096) == 0) {
        struct pfl_page_reader reader = {
            .plans = (const struct pfl_event_plan *const *)plans,
            .wanted = wanted,
            .event_ids = 65536,
            .layout = {.commit_bytes = 8, .data_offset = 16},
            .is_compact = is_compact,
            .bundle = &bundle,
            .pids = &pids,
            .on_bundle = on_bundle,
        };

        plans[plan->event_id] = plan;
        wanted[plan->event_id / 8] = 0xff;
        pfl_page_reader_prepare(&reader);
        pfl_page_reader_feed(&reader, &cpu, pages, 4096);
        note("%llu events, status %x, until %llu, %zu threads", (unsigned long long)reader.events,
             reader.status_seen, (unsigned long long)cpu.previous_end_ns, pids.fresh_count);
        pfl_bundle_fini(&bundle);
        pfl_pid_set_fini(&pids);
    }
    pfl_mem_free(plans);
    pfl_mem_free(wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const groups[] = {"sched", "task", "raw_syscalls", "other"};
    const uint8_t *nul = size != 0 ? memchr(data, 0, size) : NULL;
    struct pfl_trace_format *format = pfl_mem_zalloc(sizeof(*format));
    struct pfl_printk_formats printk = {0};
    struct pfl_event_plan *plan;

    if (format != NULL && nul != NULL &&
        pfl_trace_format_parse(pfl_span_of(data, (size_t)(nul - data)), format) == 0) {
        struct pfl_span pages = pfl_span_of(nul + 1, size - (size_t)(nul + 1 - data));

        for (size_t i = 0; i < 4; i++) {
            if (pfl_event_plan_new(groups[i], format, &printk, &plan) != 0)
                continue;
            read_pages(plan, pages, i % 2 == 0);
            pfl_event_plan_free(plan);
        }
    }
    pfl_mem_free(format);
    return 0;
}
