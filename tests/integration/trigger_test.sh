#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# A trigger that is raised on one host reaches, through the relay, the operator who waits for it, and
# makes a snapshot of all hosts; who may, the policy says. Three hosts.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator guest && pki operator looker && pki operator hasty
cat >"$WORK/policy.pbtx" <<END
rule { name: "guests" operator: "guest" host: "*" role: "guests" }
rule { name: "hasty" operator: "hasty" host: "*" role: "hasty" }
rule { name: "lookers" operator: "looker" host: "*" role: "look" }
role { name: "guests" data_source: "$EXAMPLE_SOURCE" session: "g-*" max_buffer_kb: 8192 trigger: "boom" trigger: "alarm-*" }
role { name: "hasty" data_source: "$EXAMPLE_SOURCE" session: "g-*" max_buffer_kb: 8192 max_duration_ms: 60000 }
role { name: "look" session: "l-*" }
END
MEETING=(--policy "$WORK/policy.pbtx" --audit-log "$WORK/audit.jsonl")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
for name in one two three; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
    printf -v "SERVICE_$name" %s "$SERVICE_PID"
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    start_agent $name
    printf -v "AGENT_$name" %s "$STARTED"
done
as() { # as WHO COMMAND ARGS...
    timeout 300 "$P" "$2" --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-$1.pem" \
        --key "$WORK/pki/operator-$1.key" "${@:3}"
}
hosts_are() { [ "$(as guest hosts 2>/dev/null | grep -c " up ")" -eq "$1" ]; }
check "three hosts are connected" wait_for 20 hosts_are 3
cat >"$WORK/armed.pbtx" <<END
buffers { size_kb: 8192 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 600000 triggers { name: "boom" } }
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
    rm -f "$WORK/trigger.log"
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
# ---- raised by operators, and from a shell on the host
raised_to() { # raised_to WAY...: who waits gets it; as WAITS
    local pid rc=0
    rm -f "$WORK/trigger.log" # the words of the last one
    as "${WAITS:-guest}" trigger g-armed -o "$WORK/raised.pftrace" --select '*' >"$WORK/trigger.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q "waiting for a trigger" "$WORK/trigger.log" && "$@" || kill "$pid"
    wait $pid || rc=$?
    cat "$WORK/trigger.log"
    return $rc
}
check "an operator raises a trigger at one host" raised_to as guest raise boom --host three
check "the summary names that host" grep -q 'host three raised trigger "boom"' "$WORK/trigger.log"
check "the trace names who raised it" grep -aq 'perfleet-raise/guest' "$WORK/raised.pftrace"
check "a script on a host raises it" raised_to "$BIN/perfleet-trigger" --socket "$WORK/one/producer.sock" boom
check "perfleet raises it at a socket of this machine" raised_to "$P" raise boom --host "unix:$WORK/two/consumer.sock"
raises_at() { PERFETTO_PRODUCER_SOCK_NAME=$1 "$P" raise boom; }
check "and at the socket of PERFETTO_PRODUCER_SOCK_NAME" raised_to raises_at "$WORK/two/producer.sock"
# A session of his own may not last as long as this one: he takes this one over.
WAITS=hasty check "whose own session may not wait so long waits all the same" raised_to as guest raise boom --host one
check "the audit log has no line for each look at the session" \
    eval '! grep -q "QueryServiceState" "$WORK/audit.jsonl"'
check "what the role does not name is refused" \
    says 'role guests does not allow raising trigger other \(allowed: boom, alarm-\*\)' as guest raise boom other --host one
check "a role without triggers raises none" says 'allowed: none' as looker raise boom --select '*'
check "such refusals are exit 1" exits_with 1 as looker raise boom --select '*'
check "a name that is none is exit 2" exits_with 2 as guest raise 'a,b' --host one
check "the audit log has who raised what" \
    grep -q '"who":"guest".*"action":"raise".*"host":"three".*"status":204.*triggers=boom' "$WORK/audit.jsonl"
check "at hosts without a relay it says what helps" says 'give --relay, or run perfleet-trigger on the host' \
    "$P" raise boom --host tls://127.0.0.1:1
nobody_there() { PERFETTO_PRODUCER_SOCK_NAME=$WORK/none "$P" raise boom; }
check "where nobody listens it names the place" says 'no service listens for producers at .*/none' nobody_there
check "and is exit 1" exits_with 1 nobody_there
check "so does the program for scripts" says 'no tracing service answers within 100 ms at .*/none' \
    "$BIN/perfleet-trigger" --timeout-ms 100 --socket "$WORK/none" boom
