#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2153,SC2154
# perfleet ui, Running: a browser copies, stops, reads and discards the hosts' sessions, changes orders and disarms alarms, as the
# commands do; who may not; what is said without a collector, and without an agent.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/collected_hosts.sh"
. "$ROOT/tests/support/axe.sh"
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator keeper
pki operator guest
pki operator other
cat >"$WORK/policy.pbtx" <<END
rule { name: "me" operator: "me" host: "*" }
rule { name: "others" operator: "other" host: "*" }
rule { name: "guests" operator: "guest" host: "*" role: "guests" }
rule { name: "keeper" operator: "keeper" host: "*" role: "collectors" }
role { name: "collectors" collect: true }
role { name: "guests" method: "Query*" }
END
MEETING=(--policy "$WORK/policy.pbtx")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -m 700 "$WORK/shots" "$WORK/traces" "$WORK/store" "$WORK/handles"

start_host web1 web || { check "the first host is there" false; finish; }
start_host db1 db || { check "and the second" false; finish; }
check "both hosts are at the relay" wait_for 30 says '2 of the 2 hosts|web1.*up' fleet hosts

printf 'buffers { size_kb: 1024 fill_policy: RING_BUFFER }\ndata_sources { config { name: "%s" } }\n' "$EXAMPLE_SOURCE" \
    >"$WORK/flight.pbtx"
check "a flight recorder runs on both" fleet start flight -c "$WORK/flight.pbtx" --select '*'
check "and another, whose name is a script, on one" fleet start '<script>alert(1)</script>' -c "$WORK/flight.pbtx" --host db1

start_collector
wait_for 20 is_serving
write_order cpu
check "an order records both hosts" says '^cpu: put' fleet order put "$WORK/cpu.pbtx"
sed 's/"cpu"/"theirs"/; s/host: "\*"/host: "db1"/' "$WORK/cpu.pbtx" >"$WORK/theirs.pbtx"
check "and one of another operator, one of them" says '^theirs: put' "$P" order put "$WORK/theirs.pbtx" --relay "$RELAY" \
    --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-other.pem" --key "$WORK/pki/operator-other.key"
is_recorded() { fleet order list | grep -qE '^cpu +me +continuous +2 +2 '; }
check "the first runs on both" wait_for 60 is_recorded

check "an alarm is armed on both" fleet arm flight boom bang --select '*'

start_pages() { # start_pages NAME OPERATOR [OPTIONS]: LINK
    start "$1" env TMPDIR="$WORK/traces" "$P" ui --relay "$RELAY" --ca "$WORK/pki/ca.pem" \
        --cert "$WORK/pki/operator-$2.pem" --key "$WORK/pki/operator-$2.key" --port 0 "${@:3}"
    wait_for 20 grep -q '/enter?token=' "$WORK/$1.log" || return
    LINK=$(grep -o 'http://127[^ ]*' "$WORK/$1.log")
}
if ! command -v chromium >/dev/null; then
    skip "a browser sees what runs" "no chromium"
    finish
fi
axe_find || { AXE=-; skip "axe-core judges the pages" "no npm, or axe-core cannot be installed"; }
start_pages guest guest
GUEST=$LINK
start_pages ui me --ui-dir "$ROOT/tests/support/ui"
check "pages of an operator who may do all are there, and of one who may only look" test -n "$LINK" -a "$LINK" != "$GUEST"
start walk python3 -B "$ROOT/tests/support/page_running_walk.py" "$LINK" "$GUEST" "$WORK/shots" "$AXE" "$WORK/handles" "${PFL_CHROMIUM_FLAGS[@]}"
WALK=$STARTED
obey() {
    case $1 in
    raise) fleet raise boom --host db1 ;;
    kill-collector) kill -9 "$COLLECTOR_PID" ;;
    esac
    : >"$WORK/handles/$1.done"
}
while ! is_gone "$WALK"; do # what the walk asks for: see page_running_walk.py
    for name in raise kill-collector; do
        [ ! -e "$WORK/handles/$name" ] || [ -e "$WORK/handles/$name.done" ] || obey "$name"
    done
    sleep 0.1
done
wait "$WALK"
rc=$?
tap_claims cat "$WORK/walk.log"
check "the walk holds" test $rc -eq 0
[ -z "${PFL_SHOTS:-}" ] || cp "$WORK/shots"/*.png "$PFL_SHOTS/"

# ---- beside the pages
check "the trace that was read has both hosts" $CHECK "$WORK/shots/read.pftrace" --machines 2 --min-packets 100
check "what the page discarded is not on the hosts any more" eval '! fleet ps --select "*" | grep -q flight'
check "what it did not is" says 'script.*STARTED|STARTED.*script' fleet ps --host db1
check "the command that the page showed discards the other" \
    eval '(cd "$WORK" && PATH=$BIN:$PATH bash -c "$(cat "$WORK/shots/command")")'
check "which is not there any more either" eval '! fleet ps --host db1 | grep -q script'
finish
