/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.sys_stats.
 *
 * Happy path: each kind of statistics has a period and a due time, aligned to a multiple of the
 * period, so that kinds of one period share a packet; poll reads what is due. Failure: if a file is
 * missing, or not read in time, its kind is not in the packet. Limits: FILE_MAX_BYTES of a file,
 * CPUS_MAX CPUs for frequencies and idle states.
 */
#include "agent/probes/procfs/sys_stats.h"

#include <stdio.h>
#include <unistd.h>

#include "agent/probes/procfs/proc_reader.h"
#include "agent/probes/procfs/proc_text.h"
#include "perfetto/sys_stats.fields.h"
#include "perfetto/trace_packet.fields.h"

#define FILE_MAX_BYTES    PFL_PROC_TEXT_BYTES
#define MESSAGE_MAX_BYTES (1024u * 1024u)
#define CPUS_MAX          4096
#define STATES_MAX        16
#define ZONES_MAX         64
#define NS_PER_MS         UINT64_C(1000000)
#define DEVICES_MAX       256

void pfl_sys_stats_init(struct pfl_sys_stats *self, struct pfl_span config)
{
    memset(self, 0, sizeof(*self));
    pfl_sys_conf_parse(config, &self->conf);
    pfl_probe_message_init(&self->message, MESSAGE_MAX_BYTES);
    pfl_buf_init(&self->file, FILE_MAX_BYTES);
    for (size_t i = 0; i < PFL_SYS_KINDS; i++)
        self->due_ns[i] = self->conf.period_ms[i] != 0 ? 0 : UINT64_MAX;
}

void pfl_sys_stats_fini(struct pfl_sys_stats *self)
{
    pfl_probe_message_fini(&self->message);
    pfl_buf_fini(&self->file);
}

uint64_t pfl_sys_stats_get_due_ns(const struct pfl_sys_stats *self)
{
    uint64_t due_ns = UINT64_MAX;

    for (size_t i = 0; i < PFL_SYS_KINDS; i++) {
        if (self->due_ns[i] < due_ns)
            due_ns = self->due_ns[i];
    }
    return due_ns;
}

static struct pfl_span read_file(struct pfl_sys_stats *self, const char *path)
{
    struct pfl_span text;

    if (pfl_proc_reader_text(path, &self->file) != 0)
        return pfl_span_of(NULL, 0);
    text = pfl_buf_get(&self->file);
    if (text.len != 0 && text.data[text.len - 1] == '\n')
        text.len--;
    return text;
}

static void add_cpufreq(struct pfl_sys_stats *self)
{
    uint32_t cpus = pfl_proc_reader_count_cpus();
    char path[96];

    for (uint32_t i = 0; i < cpus && i < CPUS_MAX; i++) {
        (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq",
                       i);
        pfl_probe_message_uint(&self->message, SYS_STATS__CPUFREQ_KHZ,
                               pfl_proc_number(read_file(self, path)));
    }
}

/* False: there is none. */
static bool add_idle_state(struct pfl_sys_stats *self, const char *dir)
{
    char path[128];
    struct pfl_span text;

    (void)snprintf(path, sizeof(path), "%s/name", dir);
    text = read_file(self, path);
    if (text.len == 0)
        return false;
    pfl_probe_message_begin(&self->message, SYS_STATS__CPU_IDLE_STATE__CPUIDLE_STATE_ENTRY);
    pfl_probe_message_bytes(&self->message, SYS_STATS__CPU_IDLE_STATE_ENTRY__STATE, text.data,
                            text.len);
    (void)snprintf(path, sizeof(path), "%s/time", dir);
    pfl_probe_message_uint(&self->message, SYS_STATS__CPU_IDLE_STATE_ENTRY__DURATION_US,
                           pfl_proc_number(read_file(self, path)));
    pfl_probe_message_end(&self->message);
    return true;
}

static void add_cpuidle(struct pfl_sys_stats *self)
{
    uint32_t cpus = pfl_proc_reader_count_cpus();
    char dir[96];

    for (uint32_t i = 0; i < cpus && i < CPUS_MAX; i++) {
        pfl_probe_message_begin(&self->message, SYS_STATS__CPUIDLE_STATE);
        pfl_probe_message_uint(&self->message, SYS_STATS__CPU_IDLE_STATE__CPU_ID, i);
        for (int state = 0; state < STATES_MAX; state++) {
            (void)snprintf(dir, sizeof(dir), "/sys/devices/system/cpu/cpu%u/cpuidle/state%d", i,
                           state);
            if (!add_idle_state(self, dir))
                break;
        }
        pfl_probe_message_end(&self->message);
    }
}

static void add_thermal(struct pfl_sys_stats *self)
{
    char name[32];
    char path[96];
    struct pfl_span text;

    for (int i = 0; i < ZONES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "thermal_zone%d", i);
        (void)snprintf(path, sizeof(path), "/sys/class/thermal/%s/temp", name);
        text = read_file(self, path);
        if (text.len == 0)
            break;
        pfl_probe_message_begin(&self->message, SYS_STATS__THERMAL_ZONE);
        pfl_probe_message_text(&self->message, SYS_STATS__THERMAL_ZONE__NAME, name);
        pfl_probe_message_uint(&self->message, SYS_STATS__THERMAL_ZONE__TEMP,
                               pfl_proc_number(text) / 1000);
        (void)snprintf(path, sizeof(path), "/sys/class/thermal/%s/type", name);
        text = read_file(self, path);
        pfl_probe_message_bytes(&self->message, SYS_STATS__THERMAL_ZONE__TYPE, text.data, text.len);
        pfl_probe_message_end(&self->message);
    }
}

