#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The operator behind a relay: hosts by name and label, one trace of all, a relay that dies in the
# middle, and what is reported when something is wrong.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
# shellcheck disable=SC2034
OK=0 NOTHING=1 USAGE=2 PARTIAL=4

hosts_are() { # hosts_are COUNT: so many are connected
    [ "$(fleet hosts | grep -cE "connected from| up ")" -eq "$1" ]
}

make_pki
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
zone=0
for name in one two three; do
    zone=$((zone + 1))
    start_service $name
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    start_agent $name --label "role=web,zone=z$zone"
    eval "agent_$name=\$STARTED"
done
config "$WORK/short.pbtx" 1000
config "$WORK/run.pbtx" 0

check "the hosts that dialled are shown with labels and clocks" wait_for 20 hosts_are 3
check "a selection shows two of them" says '^three  *up ' fleet hosts --select 'zone!=z2'
export XDG_CACHE_HOME=$WORK/cache
completed() { "$P" complete "@$1" --relay "$RELAY" "${TLS_ME[@]}"; }
check "completion knows the hosts" says '^three$' completed hosts
check "and their labels" says '^zone=z3$' completed labels
check "and that none of them left" test -z "$(completed left)"
check "as JSON with what the relay knows" says '"zone": "z3"' fleet hosts --host three --json
check "selected hosts are recorded into one file" \
    fleet record -c "$WORK/short.pbtx" -o "$WORK/web.pftrace" --select role=web --quorum 100%
check "contiguous and without loss" \
    $CHECK "$WORK/web.pftrace" --machines 3 --disjoint --contiguous --lossless --min-packets 10
check "hosts are chosen by name" \
    fleet record -c "$WORK/short.pbtx" -o "$WORK/two.pftrace" --host three --host one
check "these and no others" $CHECK "$WORK/two.pftrace" --machines 2 --disjoint --contiguous --lossless
check "sessions are left running through the relay" fleet start flight -c "$WORK/run.pbtx" --select role
check "and copied" fleet snapshot flight -o "$WORK/flight.pftrace" --select role
check "the copy is whole" $CHECK "$WORK/flight.pftrace" --machines 3 --disjoint --contiguous --lossless
check "and thrown away" fleet kill flight --select role

check "the doctor finds the hosts well" says '^well +one: clock' fleet doctor
echo 'buffers { size_kb: 1024 } data_sources { config { name: "no.such.source" } }' >"$WORK/missing.pbtx"
check "and tells of a data source that nobody has" \
    says 'two: data source: no producer there offers "no.such.source"' fleet doctor -c "$WORK/missing.pbtx"
