/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SysStats from /proc/meminfo, vmstat, stat, diskstats, buddyinfo and pressure/.
 *
 * Happy path: one function a file, line by line, word by word; counters that the config does not
 * name are left out.
 * Failure: a line of another form is skipped, a missing number is 0.
 */
#include "agent/probes/procfs/sys_text.h"

#include "agent/probes/procfs/proc_text.h"
#include "perfetto/os_configs.fields.h"
#include "perfetto/sys_stats.fields.h"

#define MIN_PERIOD_MS 10u
#define MAX_PERIOD_MS 3600000u

/* By field number of SysStatsConfig: which kind's period it is, plus 1. */
static const uint8_t period_kinds[16] = {
    [SYS_STATS_CONFIG__MEMINFO_PERIOD_MS] = PFL_SYS_MEMINFO + 1,
    [SYS_STATS_CONFIG__VMSTAT_PERIOD_MS] = PFL_SYS_VMSTAT + 1,
    [SYS_STATS_CONFIG__STAT_PERIOD_MS] = PFL_SYS_STAT + 1,
    [SYS_STATS_CONFIG__DEVFREQ_PERIOD_MS] = PFL_SYS_DEVFREQ + 1,
    [SYS_STATS_CONFIG__CPUFREQ_PERIOD_MS] = PFL_SYS_CPUFREQ + 1,
    [SYS_STATS_CONFIG__BUDDYINFO_PERIOD_MS] = PFL_SYS_BUDDYINFO + 1,
    [SYS_STATS_CONFIG__DISKSTAT_PERIOD_MS] = PFL_SYS_DISKSTAT + 1,
    [SYS_STATS_CONFIG__PSI_PERIOD_MS] = PFL_SYS_PSI + 1,
    [SYS_STATS_CONFIG__THERMAL_PERIOD_MS] = PFL_SYS_THERMAL + 1,
    [SYS_STATS_CONFIG__CPUIDLE_PERIOD_MS] = PFL_SYS_CPUIDLE + 1,
    [SYS_STATS_CONFIG__GPUFREQ_PERIOD_MS] = PFL_SYS_GPUFREQ + 1,
    [SYS_STATS_CONFIG__SLAB_PERIOD_MS] = PFL_SYS_SLAB + 1,
};

static void choose(const struct pfl_field *f, bool *chosen, bool *has_choice)
{
    struct pfl_reader r = pfl_reader_of(f->bytes);

    *has_choice = true;
    if (f->type == PFL_WIRE_VARINT && f->value < PFL_SYS_COUNTERS_MAX)
        chosen[f->value] = true;
    while (f->type == PFL_WIRE_BYTES && r.left != 0 && !r.failed) {
        uint64_t v = pfl_reader_varint(&r);

        if (v < PFL_SYS_COUNTERS_MAX)
            chosen[v] = true;
    }
}

static void choose_stat(const struct pfl_field *f, struct pfl_sys_conf *conf)
{
    bool chosen[PFL_SYS_COUNTERS_MAX] = {false};
    bool any;

    choose(f, chosen, &any);
    for (uint32_t i = 0; i < 32; i++)
        conf->stat_choice |= (uint32_t)chosen[i] << i;
}

static void read_period(const struct pfl_field *f, struct pfl_sys_conf *conf)
{
    uint64_t ms = f->value;

    if (f->id >= sizeof(period_kinds) || period_kinds[f->id] == 0 || ms == 0)
        return;
    ms = ms < MIN_PERIOD_MS ? MIN_PERIOD_MS : ms > MAX_PERIOD_MS ? MAX_PERIOD_MS : ms;
    conf->period_ms[period_kinds[f->id] - 1] = (uint32_t)ms;
}

void pfl_sys_conf_parse(struct pfl_span config, struct pfl_sys_conf *ret_conf)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;

    memset(ret_conf, 0, sizeof(*ret_conf));
    while (pfl_reader_field(&r, &f)) {
        if (f.id == SYS_STATS_CONFIG__MEMINFO_COUNTERS)
            choose(&f, ret_conf->meminfo, &ret_conf->has_meminfo_choice);
        else if (f.id == SYS_STATS_CONFIG__VMSTAT_COUNTERS)
            choose(&f, ret_conf->vmstat, &ret_conf->has_vmstat_choice);
        else if (f.id == SYS_STATS_CONFIG__STAT_COUNTERS)
            choose_stat(&f, ret_conf);
        else
            read_period(&f, ret_conf);
    }
}

/* A MeminfoValue; VmstatValue, InterruptCount and PsiSample have its numbers. */
static void add_pair(struct pfl_probe_message *m, uint32_t field, uint64_t key, uint64_t value)
{
    pfl_probe_message_begin(m, field);
    pfl_probe_message_uint(m, SYS_STATS__MEMINFO_VALUE__KEY, key);
    pfl_probe_message_uint(m, SYS_STATS__MEMINFO_VALUE__VALUE, value);
    pfl_probe_message_end(m);
}

