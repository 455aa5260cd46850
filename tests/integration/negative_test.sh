#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2153,SC2154
# Who should not get in does not, who breaks the rules is ended, and the others notice nothing: a
# relay's network side, on real TLS. After each attack an operator is served, the stream that another
# holds all the time is there, and the relay has not grown.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
PEER=(python3 -B "$ROOT/tests/support/relay_peer.py")
ABUSE=(timeout 300 python3 -B "$ROOT/tests/support/tunnel_abuse.py")
CLIENT=$PFL_BUILD/tests/tunnel_client
TOTAL=24000000
# 128 handshakes of 33 KiB from one address, and what an allocator keeps of it.
GROWTH_KIB=8192
[ -z "${PFL_SANITIZE:-}" ] || GROWTH_KIB=$((1024 * 1024)) # a sanitizer keeps what is freed

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
for who in "relay meet --ip 127.0.0.1" "host one" "host two" "host eve" "operator eve" "operator late --days -1" \
    "operator gone" "host lost"; do
    # shellcheck disable=SC2086
    pki $who
done
pki revoke operator gone && pki revoke host lost
mkdir "$WORK/other"
"$ROOT/deploy/pki/perfleet-pki" init "$WORK/other/pki" --fleet test >/dev/null
"$ROOT/deploy/pki/perfleet-pki" operator "$WORK/other/pki" mallory >/dev/null
cp "$WORK/other/pki/operator-mallory."* "$WORK/pki/"

start source "${PEER[@]}" source "$WORK/source.sock" "$TOTAL"
start echo "${PEER[@]}" echo "$WORK/echo.sock"
SHA=$("${PEER[@]}" sha "$TOTAL")
wait_for 20 test -S "$WORK/source.sock" && wait_for 20 test -S "$WORK/echo.sock"
start meeting "$BIN/perfleet-relay" --listen 127.0.0.1:0 --ca "$WORK/pki/ca.pem" --crl "$WORK/pki/crl.pem" \
    --cert "$WORK/pki/relay-meet.pem" --key "$WORK/pki/relay-meet.key" --handshake-timeout-ms 5000 --max-unread-mib 64 \
    --consumer-socket "$WORK/echo.sock"
MEETING_PID=$STARTED
wait_for 20 pfl_relay_port_in "$WORK/meeting.log" || { check "the relay listens" false; finish; }
RELAY=127.0.0.1:$(pfl_relay_port_in "$WORK/meeting.log")
agent() { # agent HOST SOCKET
    start "agent-$1" "$BIN/perfleet-agent" --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/host-$1.pem" \
        --key "$WORK/pki/host-$1.key" --consumer-socket "$2" --label role=web
}
agent one "$WORK/echo.sock"
ONE_PID=$STARTED
agent two "$WORK/source.sock"

me() {
    timeout 60 "$CLIENT" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key" "$@"
}
are_connected() { [ "$(me call GET /v1/hosts 2>/dev/null | grep -o '"is_connected":true' | wc -l)" -eq "$1" ]; }
check "both hosts are connected" wait_for 20 are_connected 2

# The stream that somebody else holds all the time.
timeout 1500 "$CLIENT" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key" \
    stall two >"$WORK/victim.out" 2>"$WORK/victim.err" </dev/null &
VICTIM=$!
check "an operator holds a stream" wait_for 20 grep -q ready "$WORK/victim.err"
ID=$(me call GET /v1/hosts/two/streams 2>/dev/null | grep -oE '[0-9a-f]{32}' | head -n 1)
echoes() { [ "$(echo hello | me cat one 2>/dev/null)" = hello$'\n'BYE ]; }
for _ in 1 2 3; do echoes; done
rss_kib() { awk '/^VmRSS:/ { print $2 }' "/proc/$MEETING_PID/status"; }
BASE=$(rss_kib) FIRST=$(rss_kib)

