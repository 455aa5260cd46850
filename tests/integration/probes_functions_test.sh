#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kprobe_events, the function graph and throttle_rss_stat on a real kernel that has them (tests/kernels/run boots
# such): what arrives is what was called, as often as it was called, and the kernel says the same of its kprobes;
# afterwards tracefs is as it was. Skipped where this kernel has none of them; tests/integration/probes_kernel_test.sh
# plays them there.
. "$(dirname "$0")/lib.sh"

TRACEFS=/sys/kernel/tracing
[ -e $TRACEFS/trace ] || mount -t tracefs nodev $TRACEFS 2>/dev/null
EVENTS="python3 -B $ROOT/tests/support/ftrace_events.py"
FIELDS="python3 -B $ROOT/tests/support/probes_check.py"
JUDGE="python3 -B $ROOT/tests/support/functions_check.py"
THEIRS=$TRACEFS/instances/pfl-judge-$$
export RUNTIME_DIRECTORY=$WORK/run
CALLS=50

if ! { [ "$(id -u)" -eq 0 ] && mkdir "$THEIRS" 2>/dev/null; }; then
    skip "kprobes and the function graph of this kernel" "needs root and a writable tracefs"
    finish
fi
trap 'cleanup; rmdir "$THEIRS" 2>/dev/null' EXIT
has_kprobes() { [ -e $TRACEFS/kprobe_events ]; }
has_graph() { grep -qw function_graph $TRACEFS/available_tracers; }
has_throttle() { [ -e $TRACEFS/synthetic_events ] && [ -e "$THEIRS/events/kmem/rss_stat/hist" ]; }
if ! has_kprobes && ! has_graph; then
    skip "kprobes and the function graph of this kernel" "this kernel has neither"
    finish
fi
# What getppid is called in this kernel (which has several names for it, and traces one), and what that calls.
NAMES='__(x64|arm64|ia32|do|se)_sys_getppid|sys_getppid'
CALL=$(grep -m 1 -xE "$NAMES" $TRACEFS/available_filter_functions)
[ -n "$CALL" ] || CALL=$(grep -m 1 -oE " ($NAMES)\$" /proc/kallsyms | tr -d ' ')
INNER=__task_pid_nr_ns

state() {
    cat $TRACEFS/{tracing_on,trace_clock,buffer_size_kb,set_event,current_tracer,set_graph_function,max_graph_depth} \
        $TRACEFS/{set_ftrace_filter,kprobe_events,options/overwrite} 2>/dev/null
    ls $TRACEFS/instances $TRACEFS/events
}
config() { # NAME EXTRA
    cat >"$WORK/$1.pbtx" <<END
buffers { size_kb: 32768 } duration_ms: 600000
data_sources { config { name: "linux.ftrace" ftrace_config { drain_period_ms: 50 symbolize_ksyms: true $2 } } }
END
}
# A session of that config, under way until end_session.
begin_session() { # NAME CLAIM CMD...: the command says that it records
    record one "$WORK/$1.pbtx" "$WORK/$1.pftrace" >"$WORK/$1.log" 2>&1 &
    RECORD=$!
    check "$2" wait_for 120 "${@:3}"
}
end_session() {
    kill -INT "$(pgrep -P "$RECORD" -x perfleet || echo "$RECORD")"
    wait "$RECORD"
}
# The workload: CALLS times getppid, between two sleeps; its thread is in WORK/worker.
call_it() {
    python3 -B -c "
import ctypes, os, time
time.sleep(0.2)
for _ in range($CALLS): os.getppid()
time.sleep(0.2)
open('$WORK/worker', 'w').write(str(os.getpid()))"
}
own_has() { # EVENT: on in the instance of our program
    grep -qx 1 "$TRACEFS/instances/perfleet-$PROBES/events/$1/enable" 2>/dev/null
}
is_graphing() { # some buffer has the tracer and is on
    local folder
    for folder in $TRACEFS "$TRACEFS/instances/perfleet-$PROBES"*; do
        if grep -qx function_graph "$folder/current_tracer" 2>/dev/null &&
            grep -qx 1 "$folder/tracing_on"; then
            return 0
        fi
    done
    return 1
}
judge_listens() { # ON-OR-OFF
    echo "$1" >"$THEIRS/events/perfetto_kprobes/$CALL/enable" &&
        echo "$1" >"$THEIRS/events/perfetto_kretprobes/$CALL/enable"
}

start_service one || { check "perfleetd opens its sockets" false; finish; }
start probes "$BIN/perfleet-probes"
PROBES=$STARTED
check "kernel events are offered" wait_for_source linux.ftrace 1
is_idle() { ! grep -qs 1 "$TRACEFS/instances/perfleet-$PROBES/tracing_on"; }
wait_for 20 test -d "$TRACEFS/instances/perfleet-$PROBES"
state >"$WORK/before"

