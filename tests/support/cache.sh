# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What test runs keep from one to the next, outside the tree (sourced by tests/run, tests/release/run and lint/tidy.sh).
# Without such a folder, as for a user other than root, runs keep nothing and take longer.
#
#   pfl_cache_folder NAME      prints PFL_CACHE/NAME (/var/cache/perfleet), made when it is missing
#   pfl_cache_objects FOLDER   prints the settings, one a line, with which CMake keeps compiled objects in FOLDER: by
#                              compiler, options and preprocessed text, so that a clone elsewhere finds them too

pfl_cache_folder() {
    local folder=${PFL_CACHE:-/var/cache/perfleet}/$1
    mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] && echo "$folder"
}

pfl_cache_objects() {
    printf '%s\n' CMAKE_C_COMPILER_LAUNCHER=ccache "CCACHE_DIR=$1" "CCACHE_BASEDIR=$PWD" CCACHE_NOHASHDIR=1 \
        CCACHE_COMPILERCHECK=content CCACHE_MAXSIZE=4G
}
