#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A session left running outlives the connection of who visits it: each command's connection ends
# after each of its writes (tests/support/cut_shim.c).
# shellcheck disable=SC2046
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 # cut_shim is loaded before

start_service one || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
HOST=(--host "one=unix:$WORK/one/consumer.sock")
cat >"$WORK/armed.pbtx" <<END
buffers { size_kb: 8192 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 600000 triggers { name: "boom" } }
END
config "$WORK/open.pbtx" 0

is_there() { "$P" ps "${HOST[@]}" >"$WORK/ps.log" 2>&1 && grep -q 'name "flight"' "$WORK/ps.log"; }
cut() { # cut N COMMAND ARGS...: with a connection that ends after its Nth write
    rm -f "$WORK/mark"
    LD_PRELOAD=$PFL_BUILD/tests/libcut_shim.so PFL_CUT_AFTER=$1 PFL_CUT_MARK=$WORK/mark \
        PFL_CUT_PEER=one/consumer.sock timeout 300 "$P" "$2" flight "${HOST[@]}" "${@:3}" >"$WORK/cut.log" 2>&1
}
was_cut() { [ -e "$WORK/mark" ]; }
fresh() { # a session that runs
    "$P" kill flight "${HOST[@]}" >/dev/null 2>&1
    "$P" start flight -c "$1" "${HOST[@]}" >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; return 1; }
}
# Every write of a command is followed by the end of its connection once, until it needs no more.
survives() { # survives CONFIG COMMAND ARGS...
    local n config=$1
    shift
    for ((n = 1; n <= 40; n++)); do
        fresh "$config" || return
        cut "$n" "$@"
        is_there || ! was_cut || { echo "gone after write $n:"; cat "$WORK/cut.log" "$WORK/ps.log"; return 1; }
        was_cut || break
    done
    [ "$n" -gt 2 ] && [ "$n" -le 40 ] || { echo "$((n - 1)) writes"; cat "$WORK/cut.log"; return 1; }
}
check "a session outlives stats, whichever write is its last" survives "$WORK/open.pbtx" stats
check "and stop" survives "$WORK/open.pbtx" stop --timeout 60s
check "and read --keep" survives "$WORK/open.pbtx" read --keep -o "$WORK/keep.pftrace"

# The copy is made when who waits is interrupted.
waits_on() { grep -q "waiting for a trigger" "$WORK/cut.log" || was_cut; }
interrupted() { # interrupted N
    local job
    rm -f "$WORK/mark" "$WORK/cut.log" # of the last one
    cut "$1" trigger -o "$WORK/trigger.pftrace" &
    job=$!
    wait_for 60 waits_on || { cat "$WORK/cut.log"; return 1; }
    kill -INT $(list_children "$job") 2>/dev/null
    wait "$job"
    true
}
list_children() { # the program below a shell and its timeout
    local pid
    for pid in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        if [ -z "$(cat /proc/"$pid"/task/*/children 2>/dev/null)" ]; then echo "$pid"; else list_children "$pid"; fi
    done
}
trigger_survives() {
    local n
    fresh "$WORK/armed.pbtx" || return
    for ((n = 1; n <= 40; n++)); do
        interrupted "$n" || return
        is_there || { echo "gone after write $n:"; cat "$WORK/cut.log" "$WORK/ps.log"; return 1; }
        was_cut || break
    done
    [ "$n" -gt 2 ] && [ "$n" -le 40 ] || { echo "$((n - 1)) writes"; cat "$WORK/cut.log"; return 1; }
}
check "and trigger, while it waits and when it copies" trigger_survives
finish
