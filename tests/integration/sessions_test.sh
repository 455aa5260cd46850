#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sessions left running: start, ps, stats, snapshot, trigger, stop, read, kill; on our services and,
# where PERFETTO_BIN_DIR names it, on the stock one.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
NOTHING=1 USAGE=2 FILE=5
# shellcheck disable=SC2034
PARTIAL=4

hosts=()
for name in one two; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    hosts+=(--host "$name=unix:$WORK/$name/consumer.sock")
done
config "$WORK/run.pbtx" 0
config "$WORK/limited.pbtx" 300
cat >"$WORK/armed.pbtx" <<END
buffers { size_kb: 8192 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 600000 triggers { name: "boom" } }
END

sessions_are() { # sessions_are COUNT REGEX
    [ "$("$P" ps "${hosts[@]}" | grep -cE -- "$2")" -eq "$1" ] || { "$P" ps "${hosts[@]}"; return 1; }
}
holds_data() { # the buffers of a session have something in them
    "$P" stats "$1" "${hosts[@]}" --json | python3 -c '
import json, sys
sys.exit(not all(h["buffers"][0]["written_bytes"] > 100000 for h in json.load(sys.stdin)))'
}

check "a session is started everywhere and left running" \
    says "session flight runs on 2 of 2 hosts" "$P" start flight -c "$WORK/run.pbtx" "${hosts[@]}"
check "ps shows it on both hosts" sessions_are 2 'STARTED.*name "flight"'
check "a second one of that name is refused with the service's words" \
    says 'refuses the config: .*flight' "$P" start flight -c "$WORK/run.pbtx" "${hosts[@]}"
check "it records" wait_for 20 holds_data flight
check "a snapshot is one trace of all hosts" \
    "$P" snapshot flight -o "$WORK/snap.pftrace" "${hosts[@]}"
check "its packets are contiguous and nothing is lost" \
    $CHECK "$WORK/snap.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 200
check "the session goes on" sessions_are 2 'STARTED.*name "flight"'
check "a bad output costs the session nothing" \
    exits_with $FILE "$P" read flight -o /no/such/place.pftrace "${hosts[@]}"
check "it still runs" sessions_are 2 'STARTED.*name "flight"'
check "stop keeps its data" says "host two: stopped" "$P" stop flight "${hosts[@]}"
check "ps shows it stopped" sessions_are 2 'DISABLED.*name "flight"'
check "stopping twice is no mistake" "$P" stop flight "${hosts[@]}"
check "--keep reads it and leaves it" "$P" read flight --keep -o "$WORK/keep.pftrace" "${hosts[@]}"
check "with all its data" \
    $CHECK "$WORK/keep.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 200
if [ "$(id -u)" -eq 0 ] && mkdir "$WORK/full.mnt" && mount -t tmpfs -o size=64k tmpfs "$WORK/full.mnt"; then
    check "a full disk is said, and how the session is got" \
        says 'session flight is on 2 of 2 hosts still: perfleet read flight' \
        "$P" read flight -o "$WORK/full.mnt/full.pftrace" "${hosts[@]}"
else
    skip "a full disk is said, and how the session is got" "needs root for a small file system"
fi
check "it is still there" sessions_are 2 'DISABLED.*name "flight"'
killed() { # while it reads
    "$P" read flight -o "$WORK/fifo" "${hosts[@]}" >"$WORK/killed.log" 2>&1 &
    exec 9<>"$WORK/fifo"
    wait_for 20 grep -q reading "$WORK/killed.log" || return
    kill -KILL $!
    wait $!
    exec 9<&-
    wait_for 20 sessions_are 2 'DISABLED.*name "flight"'
}
mkfifo "$WORK/fifo"
check "a read that is killed leaves the session" killed
check "read brings it into one trace" "$P" read flight -o "$WORK/read.pftrace" "${hosts[@]}"
check "from the beginning, nothing lost" \
    $CHECK "$WORK/read.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 200
check "and frees it" sessions_are 0 'name "flight"'
check "reading what is not there names the remedy" \
    says 'no session "flight"; see perfleet ps' "$P" read flight -o "$WORK/x.pftrace" "${hosts[@]}"
check "and exits with 1" exits_with $NOTHING "$P" read flight -o "$WORK/x.pftrace" "${hosts[@]}"

check "a running session is read in one step" eval \
    '"$P" start again -c "$WORK/limited.pbtx" "${hosts[@]}" && sleep 1 &&
     sessions_are 2 "STARTED.*name .again" && "$P" read again -o "$WORK/again.pftrace" "${hosts[@]}"'
check "its duration was left out: it ran until read" \
    $CHECK "$WORK/again.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 5
check "a host without the session is a partial failure" eval \
    '"$P" start half -c "$WORK/run.pbtx" "${hosts[@]:0:2}" &&
     exits_with $PARTIAL "$P" snapshot half -o "$WORK/half.pftrace" "${hosts[@]}"'
