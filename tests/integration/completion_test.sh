#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Completion in bash, zsh and fish: what `perfleet complete` says, and what Tab makes of a line in the real shells, with
# hosts, labels, sessions and data sources of a fleet behind a relay.
. "$(dirname "$0")/lib.sh"
export PATH=$BIN:$PATH
P=$BIN/perfleet
for command in $("$P" complete); do
    commands+=("$command")
done
check "the program names its commands" test "${#commands[@]}" -ge 10
knows_all_options() { # each option that --help shows is offered, by complete
    local command option
    for command in "${commands[@]}"; do
        for option in $("$P" "$command" --help | grep -oE -- '^  (-., |    )--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
            "$P" complete "$command" | grep -qx -- "$option" || { echo "$command $option"; return 1; }
            [ "$command" = pki ] || "$P" complete -- "$command" '' | grep -qx -- "$option" || { echo "$command $option"; return 1; }
        done
    done
}
check "every option of every command's help is offered" knows_all_options
takes_json() { # all but those that end as another program
    local command
    for command in "${commands[@]}"; do
        [ "$command" = pki ] || "$P" complete "$command" | grep -qx -- --json || { echo "$command"; return 1; }
    done
}
check "every command takes --json" takes_json
same_presets() {
    [ "$("$P" presets --json | python3 -c 'import json, sys
for preset in json.load(sys.stdin): print(preset["name"])')" = "$("$P" presets | cut -d" " -f1)" ]
}
check "presets are the same as JSON" same_presets

# ---- a fleet: web1 with a session, db1 that left
export XDG_CACHE_HOME=$WORK/cache
make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_service web1
start writer "$BIN/perfleet-example" --track-events
wait_for_source track_event 1
start_agent db1 --label role=db
gone=$STARTED
start_agent web1 --label role=web,zone=z1
is_known() { fleet hosts --host "$1" --json --timeout 1s | grep -q "\"is_connected\": $2"; }
check "two hosts are connected" wait_for 20 eval 'is_known db1 true && is_known web1 true'
kill "$gone"
check "and one left" wait_for 20 is_known db1 false
fleet start flight -q track_event --host web1 >"$WORK/flight.log"
export PERFLEET_RELAY=$RELAY PERFLEET_CA=$WORK/pki/ca.pem PERFLEET_CERT=$WORK/pki/operator-me.pem PERFLEET_KEY=$WORK/pki/operator-me.key

# ---- what the program says
asked() { "$P" complete -- "$@"; }
check "sessions are asked of the hosts that are meant" says '^flight$' asked read --host web1 ''
check "what was asked is used again" test -n "$(find "$XDG_CACHE_HOME/perfleet" -name 'sessions-*')"
"$P" kill flight --host web1 >>"$WORK/flight.log"
check "within a minute" says '^flight$' asked read --host web1 ''
"$P" start flight -q track_event --host web1 >>"$WORK/flight.log"
check "a word is there once" test "$(asked record --host web1 --select '' | sort | uniq -d | wc -l)" -eq 0
check "ready questions are offered" says '^losses$' asked ask --ready ''
check "behind -- there are no options" test -z "$(asked record -- --quo)"
check "an option's value is no word" says '^flight$' asked stop --timeout 5s --host web1 ''
check "a second session is not meant" test -z "$(asked stop flight '' | grep -v '^--')"
check "a new session's name is nobody's" test -z "$(asked start '' | grep -v '^--')"
check "what it shall record is known" says '^sched$' asked start new ''
check "no ssh is started" test -z "$(asked read --host ssh://nowhere.invalid '' | grep -v '^--')"
# What hosts and relays say is offered, and never obeyed.
are_words() {
    local file
    asked read --relay 192.0.2.3 --host x '' >"$WORK/nobody"
    file=$(find "$XDG_CACHE_HOME/perfleet" -name 'sessions-*' -size 0) && cat >"$file" <<'END'
[{"sessions": [{"name": "a;reboot"}, {"name": "$(reboot)"}, {"name": "a\u001b[2J"}, {"name": "-x"}, {"name": "@files"},
               {"name": "good.one"}]}]
END
    [ "$(asked read --relay 192.0.2.3 --host x '' | grep -v '^--')" = good.one ]
}
check "names that are no words are not offered" are_words
nobody_is_quick() { # an address that answers nothing
    local began=$SECONDS
    asked read --relay 192.0.2.1 --host x '' >"$WORK/nobody"
    [ $((SECONDS - began)) -le 4 ]
}
check "a relay that does not answer holds nothing up" nobody_is_quick
check "nor leaves half a file" test -z "$(find "$XDG_CACHE_HOME/perfleet" -name '*.*')"
not_asked_again() {
    local file
    file=$(find "$XDG_CACHE_HOME/perfleet" -name 'sessions-*' -size 0) || return
    [ "$(stat -c %Y "$file")" -lt "$(date +%s)" ] && [ "$(stat -c %Y "$file")" -gt $(($(date +%s) - 60)) ]
}
check "and is not asked at the next key" not_asked_again
touch -d '2 days ago' "$XDG_CACHE_HOME/perfleet/hosts-1234" "$XDG_CACHE_HOME/perfleet/others"
asked hosts --relay 192.0.2.2 --host '' >"$WORK/nobody"
check "files that nobody uses are removed, of these only" test ! -e "$XDG_CACHE_HOME/perfleet/hosts-1234" -a -e "$XDG_CACHE_HOME/perfleet/others"

# ---- what the shells make of it: claim, line, line
touch "$WORK/trace-config.pbtx"
cases() {
    cat <<END
commands
perfleet snap
perfleet snapshot_
help
perfleet help snap
perfleet help snapshot_
options
perfleet record --quo
perfleet record --quorum_
a command's own options only
perfleet ps --quo
perfleet ps --quo
presets
perfleet record --preset def
perfleet record --preset default_
values behind =
perfleet record --preset=def
perfleet record --preset=default_
files
perfleet record -c $WORK/trace-
perfleet record -c $WORK/trace-config.pbtx_
files behind =
perfleet record --config=$WORK/trace-
perfleet record --config=$WORK/trace-config.pbtx_
ages
perfleet forget --older-than 30
perfleet forget --older-than 30d_
words of a command
perfleet traces unp
perfleet traces unpin_
words of orders
perfleet order resu
perfleet order resume_
lists of columns
perfleet hosts --columns name,prod
perfleet hosts --columns name,producers_
addresses, which go on
perfleet hosts --host uni
perfleet hosts --host unix:
hosts
perfleet hosts --host we
perfleet hosts --host web1_
hosts of the relay on the line
perfleet ps --relay $RELAY --host we
perfleet ps --relay $RELAY --host web1_
hosts that left
perfleet forget d
perfleet forget db1_
labels
perfleet record --select role=w
perfleet record --select role=web_
the second of the labels
perfleet record --select role=web,zo
perfleet record --select role=web,zone=z1_
sessions
perfleet read fli
perfleet read flight_
sessions behind options
perfleet stop --host web1 --timeout 5s fli
perfleet stop --host web1 --timeout 5s flight_
data sources
perfleet record --host web1 track_e
perfleet record --host web1 track_event_
pki's commands
perfleet pki rev
perfleet pki revoke_
the daemons' options
perfleet-relay --max-handsh
perfleet-relay --max-handshakes-per-min_
their few values
perfleet-relay --sandbox req
perfleet-relay --sandbox require_
also behind =
perfleetd --sandbox=req
perfleetd --sandbox=require_
levels
perfleet-probes --log-level de
perfleet-probes --log-level debug_
their files
perfleet-agent --ca $WORK/trace-
perfleet-agent --ca $WORK/trace-config.pbtx_
an agent's commands
perfleet-agent jo
perfleet-agent join_
their options
perfleet-agent join --fo
perfleet-agent join --force_
END
}
# A program that is not ours says what it wants.
mkdir "$WORK/liar"
cat >"$WORK/liar/perfleet" <<END
#!/bin/sh
echo 'role=web\$(touch $WORK/obeyed)'
END
chmod +x "$WORK/liar/perfleet"
lies() {
    local line="$WORK/liar/perfleet query --select ro"
    printf '%s\n' "what a liar says" "$line" "${line%ro}$1"
}
said=('role=web$(touch '"$WORK/obeyed) " 'role=web\$\(touch\ '"$WORK/obeyed\) " 'role=web\$\(touch\ '"$WORK/obeyed\) ")
for shell in bash zsh fish; do
    if command -v $shell >/dev/null; then
        tap_claims python3 -B "$ROOT/tests/support/shells.py" $shell "$ROOT/deploy/completion" < <(cases; lies "${said[0]}")
    else
        skip "$shell completes" "$shell is not installed"
    fi
    said=("${said[@]:1}")
done
check "no shell obeys a word that it offers" test ! -e "$WORK/obeyed"
if command -v fish >/dev/null; then
    # shellcheck disable=SC2016
    quiet_fish() {
        { fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$ROOT/deploy/completion/perfleet.fish" "$1" >/dev/null; } 2>&1
    }
    check "fish says nothing of its own" test -z "$(quiet_fish 'perfleet ')"
    check "nor where the program is not there" test -z "$(quiet_fish './nowhere/perfleet read x')"
fi
finish
