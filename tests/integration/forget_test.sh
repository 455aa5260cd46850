#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2153,SC2154
# Hosts that left: an operator who may takes them off the relay's list, by name or by age, and the
# relay does so by itself; a selection leaves them out.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
not() { ! "$@"; }

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator looker && pki operator sweeper
cat >"$WORK/policy.pbtx" <<END
rule { name: "me" operator: "me" host: "*" }
rule { name: "lookers" operator: "looker" host: "*" role: "look" }
rule { name: "sweepers" operator: "sweeper" host: "web*" role: "sweep" }
role { name: "look" session: "*" }
role { name: "sweep" method: "Query*" forget: true }
END
MEETING=(--policy "$WORK/policy.pbtx" --audit-log "$WORK/audit.jsonl" --metrics-socket "$WORK/relay.metrics")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
as() { # as WHO COMMAND ARGS...
    timeout 120 "$P" "$2" --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-$1.pem" \
        --key "$WORK/pki/operator-$1.key" "${@:3}"
}
is_away() { fleet hosts --timeout 2s --columns name,state | grep -qE "^$1 +away"; }
is_up() { fleet hosts --timeout 2s --columns name,state | grep -qE "^$1 +up"; }
# Of all hosts as JSON: the table has no rows while none is up.
is_listed() { fleet hosts --timeout 2s --json | grep -q "\"name\": \"$1\""; }
is_unlisted() {
    local list
    list=$(fleet hosts --timeout 2s --json)
    grep -q '"name": "one"' <<<"$list" && ! grep -q "\"name\": \"$1\"" <<<"$list"
}
stop_agent() { # stop_agent NAME: it ends, and the relay knows
    local pid=AGENT_$1
    kill "${!pid}"
    wait "${!pid}" 2>/dev/null
    wait_for 20 is_away "$1"
}
for name in one web1; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
    start "example-$name" "$BIN/perfleet-example" --rate 1000
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
done
for name in web2 db1; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
done
for name in one web1 web2 db1; do
    start_agent $name --label "role=${name%[0-9]}"
    printf -v "AGENT_$name" %s "$STARTED"
    check "$name is connected" wait_for 20 is_up $name
done
for name in db1 web2 web1; do
    stop_agent $name
    check "$name left, and is remembered" is_away $name
done

# ---- who may
check "a host that is connected is not forgotten" \
    says 'host one: FAILED: "?one is connected: a host can be forgotten once it has left' fleet forget one
check "that is exit 1" exits_with 1 fleet forget one
check "a role without forget may not" \
    says 'role look does not allow forgetting hosts' as looker forget web1
check "and the host is still there" is_listed web1
check "one that has it may not forget other hosts than its rule's" \
    says 'the relay knows no such host' as sweeper forget db1
check "what its rule gives it, it may" says '^host web1: forgotten$' as sweeper forget web1
check "it is gone for everybody" is_unlisted web1
check "the audit log has who forgot which host" \
    grep -q '"who":"sweeper".*"action":"forget","host":"web1".*"status":204.*left [0-9]* s ago' "$WORK/audit.jsonl"
check "and who may not" \
    grep -q '"who":"looker".*"action":"refuse","host":"web1".*"status":403.*forgetting' "$WORK/audit.jsonl"
check "a host that is not known is named" exits_with 2 fleet forget web1
check "some that are not forgotten are exit 4" exits_with 4 fleet forget one web2 --json
check "the other one was" is_unlisted web2

# ---- which
check "nothing is meant by nothing" says 'which hosts\? Give HOST\.\.\., or --older-than TIME' fleet forget
check "nor by a selection, which would mean hosts that are connected" exits_with 2 fleet forget --select '*'
check "names and an age are not both" exits_with 2 fleet forget db1 --older-than 1h
check "an age wants a time" says 'give a time such as 30d, 12h or 90s' fleet forget --older-than long
check "without a relay nothing is forgotten" says 'hosts are forgotten by the relay that knows them: give --relay' \
    env -u PERFLEET_RELAY "$P" forget db1
check "nobody left an hour ago, which is no failure" says '^no host left so long ago$' fleet forget --older-than 1h
check "as JSON" test "$(fleet forget --older-than 1h --json)" = '[]'
start_agent web1 --label role=web
AGENT_web1=$STARTED
check "one that is forgotten and connects again is known again" wait_for 20 is_up web1

