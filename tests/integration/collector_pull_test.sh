#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154
# Segments of two hosts come into the collector's store, whatever is killed: each opens alone, has the SHA-256 that its
# description says, and no number of a run is missing.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

if ! "$BIN/perfleet-agent" --help | grep -q -- --segments-dir; then
    skip "segments come into the store" "this agent keeps none"
    finish
fi
make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -p "$WORK/store"
start_host() { # start_host NAME: its service, an example, its agent
    mkdir -p "$WORK/$1" "$WORK/spool-$1"
    use_service "$1"
    start "$1" "$BIN/perfleetd" --output-dir "$WORK/spool-$1"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || return
    start "example-$1" "$BIN/perfleet-example" --rate 1000
    wait_for_source "$EXAMPLE_SOURCE" 1 && start_host_agent "$1"
}
start_host_agent() {
    start_agent "$1" --segments-dir "$WORK/spool-$1"
    AGENT_PID=$STARTED
}
index() { "$PFL_BUILD/tests/order_index" "sqlite:$WORK/store/index.sqlite" "$@"; }
start_collector() {
    start collector "$BIN/perfleet-collector" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}" --newest-first crash
    COLLECTOR_PID=$STARTED
}
count_stored() { find "$WORK/store/v1" -path "*/$1/*.pftrace" 2>/dev/null | wc -l; }
has_stored() { [ "$(count_stored "$1")" -ge "$2" ]; } # has_stored HOST N
more_come() { # from each host, N more
    local one two
    one=$(count_stored one) two=$(count_stored two)
    wait_for 120 has_stored one $((one + $1)) && wait_for 120 has_stored two $((two + $1))
}

cat >"$WORK/order.pbtx" <<END
name: "web"
select { }
config {
  buffers { size_kb: 4096 fill_policy: RING_BUFFER }
  data_sources { config { name: "$EXAMPLE_SOURCE" } }
}
continuous { segment_ms: 1000 }
END
start_host one || { check "the first host is there" false; finish; }
start_host two || { check "and the second" false; finish; }
check "the index takes an order" index put me <"$WORK/order.pbtx"
start_collector
check "segments of both hosts come into the store" more_come 2

# ---- what is killed comes back, and all goes on
for _ in 1 2 3; do
    kill -9 "$COLLECTOR_PID"
    wait_for 20 is_gone "$COLLECTOR_PID"
    start_collector
    check "after kill -9 of the collector more come" more_come 1
done
kill -9 "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
start_host_agent two
check "after kill -9 of an agent, too" more_come 1
kill -9 "$MEETING_PID"
start_meeting "$RELAY"
check "and of the relay" more_come 1

# ---- a host's disk as it was some time ago, with other bytes under a known number
kill -9 "$COLLECTOR_PID"
wait_for 20 is_gone "$COLLECTOR_PID"
has_spooled() { [ "$(find "$WORK/spool-two" -name '*.segment' | wc -l)" -ge "$1" ]; }
check "without a collector the hosts keep segments" wait_for 60 has_spooled 3
kill -9 "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
cp -a "$WORK/spool-two" "$WORK/spool-before"
start_host_agent two
start_collector
check "a collector takes them" more_come 1
check "the order is removed" index rm me web
is_drained() { [ -z "$(ls "$WORK/spool-$1")" ]; }
check "the collector takes the rest of the first host" wait_for 120 is_drained one
check "and of the second" wait_for 120 is_drained two
stored_sums() { (cd "$WORK/store/v1" && find . -type f -exec sha256sum {} + | sort); }
stored_sums >"$WORK/sums.before"
kill -9 "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
cp -a "$WORK/spool-before/." "$WORK/spool-two/"
# The note has the SHA-256 of the bytes, so that both look like the host's own.
cat >"$WORK/alter.py" <<'END'
import hashlib, pathlib, sys
note = sorted(pathlib.Path(sys.argv[1]).glob("*.segment"))[1]
run, number, _ = note.name.split(".")
trace = note.with_name(f"{run}.pftrace.{number}")
old = trace.read_bytes()
new = old[:9] + bytes([old[9] ^ 1]) + old[10:]
trace.write_bytes(new)
said = note.read_bytes()
assert said.count(hashlib.sha256(old).digest()) == 1
note.write_bytes(said.replace(hashlib.sha256(old).digest(), hashlib.sha256(new).digest()))
print(f"order=\"web\" run=\"{run}\" number={int(number)}")
END
ALTERED=$(python3 -B "$WORK/alter.py" "$WORK/spool-two")
start_host_agent two
check "other bytes under a known number are not taken, and the log names them" \
    wait_for 120 grep -q "segment-left-at-host: host=two reason=conflict $ALTERED" "$WORK/collector.log"
is_alone() { [ "$(find "$WORK/spool-two" -name '*.segment' | wc -l)" -eq 1 ]; }
check "what is the same as in the store may go; the altered one stays at its host" wait_for 120 is_alone
stored_sums >"$WORK/sums.after"
check "the store has what it had" cmp "$WORK/sums.before" "$WORK/sums.after"

# ---- nothing is missing
opens_alone() {
    local file
    for file in "$WORK"/store/v1/test/*/*/*/*/*/*.pftrace; do
        $CHECK "$file" --min-packets 1 || return
    done
}
check "each opens alone" opens_alone
cat >"$WORK/whole.py" <<'END'
import collections, hashlib, json, pathlib, sys
runs = collections.defaultdict(list)
for path in pathlib.Path(sys.argv[1]).glob("v1/**/*.json"):
    segment = json.loads(path.read_text())["trace"]["segment"]
    key = (segment["host"], segment["order"], segment["incarnation"])
    last = segment.get("gap", {}).get("last", segment["number"])
    runs[key] += range(segment["number"], last + 1)
    if "gap" not in segment:
        data = path.with_suffix(".pftrace").read_bytes()
        assert hashlib.sha256(data).hexdigest() == segment["sha256"], path
        assert path.parent.name == segment["host"], path
for key, numbers in runs.items():
    assert sorted(numbers) == list(range(1, len(numbers) + 1)), (key, sorted(numbers))
assert {key[0] for key in runs} == {"one", "two"}, runs.keys()
END
check "each has its SHA-256, and no number is missing or there twice" python3 -B "$WORK/whole.py" "$WORK/store"
kill -TERM "$COLLECTOR_PID"
wait "$COLLECTOR_PID"
ENDED=$?
check "SIGTERM ends the collector with 0" test "$ENDED" -eq 0
check "the index has what is in the store" python3 -B -c '
import pathlib, sqlite3, sys
index = sqlite3.connect(sys.argv[1] + "/index.sqlite")
keys = {key for (key,) in index.execute("select object_key from segment where state = 1") if key}
files = {str(p.relative_to(sys.argv[1])) for p in pathlib.Path(sys.argv[1]).glob("v1/**/*.pftrace")}
assert keys == files, keys ^ files' "$WORK/store"
finish
