# SPDX-License-Identifier: Apache-2.0
# Completion of the daemons for fish, installed under the name of each: options, and values of which
# there are few, are those of their help.
function __perfleet_daemon_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -l name (string replace -r '.*/' '' -- $words[1])
    set -l previous $words[-1]
    set -l option (string match -r -- '^--[a-z-]+=' $current; or echo)
    type -q -- $program; or return
    test "$name:$words[2]" = perfleet-agent:join; and set -a program join
    test -z "$option"; or set previous (string trim -r -c = -- $option)
    set -l help ($program --help 2>/dev/null)
    # What the help calls the option's value.
    set -l kind (string match -gr -- "^ +$previous (\S+)" $help)
    switch $previous:$kind[1]
        case '--user:*'
            printf '%s\n' $option(__fish_complete_users | string replace -r '\t.*' '')
        case '--log-level:*'
            printf '%s\n' $option{error,warn,info,debug}
        case '--*:*|*'
            printf '%s\n' $option(string split '|' -- $kind[1])
        case '--*:?*' # a file, or what nobody knows
            printf '%s\n' $option(__fish_complete_path (string replace -r -- '^--[a-z-]+=' '' $current))
        case '*'
            __fish_complete_path $current
            printf '%s\n' $help | string match -ar -- '--[a-z][a-z-]+' | sort -u
            test "$name" = perfleet-agent -a (count $words) -eq 1; and printf '%s\n' join renew
    end
end
for name in perfleetd perfleet-agent perfleet-relay perfleet-collector perfleet-probes perfleet-keep perfleet-trigger
    complete -c $name -f -a '(__perfleet_daemon_words)'
end
