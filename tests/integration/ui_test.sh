#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet tunnel --ui: the WebSocket that the Perfetto UI's recording page speaks to, with a real
# client's library; through the relay and to a local service; and who may not come in.
# shellcheck disable=SC1091,SC2016,SC2086,SC2154
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
NOTHING=1 USAGE=2
UI=(python3 -B "$ROOT/tests/support/ui_client.py")
python3 -c 'import websockets' 2>/dev/null || UI[0]=/usr/bin/python3
GOOD=https://ui.perfetto.dev

start_service one || { check "perfleetd opens its sockets" false; finish; }
start example-one "$BIN/perfleet-example" --rate 2000 --smb-kb 4096
wait_for_source "$EXAMPLE_SOURCE" 1
start_service two
start example-two "$BIN/perfleet-example" --rate 2000 --smb-kb 4096
wait_for_source "$EXAMPLE_SOURCE" 1
make_pki
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_agent one
start_agent two
both_are_there() { [ "$(fleet hosts | grep -cE "connected from| up ")" -eq 2 ]; }
wait_for 20 both_are_there

start tunnel "$P" tunnel one two --relay "$RELAY" "${TLS_ME[@]}" --ui --ui-port 0 \
    --ui-origin http://my.ui:9000
TUNNEL=$STARTED
port_in() { sed -nE 's,.*ws://127.0.0.1:([0-9]+)/traced$,\1,p' "$1"; }
check "it listens" wait_for 20 grep -q "/traced/two" "$WORK/tunnel.log"
PORT=$(port_in "$WORK/tunnel.log")
listens_on() { # by the hex of the address in the kernel's table
    grep -qiE "^ *[0-9]+: $1:$(printf %04X "$PORT") " /proc/net/tcp
}
check "on loopback" listens_on 0100007F
check "and nowhere else" eval '! listens_on 00000000'

status_is() { # STATUS PATH HOST ORIGIN [UID]
    local got expected=$1
    shift
    got=$("${UI[@]}" status "$PORT" "$@") || return
    [ "$got" = "$expected" ] || { echo "status $got, expected $expected"; return 1; }
}
check "the UI's page comes in" status_is 101 /traced "127.0.0.1:$PORT" "$GOOD"
check "by the name localhost, too" status_is 101 /traced "localhost:$PORT" "$GOOD"
check "not one that any user of the machine could serve" status_is 403 /traced "127.0.0.1:$PORT" http://localhost:10000
check "and a page that was allowed" status_is 101 /traced "127.0.0.1:$PORT" http://my.ui:9000
check "another page does not" status_is 403 /traced "127.0.0.1:$PORT" https://evil.example
check "nor one whose name begins alike" status_is 403 /traced "127.0.0.1:$PORT" https://ui.perfetto.dev.evil.example
check "nor one without an origin" status_is 403 /traced "127.0.0.1:$PORT" -
check "nor one of another scheme" status_is 403 /traced "127.0.0.1:$PORT" http://ui.perfetto.dev
check "nor one whose name was made to point here" status_is 403 /traced "evil.example:$PORT" "$GOOD"
check "a host that is not meant is not there" status_is 404 /traced/three "127.0.0.1:$PORT" "$GOOD"
check "nor is any other path" status_is 404 /adb "127.0.0.1:$PORT" "$GOOD"
if [ "$(id -u)" -eq 0 ]; then
    check "another user's program does not come in" status_is 403 /traced "127.0.0.1:$PORT" "$GOOD" 65534
else
    skip "another user's program does not come in" "no root"
fi
check "the log says who was refused" grep -q 'browser-refused: status=403' "$WORK/tunnel.log"
check "what is no WebSocket is ended" timeout 300 "${UI[@]}" abuse "$PORT"

# Requests that never end, each repeated as soon as it ends, do not keep the UI's page out.
comes_in() { # a page tries again when its request was not whole before others took its place
    status_is 101 /traced "127.0.0.1:$PORT" "$GOOD" || status_is 101 /traced "127.0.0.1:$PORT" "$GOOD"
}
page_comes_in() { # past the attacker of this log
    wait_for 60 grep -q ready "$WORK/$1.log" || { cat "$WORK/$1.log"; return 1; }
    for _ in 1 2 3 4 5; do
        comes_in || return
    done
    is_alive "$STARTED" || { cat "$WORK/$1.log"; return 1; }
}
check "a request that is not whole is ended within seconds" "${UI[@]}" half "$PORT"
start halves "${UI[@]}" halves "$PORT" 300
check "300 requests that are not whole keep nobody out" page_comes_in halves
kill "$STARTED"
if [ "$(id -u)" -eq 0 ]; then
    start others "${UI[@]}" halves "$PORT" 300 65534
    check "nor do another user's" page_comes_in others
    kill "$STARTED"
    start strangers "${UI[@]}" strangers "$PORT" 400 65534
    BEFORE=$SECONDS
    check "nor do whole requests of another user with thousands of connections" page_comes_in strangers
    check "for long" test $((SECONDS - BEFORE)) -lt 60
    kill "$STARTED"
