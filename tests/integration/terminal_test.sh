#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On terminals of every width, and while their size changes, progress stays on one line.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
TERMINAL=(timeout 120 python3 -B "$ROOT/tests/support/terminal.py")

start_service one
start example "$BIN/perfleet-example" --track-events
wait_for_source track_event 1
config "$WORK/c.pbtx" 1500
recording() {
    "${TERMINAL[@]}" "$1" "$BIN/perfleet" record -c "$WORK/c.pbtx" -o "$WORK/x.pftrace" \
        --host "one=unix:$WORK/one/consumer.sock"
}
for columns in 200 80 75 60 40 20 10; do
    check "on $columns columns no line of progress wraps" recording $columns
done
check "on 200 columns there is the whole bar" says '\[[#.]{30}\] [0-9.]* of 1.5 s, Ctrl-C stops and reads' recording 200
check "on 20 columns there is the time" says "recording [0-9.]* of" recording 20
check "a terminal that becomes narrow is drawn for what it is" recording 100,40
check "and one that becomes wide again" recording 100,30,90
finish
