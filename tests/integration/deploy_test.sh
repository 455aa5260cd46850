#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What installs the daemons and keeps them running: cmake --install, units, and the service manager's
# protocol, played by tests/support/supervisor.py and systemd-socket-activate on the real programs.
. "$(dirname "$0")/lib.sh"

MANAGER="python3 -B $ROOT/tests/support/supervisor.py"
PKI=$ROOT/deploy/pki/perfleet-pki
{ "$PKI" init "$WORK/pki" --fleet test && "$PKI" host "$WORK/pki" one &&
    "$PKI" relay "$WORK/pki" meet; } >"$WORK/pki.log"
relay=("$BIN/perfleet-relay" --consumer-socket "$WORK/none" --ca "$WORK/pki/ca.pem"
    --cert "$WORK/pki/relay-meet.pem" --key "$WORK/pki/relay-meet.key" --crl "$WORK/pki/crl.pem")
agent=("$BIN/perfleet-agent" --relay 127.0.0.1:1 --ca "$WORK/pki/ca.pem"
    --cert "$WORK/pki/host-one.pem" --key "$WORK/pki/host-one.key")

# --- the service manager's protocol ----------------------------------------------------------
# The four at once: most of it is waiting.
manage() { # manage NAME ARG...
    local name=$1
    shift
    { $MANAGER --watchdog-ms 1000 "$@" >"$WORK/manage-$name.log" 2>&1; echo $? >"$WORK/$name.code"; } &
}
managed() {
    wait_for 120 test -s "$WORK/$1.code"
    [ "$(cat "$WORK/$1.code")" = 0 ] || { cat "$WORK/manage-$1.log"; return 1; }
}
manage service --listen "x-producer=$WORK/p.sock" --listen "x-consumer=$WORK/c.sock" \
    ready,connect,alive,hang,restart,connect,alive,stop -- "$BIN/perfleetd"
manage relay --abstract --listen relay=127.0.0.1:0 \
    ready,connect,alive,reload,hang,restart,connect,alive,stop -- "${relay[@]}"
manage agent ready,alive,reload,hang,restart,alive,stop -- "${agent[@]}"
manage probes ready,alive,hang,restart,alive,stop -- \
    "$BIN/perfleet-probes" --no-ftrace --producer-socket "$WORK/nobody"
check "perfleetd: readiness, watchdog and sockets; killed when it hangs, it comes back on the same sockets" managed service
check "perfleet-relay: the same, and reload, with the manager at an abstract name" managed relay
check "perfleet-agent: readiness, watchdog, reload" managed agent
check "perfleet-probes: readiness and watchdog" managed probes
check "without a watchdog there are no signs of life" \
    $MANAGER ready,silent,stop -- "$BIN/perfleetd" --producer-socket "$WORK/p2" --consumer-socket "$WORK/c2"
check "a relay refuses a second socket" says "listens on one socket" \
    $MANAGER --listen a=127.0.0.1:0 --listen b=127.0.0.1:0 ready -- "${relay[@]}"
check "and one that is not TCP" says "listens on TCP" \
    $MANAGER --listen "a=$WORK/u.sock" ready -- "${relay[@]}"

activated() {
    start activated systemd-socket-activate -l "$WORK/sd-p" -l "$WORK/sd-c" \
        --fdname=producer:consumer "$BIN/perfleetd"
    wait_for 20 test -S "$WORK/sd-c" &&
        wait_for 20 "$BIN/perfleet" query --host "unix:$WORK/sd-c"
}
if command -v systemd-socket-activate >/dev/null; then
    check "systemd-socket-activate starts perfleetd at the first connection" activated
else
    skip "systemd-socket-activate starts perfleetd at the first connection" "no systemd-socket-activate"
fi

# --- installing ----------------------------------------------------------------------------------
DESTDIR=$WORK/root cmake --install "$PFL_BUILD" >"$WORK/install.log" 2>&1
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$PFL_BUILD/CMakeCache.txt")
check "cmake --install honours DESTDIR: everything is beneath it" \
    test -x "$WORK/root$prefix/sbin/perfleetd" -a -e "$WORK/root$prefix/lib/systemd/system/perfleetd.service"
