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
mkdir "$WORK/idle"
start idle python3 -B "$ROOT/tests/support/endless_host.py" "$WORK/idle/consumer.sock" "$WORK/one/consumer.sock" 0
check "a host that answers and brings nothing listens" wait_for 20 grep -q listening "$WORK/idle.log"
idle() { timeout 40 "$BIN/perfleet" record -c "$WORK/small.pbtx" -o "$WORK/idle.pftrace" --host "idle=unix:$WORK/idle/consumer.sock" \
    --host "two=unix:$WORK/two/consumer.sock" --timeout 2s "$@" >"$WORK/idle.said" 2>&1; }
check "it is cut short" exits_with $RECORD_PARTIAL idle
check "and the other is there" grep -q 'host two: [1-9][0-9]* packets' "$WORK/idle.said"
check "so it is while it is streamed" exits_with $RECORD_PARTIAL idle --stream
mkdir "$WORK/drip"
start drip python3 -B "$ROOT/tests/support/endless_host.py" "$WORK/drip/consumer.sock" "$WORK/one/consumer.sock" -1
check "a host that sends little for ever listens" wait_for 20 grep -q listening "$WORK/drip.log"
drip() { timeout 120 "$BIN/perfleet" record -c "$WORK/small.pbtx" -o "$WORK/drip.pftrace" --host "drip=unix:$WORK/drip/consumer.sock" \
    --host "two=unix:$WORK/two/consumer.sock" --timeout 2s "$@" >"$WORK/drip.said" 2>&1; }
check "a host that sends some KiB in each step cannot draw the end out" exits_with $RECORD_PARTIAL drip
check "the host, the limit and the option are named" \
    grep -qE '^perfleet: host drip .*: reading: it sends too slowly, less than 256 KiB in 2 s: .* --timeout' "$WORK/drip.said"
check "and the other's data is there" grep -q 'host two: [1-9][0-9]* packets' "$WORK/drip.said"
check "so it is cut while it is streamed" exits_with $RECORD_PARTIAL drip --stream
mkdir "$WORK/slow"
start slow python3 -B "$ROOT/tests/support/slow_host.py" "$WORK/slow/consumer.sock" "$WORK/one/consumer.sock" 1000
check "a host with a slow link listens" wait_for 20 grep -q listening "$WORK/slow.log"
slow() {
    "$BIN/perfleet" record -c "$WORK/full.pbtx" -o "$WORK/slow.pftrace" --host "slow=unix:$WORK/slow/consumer.sock" \
        --host "two=unix:$WORK/two/consumer.sock" >"$WORK/slow.said" 2>&1 || { local rc=$?; cat "$WORK/slow.said"; return $rc; }
}
cat >"$WORK/full.pbtx" <<END
buffers { size_kb: 4096 fill_policy: DISCARD }
duration_ms: 4000
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
is_read() { slow || [ $? -eq 3 ]; } # its buffer is full, so packets are lost
check "an honest host with a full buffer and a link of 1 MB/s is read whole" is_read
check "and nothing of it is missing" eval '! grep -E "too slowly|INCOMPLETE|FAILED" "$WORK/slow.said"'
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

# --- the file ------------------------------------------------------------------------------------
killed() { # a recording that is killed while it runs
    local pid
    echo old >"$WORK/killed.pftrace"
    rm -f "$WORK/int.log"
    "$BIN/perfleet" record -c "$WORK/open.pbtx" -o "$WORK/killed.pftrace" "${hosts_flags[@]}" >"$WORK/int.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q 'recording until' "$WORK/int.log"
    test -e "$WORK/killed.pftrace.partial" || return
    kill -KILL $pid
    wait $pid
    grep -q '^old$' "$WORK/killed.pftrace"
}
check "a recording that is killed leaves the old file as it was" killed
check "the next one replaces what it left" record_all killed -c "$WORK/short.pbtx"
check "and takes the old file's place" test -s "$WORK/killed.pftrace" -a ! -e "$WORK/killed.pftrace.partial"
check "--no-clobber leaves what is there" exits_with $RECORD_WRITE record_all killed -c "$WORK/short.pbtx" --no-clobber
to_redirected() { record one "$WORK/short.pbtx" - >"$WORK/redirected.pftrace" 2>"$WORK/pipe.log"; }
check "standard output is written directly" to_redirected
check "whole" $CHECK "$WORK/redirected.pftrace" --contiguous --lossless --min-packets 5
ln -s killed.pftrace "$WORK/link.pftrace"
check "a symbolic link stays one" eval 'record_all link -c "$WORK/short.pbtx" && test -L "$WORK/link.pftrace"'
mkfifo "$WORK/fifo"
to_fifo() {
    cat "$WORK/fifo" >"$WORK/fifo.pftrace" &
    record one "$WORK/short.pbtx" "$WORK/fifo" && wait $!
}
check "a pipe is written directly" to_fifo
check "whole, too" $CHECK "$WORK/fifo.pftrace" --contiguous --lossless --min-packets 5

# --- full disk ----------------------------------------------------------------------------------
if [ "$(id -u)" -eq 0 ] && mkdir "$WORK/full.mnt" && mount -t tmpfs -o size=64k tmpfs "$WORK/full.mnt"; then
    echo old >"$WORK/full.mnt/t.pftrace"
    check "a full disk is said in words" says "No space left|disk is full" \
        record one "$WORK/short.pbtx" "$WORK/full.mnt/t.pftrace"
    check "and fails" exits_with $RECORD_WRITE record one "$WORK/short.pbtx" "$WORK/full.mnt/t.pftrace"
    check "the old file is as it was" grep -q '^old$' "$WORK/full.mnt/t.pftrace"
    record one "$WORK/short.pbtx" "$WORK/full.mnt/t.pftrace" >"$WORK/kept.log" 2>&1
    kept=$(grep -oE 'perfleet read [^ ]+\.kept' "$WORK/kept.log" | cut -d' ' -f3)
    check "it is said how to get what the host keeps" test -n "$kept"
    read_kept() { "$BIN/perfleet" read "$kept" -o "$WORK/kept.pftrace" --host "one=unix:$WORK/one/consumer.sock"; }
    check "it can be read" read_kept
    check "whole" $CHECK "$WORK/kept.pftrace" --contiguous --lossless --min-packets 5
    check "and is gone then" exits_with 1 read_kept
    umount "$WORK/full.mnt"
    check "the next recording succeeds" record one "$WORK/short.pbtx" "$WORK/after.pftrace"
    check "whole" $CHECK "$WORK/after.pftrace" --contiguous --lossless --min-packets 5
else
    skip "a full disk is said in words" "needs root for a small file system"
fi
finish
