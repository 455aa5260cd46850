#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2016,SC2034,SC2086,SC2153,SC2154
# perfleet-collector with a store that has bad days: S3 behind a proxy that answers 500, 503 and 403, drops, cuts, is
# late and lies; and a folder on a disk that is full. The host keeps what is not stored, the log says why, and all comes
# when the store is well again: nothing is missing, and nothing is there twice.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/s3rver.sh"
C=$BIN/perfleet-collector

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -p "$WORK/one" "$WORK/spool-one" "$WORK/staging" "$WORK/index"
use_service one
start one "$BIN/perfleetd" --output-dir "$WORK/spool-one"
wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 1000
wait_for_source "$EXAMPLE_SOURCE" 1 || { check "the example registers" false; finish; }
start_agent one --segments-dir "$WORK/spool-one"
cat >"$WORK/order.pbtx" <<END
name: "web"
select { }
config { buffers { size_kb: 4096 fill_policy: RING_BUFFER } data_sources { config { name: "$EXAMPLE_SOURCE" } } }
continuous { segment_ms: 1000 }
END
index() { "$PFL_BUILD/tests/order_index" "$INDEX" "$@"; }
as_me() { timeout 300 "$BIN/perfleet" "$1" --relay "$RELAY" "${TLS_ME[@]}" "${@:2}"; }
objects() { find "$STORE/v1" -path "*/one/*.pftrace$SUFFIX" 2>/dev/null; }
has_stored() { [ "$(objects | wc -l)" -ge "$1" ]; }
more_come() { wait_for 240 has_stored $(($(objects | wc -l) + 2)); }
is_drained() { [ -z "$(ls "$WORK/spool-one")" ]; }
spools_more() { [ "$(find "$WORK/spool-one" -name '*.segment' | wc -l)" -ge "$1" ]; }
keys() {
    python3 -B -c '
import sqlite3, sys
for (key,) in sqlite3.connect(sys.argv[1]).execute("select object_key from segment where state = 1"):
    if key:
        print(key)' "${INDEX#sqlite:}"
}
whole() { keys | python3 -B "$ROOT/tests/support/stored_check.py" "$STORE" "$SUFFIX" one; }

# ---- a folder whose disk is full, then has room
mkdir -p "$WORK/disk.mnt"
if mount -t tmpfs -o size=16m,mode=700 none "$WORK/disk.mnt" 2>/dev/null; then
    STORE=$WORK/disk.mnt SUFFIX="" INDEX=sqlite:$WORK/index/folder.sqlite
    start collector "$C" --relay "$RELAY" --store "$STORE" "${TLS_ME[@]}" --index "$INDEX" --keep-bytes 8M
    COLLECTOR_PID=$STARTED
    check "the index takes an order" index put me <"$WORK/order.pbtx"
    check "segments come into the folder" more_come
    fill() { dd if=/dev/zero of="$WORK/disk.mnt/filler" bs=64k 2>/dev/null; [ -s "$WORK/disk.mnt/filler" ]; }
    check "its disk is full" fill
    check "which is said" wait_for 120 grep -q 'store-failed: .*No space left on device' "$WORK/collector.log"
    check "the host keeps what is not stored" wait_for 120 spools_more 2
    check "the collector answers operators" says '^[1-9][0-9]* traces verified' as_me traces verify
    rm "$WORK/disk.mnt/filler"
    check "with room more come" more_come
    check "the order is removed" index rm me web
    check "all is taken" wait_for 240 is_drained
    check "traces says that nothing is missing" says 'nothing missing' as_me traces missing
    check "all are as they were" says '^[1-9][0-9]* traces verified' as_me traces verify
    kill -TERM "$COLLECTOR_PID"
    wait "$COLLECTOR_PID"
    ENDED=$?
    check "SIGTERM ends the collector with 0" test "$ENDED" -eq 0
    check "each has its SHA-256, none is missing or there twice, and the index has what is in the folder" whole
else
    skip "a full disk" "needs the right to mount"
fi

