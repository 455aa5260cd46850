#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2153,SC2154
# The tunnel on real processes: a relay, agents before plain services and before perfleetd, a small
# operator; connections that are cut in mid stream, a relay that is killed, who is not let in.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

PEER=(python3 -B "$ROOT/tests/support/relay_peer.py")
CUTTER=(python3 -B "$ROOT/tests/support/cutter.py")
CLIENT=$PFL_BUILD/tests/tunnel_client
TOTAL=24000000
RSS_MAX_KIB=$((24 * 1024))
[ -z "${PFL_SANITIZE:-}" ] || RSS_MAX_KIB=$((512 * 1024)) # a sanitizer's own memory is not ours

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
check "perfleet-pki makes a relay's certificate" pki relay r --ip 127.0.0.1
for host in a b; do pki host "$host"; done
pki operator other

all_may='rule { name: "all" operator: "*" host: "*" }'
echo "$all_may" >"$WORK/policy.pbtx"

tls_of() { echo "--ca $WORK/pki/ca.pem --cert $WORK/pki/$1.pem --key $WORK/pki/$1.key"; }

# start_meeting_point LISTEN: RELAY_ADDR, RELAY_PID
start_meeting_point() {
    [ -z "${RELAY_PID:-}" ] || wait_for 60 is_gone "$RELAY_PID"
    : >"$WORK/relay.log"
    # shellcheck disable=SC2046
    start relay "$BIN/perfleet-relay" --listen "$1" $(tls_of relay-r) --crl "$WORK/pki/crl.pem" \
        --audit-log "$WORK/audit.jsonl" --policy "$WORK/policy.pbtx"
    RELAY_PID=$STARTED
    wait_for 20 pfl_relay_port_in "$WORK/relay.log" || return
    RELAY_ADDR=127.0.0.1:$(pfl_relay_port_in "$WORK/relay.log")
}

# start_agent HOST RELAY SOCKET [MORE]: AGENT_PID
start_agent() {
    local host=$1 relay=$2 socket=$3
    shift 3
    # shellcheck disable=SC2046
    start "agent-$host" "$BIN/perfleet-agent" --relay "$relay" $(tls_of "host-$host") \
        --consumer-socket "$socket" --retry-max-ms 500 "$@"
    AGENT_PID=$STARTED
}

start_cutter() { # NAME TARGET [ARGS]: CUTTER_ADDR, CUTTER_PID
    local name=$1
    shift
    start "$name" "${CUTTER[@]}" "$WORK/$name.port" "$@"
    CUTTER_PID=$STARTED
    wait_for 20 test -s "$WORK/$name.port" || return
    CUTTER_ADDR=127.0.0.1:$(cat "$WORK/$name.port")
}

