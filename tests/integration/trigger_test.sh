#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# A trigger that is raised on one host reaches, through the relay, the operator who waits for it, and
# makes a snapshot of all hosts; who may, the policy says. Three hosts.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator guest && pki operator looker && pki relay meet --ip 127.0.0.1
cat >"$WORK/policy.pbtx" <<END
rule { name: "guests" operator: "guest" host: "*" role: "guests" }
rule { name: "lookers" operator: "looker" host: "*" role: "look" }
role { name: "guests" data_source: "$EXAMPLE_SOURCE" session: "g-*" max_buffer_kb: 8192 }
role { name: "look" session: "l-*" }
END
start meeting "$BIN/perfleet-relay" --listen 127.0.0.1:0 --ca "$WORK/pki/ca.pem" --policy "$WORK/policy.pbtx" \
    --cert "$WORK/pki/relay-meet.pem" --key "$WORK/pki/relay-meet.key"
wait_for 20 pfl_relay_port_in "$WORK/meeting.log" || { check "the relay listens" false; finish; }
RELAY=127.0.0.1:$(pfl_relay_port_in "$WORK/meeting.log")
for name in one two three; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    start_agent $name
done
as() { # as WHO COMMAND ARGS...
    timeout 60 "$P" "$2" --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-$1.pem" \
        --key "$WORK/pki/operator-$1.key" "${@:3}"
}
hosts_are() { [ "$(as guest hosts 2>/dev/null | grep -c "connected from")" -eq "$1" ]; }
check "three hosts are connected" wait_for 20 hosts_are 3
cat >"$WORK/armed.pbtx" <<END
buffers { size_kb: 8192 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 60000 triggers { name: "boom" } }
END
raise_boom() { # a producer of host two raises it
    PYTHONPATH=$ROOT/tests/support python3 -B -c '
import sys, service_peers as peers
producer = peers.Producer(sys.argv[1])
producer.call("ActivateTriggers", peers.field(1, b"boom"))' "$WORK/two/producer.sock"
}
check "a session may not be left running under a name that is not the role's" \
    says 'role guests does not allow leaving or taking over a session' as guest start armed -c "$WORK/armed.pbtx" --select '*'
check "under one that is, it may, on all hosts" \
    says 'runs on 3 of 3 hosts' as guest start g-armed -c "$WORK/armed.pbtx" --select '*'
triggered() {
    local pid rc=0
    as guest trigger g-armed -o "$WORK/boom.pftrace" --select '*' >"$WORK/trigger.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q "waiting for a trigger" "$WORK/trigger.log" && raise_boom || kill "$pid"
    wait $pid || rc=$?
    cat "$WORK/trigger.log"
    return $rc
}
check "a trigger raised on one host makes a snapshot of all three" triggered
check "the summary names host and trigger" grep -q 'host two raised trigger "boom"' "$WORK/trigger.log"
check "all three are in the trace" $CHECK "$WORK/boom.pftrace" --machines 3 --disjoint --lossless --min-packets 10
check "who may not take over the session may not wait for its trigger" \
    says 'role look does not allow leaving or taking over a session' \
    as looker trigger g-armed -o "$WORK/x.pftrace" --select '*'
check "nor copy it" says 'role look does not allow a copy of session .*g-armed' \
    as looker snapshot g-armed -o "$WORK/x.pftrace" --select '*'
check "the session waits for the next trigger, and can be thrown away" as guest kill g-armed --select '*'
finish
