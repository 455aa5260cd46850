#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# A host is away for a week and comes back with PFL_BACK_MB (300) of segments, while relay and collector are killed: all
# is delivered, nothing twice, what the age limit removed is a gap with numbers, and other hosts wait no longer than before.
. "$(dirname "$0")/lib.sh"
MB=${PFL_BACK_MB:-300}
PACKET_BYTES=2058 # the mean of chaos_writer's
[ -z "$PFL_SANITIZE" ] || { skip "a host that was away for a week" "the clock shim is no sanitizer's"; finish; }

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
mkdir -p "$WORK/store"
# All programs have these clocks: the wall clock (0) and the boot clock (7) go days ahead together, as after a suspend.
python3 -c 'import sys; sys.stdout.buffer.write(bytes(128))' >"$WORK/clocks"
days_later() { # how many days after the begin it is
    python3 -B -c 'import struct, sys; 
with open(sys.argv[1], "r+b") as clocks:
    for clock in 0, 7:
        clocks.seek(8 * clock)
        clocks.write(struct.pack("<q", int(sys.argv[2]) * 86400 * 10**9))' \
        "$WORK/clocks" "$1"
}
shimmed() { LD_PRELOAD=$PFL_BUILD/tests/libclock_shim.so PFL_CLOCK_SHIM=$WORK/clocks "$@"; }
shimmed start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_host() { # start_host NAME
    mkdir -p "$WORK/$1" "$WORK/spool-$1"
    use_service "$1"
    shimmed start "$1" "$BIN/perfleetd" --output-dir "$WORK/spool-$1"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
}
start_host_agent() { # start_host_agent NAME [RELAY]
    # Its certificate is of the begin.
    [ -e "$WORK/pki/host-$1.pem" ] || pki host "$1" --ip 127.0.0.1 || return
    shimmed start "agent-$1" "$BIN/perfleet-agent" --relay "${2:-$RELAY}" --ca "$WORK/pki/ca.pem" \
        --cert "$WORK/pki/host-$1.pem" --key "$WORK/pki/host-$1.key" --consumer-socket "$WORK/$1/consumer.sock" \
        --segments-dir "$WORK/spool-$1" --segments-mib 20480
    AGENT_PID=$STARTED
}
start_collector() {
    shimmed start collector "$BIN/perfleet-collector" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}" --keep-bytes none
    COLLECTOR_PID=$STARTED
}
index() { shimmed "$PFL_BUILD/tests/order_index" "sqlite:$WORK/store/index.sqlite" "$@"; }
as_me() { shimmed fleet "$@"; }
is_stored() { [ "$(find "$WORK/store/v1" -path "*/$1/*.pftrace" 2>/dev/null | wc -l)" -ge "$2" ]; } # is_stored HOST N
spooled() { find "$WORK/spool-away" -name '*.segment' | wc -l; }
has_spooled() { [ "$(spooled)" -ge "$1" ]; }

# Bytes that do not compress, and so many a segment that 10 GB are some hundred segments.
cat >"$WORK/order.pbtx" <<END
name: "web"
select { }
config {
  buffers { size_kb: 131072 fill_policy: RING_BUFFER }
  data_sources { config { name: "com.example.chaos" } }
  data_sources { config { name: "$EXAMPLE_SOURCE" } }
}
continuous { segment_ms: 1000 segment_bytes: 67108864 }
quota { bytes: 21474836480 }
compression: NONE
END
for host in one two; do
    start_host $host || { check "host $host is there" false; finish; }
    start "example-$host" "$BIN/perfleet-example" --rate 200
    start_host_agent $host
done
start_host away || { check "host away is there" false; finish; }
start_host_agent away
check "the index takes an order" index put me <"$WORK/order.pbtx"
start_collector
check "segments of all hosts come into the store" \
    eval 'wait_for 120 is_stored one 2 && wait_for 120 is_stored two 2 && wait_for 120 is_stored away 1'

# ---- away
kill -9 "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
start_host_agent away 127.0.0.1:1
BEFORE=$(spooled)
check "the host that is away goes on with its order" wait_for 60 has_spooled $((BEFORE + 3))
QUIET_BEGIN=$(date +%s)
days_later 2
head -c 4194304 /dev/urandom >"$WORK/block"
use_service away
start writer "$PFL_BUILD/tests/chaos_writer" "$PERFETTO_PRODUCER_SOCK_NAME" "$WORK/block" 1 $((MB * 1000000 / PACKET_BYTES)) "${PFL_BACK_RATE:-6000}"
WRITER_PID=$STARTED
check "it records $MB MB" wait_for $((120 + MB / 2)) grep -q '^written' "$WORK/writer.log"
ENOUGH=$((MB * 90 / 100))
has_enough() { [ "$(du -sb "$WORK/spool-away" | cut -f1)" -ge $((ENOUGH * 1000000)) ]; }
check "which are in its spool" wait_for 120 has_enough
kill "$WRITER_PID" # it would write them again for the next session
days_later 8
check "what is older than a week goes" wait_for 60 grep -q 'segment-removed: .*reason=age' "$WORK/agent-away.log"
is_settled() { # nothing that is so old is left
    local before after
    before=$(grep -c 'reason=age' "$WORK/agent-away.log") && sleep 3 && after=$(grep -c 'reason=age' "$WORK/agent-away.log")
    [ "$before" -eq "$after" ]
}
check "and nothing else" eval 'wait_for 60 is_settled && has_enough'

# ---- back
kill -9 "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
sums_of() { find "$@" -type f -exec sha256sum {} + | cut -d' ' -f1 | sort; }
sums_of "$WORK/spool-away" -name '*.pftrace.*' >"$WORK/sums.spool" # also of the one that is being written
noted() { (cd "$WORK/spool-away" && for note in *.segment; do note=${note%.segment}; echo "${note%.*}.pftrace.${note##*.}"; done); }
(cd "$WORK/spool-away" && noted | while read -r file; do [ ! -e "$file" ] || sha256sum "$file"; done) | cut -d' ' -f1 |
    sort >"$WORK/sums.noted"
BACK_BEGIN=$(date +%s)
start_host_agent away
has_come() { # has_come PERCENT of the megabytes
    [ "$(find "$WORK/store/v1" -path '*/away/*.pftrace' -printf '%k\n' | awk '{ n += $1 } END { print int(n / 1000) }')" -ge $((MB * $1 / 100)) ]
}
check "it delivers" wait_for 300 has_come 20
kill -9 "$MEETING_PID"
shimmed start_meeting "$RELAY"
check "and goes on when the relay was killed" wait_for 300 has_come 45
kill -9 "$COLLECTOR_PID"
wait_for 20 is_gone "$COLLECTOR_PID"
start_collector
check "and when the collector was" wait_for $((300 + MB / 5)) has_come 90
each_is_stored_once() {
    sums_of "$WORK/store/v1" -path '*/away/*' -name '*.pftrace' >"$WORK/sums.stored"
    [ -s "$WORK/sums.noted" ] && [ -z "$(comm -23 "$WORK/sums.noted" "$WORK/sums.stored")" ] && [ -z "$(uniq -d "$WORK/sums.stored")" ]
}
check "each of its segments is in the store, once, with its SHA-256" wait_for $((120 + MB / 10)) each_is_stored_once
BACK_END=$(date +%s)
check "the order is removed" index rm me web
is_drained() { ! find "$WORK"/spool-* -name '*.segment' | grep -q .; }
check "all is taken" wait_for 240 is_drained
check "the gap has its numbers, and its reason" python3 -B -c '
import json, pathlib, sys
gaps = [s for s in (json.loads(p.read_text())["trace"]["segment"] for p in pathlib.Path(sys.argv[1]).rglob("*.json"))
        if s["host"] == "away" and "gap" in s]
print(gaps)
assert any(s["gap"]["why"] == "AGE" and s["gap"]["last"] >= s["number"] + 1 for s in gaps)' "$WORK/store/v1"
check "traces says how many are in gaps, and that no number is missing besides" says 'nothing missing|in gaps' as_me traces missing
check "all are as they were" says '^[1-9][0-9]* traces verified' as_me traces verify
cat >"$WORK/waits.py" <<'END'
import json, pathlib, statistics, sys
store, quiet, begin, end = sys.argv[1], *map(float, sys.argv[2:])
days, waits = 86400, {"before": [], "meanwhile": []}
for path in pathlib.Path(store).rglob("*.json"):
    trace = json.loads(path.read_text())["trace"]
    ended, stored = int(trace["segment"]["end_unix_ns"]) / 1e9, int(trace["stored_unix_ns"]) / 1e9
    if trace["segment"]["host"] == "away" or "gap" in trace["segment"]:
        continue
    if quiet + 2 * days < ended < begin + 2 * days and stored - ended < days:
        waits["before"].append(stored - ended)
    if begin + 8 * days <= ended < end + 8 * days:
        waits["meanwhile"].append(stored - ended)
before, meanwhile = (statistics.median(waits[when]) for when in ("before", "meanwhile"))
print(f"others wait {meanwhile:.2f} s ({max(waits['meanwhile']):.2f} at most), {before:.2f} s before; back for {end - begin:.0f} s")
sys.exit(meanwhile > 2 * before + 1)
END
OTHERS=$(python3 -B "$WORK/waits.py" "$WORK/store/v1" "$QUIET_BEGIN" "$BACK_BEGIN" "$BACK_END")
NO_LONGER=$?
echo "# $OTHERS"
check "the segments of other hosts wait no longer than before" test "$NO_LONGER" -eq 0
finish
