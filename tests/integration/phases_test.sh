#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
# What goes wrong in each phase of a recording, as phases.md has it to the letter: a host that
# dies or is stuck, a disk that is full or fails, signals (tests/support/phases.py). PFL_WRITE=FILE
# writes the rows as they are now.
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 # disk_shim is loaded before

for n in 0 1 2; do
    for name in one two; do
        start_service "$name-$n" || { check "perfleetd opens its sockets" false; finish; }
        start "example-$name-$n" "$BIN/perfleet-example" --rate 1000
    done
done
for n in 0 1 2; do
    for name in one two; do
        use_service "$name-$n"
        check "the example registers at $name-$n" wait_for_source "$EXAMPLE_SOURCE" 1
    done
done
[ "$(id -u)" -eq 0 ] || skip "disks that are too small or read-only" "needs root to mount them"
tap_claims timeout 600 python3 -B "$ROOT/tests/support/phases.py" "$BIN" "$WORK" "$PFL_BUILD/tests/libdisk_shim.so" \
    "$ROOT/tests/integration/phases.md" ${PFL_WRITE:+"$PFL_WRITE"}
finish
