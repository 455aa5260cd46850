#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ProtoVMs: programs of producers, run over what a ring overwrites (docs/abi/protovm.md). perfleetd is
# compared with what Perfetto's own service was recorded to do; with PERFETTO_BIN_DIR that one is asked
# again, and both get programs that are new (NEW_SEEDS=N for more). RECORD=1 records again.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
RECORDED=$ROOT/tests/fixtures/protovm/recorded.json
NEW_SEEDS=${NEW_SEEDS:-1000}

ask() { # ask MODE ARGS...
    tap_claims python3 -B "$ROOT/tests/support/vm_check.py" "$@"
}
sockets_of() { echo "$WORK/$1/consumer.sock" "$WORK/$1/producer.sock"; }

# What a reader makes of it: the program, run on over what is left, has what was lost; once a host.
is_understood() { # is_understood TRACE HOSTS
    local rows
    rows=$("$P/trace_processor_shell" -q /dev/stdin "$1" 2>/dev/null <<<"select name, count(*) from slice group by 1
        union all select name, value from stats where name glob 'protovm*' and value > 0")
    [ "$(tail -n +2 <<<"$rows")" = "\"from the state\",$2" ] || { echo "$rows"; return 1; }
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
    check "Trace Processor runs the programs on" is_understood "$WORK/vms.pftrace" 1
else
    skip "Trace Processor runs the programs on" "no PERFETTO_BIN_DIR"
fi

# Two hosts, one trace: the VMs of each are run over its own packets.
cat >"$WORK/vms.pbtx" <<END
buffers { size_kb: 4 }
data_sources { config { name: "trigger" protovm_config { memory_limit_kb: 16 } } }
END
start_service other || { check "a second perfleetd opens its sockets" false; finish; }
read -r -a other < <(sockets_of other)
hosts=(--host "own=unix:${own[0]}" --host "other=unix:${other[0]}")
check "an operator's session with a VM is left running" \
    "$BIN/perfleet" start vms -c "$WORK/vms.pbtx" "${hosts[@]}"
ask join "${own[@]}"
ask join "${other[@]}"
check "a snapshot of it is one trace of both hosts" \
    "$BIN/perfleet" snapshot vms -o "$WORK/snapshot.pftrace" "${hosts[@]}"
check "and so is what is read at its end" \
    "$BIN/perfleet" read vms -o "$WORK/read.pftrace" "${hosts[@]}"
for trace in snapshot read; do
    if [ -x "$P/trace_processor_shell" ]; then
        check "Trace Processor runs the programs of both hosts on: $trace" \
            is_understood "$WORK/$trace.pftrace" 2
    else
        skip "Trace Processor runs the programs of both hosts on: $trace" "no PERFETTO_BIN_DIR"
    fi
done
check "perfleetd is still there" is_alive "$SERVICE_PID"
finish
