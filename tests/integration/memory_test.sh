#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What perfleetd needs: idle below 8 MiB resident; recording no more than the configured buffers
# plus 10 MiB; buffers cost memory only as they fill, and nothing once they are gone.
. "$(dirname "$0")/lib.sh"
if [ -n "${PFL_SANITIZE:-}" ]; then
    skip "perfleetd is small" "sanitizers need memory of their own"
    finish
fi

start_service one || { check "perfleetd opens its sockets" false; finish; }
service=$SERVICE_PID
rss_below() { # MiB
    local kb
    kb=$(awk '/^VmRSS/ { print $2 }' "/proc/$service/status")
    [ "$kb" -lt $(($1 * 1024)) ] || { echo "$kb KiB resident"; return 1; }
}
# A session is left running, with a buffer of so many KiB, and thrown away.
ONE=(--host "one=unix:$WORK/one/consumer.sock")
recording_start() {
    config "$WORK/c.pbtx" 0 "$1"
    "$BIN/perfleet" start memory -c "$WORK/c.pbtx" "${ONE[@]}" >/dev/null
}
recording_stop() {
    "$BIN/perfleet" kill memory "${ONE[@]}" >/dev/null
}
# figure_is_above NAME N: of the recording's buffer
figure_is_above() {
    "$BIN/perfleet" stats memory "${ONE[@]}" --json |
        python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)[0]["buffers"][0][sys.argv[1]] <= int(sys.argv[2]))' "$@"
}

check "idle, it is below 8 MiB" rss_below 8
start example "$BIN/perfleet-example" --rate 100
example=$STARTED
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
check "with a producer connected, it is below 8 MiB" rss_below 8
recording_start 524288 || check "a recording with 512 MiB of buffer starts" false
wait_for 20 figure_is_above written_bytes 1000
check "hardly filled, the buffer costs next to nothing" rss_below 12
recording_stop
kill "$example"

start flood "$BIN/perfleet-example" --rate 0 --size 500 --policy stall
check "a producer that writes flat out registers" wait_for_source "$EXAMPLE_SOURCE" 1
recording_start 65536 || check "a recording with 64 MiB of ring starts" false
wait_for 60 figure_is_above written_bytes $((2 * 65536 * 1024))
check "its ring full and lapped, the service is below 64 + 10 MiB" rss_below 74
recording_stop
check "the recording over, it is below 10 MiB again" wait_for 10 rss_below 10
finish
