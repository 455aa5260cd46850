#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet-probes beside traced_probes: both record the same seconds of the same kernel, in two
# sessions at once, and Trace Processor's tables must agree. With perfleetd and with stock traced.
# Needs root, tracefs and Perfetto's programs (PERFETTO_BIN_DIR); counted as skipped without.
. "$(dirname "$0")/lib.sh"

TRACEFS=/sys/kernel/tracing
JUDGE="python3 -B $ROOT/tests/support/probes_judge.py"
PEER=${PERFETTO_BIN_DIR:-}
can_trace() {
    [ "$(id -u)" -eq 0 ] && mkdir "$TRACEFS/instances/pfl-try-$$" 2>/dev/null &&
        rmdir "$TRACEFS/instances/pfl-try-$$"
}
if ! has_perfetto || ! can_trace; then
    skip "kernel data equals traced_probes'" "needs PERFETTO_BIN_DIR, root and a writable tracefs"
    finish
fi

# With traced, the fields that change what is recorded and how it is written.
FILTERS='print_filter { rules { atrace_msg { type: "I" prefix: "judge" } allow: true } rules { prefix: "" } }'
other_forms() {
    [ "$1" = traced ] || return
    echo 'syscall_events: "sys_openat" syscall_events: "sys_clone3" syscall_events: "sys_wait4"
        use_monotonic_raw_clock: true denser_generic_event_encoding: false
        buffer_size_lower_bound: true'
}
config_for() {
    local only="producer_name_filter: \"$1\""
    cat <<END
buffers { size_kb: 262144 }
data_sources { $only config { name: "linux.ftrace" ftrace_config {
    buffer_size_kb: 65536 drain_period_ms: 50 ftrace_events: "sched/sched_switch"
    ftrace_events: "sched/sched_waking" ftrace_events: "sched/sched_process_exit"
    ftrace_events: "sched/sched_stat_runtime" ftrace_events: "task/task_newtask"
    ftrace_events: "task/task_rename" ftrace_events: "irq/*" ftrace_events: "workqueue/*"
    ftrace_events: "raw_syscalls/*" ftrace_events: "no/such_event" ftrace_events: "ftrace/print"
    symbolize_ksyms: true $FILTERS $(other_forms "$2") } } }
data_sources { $only config { name: "linux.process_stats" process_stats_config {
    scan_all_processes_on_start: true record_thread_names: true proc_stats_poll_ms: 500 } } }
data_sources { $only config { name: "linux.sys_stats" sys_stats_config {
    meminfo_period_ms: 200 vmstat_period_ms: 200 stat_period_ms: 200 cpufreq_period_ms: 200
    buddyinfo_period_ms: 200 diskstat_period_ms: 200 psi_period_ms: 200 slab_period_ms: 400 } } }
data_sources { $only config { name: "linux.system_info" } }
END
}

# All that the workload shows: on a busy machine the kernel takes its time for each event.
both_record() {
    local event
    for event in task/task_rename task/task_newtask sched/sched_process_exit \
        raw_syscalls/sys_enter raw_syscalls/sys_exit; do
        grep -qs 1 "$TRACEFS/events/$event/enable" &&
            grep -qs 1 "$TRACEFS/instances/perfleet-$probes/events/$event/enable" || return
    done
}
# Both sessions, then the workload, then the end of both.
record_both() {
    local side
    for side in ours theirs; do
        "$PEER/perfetto" -c "$WORK/$side.cfg" --txt -o "$WORK/$1.$side" >>"$WORK/$1.$side.log" 2>&1 &
        eval "$side=$!"
    done
    wait_for 60 both_record && $JUDGE work
    # shellcheck disable=SC2154
    kill -INT "$ours" "$theirs"
    wait "$ours"
    wait "$theirs"
    [ -s "$WORK/$1.ours" ] && [ -s "$WORK/$1.theirs" ]
}

# On a busy machine the other side may lose events: then once more, and at last no verdict.
compare_sides() {
    local code=3 claim="$1: Trace Processor finds the same in both"
    for _ in 1 2 3; do
        check "$1: both record the workload" record_both "$1" || return
        timeout 90 $JUDGE compare "$PEER/trace_processor_shell" "$WORK/$1.ours" "$WORK/$1.theirs" \
            >"$WORK/verdict" 2>&1
        code=$?
        [ $code -eq 3 ] || break
    done
    sed 's/^/# /' "$WORK/verdict"
    if [ $code -eq 3 ]; then
        skip "$claim" "traced_probes lost events three times"
    else
        check "$claim" test $code -eq 0
    fi
}

for service in perfleetd traced; do
    mkdir -p "$WORK/$service"
    use_service "$service"
    config_for perfleet-probes "$service" >"$WORK/ours.cfg"
    config_for perfetto.traced_probes "$service" >"$WORK/theirs.cfg"
    [ "$service" = traced ] && program=$PEER/traced || program=$BIN/perfleetd
    start "$service" "$program"
    daemon=$STARTED
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    start ours "$BIN/perfleet-probes"
    probes=$STARTED
    start theirs "$PEER/traced_probes"
    peer=$STARTED
    sources_are_there() {
        [ "$("$PEER/perfetto" --query 2>/dev/null | grep -c '^linux.ftrace')" -ge 2 ]
    }
    check "$service: both offer linux.ftrace" wait_for 30 sources_are_there
    compare_sides "$service"
    kill "$probes" "$peer"
    wait "$probes" "$peer"
    kill "$daemon"
    wait "$daemon"
done
finish
