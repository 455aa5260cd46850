# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of the daemons for bash, installed under the name of each: options, and values of which
# there are few, are those of their help.
_perfleet_daemon() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words help pattern kind=''
    local name=${COMP_WORDS[0]##*/} program=("${COMP_WORDS[0]/#"~/"/"$HOME/"}")
    if [ "$current" = = ]; then
        current=''
    elif [ "$previous" = = ]; then # --NAME=VALUE is three words
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [ "$name" = perfleet-agent ] && [ "$COMP_CWORD" -gt 1 ] && [ "${COMP_WORDS[1]}" = join ]; then
        program+=(join)
    fi
    help=$("${program[@]}" --help 2>/dev/null)
    words=$(grep -oE -- '--[a-z][a-z-]+' <<<"$help" | sort -u)
    [ "$name:$COMP_CWORD" != perfleet-agent:1 ] || words+=' join renew'
    # What the help calls the option's value.
    pattern=$'\n'" +$previous ([^[:space:]]+)"
    [[ ! $help =~ $pattern ]] || kind=${BASH_REMATCH[1]}
    case $previous:$kind in
    --user:*) words=$(compgen -u) ;;
    --log-level:*) words='error warn info debug' ;;
    --*:[a-z]*\|*) words=${kind//|/ } ;;
    --*:?*) return ;; # a file, or what nobody knows
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _perfleet_daemon perfleetd perfleet-agent perfleet-relay perfleet-collector perfleet-probes perfleet-keep perfleet-trigger
