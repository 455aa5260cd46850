#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ftrace/print on kernels that do not copy trace_marker into instances (before 6.16): from the
# top-level buffer of this host's kernel, which is borrowed when nobody uses it, shared between
# sessions, left to whoever begins to use it, and put back. A newer kernel's option is hidden from
# the program (tests/support/hidden_file.c); everything else is the kernel's.
. "$(dirname "$0")/lib.sh"

TOP=/sys/kernel/tracing
[ -e $TOP/trace ] || mount -t tracefs nodev $TOP 2>/dev/null
EVENTS="python3 -B $ROOT/tests/support/ftrace_events.py"
FIELDS="python3 -B $ROOT/tests/support/probes_check.py"
NAME=pfl-marker-$$
export RUNTIME_DIRECTORY=$WORK/run
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0

is_idle() {
    grep -qx nop $TOP/current_tracer && grep -qx 0 $TOP/events/enable &&
        ! find /proc/[0-9]*/fd -lname '*/trace_pipe*' ! -lname '*/instances/*' 2>/dev/null | grep -q .
}
if ! { [ "$(id -u)" -eq 0 ] && mkdir "$TOP/instances/$NAME" 2>/dev/null; }; then
    skip "trace_marker is recorded from the top-level buffer" "needs root and a writable tracefs"
    finish
fi
rmdir "$TOP/instances/$NAME"
if ! is_idle; then
    skip "trace_marker is recorded from the top-level buffer" "somebody uses this host's top-level buffer"
    finish
fi