# --- kprobes --------------------------------------------------------------------------------
if has_kprobes; then
    config kprobes "kprobe_events { probe: \"$CALL\" type: KPROBE_TYPE_BOTH }
        kprobe_events { probe: \"no_such_function\" type: KPROBE_TYPE_KPROBE }"
    begin_session kprobes "a session with kprobes" own_has "perfetto_kretprobes/$CALL"
    echo boot >"$THEIRS/trace_clock"
    check "they are dynamic events, which others can have, too" judge_listens 1
    check "the function is called" call_it
    cat "$THEIRS/trace" >"$WORK/kernel.txt"
    judge_listens 0
    end_session
    $EVENTS "$WORK/kprobes.pftrace" >"$WORK/kprobes.txt"
    check "each call has its begin and its end, by name, in the thread that called" \
        $JUDGE kprobes "$WORK/kprobes.txt" "$WORK/kernel.txt" "$(cat "$WORK/worker")" "$CALL" "$CALLS"
    check "a function that does not exist is reported; nothing was lost" \
        $FIELDS "$WORK/kprobes.pftrace" failed:perfetto_kprobes/no_such_function lossless
    kprobes_are_gone() { ! grep -q perfetto_ $TRACEFS/kprobe_events; }
    check "afterwards the kernel has none of them" wait_for 20 kprobes_are_gone
else
    skip "kprobes" "this kernel has none"
fi

# --- the function graph ---------------------------------------------------------------------
if has_graph; then
    config graph "enable_function_graph: true function_filters: \"$CALL\" function_filters: \"$INNER\"
        function_graph_roots: \"$CALL\" function_graph_max_depth: 4"
    begin_session graph "a session with the function graph" is_graphing
    check "its functions are called" call_it
    end_session
    $EVENTS "$WORK/graph.pftrace" >"$WORK/graph.txt"
    check "each call is there, and what it calls inside it" \
        $JUDGE graph "$WORK/graph.txt" "$(cat "$WORK/worker")" "$NAMES" "$INNER" "$CALLS"
    check "nothing was lost or refused" $FIELDS "$WORK/graph.pftrace" lossless no_setup_errors
    config many "enable_function_graph: true function_filters: \"vfs_*\" ftrace_events: \"sched/sched_switch\""
    begin_session many "the function graph of many functions" is_graphing
    check "which programs call" call_it
    end_session
    $EVENTS "$WORK/many.pftrace" >"$WORK/many.txt"
    check "has them by name, and no others" eval 'grep -q "funcgraph_entry .*func=vfs_read" "$WORK/many.txt" &&
        ! grep funcgraph_entry "$WORK/many.txt" | grep -v func=vfs_'
    check "and scheduling beside it" grep -q ' sched_switch ' "$WORK/many.txt"
else
    skip "the function graph" "this kernel has none"
fi

# --- throttle_rss_stat ----------------------------------------------------------------------
THROTTLED='rss_stat_throttled unsigned int mm_id; unsigned int curr; int member; long size'
if has_throttle && echo "$THROTTLED" >>$TRACEFS/synthetic_events; then
    config throttle 'ftrace_events: "kmem/rss_stat" throttle_rss_stat: true'
    begin_session throttle "a session with the throttled event" own_has synthetic/rss_stat_throttled
    check "programs grow" call_it
    end_session
    $EVENTS "$WORK/throttle.pftrace" >"$WORK/throttle.txt"
    check "it has that event, and not the other" \
        eval 'grep -q " event 359 " "$WORK/throttle.txt" && ! grep -q " rss_stat " "$WORK/throttle.txt"'
    is_removed() { echo "!$THROTTLED" >>$TRACEFS/synthetic_events; }
    check "afterwards nobody holds it" wait_for 20 is_removed
else
    skip "throttle_rss_stat" "this kernel has no synthetic events"
fi

is_as_before() { state | diff "$WORK/before" - >"$WORK/changed" || { cat "$WORK/changed"; return 1; }; }
check "tracefs is as it was" wait_for 20 is_as_before

# --- kill -9 --------------------------------------------------------------------------------
if has_kprobes && has_graph; then
    config both "kprobe_events { probe: \"$CALL\" type: KPROBE_TYPE_BOTH } enable_function_graph: true
        function_filters: \"$CALL\" function_graph_roots: \"$CALL\" function_graph_max_depth: 1"
    begin_session both "a program records both" is_graphing
    rm -f "$WORK/changed"
    kill -9 "$PROBES"
    wait "$PROBES" 2>/dev/null
    grep -v "perfleet-$PROBES" "$WORK/before" >"$WORK/without" # its idle instance has gone with it
    is_put_back() { state | diff "$WORK/without" - >"$WORK/changed" || { cat "$WORK/changed"; return 1; }; }
    check "killed, its guardian puts everything back" wait_for 60 is_put_back
    end_session
fi
finish
