#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Settings of the daemons: --config, --check-config, --dump-config, and the installed examples.
. "$(dirname "$0")/lib.sh"

CONF=$ROOT/deploy/conf
R=$BIN/perfleet-relay

# The example's values of keys with a default are what the daemon has without it; read with all
# keys, examples too, it is understood.
example_is_true() {
    local program=$1 example=$2
    shift 2
    diff <(sed -n 's/^#\([a-z_]*: .*\)/\1/p' "$CONF/$example" | sort) \
        <("$BIN/$program" "$@" --dump-config | sed -n 's/ # default$//p' | sort) || return 1
    sed 's/^##\?\([a-z_]*: \)/\1/' "$CONF/$example" >"$WORK/all.conf"
    "$BIN/$program" --config "$WORK/all.conf" --dump-config >"$WORK/dump" || return 1
    ! grep -E ' # default$|: not set$' "$WORK/dump"
}

files=(--ca "$WORK/ca" --cert "$WORK/cert" --key "$WORK/key")
touch "$WORK/ca" "$WORK/cert" "$WORK/key"
check "perfleetd.conf shows every key and every default" example_is_true perfleetd perfleetd.conf
check "probes.conf shows every key and every default" example_is_true perfleet-probes probes.conf
check "agent.conf shows every key and every default" \
    example_is_true perfleet-agent agent.conf --relay a:1 "${files[@]}"
check "relay.conf shows every key and every default" \
    example_is_true perfleet-relay relay.conf "${files[@]}"

cat >"$WORK/r.conf" <<END
ca: "$WORK/ca"
cert: "$WORK/cert"
key: "$WORK/key"
max_connections: 5
END
check "--check-config says that a good configuration is good" \
    exits_with 0 says "perfleet-relay: the configuration is good" "$R" --config "$WORK/r.conf" --check-config
check "a flag goes before the file, and the dump tells which" \
    says "^max_connections: 9 # --max-connections$" "$R" --config "$WORK/r.conf" --max-connections 9 --dump-config
check "and the file before the default" \
    says "^max_connections: 5 # $WORK/r.conf:4$" "$R" --config "$WORK/r.conf" --dump-config
check "what is dumped is a configuration" \
    bash -c "'$R' --config '$WORK/r.conf' --dump-config >'$WORK/again.conf' && '$R' --config '$WORK/again.conf' --check-config"
echo 'polcy: "x"' >>"$WORK/r.conf"
check "a key that is no key is named with line and the nearest one" \
    says "r.conf:5:1: no field \"polcy\".*did you mean \"policy\"" "$R" --config "$WORK/r.conf"
check "and ends the start with 2" exits_with 2 "$R" --config "$WORK/r.conf"
sed -i 's/^polcy.*/crl: "\/nowhere\/crl.pem"/' "$WORK/r.conf"
check "--check-config wants to be able to read what is named, and tells the line" \
    says "r.conf:5: crl: cannot read \"/nowhere/crl.pem\": No such file" "$R" --config "$WORK/r.conf" --check-config
check "and fails" exits_with 2 "$R" --config "$WORK/r.conf" --check-config
check "a file that does not exist is reported" says "nowhere.conf: No such file" "$R" --config /nowhere.conf
check "a folder is no file" says "directory" "$R" --config /
head -c 2000000 /dev/zero | tr '\0' '#' >"$WORK/big.conf"
check "a file beyond the limit is refused" exits_with 2 "$R" --config "$WORK/big.conf" "${files[@]}"
check "a misspelt option is named with the nearest one" \
    says "^perfleet-relay: there is no option --polcy; did you mean --policy\?$" "$R" --polcy x
check "and one without its value" says "^perfleet-relay: --policy: give a value$" "$R" --policy
check "what is missing is named with its flag" says "^perfleet-agent: --relay: is missing" "$BIN/perfleet-agent"

