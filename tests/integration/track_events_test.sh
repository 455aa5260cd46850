#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Track events: one of everything, beside what the stock SDK's events say of the same actions
# (tests/fixtures/track_events); sessions that want different categories; cleared state; the real
# traced and Trace Processor, where PERFETTO_BIN_DIR names their folder; programs of two lines.
. "$(dirname "$0")/lib.sh"

P=$PERFETTO_BIN_DIR
FIXTURES=$ROOT/tests/fixtures/track_events
EVENTS="python3 -B $ROOT/tests/support/track_events.py"
SCENARIO=$PFL_BUILD/tests/event_scenario

# te_config FILE MS TRACK-EVENT-CONFIG [MORE]
te_config() {
    cat >"$1" <<END
buffers { size_kb: 8192 }
duration_ms: $2
data_sources { config { name: "track_event" track_event_config { $3 } } }
$4
END
}

# The scenario runs while a session of NAME records it: scenario NAME OUT CONFIG [flood]
scenario() {
    local fifo=$WORK/stdin.$1
    rm -f "$fifo"
    mkfifo "$fifo" || return 1
    "$SCENARIO" ${4:+"$4"} <"$fifo" >"$WORK/scenario.$1" 2>&1 &
    local program=$!
    exec 9>"$fifo"
    wait_for_source track_event 1 && { record "$1" "$3" "$2" || [ $? -eq 3 ]; } && grep -q "done" "$WORK/scenario.$1"
    local rc=$?
    exec 9>&-
    wait $program && return $rc
}

start_service one || { check "perfleetd opens its sockets" false; finish; }
te_config "$WORK/all.pbtx" 1000 'enabled_categories: "scenario.*"'
check "a program says one of everything" scenario one "$WORK/all.pftrace" "$WORK/all.pbtx"
check "it is what the stock SDK says" $EVENTS "$WORK/all.pftrace" --expect "$FIXTURES/events.txt"
# But for the one event between two microseconds.
same_times() {
    $EVENTS "$1" | sed 's/^+0.500/+0.000/' | diff <(sed 's/^+0.500/+0.000/' "$FIXTURES/events.txt") -
}
for option in "disable_incremental_timestamps: true" "timestamp_unit_multiplier: 1000" \
    "timestamp_unit_multiplier: 500 disable_incremental_timestamps: true"; do
    te_config "$WORK/option.pbtx" 1000 "enabled_categories: \"scenario.*\" $option"
    check "a session wants $option" scenario one "$WORK/option.pftrace" "$WORK/option.pbtx"
    check "all times and durations are the same" same_times "$WORK/option.pftrace"
done
te_config "$WORK/hide.pbtx" 1000 'enabled_categories: "scenario.*" filter_debug_annotations: true
    filter_dynamic_event_names: true'
check "a session hides what programs make up" scenario one "$WORK/hide.pftrace" "$WORK/hide.pbtx"
check "a session that hides arguments gets none" sh -c "! $EVENTS '$WORK/hide.pftrace' | grep debug"
check "and no dynamic names" says FILTERED $EVENTS "$WORK/hide.pftrace"

clears_at_least() {
    local clears
    clears=$($EVENTS "$2" --summary) || { echo "$clears"; return 1; }
    clears=$(grep -o 'clears=[0-9]*' <<<"$clears")
    [ "${clears#clears=}" -ge "$1" ]
}
te_config "$WORK/flood.pbtx" 3000 'enabled_categories: "scenario.a"'
check "a program floods its shared memory" scenario one "$WORK/flood.pftrace" "$WORK/flood.pbtx" flood
check "what it lost left readers nothing that they do not know" \
    says 'sequences=1 events=[0-9]{5,6} ' $EVENTS "$WORK/flood.pftrace" --summary

# --- sessions with different wishes -----------------------------------------------------------
start example "$BIN/perfleet-example" --track-events --rate 200 --threads 2 --smb-kb 1024
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
te_config "$WORK/step.pbtx" 1500 'enabled_categories: "example.step" disabled_categories: "*"'
te_config "$WORK/request.pbtx" 2000 'disabled_categories: "example.s*"'
te_config "$WORK/none.pbtx" 500 'disabled_categories: "*"'
te_config "$WORK/clear.pbtx" 2500 "" 'incremental_state_config { clear_period_ms: 100 }'
at_once() { # the one that wants no events has none, which is exit code 6
    local i name pids=() codes=(0 0 6 0)
    for name in step request none clear; do
        record one "$WORK/$name.pbtx" "$WORK/$name.pftrace" &
        pids+=($!)
    done
    for i in "${!pids[@]}"; do exits_with "${codes[i]}" wait "${pids[i]}" || return 1; done
}
has_only() { # has_only FILE REGEX: begins of slices match
    local out
    out=$($EVENTS "$1" --summary) || { echo "$out"; return 1; }
    grep -q BEGIN <<<"$out" || { echo "no events: $out"; return 1; }
    ! grep BEGIN <<<"$out" | grep -vE "$2"
}
check "four sessions record at once" at_once
check "one has the category it named" has_only "$WORK/step.pftrace" 'example\.step'
check "one has what its pattern left" has_only "$WORK/request.pftrace" 'example\.request'
check "one that wants nothing has nothing" says 'events=0' $EVENTS "$WORK/none.pftrace" --summary
check "cleared state is written again by every thread" clears_at_least 20 "$WORK/clear.pftrace"

