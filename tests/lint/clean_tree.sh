#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails when the build or the tests left anything in the tree that is neither tracked nor ignored,
# or changed a tracked file. Usage: clean_tree.sh before > FILE ... clean_tree.sh after FILE
set -euo pipefail
cd "$(dirname "$0")/../.."
state() {
    git status --porcelain
    git diff HEAD | sha256sum
}
case ${1:-} in
before) state ;;
after)
    diff <(state) "${2:?}" && echo "clean tree: nothing changed" ||
        { echo "clean tree: the build or the tests changed the lines above"; exit 1; } ;;
*) echo "usage: clean_tree.sh before | after FILE" >&2; exit 2 ;;
esac
