#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same schedules against perfleetd and Perfetto's service: docs/testing.md, "Differential tests".
. "$(dirname "$0")/lib.sh"

DIFFTEST=$PFL_BUILD/tests/difftest
STAND_IN=$PFL_BUILD/tests/perfleetd_with_gaps
RECORDED=$ROOT/tests/differential/recorded
NEW_SEEDS=${NEW_SEEDS:-300}

replay() {
    "$DIFFTEST" replay --service "$BIN/perfleetd" --stand-in "$STAND_IN" "$@"
}

# One packet is longer in the file than it came.
falsified_is_found() {
    sed '/^---/,$ s/^ 1 \([0-9]\)/ 1 9\1/' "$RECORDED/seed-1.txt" >"$WORK/false.txt"
    exits_with 1 replay "$WORK/false.txt"
}

check "perfleetd returns what Perfetto's service returned for $(find "$RECORDED" -name '*.txt' | wc -l) recorded schedules" \
    replay "$RECORDED"/*.txt
check "an outcome that is not as recorded is found" falsified_is_found
if [ -n "${PERFETTO_BIN_DIR:-}" ]; then
    FIRST=$(($(od -An -N4 -tu4 /dev/urandom)))
    check "both return the same for the seeds $FIRST to $((FIRST + NEW_SEEDS - 1))" \
        "$DIFFTEST" compare --service "$BIN/perfleetd" --peer "$PERFETTO_BIN_DIR/traced" \
        --stand-in "$STAND_IN" \
        --seeds "$FIRST-$((FIRST + NEW_SEEDS - 1))"
else
    skip "both return the same for $NEW_SEEDS new seeds" "PERFETTO_BIN_DIR does not name Perfetto's programs"
fi
finish