cat >"$WORK/d.conf" <<END
producer_socket: "$WORK/p.sock"
consumer_socket: "$WORK/c.sock"
log_level: debug
END
start service "$BIN/perfleetd" --config "$WORK/d.conf"
check "a service runs by its file" wait_for 20 test -S "$WORK/c.sock"
# ---- the operator's ----
# own CONF-FOLDER WORD...: perfleet with settings of its own
own() {
    local folder=$1
    shift
    env -u PERFLEET_RELAY -u PERFLEET_CONFIG PERFLEET_CONFIG_DIR="$folder" "$BIN/perfleet" "$@"
}
operator_example_is_true() {
    diff <(sed -n 's/^#\([a-z_]*: .*\)/\1/p' "$CONF/perfleet.conf" | sort) \
        <(own "$WORK/none" config show | sed -n '/pem"/d; s/ # default$//p' | sort) || return 1
    sed 's/^##\?\([a-z_]*: \)/\1/' "$CONF/perfleet.conf" >"$WORK/all.conf"
    PERFLEET_CONFIG=$WORK/all.conf "$BIN/perfleet" config show >"$WORK/dump" || return 1
    ! grep -E ' # default$|: not set$' "$WORK/dump"
}
check "perfleet.conf shows every key and every default" operator_example_is_true
mkdir -p "$WORK/own"
printf 'relay: "meet1.example.com"\ntimeout: "2s"\npreset: "sched"\n' >"$WORK/own/perfleet.conf"
check "the user's file is read, and config show tells the line" \
    says "^relay: \"meet1.example.com\" # $WORK/own/perfleet.conf:1$" own "$WORK/own" config show
check "a variable goes before it" says '^timeout: "3s" # PERFLEET_TIMEOUT$' \
    env -u PERFLEET_CONFIG PERFLEET_CONFIG_DIR="$WORK/own" PERFLEET_TIMEOUT=3s "$BIN/perfleet" config show
check "an option goes before both" says '^timeout: "4s" # --timeout$' \
    env -u PERFLEET_CONFIG PERFLEET_CONFIG_DIR="$WORK/own" PERFLEET_TIMEOUT=3s "$BIN/perfleet" config show --timeout 4s
check "config show tells which files were read" says "user's file \"$WORK/own/perfleet.conf\": read" \
    own "$WORK/own" config show
check "and the same as JSON" says '"source": "default"' own "$WORK/own" config show --json
echo 'realy: "x"' >>"$WORK/own/perfleet.conf"
check "a misspelt key is named with line and the nearest one" \
    says "own/perfleet.conf:4:1: no field \"realy\".*did you mean \"relay\"" own "$WORK/own" hosts
check "and ends the command with 2" exits_with 2 own "$WORK/own" hosts
check "PERFLEET_CONFIG, empty, has no file read" exits_with 0 \
    env PERFLEET_CONFIG= PERFLEET_CONFIG_DIR="$WORK/own" "$BIN/perfleet" config show
check "one that names no file is refused" says 'nowhere.conf: No such file.*PERFLEET_CONFIG' \
    env PERFLEET_CONFIG=/nowhere.conf "$BIN/perfleet" config show
echo 'relay: "meet1.example.com"' >"$WORK/own/perfleet.conf"
chmod 664 "$WORK/own/perfleet.conf"
check "a file that others may write is refused, with the remedy" \
    says "can be written by others: .*chmod go-w $WORK/own/perfleet.conf" own "$WORK/own" hosts
chmod 644 "$WORK/own/perfleet.conf"
if [ "$(id -u)" -eq 0 ]; then
    chown 65534 "$WORK/own/perfleet.conf"
    check "a file of another user is refused" says "belongs to user 65534" own "$WORK/own" hosts
    chown 0 "$WORK/own/perfleet.conf"
else
    skip "a file of another user is refused" "not root"
fi
printf 'ca: "ca.pem"\n' >"$WORK/own/perfleet.conf"
check "a path in a file begins with /" says 'perfleet.conf:1: ca: wants a path that begins with /' \
    own "$WORK/own" hosts

# ---- words ----
check "a misspelt command ends with 2" exits_with 2 own "$WORK/none" recrod
check "and is named with the nearest one" \
    says '^perfleet: there is no command "recrod"; did you mean record\?$' own "$WORK/none" recrod
check "a misspelt option is" says '^perfleet: perfleet record has no option --duratoin; did you mean --duration\?$' \
    own "$WORK/none" record --duratoin 5s
