#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ring buffers that are not perfleet-probes' own: instance_name and preserve_ftrace_buffer on this host's
# kernel. What is recorded, and that everything is as it was at the end and after kill -9. With
# PERFETTO_BIN_DIR also beside traced_probes: Trace Processor must find the same in both.
. "$(dirname "$0")/lib.sh"

TRACEFS=/sys/kernel/tracing
[ -e $TRACEFS/trace ] || mount -t tracefs nodev $TRACEFS 2>/dev/null
EVENTS="python3 -B $ROOT/tests/support/ftrace_events.py"
FIELDS="python3 -B $ROOT/tests/support/probes_check.py"
NAME=pfl-borrow-$$
THEIRS=$TRACEFS/instances/$NAME
export RUNTIME_DIRECTORY=$WORK/run

if ! { [ "$(id -u)" -eq 0 ] && mkdir "$THEIRS" 2>/dev/null; }; then
    skip "borrowed ring buffers are recorded and put back" "needs root and a writable tracefs"
    finish
fi
# shellcheck disable=SC2064
trap "cleanup; rmdir $TRACEFS/instances/$NAME* 2>/dev/null" EXIT

# Somebody's instance: recording, another clock, an event on, a filter.
configure() { # FOLDER
    echo 0 >"$1/tracing_on"
    echo 512 >"$1/buffer_size_kb"
    echo global >"$1/trace_clock"
    echo 1 >"$1/events/sched/sched_process_exit/enable"
    echo 'id == 39' >"$1/events/raw_syscalls/sys_enter/filter"
    echo 1 >"$1/tracing_on"
}
state() { # FOLDER
    cat "$1"/{tracing_on,trace_clock,buffer_size_kb,buffer_percent,set_event,current_tracer,tracing_cpumask}
    cat "$1"/options/overwrite "$1"/events/raw_syscalls/sys_enter/filter "$1"/set_event_pid
}
mark() { # FOLDER TEXT...
    local folder=$1 text
    shift
    # On the CPU that a session's mask has.
    for text; do taskset -c 0 bash -c "echo '$text' >$folder/trace_marker"; done
}
config() { # NAME EXTRA
    cat >"$WORK/$1.pbtx" <<END
buffers { size_kb: 16384 } duration_ms: 30000
data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "ftrace/print" $2 } } }
END
}
records() { # FOLDER: our session is there
    grep -qs 1 "$1/events/task/task_rename/enable"
}
# The background ignores SIGINT, but for the program itself.
end_recording() {
    kill -INT "$(pgrep -P "$1" -x perfleet || echo "$1")"
    wait "$1"
}
texts() { # TRACE: the markers, in order
    $EVENTS "$1" | sed -n 's/.* print buf=\([a-z0-9 -]*\).*/\1/p' | tr '\n' ,
}
has_texts() { # TRACE EXPECTED
    local got
    got=$(texts "$1")
    [ "$got" = "$2" ] || { echo "texts: $got"; return 1; }
}
no_journal() { ! find "$RUNTIME_DIRECTORY" -name '*.undo' 2>/dev/null | grep -q .; }

start_service one || { check "perfleetd opens its sockets" false; finish; }
start probes "$BIN/perfleet-probes"
PROBES=$STARTED
check "kernel events are offered" wait_for_source linux.ftrace 1

# --- an instance by name --------------------------------------------------------------------
configure "$THEIRS"
state "$THEIRS" >"$WORK/before"
config named "ftrace_events: \"task/*\" ftrace_events: \"sched/sched_process_exit\" instance_name: \"$NAME\"
    syscall_events: \"sys_getppid\" tracefs_options { name: \"overwrite\" state: STATE_DISABLED }
    tracing_cpumask: \"1\""
mark "$THEIRS" "before the session"
record one "$WORK/named.pbtx" "$WORK/named.pftrace" >"$WORK/record.log" 2>&1 &
RECORD=$!
check "a session records into the instance that it names" wait_for 20 records "$THEIRS"
check "which is noted in the journal first" test -s "$RUNTIME_DIRECTORY/$PROBES.undo"
mark "$THEIRS" "first mark" "second mark"
mark "$TRACEFS" "elsewhere" 2>/dev/null
taskset -c 0 /bin/true
end_recording "$RECORD"
check "its trace has what happened there, and nothing from before or elsewhere" \
    has_texts "$WORK/named.pftrace" "first mark,second mark,"
check "and the kernel's events, without losses" $FIELDS "$WORK/named.pftrace" event:236 event:238 lossless
state "$THEIRS" >"$WORK/after"
check "the instance is as it was" diff "$WORK/before" "$WORK/after"
check "and the journal is gone" no_journal

