#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet record on real services: local and over TLS, one host and several, ends of every kind.
. "$(dirname "$0")/lib.sh"
RECORD_PARTIAL=4 RECORD_USAGE=2 RECORD_WRITE=5

hosts_flags=()
for name in one two three; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
    eval "pid_$name=\$SERVICE_PID"
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    hosts_flags+=(--host "$name=unix:$WORK/$name/consumer.sock")
done
config "$WORK/short.pbtx" 1000
config "$WORK/open.pbtx" 0

record_all() {
    timeout 300 "$BIN/perfleet" record -o "$WORK/$1.pftrace" "${hosts_flags[@]}" "${@:2}"
}

# --- local, one and many ---------------------------------------------------------------------
check "one local host is recorded" record one "$WORK/short.pbtx" "$WORK/one.pftrace"
check "its packets are contiguous and nothing is lost" \
    $CHECK "$WORK/one.pftrace" --contiguous --lossless --min-packets 10
check "three hosts are recorded into one file" record_all three -c "$WORK/short.pbtx"
check "each has its machine, sequence ids are disjoint, nothing is lost" \
    $CHECK "$WORK/three.pftrace" --machines 3 --disjoint --contiguous --lossless --min-packets 10

# --- ends ------------------------------------------------------------------------------------
interrupted() { # signal a recording that has no end of its own
    local pid rc=0
    "$BIN/perfleet" record -c "$WORK/open.pbtx" -o "$WORK/int.pftrace" "${hosts_flags[@]}" >"$WORK/int.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q 'recording until' "$WORK/int.log"
    sleep 0.5
    kill -INT $pid
    wait $pid || rc=$?
    return $rc
}
check "Ctrl-C stops, reads and succeeds" interrupted
check "what was recorded until Ctrl-C is whole" \
    $CHECK "$WORK/int.pftrace" --machines 3 --disjoint --contiguous --lossless --min-packets 5

dies_in_the_middle() {
    local pid rc=0
    "$BIN/perfleet" record -c "$WORK/open.pbtx" -o "$WORK/dead.pftrace" "${hosts_flags[@]}" >"$WORK/dead.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q 'recording until' "$WORK/dead.log"
    # shellcheck disable=SC2154
    kill -9 "$pid_three"
    sleep 0.3
    kill -INT $pid
    wait $pid || rc=$?
    return $rc
}
check "a host that dies in the middle is a partial failure" \
    exits_with $RECORD_PARTIAL dies_in_the_middle
check "the other hosts' data is whole" \
    $CHECK "$WORK/dead.pftrace" --disjoint --contiguous --lossless
unset 'hosts_flags[5]' 'hosts_flags[4]'
check "without it the others are recorded as before" record_all two -c "$WORK/short.pbtx"

# --- a host that never ends its answer -----------------------------------------------------------
mkdir "$WORK/endless"
start endless python3 -B "$ROOT/tests/support/endless_host.py" "$WORK/endless/consumer.sock" "$WORK/one/consumer.sock" 3000
check "a host that lies listens" wait_for 20 grep -q listening "$WORK/endless.log"
config "$WORK/small.pbtx" 2000 1024
endless() { "$BIN/perfleet" record -c "$WORK/small.pbtx" -o "$WORK/endless.pftrace" --host "endless=unix:$WORK/endless/consumer.sock" \
    --host "two=unix:$WORK/two/consumer.sock" "$@" >"$WORK/lie.log" 2>&1; }
check "a host that never ends its answer is cut short" exits_with $RECORD_PARTIAL endless
check "and it is said why, and what else there is" grep -q 'endless.*more than its buffers can hold.*--max-host-mib' "$WORK/lie.log"
file_mib_is_below() { [ $(($(stat -c %s "$WORK/endless.pftrace") >> 20)) -lt "$1" ]; }
check "the file is not larger than buffers of 1 MiB explain" file_mib_is_below 200
check "the operator's limit holds" exits_with $RECORD_PARTIAL endless --max-host-mib 5
check "and is named" grep -q 'endless.*more than --max-host-mib 5' "$WORK/lie.log"
check "the file has no more than that" file_mib_is_below 8
check "a limit that is no number is refused" says '--max-host-mib 5x: give a number of MiB' \
    "$BIN/perfleet" record -c "$WORK/small.pbtx" -o "$WORK/x.pftrace" --host local --max-host-mib 5x

check "a host that is not there is named" says "nowhere" record_all nowhere -c "$WORK/short.pbtx" \
    --host "nowhere=unix:$WORK/nowhere/consumer.sock"

# --- operator's mistakes -----------------------------------------------------------------------
cat >"$WORK/typo.pbtx" <<'END'
buffers { size_kb: 1024 }
durtion_ms: 1000
END
check "a typo in a config is refused with line, column and the nearest name" \
    says 'typo.pbtx:2:1.*duration_ms' record one "$WORK/typo.pbtx" "$WORK/typo.pftrace"
check "wrong usage exits with 2" exits_with $RECORD_USAGE "$BIN/perfleet" record --no-such-option
check "an output that cannot be written is said before anything starts" \
    says "/no/such/place" record one "$WORK/short.pbtx" /no/such/place/x.pftrace
echo 'buffers { size_kb: 1024 }  data_sources { config { name: "x" target_buffer: 7 } }' >"$WORK/bad.pbtx"
check "a config that the service refuses fails with the service's words" \
    says "buffer" record one "$WORK/bad.pbtx" "$WORK/bad.pftrace"

# --- full disk ----------------------------------------------------------------------------------
if [ "$(id -u)" -eq 0 ] && mkdir "$WORK/full.mnt" && mount -t tmpfs -o size=64k tmpfs "$WORK/full.mnt"; then
    check "a full disk is said in words" says "No space left|disk is full" \
        record one "$WORK/short.pbtx" "$WORK/full.mnt/t.pftrace"
    check "and fails" exits_with $RECORD_WRITE record one "$WORK/short.pbtx" "$WORK/full.mnt/t.pftrace"
    umount "$WORK/full.mnt"
    check "the next recording succeeds" record one "$WORK/short.pbtx" "$WORK/after.pftrace"
    check "whole" $CHECK "$WORK/after.pftrace" --contiguous --lossless --min-packets 5
    check "and the service kept nothing of the failed one" says ' 0 sessions' \
        "$BIN/perfleet" query --host "one=unix:$WORK/one/consumer.sock"
else
    skip "a full disk is said in words" "needs root for a small file system"
fi
finish
