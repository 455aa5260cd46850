#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shells' completions, as the shells would call them.
. "$(dirname "$0")/lib.sh"
export PATH=$BIN:$PATH

# complete_bash WORD...: what bash offers for the last of the words
complete_bash() {
    bash --norc -c '. "$0/deploy/completion/perfleet.bash"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _perfleet && printf "%s\n" "${COMPREPLY[@]}"' "$ROOT" "$@"
}
complete_zsh() {
    zsh -f -c 'compadd() { print -l -- ${@:#-S}; }
        _files() { print -l -- *; }
        source $1/deploy/completion/_perfleet
        shift; words=("$@") CURRENT=$#
        _perfleet' zsh "$ROOT" "$@"
}
for command in $("$BIN/perfleet" complete); do
    commands+=("$command")
done
check "the program names its commands" test "${#commands[@]}" -ge 10
knows_all_options() { # each option that --help shows is offered, by complete
    local command option
    for command in "${commands[@]}"; do
        for option in $("$BIN/perfleet" "$command" --help | grep -oE -- '^  (-., |    )--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
            "$BIN/perfleet" complete "$command" | grep -qx -- "$option" || { echo "$command $option"; return 1; }
        done
    done
}
check "every option of every command's help is offered" knows_all_options
takes_json() { # all but those that end as another program
    local command
    for command in "${commands[@]}"; do
        [ "$command" = pki ] || "$BIN/perfleet" complete "$command" | grep -qx -- --json || { echo "$command"; return 1; }
    done
}
check "every command takes --json" takes_json
same_presets() {
    [ "$("$BIN/perfleet" presets --json | python3 -c 'import json, sys
for preset in json.load(sys.stdin): print(preset["name"])')" = "$("$BIN/perfleet" presets | cut -d" " -f1)" ]
}
check "presets are the same as JSON" same_presets
check "bash completes commands" test "$(complete_bash perfleet sna)" = snapshot
check "bash completes options" test "$(complete_bash perfleet record --quo)" = --quorum
check "bash offers a command its own options only" test -z "$(complete_bash perfleet ps --quo)"
check "bash completes presets" says '^default$' complete_bash perfleet record --preset de
touch "$WORK/trace-config.pbtx"
check "bash completes files" says 'trace-config.pbtx' complete_bash perfleet record -c "$WORK/trace-"
if command -v zsh >/dev/null; then
    check "zsh completes commands" says '^snapshot$' complete_zsh perfleet ''
    check "zsh completes options" says '^--quorum$' complete_zsh perfleet record ''
    check "zsh completes presets" says '^default$' complete_zsh perfleet record --preset ''
else
    skip "zsh completes" "zsh is not installed"
fi
finish
