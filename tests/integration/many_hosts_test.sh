#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What an operator sees in terminals of 60, 80 and 200 columns, with 1, 20 and 500 hosts.
. "$(dirname "$0")/lib.sh"
if ! command -v tmux >/dev/null; then
    skip "perfleet in a terminal" "tmux is not installed"
elif [ ! -x "$PFL_BUILD/bench/bench_agents" ]; then
    skip "perfleet in a terminal" "this build has no bench_agents"
else
    tap_claims python3 -B "$ROOT/tests/support/terminals.py" "$PFL_BUILD"
fi
finish
