#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A fleet that is upgraded piece by piece: programs of an earlier commit of this repository, built
# once from its history (build/before-COMMIT), with those of this build, in every combination and
# while sessions run. What does not survive is reported; docs/upgrades.md is the same in words.
. "$(dirname "$0")/lib.sh"
# Agents, relays, operators and sessions were complete, and meant to stay, from here on.
OLD_COMMIT=27ae83ef06a450e158c1995dc8f49b776c533986
OLD_BUILD=${PFL_OLD_BUILD:-$ROOT/build/before-${OLD_COMMIT:0:7}}
OLD_PROGRAMS=(perfleetd perfleet-relay perfleet-agent perfleet perfleet-example)
NEW=$BIN OLD=$OLD_BUILD/build/bin
PARTIAL=4

old_is_built() {
    local program
    for program in "${OLD_PROGRAMS[@]}"; do [ -x "$OLD/$program" ] || return 1; done
}
build_old() {
    old_is_built && return
    rm -rf "$OLD_BUILD" && mkdir -p "$OLD_BUILD/src" &&
        git -c safe.directory='*' -C "$ROOT" archive "$OLD_COMMIT" | tar -x -C "$OLD_BUILD/src" &&
        env -u CFLAGS -u LDFLAGS -u CC cmake -G Ninja -S "$OLD_BUILD/src" -B "$OLD_BUILD/build" -DPFL_TESTS=OFF \
            -DPFL_BENCH=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 &&
        cmake --build "$OLD_BUILD/build" --target "${OLD_PROGRAMS[@]}"
}
why_not() {
    [ -z "${PFL_SANITIZE:-}" ] || { echo "the build without sanitizer tells it"; return; }
    old_is_built && return
    command -v git >/dev/null || { echo "no git"; return; }
    git -c safe.directory='*' -C "$ROOT" cat-file -e "$OLD_COMMIT^{tree}" 2>/dev/null ||
        { echo "commit ${OLD_COMMIT:0:7} is not in this checkout"; return; }
    build_old >"$WORK/build_old.txt" 2>&1 || { tail -n 3 "$WORK/build_old.txt" | tr '\n' ' '; echo "(the build of the old programs)"; }
}
WHY=$(why_not)
if [ -n "$WHY" ]; then
    skip "a fleet of two versions" "$WHY"
    finish
fi

# The old programs let libuv make an io_uring (libuv 1.45 and later), and abort when their sandbox refuses it:
# they run as on a kernel without. wrap_old: OLD has scripts that start them so.
wrap_old() {
    local program
    mkdir "$WORK/old"
    # ld nr; jeq io_uring_setup; ret ENOSYS; ret ALLOW
    python3 -c 'import struct, sys
for code in (0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7fff0000):
    sys.stdout.buffer.write(struct.pack("=HBBI", *code))' >"$WORK/old/no_io_uring"
    for program in "${OLD_PROGRAMS[@]}"; do
        printf '#!/bin/sh\nexec setpriv --no-new-privs --seccomp-filter %q -- %q "$@"\n' "$WORK/old/no_io_uring" "$OLD/$program" \
            >"$WORK/old/$program"
        chmod 755 "$WORK/old/$program"
    done
    OLD=$WORK/old
}
if pkg-config --atleast-version=1.45 libuv; then wrap_old; fi

# of old|new: their folder; the functions of lib.sh take it as BIN.
of() { if [ "$1" = old ]; then echo "$OLD"; else echo "$NEW"; fi; }

# Like check, in this shell, so that what the command starts is known here.
done_here() {
    local claim=$1 rc=0
    shift
    "$@" >"$WORK/done_here.txt" 2>&1 || rc=$?
    check "$claim" eval "cat '$WORK/done_here.txt'; exit $rc"
}

# A relay of that version at an address, with a log of its own: relay VERSION ADDRESS [OPTIONS]; PORT_OF, PID_OF
declare -A PORT_OF PID_OF
relay() {
    local version=$1 address=$2 log=$WORK/relay-$1.log
    shift 2
    rm -f "$log"
    start "relay-$version" "$(of "$version")/perfleet-relay" --listen "$address" --ca "$WORK/pki/ca.pem" \
        --cert "$WORK/pki/relay-meet.pem" --key "$WORK/pki/relay-meet.key" "$@"
    PID_OF[$version]=$STARTED
    wait_for 20 pfl_relay_port_in "$log" && PORT_OF[$version]=$(pfl_relay_port_in "$log")
}
stop_relay() {
    kill "${PID_OF[$1]}" && wait "${PID_OF[$1]}"
}
hosts_are() { # hosts_are COUNT
    [ "$(fleet hosts | grep -cE "connected from| (up|failed) ")" -eq "$1" ]
}