check "an option without its value is refused" says '^perfleet: --host: give a value: --host HOST$' own "$WORK/none" hosts --host
check "one that takes none is refused" says '^perfleet: --json=yes: --json takes no value$' own "$WORK/none" hosts --json=yes
same_help() {
    diff <(own "$WORK/none" help "$1") <(own "$WORK/none" "$1" --help)
}
check "perfleet help record is perfleet record --help" same_help record
check "perfleet help pki is perfleet pki --help" same_help pki
check "a misspelt category is named with the nearest one" says '"schd": there is no such category; did you mean sched\?' \
    own "$WORK/none" record -t 1s schd --host "unix:$WORK/none.sock"
check "a preset and a category are one too many" says 'give either a config' \
    own "$WORK/none" record --preset sched sched

# ---- nobody says which host ----
export PERFETTO_PRODUCER_SOCK_NAME=$WORK/here-p.sock PERFETTO_CONSUMER_SOCK_NAME=$WORK/here-c.sock
check "without a host and without a service the socket is named" \
    says "no host is given, and no service answers on this machine \($WORK/here-c.sock: No such file" \
    own "$WORK/none" hosts
start here "$BIN/perfleetd"
wait_for 100 test -S "$WORK/here-c.sock"
start writer "$BIN/perfleet-example" --track-events
offers_track_event() { own "$WORK/none" query | grep -q track_event; }
wait_for 30 offers_track_event
check "without a host this machine's service is meant" exits_with 0 own "$WORK/none" hosts
check "and recorded" exits_with 0 own "$WORK/none" record track_event -t 500ms -q -o "$WORK/here.pftrace"
watched() { # two rounds are a second header
    timeout 60 bash -c "'$BIN/perfleet' hosts --watch --host local | grep -m 2 ^NAME | sed -n 2p" | grep -q ^NAME
}
check "hosts --watch asks again" watched
check "columns are chosen" says '^STATE  NAME' own "$WORK/none" hosts --columns state,name
check "a column that is none is named with the nearest one" says '^perfleet: --columns: there is no column stat; did you mean state\?' \
    own "$WORK/none" hosts --columns stat
coloured() { own "$WORK/none" hosts --host "unix:$WORK/none.sock" "$@" | grep -q $'\033\[31m'; }
check "colours are there when they are wanted" coloured --color always
plain() { ! coloured "$@"; }
check "a pipe gets none" plain --color auto
colours_of_a_terminal() { env "$@" PERFLEET_CONFIG_DIR="$WORK/none" script -qec "'$BIN/perfleet' hosts --host unix:$WORK/none.sock" /dev/null | grep -c $'\033\[31m'; }
if command -v script >/dev/null; then
    check "a terminal gets colours" test "$(colours_of_a_terminal TERM=xterm)" = 1
    check "not with NO_COLOR" test "$(colours_of_a_terminal TERM=xterm NO_COLOR=1)" = 0
    check "NO_COLOR gives way to the settings" test "$(colours_of_a_terminal TERM=xterm NO_COLOR=1 PERFLEET_COLOR=always)" = 1
    check "a dumb terminal gets none" test "$(colours_of_a_terminal TERM=dumb)" = 0
else
    skip "a terminal gets colours, but with NO_COLOR" "script(1) is not installed"
fi
mkdir "$WORK/named"
check "what to record may be words, the file's name the date's" \
    says 'trace perfleet-20[0-9]{6}-[0-9]{6}.pftrace: ' bash -c "cd '$WORK/named' && PERFLEET_CONFIG_DIR='$WORK/none' '$BIN/perfleet' record -t 200ms -b 1mb track_event sched irq/*"
check "and the file is there" test "$(find "$WORK/named" -name 'perfleet-*.pftrace' -size +0 | wc -l)" = 1
check "a session may be started so" exits_with 0 own "$WORK/none" start words track_event
sleep 0.5
check "and read" exits_with 0 own "$WORK/none" read words -q -o "$WORK/words.pftrace"
echo 'relay: "127.0.0.1:1"' >"$WORK/own/perfleet.conf"
check "a relay of the settings is not asked for a host that is an address" \
    exits_with 0 own "$WORK/own" hosts --host local
check "it is where nothing is said" says 'relay 127.0.0.1:1|cert.pem|ca.pem' own "$WORK/own" hosts
finish