# operator ADDR WHO MODE ARGS...
operator() {
    local addr=$1 who=$2
    shift 2
    timeout 600 "$CLIENT" "$addr" test "$WORK/pki/ca.pem" "$WORK/pki/$who.pem" "$WORK/pki/$who.key" "$@"
}
me() { operator "$RELAY_ADDR" operator-me "$@"; }
not() { ! "$@"; }
is_connected() { me call GET "/v1/hosts/$1" 2>/dev/null | grep -q '"is_connected":true'; }
streams_are() { [ "$(me call GET "/v1/hosts/$1/streams" 2>/dev/null | grep -o '"id"' | wc -l)" -eq "$2" ]; }
rss_kib() { awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"; }

start echo "${PEER[@]}" echo "$WORK/echo.sock"
start source "${PEER[@]}" source "$WORK/source.sock" "$TOTAL"
SHA=$("${PEER[@]}" sha "$TOTAL")
wait_for 20 test -S "$WORK/echo.sock" && wait_for 20 test -S "$WORK/source.sock"
start_meeting_point "127.0.0.1:$(lasting_port)" || { check "the relay listens" false; finish; }
start_agent a "$RELAY_ADDR" "$WORK/echo.sock" --label role=web,zone=b --label tier=1
AGENT_A=$AGENT_PID
start_agent b "$RELAY_ADDR" "$WORK/source.sock"
check "both agents are connected" eval 'wait_for 20 is_connected a && wait_for 20 is_connected b'

# ---- requests
check "the inventory has the labels" says '"labels":\{"role":"web","zone":"b","tier":"1"\}' me call GET /v1/hosts
check "and what the host says of itself" says '"kernel":"' me call GET /v1/hosts/b
check "a host's clock can be read" says '"receive_ns": [0-9]+, "send_ns": [0-9]+' me call GET /v1/hosts/a/clock
check "a host that was never there is 404" says '^404' me call GET /v1/hosts/nobody
check "and no stream is opened to it" says 'broken: not found.*never been connected' me pull nobody
check "an unknown path is 404" says '^404' me call GET /v1/secrets
check "a wrong method is 405" says '^405' me call DELETE /v1/hosts
for name in '..' '%2e%2e' 'a%2fb' '-a' "$(printf 'x%.0s' {1..64})"; do
    check "the name $name is no host's" says '^40[04]' me call GET "/v1/hosts/$name/clock"
done

# ---- bytes
echoes() { [ "$(echo "$1" | me cat a 2>/dev/null)" = "$1"$'\n'BYE ]; }
check "bytes reach the service, and after the operator's end its answer comes back" echoes hello
pulls() { [ "$(me pull b 2>>"$WORK/pull.err" | sha256sum | cut -d' ' -f1)" = "$SHA" ]; }
check "a long answer arrives whole" pulls

# ---- connections that are cut
start_cutter cut-agent "$RELAY_ADDR" 2000000 1 12
CUT_AGENT=$CUTTER_PID
pki host c
start_agent c "$CUTTER_ADDR" "$WORK/source.sock"
AGENT_C=$AGENT_PID
start_cutter cut-operator "$RELAY_ADDR" 2000000 2 12
CUT_OPERATOR=$CUTTER_PID
check "an agent behind a bad network is connected" wait_for 20 is_connected c
pull_through() {
    operator "$CUTTER_ADDR" operator-me pull "$1" 2>"$WORK/resume.err" | sha256sum | cut -d' ' -f1
}
pulls_through() { [ "$(pull_through "$1")" = "$SHA" ]; }
check "with both networks cut again and again every byte arrives once and in order" pulls_through c
resumes_of() { sed -n 's/.*resumes=//p' "$1"; }
check "it was resumed" test "$(resumes_of "$WORK/resume.err")" -ge 3
kill "$CUT_AGENT" "$AGENT_C"

# Both directions at once.
head -c 8000000 /dev/urandom >"$WORK/in"
echo_through() {
    # shellcheck disable=SC2094
    TUNNEL_ZSTD=1 operator "$CUTTER_ADDR" operator-me cat a <"$WORK/in.fifo" >"$WORK/out" 2>"$WORK/echo.err" &
    local pid=$!
    cat "$WORK/in" >"$WORK/in.fifo"
    wait "$pid" || return
    printf BYE | cat "$WORK/in" - | cmp - "$WORK/out"
}
mkfifo "$WORK/in.fifo"
kill "$CUT_OPERATOR"
start_cutter cut-echo "$RELAY_ADDR" 1500000 3 8
check "and both ways at the same time, compressed" echo_through
check "it was resumed, too" test "$(resumes_of "$WORK/echo.err")" -ge 2

# ---- a relay that is killed
# A reader that stands still in mid stream, so that the relay dies with bytes on their way. (Not in a
# check: those run in a subshell, and the relay changes here.)
client_to() { # NAME MODE ARGS: in the background, output in NAME.out, words in NAME.err; CLIENT_PID
    local name=$1
    shift
    timeout 600 "$CLIENT" "$RELAY_ADDR" test "$WORK/pki/ca.pem" "$WORK/pki/operator-me.pem" \
        "$WORK/pki/operator-me.key" "$@" >"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null &
    CLIENT_PID=$!
}
# resumed_at HOST N: so often was the stream there resumed that the relay of now carries.
resumed_at() { me call GET "/v1/hosts/$1/streams" 2>/dev/null | grep -q '"is_carried":true[^}]*"resumes":'"$2"'[,}]'; }
client_to still stall b
wait_for 20 grep -q ready "$WORK/still.err"
for n in 1 2; do
    kill -9 "$RELAY_PID"
    wait "$RELAY_PID" 2>/dev/null
    start_meeting_point "$RELAY_ADDR"
    wait_for 30 resumed_at b "$n"
done
pkill -USR1 -P "$CLIENT_PID"
wait_for 30 test -s "$WORK/still.out"
kill -9 "$RELAY_PID"
wait "$RELAY_PID" 2>/dev/null
start_meeting_point "$RELAY_ADDR"
wait "$CLIENT_PID"
sha_is() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$SHA" ]; }
check "a relay that is killed and started again three times loses nothing" sha_is "$WORK/still.out"
check "the stream was resumed" test "$(resumes_of "$WORK/still.err")" -ge 2
check "and the agents are back" eval 'wait_for 30 is_connected a && wait_for 30 is_connected b'

# ---- a reader that does not read
start source-long "${PEER[@]}" source "$WORK/long.sock" 200000000
wait_for 20 test -S "$WORK/long.sock"
pki host long
start_agent long "$RELAY_ADDR" "$WORK/long.sock" --spool-mib 8
AGENT_LONG=$AGENT_PID
wait_for 20 is_connected long
client_to stall stall long
sent_settles() {
    local now
    now=$(cat "$WORK/long.sock.sent" 2>/dev/null || echo 0)
    [ "$now" != 0 ] && [ "$now" = "${SENT_BEFORE:-}" ] && return
    SENT_BEFORE=$now
    return 1
}
check "who reads nothing is sent no more after a while" wait_for 60 sent_settles
check "the relay holds no more than a window" test "$(rss_kib "$RELAY_PID")" -lt "$RSS_MAX_KIB"
check "and the agent no more than its spool" test "$(rss_kib "$AGENT_LONG")" -lt $((RSS_MAX_KIB + 16 * 1024))
check "others read meanwhile" pulls

# ---- streams: list, kill, time-to-live
check "the stream is listed" wait_for 20 streams_are long 1
check "but not to another operator" says '"streams":\[\]' operator "$RELAY_ADDR" operator-other call GET /v1/hosts/long/streams
ID=$(me call GET /v1/hosts/long/streams 2>/dev/null | grep -oE '[0-9a-f]{32}' | head -n 1)
check "who cannot kill it" says '^410' operator "$RELAY_ADDR" operator-other call DELETE "/v1/hosts/long/streams/$ID"
check "its own operator can" says '^204' me call DELETE "/v1/hosts/long/streams/$ID"
check "and reports it" wait_for 20 grep -q killed "$WORK/stall.err"
check "then it is gone" wait_for 20 streams_are long 0
# Killed without a goodbye: the stream is kept, and another, of a short life, is not.
is_orphan() { me call GET "/v1/hosts/$1/streams" 2>/dev/null | grep -q '"is_carried":false'; }
client_to orphan stall long 600000
wait_for 20 grep -q ready "$WORK/orphan.err"
pkill -9 -P "$CLIENT_PID"
check "the stream of an operator who died is an orphan" wait_for 20 is_orphan long
client_to brief stall long 1000
wait_for 20 grep -q ready "$WORK/brief.err"
pkill -9 -P "$CLIENT_PID"
check "one ends after its time-to-live" wait_for 20 streams_are long 1
check "the other not yet" wait_for 20 is_orphan long
ID=$(me call GET /v1/hosts/long/streams 2>/dev/null | grep -oE '[0-9a-f]{32}' | head -n 1)
check "that can be killed, too" says '^204' me call DELETE "/v1/hosts/long/streams/$ID"
check "and is gone" wait_for 20 streams_are long 0

# ---- perfleetd behind an agent
mkfifo "$WORK/bind.fifo"
start_service d
pki host d
start_agent d "$RELAY_ADDR" "$WORK/d/consumer.sock"
wait_for 20 is_connected d
check "perfleetd answers through the tunnel" eval '
    printf "\x12\x00\x00\x00\x10\x01\x1a\x0e\x0a\x0cConsumerPort" >"$WORK/bind.bin"
    me cat d <"$WORK/bind.fifo" >"$WORK/bind.out" 2>/dev/null & pid=$!
    exec 7>"$WORK/bind.fifo"; cat "$WORK/bind.bin" >&7
    wait_for 30 grep -aq EnableTracing "$WORK/bind.out"; rc=$?; exec 7>&-; wait $pid; [ $rc -eq 0 ]'

# ---- who is not let in
refused() { wait_for 20 grep -qE "$1" "$WORK/relay.log"; }
check "a host's certificate makes no operator" says 'down: ' operator "$RELAY_ADDR" host-a call GET /v1/hosts
check "and the relay's log says so" refused 'host.s certificate may not connect as an operator'
# shellcheck disable=SC2046
start agent-bad "$BIN/perfleet-agent" --relay "$RELAY_ADDR" $(tls_of operator-me) --consumer-socket /none
check "an operator's certificate makes no agent" wait_for 20 grep -q 'not-a-host' "$WORK/agent-bad.log"
pki operator late --days -1
check "an expired operator is refused" not operator "$RELAY_ADDR" operator-late call GET /v1/hosts
mkdir "$WORK/other"
"$ROOT/deploy/pki/perfleet-pki" init "$WORK/other/pki" --fleet test >/dev/null
"$ROOT/deploy/pki/perfleet-pki" operator "$WORK/other/pki" eve >/dev/null
cp "$WORK/other/pki/operator-eve."* "$WORK/pki/"
check "an operator of another authority is refused" not operator "$RELAY_ADDR" operator-eve call GET /v1/hosts
# A host that pretends to be the relay.
# shellcheck disable=SC2046
start fake "$BIN/perfleet-relay" --listen 127.0.0.1:0 $(tls_of host-b) --consumer-socket "$WORK/echo.sock"
wait_for 20 pfl_relay_port_in "$WORK/fake.log"
FAKE=127.0.0.1:$(pfl_relay_port_in "$WORK/fake.log")
check "a host's certificate makes no relay, says the operator" \
    says 'does not make a relay' operator "$FAKE" operator-me call GET /v1/hosts
pki host e
start_agent e "$FAKE" "$WORK/echo.sock"
check "and says the agent" wait_for 20 grep -q 'does not make a relay' "$WORK/agent-e.log"
# Revoked in mid stream: that one goes, others stay.
timeout 600 "$CLIENT" "$RELAY_ADDR" test "$WORK/pki/ca.pem" "$WORK/pki/operator-other.pem" \
    "$WORK/pki/operator-other.key" stall long 2000 >/dev/null 2>"$WORK/revoked.err" </dev/null &
REVOKED=$!
client_to stays stall long
wait_for 20 grep -q ready "$WORK/revoked.err" && wait_for 20 grep -q ready "$WORK/stays.err"
pki revoke operator other
kill -HUP "$RELAY_PID"
wait_for 20 grep -q reloaded "$WORK/relay.log"
check "an operator who is revoked loses the connection that is open" wait_for 20 grep -q '^down' "$WORK/revoked.err"
check "others do not" not grep -q '^down' "$WORK/stays.err"
pkill -P "$REVOKED"
pkill -P "$CLIENT_PID"
check "a revoked operator is refused" not operator "$RELAY_ADDR" operator-other call GET /v1/hosts

# ---- the policy
pki operator guest
set_policy() {
    echo "$1" >"$WORK/policy.pbtx"
    : >"$WORK/relay.log"
    kill -HUP "$RELAY_PID"
    wait_for 20 grep -q 'reloaded' "$WORK/relay.log" # which comes last, whatever the policy
}
guest() { operator "$RELAY_ADDR" operator-guest "$@"; }
client_to mine stall long
wait_for 20 grep -q ready "$WORK/mine.err"
set_policy 'rule { name: "guests" operator: "gu*" host: "a" } rule { name: "me" operator: "me" host: "[ab]*" }'
check "a policy that makes no sense changes nothing" says '"name":"b"' guest call GET /v1/hosts
set_policy 'rule { name: "guests" operator: "gu*" host: "a" } rule { name: "me" operator: "me" host: "b*" }'
check "the inventory shows what one may use" says '"name":"a"' guest call GET /v1/hosts
check "and nothing else" not says '"name":"b"' guest call GET /v1/hosts
check "the rest is 403" says '^403' guest call GET /v1/hosts/b/clock
check "whether it is there or not" says '^403' guest call GET /v1/hosts/nobody
check "for streams, too" says 'broken: not permitted: not allowed: no rule of the policy lets guest use b' guest pull b
check "the audit log names the stream" grep -qE \
    '"who":"guest".*"action":"refuse","host":"b","stream":"[0-9a-f]{32}","status":403' "$WORK/audit.jsonl"
check "a stream that is forbidden now is ended" wait_for 20 grep -q killed "$WORK/mine.err"
set_policy "$all_may"

# ---- the audit log, and the end
check "every line of the audit log is JSON" python3 -c '
import json, sys
actions = {json.loads(line)["action"] for line in open(sys.argv[1])}
sys.exit(not {"connect", "resume", "end", "kill", "refuse", "forbid"} <= actions)' "$WORK/audit.jsonl"
kill "$AGENT_A"
has_left() { me call GET /v1/hosts/a 2>/dev/null | grep -q '"is_connected":false'; }
check "a host that leaves is remembered" wait_for 20 has_left
check "and is 503" says '^503' me call GET /v1/hosts/a/clock
kill -TERM "$RELAY_PID"
check "the relay drains and stops" wait_for 20 grep -q 'stopped' "$WORK/relay.log"
finish
