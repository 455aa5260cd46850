#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The README's first command: three hosts, each with its own boot clock, one trace, and one of what a collector
# kept of them; with namespaces where we may have them, and as three services on loopback.
. "$(dirname "$0")/lib.sh"
export TMPDIR=$WORK

if ! command -v chromium >/dev/null; then
    skip "the demo records three hosts" "no chromium"
    finish
fi

demo() {
    timeout 300 "$ROOT/deploy/demo/run" --bin "$BIN" --seconds 3 --out "$WORK/$1.pftrace" "${@:2}" \
        >"$WORK/demo-$1.log" 2>&1
}
nothing_is_left() {
    ! compgen -G "$WORK/pfl-demo.*" && ! pgrep -f "$WORK/pfl-demo"
}
names_are_there() {
    local name
    for name in alpha bravo charlie; do
        $CHECK "$1" --json | grep -q "\"name\": \"$name\"" || { echo "no $name"; return 1; }
    done
}
# A well-formed SVG in which each host has slices with a name: draws TRACE
draws() {
    python3 -B "$ROOT/deploy/demo/picture.py" "$1" "$1.svg" &&
        python3 -B - "$1.svg" <<'END'
import sys
from xml.etree import ElementTree
names, slices = {}, []
for text in ElementTree.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}text"):
    if text.get("class") == "host":
        names[text.text.split()[-1]] = slices = []
    elif text.get("class") == "slice":
        slices.append(text.text)
print(names)
sys.exit(not (sorted(names) == ["alpha", "bravo", "charlie"] and all(names.values())))
END
}
# What every demo must leave: judge KIND
judge() {
    check "$1: its trace has three machines, disjoint sequences, and every packet parses" \
        $CHECK "$WORK/$1.pftrace" --machines 3 --disjoint --min-packets 30 --min-track-events 3000
    check "$1: each host is there by its name" names_are_there "$WORK/$1.pftrace"
    check "$1: it says per host packets, losses and clock" \
        grep -cE '^host (alpha|bravo|charlie): [0-9]+ packets.*losses 0.*clock' "$WORK/demo-$1.log"
    check "$1: the trace from the collector's store has three machines, too" \
        $CHECK "$WORK/$1-kept.pftrace" --machines 3 --disjoint --min-packets 30 --min-track-events 1000
    check "$1: by their names" names_are_there "$WORK/$1-kept.pftrace"
    check "$1: the README's picture can be drawn of its trace" draws "$WORK/$1.pftrace"
    check "$1: it says how to open the trace" grep -q 'ui.perfetto.dev' "$WORK/demo-$1.log"
    check "$1: its last line is the command that shows the picture" eval \
        'tail -n 1 "$WORK/demo-'"$1"'.log" | grep -qxF "    $(realpath "$BIN")/perfleet open $(realpath "$WORK/'"$1"'.pftrace")"'
    check "$1: it leaves nothing behind" wait_for 10 nothing_is_left
}

if pfl_hosts_can_isolate; then
    check "isolated: the demo succeeds, and measures the clocks within its bounds" demo isolated
    judge isolated
    check "isolated: all three true offsets are within the bounds that record prints, and those of the store's trace" \
        test "$(grep -cE ': true .* bound [0-9]+ us$' "$WORK/demo-isolated.log")" -eq 6
    env --default-signal=INT "$ROOT/deploy/demo/run" --bin "$BIN" --seconds 600 --out "$WORK/int.pftrace" >"$WORK/demo-int.log" 2>&1 &
    pid=$!
    wait_for 60 grep -q 'recording for' "$WORK/demo-int.log"
    begin=$SECONDS
    kill -INT -- $pid
    rc=0
    wait $pid || rc=$?
    check "isolated: interrupted, it ends long before its time with 130" test $rc -eq 130 -a $((SECONDS - begin)) -lt 60
    check "isolated: interrupted, it leaves nothing behind" wait_for 10 nothing_is_left
else
    skip "the demo's hosts have boot clocks of their own" "needs root and namespaces"
fi
env --default-signal=INT "$ROOT/deploy/demo/run" --bin "$BIN" --seconds 3 --out "$WORK/page.pftrace" --page >"$WORK/demo-page.log" 2>&1 &
pid=$!
check "page: its last line is a link to the page of the fleet" \
    wait_for 300 eval 'tail -n 1 "$WORK/demo-page.log" | grep -qE "^http://127\.0\.0\.1:[0-9]+/enter\?token=[0-9a-f]+$"'
curl -sS -o "$WORK/page.html" -c "$WORK/cookies" -L "$(tail -n 1 "$WORK/demo-page.log")"
check "page: it lists the three hosts" wait_for 20 eval 'curl -sS -b "$WORK/cookies" "$(tail -n 1 "$WORK/demo-page.log" | cut -d/ -f1-3)/hosts" |
    grep -oE "alpha|bravo|charlie" | sort -u | wc -l | grep -qx 3'
kill -INT -- $pid
rc=0
wait $pid || rc=$?
check "page: Ctrl-C ends it with 0" test $rc -eq 0
check "page: it leaves nothing behind" wait_for 10 nothing_is_left
check "shared: the demo succeeds without namespaces" demo shared --shared
judge shared
check "shared: it says so" grep -q 'three services on loopback' "$WORK/demo-shared.log"
finish
