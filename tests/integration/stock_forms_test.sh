#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every form of Perfetto's command line that Linux has, and its SDK's producers, on perfleetd and then,
# the same, on Perfetto's own service (PERFETTO_BIN_DIR, see stock_test.sh; without it all is skipped).
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
if [ ! -x "$P/perfetto" ] || [ ! -x "$P/traced" ]; then
    skip "the forms of the stock command line work with perfleetd as with its own service" "no PERFETTO_BIN_DIR"
    finish
fi

rows() {
    "$P/trace_processor_shell" -q /dev/stdin "$1" 2>/dev/null <<<"$2" | sed 1d | grep .
}
no_errors_in() { # a reader that does not run says nothing: not even 0
    [ "$(rows "$1" "select count(*) from stats where value > 0 and severity in ('error', 'data_loss')")" = 0 ] ||
        { rows "$1" "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"; return 1; }
}
whole() { # no hole between its first packet and its last, and readable for the stock reader
    wait_for 10 test -s "$1" && $CHECK "$1" --contiguous --min-packets 50 && no_errors_in "$1"
}
has_config() {
    says pbtxt rows "$1" "select name from metadata where name = 'trace_config_pbtxt'"
}
base() { # base EXTRA...: a config of the example's data source on standard output
    cat <<END
buffers { size_kb: 16384 }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
$*
END
}
perfetto() { "$P/perfetto" --txt "$@"; }
session_named() { # its id
    "$P/perfetto" --query --long 2>/dev/null | awk -v name="$1" '$0 ~ name { print $1; exit }' | grep -E '^[0-9]+$'
}
is_gone() { ! session_named "$1"; }
ended() { wait_for 15 test ! -d "/proc/$1"; }

light() { # ftrace may be missing; the command has to end well
    "$P/perfetto" -t 500ms -b 4mb -o "$1" sched/sched_switch && test -e "$1"
}

files() {
    local s=$1 d=$2
    base duration_ms: 500 >"$d/c"
    check "$s: -c FILE -o FILE" perfetto -c "$d/c" -o "$d/t1"
    check "$s: and it is whole" whole "$d/t1"
    check "$s: -c - -o -" sh -c "'$P/perfetto' --txt -c - -o - <'$d/c' >'$d/t2'"
    check "$s: and it is whole" whole "$d/t2"
    check "$s: --no-clobber refuses what exists" sh -c "! '$P/perfetto' --txt -c '$d/c' --no-clobber -o '$d/t1'"
    check "$s: --txt-lossy leaves out what it does not know" sh -c \
        "{ cat '$d/c'; echo 'no_such_field: 5'; } | '$P/perfetto' --txt-lossy -c - -o '$d/t3'"
    check "$s: --add-attribute" perfetto -c "$d/c" --add-attribute akey=avalue -o "$d/t4"
    check "$s: and it is in the trace" says 'avalue' \
        rows "$d/t4" "select str_value from metadata where name = 'trace_config_pbtxt'"
    check "$s: --query" says 'perfleet-example' "$P/perfetto" --query
    check "$s: --query --long" says 'perfleet-example' "$P/perfetto" --query --long
    check "$s: --query-raw" says 'com.example.load' sh -c "'$P/perfetto' --query-raw | tr -c '[:print:]' '\n'"
    check "$s: a category and -t" light "$d/t5"
}

background() {
    local s=$1 d=$2 pid
    base duration_ms: 1000 'unique_session_name: "bg"' >"$d/bg"
    pid=$("$P/perfetto" --txt -c "$d/bg" -o "$d/t6" --background 2>/dev/null)
    check "$s: --background prints its process" test -d "/proc/$pid"
    check "$s: which ends" ended "$pid"
    check "$s: with a whole file" whole "$d/t6"
    base duration_ms: 60000 >"$d/long"
    pid=$("$P/perfetto" --txt -c "$d/long" -o "$d/t7" --background-wait 2>/dev/null)
    check "$s: --background-wait returns when all has started" test -d "/proc/$pid"
    sleep 0.3
    kill -TERM "$pid"
    check "$s: SIGTERM ends it" ended "$pid"
    check "$s: with a whole file" whole "$d/t7"
    check "$s: --notify-fd" sh -c "'$P/perfetto' --txt -c '$d/c' -o '$d/t8' --notify-fd 9 9>'$d/notified' &&
        test \"\$(od -An -tu1 '$d/notified' | tr -d ' ')\" = 0"
}

