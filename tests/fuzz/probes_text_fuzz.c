/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc and tracefs, of which any user shapes a part: names of processes and threads,
 * command lines, events that the user defined. A byte that says which file, then its text in two
 * parts, the first byte of the text being where to cut. What comes out is a message that can be
 * read back, and an event's plan stays inside the record that its format describes.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/probes/kernel_events/event_catalog.h"
#include "agent/probes/kernel_events/trace_format.h"
#include "agent/probes/procfs/probe_message.h"
#include "agent/probes/procfs/proc_text.h"
#include "agent/probes/procfs/proc_tree.h"
#include "agent/probes/procfs/sys_text.h"
#include "tests/support/fuzz_note.h"

#define MESSAGE_MAX (1u << 20)

enum file {
    FILE_PROCESS, /* status, cmdline */
    FILE_THREAD,
    FILE_COUNTERS, /* status, stat and the others */
    FILE_SYSTEM,   /* meminfo and its like */
    FILE_FORMAT,   /* an event's */
    FILE_CATALOG,  /* available_events, an event's format */
    FILE_PRINTK,
    FILES,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_readable(struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
    }
    if (r.failed)
        abort();
}

static void assert_message(struct pfl_probe_message *m)
{
    note_fields("message", pfl_buf_get(&m->buf));
    if (!m->failed && (m->depth != 0 || m->buf.len > MESSAGE_MAX))
        abort();
    if (!m->failed)
        assert_readable(pfl_buf_get(&m->buf));
    pfl_probe_message_clear(m);
}

static void read_process(struct pfl_probe_message *m, struct pfl_span first, struct pfl_span second)
{
    pfl_proc_tree_add_process(m, first, second, second);
    assert_message(m);
    pfl_proc_tree_add_process(m, second, first, first);
    assert_message(m);
}

static void read_thread(struct pfl_probe_message *m, struct pfl_span first, struct pfl_span second)
{
    pfl_proc_tree_add_thread(m, 7, 7, first, true);
    assert_message(m);
    pfl_proc_tree_add_thread(m, 8, 7, second, pfl_proc_is_namespaced(first));
    assert_message(m);
}

static void read_counters(struct pfl_probe_message *m, struct pfl_span first,
                          struct pfl_span second)
{
    const struct pfl_proc_texts texts = {
        .status = first, .smaps_rollup = second, .oom_score_adj = second, .stat = second};
    struct pfl_proc_counters last;
    bool has_memory;

    pfl_proc_counters_reset(&last);
    has_memory = pfl_proc_counters_add(m, 7, &texts, &last);
    assert_message(m);
    /* Nothing has changed since. */
    if (pfl_proc_counters_add(m, 7, &texts, &last) != has_memory || m->buf.len != 0)
        abort();
    assert_message(m);
}

static void read_system(struct pfl_probe_message *m, struct pfl_span first, struct pfl_span second)
{
    struct pfl_sys_conf conf;
    uint64_t mhz;

    pfl_sys_conf_parse(first, &conf);
    pfl_sys_add_meminfo(m, &conf, second);
    pfl_sys_add_vmstat(m, &conf, second);
    pfl_sys_add_stat(m, &conf, second, 10000000);
    pfl_sys_add_diskstat(m, second);
    pfl_sys_add_buddyinfo(m, second);
    pfl_sys_add_psi(m, 1, second);
    pfl_sys_add_slab(m, second);
    if (pfl_sys_find_current_mhz(second, &mhz))
        note("%llu MHz", (unsigned long long)mhz);
    for (unsigned i = 0; i < PFL_SYS_KINDS; i++)
        note("period %u: %u ms", i, conf.period_ms[i]);
    assert_message(m);
}

