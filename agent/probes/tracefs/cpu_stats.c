/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of a CPU's ring buffer.
 *
 *     entries: 12
 *     overrun: 0
 *     commit overrun: 0
 *     bytes: 640
 *     oldest event ts:  1344.869540
 *     now ts:  1345.800222
 *     dropped events: 0
 *     read events: 7
 *
 * Failure: a key that is missing, negative or not a number has no bit in `has`.
 */
#include "agent/probes/tracefs/cpu_stats.h"

#include <stdlib.h>

#include "perfetto/ftrace_events.fields.h"

static const struct {
    const char *key;
    uint32_t field; /* in FtraceCpuStats */
    bool is_time;
} stats[PFL_CPU_STATS] = {
    [PFL_CPU_ENTRIES] = {"entries:", FTRACE_CPU_STATS__ENTRIES, false},
    [PFL_CPU_OVERRUN] = {"\noverrun:", FTRACE_CPU_STATS__OVERRUN, false},
    [PFL_CPU_COMMIT_OVERRUN] = {"commit overrun:", FTRACE_CPU_STATS__COMMIT_OVERRUN, false},
    [PFL_CPU_BYTES] = {"\nbytes:", FTRACE_CPU_STATS__BYTES_READ, false},
    [PFL_CPU_OLDEST_TS] = {"oldest event ts:", FTRACE_CPU_STATS__OLDEST_EVENT_TS, true},
    [PFL_CPU_NOW_TS] = {"now ts:", FTRACE_CPU_STATS__NOW_TS, true},
    [PFL_CPU_DROPPED] = {"dropped events:", FTRACE_CPU_STATS__DROPPED_EVENTS, false},
    [PFL_CPU_READ] = {"read events:", FTRACE_CPU_STATS__READ_EVENTS, false},
};

void pfl_cpu_stats_parse(struct pfl_span text, struct pfl_cpu_stats *ret_stats)
{
    char copy[PFL_CPU_STATS_BYTES + 1];

    memset(ret_stats, 0, sizeof(*ret_stats));
    if (text.len == 0 || text.len >= sizeof(copy))
        return;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    for (size_t i = 0; i < PFL_CPU_STATS; i++) {
        const char *at = strstr(copy, stats[i].key);
        double value;
        char *end;

        if (at == NULL)
            continue;
        at += strlen(stats[i].key);
        value = strtod(at, &end);
        if (end == at || !(value >= 0) || value > 1e18)
            continue;
        ret_stats->values[i] = value;
        ret_stats->has |= 1u << i;
    }
}

void pfl_cpu_stats_add(struct pfl_cpu_stats *self, const struct pfl_cpu_stats *other)
{
    for (size_t i = 0; i < PFL_CPU_STATS; i++) {
        double *mine = &self->values[i];
        double more = other->values[i];

        if ((other->has >> i & 1) == 0 || i == PFL_CPU_NOW_TS)
            continue;
        if (!stats[i].is_time)
            *mine += more;
        else if (more != 0 && (*mine == 0 || more < *mine))
            *mine = more; /* an empty buffer says 0 */
        self->has |= 1u << i;
    }
}

void pfl_cpu_stats_encode(const struct pfl_cpu_stats *self, uint32_t cpu,
                          struct pfl_probe_message *message)
{
    pfl_probe_message_begin(message, FTRACE_STATS__CPU_STATS);
    pfl_probe_message_uint(message, FTRACE_CPU_STATS__CPU, cpu);
    for (size_t i = 0; i < PFL_CPU_STATS; i++) {
        uint64_t bits;

        if ((self->has >> i & 1) == 0)
            continue;
        memcpy(&bits, &self->values[i], sizeof(bits));
        if (stats[i].is_time)
            pfl_probe_message_fixed64(message, stats[i].field, bits);
        else
            pfl_probe_message_uint(message, stats[i].field, (uint64_t)self->values[i]);
    }
    pfl_probe_message_end(message);
}
