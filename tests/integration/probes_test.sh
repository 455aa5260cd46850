#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet-probes on this host's kernel: what it records, and that it leaves tracefs as it was.
# Without root or tracefs the kernel's part is skipped; /proc and /sys are for everybody.
. "$(dirname "$0")/lib.sh"

TRACEFS=/sys/kernel/tracing
export RUNTIME_DIRECTORY=$WORK/run
[ -e $TRACEFS/trace ] || mount -t tracefs nodev $TRACEFS 2>/dev/null
FIELDS="python3 -B $ROOT/tests/support/probes_check.py"

start_service one || { check "perfleetd opens its sockets" false; finish; }

proc_config() {
    cat <<END
buffers { size_kb: 262144 }
data_sources { config { name: "linux.process_stats" process_stats_config {
    scan_all_processes_on_start: true record_thread_names: true proc_stats_poll_ms: 200 } } }
data_sources { config { name: "linux.sys_stats" sys_stats_config {
    meminfo_period_ms: 200 stat_period_ms: 200 vmstat_period_ms: 400 } } }
data_sources { config { name: "linux.system_info" } }
duration_ms: 1500
END
}
ftrace_config() {
    cat <<END
data_sources { config { name: "linux.ftrace" ftrace_config {
    ftrace_events: "sched/*" ftrace_events: "task/*" ftrace_events: "raw_syscalls/sys_enter"
    ftrace_events: "irq/*" drain_period_ms: 50 } } }
END
}
proc_config >"$WORK/proc.pbtx"
{ proc_config; ftrace_config; } >"$WORK/all.pbtx"
{ echo 'buffers { size_kb: 131072 } duration_ms: 1000'; ftrace_config; } >"$WORK/ftrace.pbtx"
{
    echo 'buffers { size_kb: 16384 } duration_ms: 1000'
    echo 'data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "task/*" } } }'
} >"$WORK/task.pbtx"

# --- everybody ------------------------------------------------------------------------------
start plain "$BIN/perfleet-probes" --no-ftrace
PLAIN=$STARTED
check "processes and statistics are offered without kernel events" \
    wait_for_source linux.process_stats 1
check "and recorded" record one "$WORK/proc.pbtx" "$WORK/proc.pftrace"
check "the trace has processes, counters and processors" \
    $FIELDS "$WORK/proc.pftrace" process_tree process_stats sys_stats cpu_info
kill "$PLAIN"
wait "$PLAIN"
check "it ends on SIGTERM" test $? -eq 0
check "wrong usage is exit 2" exits_with 2 "$BIN/perfleet-probes" --nonsense

# --- the kernel -----------------------------------------------------------------------------
can_trace() {
    [ "$(id -u)" -eq 0 ] && mkdir "$TRACEFS/instances/pfl-try-$$" 2>/dev/null &&
        rmdir "$TRACEFS/instances/pfl-try-$$"
}
if ! can_trace; then
    skip "kernel events are recorded" "needs root and a writable tracefs"
    finish
fi

# What other tracers would see change. Instances of other programs of this name are theirs.
PROBES=
tracefs_state() {
    cat $TRACEFS/{tracing_on,trace_clock,buffer_size_kb,set_event,current_tracer}
    [ -z "$PROBES" ] || ls -d "$TRACEFS/instances/perfleet-$PROBES" 2>/dev/null
}
no_instance() {
    [ ! -e "$TRACEFS/instances/perfleet-$PROBES" ]
}
# Work goes on from before a recording until after it, however slow the machine.
begin_work() { # CMD...: one that says by $WORK/at-work that it has begun, and looks at $WORK/working
    rm -f "$WORK/at-work"
    touch "$WORK/working"
    "$@" &
    WORKER=$!
    wait_for 60 test -e "$WORK/at-work"
}
# A session of WORK/NAME.pbtx, long enough for its data sources to have started and to be flushed at its end.
trace() { # NAME
    local ms
    for ms in 2000 8000 32000; do
        sed "s/duration_ms: [0-9]*/duration_ms: $ms/" "$WORK/$1.pbtx" >"$WORK/timed.pbtx"
        record one "$WORK/timed.pbtx" "$WORK/$1.pftrace"
        $FIELDS "$WORK/$1.pftrace" all_started ftrace_stats_end && return 0
    done
    return 1
}
end_work() {
    rm "$WORK/working"
    wait "$WORKER"
}
some_work() {
    while [ -e "$WORK/working" ]; do
        /bin/true
        touch "$WORK/at-work"
        sleep 0.02
    done
}
# The background ignores SIGINT, but for the program itself.
end_recording() {
    kill -INT "$(pgrep -P "$1" -x perfleet || echo "$1")"
    wait "$1"
}
# `7 (expanded: 1408)`: where nobody has traced yet, the buffers get their size with the first event.
EXPANDED=$(sed -n 's/.*expanded: \([0-9]*\))/\1/p' $TRACEFS/buffer_size_kb)
[ -z "$EXPANDED" ] || echo "$EXPANDED" >$TRACEFS/buffer_size_kb
tracefs_state >"$WORK/before"
start probes "$BIN/perfleet-probes"
PROBES=$STARTED
check "kernel events are offered" wait_for_source linux.ftrace 1
begin_work some_work
check "they are recorded with everything else" trace all
end_work
check "scheduling, tasks, system calls, interrupts and statistics arrive; nothing was lost" \
    $FIELDS "$WORK/all.pftrace" compact_switch compact_waking event:237 event:235 event:329 \
    event:24 ftrace_stats_begin ftrace_stats_end process_tree lossless