detached() {
    local s=$1 d=$2
    base duration_ms: 60000 write_into_file: true 'unique_session_name: "det"' >"$d/det"
    check "$s: --detach" perfetto -c "$d/det" -o "$d/t9" --detach=key
    check "$s: --is_detached of it" "$P/perfetto" --is_detached=key
    check "$s: --is_detached of another" exits_with 2 "$P/perfetto" --is_detached=other
    sleep 0.3
    check "$s: --attach --stop" "$P/perfetto" --attach=key --stop
    check "$s: then it is not detached any more" exits_with 2 "$P/perfetto" --is_detached=key
    check "$s: and its file is whole" whole "$d/t9"
    check "$s: --attach of what is not there fails" sh -c "! '$P/perfetto' --attach=key"
}

clones() {
    local s=$1 d=$2 id pid
    base 'unique_session_name: "ring"' | sed 's/16384/256 fill_policy: RING_BUFFER/' >"$d/ring"
    pid=$("$P/perfetto" --txt -c "$d/ring" -o "$d/t10" --background-wait 2>/dev/null)
    sleep 1
    check "$s: --clone-by-name" "$P/perfetto" --clone-by-name ring -o "$d/c1"
    check "$s: the clone of a ring has no hole" whole "$d/c1"
    id=$(session_named ring)
    check "$s: --query tells its id" test -n "$id"
    check "$s: --clone" "$P/perfetto" --clone "$id" -o "$d/c2"
    check "$s: and again no hole" whole "$d/c2"
    check "$s: --clone-for-bugreport" "$P/perfetto" --clone "$id" --clone-for-bugreport -o "$d/c3"
    check "$s: --clone of nothing says so" says 'Failed to clone' "$P/perfetto" --clone 999 -o "$d/c4"
    check "$s: its source goes on" test -d "/proc/$pid"
    kill "$pid"
    base 'unique_session_name: "wif"' write_into_file: true file_write_period_ms: 250 >"$d/wif"
    pid=$("$P/perfetto" --txt -c "$d/wif" -o "$d/t11" --background-wait 2>/dev/null)
    sleep 1
    check "$s: --clone-by-name of a session that writes into a file" \
        "$P/perfetto" --clone-by-name wif -o "$d/c5"
    check "$s: the clone has packets" test -s "$d/c5"
    [ "$s" = stock ] || check "$s: the clone is whole, too" whole "$d/c5" # upstream: its ids meet others
    kill "$pid"
    check "$s: its source ends" ended "$pid"
    check "$s: and is whole" whole "$d/t11"
}

triggers() {
    local s=$1 d=$2 mode client
    for mode in START_TRACING STOP_TRACING; do
        base "trigger_config { trigger_mode: $mode trigger_timeout_ms: 20000
            triggers { name: \"go\" stop_delay_ms: 500 } } unique_session_name: \"$mode\"" >"$d/$mode"
        start "$s-$mode" "$P/perfetto" --txt -c "$d/$mode" -o "$d/$mode.t"
        client=$STARTED
        wait_for 10 session_named "$mode" >/dev/null
        check "$s: trigger_perfetto ($mode)" "$P/trigger_perfetto" other go
        wait "$client"
        check "$s: ends after its delay" test $? -eq 0
        # With START, upstream tells clocks of before the start behind those of the start.
        [ "$s$mode" = stockSTART_TRACING ] || check "$s: with its packets" whole "$d/$mode.t"
        check "$s: and its trigger" sh -c "'$P/traceconv' text '$d/$mode.t' 2>/dev/null | grep -q 'trigger_name: \"go\"'"
    done
    base 'trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 60000
        triggers { name: "snap" stop_delay_ms: 100 } } unique_session_name: "snap"' >"$d/snap"
    start "$s-snap" "$P/perfetto" --txt -c "$d/snap" -o "$d/snap.t"
    client=$STARTED
    wait_for 10 session_named snap >/dev/null
    sleep 0.5
    "$P/trigger_perfetto" snap
    check "$s: CLONE_SNAPSHOT writes a file" wait_for 10 test -s "$d/snap.t.0"
    "$P/trigger_perfetto" snap
    check "$s: and another one" wait_for 10 test -s "$d/snap.t.1"
    check "$s: the first is whole" whole "$d/snap.t.0"
    check "$s: the second too" whole "$d/snap.t.1"
    check "$s: the session goes on" is_alive "$client"
    kill -INT "$client"
    wait "$client" 2>/dev/null
    check "$s: until it is ended" wait_for 10 is_gone snap
}

