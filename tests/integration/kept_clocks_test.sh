#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154,SC1091
# Three hosts with boot clocks of their own: in one trace out of a collector's store they are placed as in what `record`
# writes of the same minutes, each within the bound that is printed; also after one of them has started again, with
# another boot clock.
. "$(dirname "$0")/lib.sh"

if ! pfl_hosts_can_isolate; then
    skip "hosts in time namespaces are placed in a trace from the store" "needs root and namespaces"
    finish
fi
HOSTS=(one two three)
AHEAD=(0 5000 100000)
make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pfl_hosts_init "$WORK/hosts"
mkdir "$WORK/bin" && cp "$BIN"/{perfleetd,perfleet-agent,perfleet-example} "$WORK/bin/"
mkdir -m 700 "$WORK/store"
meet=$(pfl_operator_addr)
pki relay meet --ip "$meet"
pfl_operator_start "$BIN/perfleet-relay" --listen "$meet:0" --ca "$WORK/pki/ca.pem" \
    --cert "$WORK/pki/relay-meet.pem" --key "$WORK/pki/relay-meet.key"
wait_for 20 pfl_relay_port_in "$WORK/hosts/perfleet-relay.log" || { check "the relay listens" false; finish; }
RELAY=$meet:$(pfl_relay_port_in "$WORK/hosts/perfleet-relay.log")
fleet() { pfl_operator_run "$BIN/perfleet" "$1" --relay "$RELAY" "${TLS_ME[@]}" "${@:2}"; }

start_host() { # start_host NAME: its service, an example and its agent, with the folders that it has
    local dir=$WORK/hosts/$1
    pfl_host_start "$1" "$WORK/bin/perfleetd" --output-dir "$dir/spool"
    wait_for 20 test -S "$dir/consumer.sock" || return
    pfl_host_start "$1" "$WORK/bin/perfleet-example" --rate 100
    pfl_host_start "$1" "$WORK/bin/perfleet-agent" --relay "$RELAY" --segments-dir "$dir/spool" \
        --consumer-socket "$dir/consumer.sock" --ca "$dir/ca.pem" --cert "$dir/cert.pem" --key "$dir/key.pem"
}
for i in 0 1 2; do
    name=${HOSTS[$i]}
    pfl_host_add "$name" "${AHEAD[$i]}"
    mkdir -m 700 "$WORK/hosts/$name/spool" && chown "$PFL_HOSTS_USER" "$WORK/hosts/$name/spool"
    pki host "$name" --ip "$(pfl_host_addr "$name")" && pfl_host_give_certificate "$name" "$WORK/pki"
    start_host "$name" || { check "the host $name starts" false; finish; }
done
pfl_operator_start "$BIN/perfleet-collector" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}"
wait_for 60 grep -q 'serving: ' "$WORK/hosts/perfleet-collector.log" || { check "the collector serves" false; finish; }

cat >"$WORK/config.pbtx" <<END
buffers { size_kb: 1024 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
cat >"$WORK/order.pbtx" <<END
name: "kept"
select { }
config { $(cat "$WORK/config.pbtx") }
continuous { segment_ms: 4000 }
END
hosts_run() { [ "$(fleet order show kept | grep -c ' running ')" -eq 3 ]; }
kept_of() { fleet traces --json --host "$1" | grep -c '"id"'; }
has_kept() { [ "$(kept_of "$1")" -ge "$2" ]; } # has_kept HOST N
all_have() { has_kept one "$1" && has_kept two "$1" && has_kept three "$1"; }
get() { # get NAME: all that is kept, in one trace
    fleet traces get --whole --order kept -o "$WORK/$1.pftrace" >"$WORK/$1.summary" 2>"$WORK/$1.errors" || [ $? -eq 3 ]
}
placed() { # placed NAME [MACHINES]: within the bounds; what was found is shown, too
    python3 -B "$ROOT/tests/support/placed.py" "$WORK/$1.pftrace" "$WORK/$1.summary" "${2:-3}" >"$WORK/$1.placed" 2>&1
    local rc=$?
    sed "s/^/# $1: /" "$WORK/$1.placed" >&3
    return $rc
}
have_clocks() { # by the descriptions in the store
    python3 - "$WORK/store" "${HOSTS[@]}" <<'PYTHON'
import json, pathlib, sys
notes = [json.loads(p.read_text())['trace']['segment'] for p in pathlib.Path(sys.argv[1]).rglob("*.json")]
has = {n["host"] for n in notes if any(int(c["host_boot_ns"]) >= int(n["end_boot_ns"]) for c in n.get("clock", []))}
print(len(notes), 'descriptions; measured:', has)
sys.exit(has != set(sys.argv[2:]))
PYTHON
}
exec 3>&1
wait_for 60 fleet order put "$WORK/order.pbtx" || { check "the order is taken" false; finish; }
check "the order runs at all three" wait_for 60 hosts_run
check "segments of all three are kept" wait_for 120 all_have 2
{ cat "$WORK/config.pbtx"; echo 'duration_ms: 3000'; } >"$WORK/record.pbtx"
fleet record -c "$WORK/record.pbtx" --select '*' --json -q -o "$WORK/recorded.pftrace" >"$WORK/recorded.summary" 2>"$WORK/recorded.errors"
check "in the recording they are where they belong" placed recorded
check "each has segments whose clock was measured after their end" have_clocks
check "all that is kept becomes one trace" get kept
check "and in it they are where they belong" placed kept

# ---- one starts again: its order is on its disk, its boot clock is another one's
ran=$(kept_of two)
pfl_host_kill two
wait_for 60 is_gone "${PFL_HOST_PID[two]}"
rm -f "$WORK"/hosts/two/*.sock
pfl_host_add two 70000
pki host two --ip "$(pfl_host_addr two)" --force && pfl_host_give_certificate two "$WORK/pki"
check "a host starts again, with another boot clock" start_host two
check "its segments from before and after are kept" wait_for 120 has_kept two $((ran + 3))
check "all that is kept becomes one trace again" get both
check "in which both boots of it are where they belong" placed both 4
check "each as a machine" grep -q '^two (boot 2): ' "$WORK/both.summary"
finish
