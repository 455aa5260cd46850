#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154
# perfleet-relay alone, between plain services and OpenSSL's TLS: bytes both ways, half-close, who is
# refused and in which words, bounded memory, reload and stop.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

PEER=(python3 -B "$ROOT/tests/support/relay_peer.py")
TOTAL=$((200 * 1024 * 1024))
RSS_MAX_KIB=$((16 * 1024))
[ -z "${PFL_SANITIZE:-}" ] || RSS_MAX_KIB=$((512 * 1024)) # a sanitizer's own memory is not ours

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki host h --ip 127.0.0.1

# service KIND [ARGS]: a plain service of relay_peer.py behind a relay of its own; ADDR_KIND, PID_KIND.
service() {
    local kind=$1
    shift
    start "$kind" "${PEER[@]}" "$kind" "$WORK/$kind.sock" "$@"
    wait_for 20 test -S "$WORK/$kind.sock" || return
    relay "$kind" "$WORK/$kind.sock"
}

relay() {
    local kind=$1 log=$WORK/relay-$1.log
    start "relay-$kind" "$BIN/perfleet-relay" --listen 127.0.0.1:0 --consumer-socket "$2" \
        --ca "$WORK/pki/ca.pem" --crl "$WORK/pki/crl.pem" --handshake-timeout-ms "${HANDSHAKE_MS:-60000}" \
        --cert "$WORK/pki/host-h.pem" --key "$WORK/pki/host-h.key" "${@:3}"
    wait_for 20 grep -q listening "$log" || return
    declare -g "ADDR_$kind=127.0.0.1:$(sed -n 's/.* port=\([0-9]*\).*/\1/p' "$log" | head -n 1)"
    declare -g "PID_$kind=$STARTED"
}

service echo || { check "the relay listens" false; finish; }
HANDSHAKE_MS=6000 service sink # to which who says nothing connects
service source "$TOTAL"
relay none "$WORK/nobody.sock"

# s_client ADDR WHO [MORE]: OpenSSL's client with the certificate pki/WHO. In a subshell only: it takes
# the place of the shell, so that a kill reaches it.
s_client() {
    local addr=$1 who=$2
    shift 2
    exec openssl s_client -connect "$addr" -CAfile "$WORK/pki/ca.pem" -verify_return_error \
        -cert "$WORK/pki/$who.pem" -key "$WORK/pki/$who.key" -quiet "$@" 2>>"$WORK/s_client.log"
}

# Sends a line and waits for it to come back.
echoes() {
    local addr=$1 got
    shift
    coproc CLIENT { s_client "$addr" "$@"; }
    local pid=$CLIENT_PID out=${CLIENT[0]} in=${CLIENT[1]}
    { echo "hello $$" >&"$in"; } 2>/dev/null
    read -r -t 60 got <&"$out"
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    [ "$got" = "hello $$" ]
}

logged() { wait_for 10 grep -qE -- "$2" "$WORK/relay-$1.log"; }
not() { ! "$@"; }
alive() { is_alive "$PID_echo" && is_alive "$PID_sink" && is_alive "$PID_source"; }

check "an operator's bytes reach the service and come back" echoes "$ADDR_echo" operator-me
check "the log names who it was" logged echo 'connection-started.*perfleet://test/operator/me'
for suite in ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384; do
    check "$suite works" echoes "$ADDR_echo" operator-me -tls1_2 -cipher "$suite"
done
check "a cipher without AEAD is refused" not echoes "$ADDR_echo" operator-me -tls1_2 \
    -cipher ECDHE-ECDSA-AES128-SHA
check "TLS 1.1 is refused" not echoes "$ADDR_echo" operator-me -tls1_1 -cipher DEFAULT@SECLEVEL=0

tls=("$WORK/pki/ca.pem" "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key")
check "after the operator's goodbye the answer still comes" \
    timeout 300 "${PEER[@]}" half-close "$ADDR_echo" "${tls[@]}"

# ---- who is refused
pki operator old --days -1
pki operator later --not-before tomorrow
mkdir -p "$WORK/pki/other"
for command in "init DIR --fleet test" "operator DIR me"; do
    # shellcheck disable=SC2086
    "$ROOT/deploy/pki/perfleet-pki" ${command/DIR/"$WORK/pki/other"} >>"$WORK/pki.log" 2>&1
done

refused() {
    local claim=$1 who=$2 words=$3
    check "$claim is refused" not echoes "$ADDR_echo" "$who"
    check "and the log says why: $words" logged echo "peer-refused.*$words"
}
refused "an expired certificate" operator-old 'expired on 20'
refused "a certificate of the future" operator-later 'valid from 20'
refused "a certificate of another authority" other/operator-me 'authority that we do not know'
refused "a host's certificate" host-h "a host's certificate may not connect.*remedy="
check "a client without a certificate is refused" not timeout 60 sh -c \
    "echo x | openssl s_client -connect $ADDR_echo -CAfile '$WORK/pki/ca.pem' -quiet 2>&1 | grep -q '^x'"
check "and the log says why" logged echo 'showed no certificate'
check "garbage is refused" timeout 60 bash -c \
    "exec 3<>/dev/tcp/${ADDR_echo/://} && printf 'GET / HTTP/1.1\r\n\r\n' >&3 && cat <&3 >/dev/null"
check "and the log says why" logged echo 'does not speak TLS'

check "without a service behind it the connection ends" not echoes "$ADDR_none" operator-me
check "and the log names the socket and the remedy" logged none \
    'consumer-socket-unreachable.*nobody.sock.*No such file.*remedy="start perfleetd'