completions() { # each program's, where the shells look: perfleet's, and one of a daemon of each package
    local name share=$WORK/root$prefix/share
    for name in perfleet perfleetd perfleet-relay perfleet-collector; do
        grep -q "complete .* $name\b" "$share/bash-completion/completions/$name" || { echo "bash: $name"; return 1; }
        grep -qE "complete -c (\\\$name|$name) " "$share/fish/vendor_completions.d/$name.fish" || { echo "fish: $name"; return 1; }
    done
    [ "$(find "$share/zsh" -name '_perfleet*' -exec head -qn1 {} + | grep -c '^#compdef perfleet')" -eq 4 ]
}
check "completions are where the shells look for them" completions
# Another prefix at the installation: everything is beneath it, and names it.
at_prefix() {
    local etc=/etc stray
    [ "$prefix" = /usr ] || etc=$prefix/etc
    touch "$WORK/before"
    cmake --install "$PFL_BUILD" --prefix "$WORK/p" >>"$WORK/install.log" 2>&1 || return 1
    stray=$(find "$etc/perfleet" -newercm "$WORK/before" 2>/dev/null)
    [ -z "$stray" ] || { echo "written: $stray"; return 1; }
    [ -e "$WORK/p/etc/perfleet/agent.conf" ] || { echo "no settings beneath it"; return 1; }
    grep -q "^ExecStart=$WORK/p/sbin/perfleetd --config $WORK/p/etc/perfleet/perfleetd.conf" \
        "$WORK/p/lib/systemd/system/perfleetd.service" || { echo "the unit:"; grep ExecStart "$WORK/p/lib/systemd/system/perfleetd.service"; return 1; }
    ! grep -rIl "$prefix/\(bin\|sbin\|etc\|lib\|include\)" "$WORK/p"
}
# What the installation put there is what `perfleet` reads: it names the file, and obeys it.
settings_at_prefix() {
    local file=$WORK/p/etc/perfleet/perfleet.conf
    echo 'relay: "prefix.example.com"' >>"$file"
    env -u PERFLEET_CONFIG -u PERFLEET_RELAY PERFLEET_CONFIG_DIR="$WORK/none" "$WORK/p/bin/perfleet" config show >"$WORK/settings.out"
    grep -qxF "# the system's file \"$file\": read" "$WORK/settings.out" &&
        grep -q "^relay: \"prefix.example.com\" # $file:[0-9]*\$" "$WORK/settings.out" || { cat "$WORK/settings.out"; return 1; }
}
pc_prefix() {
    local pc
    pc=$(dirname "$(find "$WORK/p" -name perfleet.pc)")
    realpath "$(PKG_CONFIG_PATH=$pc pkg-config --variable=prefix perfleet)" | grep -qx "$(realpath "$WORK/p")"
}
if [ "$prefix" = /usr ]; then
    skip "cmake --install --prefix has everything beneath the new prefix" "configured for /usr, with /etc"
else
    check "cmake --install --prefix has everything beneath the new prefix" at_prefix
    check "and perfleet.pc names it" pc_prefix
    check "and perfleet reads the settings that are there" settings_at_prefix
fi
elsewhere() {
    cmake -S "$ROOT" -B "$WORK/elsewhere" -G Ninja -DPFL_TESTS=OFF -DPFL_BENCH=OFF -DCMAKE_INSTALL_PREFIX=/srv/p \
        -DCMAKE_INSTALL_BINDIR=programs -DCMAKE_INSTALL_SBINDIR=daemons -DCMAKE_INSTALL_SYSCONFDIR=settings \
        >"$WORK/elsewhere.log" &&
        grep -q '^ExecStart=/srv/p/daemons/perfleetd --config /srv/p/settings/perfleet/perfleetd.conf' \
            "$WORK/elsewhere/deploy/systemd/perfleetd.service" &&
        grep -q '^ca: "/srv/p/settings/perfleet/agent/ca.pem"' "$WORK/elsewhere/deploy/settled/conf/agent.conf" &&
        grep -q '^d /srv/p/settings/perfleet/agent ' "$WORK/elsewhere/deploy/settled/tmpfiles.d/host.conf"
}
check "and GNUInstallDirs: units and settings name the places that were chosen" elsewhere

# --- units ---------------------------------------------------------------------------------------
units=$WORK/units
mkdir "$units"
cp "$PFL_BUILD"/deploy/systemd/* "$units"
sed -i "s#^\(Exec[A-Za-z]*=\)/[^ ]*/\(perfleet[a-z-]*\)#\1$BIN/\2#" "$units"/*.service
verify() {
    local said
    said=$(SYSTEMD_UNIT_PATH="$units:" systemd-analyze verify --man=no "$units/$1" 2>&1) || { echo "$said"; return 1; }
    [ -z "$said" ] || { echo "$said"; return 1; }
}
if command -v systemd-analyze >/dev/null; then
    for unit in "$units"/*; do
        check "systemd understands ${unit##*/}" verify "${unit##*/}"
    done
    check "the relay's sandbox: exposure of 2.0 or less" \
        systemd-analyze security --no-pager --offline=true --threshold=20 "$units/perfleet-relay.service"
    check "the agent's" systemd-analyze security --no-pager --offline=true --threshold=20 "$units/perfleet-agent.service"
    check "the service's" systemd-analyze security --no-pager --offline=true --threshold=20 "$units/perfleetd.service"
    check "the collector's" systemd-analyze security --no-pager --offline=true --threshold=20 "$units/perfleet-collector.service"
    check "the signer's" systemd-analyze security --no-pager --offline=true --threshold=20 "$units/perfleet-signer.service"
    check "that of the agent's renewals" \
        systemd-analyze security --no-pager --offline=true --threshold=20 "$units/perfleet-agent-renew.service"
    check "that of the probes, who are root: 4.0 or less" \
        systemd-analyze security --no-pager --offline=true --threshold=40 "$units/perfleet-probes.service"
    for kind in sysusers tmpfiles; do
        for part in host relay operator; do
            file=$PFL_BUILD/deploy/settled/$kind.d/$part.conf
            case $kind in
            sysusers) command=(systemd-sysusers --root="$WORK/empty" "$file") ;;
            tmpfiles) command=(systemd-tmpfiles --root="$WORK/empty" --create "$file") ;;
            esac
            mkdir -p "$WORK/empty/etc"
            if [ "$(id -u)" -eq 0 ]; then
                check "$kind.d of $part makes what it says" "${command[@]}"
            else
                skip "$kind.d of $part makes what it says" "not root"
            fi
        done
    done
else
    skip "units are understood, and their sandboxes tight" "no systemd-analyze"
fi
finish
