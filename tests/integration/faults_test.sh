#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091
# Everything that can go away does, at every state: producers and consumers; the clock jumps, the
# disk fills or hangs. Nothing leaks, nothing stalls, every loss is counted. The claims are in
# tests/support/fault_*.py, which speak the protocol themselves.
. "$(dirname "$0")/lib.sh"

start_service one || { check "perfleetd opens its sockets" false; finish; }
for what in producers consumers; do
    tap_claims python3 -B "$ROOT/tests/support/fault_$what.py" "$PERFETTO_CONSUMER_SOCK_NAME" \
        "$PERFETTO_PRODUCER_SOCK_NAME" "$SERVICE_PID" "$WORK"
done
check "perfleetd is still there" is_alive "$SERVICE_PID"

# Clocks: each service has its own, which the claims move; the machine's stay as they are.
truncate -s 128 "$WORK/clocks"
LD_PRELOAD=$PFL_BUILD/tests/libclock_shim.so PFL_CLOCK_SHIM=$WORK/clocks start_service two ||
    check "perfleetd runs with clocks of its own" false
tap_claims python3 -B "$ROOT/tests/support/fault_clocks.py" "$PERFETTO_CONSUMER_SOCK_NAME" \
    "$PERFETTO_PRODUCER_SOCK_NAME" "$SERVICE_PID" "$WORK" "$WORK/clocks"
check "perfleetd is still there" is_alive "$SERVICE_PID"

if mkdir -p "$WORK/disk.mnt" && mount -t tmpfs -o size=1m tmpfs "$WORK/disk.mnt" 2>/dev/null; then
    start_service three
    tap_claims python3 -B "$ROOT/tests/support/fault_disks.py" "$PERFETTO_CONSUMER_SOCK_NAME" \
        "$PERFETTO_PRODUCER_SOCK_NAME" "$SERVICE_PID" "$WORK" "$WORK/disk.mnt" "$WORK/three.log"
    check "perfleetd is still there" is_alive "$SERVICE_PID"
else
    skip "disks that fill" "no right to mount"
fi
finish
