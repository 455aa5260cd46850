#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every field of ProcessStatsConfig, SysStatsConfig and SystemInfoConfig that perfleet-probes knows: what it is
# asked for is there, what it is not asked for is not. Needs no root; what this machine lacks must be absent.
. "$(dirname "$0")/lib.sh"

HAS="python3 -B $ROOT/tests/support/probes_fields.py"
# Records the data source MESSAGE of this config, long enough for it to have started before the end.
session() { # NAME MESSAGE CONFIG
    local name=$1 source=$2 config=$3 ms
    for ms in ${DURATION:-200} 600 1200 2400 4800 9600; do
        echo "buffers { size_kb: 32768 } duration_ms: $ms
            data_sources { config { name: \"linux.$source\" ${source}_config { $config } } }" >"$WORK/$name.pbtx"
        record one "$WORK/$name.pbtx" "$WORK/$name.pftrace" >"$WORK/record.log" 2>&1
        $HAS "$WORK/$name.pftrace" 69.1 >/dev/null && return 0
    done
    return 1
}
fields() { # CLAIM CONFIG FIELDS...: of process_stats
    local claim=$1 config=$2
    shift 2
    check "$claim" has_fields process_stats "$config" "$@"
}
has_fields() { # MESSAGE CONFIG FIELDS...
    session fields "$1" "$2" && $HAS "$WORK/fields.pftrace" "${@:3}"
}

start_service one || { check "perfleetd opens its sockets" false; finish; }
start probes "$BIN/perfleet-probes" --no-ftrace
check "the polled data sources are offered" wait_for_source linux.system_info 1

# --- ProcessStatsConfig ---------------------------------------------------------------------
# Process: pid 1, ppid 2, cmdline 3, uid 5, start 7; threads 2; ProcessStats.processes: vm_rss 3, smr_rss 16, pss 17,
# user time 21, kernel time 22.
ALL='scan_all_processes_on_start: true'
POLL='proc_stats_poll_ms: 100'
fields "scan_all_processes_on_start: processes, no threads' names, no counters" "$ALL" 2.1.1 2.1.2 2.1.3 2.1.5 -2.1.7 -2.2.2 -9
fields "record_thread_names" "$ALL record_thread_names: true" 2.1.1 2.2.1 2.2.3 2.2.2
fields "record_process_age" "$ALL record_process_age: true" 2.1.7
fields "skip_main_thread_message: only the others" "$ALL skip_main_thread_message: true" 2.1.1
fields "proc_stats_poll_ms: counters of memory, and of nothing else" "$POLL" 9.1.1 9.1.3 -9.1.16 -9.1.21
fields "record_process_runtime" "$POLL record_process_runtime: true" 9.1.21 9.1.22
fields "scan_smaps_rollup" "$POLL scan_smaps_rollup: true" 9.1.16 9.1.17
fields "without a wish there is nothing" "" -2 -9
compgen -G "/proc/[0-9]*/dmabuf_rss" >/dev/null && there= || there=- # Android's kernels alone
fields "record_process_dmabuf_rss" "$POLL record_process_dmabuf_rss: true" 9.1.3 -9.1.15 "${there}9.1.24"
fields "resolve_process_fds alone reads nothing" "resolve_process_fds: true" -2 -9
count_packets() { # NAME: ProcessStats of this shell's process with a resident size
    python3 -B - "$ROOT/tests/support" "$WORK/$1.pftrace" "$SLEEPER" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from trace_check import fields
data = open(sys.argv[2], 'rb').read()
print(sum(dict(fields(data, *process)).get(1) == int(sys.argv[3]) and 3 in dict(fields(data, *process))
          for number, packet in fields(data, 0, len(data)) if number == 1
          for field, stats in fields(data, *packet) if field == 9
          for inner, process in fields(data, *stats) if inner == 1))
END
}
exec 5>"$WORK/an open file"
sleep 60 &
SLEEPER=$!
exec 5>&-
JOBS+=("$SLEEPER")
ttl() { # CONFIG TEST...: how often a value that stays the same is written
    local config=$1
    shift
    DURATION=1000 session ttl process_stats "$POLL $config" && test "$(count_packets ttl)" "$@"
}
check "proc_stats_cache_ttl_ms: a value that stays is written once in that time" ttl "proc_stats_cache_ttl_ms: 60000" -eq 1
check "without it in every poll" ttl "" -ge 2
# Each of the sleeper's files, as /proc has them, COUNT times or more.
has_files() { # CONFIG COUNT
    session files process_stats "resolve_process_fds: true $1" &&
        python3 -B - "$ROOT/tests/support" "$WORK/files.pftrace" "$SLEEPER" "$2" <<'END'
import os
import sys
sys.path.insert(0, sys.argv[1])
from trace_check import fields
data = open(sys.argv[2], 'rb').read()
pid = sys.argv[3]
seen = {}
for number, packet in fields(data, 0, len(data)):
    for field, stats in fields(data, *packet) if number == 1 else ():
        for inner, process in fields(data, *stats) if field == 9 else ():
            parts = list(fields(data, *process)) if inner == 1 else ()
            for name, part in parts:
                if name == 15 and (1, int(pid)) in parts:
                    file = dict(fields(data, *part))
                    key = file[1], data[file[2][0]:file[2][1]].decode()
                    seen[key] = seen.get(key, 0) + 1
want = {(int(fd), os.readlink(f'/proc/{pid}/fd/{fd}')) for fd in os.listdir(f'/proc/{pid}/fd')}
print(seen, want)
sys.exit(set(seen) != want or min(seen.values()) < int(sys.argv[4]))
END
}
check "resolve_process_fds: the files that are open at the start" has_files "$ALL" 1
check "in every poll, as counters are" has_files "$POLL" 2
check "and once in proc_stats_cache_ttl_ms" has_files "$POLL proc_stats_cache_ttl_ms: 60000" 1

# --- SysStatsConfig -------------------------------------------------------------------------
# SysStats: meminfo 1, vmstat 2, stat 3 to 8, devfreq 10, cpufreq 11, buddyinfo 12, disk 13, psi 14, thermal 15, cpuidle 16,
# gpufreq 17, slab 18.
only() { # FIELD CONFIG PATH...: there if one of the paths is there, and nothing of the others
    local field=$1 config=$2 other claims=() path there=-
    shift 2
    for path; do compgen -G "$path" >/dev/null && grep -qs . "$(compgen -G "$path" | head -n 1)" && there=; done
    for other in 1 2 3 10 11 12 13 14 15 16 17 18; do
        [ "$other" = "$field" ] || claims+=("-7.$other")
    done
    [ "$field" = 16 ] || claims+=("${there}7.$field") # idle states: an empty one for each processor
    check "${config%%:*}: this alone${there:+, and this machine has none}" \
        has_fields sys_stats "$config" "${claims[@]}"
}
only 1 'meminfo_period_ms: 50' /proc/meminfo
check "with all its counters" $HAS "$WORK/fields.pftrace" '7.1:>20'
only 1 'meminfo_period_ms: 50 meminfo_counters: MEMINFO_MEM_FREE meminfo_counters: MEMINFO_CACHED' /proc/meminfo
check "meminfo_counters: those alone" $HAS "$WORK/fields.pftrace" 7.1:2
only 2 'vmstat_period_ms: 50' /proc/vmstat
check "with all its counters, too" $HAS "$WORK/fields.pftrace" '7.2:>40'
only 2 'vmstat_period_ms: 50 vmstat_counters: VMSTAT_NR_FREE_PAGES' /proc/vmstat
check "vmstat_counters: those alone" $HAS "$WORK/fields.pftrace" 7.2:1
only 3 'stat_period_ms: 50' /proc/stat
check "with forks, interrupts and soft interrupts" $HAS "$WORK/fields.pftrace" 7.4 7.5 7.7
only 3 'stat_period_ms: 50 stat_counters: STAT_CPU_TIMES' /proc/stat
check "stat_counters: those alone" $HAS "$WORK/fields.pftrace" 7.3 -7.4 -7.5 -7.7
only 10 'devfreq_period_ms: 50' '/sys/class/devfreq/*/cur_freq'
only 12 'buddyinfo_period_ms: 50' /proc/buddyinfo
only 13 'diskstat_period_ms: 50' /proc/diskstats
only 14 'psi_period_ms: 50' /proc/pressure/cpu
only 15 'thermal_period_ms: 50' '/sys/class/thermal/thermal_zone0/temp'
only 16 'cpuidle_period_ms: 50' /sys/devices/system/cpu/cpu0/cpuidle/state0/name
only 17 'gpufreq_period_ms: 50' '/sys/class/kgsl/kgsl-3d0/devfreq/cur_freq' '/sys/class/drm/card0/gt_act_freq_mhz'
only 18 'slab_period_ms: 50' /proc/slabinfo
check "cpufreq_period_ms" has_fields sys_stats "cpufreq_period_ms: 50" 7.11 -7.1
check "several at once, each at its own time" has_fields sys_stats \
    "meminfo_period_ms: 50 stat_period_ms: 70 vmstat_period_ms: 110" 7.1 7.2 7.3

# --- SystemInfoConfig -----------------------------------------------------------------------
# CpuInfo is packet 67, the names of interrupts are interned in packet 111's.
check "system_info without a wish: processors" eval 'session i system_info "" && $HAS "$WORK/i.pftrace" 67'
check "irq_names: more than without" eval '
    before=$(stat -c %s "$WORK/i.pftrace")
    session i system_info "irq_names: true" && [ "$(stat -c %s "$WORK/i.pftrace")" -gt $((before + 50)) ]'
finish
