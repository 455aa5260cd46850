#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ProtoVMs: programs of producers, run over what a ring overwrites (docs/abi/protovm.md). perfleetd is
# compared with what Perfetto's own service was recorded to do; with PERFETTO_BIN_DIR that one is asked
# again, and both get programs that are new (NEW_SEEDS=N for more). RECORD=1 records anew.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
RECORDED=$ROOT/tests/fixtures/protovm/recorded.json
NEW_SEEDS=${NEW_SEEDS:-1000}

ask() { # ask MODE ARGS...
    tap_claims python3 -B "$ROOT/tests/support/vm_check.py" "$@"
}
sockets_of() { echo "$WORK/$1/consumer.sock" "$WORK/$1/producer.sock"; }

# What a reader makes of it: the program, run on over what is left, has what was lost.
is_understood() { # is_understood TRACE
    local rows
    rows=$("$P/trace_processor_shell" -q /dev/stdin "$1" 2>/dev/null <<<"select ts, name from slice
        union all select value, name from stats where name glob 'protovm*' and value > 0")
    [ "$(tail -n +2 <<<"$rows")" = '5000,"from the state"' ] || { echo "$rows"; return 1; }
}

start_service own || { check "perfleetd opens its sockets" false; finish; }
read -r -a own < <(sockets_of own)
if [ -x "$P/traced" ]; then
    mkdir -p "$WORK/stock"
    read -r -a stock < <(sockets_of stock)
    use_service stock
    start stock "$P/traced"
    check "traced opens its sockets" wait_for 20 test -S "${stock[0]}"
    [ "${RECORD:-}" != 1 ] || ask record "$RECORDED" "${stock[@]}"
    ask check "$RECORDED" perfetto "${stock[@]}"
    ask compare $(($(od -An -N3 -tu4 /dev/urandom))) "$NEW_SEEDS" "${own[@]}" "${stock[@]}"
else
    skip "Perfetto's own service still does what was recorded" "no PERFETTO_BIN_DIR"
fi
ask check "$RECORDED" perfleetd "${own[@]}"
ask trace "$WORK/vms.pftrace" "${own[@]}"
if [ -x "$P/trace_processor_shell" ]; then
    check "Trace Processor runs the programs on" is_understood "$WORK/vms.pftrace"
else
    skip "Trace Processor runs the programs on" "no PERFETTO_BIN_DIR"
fi
check "perfleetd is still there" is_alive "$SERVICE_PID"
finish
