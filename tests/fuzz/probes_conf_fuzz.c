/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FtraceConfig and a text for its print filter, then the same bytes as /proc/kallsyms in two
 * pieces, and as the journal of what is to be put back: first byte where to cut. Whatever comes:
 * nothing is read outside, a name lies in its pool (ASan watches), a path in tracefs.
 */
#include <stdlib.h>

#include "agent/probes/kernel_events/ftrace_conf.h"
#include "agent/probes/kernel_events/ksyms.h"
#include "agent/probes/tracefs/undo_log.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void note_config(const struct pfl_ftrace_conf *c)
{
    for (size_t i = 0; i < c->wanted_count; i++)
        note("wanted %s", c->wanted[i]);
    for (size_t i = 0; i < c->tid_count; i++)
        note("tid %d", c->tids[i]);
    for (size_t i = 0; i < c->option_count; i++)
        note("option %s", c->options[i]);
    for (size_t i = 0; i < c->unknown_syscall_count; i++)
        note("unknown call %s", c->unknown_syscalls[i]);
    for (size_t i = 0; i < c->kprobe_count; i++)
        note("kprobe %s return=%d type=%d", c->kprobes[i].name, c->kprobes[i].is_return,
             c->kprobes[i].type);
    for (size_t i = 0; i < c->graph_filters.count; i++)
        note("graph filter %s", c->graph_filters.items[i]);
    for (size_t i = 0; i < c->graph_roots.count; i++)
        note("graph root %s", c->graph_roots.items[i]);
    note("instance %s, cpus %s, %u kB, %u ms, %u %%, depth %u",
         c->instance_name ? c->instance_name : "-", c->cpumask ? c->cpumask : "-",
         c->buffer_size_kb, c->drain_period_ms, c->drain_percent, c->graph_depth);
    note("flags %d%d%d%d%d%d%d%d%d%d, exclusive %d", c->no_compact_sched, c->no_generic_events,
         c->no_dense, c->is_lower_bound, c->has_mono_raw, c->throttle_rss_stat, c->symbolize_ksyms,
         c->retain_ksyms, c->has_graph, c->is_preserving, pfl_ftrace_conf_is_exclusive(c));
}

static void read_config(struct pfl_span config, struct pfl_span text)
{
    struct pfl_ftrace_conf conf;
    char ignored[64];

    if (pfl_ftrace_conf_parse(config, &conf) != 0)
        return;
    pfl_ftrace_conf_list_ignored(&conf, ignored, sizeof(ignored));
    note_config(&conf);
    note("print allowed %d, switch %d, sys_enter %d, ignored: %s",
         pfl_print_filter_allows(&conf.print_filter, text),
         pfl_ftrace_conf_wants(&conf, "sched", "sched_switch"),
         pfl_ftrace_conf_wants(&conf, "raw_syscalls", "sys_enter"), ignored);
    pfl_ftrace_conf_fini(&conf);
}

static void read_symbols(struct pfl_span first, struct pfl_span second)
{
    struct pfl_ksyms symbols = {0};

    if (pfl_ksyms_feed(&symbols, first) == 0 && pfl_ksyms_feed(&symbols, second) == 0) {
        pfl_ksyms_seal(&symbols);
        note("%zu symbols", symbols.count);
        for (size_t i = 0; i < symbols.count; i++) {
            struct pfl_span name = pfl_ksyms_find(&symbols, symbols.symbols[i].address);

            note("%llx", (unsigned long long)symbols.symbols[i].address);
            note_bytes("symbol", name);
            note_bytes("after it", pfl_ksyms_find(&symbols, symbols.symbols[i].address + 1));
            note_bytes("before it", pfl_ksyms_find(&symbols, symbols.symbols[i].address - 1));

            if (name.len == 0 || (const char *)name.data < symbols.names ||
                (const char *)name.data + name.len > symbols.names + symbols.names_len)
                abort();
        }
    }
    pfl_ksyms_fini(&symbols);
}

/* A component "..". */
static bool leads_out(const char *path)
{
    while (path != NULL) {
        if (strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0'))
            return true;
        path = strchr(path, '/');
        path = path != NULL ? path + 1 : NULL;
    }
    return false;
}

/* What is read stays inside tracefs, and is written as it was read. */
static void read_undo(struct pfl_span file)
{
    struct pfl_undo_log log = {0};
    struct pfl_undo_log again = {0};
    struct pfl_buf line;

    pfl_buf_init(&line, PFL_UNDO_LINE_MAX);
    if (pfl_undo_log_parse(&log, file) == 0 && log.count != 0) {
        const struct pfl_undo_entry *e = &log.entries[log.count - 1];

        for (size_t i = 0; i < log.count; i++)
            note("undo %u %c %s: %s", log.entries[i].number, log.entries[i].kind,
                 log.entries[i].path, log.entries[i].text);

        if (e->path[0] == '/' || e->path[0] == '\0' || leads_out(e->path))
            abort();
        if (pfl_undo_log_encode(e, &line) == 0 &&
            pfl_undo_log_parse(&again, pfl_buf_get(&line)) == 0 &&
            (again.count != 1 || strcmp(again.entries[0].text, e->text) != 0))
            abort();
    }
    pfl_undo_log_fini(&log);
    pfl_undo_log_fini(&again);
    pfl_buf_fini(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t cut;

    if (size == 0)
        return 0;
    cut = data[0] < size ? data[0] : size;
    read_config(pfl_span_of(data + 1, size - 1), pfl_span_of(data, cut));
    read_undo(pfl_span_of(data + 1, size - 1));
    read_symbols(pfl_span_of(data, cut), pfl_span_of(data + cut, size - cut));
    return 0;
}
