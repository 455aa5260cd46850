/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says of a ring buffer: the text of `trace` in two pieces (first byte: where to
 * cut) and in one, per_cpu/cpuN/stats, the link of a descriptor. Whatever comes: the pieces make no
 * difference, and a number is one that FtraceCpuStats can have.
 */
#include <stdlib.h>

#include "agent/probes/ftrace/top_state.h"
#include "agent/probes/tracefs/cpu_stats.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool scan(struct pfl_span first, struct pfl_span second)
{
    struct pfl_top_scan scan = {0};

    pfl_top_scan_feed(&scan, first);
    pfl_top_scan_feed(&scan, second);
    note("markers only: %d", pfl_top_scan_is_markers_only(&scan));
    return pfl_top_scan_is_markers_only(&scan);
}

static void read_stats(struct pfl_span text)
{
    struct pfl_cpu_stats stats;

    pfl_cpu_stats_parse(text, &stats);
    for (size_t i = 0; i < PFL_CPU_STATS; i++) {
        note("stat %zu: %.9g", i, stats.values[i]);
        if (!(stats.values[i] >= 0 && stats.values[i] <= 1e18))
            abort();
    }
}

static void read_link(struct pfl_span text)
{
    char path[256];
    size_t len = text.len < sizeof(path) ? text.len : sizeof(path) - 1;

    if (len != 0)
        memcpy(path, text.data, len);
    path[len] = '\0';
    note("reader: %d", pfl_top_is_reader_path(path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span text;
    size_t cut;

    if (size == 0)
        return 0;
    text = pfl_span_of(data + 1, size - 1);
    cut = data[0] < text.len ? data[0] : text.len;
    if (scan(pfl_span_of(text.data, cut), pfl_span_of(text.data + cut, text.len - cut)) !=
        scan(text, pfl_span_of(text.data, 0)))
        abort();
    read_stats(text);
    read_link(text);
    return 0;
}
