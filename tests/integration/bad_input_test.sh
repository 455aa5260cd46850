#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Peers that behave badly, one after the other and all on one service: whatever they do, the service
# stays the same process, and a well-behaved producer's recording made meanwhile is whole.
. "$(dirname "$0")/lib.sh"

start_service one || { check "perfleetd opens its sockets" false; finish; }
service=$SERVICE_PID
start example "$BIN/perfleet-example" --rate 2000 --smb-kb 4096
check "the example producer registers" wait_for_source "$EXAMPLE_SOURCE" 1
config "$WORK/c.pbtx" 1000

# A recording made now is whole: nothing lost, and the service is who it was. A producer of the
# session that does not answer the last flush makes exit code 3 (loss): recording_is_whole 3
recording_is_whole() {
    local rc=0
    rm -f "$WORK/t.pftrace"
    timeout 300 "$BIN/perfleet" record -c "$WORK/c.pbtx" -o "$WORK/t.pftrace" \
        --host "one=unix:$WORK/one/consumer.sock" || rc=$?
    [ $rc -eq "${1:-0}" ] || { echo "exit code $rc"; return 1; }
    $CHECK "$WORK/t.pftrace" --contiguous --lossless || return
    is_alive "$service"
}

# Runs hostile.py in the background, its stdin held open; waits for WORD in its output.
hostile_start() {
    local word=$1
    shift
    # shellcheck disable=SC2086
    coproc HOSTILE_JOB { $HOSTILE "$@" 2>&1; }
    HOSTILE_PID=$HOSTILE_JOB_PID
    read -r -t 60 HOSTILE_LINE <&"${HOSTILE_JOB[0]}"
    [[ $HOSTILE_LINE == $word* ]] || { echo "hostile: ${HOSTILE_LINE:-nothing}"; return 1; }
}

hostile_stop() {
    local fd=${HOSTILE_JOB[1]:-}
    [ -z "$fd" ] || exec {fd}>&-
    wait "$HOSTILE_PID" 2>/dev/null
}

check "a recording before any of it is whole" recording_is_whole

for socket in producer consumer; do
    check "garbage on the $socket socket ends" timeout 600 $HOSTILE garbage "$WORK/one/$socket.sock" 300
    check "after garbage on the $socket socket a recording is whole" recording_is_whole
done

limit=$(ulimit -Hn)
if [ "$limit" != unlimited ] && [ "$limit" -lt 10100 ]; then
    skip "10,000 silent connections" "at most $limit descriptors"
else
    ulimit -n "$limit"
    for socket in producer consumer; do
        if hostile_start open silent "$WORK/one/$socket.sock" 10000; then
            echo "# $HOSTILE_LINE"
            check "with 10,000 silent ${socket}s a recording is whole" recording_is_whole
        else
            check "10,000 silent connections open on the $socket socket" false
        fi
        hostile_stop
        check "after 10,000 silent ${socket}s a recording is whole" recording_is_whole
    done
fi

if hostile_start registered stuck-producer "$WORK/one/producer.sock" "$EXAMPLE_SOURCE"; then
    check "beside a producer that never reads, everybody else's data is whole" recording_is_whole 3
else
    check "the stuck producer registers" false
fi
hostile_stop
check "after a producer that never read, a recording is whole" recording_is_whole

if hostile_start registered scribbler "$WORK/one/producer.sock" "$EXAMPLE_SOURCE"; then
    check "beside a producer that scribbles over its shared memory, the trace parses" \
        sh -c "timeout 300 '$BIN/perfleet' record -c '$WORK/c.pbtx' -o '$WORK/s.pftrace' \
            --host 'one=unix:$WORK/one/consumer.sock'; $CHECK '$WORK/s.pftrace'"
else
    check "the scribbler registers" false
fi
hostile_stop
check "after the scribbler a recording is whole" recording_is_whole

check "the service is still the same process" is_alive "$service"
rss_kb() { awk '/^VmRSS/ { print $2 }' "/proc/$service/status"; }
if [ -n "${PFL_SANITIZE:-}" ]; then
    skip "what all of them left behind is below 32 MiB" "sanitizers need memory of their own"
else
    check "what all of them left behind is below 32 MiB" test "$(rss_kb)" -lt 32768
fi
kill -TERM "$service"
service_is_gone() { ! is_alive "$service"; }
check "SIGTERM ends the service" wait_for 10 service_is_gone
finish
