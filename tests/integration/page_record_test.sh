#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2153,SC2154
# perfleet ui, Record: a browser chooses hosts and a config, records them, watches a host and the relay go, and opens the
# trace; who may not; what is left on hosts and disk when it ends.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/axe.sh"
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator guest
cat >"$WORK/policy.pbtx" <<END
rule { name: "me" operator: "me" host: "*" }
rule { name: "guests" operator: "guest" host: "*" role: "guests" }
role { name: "guests" method: "Query*" }
END
MEETING=(--policy "$WORK/policy.pbtx")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -m 700 "$WORK/shots" "$WORK/handles" "$WORK/traces"

start_host() { # start_host NAME ROLE
    mkdir -p "$WORK/$1"
    use_service "$1"
    start "$1" "$BIN/perfleetd" --max-sessions 60 # of which this user may have 20
    SERVICE=$STARTED
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || return
    start "example-$1" "$BIN/perfleet-example" --rate 1000
    wait_for_source "$EXAMPLE_SOURCE" 1 && start_agent "$1" --label "role=$2"
}
start_host web1 web || { check "the first host is there" false; finish; }
WEB_SERVICE=$SERVICE
start_host db1 db || { check "and the second" false; finish; }
check "both hosts are at the relay" wait_for 30 says '2 of the 2 hosts|web1.*up' fleet hosts

start guest env TMPDIR="$WORK/traces" "$P" ui --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-guest.pem" \
    --key "$WORK/pki/operator-guest.key" --port 0
start ui env TMPDIR="$WORK/traces" "$P" ui --relay "$RELAY" "${TLS_ME[@]}" --ui-dir "$ROOT/tests/support/ui"
UI=$STARTED
check "it prints a link" wait_for 20 grep -q '/enter?token=' "$WORK/ui.log"
LINK=$(grep -o 'http://127[^ ]*' "$WORK/ui.log")
if ! command -v chromium >/dev/null; then
    skip "a browser records the fleet" "no chromium"
    finish
fi
axe_find || { AXE=-; skip "axe-core judges the pages" "no npm, or axe-core cannot be installed"; }

# What the walk asks for: see page_record_walk.py.
obey() {
    case $1 in
    kill-host) kill -9 "$WEB_SERVICE" ;;
    kill-relay) kill -9 "$MEETING_PID" ;;
    start-relay) start_meeting "$RELAY" ;;
    esac
    : >"$WORK/handles/$1.done"
}
start walk python3 -B "$ROOT/tests/support/page_record_walk.py" "$LINK" "$WORK/shots" "$AXE" "$WORK/handles" \
    "${PFL_CHROMIUM_FLAGS[@]}"
WALK=$STARTED
while ! is_gone "$WALK"; do
    for name in kill-host kill-relay start-relay; do
        [ ! -e "$WORK/handles/$name" ] || [ -e "$WORK/handles/$name.done" ] || obey "$name"
    done
    sleep 0.1
done
tap_claims cat "$WORK/walk.log"
wait "$WALK"
check "the walk holds" test $? -eq 0
[ -z "${PFL_SHOTS:-}" ] || cp "$WORK/shots"/*.png "$PFL_SHOTS/"

# ---- beside the command
check "the trace that was downloaded has both hosts" $CHECK "$WORK/shots/downloaded.pftrace" --machines 2 --min-packets 100
printf 'buffers { size_kb: 4096 fill_policy: RING_BUFFER }\ndata_sources { config { name: "%s" } }\n' "$EXAMPLE_SOURCE" \
    >"$WORK/CONFIG.pbtx"
run_command() { (cd "$WORK" && PATH=$BIN:$PATH bash -c "$(cat "$WORK/shots/command")"); }
check "the command that a page showed records the same" run_command
check "into the file that it names" eval '$CHECK "$WORK"/perfleet-*.pftrace --machines 1 --min-packets 100'

# ---- its end
has_session() { fleet ps --host db1 | grep -q STARTED; }
check "a recording is a session on its hosts" has_session
kill "$UI"
wait "$UI"
check "a signal ends the pages with 0" test $? -eq 0
check "and their recordings on the hosts" wait_for 20 eval '! has_session'
check "no file is left" eval '[ -z "$(ls -A "$WORK/traces")" ]'

# ---- a second signal, while the relay stands still
curl_page() { curl -sS --max-time 20 -b "$WORK/jar" -c "$WORK/jar" "$@"; }
start ui2 "$P" ui --relay "$RELAY" "${TLS_ME[@]}"
UI=$STARTED
wait_for 20 grep -q '/enter?token=' "$WORK/ui2.log"
LINK=$(grep -o 'http://127[^ ]*' "$WORK/ui2.log")
PAGES=${LINK%/enter*}
curl_page "$LINK" >"$WORK/page"
TOKEN=$(curl_page "$PAGES/record" | grep -o 'name="change" value="[^"]*' | head -1 | sed 's/.*"//')
curl_page -H "Origin: $PAGES" -o "$WORK/page" --data-urlencode "config@$WORK/CONFIG.pbtx" \
    -d "preset=&duration=1h&select=*&do=start&change=$TOKEN" "$PAGES/record"
check "another recording runs" wait_for 20 has_session
kill -STOP "$MEETING_PID"
kill -INT "$UI"
sleep 0.2 # it waits for the relay now, unless what it had to say fits into the sockets
kill -INT "$UI" 2>/dev/null
check "two signals end it while the relay stands still" wait_for 5 is_gone "$UI"
wait "$UI"
rc=$?
check "orderly, or by the second one" test $rc -eq 0 -o $rc -eq 130
kill -CONT "$MEETING_PID"
check "the session ends, too" wait_for 20 eval '! has_session'
finish
