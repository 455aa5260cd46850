# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# axe-core, which judges the accessibility of pages, for tests (sourced after lib.sh). It is of npm, and test runs keep
# it.
#
#   axe_find    0: AXE is the script
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

axe_find() {
    local folder
    command -v npm >/dev/null && command -v node >/dev/null || return 1
    folder=$(pfl_cache_folder axe-core-4.10.2) || folder=$WORK/axe
    AXE=$folder/node_modules/axe-core/axe.min.js
    [ -e "$AXE" ] && return 0
    mkdir -p "$folder"
    # One at a time, as several tests may want it.
    (
        flock 8
        [ -e "$AXE" ] || timeout 300 npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts \
            --loglevel error axe-core@4.10.2 >"$WORK/npm-axe.txt" 2>&1
    ) 8>"$folder/.lock"
    [ -e "$AXE" ]
}