# ---- at the moment at which it leaves
comes_and_goes() {
    start agent-web1 "$BIN/perfleet-agent" --relay "$RELAY" --ca "$WORK/pki/ca.pem" \
        --cert "$WORK/pki/host-web1.pem" --key "$WORK/pki/host-web1.key" --consumer-socket "$WORK/web1/consumer.sock"
    wait_for 60 is_up web1 || return
    kill -9 "$STARTED"
    wait "$STARTED" 2>/dev/null
    wait_for 20 fleet forget web1 >"$WORK/forget.log" 2>&1
}
kill "$AGENT_web1"
wait "$AGENT_web1" 2>/dev/null
check "a host is forgotten as soon as it has left" wait_for 20 fleet forget web1
for round in 1 2 3 4 5; do
    check "again and again: $round" comes_and_goes
done
start_agent web1 --label role=web
AGENT_web1=$STARTED
check "and it is back" wait_for 20 is_up web1

# ---- what left a minute ago does not spoil a selection
config "$WORK/short.pbtx" 1000
is_left() { fleet hosts --json --host db1 | grep -qE '"last_seen_s": (6[1-9]|[7-9][0-9]|[0-9]{3,})\b'; }
check "a host has been away for a minute" wait_for 90 is_left
check "hosts shows it all the same" is_away db1
record_all() { # exit code 0, and nothing of a host that is missing
    fleet record -c "$WORK/short.pbtx" -o "$WORK/all.pftrace" --select '*' >"$WORK/all.log" 2>&1 &&
        ! grep -E 'INCOMPLETE|FAILED|missing|away' "$WORK/all.log"
}
check "a recording of all leaves out the one that left, and is complete" record_all
check "it says which" grep -q 'note: 1 hosts of the selection left the relay more than 60 s ago (db1)' "$WORK/all.log"
check "the others are in the trace" $CHECK "$WORK/all.pftrace" --machines 2 --disjoint --min-packets 10
check "a command that names it waits for it until its timeout" says 'db1' fleet ps --host db1 --timeout 1s
check "a selection with an age means those that left, of it" says '^no host left so long ago$' \
    fleet forget --older-than 60s --select 'role=web'
check "and all that did" says '^host db1: forgotten$' fleet forget --older-than 60s
check "no other is gone" eval 'is_up one && is_up web1 && is_unlisted db1'
check "then a recording of all is complete, too" record_all
check "and says nothing of it" not grep -E 'db1|left the relay' "$WORK/all.log"
stop_agent web1
check "one that has just left is forgotten" says '^host web1: forgotten$' fleet forget web1
check "a recording of all does not wait for it" record_all
check "nor names it" not grep web1 "$WORK/all.log"
check "the one that is there is in the trace" $CHECK "$WORK/all.pftrace" --machines 1 --min-packets 10

# ---- watched: one connection, until the relay goes away
figure() { # figure NAME: of the relay's
    curl -sS -m 60 --unix-socket "$WORK/relay.metrics" http://localhost/metrics | sed -n "s/^$1 //p"
}
tables() { [ "$(grep -c ^NAME "$WORK/watch.log")" -ge "$1" ]; }
start watch "$P" hosts --watch --host one --relay "$RELAY" "${TLS_ME[@]}"
WATCHING=$STARTED
check "hosts --watch prints a table" wait_for 60 tables 1
CAME=$(figure perfleet_relay_connections_total)
check "and another, and another" wait_for 60 tables 4
check "over one connection" test "$(figure perfleet_relay_connections_total)" = "$CAME"

# ---- by itself
forgotten_are() { # forgotten_are WHY COUNT
    curl -sS -m 60 --unix-socket "$WORK/relay.metrics" http://localhost/metrics |
        grep -qx "perfleet_relay_hosts_forgotten_total{why=\"$1\"} $2"
}
check "the figures count them" forgotten_are asked 10
kill "$MEETING_PID"
wait "$MEETING_PID" 2>/dev/null
MEETING+=(--forget-hosts-after-s 1)
start_meeting "$RELAY"
check "those that stay connect to a relay that is started again" wait_for 60 is_up one
TABLES=$(grep -c ^NAME "$WORK/watch.log")
check "hosts --watch goes on" wait_for 60 tables $((TABLES + 2))
check "it said once that the relay was away" test "$(grep -c "^perfleet: relay $RELAY is away: " "$WORK/watch.log")" = 1
kill "$WATCHING"
CODE=0
wait "$WATCHING" || CODE=$?
check "to end it is no failure" test "$CODE" = 0
start_agent web1
check "one that comes is known" wait_for 60 is_up web1
kill "$STARTED"
wait "$STARTED" 2>/dev/null
check "and forgets one that left" wait_for 20 is_unlisted web1
check "the other one is there" is_up one
check "the audit log has what was forgotten for its age" \
    grep -q '"who":"".*"action":"forget","host":"web1".*"status":204' "$WORK/audit.jsonl"
check "the figures, too" forgotten_are age 1
check "the log says it" grep -q 'host-forgotten: host=web1 reason=age' "$WORK/meeting.log"
finish