# As the kernel has it, in use by nobody.
reset_top() {
    echo nop >$TOP/current_tracer
    echo >$TOP/set_event
    echo 1 >$TOP/tracing_on
    echo local >$TOP/trace_clock
    echo 1408 >$TOP/buffer_size_kb
    [ ! -e $TOP/buffer_percent ] || echo 50 >$TOP/buffer_percent
    echo >$TOP/trace
}
state() {
    cat $TOP/{tracing_on,trace_clock,buffer_size_kb,set_event,current_tracer,tracing_cpumask}
    [ ! -e $TOP/buffer_percent ] || cat $TOP/buffer_percent
    cat $TOP/options/{overwrite,markers}
}
mark() {
    local text
    for text; do echo "$text" >$TOP/trace_marker; done
}
start_probes() { # LOG
    start "$1" env PFL_HIDDEN_FILE=options/copy_trace_marker \
        LD_PRELOAD="$PFL_BUILD/tests/libhidden_file.so" "$BIN/perfleet-probes" --log-level debug
    PROBES=$STARTED
}
config() { # NAME EXTRA
    cat >"$WORK/$1.pbtx" <<END
buffers { size_kb: 16384 } duration_ms: 60000
data_sources { config { name: "linux.ftrace" ftrace_config {
    ftrace_events: "ftrace/print" ftrace_events: "task/task_rename" $2 } } }
END
}
sessions_so_far() { grep -c 'request-handled: kind=1 name=linux.ftrace' "$WORK/$PROBES_LOG.log"; }
begin() { # NAME CONFIG: the job is RECORD
    BEFORE=$(sessions_so_far)
    record one "$WORK/$2.pbtx" "$WORK/$1.pftrace" >"$WORK/$1.record.log" 2>&1 &
    RECORD=$!
}
is_one_more() { [ "$(sessions_so_far)" -gt "$BEFORE" ]; }
has_begun() { wait_for 60 is_one_more; }
end_recording() {
    kill -INT "$(pgrep -P "$1" -x perfleet || echo "$1")"
    wait "$1"
}
texts() {
    $EVENTS "$1" | sed -n 's/.* print buf=\([a-z0-9 -]*\).*/\1/p' | tr '\n' ,
}
has_texts() { # TRACE EXPECTED
    local got
    got=$(texts "$1")
    [ "$got" = "$2" ] || { echo "texts: $got"; return 1; }
}
# Nothing waits in the buffer: the program has read what was written so far.
is_read() { ! grep -h '^entries:' $TOP/per_cpu/*/stats | grep -qv ' 0$'; }
no_journal() { ! find "$RUNTIME_DIRECTORY" -name '*.undo' 2>/dev/null | grep -q .; }
is_as_before() { state | diff "$WORK/before" -; }

# shellcheck disable=SC2064
trap "cleanup; reset_top" EXIT
reset_top
start_service one || { check "perfleetd opens its sockets" false; finish; }
PROBES_LOG=probes
start_probes probes
check "kernel events are offered" wait_for_source linux.ftrace 1

# --- one session ----------------------------------------------------------------------------
mark "before the session"
state >"$WORK/before"
config print ""
# Programs write all the time. The kernel refuses that (EBADF) while a buffer's clock or size is set, not later.
writes() {
    while [ ! -e "$WORK/enough" ]; do
        [ ! -e "$WORK/recording" ] || { echo "busy" >$TOP/trace_marker || echo failed; }
        echo "busy" >$TOP/trace_marker
    done 2>/dev/null
}
writes >"$WORK/writer" &
WRITER=$!
begin busy print
check "a session starts while programs write" has_begun
touch "$WORK/recording"
sleep 0.5
rm "$WORK/recording"
sleep 0.1
end_recording "$RECORD"
touch "$WORK/enough"
wait "$WRITER"
check "while it records they see no error" test ! -s "$WORK/writer"
check "their texts are in the trace" eval 'texts "$WORK/busy.pftrace" | grep -q "busy,busy,"'
check "nothing was lost" $FIELDS "$WORK/busy.pftrace" lossless no_setup_errors
check "the buffer is as it was" is_as_before

echo >$TOP/trace
mark "before the session"
begin first print
check "a session for print" has_begun
check "it is noted in the journal" test -s "$RUNTIME_DIRECTORY/$PROBES.undo"
check "the buffer has the clock of the instances" grep -q '\[boot\]' $TOP/trace_clock
mark "first mark" "second mark"
/bin/true
end_recording "$RECORD"
check "has what was written since its start, and nothing from before" \
    has_texts "$WORK/first.pftrace" "first mark,second mark,"
check "with the events of its own instance, without losses and errors" \
    $FIELDS "$WORK/first.pftrace" event:236 lossless no_setup_errors no_setup_unknown
check "the buffer is as it was" is_as_before
check "and empty" eval '! grep -q "mark" $TOP/trace'
check "the journal is gone" no_journal

config raw 'ftrace_events: "ftrace/raw_data"'
begin raw raw
check "a session for raw data, too" has_begun
printf '\1\0\0\0abcdefgh' >$TOP/trace_marker_raw
mark "beside it"
end_recording "$RECORD"
check "has both" eval 'has_texts "$WORK/raw.pftrace" "beside it," && $EVENTS "$WORK/raw.pftrace" | grep -q raw_data'

echo 0 >$TOP/tracing_on
state >"$WORK/before"
begin off print
check "where tracing is off and nothing recorded" has_begun
mark "switched on"
end_recording "$RECORD"
check "it is on for the session" has_texts "$WORK/off.pftrace" "switched on,"
check "and off again" is_as_before
reset_top
state >"$WORK/before"

# --- two sessions ---------------------------------------------------------------------------
config filtered 'print_filter { rules { prefix: "keep" allow: true } rules { prefix: "" allow: false } }
    buffer_size_kb: 4096'
begin one print
check "a session" has_begun
ONE=$RECORD
mark "keep one"
begin two filtered
check "and a second one beside it" has_begun
TWO=$RECORD
mark "keep two" "drop two"
end_recording "$ONE"
mark "keep three"
end_recording "$TWO"
check "the first has what was written in its time" has_texts "$WORK/one.pftrace" "keep one,keep two,drop two,"
check "the second what was in its own, and its filter takes" has_texts "$WORK/two.pftrace" "keep two,keep three,"
check "neither has errors" eval '$FIELDS "$WORK/one.pftrace" lossless no_setup_errors &&
    $FIELDS "$WORK/two.pftrace" lossless no_setup_errors'
check "the buffer is as it was" is_as_before

# --- losses ---------------------------------------------------------------------------------
config small 'buffer_size_kb: 64 drain_period_ms: 60000'
begin small small
check "a session with a small buffer that is seldom read" has_begun
# The probes also read when a buffer is half full: stopped, they cannot keep up on any machine.
kill -STOP "$PROBES"
python3 - <<'END'
import os
fd = os.open('/sys/kernel/tracing/trace_marker', os.O_WRONLY)
for i in range(20000):
    os.write(fd, b'B|1|a slice that has a name %d' % i)
END
kill -CONT "$PROBES"
end_recording "$RECORD"
check "its losses are reported" $FIELDS "$WORK/small.pftrace" lost overrun

# --- somebody's -----------------------------------------------------------------------------
# The session goes on without print, its trace says why, and nothing is changed. The kernel forgets the names of
# processes, which it keeps beside the events.
nameless() { grep -v '^#' | sed -E 's/^ *.*-([0-9]+ +\[)/\1/'; }
is_refused() { # NAME REASON
    local rc=0
    state >"$WORK/before"
    nameless <$TOP/trace >"$WORK/content"
    begin "$1" print
    has_begun || return 1
    nameless <$TOP/trace >"$WORK/content.after"
    grep -vxFf "$WORK/content.after" "$WORK/content" && rc=1
    is_as_before || rc=1
    /bin/true
    end_recording "$RECORD"
    $FIELDS "$WORK/$1.pftrace" "error:the top-level buffer: in use: $2" failed:ftrace/print no_event:3 event:236 || rc=1
    return $rc
}
echo 1 >$TOP/events/sched/sched_process_fork/enable
check "where events are on, print is refused" is_refused events "events are on (set_event)"
reset_top
mark "kept"
echo 0 >$TOP/tracing_on
check "where the buffer was stopped with something in it" \
    is_refused stopped "it is stopped (tracing_on) and holds events"
reset_top
echo 1 >$TOP/events/sched/sched_process_fork/enable
(/bin/true)
echo 0 >$TOP/events/sched/sched_process_fork/enable
check "where a recording was left" is_refused left "it holds events of another recording"
reset_top
echo 4096 >$TOP/buffer_size_kb
mark "flight recorder"
check "where somebody keeps a larger buffer" \
    is_refused sized "it holds events and has another size or clock than the kernel gave it"
reset_top
tail -f $TOP/trace_pipe >/dev/null &
READER=$!
check "where somebody reads trace_pipe" is_refused reader "a process reads its trace_pipe"
kill $READER
wait $READER 2>/dev/null
TRACER=$(tr ' ' '\n' <$TOP/available_tracers | grep -xm 1 -e function -e blk)
if [ -n "$TRACER" ]; then
    echo 0 >$TOP/tracing_on
    echo "$TRACER" >$TOP/current_tracer
    check "where a tracer works" is_refused tracer "its current_tracer is not nop"
    reset_top
else
    skip "where a tracer works, print is refused" "the kernel has no other tracer"
fi

# --- somebody comes -------------------------------------------------------------------------
is_left() { # REASON
    grep -qF "tracefs-top-buffer-lost: reason=\"$1\"" "$WORK/$PROBES_LOG.log"
}
is_taken() { # NAME REASON
    has_texts "$WORK/$1.pftrace" "ours," &&
        $FIELDS "$WORK/$1.pftrace" "error:the top-level buffer is not read any more: $2"
}
reset_top
state >"$WORK/before"
: >"$WORK/trace_pipe"
tail -f "$WORK/trace_pipe" >/dev/null &
READER=$!
begin taken print
check "a session has the buffer, though somebody reads a file of that name elsewhere" has_begun
mark "ours"
wait_for 20 is_read
echo 1 >$TOP/events/sched/sched_process_fork/enable
check "somebody switches events on: it is left to them" wait_for 20 is_left "events are on (set_event)"
(/bin/true)
mark "theirs"
end_recording "$RECORD"
kill $READER
wait $READER 2>/dev/null
check "the trace has what came before, and says so" is_taken taken "events are on (set_event)"
check "their events are there" grep -q sched_process_fork $TOP/trace
check "programs' texts too" grep -q theirs $TOP/trace
check "nothing is put back: it is theirs" grep -q 'tracefs-top-buffer-left' "$WORK/probes.log"
check "and the journal is gone" no_journal
reset_top

begin piped print
check "a session has the buffer" has_begun
mark "ours"
wait_for 20 is_read
cat $TOP/trace_pipe >"$WORK/pipe" &
READER=$!
is_noticed() {
    mark "for the reader"
    is_left "another program read or emptied it"
}
check "somebody reads trace_pipe: it is left to them" wait_for 20 is_noticed
mark "theirs"
check "they get what comes then" wait_for 20 grep -q theirs "$WORK/pipe"
kill $READER
wait $READER 2>/dev/null
end_recording "$RECORD"
check "the trace says so" $FIELDS "$WORK/piped.pftrace" \
    "error:the top-level buffer is not read any more: another program read or emptied it"
check "when they have gone, the buffer is put back" is_as_before
reset_top

begin clock print
check "a session has the buffer" has_begun
mark "ours"
wait_for 20 is_read
echo 0 >$TOP/tracing_on
check "somebody stops it: it is left to them" wait_for 20 is_left "tracing_on was switched off"
end_recording "$RECORD"
check "the trace says so" is_taken clock "tracing_on was switched off"
check "it stays stopped" grep -qx 0 $TOP/tracing_on
check "the rest is put back" eval 'echo 1 >$TOP/tracing_on; is_as_before'
reset_top

# --- two programs ---------------------------------------------------------------------------
begin mine print
check "a session has the buffer" has_begun
MINE=$RECORD
FIRST=$PROBES
PROBES_LOG=second
start_probes second
check "a second program offers kernel events" wait_for_source linux.ftrace 2
begin other print
check "and is asked, too" has_begun
mark "for one of them"
end_recording "$RECORD"
end_recording "$MINE"
check "it does not take the buffer of the first" $FIELDS "$WORK/other.pftrace" \
    "error:the top-level buffer: in use: a process reads its trace_pipe" failed:ftrace/print
check "which has its texts" has_texts "$WORK/mine.pftrace" "for one of them,"
kill "$PROBES"
wait "$PROBES"
PROBES=$FIRST
PROBES_LOG=probes
check "the buffer is as it was" is_as_before

# --- kill -9 --------------------------------------------------------------------------------
begin killed print
check "a session has the buffer" has_begun
kill -9 "$PROBES"
wait "$PROBES" 2>/dev/null
check "after kill -9 the guardian puts it back" wait_for 20 eval 'no_journal && is_as_before >/dev/null'
end_recording "$RECORD"
PROBES_LOG=third
start_probes third
check "kernel events are offered again" wait_for_source linux.ftrace 1
begin killed print
check "and recorded" has_begun
kill -9 "$(pgrep -P "$PROBES" -x perfleet-guard)" "$PROBES"
wait "$PROBES" 2>/dev/null
end_recording "$RECORD"
check "with the guardian killed too, it stays changed" eval '! is_as_before >/dev/null'
PROBES_LOG=fourth
start_probes fourth
check "until the next program starts" wait_for 20 eval 'no_journal && is_as_before >/dev/null'

# --- what is reported to the operator before ---------------------------------------------------------
kill "$PROBES"
wait "$PROBES"
reset_top
doctor() { "$BIN/perfleet" doctor --host "one=unix:$WORK/one/consumer.sock" "$@"; }
doctor_says() { says "$@" >/dev/null; }
echo 1 >$TOP/events/sched/sched_process_fork/enable
start_probes fifth
check "the doctor says that there is no ftrace/print, and why" \
    wait_for 30 doctor_says 'warning one: ftrace/print: .*events are on \(set_event\)' doctor
check "of a recording without it nothing" says '^well' doctor --preset sched
reset_top
PROBES_LOG=fifth
begin warned print
has_begun
end_recording "$RECORD"
check "after the next session the doctor knows that it is free" wait_for 30 doctor_says '^well' doctor
kill "$PROBES"
wait "$PROBES"
if mkdir "$TOP/instances/$NAME" && [ -e "$TOP/instances/$NAME/options/copy_trace_marker" ]; then
    echo 1 >$TOP/events/sched/sched_process_fork/enable
    start sixth "$BIN/perfleet-probes"
    wait_for_source linux.ftrace 1
    sleep 3 # it looks once, 2 s after its start
    check "on a kernel that copies trace_marker it has nothing to say" says '^well' doctor
else
    skip "on a kernel that copies trace_marker it has nothing to say" "an older kernel"
fi
rmdir "$TOP/instances/$NAME"
finish
