#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2153,SC2154
# perfleet-collector on real processes: it starts with the defaults, keeps a store and an index, learns the hosts of a
# relay as the policy has it, survives the relay's restart, and ends in order.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
C=$BIN/perfleet-collector

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator keeper
pki operator stranger
TLS_KEEPER=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-keeper.pem" --key "$WORK/pki/operator-keeper.key")

# ---- settings
check "without a relay it is wrong usage" exits_with 2 "$C" --store "$WORK/store" "${TLS_KEEPER[@]}"
check "without a store, too" exits_with 2 "$C" --relay 127.0.0.1 "${TLS_KEEPER[@]}"
check "and with an index of another kind" exits_with 2 "$C" --relay 127.0.0.1 --store "$WORK" --index mysql:x "${TLS_KEEPER[@]}"
mkdir -m 700 "$WORK/store"
check "settings can be checked" "$C" --relay 127.0.0.1 --store "$WORK/store" "${TLS_KEEPER[@]}" --check-config
pki host web --ip 127.0.0.1
check "a host's certificate is refused" exits_with 1 "$C" --relay 127.0.0.1 --store "$WORK/store" --ca "$WORK/pki/ca.pem" \
    --cert "$WORK/pki/host-web.pem" --key "$WORK/pki/host-web.key"

# ---- a relay with two hosts, of which the policy gives one
start_service one || { check "perfleetd opens its sockets" false; finish; }
mkdir -p "$WORK/two"
ln -s "$WORK/one/consumer.sock" "$WORK/two/consumer.sock"
cat >"$WORK/policy.pbtx" <<END
rule { name: "keeper" operator: "keeper" host: "*" label: "role=web" role: "collectors" }
role { name: "collectors" collect: true }
END
MEETING=(--policy "$WORK/policy.pbtx")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_agent one --label role=web
start_agent two --label role=db

start_collector() {
    rm -f "$WORK/metrics.sock"
    start collector "$C" --relay "$RELAY" --store "$WORK/store" "${TLS_KEEPER[@]}" --metrics-socket "$WORK/metrics.sock"
    COLLECTOR_PID=$STARTED
}
figure_is() { # figure_is NAME VALUE
    curl -sf --unix-socket "$WORK/metrics.sock" http://localhost/metrics | grep -q "^$1 $2\$"
}
start_collector
check "it connects to the relay" wait_for 20 figure_is perfleet_collector_relays_connected 1
check "and knows the host that the policy gives it" wait_for 20 figure_is perfleet_collector_hosts 1
check "its index is in the store" test -s "$WORK/store/index.sqlite"
check "for nobody else to read" says '^600$' stat -c %a "$WORK/store/index.sqlite"
check "it runs in its sandbox" says 'seccomp|landlock' grep -i sandbox "$WORK/collector.log"

# ---- the relay comes back
kill -9 "$MEETING_PID"
check "a lost relay's hosts are unknown" wait_for 20 figure_is perfleet_collector_hosts 0
start_meeting "$RELAY"
check "and known again when it is back" wait_for 60 figure_is perfleet_collector_hosts 1

# ---- its own end
kill -9 "$COLLECTOR_PID"
wait "$COLLECTOR_PID" 2>/dev/null
start_collector
check "after a kill -9 it starts on the same store" wait_for 20 figure_is perfleet_collector_hosts 1
kill -HUP "$COLLECTOR_PID"
check "it reloads its certificates" wait_for 20 grep -q 'reloaded: certificate=' "$WORK/collector.log"
OLD=$COLLECTOR_PID
mkdir "$WORK/second"
start second "$C" --relay "$RELAY" --store "$WORK/store" "${TLS_KEEPER[@]}"
SECOND_PID=$STARTED
check "another process of the same name takes its place" wait_for 60 is_gone "$OLD"
check "which the first one says" grep -q 'replaced: reason=' "$WORK/collector.log"
kill -TERM "$SECOND_PID"
wait "$SECOND_PID"
ENDED=$?
check "SIGTERM ends it with 0" test "$ENDED" -eq 0

# ---- no right
start stranger "$C" --relay "$RELAY" --store "$WORK/second" --ca "$WORK/pki/ca.pem" \
    --cert "$WORK/pki/operator-stranger.pem" --key "$WORK/pki/operator-stranger.key" --metrics-socket "$WORK/metrics.sock"
check "without a right it knows no host" wait_for 20 figure_is perfleet_collector_relays_connected 1
check "and goes on" figure_is perfleet_collector_hosts 0
finish