static void add_devfreq(struct pfl_sys_stats *self)
{
    struct pfl_buf names;
    struct pfl_span text;
    char path[320];
    size_t at = 0;

    pfl_buf_init(&names, FILE_MAX_BYTES);
    if (pfl_proc_reader_names("/sys/class/devfreq", &names) != 0)
        names.len = 0;
    for (int i = 0; i < DEVICES_MAX && at < names.len; i++) {
        const char *name = (const char *)pfl_buf_get(&names).data + at;

        at += strlen(name) + 1;
        (void)snprintf(path, sizeof(path), "/sys/class/devfreq/%s/cur_freq", name);
        text = read_file(self, path);
        pfl_probe_message_begin(&self->message, SYS_STATS__DEVFREQ);
        pfl_probe_message_text(&self->message, SYS_STATS__DEVFREQ_VALUE__KEY, name);
        pfl_probe_message_uint(&self->message, SYS_STATS__DEVFREQ_VALUE__VALUE,
                               pfl_proc_number(text));
        pfl_probe_message_end(&self->message);
    }
    pfl_buf_fini(&names);
}

/* The first that is there: Adreno (Hz), Intel, AMD. */
static void add_gpufreq(struct pfl_sys_stats *self)
{
    struct pfl_span text = read_file(self, "/sys/class/kgsl/kgsl-3d0/devfreq/cur_freq");
    uint64_t mhz;

    if (text.len != 0) {
        pfl_probe_message_uint(&self->message, SYS_STATS__GPUFREQ_MHZ,
                               pfl_proc_number(text) / 1000000);
        return;
    }
    text = read_file(self, "/sys/class/drm/card0/gt_act_freq_mhz");
    if (text.len != 0) {
        pfl_probe_message_uint(&self->message, SYS_STATS__GPUFREQ_MHZ, pfl_proc_number(text));
        return;
    }
    text = read_file(self, "/sys/class/drm/card0/device/pp_dpm_sclk");
    if (pfl_sys_find_current_mhz(text, &mhz))
        pfl_probe_message_uint(&self->message, SYS_STATS__GPUFREQ_MHZ, mhz);
}

static void add_kind(struct pfl_sys_stats *self, enum pfl_sys_kind kind)
{
    struct pfl_probe_message *m = &self->message;

    switch (kind) {
    case PFL_SYS_MEMINFO:
        pfl_sys_add_meminfo(m, &self->conf, read_file(self, "/proc/meminfo"));
        return;
    case PFL_SYS_VMSTAT:
        pfl_sys_add_vmstat(m, &self->conf, read_file(self, "/proc/vmstat"));
        return;
    case PFL_SYS_STAT:
        pfl_sys_add_stat(m, &self->conf, read_file(self, "/proc/stat"),
                         UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
        return;
    case PFL_SYS_CPUFREQ:
        add_cpufreq(self);
        return;
    case PFL_SYS_BUDDYINFO:
        pfl_sys_add_buddyinfo(m, read_file(self, "/proc/buddyinfo"));
        return;
    case PFL_SYS_DISKSTAT:
        pfl_sys_add_diskstat(m, read_file(self, "/proc/diskstats"));
        return;
    case PFL_SYS_PSI:
        pfl_sys_add_psi(m, 1, read_file(self, "/proc/pressure/cpu"));
        pfl_sys_add_psi(m, 3, read_file(self, "/proc/pressure/io"));
        pfl_sys_add_psi(m, 5, read_file(self, "/proc/pressure/memory"));
        return;
    case PFL_SYS_CPUIDLE:
        add_cpuidle(self);
        return;
    case PFL_SYS_THERMAL:
        add_thermal(self);
        return;
    case PFL_SYS_DEVFREQ:
        add_devfreq(self);
        return;
    case PFL_SYS_GPUFREQ:
        add_gpufreq(self);
        return;
    case PFL_SYS_SLAB:
        pfl_sys_add_slab(m, read_file(self, "/proc/slabinfo"));
        return;
    case PFL_SYS_KINDS:
        return;
    }
}

void pfl_sys_stats_poll(struct pfl_sys_stats *self, uint64_t now_ns, struct perfleet_writer *writer)
{
    struct pfl_span body;

    pfl_probe_message_clear(&self->message);
    for (uint32_t i = 0; i < PFL_SYS_KINDS; i++) {
        uint64_t period_ns = self->conf.period_ms[i] * NS_PER_MS;

        if (self->due_ns[i] > now_ns)
            continue;
        self->due_ns[i] = now_ns - now_ns % period_ns + period_ns;
        add_kind(self, (enum pfl_sys_kind)i);
    }
    body = pfl_buf_get(&self->message.buf);
    if (body.len == 0 || self->message.failed)
        return;
    perfleet_packet_begin(writer);
    perfleet_uint(writer, TRACE_PACKET__TIMESTAMP, now_ns);
    perfleet_begin(writer, TRACE_PACKET__SYS_STATS);
    perfleet_raw(writer, body.data, body.len);
    perfleet_uint(writer, SYS_STATS__COLLECTION_END_TIMESTAMP, perfleet_time_ns());
    perfleet_end(writer);
    perfleet_packet_end(writer);
}
