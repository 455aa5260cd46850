#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
# Hosts that go away in every phase of a recording: the others are stopped and read at once, --wait
# bounds the wait, Ctrl-C continues without them, and the file has what came.
. "$(dirname "$0")/lib.sh"
NOTHING=1 PARTIAL=4

MEETING=(--metrics-socket "$WORK/relay.metrics")
make_pki && start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
for name in web1 web2; do
    start_service "$name" || { check "perfleetd opens its sockets" false; finish; }
    eval "service_$name=\$SERVICE_PID"
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
done
config "$WORK/open.pbtx" 0
config "$WORK/short.pbtx" 3000

agents_are() { [ "$(fleet hosts 2>/dev/null | grep -cE '^(web1|web2|one|two)  *up ')" -eq "$1" ]; }
fresh_agents() { # both, as if nothing had happened
    local name
    for name in web1 web2; do
        eval "kill -KILL \${agent_$name:-} 2>/dev/null"
        start_agent "$name" --retry-max-ms 500
        eval "agent_$name=\$STARTED"
    done
    check "two agents are connected" wait_for 60 agents_are 2
}
begin() { # begin OUT ARGS...: a recording of both in the background; RECORDING, its words in WORK/words.log
    local out=$1
    shift
    rm -f "$WORK/words.log" "$WORK/code" "$WORK/recording"
    {
        "$BIN/perfleet" record --relay "$RELAY" "${TLS_ME[@]}" -o "$WORK/$out" --host web1 --host web2 "$@" \
            >"$WORK/words.log" 2>&1 &
        echo $! >"$WORK/recording"
        wait $!
        echo $? >"$WORK/code"
    } &
    wait_for 20 test -s "$WORK/recording"
    RECORDING=$(cat "$WORK/recording")
    note_job "$RECORDING"
    rm "$WORK/recording"
}
has_said() { grep -qE -- "$1" "$WORK/words.log"; }
said() { wait_for "${2:-60}" has_said "$1" || { cat "$WORK/words.log"; return 1; }; }
ends_with() { # ends_with CODE: within a minute
    wait_for 60 test -s "$WORK/code" || { kill -9 "$RECORDING"; cat "$WORK/words.log"; return 1; }
    [ "$(cat "$WORK/code")" -eq "$1" ] || { echo "exit code $(cat "$WORK/code"), expected $1"; cat "$WORK/words.log"; return 1; }
}
ended_within() { [ $((SECONDS - $1)) -le "$2" ] || { echo "after $((SECONDS - $1)) s"; cat "$WORK/words.log"; return 1; }; }
has_one() { $CHECK "$WORK/$1" --machines 1 --contiguous --lossless --min-packets "${2:-500}"; }

# --- while it records: --wait ends it -------------------------------------------------------------
fresh_agents
begin wait.pftrace -c "$WORK/short.pbtx" --wait 4s
check "it records" said 'recording for'
kill -KILL "$agent_web2"
check "the host that went away is named while the others go on" said '^web2 is away'
check "the healthy host is read although the other one is away" said 'host web1: read'
check "and then it is said who is waited for" said 'waiting for web2 \(away [0-9]+ s\); Ctrl-C continues without it'
since=$SECONDS
check "--wait ends it, the exit code says that a host is missing" ends_with $PARTIAL
check "in time" ended_within "$since" 20
check "the reason is said, once, and the summary names the host" eval 'has_said "host web2 .*away.*--wait" && has_said "host web2: FAILED while"'
check "the file has the other one" has_one wait.pftrace

# --- Ctrl-C continues without it ---------------------------------------------------------------------
fresh_agents
begin int.pftrace -c "$WORK/open.pbtx" --wait 300s
check "it records" said 'recording until'
sleep 1
kill -KILL "$agent_web2"
check "the host is missed" said '^web2 is away'
kill -INT "$RECORDING"
check "the first Ctrl-C stops and reads the healthy host" said 'host web1: read'
check "the other one is waited for" said 'waiting for web2'
kill -INT "$RECORDING"
check "the next one goes on without it: a host is missing" ends_with $PARTIAL
check "the file has the other one" has_one int.pftrace

# --- it comes back while it is waited for ------------------------------------------------------------
fresh_agents
begin back.pftrace -c "$WORK/short.pbtx" --wait 120s
check "it records" said 'recording for'
kill -STOP "$agent_web2"
check "the healthy host is read meanwhile" said 'host web1: read'
kill -CONT "$agent_web2"
check "the other one joins: nothing is missing" ends_with 0
check "both are in the file, on one timeline" \
    $CHECK "$WORK/back.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 500

# --- before the start --------------------------------------------------------------------------------
fresh_agents
kill -STOP "$service_web2"
begin connect.pftrace -c "$WORK/short.pbtx" --timeout 3s
check "a host whose service does not answer is left out after --timeout" said 'host web2.*: no answer within' 120
check "the others are recorded" ends_with $PARTIAL
check "whole" has_one connect.pftrace
begin connect2.pftrace -c "$WORK/short.pbtx" --timeout 300s
sleep 2
kill -INT "$RECORDING"
check "Ctrl-C before the start ends it: nothing is recorded" ends_with $NOTHING
check "and leaves no file" test ! -e "$WORK/connect2.pftrace" -a ! -e "$WORK/connect2.pftrace.partial"
kill -CONT "$service_web2"

# --- the relay goes away before the start -------------------------------------------------------------
streams_are() { # streams_are COUNT: at least, through the relay
    [ "$(curl -sS -m 60 --unix-socket "$WORK/relay.metrics" http://localhost/metrics | sed -n 's/^perfleet_relay_streams //p')" -ge "$1" ]
}
fresh_agents
kill -STOP "$service_web1" "$service_web2"
begin nobody.pftrace -c "$WORK/short.pbtx" --timeout 20s --wait 300s
check "both hosts are being asked" wait_for 60 streams_are 4 # for data and for the clock
kill -KILL "$MEETING_PID"
check "it is said that the relay is away, and what Ctrl-C does" said '^waiting for the relay \(away [0-9]+ s\); Ctrl-C gives up$'
check "--timeout ends it, not --wait: nothing is recorded" ends_with $NOTHING
check "the reason names the option, of each host" eval 'has_said "host web1.*: it was away, and was not waited for any longer than 20 s \(--timeout\)" && has_said "host web2.*\(--timeout\)"'
check "and it is said that it was not begun" has_said 'given up: only 0 of 2 hosts are ready, 1 are needed'
check "and leaves no file" test ! -e "$WORK/nobody.pftrace" -a ! -e "$WORK/nobody.pftrace.partial"
kill -CONT "$service_web1" "$service_web2"
start_meeting "$RELAY"
check "when the relay is back, the agents are, too" wait_for 60 agents_are 2

# --- while it is stopped: the service is stuck -----------------------------------------------------
begin stuck.pftrace -c "$WORK/open.pbtx" --timeout 300s
check "it records" said 'recording until'
sleep 1
kill -STOP "$service_web2"
kill -INT "$RECORDING"
check "a service that is stuck holds nobody up" said 'host web1: read'
kill -INT "$RECORDING"
check "the second Ctrl-C ends at once" ends_with 130
check "the file has what came" has_one stuck.pftrace
kill -CONT "$service_web2"
finish
