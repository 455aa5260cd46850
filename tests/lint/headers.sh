#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails when a header does not compile alone, with gcc and with clang.
# Usage: headers.sh BUILD_DIR      (its compile_commands.json tells the include paths)
set -euo pipefail
build=${1:?usage: headers.sh BUILD_DIR}
cd "$(dirname "$0")/../.."
mapfile -t headers < <(git ls-files -- '*.h' | while read -r f; do [ -e "$f" ] && echo "$f"; done)
[ ${#headers[@]} -gt 0 ] || { echo "headers: nothing was checked"; exit 1; }
includes=$(grep -ohE -- '-(I|isystem )[^ ]+' "$build/compile_commands.json" | sort -u | tr '\n' ' ')
check_one() {
    for cc in gcc clang; do
        # A system header twice in a row must do no harm either: that is the include guard's job.
        # shellcheck disable=SC2086
        printf '#include "%s"\n#include "%s"\n' "$1" "$1" |
            $cc -std=c11 -D_GNU_SOURCE -DPFL_VERSION='"0"' $INCLUDES -Wall -Wextra -Wpedantic \
                -Wconversion -Wshadow -Wstrict-prototypes -Wundef -Werror -fsyntax-only -x c - ||
            { echo "headers: $1 does not compile alone with $cc"; return 1; }
    done
}
export -f check_one
export INCLUDES=$includes
printf '%s\n' "${headers[@]}" | xargs -P "$(nproc)" -I{} bash -c 'check_one {}'
echo "headers: ${#headers[@]} headers, 0 problems"
