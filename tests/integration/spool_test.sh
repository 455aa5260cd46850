#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An operator who reads slowly, whose network is gone, or who is gone, before perfleetd and, where
# PERFETTO_BIN_DIR names it, before the stock service, whose sends block: the agent takes in what
# was asked for, in memory and then in a file, and the service's other clients wait for nobody.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
MIB=20 ANSWERS_MIN=5
SLOW=(python3 -B "$ROOT/tests/support/slow_operator.py")
COUNT=$((MIB * 1024 * 1024 / 880))
PRODUCER=("$BIN/perfleet-example" --rate 0 --size 900 --smb-kb 4096 --policy stall --count "$COUNT")

make_pki
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir "$WORK/spool"

is_there() { fleet hosts --host "$1" 2>/dev/null | grep -q " up "; }
operator() { # HOST TTL-MS: what an operator's program would be
    echo "$PFL_BUILD/tests/tunnel_client" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-me.pem" \
        "$WORK/pki/operator-me.key" cat "$1" "${2:-60000}"
}
# run MODE HOST [TTL-MS]: OUT
run() {
    local mode=$1 host=$2
    OUT=$WORK/$host-$mode.pftrace
    # shellcheck disable=SC2046
    "${SLOW[@]}" "$mode" "$PERFETTO_CONSUMER_SOCK_NAME" "$MIB" "$OUT" -- $(operator "$host" "${3:-}") \
        2>"$WORK/$mode.err" || { cat "$WORK/$mode.err"; return 1; }
}
longest() { sed -n 's/^longest_ms=//p' "$1"; }
prompt() { # FILE
    cat "$1"
    [ "$(sed -n 's/^answers=//p' "$1")" -ge "$ANSWERS_MIN" ]
}
whole() { $CHECK "$1" --contiguous --test-sequences "1:0:$((COUNT - 1))"; }
# The source is started again for each: it has its packets written when it is read.
produce() {
    start producer "${PRODUCER[@]}"
    wait_for_source "$EXAMPLE_SOURCE" 1
}
not() { ! "$@"; }
# What the agent tells a Prometheus: agent_says HOST ROW VALUE
agent_says() {
    curl -sS -m 20 -o "$WORK/now" --unix-socket "$WORK/$1.metrics" http://localhost/metrics &&
        says "^$3\$" python3 -B "$ROOT/tests/support/metrics_check.py" value "$WORK/now" "$2"
}
EXPIRED='perfleet_losses_total{hop="tunnel",cause="stream_expired"}'
BROKEN='perfleet_losses_total{hop="tunnel",cause="spool_broken"}'
agent_held_back() { grep -q spool-full "$WORK/agent-$1.log"; }

claims() { # HOST WHAT: the agent HOST stands before the service in use
    local host=$1 what=$2 pid
    check "the agent before $what dials" wait_for 20 is_there "$host"
    check "it has lost no stream" agent_says "$host" "$EXPIRED" 0
    produce
    run slow "$host" >"$WORK/slow.out"
    check "$what: the operator reads at 10 KB/s, and others are answered promptly" prompt "$WORK/slow.out"
    check "$what: then the rest arrives, once and in order" whole "$WORK/$host-slow.pftrace"

    produce
    mkfifo "$WORK/$host.fifo"
    run pause "$host" >"$WORK/pause.out" <"$WORK/$host.fifo" &
    pid=$!
    exec 8>"$WORK/$host.fifo"
    wait_for 60 grep -q reading "$WORK/pause.out"
    kill -9 "$MEETING_PID"
    wait "$MEETING_PID" 2>/dev/null
    sleep 1.5
    start_meeting "$RELAY"
    wait_for 20 is_there "$host"
    echo on >&8
    exec 8>&-
    wait "$pid"
    check "$what: the network is gone in mid read and comes back" test $? -eq 0
    check "$what: others are answered promptly meanwhile" prompt "$WORK/pause.out"
    check "$what: nothing is missing and nothing is double" whole "$WORK/$host-pause.pftrace"

    produce
    run leave "$host" 3000 >"$WORK/leave.out"
    check "$what: the operator never comes back, and after the time-to-live the session is over" \
        test -n "$(longest "$WORK/leave.out")"
    check "$what: others are answered promptly meanwhile" prompt "$WORK/leave.out"
    check "$what: the agent counts the stream among what was lost" wait_for 20 agent_says "$host" "$EXPIRED" 1
    check "$what: the service was never held back" not agent_held_back "$host"
    check "$what: no file has a name" test -z "$(ls -A "$WORK/spool")"
    echo "# $what: others waited at most $(longest "$WORK/slow.out") ms (slow reader)," \
        "$(longest "$WORK/pause.out") ms (network gone), $(longest "$WORK/leave.out") ms (nobody comes)"
}

start_service d || { check "perfleetd opens its sockets" false; finish; }
start_agent d --spool-mib 4 --spool-dir "$WORK/spool" --metrics-socket "$WORK/d.metrics"
DIALLED=$STARTED
claims d perfleetd

# A disk that lost what the agent had put there; nothing new is written behind it.
spool_file() { # of the agent DIALLED, once it has more than 1 MiB: it has no name
    local fd
    for fd in "/proc/$DIALLED/fd"/*; do
        if [[ $(readlink "$fd") = $WORK/spool/* ]] && [ "$(stat -L -c %s "$fd")" -gt 1048576 ]; then
            echo "$fd"
            return
        fi
    done
    return 1
}
produce
mkfifo "$WORK/lost.fifo"
run pause d >"$WORK/lost.out" <"$WORK/lost.fifo" &
pid=$!
exec 8>"$WORK/lost.fifo"
check "what an operator does not read goes into a file" wait_for 60 spool_file
prlimit --pid "$DIALLED" --fsize=1048576:
: >"$(spool_file)"
echo on >&8
exec 8>&-
wait "$pid"
check "what is lost of it ends the stream" test $? -ne 0
check "the operator gets the reason" grep -q 'broken' "$WORK/pause.err"
check "the agent counts it among what was lost" wait_for 20 agent_says d "$BROKEN" 1
prlimit --pid "$DIALLED" --fsize=unlimited:
check "and serves the next one" is_there d

if [ -x "${PERFETTO_BIN_DIR:-}/traced" ]; then
    mkdir "$WORK/t" "$WORK/u"
    ln -s "$WORK/t/consumer.sock" "$WORK/u/consumer.sock"
    use_service t
    start traced "$PERFETTO_BIN_DIR/traced"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    start_agent t --spool-mib 4 --spool-dir "$WORK/spool" --metrics-socket "$WORK/t.metrics"
    claims t traced

    # The same with too little room: the test sees what a service that is held back does.
    start_agent u --spool-mib 4
    check "an agent without a file is there, too" wait_for 20 is_there u
    produce
    run block u >"$WORK/block.out"
    echo "# traced without a spool: others waited $(longest "$WORK/block.out") ms, as long as was looked"
    check "without it traced keeps others waiting" test "$(longest "$WORK/block.out")" -ge 2000
    check "and the agent's log says why" agent_held_back u
else
    skip "the same before the stock service" "PERFETTO_BIN_DIR names no programs"
fi
finish
