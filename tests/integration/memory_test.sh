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
# Records in the background with a buffer of so many KiB until told to stop.
recording_start() {
    config "$WORK/c.pbtx" 0 "$1"
    start record "$BIN/perfleet" record -c "$WORK/c.pbtx" -o "$WORK/t.pftrace" \
        --host "one=unix:$WORK/one/consumer.sock"
    wait_for 20 grep -q 'recording until' "$WORK/record.log"
}
recording_stop() {
    kill -INT "$STARTED"
    wait "$STARTED"
    : >"$WORK/record.log"
}

check "idle, it is below 8 MiB" rss_below 8
start example "$BIN/perfleet-example" --rate 100
example=$STARTED
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
check "with a producer connected, it is below 8 MiB" rss_below 8
recording_start 524288 || check "a recording with 512 MiB of buffer starts" false
sleep 1
check "hardly filled, the buffer costs next to nothing" rss_below 12
recording_stop
kill "$example"

start flood "$BIN/perfleet-example" --rate 0 --size 500 --policy stall
check "a producer that writes flat out registers" wait_for_source "$EXAMPLE_SOURCE" 1
recording_start 65536 || check "a recording with 64 MiB of ring starts" false
sleep 3
check "its ring full and lapped, the service is below 64 + 10 MiB" rss_below 74
recording_stop
check "the recording over, it is below 10 MiB again" wait_for 10 rss_below 10
finish