make_pki
pki relay meet --ip 127.0.0.1
for version in old new; do
    done_here "the $version relay listens" relay $version 127.0.0.1:0
done
# Four hosts, SERVICE-AGENT; each agent dials both relays. The producers are of both versions too.
declare -A AGENT_PID
HOSTS="old-old old-new new-old new-new"
for host in $HOSTS; do
    BIN=$(of "${host%-*}") start_service "$host"
    start "example-$host" "$(of "${host#*-}")/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $host" wait_for_source "$EXAMPLE_SOURCE" 1
    RELAY=127.0.0.1:${PORT_OF[old]} BIN=$(of "${host#*-}") start_agent "$host" --relay "127.0.0.1:${PORT_OF[new]}" --retry-max-ms 500
    AGENT_PID[$host]=$STARTED
done
config "$WORK/short.pbtx" 700
config "$WORK/run.pbtx" 0
whole() { # whole FILE [MORE]: every packet of four hosts, once, in order
    $CHECK "$1" --machines 4 --disjoint --contiguous --lossless "${@:2}"
}

# --- every combination ----------------------------------------------------------------------------
for relay in old new; do
    RELAY=127.0.0.1:${PORT_OF[$relay]}
    for operator in old new; do
        BIN=$(of $operator)
        with="old and new services and agents, $relay relay, $operator operator"
        trace=$WORK/$relay-$operator.pftrace
        check "$with: hosts" wait_for 20 hosts_are 4
        check "$with: recorded" fleet record -c "$WORK/short.pbtx" -o "$trace" --select '*' --quorum 100%
        check "$with: every packet once, in order" whole "$trace" --min-packets 10
        check "$with: a session is left running" fleet start flight -c "$WORK/run.pbtx" --select '*'
        check "$with: and copied" fleet snapshot flight -o "$trace" --select '*'
        check "$with: the copy is whole" whole "$trace"
        check "$with: and ended" fleet kill flight --select '*'
    done
done

forgets_at_old() { local RELAY=127.0.0.1:${PORT_OF[old]}; fleet forget old-old; }
check "an old relay forgets no host, and the new operator says so" says 'the relay is too old: it forgets no host' forgets_at_old

# --- a relay is exchanged while hosts are recorded, there and back ---------------------------------
streams_are() { # streams_are COUNT: hosts to which the relay carries some
    [ "$(BIN=$NEW fleet hosts --json | grep -c '"streams": [1-9]')" -eq "$1" ]
}
begin_recording() { # begin_recording OPERATOR [OPTIONS]: through RELAY, until it is ended; RECORDER
    rm -f "$WORK"/live.*
    "$(of "$1")/perfleet" record --relay "$RELAY" "${TLS_ME[@]}" -c "$WORK/run.pbtx" -o "$WORK/live.pftrace" --json "${@:2}" \
        >"$WORK/live.json" 2>"$WORK/live.txt" &
    RECORDER=$!
    wait_for 20 grep -q "recording until" "$WORK/live.txt"
}
end_recording() { # its exit code, its words
    local rc=0
    sleep 1 # what it records after what happened
    kill -INT "$RECORDER"
    wait "$RECORDER" || rc=$?
    cat "$WORK/live.txt"
    return $rc
}
exchange_relay() { # exchange_relay OPERATOR FROM TO
    RELAY=127.0.0.1:${PORT_OF[$2]}
    begin_recording "$1" --select '*'
    wait_for 20 streams_are 4
    kill -9 "${PID_OF[$2]}"
    relay "$3" "$RELAY" && wait_for 20 streams_are 4
    end_recording
}
# The other relay goes first: one of each version must not stand at two places.
stop_relay new
done_here "the old relay is upgraded while the old operator records" exchange_relay old old new
check "nothing is lost, twice or out of order" whole "$WORK/live.pftrace" --min-packets 50
check "the streams were resumed" grep -q '"resumes": [1-9]' "$WORK/live.json"
done_here "it goes back to the old one while the new operator records" exchange_relay new new old
check "nothing is lost, twice or out of order" whole "$WORK/live.pftrace" --min-packets 50
check "the streams were resumed" grep -q '"resumes": [1-9]' "$WORK/live.json"
stop_relay old
done_here "and is upgraded for good" relay new "$RELAY"

# --- agents, services, producers: a restart between recordings costs nothing -----------------------
BIN=$NEW
check "the hosts are there again" wait_for 20 hosts_are 4
start_upgraded_agent() { # start_upgraded_agent HOST
    start "agent2-$1" "$NEW/perfleet-agent" --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/host-$1.pem" \
        --key "$WORK/pki/host-$1.key" --consumer-socket "$WORK/$1/consumer.sock" --retry-max-ms 500
    AGENT_PID[$1]=$STARTED
}
upgrade_agent() {
    kill "${AGENT_PID[$1]}" && wait "${AGENT_PID[$1]}"
    start_upgraded_agent "$1"
}
check "a session is left running at a host whose agent is old" fleet start flight -c "$WORK/run.pbtx" --host old-old
done_here "the agent is upgraded between recordings" upgrade_agent old-old
is_new() { fleet hosts --host "$1" | grep -q "^$1"; }
check "the host is there again" wait_for 20 is_new old-old
check "the session left running outlives that" fleet snapshot flight -o "$WORK/flight.pftrace" --host old-old
check "and its copy is whole" $CHECK "$WORK/flight.pftrace" --machines 1 --contiguous --lossless
check "and it is ended" fleet kill flight --host old-old
check "all are recorded" fleet record -c "$WORK/short.pbtx" -o "$WORK/after.pftrace" --select '*' --quorum 100%
check "all are whole" whole "$WORK/after.pftrace" --min-packets 10

# --- what does not survive is reported -----------------------------------------------------------------
in_the_middle() { # in_the_middle COMMAND...: while two hosts are recorded
    begin_recording new --host new-old --host new-new
    "$@"
    wait_for 20 grep -q "host new-" "$WORK/live.txt"
    exits_with $PARTIAL end_recording
}
done_here "an agent that is upgraded while its host is recorded: exit code $PARTIAL" in_the_middle upgrade_agent new-old
check "the operator reads why" grep -q 'host new-old .*its agent was stopped' "$WORK/live.txt"
check "the other host is whole" $CHECK "$WORK/live.pftrace" --contiguous --lossless
wait_for 20 is_new new-old
done_here "a service that is restarted while it is recorded: exit code $PARTIAL" in_the_middle kill "$SERVICE_PID"
check "the operator reads why" grep -q 'host new-new .*the host closed the connection' "$WORK/live.txt"

# --- an agent that knows no roles ------------------------------------------------------------------
printf 'rule { name: "rule" operator: "*" host: "*" role: "all" }\nrole { name: "all" data_source: "*" session: "*" }\n' >"$WORK/policy.pbtx"
stop_relay new
done_here "a relay with roles comes instead" relay new "$RELAY" --policy "$WORK/policy.pbtx"
check "the hosts are there again" wait_for 20 hosts_are 4
check "an agent that keeps roles is served" fleet record -c "$WORK/short.pbtx" -o "$WORK/role.pftrace" --host old-new
kill "${AGENT_PID[old-new]}" && wait "${AGENT_PID[old-new]}"
BIN=$OLD start_agent old-new --retry-max-ms 500
wait_for 20 is_new old-new
by_an_old_agent() { fleet record -c "$WORK/short.pbtx" -o "$WORK/x.pftrace" --host old-new; }
check "one that is too old for roles is not, and the reason is reported" says 'update perfleet-agent there' by_an_old_agent

# --- and newer ones than this: what they say besides is not looked at ------------------------------
FUTURE="python3 -B $ROOT/tests/support/future_peers.py"
stop_relay new
done_here "a relay of this version" relay new "$RELAY"
pki host future
coproc NEXT { $FUTURE agent "$RELAY" "$WORK/pki" host-future 2>&1; }
exec 7<&"${NEXT[0]}" 8>&"${NEXT[1]}"
JOBS+=("$NEXT_PID")
read -r -t 60 line <&7
tap_claims echo "$line"
next_is_shown() { fleet hosts --json | grep -q '"version": "99.0.0-next"'; }
check "its host is in the inventory, with the version it says" wait_for 20 next_is_shown
tap_claims $FUTURE operator "$RELAY" "$WORK/pki" operator-me future
check "a host of this version is there" wait_for 20 is_new new-old
tap_claims $FUTURE operator "$RELAY" "$WORK/pki" operator-me new-old
exec 8>&- 7<&-
finish