cp "$WORK/pki/host-h.key" "$WORK/open.key" && chmod 644 "$WORK/open.key"
check "a key that others may read stops the relay at its start" says 'chmod 600' \
    "$BIN/perfleet-relay" --listen 127.0.0.1:0 --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/host-h.pem" \
    --key "$WORK/open.key"
check "an operator's certificate cannot serve" says 'may not serve' \
    "$BIN/perfleet-relay" --listen 127.0.0.1:0 --ca "$WORK/pki/ca.pem" \
    --cert "$WORK/pki/operator-me.pem" --key "$WORK/pki/operator-me.key"
check "wrong usage is exit code 2" exits_with 2 "$BIN/perfleet-relay" --listen x
check "--help is exit code 0" exits_with 0 "$BIN/perfleet-relay" --help

# ---- volume and memory
expected=$("${PEER[@]}" sha "$TOTAL")
download() {
    local begin end sum
    begin=$(date +%s%N)
    sum=$(s_client "$ADDR_source" operator-me </dev/null | sha256sum | cut -d' ' -f1)
    end=$(date +%s%N)
    echo "# download: $((TOTAL / ((end - begin) / 1000))) MB/s" >>"$WORK/speed"
    [ "$sum" = "$expected" ]
}
upload() {
    rm -f "$WORK/sink.sock.got"
    "${PEER[@]}" pattern "$TOTAL" | s_client "$ADDR_sink" operator-me -no_ign_eof >/dev/null
    wait_for 60 test -e "$WORK/sink.sock.got" || return
    [ "$(cat "$WORK/sink.sock.got")" = "$TOTAL $expected" ]
}
check "200 MB come through unchanged" download
check "200 MB go through unchanged" upload
[ ! -e "$WORK/speed" ] || cat "$WORK/speed"

rm -f "$WORK/source.sock.sent"
slow_reader() {
    local out rss
    out=$(timeout 600 "${PEER[@]}" slow "$ADDR_source" "${tls[@]}" "$PID_source" "$WORK/source.sock.sent") || return
    echo "$out"
    rss=$(sed -n 's/.*RSS \([0-9]*\) KiB.*/\1/p' <<<"$out")
    [ "$rss" -lt "$RSS_MAX_KIB" ]
}
check "an operator that does not read costs little memory and loses nothing" slow_reader

ulimit -n "$(ulimit -Hn)"
coproc SILENT { "${PEER[@]}" silent "$ADDR_sink" 2000 "$PID_sink" 2>&1; }
exec {silent_out}<&"${SILENT[0]}" {silent_in}>&"${SILENT[1]}"
silent_pid=$SILENT_PID
read -r -t 60 line <&"$silent_out"
echo "# $line"
rss=$(sed -n 's/.*RSS \([0-9]*\) KiB.*/\1/p' <<<"$line")
check "2000 silent connections cost less than 16 MiB" test "${rss:-999999}" -lt "$RSS_MAX_KIB"
check "beside them an operator's upload is whole" upload
echo go >&"$silent_in"
all_ended() {
    read -r -t 60 line <&"$silent_out" && [ "$line" = "all ended by the relay" ]
}
check "the handshake deadline ends them all" all_ended
wait "$silent_pid" 2>/dev/null
check "nothing of this ended a relay" alive
check "2000 refusals do not fill the log" \
    test "$(grep -c peer-refused "$WORK/relay-sink.log")" -lt 300

# ---- who only holds a place keeps nobody out
relay small "$WORK/echo.sock" --max-connections 8 --handshake-timeout-ms 600000
coproc HOLDING { "${PEER[@]}" silent "$ADDR_small" 30 "$PID_small" 2>&1; }
exec {holding_out}<&"${HOLDING[0]}"
read -r -t 60 line <&"$holding_out"
at_once() { timeout 120 bash -c "$(declare -f s_client echoes); $(declare -p WORK); echoes $ADDR_small operator-me"; }
check "30 silent connections do not keep an operator out of a relay for 8" at_once
kill "$HOLDING_PID"
wait "$HOLDING_PID" 2>/dev/null

# ---- reload and stop
pki operator leaver
check "an operator who is to leave still connects" echoes "$ADDR_echo" operator-leaver
coproc HELD { "${PEER[@]}" hold "$ADDR_echo" "${tls[@]}" 2>&1; }
exec {held_out}<&"${HELD[0]}" {held_in}>&"${HELD[1]}"
held_pid=$HELD_PID
held_echoes() {
    local got
    echo "$1" >&"$held_in"
    read -r -t 60 got <&"$held_out"
    [ "$got" = "$1" ]
}
check "a connection is open" held_echoes one
pki revoke operator leaver
kill -HUP "$PID_echo"
check "SIGHUP reads the new revocation list" logged echo 'reloaded'
check "who was revoked is refused" not echoes "$ADDR_echo" operator-leaver
check "the open connection lives on" held_echoes two
cp "$WORK/pki/host-h.pem" "$WORK/host-h.pem" && echo broken >"$WORK/pki/host-h.pem"
kill -HUP "$PID_echo"
check "a broken certificate is not taken over" logged echo 'reload-failed'
cp "$WORK/host-h.pem" "$WORK/pki/host-h.pem"
check "and the old one still serves" echoes "$ADDR_echo" operator-me
kill -TERM "$PID_echo"
check "SIGTERM stops accepting" logged echo 'stopping: connections=[1-9]'
check "but lets the open connection go on" held_echoes three
kill "$held_pid" 2>/dev/null
wait "$held_pid" 2>/dev/null
code=0
wait "$PID_echo" || code=$?
check "when it ends the relay ends with exit code 0" test "$code" -eq 0
check "its counters were logged" grep -qE \
    'connection-ended.*bytes_from_operator=14 bytes_to_operator=14' "$WORK/relay-echo.log"
finish