# ---- S3 that has bad days
s3rver_find || { skip "S3 that has bad days" "npm has no s3rver here"; finish; }
s3rver_start "$WORK/objects" "$(lasting_port)" || { check "s3rver listens" false; finish; }
: >"$WORK/fault"
: >"$WORK/faults.txt"
start proxy python3 -B "$ROOT/tests/support/faulty_proxy.py" "$WORK/proxy.port" "$S3RVER_PORT" "$WORK/fault" "$WORK/faults.txt"
wait_for 20 test -s "$WORK/proxy.port"
STORE=$WORK/objects/perfleet-test SUFFIX=._S3rver_object INDEX=sqlite:$WORK/index/s3.sqlite
rm -f "$WORK/collector.log"
AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER start collector "$C" --relay "$RELAY" --store s3://perfleet-test \
    "${TLS_ME[@]}" --s3-path-style --s3-staging-dir "$WORK/staging" --index "$INDEX" \
    --s3-endpoint "http://127.0.0.1:$(cat "$WORK/proxy.port")"
COLLECTOR_PID=$STARTED
set_fault() {
    echo "$1" >"$WORK/fault.new"
    mv "$WORK/fault.new" "$WORK/fault"
}
met() { grep -q "^$1 $2" "$WORK/faults.txt"; } # met FAULT METHOD
fails() { tail -n "+$((SAID + 1))" "$WORK/collector.log" | grep -qE "store-failed: host=one reason=.*$1"; }
bad_day() { # bad_day FAULT METHOD WORDS: the store has it; the log says so; then it is well again
    SAID=$(wc -l <"$WORK/collector.log")
    set_fault "$1"
    check "$1: a request meets it" wait_for 360 met "$1" "$2"
    [ -z "$3" ] || check "$1: the log says what is wrong" wait_for 240 fails "$3"
    set_fault ""
    check "$1: afterwards more come" more_come
    check "$1: the collector runs" is_alive "$COLLECTOR_PID"
}
check "the index takes an order" index put me <"$WORK/order.pbtx"
check "segments come into the bucket" more_come
bad_day 503 PUT 503
bad_day 500 PUT 500
bad_day 403 PUT 403
bad_day drop PUT 'v1/'
bad_day half PUT 'v1/'
bad_day late PUT ''
bad_day lie PUT 'does not have what it took'
bad_day short HEAD 'does not have what it took'
check "the order is removed" index rm me web
check "the collector takes the rest" wait_for 360 is_drained
check "traces says that nothing is missing" says 'nothing missing' as_me traces missing
check "all are as they were" says '^[1-9][0-9]* traces verified' as_me traces verify
refuses_verify() { ! as_me traces verify; }
set_fault half
check "half of a body is no trace: verify does not say that all are well" refuses_verify
check "and names the trace at which it stopped" says "trace [0-9A-Z]{26}: the collector's store" as_me traces verify
set_fault ""
check "and says so again when the store gives all" says '^[1-9][0-9]* traces verified' as_me traces verify
FILE=$(objects | head -n 1)
ID=$(basename "$FILE" ".pftrace$SUFFIX")
printf X | dd of="$FILE" bs=1 seek=9 conv=notrunc 2>/dev/null
check "a trace that was altered in the bucket is named" says "$ID" as_me traces verify
check "that is exit 3" exits_with 3 as_me traces verify

# ---- a segment that was altered on the host's disk
set_fault 403
check "the index takes an order again" index put me <"$WORK/order.pbtx"
check "the host keeps segments" wait_for 120 spools_more 2
NOTE=$(basename "$(find "$WORK/spool-one" -name '*.000001.segment')")
printf X | dd of="$WORK/spool-one/${NOTE%%.*}.pftrace.000001" bs=1 seek=9 conv=notrunc 2>/dev/null
set_fault ""
check "others come" more_come
check "this one is left at its host, and the log says why" \
    wait_for 120 grep -q 'segment-left-at-host: host=one reason=corrupt' "$WORK/collector.log"
check "where it stays" test -e "$WORK/spool-one/$NOTE"

# ---- a store that says that it has what it never had
set_fault blind
is_believed() { [ "$(grep -c '^blind PUT' "$WORK/faults.txt")" -ge 3 ]; } # an object, its description, the next one
check "a store that takes all and keeps nothing is believed" wait_for 240 is_believed
set_fault ""
finds_two() { [ "$(as_me traces verify | grep -c ' web ')" -ge 2 ]; } # the one that was altered, and this one
check "verify finds what it does not have" wait_for 60 finds_two
finish