static void assert_plan(const struct pfl_event_plan *plan)
{
    note("plan of %u: %u bytes, pid at %u, flags at %u, special %d, field %u, max %u, texts %u",
         plan->event_id, plan->fixed_bytes, plan->pid_offset, plan->flags_offset, plan->special,
         plan->event_field, plan->max_fixed, plan->text_count);
    note_message("descriptor", pfl_span_of(plan->descriptor, plan->descriptor_bytes));
    for (unsigned i = 0; i < plan->step_count; i++) {
        const struct pfl_event_step *step = &plan->steps[i];

        note("step: field %u at %u, %u bytes of %u, kind %u, signed %d, name %u of %u", step->field,
             step->offset, step->size, step->element_bytes, step->kind, step->is_signed,
             step->name_len, step->name_offset);

        if (step->kind != PFL_TRACE_TAIL && step->kind != PFL_TRACE_OTHER &&
            step->offset + step->size > plan->fixed_bytes)
            abort();
    }
    if (plan->descriptor_bytes != 0)
        assert_readable(pfl_span_of(plan->descriptor, plan->descriptor_bytes));
}

static void read_format(struct pfl_span text)
{
    struct pfl_trace_format format;
    struct pfl_trace_page_layout layout;

    if (pfl_trace_page_layout_parse(text, &layout) == 0)
        note("layout: commit %u, data %u", layout.commit_bytes, layout.data_offset);
    if (pfl_trace_format_parse(text, &format) != 0)
        return;
    note("format: %s, id %u, %u bytes", format.name, format.id, format.fixed_bytes);
    if (format.field_count == 0 || format.field_count > PFL_TRACE_FIELDS_MAX ||
        memchr(format.name, '\0', sizeof(format.name)) == NULL)
        abort();
    for (unsigned i = 0; i < format.field_count; i++) {
        const struct pfl_trace_field *field = &format.fields[i];

        note("field: %s at %u, %u bytes of %u, signed %d, kind %d", field->name, field->offset,
             field->size, field->element_bytes, field->is_signed, field->kind);
        if (pfl_trace_format_find(&format, format.fields[i].name) == NULL)
            abort();
    }
}

static void read_catalog(struct pfl_span list, struct pfl_span format)
{
    static const char header[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
                                 "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
                                 "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
    struct pfl_event_catalog catalog = {0};
    size_t index;

    if (pfl_event_catalog_init(&catalog, list, pfl_span_of(header, sizeof(header) - 1), format) !=
        0) {
        pfl_event_catalog_fini(&catalog);
        return;
    }
    for (size_t i = 0; i < catalog.count && i < 16; i++) {
        note("event %s/%s top %d", catalog.events[i].group, catalog.events[i].name,
             pfl_event_catalog_find_top_event(&catalog.events[i]));
        if (pfl_event_catalog_load(&catalog, i, format) == 0 && catalog.events[i].plan != NULL)
            assert_plan(catalog.events[i].plan);
    }
    if (pfl_event_catalog_add(&catalog, "kprobes", "mine", format, &index) == 0 &&
        catalog.events[index].plan != NULL)
        assert_plan(catalog.events[index].plan);
    pfl_event_catalog_fini(&catalog);
}

static void read_printk(struct pfl_span text)
{
    struct pfl_printk_formats formats = {0};

    if (pfl_printk_formats_init(&formats, text) == 0) {
        for (size_t i = 0; i < formats.count; i++)
            note_bytes("printk", pfl_printk_formats_find(&formats, formats.entries[i].address));
    }
    pfl_printk_formats_fini(&formats);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_probe_message message;
    struct pfl_span first;
    struct pfl_span second;
    size_t cut;

    if (size < 3)
        return 0;
    cut = ((size_t)data[1] << 8 | data[2]) % (size - 2);
    first = pfl_span_of(data + 3, cut < size - 3 ? cut : size - 3);
    second = pfl_span_of(data + 3 + first.len, size - 3 - first.len);
    pfl_probe_message_init(&message, MESSAGE_MAX);
    switch ((enum file)(data[0] % FILES)) {
    case FILE_PROCESS:
        read_process(&message, first, second);
        break;
    case FILE_THREAD:
        read_thread(&message, first, second);
        break;
    case FILE_COUNTERS:
        read_counters(&message, first, second);
        break;
    case FILE_SYSTEM:
        read_system(&message, first, second);
        break;
    case FILE_FORMAT:
        read_format(second);
        break;
    case FILE_CATALOG:
        read_catalog(first, second);
        break;
    default:
        read_printk(second);
        break;
    }
    pfl_probe_message_fini(&message);
    return 0;
}
