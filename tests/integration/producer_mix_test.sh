#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libperfleet at services that are not what it would like: not there yet, killed, mean with memory,
# reached by a network. Nothing is lost: every number is there (the marks of loss are no measure here,
# Perfetto's own service puts one on the first packet of each sequence). On perfleetd and, where PERFETTO_BIN_DIR names it, on Perfetto's own service.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}

serve() { # serve: starts the service S; its network port is PORT
    if [ "$S" = own ]; then
        start service "$BIN/perfleetd" --producer-socket "$PERFETTO_PRODUCER_SOCK_NAME,127.0.0.1:0"
    else
        start service "$P/traced"
    fi
    SERVICE=$STARTED
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
}
stop_service() {
    kill -9 "$SERVICE"
    wait "$SERVICE" 2>/dev/null # 137: that is what was asked for
    rm -f "$WORK/$S"/*.sock
}
# record_in_background CONFIG OUT: until STARTED gets a SIGINT (a function would not pass it on)
record_in_background() {
    "$BIN/perfleet" record -c "$1" -o "$2" --host "$S=unix:$WORK/$S/consumer.sock" &
    STARTED=$!
}
# write_all NAME CONFIG ARGS...: the example writes until it has written its count
write_all() {
    local name=$1 config=$2 example recorder
    shift 2
    timeout 600 "$BIN/perfleet-example" "$@" >"$WORK/$S-$name.out" 2>&1 &
    example=$!
    wait_for_source "$EXAMPLE_SOURCE" 1 || return 1
    record_in_background "$config" "$WORK/$S-$name.pftrace" >"$WORK/$S-$name.log" 2>&1
    recorder=$STARTED
    wait $example || return 1
    wait_for 20 grep -q 'recording ' "$WORK/$S-$name.log" # before that it would be broken off
    kill -INT $recorder
    wait $recorder || [ $? -eq 3 ]
}
all_arrived() { # all_arrived NAME PACKETS
    says "written=$2 dropped=0 " cat "$WORK/$S-$1.out" &&
        says " test_packets=$2 " $CHECK "$WORK/$S-$1.pftrace" --contiguous
}
begins_with_0() { # begins_with_0 NAME SEQUENCES
    $CHECK "$WORK/$S-$1.pftrace" --contiguous --json >"$WORK/json" || return 1
    python3 -c 'import json, sys
ranges = json.load(open(sys.argv[1]))["test_ranges"]
print(ranges)
sys.exit(len(ranges) != int(sys.argv[2]) or any(r[0] != 0 or r[1] < 20 for r in ranges))' \
        "$WORK/json" "$2"
}

before_the_service() {
    local example
    start early "$BIN/perfleet-example" --startup-ms 60000 --smb-kb 4096 --threads 2 --rate 100
    example=$STARTED
    wait_for 20 writes_already "$example"
    check "$S: a program that traces starts before the service" is_alive "$example"
    serve
    check "$S: the service takes its memory" wait_for_source "$EXAMPLE_SOURCE" 1
    check "$S: a session is recorded" record "$S" "$WORK/short.pbtx" "$WORK/$S-early.pftrace"
    check "$S: it has what was written before it and before the service" begins_with_0 early 2
    check "$S: so has no other session" record "$S" "$WORK/short.pbtx" "$WORK/$S-late.pftrace"
    check "$S: but the packets of its own time" $CHECK "$WORK/$S-late.pftrace" \
        --contiguous --min-packets 5
    kill "$example"
    wait "$example"
}
writes_already() { # its two threads hold or have filled pages of the memory
    grep -q 'memfd:perfleet' "/proc/$1/maps" &&
        [ "$(grep -A 5 memfd:perfleet "/proc/$1/smaps" | awk '/Rss/ { print $2 }')" -ge 8 ]
}

mean_with_memory() {
    {
        cat "$WORK/long.pbtx"
        echo 'producers { producer_name: "perfleet-example" shm_size_kb: 16 page_size_kb: 4 }'
    } >"$WORK/small.pbtx"
    check "$S: memory of 16 KiB instead of 4 MiB is enough for two threads that wait" \
        write_all small "$WORK/small.pbtx" --smb-kb 4096 --policy stall --rate 0 --count 20000 --threads 2
    check "$S: everything arrived" all_arrived small 40000
    sed 's/16 page_size_kb: 4/64 page_size_kb: 32/' "$WORK/small.pbtx" >"$WORK/pages.pbtx"
    check "$S: so are two pages of 32 KiB for one thread" \
        write_all pages "$WORK/pages.pbtx" --policy stall --rate 0 --count 20000
    check "$S: everything arrived here, too" all_arrived pages 20000
}

killed() {
    local example
    start example "$BIN/perfleet-example" --rate 2000 --smb-kb 4096 --threads 2
    example=$STARTED
    check "$S: the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
    record_in_background "$WORK/long.pbtx" "$WORK/$S-cut.pftrace" >/dev/null 2>&1
    wait_for 20 is_recorded
    stop_service
    wait "$STARTED"
    serve
    check "$S: after a death in the middle of a session it registers again" \
        wait_for_source "$EXAMPLE_SOURCE" 1
    check "$S: and is recorded" record "$S" "$WORK/short.pbtx" "$WORK/$S-again.pftrace"
    check "$S: whole" $CHECK "$WORK/$S-again.pftrace" --contiguous --min-packets 10
    kill "$example"
    wait "$example"
    wait_for 20 source_is_gone
}
is_recorded() { # the example has its memory from this service
    "$BIN/perfleet" query --host "unix:$PERFETTO_CONSUMER_SOCK_NAME" --json | tr -d ' \n' | grep -q '"sessions":\[{'
}
source_is_gone() { ! source_count_is "$EXAMPLE_SOURCE" 1; }

by_network() {
    check "$S: over a network it writes to the end" \
        write_all network "$WORK/long.pbtx" --socket "127.0.0.1:$1" --policy stall --rate 0 --count 20000 \
        --threads 2
    check "$S: all of it arrived" all_arrived network 40000
    check "$S: packets over many chunks, too" write_all large "$WORK/long.pbtx" --policy stall \
        --socket "127.0.0.1:$1" --rate 100 --count 20 --size 300000
    check "$S: each whole" all_arrived large 20
}
network_port() {
    grep 'listening-on-network: ' "$WORK/service.log" | tail -n 1 | grep -oE 'port=[1-9][0-9]*' | cut -d= -f2 | grep .
}

config "$WORK/long.pbtx" 0 400000
config "$WORK/short.pbtx" 800 65536
SERVICES=own
if [ -x "$P/traced" ]; then
    SERVICES="own stock"
else
    skip "libperfleet works with Perfetto's own service as with perfleetd" "no PERFETTO_BIN_DIR"
fi
for S in $SERVICES; do
    mkdir -p "$WORK/$S"
    use_service "$S"
    before_the_service
    mean_with_memory
    killed
    [ "$S" = own ] && wait_for 20 network_port >/dev/null && by_network "$(network_port)"
    stop_service
done
finish
