#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091
# Agents that are killed while they carry streams.
. "$(dirname "$0")/lib.sh"
tap_claims python3 -B "$ROOT/tests/support/agent_deaths.py" "$PFL_BUILD"
check "all of it was tried" test "$CLAIMS" -ge 19
finish
