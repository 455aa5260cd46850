#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kprobe_events, the function graph and throttle_rss_stat on a kernel that has them: a fake one
# (tests/support/fake_tracefs.c), because many have not. What is written into tracefs, what comes out,
# and that everything is put back, also after kill -9. Needs no root. With PERFETTO_BIN_DIR traced_probes
# runs on the same kernel: Trace Processor must find the same.
. "$(dirname "$0")/lib.sh"

EVENTS="python3 -B $ROOT/tests/support/ftrace_events.py"
FIELDS="python3 -B $ROOT/tests/support/probes_check.py"
export RUNTIME_DIRECTORY=$WORK/run
# A sanitizer wants to be loaded first.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0

make_kernel() { # NAME OPTIONS...
    FAKE=$WORK/$1
    shift
    python3 -B "$ROOT/tests/support/fake_tracefs.py" "$FAKE" "$@"
}
# On the fake kernel, but not what it starts: the name of the program is what counts.
start_probes() { # LOG PROGRAM
    start "$1" env LD_PRELOAD="$PFL_BUILD/tests/libfake_tracefs.so" PFL_FAKE_TRACEFS="$FAKE" "$2"
    PROBES=$STARTED
}
config() { # NAME EXTRA
    cat >"$WORK/$1.pbtx" <<END
buffers { size_kb: 4096 }
data_sources { config { name: "linux.ftrace" ftrace_config { drain_period_ms: 20 $2 } } }
END
}
# A session of that config, long enough for the data source to have started before its end.
trace() { # NAME
    local ms
    for ms in 300 600 1200 2400 4800 9600; do
        sed "\$a duration_ms: $ms" "$WORK/$1.pbtx" >"$WORK/timed.pbtx"
        record one "$WORK/timed.pbtx" "$WORK/$1.pftrace" >"$WORK/record.log" 2>&1
        $FIELDS "$WORK/$1.pftrace" all_started ftrace_stats_end >/dev/null && return 0
    done
    return 1
}
# Events without their times, addresses and what depends on them.
events() { # NAME
    $EVENTS "$WORK/$1.pftrace" | sed -E 's/^[^ ]+ //; s/(func|calltime|rettime)=[^ ]+/\1/g; s/  +/ /g'
}
has_events() { # NAME EXPECTED
    diff <(echo "$2") <(events "$1")
}
wrote() { # TEXT: one line of the fake's log
    grep -qxF -- "$1" "$FAKE.log" || { grep -v '^instances.*enable' "$FAKE.log" | tail -n 30; return 1; }
}
state() {
    (cd "$FAKE" && find . -type f ! -path './instances/*' ! -name stats -print0 | sort -z | xargs -0 cksum)
}
as_before() { state | diff "$WORK/before" - >"$WORK/changed"; }
stop_probes() {
    kill "$PROBES"
    wait "$PROBES"
}

start_service one || { check "perfleetd opens its sockets" false; finish; }

# --- kprobes --------------------------------------------------------------------------------
make_kernel modern
state >"$WORK/before"
start_probes probes "$BIN/perfleet-probes"
check "kernel events are offered" wait_for_source linux.ftrace 1
OWN=instances/perfleet-$PROBES
config kprobes 'kprobe_events { probe: "vfs_read" type: KPROBE_TYPE_BOTH }
    kprobe_events { probe: "vfs_write" type: KPROBE_TYPE_KPROBE }
    kprobe_events { probe: "vfs_write" type: KPROBE_TYPE_KRETPROBE }
    kprobe_events { probe: "no_such" type: KPROBE_TYPE_KPROBE }
    kprobe_events { probe: "bad;name" type: KPROBE_TYPE_KRETPROBE }
    ftrace_events: "perfetto_kprobes/*"'
check "a session with kprobes" trace kprobes
check "has begins, ends and instants by name" has_events kprobes \
    "0 4321 kprobe_event name=vfs_read type=1
