#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hosts of arm64, under qemu-user, recorded into one trace by operators of both architectures. One host's
# producer is native: shared memory that one architecture writes and the other reads.
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/support/arm64.sh
. "$ROOT/tests/support/arm64.sh"
ARM=$ROOT/build/arm64/bin
NATIVE=$BIN

why=$(pfl_arm64_why_not)
[ -n "$why" ] || [ -x "$ARM/perfleet" ] || why="build/arm64 is not built"
[ -z "${PFL_SANITIZE:-}" ] || why="a build with a sanitizer"
if [ -n "$why" ]; then
    skip "hosts of arm64 are recorded" "$why"
    finish
fi
trap 'cleanup; pfl_arm64_close' EXIT
pfl_arm64_open >"$WORK/open.log" 2>&1
check "arm64 programs can be started" test ${#PFL_ARM64[@]} -ne 0 || finish

# What lib.sh starts from BIN is arm64 from here on.
BIN=$WORK/arm64
mkdir "$BIN"
for name in perfleetd perfleet perfleet-example; do
    cat >"$BIN/$name" <<END
#!/bin/bash
exec ${PFL_ARM64[*]} PERFETTO_PRODUCER_SOCK_NAME="\$PERFETTO_PRODUCER_SOCK_NAME" \\
    PERFETTO_CONSUMER_SOCK_NAME="\$PERFETTO_CONSUMER_SOCK_NAME" $ARM/$name "\$@"
END
    chmod +x "$BIN/$name"
done
is_arm64() { [ "$(od -An -tu2 -j18 -N2 "$1" | tr -d ' ')" = 183 ]; }
check "they are of that architecture" is_arm64 "$ARM/perfleetd"
is_same_version() { [ "$("$BIN/perfleetd" --version)" = "$("$NATIVE/perfleetd" --version)" ]; }
check "and of this version" is_same_version

hosts=()
for name in one two; do
    start_service $name || { check "an arm64 service opens its sockets" false; finish; }
    example=$BIN
    [ $name = one ] || example=$NATIVE
    start example-$name "$example/perfleet-example" --rate 500 --smb-kb 4096
    check "a producer registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    hosts+=(--host "$name=unix:$WORK/$name/consumer.sock")
done
config "$WORK/short.pbtx" 2000

record_by() { # FOLDER OUT OPTION...: programs of that folder record
    timeout 300 "$1/perfleet" record -c "$WORK/short.pbtx" -o "$WORK/$2.pftrace" "${@:3}"
}
is_whole() { $CHECK "$WORK/$1.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 100; }

check "the arm64 operator records both" record_by "$BIN" by-arm64 "${hosts[@]}"
check "whole, each host a machine of its own" is_whole by-arm64
check "the native operator records both" record_by "$NATIVE" by-native "${hosts[@]}"
check "whole, too" is_whole by-native
finish
