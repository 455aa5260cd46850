#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy (.clang-tidy) over the sources of the product and the benchmarks, in parallel.
# Usage: tidy.sh BUILD_DIR [FILE...]
# A file that was clean is not looked at again while it, what it includes and the rules stay the
# same: a folder outside the tree (tests/support/cache.sh), else BUILD_DIR/tidy-cache, keeps a stamp under the hash
# of its preprocessed text.
# The rules are those of clang-tidy 14 (Debian 12): later versions have more, so without that one the gate is skipped.
set -euo pipefail
build=$(cd "${1:?usage: tidy.sh BUILD_DIR [FILE...]}" && pwd)
shift
cd "$(dirname "$0")/../.."
if [ $# -gt 0 ]; then files=("$@"); else
    mapfile -t files < <(git ls-files -- '*.c' ':!tests/unit' ':!tests/fuzz' ':!tests/support' |
        while read -r f; do grep -q "\"file\": \"$PWD/$f\"" "$build/compile_commands.json" && echo "$f"; done)
fi
[ ${#files[@]} -gt 0 ] || { echo "tidy: nothing was checked"; exit 1; }
tidy=clang-tidy-14
command -v "$tidy" >/dev/null || tidy=clang-tidy
"$tidy" --version | grep -q 'version 14\.' || { echo "tidy: the rules are those of clang-tidy 14, which is not here"; exit 77; }
. tests/support/cache.sh
stamps=$(pfl_cache_folder tidy-cache) || stamps=$build/tidy-cache
mkdir -p "$stamps"
find "$stamps" -type f -mtime +30 -delete
includes=$(grep -ohE -- '-(I|isystem )[^ ]+' "$build/compile_commands.json" | sort -u | tr '\n' ' ')
tidy_one() {
    local file=$1 stamp log
    # shellcheck disable=SC2086
    stamp=$STAMPS/$({ cat .clang-tidy; clang -E -P -std=c11 -D_GNU_SOURCE \
        -DPFL_VERSION='"0"' $INCLUDES "$file" 2>/dev/null; cat "$file"; } | sha256sum | cut -c1-40)
    [ ! -e "$stamp" ] || { touch "$stamp"; return 0; }
    log=$(mktemp)
    if "$TIDY" -p "$BUILD" --quiet --warnings-as-errors='*' "$file" >"$log" 2>/dev/null; then
        touch "$stamp"
        rm -f "$log"
        return 0
    fi
    cat "$log"
    rm -f "$log"
    echo "tidy: $file"
    return 1
}
export -f tidy_one
export BUILD=$build STAMPS=$stamps TIDY=$tidy INCLUDES=$includes
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} bash -c 'tidy_one {}'
echo "tidy: ${#files[@]} files, 0 problems"
