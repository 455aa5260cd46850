# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Debian packages for tests (sourced after lib.sh).
#   packages_make DIR               those of the build under test, made once for all tests that want them, are in
#                                   DIR; what cpack says in WORK/cpack.log
#   package_program PACKAGE PATH    prints where a program of Debian's is: installed, or out of a package that is
#                                   fetched and not installed, as that would start a daemon

packages_make() {
    mkdir -p "$1" "$PFL_BUILD/tests" && packages_make_once 9>"$PFL_BUILD/tests/packages.lock" && cp "$PFL_BUILD"/tests/packages/*.deb "$1"
}
packages_make_once() { # one test at a time
    local kept=$PFL_BUILD/tests/packages
    flock 9
    if [ ! -e "$kept/.made" ] || find "$PFL_BUILD"/{bin,docs,deploy,debian,producer,CPackConfig.cmake} "$ROOT"/{deploy,cmake} \
        -newer "$kept/.made" 2>/dev/null | grep -q .; then
        rm -rf "$kept"
        mkdir -p "$kept" && touch "$kept/.begun" &&
            cpack --config "$PFL_BUILD/CPackConfig.cmake" -B "$kept" >"$WORK/cpack.log" 2>&1 || return
        rm -rf "$kept/_CPack_Packages"
        mv "$kept/.begun" "$kept/.made"
    fi
}
package_program() {
    local place=$PFL_BUILD/tests/unpacked/$1
    ! command -v "${2##*/}" || return 0
    if [ ! -x "$place$2" ]; then
        rm -rf "$place"
        mkdir -p "$place" && (cd "$place" && package_fetch "$1" && dpkg -x ./*.deb . && rm ./*.deb) >&2 || return
    fi
    [ -x "$place$2" ] && echo "$place$2"
}
package_fetch() { # into this folder
    apt-get -q download "$1" || { apt-get -q update && apt-get -q download "$1"; }
}
