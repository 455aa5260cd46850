/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the pages of an instance's buffers to the bundles of a session.
 *
 * Happy path: start makes a reader of the session's config for one instance; pages passes it a
 * CPU's pages. A session has two feeds if it also needs events that only the top-level buffer gets;
 * both write bundles with the same writer. Ownership: ftrace.h.
 */
#include "agent/probes/ftrace/ftrace_feed.h"

#include "agent/probes/ftrace/ftrace_events.h"
#include "agent/probes/ftrace/ftrace_packets.h"
#include "base/mem.h"

int pfl_ftrace_feed_start(struct pfl_ftrace *self, struct pfl_ftrace_feed *feed)
{
    const struct pfl_ftrace_session *s = feed->session;
    const struct pfl_cpu_buffers *buffers = &feed->in->buffers;

    feed->cpus = pfl_mem_calloc(buffers->count, sizeof(*feed->cpus));
    if (feed->cpus == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < buffers->count; i++) {
        feed->cpus[i].cpu = buffers->cpus[i].cpu;
        feed->cpus[i].previous_end_ns = buffers->cpus[i].last_ns;
    }
    feed->reader = (struct pfl_page_reader){
        .plans = (const struct pfl_event_plan *const *)self->catalog.by_id,
        .event_ids = s->wanted_ids,
        .wanted = feed->wanted,
        .layout = self->catalog.layout,
        /* Compact waking needs the switch events, which name the waking thread. */
        .is_compact = !s->conf.no_compact_sched && pfl_ftrace_events_has_switch(self, s),
        .is_dense = !s->conf.no_dense,
        .bundle = &feed->in->bundle,
        .pids = feed->reader.pids,
        .files = feed->reader.files,
        .print_filter = s->conf.print_filter.is_on ? &s->conf.print_filter : NULL,
        .syscalls = s->conf.syscalls.is_on ? &s->conf.syscalls : NULL,
        .kprobe_types = s->kprobe_types,
        .symbols = s->ksyms != NULL ? &feed->session->symbols : NULL,
        .on_bundle = pfl_ftrace_packets_bundle,
        .user = feed,
    };
    pfl_page_reader_prepare(&feed->reader);
    return 0;
}

void pfl_ftrace_feed_close(struct pfl_ftrace_feed *feed)
{
    pfl_mem_free(feed->wanted);
    pfl_mem_free(feed->cpus);
}

void pfl_ftrace_feed_pages(struct pfl_ftrace *self, struct pfl_ftrace_feed *feed, size_t index,
                           struct pfl_span pages)
{
    const struct pfl_ftrace_feed *main = &feed->session->main;
    struct pfl_cpu_buffers *buffers = &feed->in->buffers;
    struct pfl_page_cpu *cpu = &feed->cpus[index];

    /* A reader takes the first bundle's begin for that of all events of the CPU. */
    if (feed != main && feed->in->clock == main->in->clock && index < main->in->buffers.count &&
        main->cpus[index].cpu == cpu->cpu &&
        main->cpus[index].previous_end_ns > cpu->previous_end_ns)
        cpu->previous_end_ns = main->cpus[index].previous_end_ns;
    feed->reader.plans = (const struct pfl_event_plan *const *)self->catalog.by_id;
    pfl_page_reader_feed(&feed->reader, cpu, pages, buffers->page_bytes);
    if (cpu->previous_end_ns > buffers->cpus[index].last_ns)
        buffers->cpus[index].last_ns = cpu->previous_end_ns;
}