check "kill throws it away" says "host one: killed" "$P" kill half "${hosts[@]}"
check "killing nothing exits with 1" exits_with $NOTHING "$P" kill half "${hosts[@]}"
check "a session needs a name" exits_with $USAGE "$P" start -c "$WORK/run.pbtx" "${hosts[@]}"
check "a quorum as a share is kept" eval 'says "only 2 of 3 hosts are ready, 3 are needed" \
    "$P" start q -c "$WORK/run.pbtx" --quorum 90% "${hosts[@]}" --host "no=unix:$WORK/no.sock"'
check "and nothing was left behind by it" sessions_are 0 'name "q"'

# --- a trigger on one host ------------------------------------------------------------------------
raise_boom() { # a producer of host two raises the trigger
    PYTHONPATH=$ROOT/tests/support python3 -B -c '
import sys, service_peers as peers
producer = peers.Producer(sys.argv[1])
producer.call("ActivateTriggers", peers.field(1, b"boom"))' "$WORK/two/producer.sock"
}
triggered() {
    local pid rc=0
    "$P" trigger armed -o "$WORK/boom.pftrace" "${hosts[@]}" >"$WORK/trigger.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q "waiting for a trigger" "$WORK/trigger.log" && raise_boom || kill "$pid"
    wait $pid || rc=$?
    cat "$WORK/trigger.log"
    return $rc
}
check "a session with a trigger is left running" \
    "$P" start armed -c "$WORK/armed.pbtx" "${hosts[@]}"
wait_for 20 holds_data armed
check "a trigger on one host makes a snapshot of all" triggered
check "the summary names host and trigger" grep -q 'host two raised trigger "boom"' "$WORK/trigger.log"
check "both hosts are in the trace" \
    $CHECK "$WORK/boom.pftrace" --machines 2 --disjoint --lossless --min-packets 10
check "the session waits for the next trigger" sessions_are 2 'STARTED.*name "armed"'
killed_waiting() { # who waits for the trigger dies
    local pid
    rm -f "$WORK/trigger.log"
    "$P" trigger armed -o "$WORK/dead.pftrace" "${hosts[@]}" >"$WORK/trigger.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q "waiting for a trigger" "$WORK/trigger.log" || cat "$WORK/trigger.log"
    "$P" stats armed "${hosts[@]}" >"$WORK/stats.log" 2>&1 || return
    kill -KILL $pid
    wait $pid 2>/dev/null
    wait_for 20 sessions_are 0 'buffers.* 4 KiB'
}
check "who waits for a trigger holds no session, and his session goes with him" killed_waiting
check "the session outlives who waited for its trigger" sessions_are 2 'STARTED.*name "armed"'
check "it can be thrown away" "$P" kill armed "${hosts[@]}"

# --- a service that compresses what it copies, as the stock one does -------------------------------
PYTHONPATH=$ROOT/tests/support start packing python3 -B "$ROOT/tests/support/compressing_host.py" \
    "$WORK/packing.sock" "$WORK/one/consumer.sock"
wait_for 20 test -S "$WORK/packing.sock"
packing=(--host "packing=unix:$WORK/packing.sock")
for codec in deflate zstd; do
    check "a session that $codec compresses runs" python3 -B "$ROOT/tests/support/compressing_host.py" \
        --session "$codec" "$codec" "$EXAMPLE_SOURCE" "$WORK/one/consumer.sock"
    hosts=("${packing[@]}")
    wait_for 20 holds_data "$codec"
    check "a snapshot of it, compressed by the service, succeeds" \
        "$P" snapshot "$codec" -o "$WORK/$codec.pftrace" "${packing[@]}"
    check "and is plain and whole" \
        $CHECK "$WORK/$codec.pftrace" --disjoint --contiguous --lossless --min-packets 200
    check "it can be read" "$P" read "$codec" -o "$WORK/$codec-read.pftrace" "${packing[@]}"
    check "whole" $CHECK "$WORK/$codec-read.pftrace" --disjoint --contiguous --lossless --min-packets 200
done

# --- the stock service ----------------------------------------------------------------------------
if [ -x "${PERFETTO_BIN_DIR:-}/traced" ]; then
    mkdir -p "$WORK/stock"
    use_service stock
    start stock "$PERFETTO_BIN_DIR/traced"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    start example-stock "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at the stock service" wait_for_source "$EXAMPLE_SOURCE" 1
    hosts=(--host "stock=unix:$WORK/stock/consumer.sock")
    check "the stock service keeps a session" "$P" start flight -c "$WORK/run.pbtx" "${hosts[@]}"
    check "it records there" wait_for 20 holds_data flight
    check "and copies it" "$P" snapshot flight -o "$WORK/stock.pftrace" "${hosts[@]}"
    check "the copy is whole" $CHECK "$WORK/stock.pftrace" --disjoint --contiguous --min-packets 300
    check "stop keeps its data there" "$P" stop flight "${hosts[@]}"
    check "read brings it" "$P" read flight -o "$WORK/stock2.pftrace" "${hosts[@]}"
    check "whole" $CHECK "$WORK/stock2.pftrace" --disjoint --contiguous --min-packets 300
else
    skip "sessions are left running on the stock service" "PERFETTO_BIN_DIR names no programs"
fi
finish