0 4321 kprobe_event name=vfs_write type=3
0 4321 kprobe_event name=vfs_write type=3
0 4321 kprobe_event name=vfs_read type=2"
check "they were defined as the kernel wants it" wrote 'kprobe_events <- p:perfetto_kprobes/vfs_read vfs_read'
check "returns too" wrote 'kprobe_events <- r1024:perfetto_kretprobes/vfs_write vfs_write'
check "switched on in the program's own instance" wrote "$OWN/events/perfetto_kprobes/vfs_read/enable <- 1"
check "what cannot be probed is reported, and how often probes were hit and missed" \
    $FIELDS "$WORK/kprobes.pftrace" failed:perfetto_kprobes/no_such \
    "failed:perfetto_kretprobes/bad;name" kprobes:15:2 no_setup_unknown lossless
check "afterwards they are gone" as_before
check "one that was refused is nothing to put back" eval '! grep not-put-back "$WORK/probes.log"'
check "one after the other" wrote 'kprobe_events <- -:perfetto_kretprobes/vfs_write'

# --- the function graph ---------------------------------------------------------------------
config graph 'enable_function_graph: true function_filters: "vfs_*" function_graph_roots: "vfs_read"
    function_graph_roots: "vfs_write" function_graph_max_depth: 3 symbolize_ksyms: true'
GRAPH_EVENTS="0 4321 funcgraph_entry func depth=0
0 4321 funcgraph_entry func depth=1
0 4321 funcgraph_exit func depth=1 overrun=0 calltime rettime
0 4321 funcgraph_exit func depth=0 overrun=0 calltime rettime"
check "a session with the function graph" trace graph
check "has calls and returns" has_events graph "$GRAPH_EVENTS"
check "the tracer runs in an instance of its own" wrote "$OWN-graph/current_tracer <- function_graph"
check "with its own filter" wrote "$OWN-graph/set_ftrace_filter <- vfs_*"
check "the roots and the depth are the kernel's" eval "wrote 'set_graph_function <- (emptied)' &&
    wrote 'set_graph_function <- vfs_read' && wrote 'max_graph_depth <- 3'"
check "and are as they were afterwards" as_before
check "the instance is gone" test ! -e "$FAKE/$OWN-graph"

# Beside a session without it, and two of it at once.
config plain 'ftrace_events: "sched/*"'
sed '$a duration_ms: 20000' "$WORK/plain.pbtx" >"$WORK/beside.pbtx"
record one "$WORK/beside.pbtx" "$WORK/beside.pftrace" >"$WORK/beside.log" 2>&1 &
BESIDE=$!
is_recording() { grep -qs 1 "$FAKE/$OWN/events/sched/sched_switch/enable"; }
check "another session records" wait_for 20 is_recording
check "beside it the function graph can be had" trace graph
check "with its events" has_events graph "$GRAPH_EVENTS"
kill -INT "$(pgrep -P "$BESIDE" -x perfleet || echo "$BESIDE")"
wait "$BESIDE"

config filter 'enable_function_graph: true function_filters: "vfs_read:traceoff"'
check "a filter that is a command" trace filter
check "is refused: no function is traced, and the trace says so" $FIELDS "$WORK/filter.pftrace" \
    setup_errors failed:ftrace/funcgraph_entry failed:ftrace/funcgraph_exit no_event:437
config filter 'enable_function_graph: true function_filters: "no_such_function" ftrace_events: "sched/*"'
check "a function that is not there" trace filter
check "is refused likewise" $FIELDS "$WORK/filter.pftrace" setup_errors no_event:437
check "and nothing stays" as_before

# --- somebody's work -------------------------------------------------------------------------
cp -r "$FAKE.instance" "$FAKE/instances/theirs"
echo function_graph >"$FAKE/instances/theirs/current_tracer"
config theirs 'ftrace_events: "sched/*" instance_name: "theirs"'
for ms in 300 1200 4800 9600; do # its kernel events have no end: they have not begun
    sed "\$a duration_ms: $ms" "$WORK/theirs.pbtx" >"$WORK/timed.pbtx"
    record one "$WORK/timed.pbtx" "$WORK/theirs.pftrace" >"$WORK/record.log" 2>&1
    $FIELDS "$WORK/theirs.pftrace" all_started >/dev/null && break