void pfl_sys_add_meminfo(struct pfl_probe_message *m, const struct pfl_sys_conf *conf,
                         struct pfl_span text)
{
    struct pfl_span line;
    struct pfl_span key;
    struct pfl_span value;

    while (pfl_proc_take_line(&text, &line)) {
        uint32_t id;

        if (!pfl_proc_take_word(&line, &key) || key.data[key.len - 1] != ':')
            continue;
        key.len--;
        id = pfl_sys_counters_find_meminfo(key);
        if (id == 0 || (conf->has_meminfo_choice && !conf->meminfo[id]) ||
            !pfl_proc_take_word(&line, &value))
            continue;
        add_pair(m, SYS_STATS__MEMINFO, id, pfl_proc_number(value));
    }
}

void pfl_sys_add_vmstat(struct pfl_probe_message *m, const struct pfl_sys_conf *conf,
                        struct pfl_span text)
{
    struct pfl_span line;
    struct pfl_span key;
    struct pfl_span value;

    while (pfl_proc_take_line(&text, &line)) {
        uint32_t id;

        if (!pfl_proc_take_word(&line, &key))
            continue;
        id = pfl_sys_counters_find_vmstat(key);
        if (id == 0 || (conf->has_vmstat_choice && !conf->vmstat[id]) ||
            !pfl_proc_take_word(&line, &value))
            continue;
        add_pair(m, SYS_STATS__VMSTAT, id, pfl_proc_number(value));
    }
}

static bool wants_stat(const struct pfl_sys_conf *conf, uint32_t counter)
{
    return conf->stat_choice == 0 || (conf->stat_choice >> counter & 1) != 0;
}

static void add_cpu_times(struct pfl_probe_message *m, struct pfl_span cpu, struct pfl_span line,
                          uint64_t ns_per_tick)
{
    struct pfl_span word;

    pfl_probe_message_begin(m, SYS_STATS__CPU_STAT);
    pfl_probe_message_uint(m, SYS_STATS__CPU_TIMES__CPU_ID,
                           pfl_proc_number(pfl_span_of(cpu.data + 3, cpu.len - 3)));
    for (uint32_t field = SYS_STATS__CPU_TIMES__USER_NS; field <= SYS_STATS__CPU_TIMES__STEAL_NS;
         field++) {
        uint64_t ticks = pfl_proc_take_word(&line, &word) ? pfl_proc_number(word) : 0;

        pfl_probe_message_uint(m, field, ticks * ns_per_tick);
    }
    pfl_probe_message_end(m);
}

/* `total count count ...`: the counts are numbered from 0; zeros are left out if asked for. */
static void add_counts(struct pfl_probe_message *m, uint32_t total_field, bool skip_zeros,
                       struct pfl_span line)
{
    struct pfl_span word;

    if (pfl_proc_take_word(&line, &word))
        pfl_probe_message_uint(m, total_field, pfl_proc_number(word));
    for (uint64_t i = 0; pfl_proc_take_word(&line, &word); i++) {
        uint64_t count = pfl_proc_number(word);

        if (count != 0 || !skip_zeros)
            add_pair(m, total_field + 1, i, count);
    }
}

void pfl_sys_add_stat(struct pfl_probe_message *m, const struct pfl_sys_conf *conf,
                      struct pfl_span text, uint64_t ns_per_tick)
{
    struct pfl_span line;
    struct pfl_span key;
    struct pfl_span value;

    while (pfl_proc_take_line(&text, &line)) {
        if (!pfl_proc_take_word(&line, &key))
            continue;
        if (key.len > 3 && pfl_proc_starts_with(key, "cpu")) {
            if (wants_stat(conf, PFL_SYS_STAT_CPU_TIMES))
                add_cpu_times(m, key, line, ns_per_tick);
        } else if (pfl_span_is(key, "intr")) {
            if (wants_stat(conf, PFL_SYS_STAT_IRQS))
                add_counts(m, SYS_STATS__NUM_IRQ_TOTAL, true, line);
        } else if (pfl_span_is(key, "softirq")) {
            if (wants_stat(conf, PFL_SYS_STAT_SOFTIRQS))
                add_counts(m, SYS_STATS__NUM_SOFTIRQ_TOTAL, false, line);
        } else if (pfl_span_is(key, "processes") && wants_stat(conf, PFL_SYS_STAT_FORKS) &&
                   pfl_proc_take_word(&line, &value)) {
            pfl_probe_message_uint(m, SYS_STATS__NUM_FORKS, pfl_proc_number(value));
        }
    }
}