config missing "ftrace_events: \"task/*\" instance_name: \"$NAME-new\""
record one "$WORK/missing.pbtx" "$WORK/missing.pftrace" >"$WORK/record.log" 2>&1 &
RECORD=$!
check "an instance that is not there is made" wait_for 20 records "$THEIRS-new"
mark "$THEIRS-new" "in the new one"
end_recording "$RECORD"
check "recorded" has_texts "$WORK/missing.pftrace" "in the new one,"
check "and removed" test ! -e "$THEIRS-new"

# Long enough for the data source to have tried to start.
is_refused() { # NAME
    local ms
    for ms in 300 1200 4800 9600; do
        sed "s/30000/$ms/" "$WORK/$1.pbtx" >"$WORK/timed.pbtx"
        record one "$WORK/timed.pbtx" "$WORK/$1.pftrace" >"$WORK/record.log" 2>&1
        $FIELDS "$WORK/$1.pftrace" all_started >/dev/null && break
    done
    $FIELDS "$WORK/$1.pftrace" setup_errors no_event:236
}
for bad in a/b ../x perfleet-1; do
    config bad "ftrace_events: \"task/*\" instance_name: \"$bad\""
    check "$bad is no instance's name: the trace says so" is_refused bad
done

echo function >"$THEIRS/current_tracer" 2>/dev/null
if grep -qx function "$THEIRS/current_tracer"; then
    echo 1 >"$THEIRS/tracing_on"
    check "an instance where another tracer works is left alone" is_refused named
    check "and the tracer goes on" grep -qx function "$THEIRS/current_tracer"
    check "and its buffer too" grep -qx 1 "$THEIRS/tracing_on"
    echo nop >"$THEIRS/current_tracer"
else
    skip "an instance where another tracer works is left alone" "the kernel has no other tracer"
fi

# --- what was recorded before ---------------------------------------------------------------
for clock in boot global; do
    echo 0 >"$THEIRS/tracing_on"
    echo $clock >"$THEIRS/trace_clock"
    echo 1 >"$THEIRS/tracing_on"
    mark "$THEIRS" "$clock before"
    state "$THEIRS" >"$WORK/before"
    config preserve "ftrace_events: \"task/*\" instance_name: \"$NAME\" preserve_ftrace_buffer: true
        buffer_size_kb: 4096"
    record one "$WORK/preserve.pbtx" "$WORK/preserve.pftrace" >"$WORK/record.log" 2>&1 &
    RECORD=$!
    check "$clock: a session that preserves the buffer" wait_for 20 records "$THEIRS"
    mark "$THEIRS" "$clock after"
    end_recording "$RECORD"
    check "$clock: has what was there, and what came" \
        has_texts "$WORK/preserve.pftrace" "$clock before,$clock after,"
    check "$clock: and says that it goes back before its start" $FIELDS "$WORK/preserve.pftrace" preserved
    state "$THEIRS" >"$WORK/after"
    check "$clock: the instance is as it was" diff "$WORK/before" "$WORK/after"
done

state $TRACEFS >"$WORK/before"
config top "ftrace_events: \"task/*\" preserve_ftrace_buffer: true"
WAS_ON=$(cat $TRACEFS/tracing_on)
echo 1 >$TRACEFS/tracing_on
mark $TRACEFS "top before"
record one "$WORK/top.pbtx" "$WORK/top.pftrace" >"$WORK/record.log" 2>&1 &
RECORD=$!
check "without a name the top-level buffer is preserved" wait_for 20 records $TRACEFS
mark $TRACEFS "top after"
end_recording "$RECORD"
check "read" eval 'texts "$WORK/top.pftrace" | grep -q "top before,top after,$"'
echo "$WAS_ON" >$TRACEFS/tracing_on
state $TRACEFS >"$WORK/after"
check "and left as it was" diff "$WORK/before" "$WORK/after"

# --- kill -9 --------------------------------------------------------------------------------
configure "$THEIRS"
state "$THEIRS" >"$WORK/before"
record one "$WORK/named.pbtx" "$WORK/killed.pftrace" >"$WORK/record.log" 2>&1 &
RECORD=$!
check "a session records into the instance again" wait_for 20 records "$THEIRS"
kill -9 "$PROBES"
wait "$PROBES" 2>/dev/null
check "after kill -9 the guardian puts everything back" \
    wait_for 20 eval 'no_journal && state "$THEIRS" | cmp -s "$WORK/before" -'
end_recording "$RECORD"

start probes2 "$BIN/perfleet-probes"
PROBES=$STARTED
check "kernel events are offered again" wait_for_source linux.ftrace 1
config dots "ftrace_events: \"task/*\" instance_name: \"$NAME..dots\""
record one "$WORK/dots.pbtx" "$WORK/dots.pftrace" >"$WORK/dots.log" 2>&1 &
DOTS=$!
record one "$WORK/named.pbtx" "$WORK/killed.pftrace" >"$WORK/record.log" 2>&1 &
RECORD=$!
check "and recorded" wait_for 20 records "$THEIRS"
check "also into one with dots in its name" wait_for 20 records "$THEIRS..dots"
kill -9 "$(pgrep -P "$PROBES" -x perfleet-guard)" "$PROBES"
wait "$PROBES" 2>/dev/null
end_recording "$RECORD"
end_recording "$DOTS"
check "with the guardian killed too, the instance stays changed" \
    eval '! state "$THEIRS" | cmp -s "$WORK/before" -'
