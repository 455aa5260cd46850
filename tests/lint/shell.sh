#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails on a shell script that bash cannot parse, or that shellcheck (where installed) calls wrong.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t scripts < <(git ls-files | while read -r f; do
    [ -f "$f" ] && head -c 64 "$f" | head -1 | grep -aqE '^#!.*\b(ba)?sh\b' && echo "$f"
done)
[ ${#scripts[@]} -gt 0 ] || { echo "shell: nothing was checked"; exit 1; }
for s in "${scripts[@]}"; do bash -n "$s"; done
if command -v shellcheck >/dev/null; then
    printf '%s\0' "${scripts[@]}" | xargs -0 -n 8 -P "$(nproc)" shellcheck -S warning -x -P SCRIPTDIR
else
    echo "shell: shellcheck is not installed: parsed only"
fi
echo "shell: ${#scripts[@]} scripts, 0 problems"