done
check "an instance where a tracer works is refused: the trace says so" $FIELDS "$WORK/theirs.pftrace" setup_errors
check "and nothing is written there" eval '! grep "^instances/theirs/" "$FAKE.log"'
rm -r "$FAKE/instances/theirs"

# --- kill -9 --------------------------------------------------------------------------------
config both 'kprobe_events { probe: "vfs_read" type: KPROBE_TYPE_BOTH } enable_function_graph: true
    function_graph_roots: "vfs_read" function_graph_max_depth: 1'
kill_while_recording() { # PID...: the session is under way
    sed '$a duration_ms: 20000' "$WORK/both.pbtx" >"$WORK/long.pbtx"
    record one "$WORK/long.pbtx" "$WORK/long.pftrace" >"$WORK/long.log" 2>&1 &
    local recording=$!
    wait_for 20 grep -qs 1 "$FAKE/$OWN-graph/events/perfetto_kprobes/vfs_read/enable" || return 1
    as_before && return 1
    kill -9 "$@"
    kill -INT "$(pgrep -P "$recording" -x perfleet || echo "$recording")"
    wait "$recording" "$PROBES"
    return 0
}
check "a program is killed while it records" kill_while_recording "$PROBES"
check "its guardian puts everything back" wait_for 20 as_before
start_probes probes2 "$BIN/perfleet-probes"
OWN=instances/perfleet-$PROBES
check "kernel events are offered again" wait_for_source linux.ftrace 1
check "a program is killed with its guardian" \
    kill_while_recording "$(pgrep -P "$PROBES" -x perfleet-guard)" "$PROBES"
check "nothing is put back" eval '! as_before'
start_probes probes3 "$BIN/perfleet-probes"
check "until the next one starts" wait_for 20 as_before
stop_probes

# --- other kernels --------------------------------------------------------------------------
make_kernel older no_graph_in_instances hist
# The administrator defines the throttled event only after the program's first session.
mv "$FAKE/events/synthetic" "$FAKE.synthetic"
sed -i '/^synthetic:/d' "$FAKE/available_events"
state >"$WORK/before"
start_probes older "$BIN/perfleet-probes"
check "an older kernel" wait_for_source linux.ftrace 1
check "has the function graph" trace graph
check "in the top-level buffer" wrote "current_tracer <- function_graph"
check "with the same events" has_events graph "$GRAPH_EVENTS"
check "and all is as it was" as_before

mv "$FAKE.synthetic" "$FAKE/events/synthetic"
OWN=instances/perfleet-$PROBES
config throttle 'ftrace_events: "kmem/rss_stat" throttle_rss_stat: true'
check "throttle_rss_stat" trace throttle
check "sets the trigger in the program's instance" \
    eval 'grep -q "^$OWN/events/kmem/rss_stat/trigger <- hist:keys=.*onchange.*rss_stat_throttled" "$FAKE.log"'
check "and records the throttled event" wrote "$OWN/events/synthetic/rss_stat_throttled/enable <- 1"
check "instead of the other" eval '! wrote "$OWN/events/kmem/rss_stat/enable <- 1" >/dev/null'
for size in "0 8192 2048" "64 8192 2048" "16384 16384 16384"; do
    read -r wish large small <<<"$size"
    config lower "ftrace_events: \"sched/*\" buffer_size_kb: $wish buffer_size_lower_bound: true"
    [ "$(($(getconf _PHYS_PAGES) * $(getconf PAGESIZE)))" -ge $((7 << 30)) ] && expected=$large || expected=$small
    : >"$FAKE.log"
    check "buffer_size_lower_bound with $wish KiB" trace lower
    check "is $expected KiB" wrote "$OWN/buffer_size_kb <- $expected"
