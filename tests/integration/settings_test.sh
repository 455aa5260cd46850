#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the daemons are told: --config, --check-config, --dump-config, and the installed examples.
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
check "a key that is no key is told with line and the nearest one" \
    says "r.conf:5:1: no field \"polcy\".*did you mean \"policy\"" "$R" --config "$WORK/r.conf"
check "and ends the start with 2" exits_with 2 "$R" --config "$WORK/r.conf"
sed -i 's/^polcy.*/crl: "\/nowhere\/crl.pem"/' "$WORK/r.conf"
check "--check-config wants to be able to read what is named, and tells the line" \
    says "r.conf:5: crl: cannot read \"/nowhere/crl.pem\": No such file" "$R" --config "$WORK/r.conf" --check-config
check "and fails" exits_with 2 "$R" --config "$WORK/r.conf" --check-config
check "a file that is not there is told" says "nowhere.conf: No such file" "$R" --config /nowhere.conf
check "a folder is no file" says "directory" "$R" --config /
head -c 2000000 /dev/zero | tr '\0' '#' >"$WORK/big.conf"
check "a file beyond the limit is refused" exits_with 2 "$R" --config "$WORK/big.conf" "${files[@]}"
check "what is missing is told with its flag" says "^perfleet-agent: --relay: is missing" "$BIN/perfleet-agent"

cat >"$WORK/d.conf" <<END
producer_socket: "$WORK/p.sock"
consumer_socket: "$WORK/c.sock"
log_level: debug
END
start service "$BIN/perfleetd" --config "$WORK/d.conf"
check "a service runs by its file" wait_for 20 test -S "$WORK/c.sock"
finish
