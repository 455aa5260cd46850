# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The Debian packages of the build under test (sourced after lib.sh): made once, for all tests that want them.
#   packages_make DIR      they are in DIR; what cpack says in WORK/cpack.log

packages_make() {
    local kept=$PFL_BUILD/tests/packages
    if [ ! -e "$kept/.made" ] || find "$PFL_BUILD"/{bin,docs,deploy,debian,producer,CPackConfig.cmake} "$ROOT"/{deploy,cmake} \
        -newer "$kept/.made" 2>/dev/null | grep -q .; then
        rm -rf "$kept"
        mkdir -p "$kept" && touch "$kept/.begun" &&
            cpack --config "$PFL_BUILD/CPackConfig.cmake" -B "$kept" >"$WORK/cpack.log" 2>&1 || return
        rm -rf "$kept/_CPack_Packages"
        mv "$kept/.begun" "$kept/.made"
    fi
    mkdir -p "$1" && cp "$kept"/*.deb "$1"
}