done
stop_probes
rm "$FAKE/hist"
start_probes older2 "$BIN/perfleet-probes"
OWN=instances/perfleet-$PROBES
check "a kernel that refuses the trigger" wait_for_source linux.ftrace 1
check "records" trace throttle
check "the plain event" wrote "$OWN/events/kmem/rss_stat/enable <- 1"
stop_probes

make_kernel bare no_graph
rm "$FAKE/kprobe_events" "$FAKE/kprobe_profile"
start_probes bare "$BIN/perfleet-probes"
check "a kernel with neither" wait_for_source linux.ftrace 1
check "records" trace both
check "and the trace says what it lacks" $FIELDS "$WORK/both.pftrace" setup_errors \
    failed:perfetto_kprobes/vfs_read failed:perfetto_kretprobes/vfs_read failed:ftrace/funcgraph_entry
stop_probes

# --- beside traced_probes -------------------------------------------------------------------
PEER=${PERFETTO_BIN_DIR:-}
cat >"$WORK/judge.sql" <<'END'
select ts - (select min(ts) from ftrace_event) as at, name, cpu,
    (select group_concat(pair, ' ') from (select key || '=' || coalesce(string_value, int_value) as pair from args a
     where a.arg_set_id = e.arg_set_id and key not like '%func%' and key not like 'depth' order by key)) as args
from ftrace_event e order by ts;
select ts - (select min(ts) from slice) as at, dur, depth, name, track_id from slice order by ts;
select name, idx, value from stats where value != 0 and (severity != 'info' or name like 'ftrace_kprobe%' or
    name like 'ftrace_setup%') order by name, idx;
END
peer_records() { # PROGRAM OUT CONFIG
    start_probes judged "$1"
    wait_for 30 eval '"$PEER/perfetto" --query 2>/dev/null | grep -q "^linux.ftrace"' || return 1
    sed '$a duration_ms: 1500' "$3" >"$WORK/timed.pbtx"
    "$PEER/perfetto" -c "$WORK/timed.pbtx" --txt -o "$2" >>"$WORK/peer.log" 2>&1
    kill "$PROBES"
    wait "$PROBES"
    [ -s "$2" ]
}
if has_perfetto; then
    mkdir -p "$WORK/traced"
    use_service traced
    start traced "$PEER/traced"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    for form in kprobes graph; do
        make_kernel "theirs.$form"
        check "$form: traced_probes records it" \
            peer_records "$PEER/traced_probes" "$WORK/theirs" "$WORK/$form.pbtx"
        grep -E '^(kprobe_events|set_|max_|current)' "$FAKE.log" | grep -v -- '<- -:' | sort -u >"$WORK/theirs.log"
        make_kernel "ours.$form"
        check "$form: perfleet-probes records it" \
            peer_records "$BIN/perfleet-probes" "$WORK/ours" "$WORK/$form.pbtx"
        grep -E '^(kprobe_events)' "$FAKE.log" | grep -v -- '<- -:' | sort -u >"$WORK/ours.log"
        for side in ours theirs; do
            "$PEER/trace_processor_shell" -q "$WORK/judge.sql" "$WORK/$side" >"$WORK/$side.csv" 2>/dev/null
        done
        check "$form: Trace Processor finds the events" grep -qE 'vfs_read|funcgraph' "$WORK/ours.csv"
        check "$form: and the same in both" diff "$WORK/theirs.csv" "$WORK/ours.csv"
        [ "$form" = graph ] ||
            check "$form: both wrote the same into the kernel" \
                diff <(grep kprobe_events "$WORK/theirs.log" | grep -v no_such) \
                <(grep kprobe_events "$WORK/ours.log" | grep -v no_such)
    done
else
    skip "kprobes and the function graph give what traced_probes gives" "needs PERFETTO_BIN_DIR"
fi
finish
