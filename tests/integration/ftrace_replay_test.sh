#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Recorded ring buffer pages become exactly the packets they must be: by the kernel's own text of the
# same buffer, by recorded expectations, by Trace Processor's recorded tables. Needs no root.
. "$(dirname "$0")/lib.sh"

FIXTURES=$ROOT/tests/fixtures/ftrace/replay
EVENTS="python3 -B $ROOT/tests/support/ftrace_events.py"
JUDGE=${PERFETTO_BIN_DIR:-}/trace_processor_shell

replay() {
    "$PFL_BUILD/tests/ftrace_replay" "$FIXTURES" "$1" >"$WORK/$1.pftrace"
}
decodes() {
    protoc --decode_raw <"$1" >"$WORK/raw.txt" && grep -q '^1 {' "$WORK/raw.txt"
}
same_tables() {
    "$JUDGE" -q "$FIXTURES/tables.sql" "$WORK/$1.pftrace" 2>/dev/null | grep -v '^$' |
        diff "$FIXTURES/tables.$1.csv" -
}
for form in compact plain; do
    check "$form: the pages become a trace" replay $form
    check "$form: events, times, threads and values are the kernel's own" \
        $EVENTS "$WORK/$form.pftrace" --kernel "$FIXTURES/cpu0.txt"
    check "$form: every packet is as recorded" $EVENTS "$WORK/$form.pftrace" --expect "$FIXTURES/$form.txt"
    if command -v protoc >/dev/null; then
        check "$form: protoc decodes it" decodes "$WORK/$form.pftrace"
    else
        skip "$form: protoc decodes it" "no protoc"
    fi
    if [ -x "$JUDGE" ]; then
        check "$form: Trace Processor's tables are as recorded" same_tables $form
    else
        skip "$form: Trace Processor's tables are as recorded" "needs PERFETTO_BIN_DIR"
    fi
done
finish
