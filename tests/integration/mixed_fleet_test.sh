#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mixed fleet behind a bad network: hosts of Debian 12 and 13, and services of arm64 under an emulator where
# build/arm64 is built; relays and operators of both releases. Networks fail, relays and agents are killed all the
# time; what was recorded must be there, every byte once, in one trace (tests/chaos/run).
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/releases.sh"
# shellcheck source=tests/support/arm64.sh
. "$ROOT/tests/support/arm64.sh"
WHY=$(why_one_release)
if [ -n "$WHY" ]; then
    skip "a fleet of two releases and two architectures loses nothing" "$WHY"
    finish
fi
make_there
mkdir "$WORK/other"
ln -s "$WORK/there" "$WORK/other/bin"
also=(--also "$WORK/other")

# The emulator is too slow for handshakes by the dozen: that host's agent is a native one.
ARM=$ROOT/build/arm64
why_no_arm64() {
    [ -x "$ARM/bin/perfleetd" ] && [ -x "$ARM/tests/chaos_writer" ] || { echo "build/arm64 is not built"; return; }
    pfl_arm64_why_not
}
emulated() { # emulated PROGRAM: a script that runs it, in the place of one of that name
    local script=$WORK/arm64/${1#"$ARM"/}
    mkdir -p "${script%/*}"
    cat >"$script" <<END
#!/bin/bash
exec ${PFL_ARM64[*]} PERFETTO_PRODUCER_SOCK_NAME="\$PERFETTO_PRODUCER_SOCK_NAME" \\
    PERFETTO_CONSUMER_SOCK_NAME="\$PERFETTO_CONSUMER_SOCK_NAME" $1 "\$@"
END
    chmod +x "$script"
}
WHY=$(why_no_arm64)
if [ -n "$WHY" ]; then
    skip "a host of arm64 is among them" "$WHY"
else
    trap 'cleanup; pfl_arm64_close' EXIT
    pfl_arm64_open >"$WORK/open.log" 2>&1
    check "arm64 programs can be started" test ${#PFL_ARM64[@]} -ne 0 || finish
    emulated "$ARM/bin/perfleetd"
    emulated "$ARM/tests/chaos_writer"
    also+=(--also "$WORK/arm64")
fi

chaos() { # its claims have numbers of their own
    python3 -B "$ROOT/tests/chaos/run" --build "$PFL_BUILD" "${also[@]}" --hosts 6 --rounds 2 --mb 1 --victims 1 \
        --relay-mean 3 --agent-mean 0.3 --mercy 40 | sed -E 's/^(not )?ok [0-9]+ - /\1ok - /; /^1\.\./d'
    return "${PIPESTATUS[0]}"
}
tap_claims chaos
finish