is_idle() {
    ! grep -qs 1 $TRACEFS/instances/perfleet-$PROBES/tracing_on &&
        ! grep -qsE "[a-z]" $TRACEFS/instances/perfleet-$PROBES/set_event
}
is_recording() {
    grep -qs 1 $TRACEFS/instances/perfleet-$PROBES/tracing_on
}
check "after the session nothing is recorded" wait_for 20 is_idle

two_sessions() {
    record one "$WORK/ftrace.pbtx" "$WORK/a.pftrace" &
    local first=$!
    record one "$WORK/task.pbtx" "$WORK/b.pftrace" || return 1
    wait $first
}
begin_work some_work
check "two sessions share the kernel" two_sessions
end_work
check "the first has its events" $FIELDS "$WORK/a.pftrace" compact_switch event:235
check "the second has its own and no others" $FIELDS "$WORK/b.pftrace" event:235 no_compact_switch

# Filters, another clock, names of functions; generic events with and without descriptors.
EVENTS="python3 -B $ROOT/tests/support/ftrace_events.py"
cat >"$WORK/filters.pbtx" <<END
buffers { size_kb: 16384 } duration_ms: 2000
data_sources { config { name: "linux.ftrace" ftrace_config {
    syscall_events: "sys_getppid" syscall_events: "sys_nosuch" ftrace_events: "ftrace/print"
    print_filter { rules { prefix: "keep" allow: true } rules { prefix: "" } }
    ftrace_events: "workqueue/workqueue_execute_start" symbolize_ksyms: true
    use_monotonic_raw_clock: true } } }
END
filtered_work() {
    python3 -B -c "
import os, time
marker = '/sys/kernel/tracing/trace_marker'
terminal, other_end = os.openpty()
while os.path.exists('$WORK/working'):
    os.getppid(); os.getpid()
    os.write(terminal, b'x\n'); os.read(other_end, 9)  # work for a kernel worker
    for text in ('keep this', 'drop this'):
        open(marker, 'w').write(text)
    open('$WORK/at-work', 'w').close()
    time.sleep(0.01)"
}
begin_work filtered_work
check "a session with filters, the raw clock and names of functions" trace filters
end_work
$EVENTS "$WORK/filters.pftrace" >"$WORK/filters.txt"
only_one_call() {
    local numbers
    numbers=$(grep -o 'sys_e[a-z]* NR=[0-9]*' "$WORK/filters.txt" | sed 's/.*NR=//' | sort | uniq -c)
    echo "calls by number: $numbers"
    case $(uname -m) in
    x86_64) [[ $numbers =~ ^\ *[0-9]{2,}\ 110$ ]] ;;
    aarch64) [[ $numbers =~ ^\ *[0-9]{2,}\ 173$ ]] ;;
    *) [ "$(wc -l <<<"$numbers")" -eq 1 ] ;;
    esac
}
check "has the one system call that was named" only_one_call
only_kept_texts() {
    grep ' print ' "$WORK/filters.txt" >"$WORK/prints.txt"
    ! grep -v 'buf=keep this' "$WORK/prints.txt" &&
        { [ ! -e $TRACEFS/options/copy_trace_marker ] || [ -s "$WORK/prints.txt" ]; }
}
check "and of the texts those that pass the filter" only_kept_texts
check "functions have names" grep -q 'workqueue_execute_start.* function=flush_to_ldisc' "$WORK/filters.txt"
check "it says what it does not know" $FIELDS "$WORK/filters.pftrace" setup_unknown raw_clock lossless

# Files that are opened meanwhile: what open returned is looked up, and named.
cat >"$WORK/opened.pbtx" <<END
buffers { size_kb: 16384 } duration_ms: 1500
data_sources { config { name: "linux.ftrace" ftrace_config {
    syscall_events: "sys_openat" ftrace_events: "raw_syscalls/sys_exit" drain_period_ms: 50 } } }
