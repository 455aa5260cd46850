#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands of the documents, run as they stand there, page by page, on machines of their own with a real
# systemd and real ssh (tests/support/machines.sh): meet1, web1 and web2 as a person would have them, desk, and
# lab1, which has no systemd. A block of commands says on which (tests/support/doc_commands.py).
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/machines.sh"
. "$ROOT/tests/support/packages.sh"
. "$ROOT/tests/support/pages.sh"

WHY=$(grep -q '^CMAKE_INSTALL_PREFIX:PATH=/usr$' "$PFL_BUILD/CMakeCache.txt" && [ -z "${PFL_SANITIZE:-}" ] &&
    command -v go-md2man >/dev/null || echo "a build without packages")
[ -n "$WHY" ] || WHY=$(machines_why_not)
if [ -n "$WHY" ]; then
    skip "the commands of the documents work" "$WHY"
    finish
fi
trap 'machines_fini; cleanup' EXIT

# What a block has started in the background is there when the next one comes, as it is when a person types.
settle() {
    local block=$WORK/blocks/$1.whole
    sed -e ':again' -e '/\\$/{N; s/\\\n//; b again' -e '}' "$WORK/blocks/$1.sh" >"$block" # a command, a line
    if grep -qE 'perfleet-relay .*[^&]&$' "$block"; then
        wait_for 20 listens "$2" 26B6
    elif grep -q ' --ui &$' "$block"; then
        check "and is there for the page" wait_for 40 listens "$2" 1F65
    elif grep -qE 'UNIX-LISTEN:|--socket /tmp/.* &$' "$block"; then
        wait_for 40 machine "$2" test -S "$(grep -oE '/tmp/[a-z0-9]+[.]sock' "$block")"
    elif grep -qE 'perfleet-agent .*[^&]&$' "$block" && machine desk test -e .config/perfleet/cert.pem; then
        wait_for 40 machine "$2" pidof perfleet-agent && wait_for 40 fleet_is_whole
    elif grep -qE 'start .*perfleet|reload perfleet|install .*perfleet' "$block" &&
        machine desk test -e .config/perfleet/cert.pem; then
        wait_for 40 fleet_is_whole
    fi
}
listens() { # listens MACHINE PORT: 9910 is 26B6, 8037 is 1F65
    machine "$1" grep -qE ":$2 [0-9A-F:]+ 0A" /proc/net/tcp
}
fleet_is_whole() { # agents that run have reached the relay
    local name known
    known=$(machine desk perfleet hosts --relay meet1.example.com:9910)
    for name in web1 web2 lab1; do
        ! machine $name pidof perfleet-agent >/dev/null || grep -qE "^$name +up " <<<"$known" || return
    done
}

make_packages() {
    packages_make "$WORK/packages" || return
    machines_init "meet1 web1 web2 desk lab1" "$WORK"/packages/*.deb &&
        cp -r "$ROOT/deploy" "$MACHINES/base/upper/root/"
}
# Perfetto's own client, or a program of ours that takes the arguments which the documents give it.
stock_client() {
    if [ -x "${PERFETTO_BIN_DIR:-/nonexistent}/perfetto" ]; then
        cat "$PERFETTO_BIN_DIR/perfetto"
    else
        # shellcheck disable=SC2016
        printf '#!/bin/sh\nexec perfleet record -q -c "$3" -o "$5" --host "h=unix:$PERFETTO_CONSUMER_SOCK_NAME"\n'
    fi
}
start_machines() {
    local name
    for name in meet1 web1 web2; do machine_start $name || return; done
    machine_start desk bare && machine_start lab1 bare || return
    machine lab1 sh -c 'mkdir -p /run/sshd && /usr/sbin/sshd && dpkg -i perfleet_*.deb perfleet-host_*.deb perfleet-relay_*.deb libperfleet*.deb'
    for name in meet1 web1 web2; do wait_for 60 machine_is_up $name || return; done
    stock_client | machine_write desk /usr/local/bin/perfetto && machine desk chmod 755 /usr/local/bin/perfetto
}
# Not in a pipe, nor in a subshell: what they set stays.
if ! make_packages >"$WORK/make.log" 2>&1; then
    ls "$WORK"/packages/perfleet-host_*.deb >/dev/null || check "there are packages" false
    sed 's/^/# /' "$WORK/make.log" | tail -n 20
    skip "the commands of the documents work" "no root for machines could be made"
    finish
fi
start_machines >"$WORK/start.log" 2>&1
check "machines boot" machine_is_up web2
every_page_is_run() {
    diff <(printf '%s\n' "${PAGES_OF_HOSTS[@]}" "${PAGES_OF_ENGINES[@]}" | sort) <(cd "$ROOT" && git ls-files README.md docs deploy 2>/dev/null |
        xargs grep -lE '^```sh [a-z]' | grep '[.]md$' | sort)
}
check "every page with commands is run" every_page_is_run
for page in "${PAGES_OF_HOSTS[@]}"; do
    begin=$SECONDS
    run_page "$page"
    echo "# $page: $((SECONDS - begin)) s"
done

# The newcomer's: how many commands it takes, and what comes out.
commands_until_recorded() { # of the first block
    sed '/^$/d' "$WORK/newcomer/001.sh" | wc -l
}
commands_until_the_fleet() { # is recorded, as lines that a person ends; a loop over hosts is one
    cat "$WORK"/newcomer/*.sh | awk '/^(for |done$|$)/ { next } /[\\|]$/ { next } { n++ } /fleet[.]pftrace/ { print n; exit }'
}
python3 -B "$ROOT/tests/support/doc_commands.py" extract "$WORK/newcomer" docs/first-fleet.md >/dev/null
check "from packages to the first trace of a host it is two commands" test "$(commands_until_recorded)" -le 2
check "and to the trace of a fleet of two hosts it is 15" test "$(commands_until_the_fleet)" -le 15
trace_is_whole() { # trace_is_whole MACHINE FILE MACHINES
    machine "$1" cat "$2" >"$WORK/read.pftrace" && $CHECK "$WORK/read.pftrace" --disjoint --lossless --machines "$3" --min-packets 1
}
check "and the trace has what the host's probes saw" trace_is_whole web1 first.pftrace 1
check "a snapshot of the fleet has both hosts" trace_is_whole desk moment.pftrace 2
finish
