# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of perfleet for bash. The program itself says what can stand where (perfleet complete
# -- WORD...), so that it is the same in every shell.

# The words up to the cursor. Those of COMP_WORDS are cut at = and :, which COMP_LINE joins again.
_perfleet_words() { # sets `words`
    local line=${COMP_LINE:0:COMP_POINT} gap token i
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        token=${COMP_WORDS[i]}
        gap=${line%%[![:space:]]*}
        line=${line#"$gap"}
        [[ $line == "$token"* ]] || token=$line
        line=${line#"$token"}
        if [ -n "$gap" ] || [ "$i" -eq 0 ]; then
            words+=("$token")
        else
            words[-1]+=$token
        fi
    done
}
_perfleet() {
    local words=() word current cut='' i
    _perfleet_words
    for i in "${!words[@]}"; do # as the shell would pass them
        word=${words[i]}
        case $word in
        \'*\' | \"*\") word=${word:1:${#word}-2} ;;
        esac
        words[i]=${word/#"~/"/"$HOME/"}
    done
    current=${words[-1]}
    # What is in front of the last = or : stays.
    if [[ $current == *[=:]* && $COMP_WORDBREAKS == *=* && $COMP_WORDBREAKS == *:* ]]; then
        cut=${current%"${current##*[=:]}"}
    fi
    COMPREPLY=()
    compopt +o default 2>/dev/null
    # (Not compgen -W: it expands words, $(...) and all.)
    while IFS= read -r word; do
        if [ "$word" = @files ]; then
            compopt -o default 2>/dev/null
        elif [[ $word == "$current"* ]]; then
            COMPREPLY+=("${word#"$cut"}")
        fi
    done < <("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[:/] ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _perfleet perfleet
