#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# `perfleet hosts --watch` when something dies in the middle of a round: the relay, a host. A service
# that stands still keeps the round open.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet

MEETING=(--metrics-socket "$WORK/relay.metrics")
make_pki && start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
for name in one two; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
    printf -v "SERVICE_$name" %s "$SERVICE_PID"
    start_agent $name --retry-max-ms 500
    printf -v "AGENT_$name" %s "$STARTED"
done
hosts_are() { [ "$(fleet hosts 2>/dev/null | grep -cE '^(one|two)  *up ')" -eq "$1" ]; }
check "two hosts are connected" wait_for 60 hosts_are 2

watch() { # watch OPTIONS...: in the background, WATCHING, its tables in WORK/watch.log
    rm -f "$WORK/watch.log"
    start watch "$P" hosts --watch --select '*' --relay "$RELAY" "${TLS_ME[@]}" "$@"
    WATCHING=$STARTED
}
count_tables() { grep -c ^NAME "$WORK/watch.log"; }
tables() { [ "$(count_tables)" -ge "$1" ]; }
# The last whole table has a line for each regular expression.
shows() {
    local regex last
    last=$(awk '/^NAME/ { whole = table; table = "" } { table = table $0 "\n" } END { print whole }' "$WORK/watch.log")
    for regex in "$@"; do grep -qE -- "$regex" <<<"$last" || { echo "no $regex in: $last"; return 1; }; done
}
streams_are() { # streams_are COUNT: at least, through the relay
    [ "$(curl -sS -m 60 --unix-socket "$WORK/relay.metrics" http://localhost/metrics | sed -n 's/^perfleet_relay_streams //p')" -ge "$1" ]
}
stop_watching() { # its exit code is CODE
    CODE=0
    kill "$WATCHING"
    wait "$WATCHING" || CODE=$?
}

# --- the relay dies in the middle of a round, and comes back -----------------------------------------
watch --timeout 300s
check "hosts --watch prints tables of both hosts" wait_for 60 eval 'tables 2 && shows "^one +up " "^two +up "'
kill -STOP "$SERVICE_two"
check "a round is open: a host does not answer" wait_for 60 streams_are 1
TABLES=$(count_tables)
kill -KILL "$MEETING_PID"
wait "$MEETING_PID" 2>/dev/null
is_said() { grep -qE "^perfleet: relay $RELAY is away: .+" "$WORK/watch.log"; }
check "it says that the relay is away, and why, though a round is open" wait_for 60 is_said
check "and prints nothing of that round" test "$(count_tables)" -eq "$TABLES"
kill -CONT "$SERVICE_two"
start_meeting "$RELAY"
check "the hosts are connected to the relay that is back" wait_for 60 hosts_are 2
check "it goes on, with both hosts" wait_for 60 eval 'tables $((TABLES + 2)) && shows "^one +up " "^two +up "'
check "the relay was missed once" test "$(grep -c "^perfleet: relay $RELAY is away: " "$WORK/watch.log")" -eq 1
stop_watching
check "to end it is no failure" test "$CODE" -eq 0

# --- a host dies in the middle of a round, and comes back --------------------------------------------
watch --timeout 5s
check "hosts --watch prints tables again" wait_for 60 eval 'tables 2 && shows "^one +up " "^two +up "'
kill -STOP "$SERVICE_two"
check "a round is open" wait_for 60 streams_are 1
kill -KILL "$AGENT_two"
wait "$AGENT_two" 2>/dev/null
kill -KILL "$SERVICE_two"
wait "$SERVICE_two" 2>/dev/null
check "the host that died is in the table, and is not up; the other one is" \
    wait_for 60 eval 'shows "^one +up " "^two +(away|down|FAILED)"'
TABLES=$(count_tables)
check "rounds go on without it" wait_for 60 tables $((TABLES + 2))
start_service two
start_agent two --retry-max-ms 500
check "it comes back" wait_for 60 eval 'shows "^one +up " "^two +up "'
kill -STOP "$SERVICE_PID"
check "a round is open once more" wait_for 60 streams_are 1
stop_watching
check "to end it then is no failure, either" test "$CODE" -eq 0
kill -CONT "$SERVICE_PID"
finish