data_sources { config { name: "linux.process_stats" process_stats_config { resolve_process_fds: true } } }
END
opening_work() {
    python3 -B -c "
import os, time
while os.path.exists('$WORK/working'):
    with open('$WORK/opened-later', 'w'):
        open('$WORK/at-work', 'w').close()
        time.sleep(0.3)"
}
begin_work opening_work
check "a session that resolves descriptors of system calls" trace opened
end_work
check "names a file that was opened meanwhile" grep -aq "$WORK/opened-later" "$WORK/opened.pftrace"

# One thread alone, and a wish that is not fulfilled.
python3 -B -c "
import time
while True: time.sleep(0.01)" &
SLEEPER=$!
cat >"$WORK/one.pbtx" <<END
buffers { size_kb: 16384 } duration_ms: 1000
data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "raw_syscalls/sys_enter"
    ftrace_events: "kmem/mm_page_alloc_zone_locked" ftrace_events: "timer/*"
    tids_to_trace: $SLEEPER tracing_cpumask: "3" atrace_categories: "am" } } }
END
begin_work some_work
check "a session for one thread" trace one
end_work
check "has that thread's events alone, and says what is not supported" \
    $FIELDS "$WORK/one.pftrace" event:329 "only_pid:$SLEEPER" setup_errors lossless
kill "$SLEEPER"

sed 's/duration_ms: 1000/duration_ms: 20000/' "$WORK/ftrace.pbtx" >"$WORK/long.pbtx"
record one "$WORK/long.pbtx" "$WORK/long.pftrace" >"$WORK/long.log" 2>&1 &
LONG=$!
check "a session records into an instance" wait_for 20 is_recording
kill -9 "$PROBES"
check "which is removed even after kill -9" wait_for 10 no_instance
tracefs_state >"$WORK/after"
check "tracefs is as it was" diff "$WORK/before" "$WORK/after"
end_recording "$LONG"
wait "$PROBES" 2>/dev/null

mkdir "$TRACEFS/instances/perfleet-999999999"
start probes2 "$BIN/perfleet-probes"
PROBES=$STARTED
stale_is_gone() { [ ! -e $TRACEFS/instances/perfleet-999999999 ]; }
check "an instance of a program that is gone is removed at start" wait_for 20 stale_is_gone
kill "$PROBES"
wait "$PROBES"
check "at its end it removes its own" no_instance

# Several at once: one is killed, then another with its guardian; whoever starts next puts all in order.
have_instances() { # PID...
    local pid
    for pid; do [ -d "$TRACEFS/instances/perfleet-$pid" ] || return 1; done
}
lacks_instance() { ! have_instances "$1"; }
record_all() {
    local pid
    for pid; do grep -qs 1 "$TRACEFS/instances/perfleet-$pid/tracing_on" || return 1; done
}
pids=()
for i in 1 2 3; do
    start "probes.$i" "$BIN/perfleet-probes"
    pids+=("$STARTED")
done
check "three programs have an instance each" wait_for 60 have_instances "${pids[@]}"
sed 's/duration_ms: 1000/duration_ms: 20000/' "$WORK/task.pbtx" >"$WORK/three.pbtx"
record one "$WORK/three.pbtx" "$WORK/three.pftrace" >"$WORK/three.log" 2>&1 &
LONG=$!
check "all of them record" wait_for 20 record_all "${pids[@]}"
kill -9 "${pids[0]}"
check "the one that is killed leaves nothing" wait_for 20 lacks_instance "${pids[0]}"
check "the others go on" record_all "${pids[@]:1}"
kill -9 "$(pgrep -P "${pids[1]}" -x perfleet-guard)" "${pids[1]}"
wait "${pids[1]}" 2>/dev/null
check "an instance whose guardian was killed too stays" have_instances "${pids[1]}"
start "probes.4" "$BIN/perfleet-probes"
pids+=("$STARTED")
check "until the next program starts" wait_for 20 lacks_instance "${pids[1]}"
check "that of a living one is spared" record_all "${pids[2]}"
wait_for 20 have_instances "${pids[3]}"
/bin/true
end_recording "$LONG"
check "what they recorded together has events" $FIELDS "$WORK/three.pftrace" event:235 lossless
kill "${pids[2]}" "${pids[3]}"
wait "${pids[2]}" "${pids[3]}"
check "at the end there is none" eval 'lacks_instance "${pids[2]}" && lacks_instance "${pids[3]}"'
tracefs_state >"$WORK/after"
check "and tracefs is as it was" diff "$WORK/before" "$WORK/after"
finish
