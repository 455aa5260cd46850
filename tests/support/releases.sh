# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Programs of two Debian releases side by side: this machine's, and those built and run in a root of another release
# (PFL_OTHER_ROOT, with the packages of tests/run installed; see docs/testing.md). Sourced after lib.sh.
#
#   why_one_release       nothing where both are there (builds the other's programs once); else why not
#   programs_of RELEASE   the folder of a release's programs, `here` or `there`: a value for BIN
#   release_of RELEASE    its number: 12, 13
#   newest_tls RELEASE    the newest version of TLS that its mbedtls has
#   spoken A B            the version that two of them agree on
#   find_old              true where programs of an earlier commit are built: OLD_PROGRAMS is their folder
OTHER_ROOT=${PFL_OTHER_ROOT:-}
OTHER_BUILD=${PFL_OTHER_BUILD:-$ROOT/build/other-release}
IN_ROOT=$ROOT/tests/support/in_root
BIN_HERE=$BIN
RELEASE_PROGRAMS=(perfleetd perfleet-relay perfleet-agent perfleet perfleet-keep perfleet-example)
OLD_PROGRAMS=

release_of() {
    local root=
    [ "$1" = here ] || root=$OTHER_ROOT
    cut -d. -f1 "$root/etc/debian_version"
}
newest_tls() { if [ "$(release_of "$1")" -ge 13 ]; then echo 1.3; else echo 1.2; fi; }
spoken() { if [ "$(newest_tls "$1")" = 1.3 ]; then newest_tls "$2"; else echo 1.2; fi; }
programs_of() { if [ "$1" = here ]; then echo "$BIN_HERE"; else echo "$WORK/there"; fi; }

# The folder that `there` is: one small script for each program, which runs it in its root.
make_there() {
    local program
    mkdir -p "$WORK/there"
    for program in "${RELEASE_PROGRAMS[@]}"; do
        printf '#!/bin/sh\nexec %q %q %q "$@"\n' "$IN_ROOT" "$OTHER_ROOT" "$OTHER_BUILD/bin/$program" \
            >"$WORK/there/$program"
        chmod +x "$WORK/there/$program"
    done
}
build_there() {
    [ -z "${PFL_OTHER_BUILD:-}" ] || return 0
    mkdir -p "$OTHER_BUILD"
    (flock 9 && configure_and_build_there) 9>"$OTHER_BUILD/.lock" # another script may be at it
}
configure_and_build_there() {
    "$IN_ROOT" "$OTHER_ROOT" cmake -G Ninja -S "$ROOT" -B "$OTHER_BUILD" -DPFL_TESTS=OFF -DPFL_BENCH=OFF \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 &&
        "$IN_ROOT" "$OTHER_ROOT" cmake --build "$OTHER_BUILD" --target "${RELEASE_PROGRAMS[@]}"
}

why_one_release() {
    [ -n "$OTHER_ROOT" ] || { echo "PFL_OTHER_ROOT names no root of another release"; return; }
    [ -z "${PFL_SANITIZE:-}" ] || { echo "the build without sanitizer tells it"; return; }
    [ -r /etc/debian_version ] && [ -r "$OTHER_ROOT/etc/debian_version" ] || { echo "one of the two is no Debian"; return; }
    "$IN_ROOT" "$OTHER_ROOT" true 2>/dev/null || { echo "not root, or no overlay"; return; }
    build_there >"$WORK/build_there.txt" 2>&1 ||
        { tail -n 3 "$WORK/build_there.txt" | tr '\n' ' '; echo "(the build there)"; return; }
    make_there
}

# Of upgrade_test.sh, which builds them.
find_old() {
    local place
    for place in "${PFL_OLD_BUILD:-/nonexistent}" "$ROOT"/build/before-*; do
        [ -x "$place/build/bin/perfleet-agent" ] && [ -x "$place/build/bin/perfleet" ] || continue
        OLD_PROGRAMS=$place/build/bin
        return 0
    done
    return 1
}