# unhurt WHAT: what has to hold after everything.
unhurt() {
    local now
    is_alive "$MEETING_PID" || { echo "the relay died"; return 1; }
    echoes || { echo "an operator is not served"; return 1; }
    are_connected 2 || are_connected 3 || { echo "a host is gone"; return 1; }
    [ "$(grep -c '^down' "$WORK/victim.err")" -eq 0 ] || { echo "the other's stream was lost"; return 1; }
    me call GET /v1/hosts/two/streams 2>/dev/null | grep -q "\"id\":\"$ID\",\"is_carried\":true" || { echo "the other's stream is not there"; return 1; }
    now=$(rss_kib)
    [ "$now" -le $((BASE + GROWTH_KIB)) ] || { echo "the relay grew from $BASE to $now KiB"; return 1; }
}

# ---- who is not let in
for who in none operator-mallory operator-late operator-gone host-one relay-meet; do
    for alpn in h2 none perfetto-consumer/1; do
        tap_claims "${ABUSE[@]}" knock "$RELAY" "$WORK/pki" "$who" "$alpn"
    done
done
for who in none operator-mallory operator-me host-lost relay-meet; do
    tap_claims "${ABUSE[@]}" knock "$RELAY" "$WORK/pki" "$who" pfl-agent/1
done
tap_claims "${ABUSE[@]}" knock "$RELAY" "$WORK/pki" operator-me http/1.1
check "after connections without a handshake all is well" wait_for 10 unhurt

# ---- names, streams of others
tap_claims "${ABUSE[@]}" names "$RELAY" "$WORK/pki" operator-me
check "after those names all is well" wait_for 10 unhurt
tap_claims "${ABUSE[@]}" steal "$RELAY" "$WORK/pki" operator-eve two "$ID"
says_nothing_of() { me call GET /v1/hosts/two/streams 2>/dev/null | grep -q "$ID" && ! timeout 60 "$CLIENT" "$RELAY" test \
    "$WORK/pki/ca.pem" "$WORK/pki/operator-eve.pem" "$WORK/pki/operator-eve.key" call GET /v1/hosts/two/streams 2>/dev/null | grep -q "$ID"; }
check "nobody sees another's stream" says_nothing_of
check "after those thefts all is well" wait_for 10 unhurt

# ---- an agent that lies
coproc LIAR { "${ABUSE[@]}" liar "$RELAY" "$WORK/pki" host-eve 2>&1; }
read -r -t 60 line <&"${LIAR[0]}"
check "an agent that lies is asked" test "${line:-}" = lied
wait_for 20 are_connected 3
me call GET /v1/hosts 2>/dev/null >"$WORK/hosts.json"
check "it is who its certificate says, and its labels are those that make sense" python3 -B - "$WORK/hosts.json" <<'END'
import json, sys
hosts = {h["name"]: h for h in json.loads(open(sys.argv[1]).read().split("\n", 1)[1])["hosts"]}
assert sorted(hosts) == ["eve", "one", "two"], sorted(hosts)
assert set(hosts["eve"]["labels"]) == {"ok", "name", "../../etc"}, hosts["eve"]["labels"]
assert hosts["eve"]["streams"] == 0 and not hosts["eve"]["address"].startswith("1.2.3.4")
text = json.dumps(hosts)
assert "\\u001b" not in text and "\\n" not in text and "\\u0007" not in text, text
assert hosts["one"]["labels"] == {"role": "web"}
END
timeout 60 "$CLIENT" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key" \
    cat eve </dev/null >"$WORK/eve.out" 2>&1
check "a stream to it gets nobody else's bytes" test "$(grep -c hello "$WORK/eve.out")" -eq 0
fd=${LIAR[1]}
exec {fd}>&-
check "after the liar all is well" wait_for 20 unhurt

# ---- frames and heads
for what in rapid_reset connect_reset giant_field many_fields hpack_bomb continuation empty_continuation ping refused settings \
    empty_data zero_window window_overflow beyond_window invented_credit padding many_streams half_heads push \
    oversized_frame garbage smuggling; do
    tap_claims "${ABUSE[@]}" flood "$RELAY" "$WORK/pki" operator-eve "$what" one
    check "after ${what//_/ } all is well" wait_for 10 unhurt