start probes3 "$BIN/perfleet-probes"
PROBES=$STARTED
check "until the next program starts" \
    wait_for 20 eval 'no_journal && state "$THEIRS" | cmp -s "$WORK/before" -'
check "the one with dots is removed" test ! -e "$THEIRS..dots"

# --- two programs in one instance -----------------------------------------------------------
record one "$WORK/missing.pbtx" "$WORK/missing.pftrace" >"$WORK/record.log" 2>&1 &
RECORD=$!
check "an instance is made by one program" wait_for 20 records "$THEIRS-new"
start second "$BIN/perfleet-probes"
SECOND=$STARTED
check "a second one offers kernel events" wait_for_source linux.ftrace 2
record one "$WORK/missing.pbtx" "$WORK/second.pftrace" >"$WORK/second.log" 2>&1 &
BOTH=$!
uses_it() { find "/proc/$1/fd" -lname "*/$NAME-new/per_cpu/*" 2>/dev/null | grep -q .; }
check "and records there too" wait_for 20 uses_it "$SECOND"
kill "$PROBES"
wait "$PROBES"
end_recording "$RECORD"
check "the first one goes, the instance is in use and stays" test -e "$THEIRS-new"
end_recording "$BOTH"
check "the second one removes it when it is done" \
    wait_for 20 eval 'test ! -e "$THEIRS-new" && no_journal'
kill "$SECOND"
wait "$SECOND"

# --- beside traced_probes -------------------------------------------------------------------
PEER=${PERFETTO_BIN_DIR:-}
cat >"$WORK/judge.sql" <<'END'
select name, cpu, (select group_concat(key || '=' || coalesce(string_value, int_value), ' ')
    from args a where a.arg_set_id = e.arg_set_id and key not like '%ip') as args
from ftrace_event e where name = 'print' order by ts;
select name, value from stats where value != 0 and (severity != 'info' or name like 'ftrace_setup%') order by name;
END
is_read() { # FOLDER: nothing waits in its buffers
    ! grep -h '^entries:' "$1"/per_cpu/*/stats | grep -qv ' 0$'
}
# The same marks, recorded by both one after the other: peer_records PROGRAM OUT CONFIG
peer_records() {
    local probes
    configure "$THEIRS"
    echo boot >"$THEIRS/trace_clock"
    mark "$THEIRS" "I|7|early" "B|7|slice"
    echo 0 >"$THEIRS/tracing_on"
    start judged "$1"
    probes=$STARTED
    wait_for 30 eval '"$PEER/perfetto" --query 2>/dev/null | grep -q "^linux.ftrace"' || return 1
    "$PEER/perfetto" -c "$3" --txt -o "$2" >>"$WORK/peer.log" 2>&1 &
    RECORD=$!
    wait_for 20 eval 'records "$THEIRS" && grep -qx 1 "$THEIRS/tracing_on"' || return 1
    # A data source that is still starting would not be flushed at the end.
    wait_for 20 eval '"$PEER/perfetto" --query 2>/dev/null | grep -q STARTED' || return 1
    mark "$THEIRS" "C|7|counter|3" "E|7"
    # A flush of traced_probes reads nothing of a preserved buffer.
    wait_for 20 is_read "$THEIRS" || return 1
    kill -INT "$RECORD"
    wait "$RECORD"
    kill "$probes"
    wait "$probes"
    [ -s "$2" ]
}
if has_perfetto; then
    mkdir -p "$WORK/traced"
    use_service traced
    start traced "$PEER/traced"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    sed 's/duration_ms: 30000//' "$WORK/named.pbtx" >"$WORK/peer.named.pbtx"
    sed 's/duration_ms: 30000//' "$WORK/preserve.pbtx" >"$WORK/peer.preserve.pbtx"
    for form in named preserve; do
        check "$form: traced_probes records it" \
            peer_records "$PEER/traced_probes" "$WORK/theirs" "$WORK/peer.$form.pbtx"
        check "$form: perfleet-probes records it" \
            peer_records "$BIN/perfleet-probes" "$WORK/ours" "$WORK/peer.$form.pbtx"
        for side in ours theirs; do
            "$PEER/trace_processor_shell" -q "$WORK/judge.sql" "$WORK/$side" >"$WORK/$side.csv" 2>/dev/null
        done
        check "$form: Trace Processor finds the marks" grep -q 'print' "$WORK/ours.csv"
        check "$form: and the same in both" diff "$WORK/theirs.csv" "$WORK/ours.csv"
    done
else
    skip "borrowed buffers give what traced_probes gives" "needs PERFETTO_BIN_DIR"
fi
finish