check "with an exit code for warnings" exits_with 3 fleet doctor -c "$WORK/missing.pbtx"
pki operator brief --days 3
brief() { "$P" doctor --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-brief.pem" \
    --key "$WORK/pki/operator-brief.key"; }
check "and of a certificate that is about to expire" says 'your certificate.*expires in [23] days' brief
check "and a host's certificate has its day" says ' 20[0-9]{2}-[0-9]{2}-[0-9]{2}$' fleet hosts --columns name,certificate
start_service brief
pki host brief --ip 127.0.0.1 --force --days 5
start agent-brief "$BIN/perfleet-agent" --relay "$RELAY" --ca "$WORK/pki/ca.pem" \
    --cert "$WORK/pki/host-brief.pem" --key "$WORK/pki/host-brief.key" \
    --consumer-socket "$WORK/brief/consumer.sock" --silence-ms 1500
BRIEF=$STARTED
brief_host_is_told() { fleet doctor --host brief | grep -qE '^warning brief: certificate: expires in [45] days'; }
check "that of a host, too, which the relay has seen" wait_for 20 brief_host_is_told
kill -STOP "$MEETING_PID"
check "a relay that says nothing is given up" wait_for 10 grep -q 'relay-lost' "$WORK/agent-brief.log"
kill -CONT "$MEETING_PID"
kill "$BRIEF"
wait "$BRIEF"
use_service one

streams_are() { [ "$(fleet hosts --json | grep -c '"streams": [1-9]')" -eq "$1" ]; }
relay_dies() {
    local pid rc=0
    "$P" record --relay "$RELAY" "${TLS_ME[@]}" -c "$WORK/run.pbtx" -o "$WORK/resumed.pftrace" --select role=web --json \
        >"$WORK/resumed.json" 2>"$WORK/resumed.log" &
    pid=$!
    wait_for 20 grep -q 'recording until' "$WORK/resumed.log"
    kill -9 "$MEETING_PID"
    start_meeting "$RELAY"
    wait_for 20 streams_are 3 # the relay of now carries them
    sleep 1                   # some more to record
    kill -INT $pid
    wait $pid || rc=$?
    cat "$WORK/resumed.log"
    return $rc
}
check "a relay that is killed and comes back costs nothing" relay_dies
check "all hosts are whole" \
    $CHECK "$WORK/resumed.pftrace" --machines 3 --disjoint --contiguous --lossless --min-packets 100
check "the summary says that it was resumed" grep -q '"resumes": [1-9]' "$WORK/resumed.json"

# --- mistakes -------------------------------------------------------------------------------------
no_relay() { RELAY=127.0.0.1:9 fleet hosts; }
check "a relay that is not there is said" says 'relay 127.0.0.1:9: ' no_relay
check "and exits with 1" exits_with 1 no_relay
check "a host that the relay does not know is named" \
    says '--host nope: the relay knows no such host' fleet hosts --host nope
check "a selection of nothing is said" says "none of the relay's 3 hosts" fleet hosts --select role=db
check "recording everything has to be asked for" \
    says "which of the relay's 3 hosts" fleet record -c "$WORK/short.pbtx" -o "$WORK/x.pftrace"
check "a selection that makes no sense is refused with the right form" \
    says 'give label=value' fleet hosts --select '!role=web'
check "a name without a relay says what is missing" \
    says 'give --relay HOST:PORT' "$P" hosts --host one "${TLS_ME[@]}"
# shellcheck disable=SC2154
kill "$agent_three"
wait_for 20 hosts_are 2
check "a host that is not connected is a partial failure" exits_with $PARTIAL \
    fleet record -c "$WORK/short.pbtx" -o "$WORK/partial.pftrace" --select role=web
check "the doctor calls it bad" exits_with $PARTIAL fleet doctor
check "its reason is reported" says 'three: FAILED: .*not connected' fleet hosts

# --- a relay that is revoked while an agent is connected ---------------------------------------------
start_service watchful
cp "$WORK/pki/crl.pem" "$WORK/watchful.crl"
start_agent watchful --crl "$WORK/watchful.crl"
WATCHFUL=$STARTED
check "an agent with a revocation list connects" wait_for 20 grep -q relay-connected "$WORK/agent-watchful.log"
config "$WORK/long.pbtx" 120000
# Not in a shell of its own, whose end would leave the program behind.
start recording "$BIN/perfleet" record --relay "$RELAY" "${TLS_ME[@]}" -c "$WORK/long.pbtx" -o "$WORK/watchful.pftrace" \
    --host watchful --crl "$WORK/watchful.crl"
RECORDING=$STARTED
is_recorded() { fleet ps --host watchful 2>/dev/null | grep -q .; }
check "an operator with one records through the relay" wait_for 30 is_recorded
pki revoke relay meet && cp "$WORK/pki/crl.pem" "$WORK/watchful.crl"
check "when his list revokes the relay he ends the connection at once" wait_for 20 \
    grep -q "the relay's certificate was revoked" "$WORK/recording.log"
kill "$RECORDING"
kill -HUP "$WATCHFUL"
check "when its list revokes the relay it ends the connection at once" wait_for 20 \
    grep -q "relay-lost.*the relay's certificate was revoked" "$WORK/agent-watchful.log"
check "and makes no other one" wait_for 60 grep -q "relay-lost.*the peer's certificate is revoked" "$WORK/agent-watchful.log"
fleet_with_list() { fleet hosts --crl "$WORK/pki/crl.pem"; }
check "nor does an operator who has the list" says "certificate is revoked" fleet_with_list
finish