done

# ---- slowness
tap_claims "${ABUSE[@]}" hog "$RELAY" "$WORK/pki" operator-eve operator-me one "$ONE_PID"
check "after a host that stood still all is well" wait_for 10 unhurt
tap_claims "${ABUSE[@]}" rest "$RELAY" "$WORK/pki" operator-eve operator-me one
check "after streams that were not read all is well" wait_for 10 unhurt
tap_claims "${ABUSE[@]}" unread "$RELAY" "$WORK/pki" operator-eve operator-me two "$MEETING_PID" $((32768 + 2 * GROWTH_KIB)) # of 64 MiB half; the rest is the allocator's
check "after an operator who read nothing all is well" wait_for 20 unhurt
coproc LORIS { "${ABUSE[@]}" loris "$RELAY" "$WORK/pki" operator-eve 2>&1; }
read -r -t 60 line <&"${LORIS[0]}"
check "while 400 handshakes and 30 heads take their time, others are served" wait_for 10 unhurt
read -r -t 120 line <&"${LORIS[0]}"
fd=${LORIS[1]}
exec {fd}>&-
check "handshakes that take their time are ended" test "${line:-}" = "ok - handshakes that take their time are ended"
check "after slow peers all is well" wait_for 10 unhurt

# ---- limits of one peer
tap_claims "${ABUSE[@]}" crowd "$RELAY" "$WORK/pki" host-eve operator-eve
check "after those crowds all is well" wait_for 20 unhurt
start tight "$BIN/perfleet-relay" --listen 127.0.0.1:0 --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/relay-meet.pem" \
    --key "$WORK/pki/relay-meet.key" --max-handshakes-per-min 6 --max-connections-per-operator 2
wait_for 20 pfl_relay_port_in "$WORK/tight.log"
TIGHT=127.0.0.1:$(pfl_relay_port_in "$WORK/tight.log")
python3 -B - "$ROOT/tests/support" "$TIGHT" "$WORK/pki" >"$WORK/tight.out" 2>&1 <<'END'
import sys
import time
sys.path.insert(0, sys.argv[1])
from tunnel_abuse import Peer
relay, pki = sys.argv[2:4]
since = time.monotonic()
peers = [Peer(relay, pki, "operator-me") for _ in range(3)]
print("answers", [peer.ask("GET", "/healthz") for peer in peers])
begun = 3
try:
    while begun < 20:
        Peer(relay, pki, "operator-eve")
        begun += 1
except OSError:
    pass
took_s = time.monotonic() - since
print("begun as many as it may" if 6 <= begun <= 7 + took_s / 10 else "not 6 a minute", begun, took_s)
END
check "an operator has so many connections and no more" says "^answers \[200, 200, 'closed'\]" cat "$WORK/tight.out"
check "an address begins so many handshakes a minute and no more" says '^begun as many as it may' cat "$WORK/tight.out"
check "and the log says so" grep -q 'too many handshakes from there' "$WORK/tight.log"

# ---- the same again: what was taken once is used again
BASE=$(rss_kib) GROWTH_KIB=$((GROWTH_KIB / 8))
for what in hpack_bomb continuation ping refused many_streams beyond_window; do
    tap_claims "${ABUSE[@]}" flood "$RELAY" "$WORK/pki" operator-eve "$what" one
done
check "the same again makes it grow no more" wait_for 10 unhurt

# ---- the other's stream, to its end
pkill -USR1 -P "$VICTIM"
ends_whole() { wait_for 60 grep -q eof "$WORK/victim.err" && [ "$(sha256sum <"$WORK/victim.out" | cut -d' ' -f1)" = "$SHA" ]; }
check "the stream that was held all the time is whole" ends_whole
echo "# the relay had $FIRST KiB before, $BASE KiB after all of it, $(rss_kib) KiB at the end"
finish