check "which wants a trigger" exits_with 2 "$BIN/perfleet-trigger"
check "the session waits for the next trigger, and can be thrown away" as guest kill g-armed --select '*'

# ---- with nobody there: the agents keep the order, the relay passes the trigger on
cat >"$WORK/ring.pbtx" <<END
buffers { size_kb: 8192 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
check "a ring without any trigger of its own runs" \
    says 'runs on 3 of 3 hosts' as guest start g-ring -c "$WORK/ring.pbtx" --select '*'
check "an order for a session that is not the role's is refused" \
    says 'role guests does not allow a copy of session .*other' as guest arm other boom --select '*'
check "so is one without a trigger" exits_with 2 as guest arm g-ring --select '*'
check "so is one for a trigger that is no name" says "an alarm's names have" as guest arm g-ring 'a,b' --select '*'
arm_all() { as guest arm g-ring boom bang --select '*' >"$WORK/arm.log" && [ "$(grep -c ': armed' "$WORK/arm.log")" -eq 3 ]; }
check "an order for a trigger is taken by all three" arm_all
alarms_are() { [ "$(as guest alarms --select '*' 2>&1 | grep -c "$1")" -eq "$2" ]; }
check "it is listed" alarms_are 'session "g-ring": armed' 3
check "to nobody else" says 'no alarm' as looker alarms --host one
check "who cannot take it back" says 'you have none' as looker disarm g-ring --host one
raise_boom
check "a trigger raised on one host is copied on all, with no operator there" \
    wait_for 20 alarms_are 'session "g-ring": copied, trigger "boom" at' 3
check "perfleet ps names the copies as perfleet read takes them" says 'CLONED_READ_ONLY.*left as "g-ring.triggered"' \
    as guest ps --select '*'
check "the others know where it was raised" alarms_are 'trigger "boom" at "two"' 2
check "the sessions themselves go on" says '"STARTED"' as guest ps --json --select '*'
check "the copies are read later, as one trace" as guest read g-ring.triggered -o "$WORK/late.pftrace" --select '*'
check "all three are in it" $CHECK "$WORK/late.pftrace" --machines 3 --disjoint --lossless --min-packets 10
check "an order makes one copy: the next trigger does nothing" eval 'raise_boom; alarms_are copied 3'
check "set again, it waits again" arm_all
raise_boom
check "and copies again" wait_for 20 alarms_are copied 3
check "a copy that nobody read is not overwritten: the order says so" eval \
    'arm_all && raise_boom && wait_for 20 alarms_are "failed, trigger .*the last one is still there" 3'
check "it can be thrown away" as guest kill g-ring.triggered --select '*'
check "the relay's audit log has order, trigger and copies" eval \
    'grep -q "\"who\":\"guest\".*\"action\":\"arm\".*\"host\":\"one\".*\"status\":204" "$WORK/audit.jsonl" &&
     grep -q "\"action\":\"trigger\".*\"host\":\"two\".*session=g-ring trigger=boom" "$WORK/audit.jsonl" &&
     grep -q "\"action\":\"snapshot\".*\"host\":\"three\".*\"status\":204.*raised_at=two" "$WORK/audit.jsonl"'
check "and what was asked on streams" eval \
    'grep -q "\"who\":\"guest\".*\"action\":\"request\".*\"status\":200.*\"method\":\"EnableTracing\"" "$WORK/audit.jsonl"'
check "and what was refused there, with the reason" eval \
    'grep -q "\"who\":\"looker\".*\"action\":\"request\".*\"status\":403.*\"method\":\"Attach\".*role look does not allow" "$WORK/audit.jsonl"'

# ---- what survives
check "armed once more" arm_all
kill -9 "$MEETING_PID"
wait "$MEETING_PID" 2>/dev/null
start_meeting "$RELAY"
check "a relay that is killed and started again has forgotten nothing: the agents have it" wait_for 20 alarms_are armed 3
raise_boom
check "and passes a trigger on as before" wait_for 20 alarms_are copied 3
as guest kill g-ring.triggered --select '*' >/dev/null
check "armed again" arm_all
kill -9 "$MEETING_PID"
wait "$MEETING_PID" 2>/dev/null
raise_boom
copied_at_two() { [ "$(grep -c 'alarm-copied: .*host=here' "$WORK/agent-two.log")" -ge 4 ]; }
check "without a relay the host's own copy is made all the same" wait_for 20 copied_at_two
start_meeting "$RELAY"
check "one that was raised while there was no relay is passed on when there is" wait_for 20 alarms_are copied 3
as guest kill g-ring.triggered --select '*' >/dev/null
check "an order is taken back" eval 'arm_all && as guest disarm g-ring --select "*" && alarms_are "no alarm" 3'
check "and then nothing is copied" eval 'raise_boom; alarms_are "no alarm" 3 &&
    says "there is no session|another consumer holds" as guest read g-ring.triggered -o "$WORK/x.pftrace" --host one'

# ---- an agent that dies: the service frees its wait or its copy, never the session
ring_runs_at_three() { "$P" ps --host "three=unix:$WORK/three/consumer.sock" | grep -q 'STARTED.*name "g-ring"'; }
check "all are armed, and an agent dies" eval 'arm_all && kill -9 "$AGENT_three" && { wait "$AGENT_three" 2>/dev/null; true; }'
check "the session of the alarm goes on without it" ring_runs_at_three
start_agent three
AGENT_three=$STARTED
check "it is back" wait_for 20 arm_all
kill -STOP "$SERVICE_three" # so that it does not answer while it is asked for the copy
raise_boom
check "an agent waits for its copy" wait_for 20 alarms_are copying 1
kill -9 "$AGENT_three"
wait "$AGENT_three" 2>/dev/null
kill -CONT "$SERVICE_three"
check "a death in the middle of a copy costs the copy, and the session goes on" ring_runs_at_three
start_agent three
AGENT_three=$STARTED
check "all three are there again" wait_for 20 hosts_are 3
as guest kill g-ring.triggered --host one --host two >/dev/null
check "and without orders" eval 'as guest disarm g-ring --host one --host two && alarms_are "no alarm" 3'

# ---- orders against each other
raised_count() { grep -c '"action":"trigger".*"host":"two"' "$WORK/audit.jsonl"; }
is_raised() { [ "$(raised_count)" -gt "$1" ]; }
check "an order copies for its own triggers only" eval 'as guest arm g-ring bang --host one && as guest arm g-ring boom --host two --host three &&
    raise_boom && wait_for 20 alarms_are "copied, trigger .boom" 2 && alarms_are "armed" 1'
as guest kill g-ring.triggered --host two --host three >/dev/null
arm_all
kill -9 "$MEETING_PID"
wait "$MEETING_PID" 2>/dev/null
COPIES=$(grep -c 'alarm-copied' "$WORK/agent-two.log")
raise_boom
has_copied_again() { [ "$(grep -c alarm-copied "$WORK/agent-two.log")" -gt "$COPIES" ]; }
check "a host copies while there is no relay" wait_for 20 has_copied_again
kill -STOP "$AGENT_two" # so that it cannot tell before the others have another order
start_meeting "$RELAY"
order_anew() { as guest arm g-ring boom --host one --host three; }
check "others are given another order before it can tell" wait_for 20 order_anew
RAISED=$(raised_count)
kill -CONT "$AGENT_two"
check "a host tells of a trigger when it can" wait_for 20 is_raised "$RAISED"
check "an order that was given since then is not taken for one that waited" alarms_are "armed" 2
check "all are armed" arm_all
mv "$WORK/policy.pbtx" "$WORK/policy.first"
{ echo 'rule { name: "narrow" operator: "guest" host: "three" role: "look" }'; cat "$WORK/policy.first"; } >"$WORK/policy.pbtx"
kill -HUP "$MEETING_PID"
is_narrow() { says 'role look does not allow' as guest arm g-ring boom --host three; }
check "the role of one host is narrowed" wait_for 20 is_narrow
as guest kill g-ring.triggered --host two >/dev/null
raise_boom
check "the order that is there wakes no longer" \
    wait_for 20 grep -q '"action":"snapshot".*"host":"three".*"status":403' "$WORK/audit.jsonl"
check "where it is not allowed" eval 'wait_for 20 alarms_are copied 2 && alarms_are armed 1'
mv "$WORK/policy.first" "$WORK/policy.pbtx"
kill -HUP "$MEETING_PID"
check "and widened again" wait_for 20 arm_all
as guest kill g-ring.triggered --host one --host two >/dev/null
twelve() { local i; for i in 1 2 3 4 5 6 7 8 9 10 11; do exits_with 6 as guest arm "g-$i" "t$i" t --host one || return; done; }
check "an operator may have twelve orders at a host, which take one session" \
    eval 'twelve && [ "$(as guest alarms --host one | grep -c ": armed")" -eq 12 ]'
check "not thirteen" says 'as many as it may' as guest arm g-13 t --host one
check "but one of them in place of another" exits_with 6 as guest arm g-11 t --host one
for i in 1 2 3 4 5 6 7 8 9 10 11; do as guest disarm "g-$i" --host one; done >/dev/null
check "the ring can be thrown away" as guest kill g-ring --select '*'

# ---- an agent that tells too much, and answers nothing
pki host eve --ip 127.0.0.1
coproc BABBLER { python3 -B "$ROOT/tests/support/tunnel_abuse.py" babbler "$RELAY" "$WORK/pki" host-eve 2>&1; }
babble=${BABBLER[1]}
read -r -t 120 line <&"${BABBLER[0]}"
check "a host tells more than it may, and comes again" test "${line:-}" = babbled
check "its rate is the host's, not a connection's, and the rest is counted" python3 -B - "$WORK/audit.jsonl" <<'END'
import datetime, json, sys
lines = [line for line in map(json.loads, open(sys.argv[1])) if line["host"] == "eve"]
at = [datetime.datetime.fromisoformat(line["time"][:-1]).timestamp() for line in lines]
count = {what: sum(line["action"] == what for line in lines) for what in ("request", "trigger", "unheard")}
passed_s = at[-1] - at[0]
assert 500 <= count["request"] <= 501 + 50 * (passed_s + 1), (count, passed_s)
assert 10 <= count["trigger"] <= 11 + passed_s + 1, (count, passed_s)
assert count["unheard"] >= 1, count
END
check "an answer that is no list of alarms counts as none" \
    says 'host eve: FAILED: its answer makes no sense' as guest alarms --host eve
check "what it calls its alarms is not for a terminal" \
    eval 'as guest alarms --host eve >"$WORK/eve.out"; grep -q "session .*: ?" "$WORK/eve.out" && ! grep -q "[[:cntrl:]]" "$WORK/eve.out"'
gives_up() { says 'no answer in time' as guest arm g-ring boom --host eve --timeout 2s; }
check "who does not answer is not waited for" wait_for 20 gives_up
check "that an operator asked and did not wait is in the audit log" \
    wait_for 20 grep -q '"action":"arm".*"host":"eve".*"status":0.*session=g-ring' "$WORK/audit.jsonl"
exec {babble}>&-

# ---- before Perfetto's own service
if [ ! -x "${PERFETTO_BIN_DIR:-/nonexistent}/traced" ]; then
    skip "an agent before Perfetto's own service keeps such an order" "PERFETTO_BIN_DIR does not name Perfetto's programs"
    finish
fi
mkdir "$WORK/stock"
export PERFETTO_PRODUCER_SOCK_NAME=$WORK/stock/producer.sock PERFETTO_CONSUMER_SOCK_NAME=$WORK/stock/consumer.sock
start stock "$PERFETTO_BIN_DIR/traced"
wait_for 20 test -S "$WORK/stock/consumer.sock"
start example-stock "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
start_agent stock
both() { as guest "$1" "${@:2}" --host one --host stock; }
is_there() { [ "$(as guest query --json --host stock 2>/dev/null | grep -c "$EXAMPLE_SOURCE")" -ge 1 ]; }
check "Perfetto's service is one more host" wait_for 20 is_there
check "a ring runs on it and on one of ours" says 'runs on 2 of 2 hosts' both start g-both -c "$WORK/ring.pbtx"
arm_both() { both arm g-both boom >"$WORK/arm.log" && [ "$(grep -c ': armed' "$WORK/arm.log")" -eq 2 ]; }
both_are() { [ "$(both alarms 2>&1 | grep -c "$1")" -eq "$2" ]; }
raise_at() { PYTHONPATH=$ROOT/tests/support python3 -B -c '
import sys, service_peers as peers
peers.Producer(sys.argv[1]).call("ActivateTriggers", peers.field(1, b"boom"))' "$WORK/$1/producer.sock"; }
for host in stock one; do
    check "an order is taken by both" arm_both
    raise_at "$host"
    check "a trigger raised at $host is copied at both" wait_for 20 both_are copied 2
    check "and read as one trace" both read g-both.triggered -o "$WORK/both.pftrace"
    check "with both in it" $CHECK "$WORK/both.pftrace" --machines 2 --disjoint --min-packets 10
done
# ---- last: a host that the relay then remembers
no_service() { timeout 20 "$P" raise boom --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-guest.pem" \
    --key "$WORK/pki/operator-guest.key" --host four; }
start_agent four --producer-socket "$WORK/none" --consumer-socket "$WORK/one/consumer.sock"
FOUR=$STARTED
check "an agent whose service is away says so" wait_for 20 says 'its tracing service does not answer' no_service
kill "$FOUR"
wait "$FOUR" 2>/dev/null
finish
