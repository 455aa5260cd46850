# SPDX-License-Identifier: Apache-2.0
# Completion of perfleet for fish. The program itself says what can stand where (perfleet complete --
# WORD...), so that it is the same in every shell.
function __perfleet_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    type -q -- $before[1]; or return
    for word in ($before[1] complete -- $before[2..-1] $current 2>/dev/null)
        if test $word != @files
            echo $word
            continue
        end
        set -l option (string match -r -- '^--[^=]*=' $current; or echo)
        for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' $current))
            echo $option$path
        end
    end
end
complete -c perfleet -f -a '(__perfleet_complete)'
