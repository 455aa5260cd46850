#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The path of perfleet tunnel --ui that stands for all hosts: one trace of all of them for the Perfetto
# UI's recording page, and what the page shows when a host is missing.
# shellcheck disable=SC1091,SC2015,SC2016,SC2086,SC2154
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
USAGE=2
UI=(python3 -B "$ROOT/tests/support/ui_client.py")
python3 -c 'import websockets' 2>/dev/null || UI[0]=/usr/bin/python3
GOOD=https://ui.perfetto.dev
"${UI[0]}" -c 'import websockets' 2>/dev/null || { skip "a page records all hosts" "no python3-websockets"; finish; }

make_pki && start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
for name in web1 web2; do
    start_service "$name" || { check "perfleetd opens its sockets" false; finish; }
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    start_agent "$name" --retry-max-ms 500
    eval "agent_$name=\$STARTED"
done
both_are_there() { [ "$(fleet hosts 2>/dev/null | grep -cE '^web[12]  *up ')" -eq 2 ]; }
check "two agents are connected" wait_for 60 both_are_there

# Each tunnel has a log of its own: open_tunnel NAME HOSTS-AND-OPTIONS...; TUNNEL, URL.
open_tunnel() {
    local name=$1
    shift
    start "$name" "$P" tunnel "$@" --ui --ui-port 0
    TUNNEL=$STARTED
    LOG=$WORK/$name.log
    check "tunnel $name says where all hosts are" wait_for 20 grep -q '/fleet$' "$LOG"
    URL=$(sed -nE 's,.*(ws://127.0.0.1:[0-9]+/fleet)$,\1,p' "$LOG")
}
FLEET=(web1 web2 --relay "$RELAY" "${TLS_ME[@]}")
page() { "${UI[@]}" page "$URL" "$GOOD" "$@"; }
has_two() { $CHECK "$WORK/$1" --machines 2 --disjoint --contiguous --lossless --min-packets "${2:-500}"; }
sessions_are() {
    local state
    state=$("$P" query --host "unix:$WORK/web1/consumer.sock" --host "unix:$WORK/web2/consumer.sock" --json) &&
        [ "$(grep -oE '"state": ?"[A-Z_]+"' <<<"$state" | wc -l)" -eq "$1" ]
}
files_are() { # when it fails, the log says which files and what the threads wait for
    local held
    held=$(readlink "/proc/$TUNNEL/fd/"* 2>/dev/null | grep '(deleted)$')
    [ "$(grep -c . <<<"$held")" -eq "$1" ] && return
    printf '%s\n' "$held"
    grep -H . "/proc/$TUNNEL/task/"*/{comm,wchan} 2>/dev/null
    return 1
}

