#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands of docs/benchmarks.md, as they stand there, in seconds each (PFL_BENCH_SMALL): that they run, and
# that what they write and read is all there. What they measure is nobody's condition. DIR is PERFETTO_BIN_DIR;
# without it, programs of ours that stand in for Perfetto's and take the same arguments.
. "$(dirname "$0")/lib.sh"
export PFL_BENCH_SMALL=1
cd "$ROOT" || exit 1

stand_in() { # stand_in NAME COMMAND
    printf '#!/bin/sh\nexec %s\n' "$2" >"$WORK/peer/$1" && chmod 755 "$WORK/peer/$1"
}
if [ -z "${PERFETTO_BIN_DIR:-}" ]; then
    mkdir "$WORK/peer"
    stand_in traced "$BIN/perfleetd"
    stand_in traced_probes "$BIN/perfleet-probes"
    # shellcheck disable=SC2016
    stand_in perfetto "$BIN/perfleet"' record -q -c "$2" -o "$5" --host "h=unix:$PERFETTO_CONSUMER_SOCK_NAME"'
    # They are for the chains that need them; of perfleetd alone the whole series takes half of the time.
    mkdir "$WORK/none"
fi
TRACE=$ROOT/tests/fixtures/captures/fragmented.pftrace

# The block of the page in which this stands, its places filled in: bench_block BEGINNING DIR
bench_block() {
    python3 -B tests/support/doc_commands.py show docs/benchmarks.md "$1" |
        sed -E "s#build/release#$PFL_BUILD#g; s#--peer DIR#--peer $2#; s#before=DIR#before=$PFL_BUILD#; s#--trace FILE#--trace $TRACE#; /^cmake /d$NO_SSH"
}
runs() { # runs BEGINNING [DIR]
    bench_block "$1" "${2:-${PERFETTO_BIN_DIR:-$WORK/peer}}" >"$WORK/block.sh"
    grep -q "$PFL_BUILD" "$WORK/block.sh" && bash -e "$WORK/block.sh" >"$WORK/bench.log" 2>&1 || { tail -n 20 "$WORK/bench.log"; return 1; }
}
bench() { # bench CLAIM WHY-NOT BEGINNING [DIR]
    local begin=$SECONDS
    if [ -n "$2" ]; then
        skip "$1" "$2"
        return
    fi
    check "$1" runs "$3" "${4:-}"
    echo "# $((SECONDS - begin)) s"
}

not_root=$([ "$(id -u)" -eq 0 ] || echo "not root")
no_tracefs=$not_root
[ -n "$no_tracefs" ] || [ -w /sys/kernel/tracing/trace_pipe ] || [ -w /sys/kernel/tracing/tracing_on ] || no_tracefs="no tracefs"
no_link=$not_root
NO_SSH=$([ -x /usr/sbin/sshd ] || echo '; s/,ssh(-perfleetd)?//g')
if [ -z "$no_link" ]; then
    unshare --net ip link add pfl0 type bridge 2>/dev/null || no_link="no network namespaces"
fi

bench "services side by side" "" "cmake --preset release" "${PERFETTO_BIN_DIR:-$WORK/none}"
bench "builds side by side" "" "nice -n -10 tests/bench/run --build build/release --also"
bench "probes side by side" "$no_tracefs" "nice -n -10 tests/bench/probes"
bench "the whole way of a trace, over a link, by every chain${NO_SSH:+ but ssh}" "$no_link" "nice -n -15 tests/bench/readout"
bench "a recording of many hosts" "" "tests/bench/record20"
bench "growth with the number of agents" "" "tests/bench/scale"
bench "a collector that takes in, and its index" "" "nice -n -10 tests/bench/collect"
bench "the page of many hosts" "" "tests/bench/page --build build/release --hosts"
bench "the page of many traces" "" "tests/bench/page --build build/release --traces"
bench "questions to many segments" "" "tests/bench/ask"
finish
