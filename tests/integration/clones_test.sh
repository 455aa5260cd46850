#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clones of sessions with real producers: every packet that a clone should have is in it, the source
# goes on and has its own. And traces in segments, compressed or not. tests/support/clone_check.py and
# rotation_check.py have the claims.
. "$(dirname "$0")/lib.sh"

start_service one || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 2000 --threads 2 --policy stall
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
tap_claims python3 -B "$ROOT/tests/support/clone_check.py" "$PERFETTO_CONSUMER_SOCK_NAME" "$WORK"
start te "$BIN/perfleet-example" --track-events --name te.source
tap_claims python3 -B "$ROOT/tests/support/rotation_check.py" "$PERFETTO_CONSUMER_SOCK_NAME" "$WORK"
check "perfleetd is still there" is_alive "$SERVICE_PID"
finish