void pfl_sys_add_diskstat(struct pfl_probe_message *m, struct pfl_span text)
{
    /* By the word's place in the line, from 0: the field it becomes. */
    static const uint8_t fields[20] = {
        [5] = SYS_STATS__DISK_STAT__READ_SECTORS,     [6] = SYS_STATS__DISK_STAT__READ_TIME_MS,
        [9] = SYS_STATS__DISK_STAT__WRITE_SECTORS,    [10] = SYS_STATS__DISK_STAT__WRITE_TIME_MS,
        [16] = SYS_STATS__DISK_STAT__DISCARD_SECTORS, [17] = SYS_STATS__DISK_STAT__DISCARD_TIME_MS,
        [18] = SYS_STATS__DISK_STAT__FLUSH_COUNT,     [19] = SYS_STATS__DISK_STAT__FLUSH_TIME_MS,
    };
    struct pfl_span line;
    struct pfl_span word;

    while (pfl_proc_take_line(&text, &line)) {
        pfl_probe_message_begin(m, SYS_STATS__DISK_STAT);
        for (size_t i = 0; i < sizeof(fields) && pfl_proc_take_word(&line, &word); i++) {
            if (i == 2)
                pfl_probe_message_bytes(m, SYS_STATS__DISK_STAT__DEVICE_NAME, word.data, word.len);
            else if (fields[i] != 0)
                pfl_probe_message_uint(m, fields[i], pfl_proc_number(word));
        }
        pfl_probe_message_end(m);
    }
}

/* "Node 0, zone   Normal   1 2 3 ..." */
void pfl_sys_add_buddyinfo(struct pfl_probe_message *m, struct pfl_span text)
{
    struct pfl_span line;
    struct pfl_span word;

    while (pfl_proc_take_line(&text, &line)) {
        pfl_probe_message_begin(m, SYS_STATS__BUDDY_INFO);
        for (size_t i = 0; pfl_proc_take_word(&line, &word); i++) {
            if (i == 1)
                pfl_probe_message_bytes(m, SYS_STATS__BUDDY_INFO__NODE, word.data,
                                        word.data[word.len - 1] == ',' ? word.len - 1 : word.len);
            else if (i == 3)
                pfl_probe_message_bytes(m, SYS_STATS__BUDDY_INFO__ZONE, word.data, word.len);
            else if (i > 3)
                pfl_probe_message_uint(m, SYS_STATS__BUDDY_INFO__ORDER_PAGES,
                                       pfl_proc_number(word));
        }
        pfl_probe_message_end(m);
    }
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", microseconds */
void pfl_sys_add_psi(struct pfl_probe_message *m, uint32_t resource_some, struct pfl_span text)
{
    struct pfl_span line;
    struct pfl_span word;

    while (pfl_proc_take_line(&text, &line)) {
        uint32_t resource = resource_some;

        if (!pfl_proc_take_word(&line, &word))
            continue;
        if (pfl_span_is(word, "full"))
            resource++;
        while (pfl_proc_take_word(&line, &word)) {
            if (pfl_proc_starts_with(word, "total="))
                add_pair(m, SYS_STATS__PSI, resource,
                         pfl_proc_number(pfl_span_of(word.data + 6, word.len - 6)) * 1000);
        }
    }
}

/* "name 1 2 3 4 pagesperslab : tunables 0 0 0 : slabdata 0 num_slabs 0", below two headings. */
void pfl_sys_add_slab(struct pfl_probe_message *m, struct pfl_span text)
{
    struct pfl_span line;
    struct pfl_span word;

    for (size_t row = 0; pfl_proc_take_line(&text, &line); row++) {
        if (row < 2)
            continue;
        pfl_probe_message_begin(m, SYS_STATS__SLAB_INFO);
        for (size_t i = 0; i <= 14 && pfl_proc_take_word(&line, &word); i++) {
            if (i == 0)
                pfl_probe_message_bytes(m, SYS_STATS__SLAB_INFO__NAME, word.data, word.len);
            else if (i == 5 || i == 14)
                pfl_probe_message_uint(m,
                                       i == 5 ? SYS_STATS__SLAB_INFO__PAGES_PER_SLAB
                                              : SYS_STATS__SLAB_INFO__NUM_SLABS,
                                       pfl_proc_number(word));
        }
        pfl_probe_message_end(m);
    }
}

/* " 1: 1300Mhz *": the step that has the star. */
bool pfl_sys_find_current_mhz(struct pfl_span text, uint64_t *ret_mhz)
{
    struct pfl_span line;
    struct pfl_span word;

    while (pfl_proc_take_line(&text, &line)) {
        uint64_t mhz = 0;
        bool is_current = false;

        for (size_t i = 0; pfl_proc_take_word(&line, &word); i++) {
            if (i == 1)
                mhz = pfl_proc_number(word);
            is_current = pfl_span_is(word, "*");
        }
        if (is_current && mhz != 0) {
            *ret_mhz = mhz;
            return true;
        }
    }
    return false;
}
