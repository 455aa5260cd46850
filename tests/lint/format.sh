#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails when a tracked C file is not as clang-format lays it out.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(git ls-files -- '*.c' '*.h' 2>/dev/null | while read -r f; do [ -e "$f" ] && echo "$f"; done)
[ ${#files[@]} -gt 0 ] || { echo "format: nothing was checked"; exit 1; }
clang-format --dry-run -Werror "${files[@]}"
echo "format: ${#files[@]} files, 0 problems"
