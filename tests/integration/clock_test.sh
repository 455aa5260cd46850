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

# placed TO-MS FROM-MS LIMIT-NS: the far host's offset is within its bound, and within the limit
placed() {
    rm -f "$WORK/port"
    start "delayer-$1-$2" python3 -B "$ROOT/tests/support/delayer.py" "$WORK/port" "$RELAY_ADDR" "$1" "$2"
    wait_for 20 test -s "$WORK/port"
    "$P" record -c "$WORK/short.pbtx" -o "$WORK/x.pftrace" --json -q "${TLS_ME[@]}" \
        --host "near=unix:$WORK/near/consumer.sock" \
        --host "far=tls://127.0.0.1:$(cat "$WORK/port")" >"$WORK/summary.json" || return
    python3 - "$WORK/summary.json" "$3" <<'END'
import json, sys
far = json.load(open(sys.argv[1]))["hosts"][1]
print(far, file=sys.stderr)
offset, error = abs(far["clock_offset_ns"]), far["clock_error_ns"]
sys.exit(not (offset <= error and offset <= int(sys.argv[2])))
END
}
check "100 ms each way: the clock is measured and its place good" placed 100 100 1000000
check "120 ms there, 20 ms back: it is within the bound" placed 120 20 70000000
finish
