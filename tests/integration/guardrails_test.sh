#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2015
# The guardrails end a real service, and no other: one that takes memory, one whose loop stands still. Time passes quickly
# (tests/support/haste_shim.c), the limits are the real ones.
. "$(dirname "$0")/lib.sh"

ulimit -c 0
SHIM=$PFL_BUILD/tests/libhaste_shim.so
# run NAME HASTE ALARM_HASTE BALLAST_MIB [OPTIONS]: a service of its own; PID
run() {
    mkdir -p "$WORK/$1"
    start "$1" env "LD_PRELOAD=$SHIM" "PFL_HASTE=$2" "PFL_ALARM_HASTE=$3" "PFL_BALLAST_MIB=$4" "$BIN/perfleetd" \
        --producer-socket "$WORK/$1/producer.sock" --consumer-socket "$WORK/$1/consumer.sock" "${@:5}"
    PID=$STARTED
    wait_for 20 grep -qs listening "$WORK/$1.log"
}
# Its exit code, -1 while it lives on.
code_of_end() {
    CODE=-1
    wait_for 30 is_gone || return
    CODE=0
    wait "$PID" 2>/dev/null || CODE=$?
}
is_gone() { ! kill -0 "$PID" 2>/dev/null; }
is_ringing() { # SIGALRM, which is 14, waits
    (((0x$(awk '$1 == "ShdPnd:" { print $2 }' "/proc/$PID/status") >> 13) & 1))
}
answers() { "$BIN/perfleet" query --host "unix:$WORK/$1/consumer.sock" >/dev/null; }

# A turn of the loop has 180 s, here 10 s, and it is looked at every second.
run fat 30 1 400 --guardrails
FAT=$PID
run lenient 30 1 400
LENIENT=$PID
if [ -z "${PFL_SANITIZE:-}" ]; then # which takes more than the limit
    LEAN_SINCE=$SECONDS
    run lean 30 18 0 --guardrails
    LEAN=$PID
    run stuck 30 18 0 --guardrails
    STUCK=$PID
    wait_for 20 answers stuck # its loop has turned: the timer is wound up
    kill -STOP "$STUCK"
fi

PID=$FAT
code_of_end
check "a service whose memory runs away ends itself" test "$CODE" = 134
check "and says what it was, and how much" grep -qE 'error guardrail-hit: what=memory resident_bytes=[4-9][0-9]{8} limit_bytes=67108864$' "$WORK/fat.log"
if [ -z "${PFL_SANITIZE:-}" ]; then
    PID=$STUCK
    check "the timer of a loop that stands still expires" wait_for 30 is_ringing
    kill -CONT "$PID"
    code_of_end
    check "and that was its end" test "$CODE" = 142
    has_lived() { [ $((SECONDS - LEAN_SINCE)) -gt 11 ]; } # longer than a loop that stood still would have
    wait_for 20 has_lived
    check "one that takes what it should, and turns, lives on all the while" answers lean
    kill "$LEAN"
else
    skip "the timer of a loop that stands still expires" "a sanitizer takes more memory than the limit"
    skip "one that takes what it should, and turns, lives on all the while" "the same"
fi
check "without --guardrails nothing of this ends a service" answers lenient
kill "$LENIENT"
finish