kill -9 "$SERVICE_PID"
wait "$SERVICE_PID" 2>/dev/null
start_service one
check "a service that was killed and came back sees the program again" \
    wait_for_source "$EXAMPLE_SOURCE" 1
check "and records its events" record one "$WORK/step.pbtx" "$WORK/again.pftrace"
check "as before" has_only "$WORK/again.pftrace" 'example\.step'

# --- two lines --------------------------------------------------------------------------------
cat >"$WORK/two.c" <<'END'
#include <perfleet_track_event.h>
PERFLEET_CATEGORY_DEFINE(app, "app", "Two lines", NULL)
int main(void)
{
    perfleet_track_event_open("two-lines", NULL);
    for (int i = 0; i < 300; i++) {
        PERFLEET_TRACE_EVENT(&app, "work");
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    perfleet_track_event_flush();
    return 0;
}
END
sed -i '1i #define _GNU_SOURCE\n#include <time.h>' "$WORK/two.c"
LIBS=("$PFL_BUILD/producer/libperfleet.a" -pthread)
FLAGS=(-Wall -Wextra -Wpedantic -Werror -I"$ROOT/producer")
two_lines() {
    cc -std=c11 "${FLAGS[@]}" "$WORK/two.c" -o "$WORK/two" "${LIBS[@]}" || return 1
    start two "$WORK/two"
    te_config "$WORK/two.pbtx" 1500 'enabled_categories: "app" disabled_categories: "*"'
    wait_for_source track_event 2 && record one "$WORK/two.pbtx" "$WORK/two.pftrace" &&
        has_only "$WORK/two.pftrace" "BEGIN app 'work'"
}
cxx_example() {
    c++ -std=c++17 "${FLAGS[@]}" "$ROOT/producer/example/hello.cc" -o "$WORK/hello" "${LIBS[@]}" &&
        c++ -std=c++11 -fsyntax-only "${FLAGS[@]}" "$ROOT/producer/example/hello.cc" || return 1
    start hello "$WORK/hello" 3
    te_config "$WORK/hello.pbtx" 1500 'enabled_categories: "hello*" disabled_categories: "*"'
    wait_for_source track_event 2 && record one "$WORK/hello.pbtx" "$WORK/hello.pftrace" &&
        has_only "$WORK/hello.pftrace" "BEGIN hello"
}
if grep -q 'PFL_SANITIZE:STRING=.\+' "$PFL_BUILD/CMakeCache.txt"; then
    skip "a program of two lines is traced" "sanitized build"
    skip "a C++ program is traced" "sanitized build"
else
    check "a program of two lines is traced" two_lines
    if command -v c++ >/dev/null; then
        check "a C++ program is traced" cxx_example
    else
        skip "a C++ program is traced" "no C++ compiler"
    fi
fi

# --- the stock programs -----------------------------------------------------------------------
tables_of() { # tables_of FILE: as the stock SDK's
    "$P/trace_processor_shell" -q "$FIXTURES/tables.sql" "$1" 2>/dev/null | diff "$FIXTURES/tables.csv" -
}
if [ -x "$P/traced" ] && [ -x "$P/trace_processor_shell" ]; then
    check "Trace Processor's tables are those of the stock SDK" tables_of "$WORK/all.pftrace"
    mkdir "$WORK/stock"
    use_service stock
    start traced "$P/traced"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    check "the stock service records the scenario" \
        scenario stock "$WORK/stock.pftrace" "$WORK/all.pbtx"
    check "it says the same" $EVENTS "$WORK/stock.pftrace" --expect "$FIXTURES/events.txt"
    check "in the same tables" tables_of "$WORK/stock.pftrace"
else
    skip "Trace Processor's tables are those of the stock SDK" "no PERFETTO_BIN_DIR"
    skip "the stock service records the scenario" "no PERFETTO_BIN_DIR"
fi
finish
