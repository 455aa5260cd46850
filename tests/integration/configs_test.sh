#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Some 250 configs and what follows: accepted or refused, what producers receive, which sessions
# there are then, what can be read (tests/fixtures/configs). perfleetd is compared with what Perfetto's
# own service was recorded to do. With PERFETTO_BIN_DIR that one is asked again; with RECORD=1 besides
# its answers are recorded again, and perfleetd's where they differ on purpose.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
FIXTURES=$ROOT/tests/fixtures/configs

ask() { # ask NAME SERVICE [MODE]: one claim for each scenario, numbered as all claims are
    local mode=${3:-check} out=$WORK/$1.tap
    use_service "$2"
    python3 -B "$ROOT/tests/support/config_table.py" "$mode" "$FIXTURES/table.txt" \
        "$FIXTURES/recorded.json" "$1" "$PERFETTO_CONSUMER_SOCK_NAME" "$PERFETTO_PRODUCER_SOCK_NAME" \
        >"$out" 2>&1
    tap_claims sed "s/^\(not \)\?ok - /&$1: /" "$out"
    check "$1: all of the table was asked" grep -qE '^1\.\.[0-9]+$' "$out"
}

start_service own || { check "perfleetd opens its sockets" false; finish; }
chmod 777 "$WORK"/own/*.sock
if [ -x "$P/traced" ]; then
    mkdir -p "$WORK/stock"
    use_service stock
    start stock "$P/traced"
    check "traced opens its sockets" wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    chmod 777 "$WORK"/stock/*.sock
    if [ "${RECORD:-}" = 1 ]; then
        ask perfetto stock record
        ask perfleetd own record
        finish # what a service remembers of a day would be found again
    fi
    ask perfetto stock
else
    skip "Perfetto's own service still does what was recorded" "no PERFETTO_BIN_DIR"
fi
ask perfleetd own
finish
