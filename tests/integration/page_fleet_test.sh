#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2153,SC2154
# perfleet ui's page of the fleet: what a relay says of itself and to whom; losses by cause; certificates that end soon;
# and a browser that walks it.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/axe.sh"
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator guest --days 3
cat >"$WORK/policy.pbtx" <<END
rule { name: "me" operator: "me" host: "*" }
rule { name: "guests" operator: "guest" host: "web1" role: "guests" }
role { name: "guests" method: "Query*" }
END
MEETING=(--policy "$WORK/policy.pbtx" --crl "$WORK/pki/crl.pem")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -m 700 "$WORK/shots"

start_host() { # start_host NAME
    mkdir -p "$WORK/$1"
    use_service "$1"
    start "$1" "$BIN/perfleetd"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || return
    start "example-$1" "$BIN/perfleet-example" --rate 1000
    wait_for_source "$EXAMPLE_SOURCE" 1 && start_agent "$1"
}
start_host web1 || { check "the first host is there" false; finish; }
start_host db1 || { check "and the second" false; finish; }
# The certificate of db1 ends soon: another connection shows it.
kill "$STARTED"
wait "$STARTED"
pki host db1 --ip 127.0.0.1 --force --days 9
start agent-db1 "$BIN/perfleet-agent" --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/host-db1.pem" \
    --key "$WORK/pki/host-db1.key" --consumer-socket "$WORK/db1/consumer.sock"
is_back() { [ "$(fleet hosts --json | grep -o '"is_connected": *true' | wc -l)" -eq 2 ]; }
check "two hosts are connected" wait_for 20 is_back

cat >"$WORK/full.pbtx" <<END
buffers { size_kb: 16 fill_policy: DISCARD }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
check "a buffer of web1 is full soon" "$P" start full -c "$WORK/full.pbtx" --relay "$RELAY" "${TLS_ME[@]}" --host web1

relay_says() { # relay_says OPERATOR
    "$PFL_BUILD/tests/tunnel_client" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-$1.pem" "$WORK/pki/operator-$1.key" \
        call GET /v1/relay
}
check "a relay says its figures" says '"hosts_known":2,"hosts_connected":2,"collectors":0,' relay_says me
check "with the end of its certificate and of its list" eval \
    'relay_says me | grep -qE "\"certificate_end_s\":1[0-9]{9},\"crl_end_s\":1[0-9]{9},"'
check "and an operator with a small role gets them, without a host's name" eval \
    'relay_says guest >"$WORK/said" && grep -q "\"streams\":" "$WORK/said" && ! grep -q db1 "$WORK/said"'
pki operator stranger
check "whom no rule names gets none" says 'no rule of the policy lets stranger use any host' relay_says stranger

visit() { # visit NAME PATH: with the cookie of the link that NAME.log has
    local link jar=$WORK/$1.jar
    link=$(grep -o 'http://127[^" ]*' "$WORK/$1.log")
    [ -e "$jar" ] || curl -s -c "$jar" -o "$WORK/entered" "$link"
    curl -s -b "$jar" "${link%%/enter*}$2"
}
start guest "$P" ui --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-guest.pem" \
    --key "$WORK/pki/operator-guest.key" --port 0
wait_for 20 grep -q '/enter?token=' "$WORK/guest.log"
sees_relay() { says '2 of 2 known are connected' visit guest /fleet; }
check "an operator with a small role sees the relay's figures" wait_for 20 sees_relay
check "sums of the hosts that he may see" says 'Of 1 of 1 hosts' visit guest /fleet
check "no other host" eval '! visit guest /fleet | grep -q db1'
check "and that his certificate ends soon" says '<th scope="row">yours</th>.*<span class="warn">20[0-9-]*</span></td><td data-label="Left">[23] days' visit guest /fleet
start local "$P" ui --host "one=unix:$WORK/web1/consumer.sock" --port 0
wait_for 20 grep -q '/enter?token=' "$WORK/local.log"
loses() { visit local /fleet | grep -q '<th scope="row">discarded</th>'; }
check "without a relay the page has the losses" wait_for 30 loses
check "and no relay" eval '! visit local /fleet | grep -q "<h2>Relay"'

start quick "$P" ui --relay "$RELAY" "${TLS_ME[@]}" --timeout 1s --port 0
QUICK=$STARTED
wait_for 20 grep -q '/enter?token=' "$WORK/quick.log"
check "it is there" says '<h2>Relay' visit quick /fleet
kill -STOP "$MEETING_PID"
gives_up() { visit quick "/traces?since=1h" | grep -qF 'the collector did not answer in time'; }
SINCE=$SECONDS
check "a relay that does not answer is not waited for" gives_up
kill "$QUICK"
wait "$QUICK"
check "nor by the end of the pages" test $? -eq 0
check "long before its connection is given up" [ $((SECONDS - SINCE)) -lt 9 ]
kill -CONT "$MEETING_PID"

start ui "$P" ui --relay "$RELAY" "${TLS_ME[@]}" --port 0
UI=$STARTED
wait_for 20 grep -q '/enter?token=' "$WORK/ui.log"
if ! command -v chromium >/dev/null; then
    skip "a browser walks the page" "no chromium"
else
    axe_find || { AXE=-; skip "axe-core judges the page" "no npm, or axe-core cannot be installed"; }
    tap_claims env -u PERFETTO_PRODUCER_SOCK_NAME python3 -B "$ROOT/tests/support/page_fleet_walk.py" \
        "$(grep -o 'http://127[^ ]*' "$WORK/ui.log")" "$MEETING_PID" "$WORK/shots" "$AXE" "${PFL_CHROMIUM_FLAGS[@]}"
    [ -z "${PFL_SHOTS:-}" ] || cp "$WORK/shots"/*.png "$PFL_SHOTS/"
fi
kill "$UI"
wait "$UI"
check "a signal ends it with 0" test $? -eq 0
finish
