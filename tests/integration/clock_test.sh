#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The clock of a host that is far away: with the same delay both ways its place is good, with
# different ones it is still within the bound. Both services here share one clock: the truth is 0.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet

start_service near || { check "perfleetd opens its sockets" false; finish; }
start_service far
start example "$BIN/perfleet-example" --rate 1000
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
make_pki
start_relay far || { check "the far host's relay listens" false; finish; }
echo "buffers { size_kb: 1024 } duration_ms: 300 data_sources { config { name: \"$EXAMPLE_SOURCE\" } }" \
    >"$WORK/short.pbtx"

# placed TO-MS FROM-MS LIMIT-NS [TRIES]: the far host's offset is within its bound, always, and within
# the limit (in one of the tries, for a minute: the delay is made by a program, which the machine may hold up)
placed() {
    local end=$((SECONDS + 60))
    rm -f "$WORK/port"
    start "delayer-$1-$2" python3 -B "$ROOT/tests/support/delayer.py" "$WORK/port" "$RELAY_ADDR" "$1" "$2"
    wait_for 20 test -s "$WORK/port"
    local rc=1
    for _ in $(seq "${4:-1}"); do
        "$P" record -c "$WORK/short.pbtx" -o "$WORK/x.pftrace" --json -q "${TLS_ME[@]}" \
            --host "near=unix:$WORK/near/consumer.sock" \
            --host "far=tls://127.0.0.1:$(cat "$WORK/port")" >"$WORK/summary.json" || [ $? -eq 6 ] || return # without data
        rc=0
        python3 - "$WORK/summary.json" "$3" <<'END' || rc=$?
import json, sys
far = json.load(open(sys.argv[1]))["hosts"][1]
print(far["clock_offset_ns"], "+-", far["clock_error_ns"], file=sys.stderr)
offset, error = abs(far["clock_offset_ns"]), far["clock_error_ns"]
sys.exit(2 if offset > error else offset > int(sys.argv[2]))
END
        [ $rc -eq 1 ] && [ $SECONDS -lt $end ] || break
    done
    return $rc
}
check "100 ms each way: it is placed within 50 us, and the bound holds" placed 100 100 50000 100
check "120 ms there, 20 ms back: it is within the bound" placed 120 20 70000000
check "0 ms there, 100 ms back: it is within the bound" placed 0 100 70000000

# --- a boot clock that drifts, streamed: it is measured again and again -------------------------------
ppm=1000
head -c 128 /dev/zero >"$WORK/offsets"
start mover python3 -B "$ROOT/tests/support/drifting_clock.py" move "$WORK/offsets" "$WORK/began" $ppm
wait_for 20 test -s "$WORK/began"
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 # the shim is loaded before
export LD_PRELOAD=$PFL_BUILD/tests/libclock_shim.so PFL_CLOCK_SHIM=$WORK/offsets
start_service drifting
start drifting-example "$BIN/perfleet-example" --rate 1000
unset LD_PRELOAD PFL_CLOCK_SHIM
check "the example registers where the clock drifts" wait_for_source "$EXAMPLE_SOURCE" 1
use_service near
echo "buffers { size_kb: 1024 } duration_ms: 8000 data_sources { config { name: \"$EXAMPLE_SOURCE\" } }" \
    >"$WORK/streamed.pbtx"
streamed_points() { # LIMIT-NS: in one of the tries of two minutes, as before
    local rc=2 end=$((SECONDS + 120))
    while [ $rc -eq 2 ] && [ $SECONDS -lt $end ]; do
        "$P" record --stream -c "$WORK/streamed.pbtx" -o "$WORK/streamed.pftrace" -q \
            --host "near=unix:$WORK/near/consumer.sock" --host "drifting=unix:$WORK/drifting/consumer.sock" ||
            [ $? -eq 6 ] || return # near has no data
        rc=0
        python3 -B "$ROOT/tests/support/drifting_clock.py" check "$WORK/streamed.pftrace" "$WORK/began" $ppm "$1" || rc=$?
    done
    return $rc
}
check "1000 ppm, streamed for 8 s: points of each measurement, within 500 us of the truth" \
    streamed_points 500000

# --- hosts with boot clocks of their own: the truth is known -----------------------------------------
if ! pfl_hosts_can_isolate; then
    skip "hosts in time namespaces are placed within 50 us" "needs root and namespaces"
    finish
fi

pfl_hosts_init "$WORK/hosts"
ahead=5000
pfl_host_add ahead $ahead
chmod 755 "$WORK" # it runs as an ordinary user, who may not reach where the programs lie
mkdir "$WORK/bin"
cp "$BIN/perfleetd" "$WORK/bin/"
pfl_host_start ahead "$WORK/bin/perfleetd"
wait_for 20 test -S "$WORK/hosts/ahead/consumer.sock"
use_service near

# true_offset FILE LIMIT-NS: host 1's clock minus host 0's is AHEAD s, within its bound and the limit, at
# the beginning of the recording and, with the drift that was measured, at its end
true_offset() {
    python3 - "$1" "$2" "$ahead" <<'END'
import json, sys
host = json.load(open(sys.argv[1]))["hosts"][1]
begin = host["clock_offset_ns"] - int(sys.argv[3]) * 10**9
wrong = max(abs(begin), abs(begin + host["clock_drift_ns"]))
print("wrong by", wrong, "ns, bound", host["clock_error_ns"], "drift", host["clock_drift_ns"], file=sys.stderr)
sys.exit(2 if wrong > host["clock_error_ns"] else wrong > int(sys.argv[2]))
END
}
both() { # both CONFIG: near and ahead, its summary in both.json
    "$P" record -c "$1" -o "$WORK/both.pftrace" --json -q --host "near=unix:$WORK/near/consumer.sock" \
        --host "ahead=unix:$WORK/hosts/ahead/consumer.sock" >"$WORK/both.json" || [ $? -eq 6 ]
}
offset_is_true() { # CONFIG LIMIT-NS: within its bound, always, and within the limit in one of the tries of a minute
    local rc=1 end=$((SECONDS + 60))
    while [ $SECONDS -lt $end ]; do
        both "$1" || return
        rc=0
        true_offset "$WORK/both.json" "$2" || rc=$?
        [ $rc -eq 1 ] || break
    done
    return $rc
}
check "5000 s ahead: placed within 50 us of the truth, and within the bound" \
    offset_is_true "$WORK/short.pbtx" 50000
echo "buffers { size_kb: 1024 } duration_ms: 4000 data_sources { config { name: \"$EXAMPLE_SOURCE\" } }" \
    >"$WORK/long.pbtx"
check "a recording of 4 s: at its beginning and its end" offset_is_true "$WORK/long.pbtx" 50000
for _ in $(seq $(($(nproc) * 2))); do
    start load sh -c 'while :; do :; done'
done
check "under load: every core busy twice over" offset_is_true "$WORK/short.pbtx" 50000
finish