open_tunnel tunnel "${FLEET[@]}"
check "the page gets the number of hosts" says '^version=perfleet [0-9.]+: 2 hosts$' "${UI[@]}" query "$URL" "$GOOD"
PORT=${URL%/fleet}
PORT=${PORT##*:}
status_is() { # STATUS HOST ORIGIN [UID]
    local got expected=$1
    shift
    got=$("${UI[@]}" status "$PORT" /fleet "$@") || return
    [ "$got" = "$expected" ] || { echo "status $got, expected $expected"; return 1; }
}
check "the UI's page comes in" status_is 101 "127.0.0.1:$PORT" "$GOOD"
check "a page of another origin does not come in" status_is 403 "127.0.0.1:$PORT" https://evil.example
check "nor one without an origin" status_is 403 "127.0.0.1:$PORT" -
check "nor one whose name was made to point here" status_is 403 "evil.example:$PORT" "$GOOD"
if [ "$(id -u)" -eq 0 ]; then
    check "nor another user's program" status_is 403 "127.0.0.1:$PORT" "$GOOD" 65534
else
    skip "nor another user's program" "no root"
fi
start both "${UI[@]}" page "$URL" "$GOOD" "$WORK/stop0" "$WORK/both.pftrace"
check "usage is of both hosts' buffers" wait_for 60 grep -q '^recording size=16777216$' "$WORK/both.log"
sleep 0.3 # of recording
touch "$WORK/stop0"
check "the page records both until it stops them" wait_for 60 grep -q '^packets=' "$WORK/both.log"
check "into one trace with both machines" has_two both.pftrace 10
check "the config's duration ends it, too" "${UI[@]}" record "$URL" "$GOOD" 1000 "$WORK/short.pftrace"
check "with both" has_two short.pftrace 200
check "a long trace is read while it lasts, and ends at its size" page 60000 "$WORK/long.pftrace" stream=300000
check "it has both machines" has_two long.pftrace 500
check "and is as large as was wished" test "$(stat -c %s "$WORK/long.pftrace")" -ge 290000
check "a config that no fleet can record is refused in words" says '^error=.*no data_sources' \
    "${UI[@]}" bare "$URL" "$GOOD"
check "one too many recordings is refused in words" says '^error=too many recordings of all hosts' "${UI[@]}" many "$URL" "$GOOD" 5
check "pages that went leave no session" wait_for 60 sessions_are 0
check "and no file" wait_for 60 files_are 0
check "a page that goes in the middle" "${UI[@]}" leave "$URL" "$GOOD" 700
check "leaves no session" wait_for 60 sessions_are 0
check "and no file either" wait_for 60 files_are 0
check "and another one records" page 300 "$WORK/after.pftrace"

start recorder "${UI[@]}" page "$URL" "$GOOD" "$WORK/stop" "$WORK/named.pftrace" name=flight
wait_for 60 grep -q recording "$WORK/recorder.log"
check "a session with a name is copied while it lasts" "${UI[@]}" snapshot "$URL" "$GOOD" flight "$WORK/copy.pftrace"
check "of both hosts" has_two copy.pftrace 10
check "one that is not there is named" says '^error=.*web1' "${UI[@]}" snapshot "$URL" "$GOOD" nosuch "$WORK/x.pftrace"
touch "$WORK/stop"
check "and it goes on" wait_for 60 test -s "$WORK/named.pftrace"
rm -f "$WORK/stop"
kill "$TUNNEL"
wait "$TUNNEL"
check "a signal ends it with 0" test $? -eq 0

# --- a host dies while it is recorded ------------------------------------------------------------------
open_tunnel waits "${FLEET[@]}" --wait 2s --timeout 5s
start dies "${UI[@]}" page "$URL" "$GOOD" "$WORK/stop" "$WORK/dies.pftrace"
check "both are recorded" wait_for 60 grep -q recording "$WORK/dies.log"
kill -KILL "$agent_web2"
touch "$WORK/stop"
check "the page gets its trace without the dead host" wait_for 60 grep -q '^packets=' "$WORK/dies.log"
check "with the other machine" $CHECK "$WORK/dies.pftrace" --contiguous --lossless --min-track-events 1
check "an event in the trace names the dead host" grep -aqE 'hosts that the trace lacks.*web2 \(' "$WORK/dies.pftrace"
check "the tunnel does, too" grep -qE 'hosts that the trace lacks.*web2 \(' "$LOG"

# --- it is dead when the page comes --------------------------------------------------------------------
one_is_there() { [ "$(fleet hosts 2>/dev/null | grep -cE '^web[12]  *up ')" -eq 1 ]; }
check "the relay knows that it is away" wait_for 90 one_is_there
check "before it records the page gets the names of missing hosts" says '1 of 2 hosts; missing: web2 \(' "${UI[@]}" query "$URL" "$GOOD"
check "and when it does, why it cannot" says '^error=.*only 1 of 2 hosts are ready.*web2 \(' page 60000 "$WORK/none.pftrace"
check "nothing is left on the host that was ready" wait_for 60 sessions_are 0
kill "$TUNNEL"
wait "$TUNNEL"
open_tunnel quorum "${FLEET[@]}" --quorum 1 --timeout 5s
start one "${UI[@]}" page "$URL" "$GOOD" "$WORK/stop2" "$WORK/one.pftrace"
check "the other one is recorded" wait_for 60 grep -q recording "$WORK/one.log"
touch "$WORK/stop2"
check "into a trace" wait_for 60 grep -q '^packets=' "$WORK/one.log"
check "that names the missing one" grep -aqE 'hosts that the trace lacks.*web2 \(' "$WORK/one.pftrace"
kill "$TUNNEL"
wait "$TUNNEL"

# --- a full disk -----------------------------------------------------------------------------------------
LOCAL=("web1=unix:$WORK/web1/consumer.sock" "web2=unix:$WORK/web2/consumer.sock")
if [ "$(id -u)" -eq 0 ] && mkdir "$WORK/full.mnt" && mount -t tmpfs -o size=128k tmpfs "$WORK/full.mnt"; then
    export TMPDIR=$WORK/full.mnt
    open_tunnel full "${LOCAL[@]}"
    unset TMPDIR
    check "a full disk is said with the place and the remedy" says "^error=.*cannot be written in $WORK/full.mnt; .*TMPDIR" \
        page 60000 "$WORK/x.pftrace" stream=100000000
    check "nothing stays there" wait_for 60 files_are 0
    kill "$TUNNEL"
    wait "$TUNNEL"
    umount "$WORK/full.mnt"
else
    skip "a full disk is said with the place and the remedy" "needs root for a small file system"
fi
check "a quorum that cannot be met is wrong usage" exits_with $USAGE "$P" tunnel "${LOCAL[@]}" --ui --ui-port 0 --quorum 3
for option in "--quorum 1" "--wait 5s"; do
    check "so is ${option% *} for a socket" exits_with $USAGE "$P" tunnel "${LOCAL[0]}" --socket "$WORK/x.sock" $option
done
finish
