#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails when a tracked C file is not as clang-format 14 (Debian 12) lays it out. Other versions lay some lines out
# otherwise, so without that one the gate is skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(git ls-files -- '*.c' '*.h' 2>/dev/null | while read -r f; do [ -e "$f" ] && echo "$f"; done)
[ ${#files[@]} -gt 0 ] || { echo "format: nothing was checked"; exit 1; }
format=clang-format-14
command -v "$format" >/dev/null || format=clang-format
"$format" --version | grep -q 'version 14\.' || { echo "format: the layout is that of clang-format 14, which is not here"; exit 77; }
"$format" --dry-run -Werror "${files[@]}"
echo "format: ${#files[@]} files, 0 problems"
