#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shapes of config that Perfetto's documentation shows (tests/fixtures/doc_configs), each as it is,
# with perfleet-probes and an example as producers. Kernel events need root and a writable tracefs.
. "$(dirname "$0")/lib.sh"
TRACEFS=/sys/kernel/tracing
[ -e $TRACEFS/trace ] || mount -t tracefs nodev $TRACEFS 2>/dev/null
kernel=no-kernel
if [ "$(id -u)" -eq 0 ] && mkdir "$TRACEFS/instances/pfl-try-$$" 2>/dev/null; then
    rmdir "$TRACEFS/instances/pfl-try-$$"
    kernel=kernel
else
    skip "kernel events are in the traces of these configs" "needs root and a writable tracefs"
fi

start_service one || { check "perfleetd opens its sockets" false; finish; }
start probes "$BIN/perfleet-probes"
start example "$BIN/perfleet-example" --track-events --name doc.producer
check "the probes register" wait_for_source linux.sys_stats 1
check "the example registers" wait_for_source track_event 1
tap_claims python3 -B "$ROOT/tests/support/doc_configs_check.py" "$PFL_BUILD/tests/config_encode" \
    "$ROOT/tests/fixtures/doc_configs" "$PERFETTO_CONSUMER_SOCK_NAME" "$PERFETTO_PRODUCER_SOCK_NAME" \
    "$WORK" "$kernel"
finish
