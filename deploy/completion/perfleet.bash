# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of perfleet for bash: commands and options are asked of the program itself, so that they
# are always its own.
_perfleet() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
    local words=''
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$("$program" complete 2>/dev/null)
        words+=' --help --version'
    else
        case $previous in
        -c | --config | -o | --output | --ca | --cert | --key | --socket)
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        --preset) words=$("$program" presets 2>/dev/null | cut -d' ' -f1) ;;
        --host) words='local unix: tls:// ssh://' ;;
        --duration | --timeout) words='10s 1m 5m' ;;
        --relay | --select | --quorum) return ;;
        pki) words='init host relay operator renew revoke crl list join-token serve' ;;
        presets) words=$("$program" presets 2>/dev/null | cut -d' ' -f1) ;;
        *) words=$("$program" complete "${COMP_WORDS[1]}" 2>/dev/null) ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _perfleet perfleet