# Packets whose fields 1 to 200 are let through: the example's own field, 900, is not.
FILTER='trace_filter { bytecode: "\013\001\000\012\310\001\000\235\326\231\206\016" }'
contents() {
    local s=$1 d=$2
    base duration_ms: 500 'compression { deflate { } }' >"$d/deflate"
    check "$s: deflate" perfetto -c "$d/deflate" -o "$d/z1"
    check "$s: is read by the stock reader" no_errors_in "$d/z1"
    check "$s: and has the config" has_config "$d/z1"
    base duration_ms: 500 'compression { zstd { level: 3 } }' write_into_file: true >"$d/zstd"
    check "$s: zstd into a file" perfetto -c "$d/zstd" -o "$d/z2"
    check "$s: is read by the stock reader" no_errors_in "$d/z2"
    check "$s: and has the config" has_config "$d/z2"
    base duration_ms: 500 "$FILTER" >"$d/filter"
    check "$s: a filter" perfetto -c "$d/filter" -o "$d/f1"
    check "$s: is read by the stock reader" no_errors_in "$d/f1"
    check "$s: what it forbids is not there" sh -c "! $CHECK '$d/f1' --contiguous"
    check "$s: what it allows is" has_config "$d/f1"
}

sdk() {
    local s=$1 d=$2 form number=0 options
    [ -x "$P/sdk_producer" ] || { skip "$s: producers of the SDK" "no sdk_producer"; return; }
    for form in "--threads 8 --policy stall --count 10000" \
        "--threads 2 --smb-kb 64 --page-kb 32 --policy stall --count 5000" \
        "--threads 2 --policy stall --size 30000 --count 200" "--threads 4 --policy stall_then_drop --count 3000"; do
        number=$((number + 1))
        read -ra options <<<"$form"
        start "$s-sdk$number" "$P/sdk_producer" --name "sdk$number" "${options[@]}" --is-last --once
        check "$s: sdk_producer $form" wait_for_source "sdk$number" 1
        base duration_ms: 1500 | sed "s/$EXAMPLE_SOURCE/sdk$number/; s/16384/65536/" >"$d/sdk"
        check "$s: is recorded" perfetto -c "$d/sdk" -o "$d/sdk$number"
        check "$s: every packet of it is there" whole "$d/sdk$number"
        kill "$STARTED"
    done
}

forms() { # forms NAME: all of it on the service of that name, in a shell of its own
    JOBS=()
    use_service "$1"
    start "$1-example" "$BIN/perfleet-example" --rate 1000 --threads 2 --smb-kb 1024
    check "$1: the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
    for form in files background detached clones triggers contents sdk; do
        $form "$1" "$WORK/$1"
    done
    kill "${JOBS[@]}" 2>/dev/null
    wait
}

start_service own || { check "perfleetd opens its sockets" false; finish; }
mkdir -p "$WORK/stock"
use_service stock
start stock "$P/traced"
check "traced opens its sockets" wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
start stock-probes "$P/traced_probes"
use_service own
start own-probes "$P/traced_probes"
(forms own) >"$WORK/own.tap" 2>&1 &
shells=$!
(forms stock) >"$WORK/stock.tap" 2>&1 &
wait $shells $!
for service in own stock; do
    tap_claims sed 's/ok [0-9]* - /ok - /' "$WORK/$service.tap"
done
finish
