#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# A host keeps an order: its segments wait in the agent's folder until a collector took them, whatever is killed.
. "$(dirname "$0")/lib.sh"

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
cat >"$WORK/policy.pbtx" <<END
rule { name: "all" host: "*" operator: "me" role: "keeper" }
role { name: "keeper" collect: true order: true }
END
MEETING=(--policy "$WORK/policy.pbtx")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -p "$WORK/one" "$WORK/spool" "$WORK/pulled"
use_service one
start_perfleetd() {
    start one "$BIN/perfleetd" --output-dir "$WORK/spool"
    SERVICE_PID=$STARTED
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
}
start_host_agent() {
    rm -f "$WORK/agent.metrics"
    start_agent one --segments-dir "$WORK/spool" --metrics-socket "$WORK/agent.metrics"
    AGENT_PID=$STARTED
}
start_perfleetd || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 1000
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
start_host_agent
spool_for() { # ORDERER WORD...
    timeout 100 python3 -B "$ROOT/tests/support/spool_peer.py" "$PFL_BUILD/tests/tunnel_client" "$RELAY" test "$WORK/pki/ca.pem" \
        "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key" spool one ${1:+"$1"} -- "${@:2}" 2>>"$WORK/spool.log"
}
spool() { spool_for me "$@"; }
cat >"$WORK/order.pbtx" <<END
buffers { size_kb: 4096 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
"$PFL_BUILD/tests/config_encode" <"$WORK/order.pbtx" >"$WORK/order.bin"
order_is() { spool orders | grep -q "^me web $1"; }
has_segments() { [ "$(spool list | grep -c bytes=)" -ge "$1" ]; }
check "an agent that is connected takes an order" wait_for 30 spool put web "$WORK/order.bin" 1000
check "a stream for no orderer takes no order" \
    says 'refused 403: this stream is for no orderer' spool_for '' put other "$WORK/order.bin" 1000
check "the order runs" wait_for 30 order_is running
check "its segments wait for the collector" wait_for 60 has_segments 2
check "the relay knows what waits" wait_for 30 says '"segments":[1-9]' \
    "$PFL_BUILD/tests/tunnel_client" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key" call GET /v1/spools
scrape() { curl -sS -m 60 -o "$WORK/now" --unix-socket "$WORK/agent.metrics" http://localhost/metrics; }
is_above() { # FAMILY NUMBER
    scrape && [ "$(sed -n "s/^$1 //p" "$WORK/now")" -gt "$2" ]
}
check "the agent's metrics have the order that runs" wait_for 30 is_above perfleet_agent_orders_running 0
check "the segments that wait" is_above perfleet_agent_segments 1
check "and their bytes" is_above perfleet_agent_segments_bytes 1000
check "and room on the disk" is_above perfleet_agent_segments_have_room 0
check "all of it is in docs/metrics.md" \
    python3 -B "$ROOT/tests/support/metrics_check.py" documented "$WORK/now" "$ROOT/docs/metrics.md"
check "they are read, verified and released" spool pull "$WORK/pulled"
check "and counted" is_above perfleet_agent_segments_released_total 1
opens_alone() {
    local file
    for file in "$WORK"/pulled/*.pftrace; do
        $CHECK "$file" --min-packets 1 --compressed zstd || return
    done
}
check "each opens alone, and is compressed" opens_alone
for who in AGENT SERVICE AGENT; do
    pid=${who}_PID
    kill -9 "${!pid}"
    wait_for 20 is_gone "${!pid}"
    if [ $who = AGENT ]; then start_host_agent; else rm -f "$WORK"/one/*.sock; start_perfleetd; fi
    check "after kill -9 of the ${who,,} the order runs again" wait_for 60 order_is running
    check "and has new segments" wait_for 60 has_segments 2
done
one_has_no_hole() { # every number of each run, from 1 to its highest
    local id numbers
    for id in $(cut -d' ' -f1 "$WORK/given" | sort -u); do
        numbers=$(grep "^$id" "$WORK/given" | cut -d' ' -f2 | sort -nu)
        [ "$(head -1 <<<"$numbers")" -eq 1 ] && [ "$(tail -1 <<<"$numbers")" -eq "$(wc -l <<<"$numbers")" ] || return
    done
}
check "the order is removed" spool remove web
is_drained() { spool pull "$WORK/pulled" && [ -z "$(ls "$WORK/spool")" ]; }
check "all is taken, and nothing is left in the folder" wait_for 120 is_drained
ls "$WORK/pulled" | sed 's/\./ /; s/\.pftrace//' >"$WORK/given"
check "of every run all numbers were given out" one_has_no_hole
check "an order without a valid name is refused with a sentence" \
    says 'refused 400' spool put 'no name' "$WORK/order.bin" 1000

# --- a collector that never returns ---------------------------------------------------------------
check "an order is put again" wait_for 30 spool put web "$WORK/order.bin" 1000
check "and runs" wait_for 30 order_is running
check "the metrics say for how long its collector has not put it again" \
    wait_for 30 is_above perfleet_agent_orders_unput_seconds 1
kill "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
rm "$WORK"/spool/*.order
start_host_agent
has_no_order() { local orders; orders=$(spool orders) && ! grep -q web <<<"$orders"; }
check "without its file the next agent does not have the order" wait_for 30 has_no_order
check "and no run of it begins" eval 'sleep 2; [ "$(ls "$WORK"/spool/*.run | wc -l)" -le 1 ]'
kill "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
check "--orders-expire-h is at most ten years" \
    says 'orders_expire_h|orders-expire-h' exits_with 2 "$BIN/perfleet-agent" --orders-expire-h 87601 --check-config
finish
