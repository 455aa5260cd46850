#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails on YAML that yamllint finds fault with, warnings included.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v yamllint >/dev/null || { echo "yaml: skipped: yamllint is not installed"; exit 77; }
mapfile -t files < <(git ls-files '*.yaml' '*.yml')
[ ${#files[@]} -gt 0 ] || { echo "yaml: nothing was checked"; exit 1; }
yamllint --strict -d '{extends: default, rules: {line-length: {max: 120}}}' "${files[@]}"
echo "yaml: ${#files[@]} files, 0 problems"