else
    skip "nor do another user's" "no root"
    skip "nor do whole requests of another user with thousands of connections" "no root"
    skip "for long" "no root"
fi

if "${UI[0]}" -c 'import websockets' 2>/dev/null; then
    check "a client asks for the service's state" says '^version=perfleetd' \
        "${UI[@]}" query "ws://127.0.0.1:$PORT/traced" "$GOOD"
    check "records through the relay" "${UI[@]}" record "ws://127.0.0.1:$PORT/traced" "$GOOD" 1000 "$WORK/one.pftrace"
    check "whole" $CHECK "$WORK/one.pftrace" --contiguous --lossless --min-packets 10
    check "and from the other host" "${UI[@]}" record "ws://127.0.0.1:$PORT/traced/two" "$GOOD" 500 "$WORK/two.pftrace"
    check "whole" $CHECK "$WORK/two.pftrace" --contiguous --lossless --min-packets 10
    uuid() { sha256sum <"$WORK/$1.pftrace"; }
    check "which is another one" test "$(uuid one)" != "$(uuid two)"
    check "a wrong origin is refused there, too" eval \
        '! "${UI[@]}" query "ws://127.0.0.1:$PORT/traced" https://evil.example'
    check "32 come in and no more" says '^inside=32$' "${UI[@]}" crowd "ws://127.0.0.1:$PORT/traced" "$GOOD" 40
    check "and then others do" says '^version=perfleetd' "${UI[@]}" query "ws://127.0.0.1:$PORT/traced" "$GOOD"
else
    skip "a real client records through it" "no python3-websockets"
fi
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$TUNNEL/stat"; }
before=$(cpu_ticks)
sleep 1
check "who waits for pages costs nothing" test $(($(cpu_ticks) - before)) -le 10
kill "$TUNNEL"
wait "$TUNNEL"
check "a signal ends it with 0" test $? -eq 0

# --- without a relay ---------------------------------------------------------------------------------
start local "$P" tunnel "unix:$WORK/one/consumer.sock" --ui --ui-port 0
LOCAL=$STARTED
wait_for 20 grep -q /traced "$WORK/local.log"
PORT=$(port_in "$WORK/local.log")
if "${UI[0]}" -c 'import websockets' 2>/dev/null; then
    check "a local service is recorded" "${UI[@]}" record "ws://127.0.0.1:$PORT/traced" "$GOOD" 500 "$WORK/local.pftrace"
    check "whole" $CHECK "$WORK/local.pftrace" --contiguous --lossless --min-packets 10
    if [ -x "${PERFETTO_BIN_DIR:-}/traced" ]; then
        mkdir "$WORK/t"
        use_service t
        start traced "$PERFETTO_BIN_DIR/traced"
        wait_for 20 test -S "$WORK/t/consumer.sock"
        start stock "$P" tunnel "unix:$WORK/t/consumer.sock" --ui --ui-port 0
        wait_for 20 grep -q /traced "$WORK/stock.log"
        check "and so is the stock one" says '^version=Perfetto' "${UI[@]}" query \
            "ws://127.0.0.1:$(port_in "$WORK/stock.log")/traced" "$GOOD"
    else
        skip "and so is the stock one" "PERFETTO_BIN_DIR names no programs"
    fi
fi
# Each refusal is a line of the log, or is counted in one, also when the command ends.
REFUSED=60
refuse_many() {
    local answer
    for ((i = 0; i < REFUSED; i++)); do
        exec 3<>"/dev/tcp/127.0.0.1/$PORT" || return 1
        printf 'GET /traced HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n' >&3
        read -r answer <&3 || answer=
        exec 3>&-
        [[ $answer == *403* ]] || { echo "answered: $answer"; return 1; }
    done
}
count_refused() {
    awk '/browser-refused: status=/ { n++ } match($0, /browser-refused: left_out=[0-9]+/) {
        n += substr($0, RSTART + 26, RLENGTH - 26) } END { print n + 0 }' "$WORK/local.log"
}
check "who comes by another name is refused" refuse_many
check "a port that is taken is said" exits_with $NOTHING "$P" tunnel "unix:$WORK/one/consumer.sock" --ui --ui-port "$PORT"
check "an origin with a path is wrong usage" exits_with $USAGE "$P" tunnel local --ui --ui-origin https://a.b/c
check "so are both kinds at once" exits_with $USAGE "$P" tunnel local --ui --socket "$WORK/x.sock"
check "and several hosts without names" exits_with $USAGE "$P" tunnel "unix:$WORK/one/consumer.sock" \
    "unix:$WORK/two/consumer.sock" --ui --ui-port 0
kill "$LOCAL"
wait "$LOCAL"
check "each refusal is in the log, or counted there" test "$(count_refused)" -eq $REFUSED
finish
