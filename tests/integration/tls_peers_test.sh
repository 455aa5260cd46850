#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TLS with programs that are not ours: openssl as a client before the relay, and as a server before the agent and the
# operator. By version, suite, group, certificate, KeyUpdate, renegotiation and early end; our programs and openssl of
# this release and, where PFL_OTHER_ROOT names its root, of the other.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/releases.sh"

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki relay meet --ip 127.0.0.1
pki host one --ip 127.0.0.1
"$ROOT/deploy/pki/perfleet-pki" init "$WORK/other" --fleet test >/dev/null
"$ROOT/deploy/pki/perfleet-pki" relay "$WORK/other" meet --ip 127.0.0.1 >/dev/null
"$ROOT/deploy/pki/perfleet-pki" host "$WORK/other" one --ip 127.0.0.1 >/dev/null
start_service one || { check "perfleetd opens its sockets" false; finish; }

RELEASES=(here)
WHY=$(why_one_release)
if [ -z "$WHY" ]; then
    make_there
    RELEASES=(here there)
else
    skip "our programs and openssl of the other release" "$WHY"
fi
openssl_of() { if [ "$1" = here ]; then OPENSSL=(openssl); else OPENSSL=("$IN_ROOT" "$OTHER_ROOT" openssl); fi; }
count() { grep -cE -- "$1" "$2"; }
has_more() { [ "$(count "$1" "$2")" -gt "$3" ]; } # has_more REGEX LOG COUNT

OLD_TLS='the peer speaks no allowed version of TLS: it needs 1.2 or 1.3'
NEW_TLS="the peer speaks no TLS before 1.3, and 1.2 is the newest of this end's mbedtls"
NO_NEWER="it wants another version of TLS, and 1.2 is the newest of this end's mbedtls"
KEY_UPDATE='the peer changed its keys .*: let it use ChaCha20-Poly1305, which needs none, or TLS 1.2'
CHACHA20_OF_1_2=ECDHE-ECDSA-CHACHA20-POLY1305

# --- openssl as a client ----------------------------------------------------------------------------
ME=(-cert "$WORK/pki/operator-me.pem" -key "$WORK/pki/operator-me.key")
HOST=(-cert "$WORK/pki/host-one.pem" -key "$WORK/pki/host-one.key")
RELAY_LOG=$WORK/relay-one.log
client() {
    timeout 60 "${OPENSSL[@]}" s_client -connect "$RELAY_ADDR" -CAfile "$WORK/pki/ca.pem" -verify_return_error "$@" 2>&1
}
# What the client reads, and then the relay's log has one more of: meets SAYS LOGGED S_CLIENT-OPTIONS
meets() {
    local before
    before=$(count "$2" "$RELAY_LOG")
    says "$1" client "${@:3}" </dev/null && wait_for 20 has_more "$2" "$RELAY_LOG" "$before"
}
update_keys() { { echo K; sleep 20; } | client "${ME[@]}"; }

client_claims() { # client_claims WHAT NEWEST-TLS
    local version option
    check "$1: TLS 1.2 is let in, with ChaCha20" meets "Cipher is $CHACHA20_OF_1_2" \
        'connection-started.*operator/me" tls=1.2' -tls1_2 "${ME[@]}"
    check "$1: TLS 1.2 and AES-GCM alone is let in" meets 'Cipher is ECDHE-ECDSA-AES128-GCM-SHA256' \
        'connection-started.*operator/me" tls=1.2' -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256 "${ME[@]}"
    check "$1: TLS 1.1 is refused" meets 'alert protocol version' "peer-refused.*$OLD_TLS" \
        -tls1_1 -cipher DEFAULT@SECLEVEL=0 "${ME[@]}"
    check "$1: CBC alone is refused" meets 'alert handshake failure' \
        'peer-refused.*the peer offers no cipher suite that is allowed' -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256 "${ME[@]}"
    for version in 1.2 ${2/1.2/}; do
        option=-tls${version/./_}
        check "$1: no certificate is refused, TLS $version" meets 'Cipher is|alert' \
            'peer-refused.*the peer showed no certificate' "$option"
        check "$1: a host's certificate is no operator, TLS $version" meets 'Cipher is' \
            'peer-refused.*host/one.*remedy=' "$option" "${HOST[@]}"
    done
    if [ "$2" = 1.2 ]; then
        check "$1: TLS 1.3 alone is refused" meets 'alert protocol version' "peer-refused.*$NEW_TLS" -tls1_3 "${ME[@]}"
        return
    fi
    check "$1: TLS 1.3 is let in, with ChaCha20 though it puts AES-GCM first" \
        meets 'TLSv1.3, Cipher is TLS_CHACHA20_POLY1305_SHA256' 'connection-started.*operator/me" tls=1.3' "${ME[@]}"
    check "$1: TLS 1.3 and AES-GCM alone is let in" meets 'TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256' \
        'connection-started.*operator/me" tls=1.3' -ciphersuites TLS_AES_128_GCM_SHA256 "${ME[@]}"
    check "$1: a peer that changes its keys gets an alert" says 'alert unexpected message' update_keys
    check "and the relay's log says what to change" \
        wait_for 20 has_more "connection-ended.*operator_side=\"$KEY_UPDATE\"" "$RELAY_LOG" 0
}

# --- openssl as a server ----------------------------------------------------------------------------
# Shows the certificate FILE of ours, and takes commands from a FIFO: serve FILE OPTIONS; SERVER_PID, SERVER_ADDR
SERVER_LOG=$WORK/server.log
is_serving() { grep -qE 'ACCEPT .*:[0-9]+$' "$SERVER_LOG"; }
serve() {
    [ -p "$WORK/server.in" ] || mkfifo "$WORK/server.in"
    rm -f "$SERVER_LOG"
    # shellcheck disable=SC2016
    start server bash -c 'exec "$@" <>"$0"' "$WORK/server.in" "${OPENSSL[@]}" s_server -accept 127.0.0.1:0 -cert "$1.pem" \
        -key "$1.key" -CAfile "$WORK/pki/ca.pem" -Verify 2 -verify_return_error -alpn pfl-agent/1 "${@:2}"
    SERVER_PID=$STARTED
    wait_for 20 is_serving && SERVER_ADDR=127.0.0.1:$(grep -oE 'ACCEPT .*' "$SERVER_LOG" | grep -oE '[0-9]+$')
}
# dial agent|operator: DIALLER_PID, DIALLER_LOG
dial() {
    DIALLER_LOG=$WORK/$1.log
    rm -f "$DIALLER_LOG"
    if [ "$1" = agent ]; then
        start agent "$PROGRAMS/perfleet-agent" --relay "$SERVER_ADDR" --ca "$WORK/pki/ca.pem" --retry-max-ms 500 \
            --cert "$WORK/pki/host-one.pem" --key "$WORK/pki/host-one.key" --consumer-socket "$WORK/one/consumer.sock"
    else
        start operator "$PROGRAMS/perfleet" query --timeout 60s --host "one=tls://$SERVER_ADDR" "${TLS_ME[@]}"
    fi
    DIALLER_PID=$STARTED
}
hang_up() {
    kill "$DIALLER_PID" "$SERVER_PID" 2>/dev/null
    wait "$DIALLER_PID" "$SERVER_PID" 2>/dev/null
    true
}
reads() { wait_for 20 grep -qaE -- "$1" "$2" || { cat "$2"; return 1; }; } # reads REGEX LOG
# agrees WHO CIPHER SERVE-ARGS: and says no ill of it
agrees() {
    local rc=0
    serve "${@:3}" && dial "$1" && reads "CIPHER is $2" "$SERVER_LOG" || rc=1
    ! grep -E 'relay-lost|FAILED' "$DIALLER_LOG" || rc=1
    hang_up
    return $rc
}
# does WHO COMMAND SAYS SERVE-ARGS: what it says once they have agreed and the server does as COMMAND
does() {
    local rc=0
    serve "${@:4}" && dial "$1" && reads "CIPHER is" "$SERVER_LOG" || rc=1
    if [ "$2" = kill ]; then kill -9 "$SERVER_PID"; elif [ -n "$2" ]; then echo "$2" >"$WORK/server.in"; fi
    [ $rc -ne 0 ] || reads "$3" "$DIALLER_LOG" || rc=1
    hang_up
    return $rc
}
# refuses WHO SAYS SERVE-ARGS
refuses() {
    local rc=0
    serve "${@:3}" && dial "$1" && reads "$2" "$DIALLER_LOG" || rc=1
    hang_up
    return $rc
}

server_claims() { # server_claims WHAT NEWEST-TLS agent|operator CERTIFICATE
    local what="$1, $3" who=$3 certificate=$WORK/pki/$4 newest=$CHACHA20_OF_1_2
    [ "$2" = 1.2 ] || newest=TLS_CHACHA20_POLY1305_SHA256
    check "$what: the newest TLS of both, with ChaCha20" agrees "$who" $newest "$certificate"
    check "$what: TLS 1.2" agrees "$who" $CHACHA20_OF_1_2 "$certificate" -tls1_2
    check "$what: TLS 1.2 with AES-GCM" agrees "$who" ECDHE-ECDSA-AES256-GCM-SHA384 "$certificate" \
        -tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384
    check "$what: a group that is not our first" agrees "$who" $newest "$certificate" -groups P-384:P-256
    check "$what: no TLS before 1.2" refuses "$who" 'the peer refused the connection' "$certificate" \
        -tls1_1 -cipher DEFAULT@SECLEVEL=0
    check "$what: no CBC" refuses "$who" 'it shares no cipher suite with us' "$certificate" \
        -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256
    check "$what: no certificate of another authority" refuses "$who" 'of an authority that we do not know' "$WORK/other/$4"
    check "$what: no certificate of an operator" refuses "$who" "is not for this side of a connection" "$WORK/pki/operator-me"
    check "$what: one that requests another handshake is refused" does "$who" R \
        'it wants another handshake on this connection .TLS 1.2 renegotiation.*turn that off there' "$certificate" -tls1_2
    check "$what: one that dies" does "$who" kill \
        'cut .it ended without a goodbye|the connection was lost|closed the connection after the handshake' "$certificate"
    if [ "$2" = 1.2 ]; then
        check "$what: TLS 1.3 alone is not spoken" refuses "$who" "$NO_NEWER" "$certificate" -tls1_3
        return
    fi
    check "$what: TLS 1.3 with AES-GCM" agrees "$who" TLS_AES_256_GCM_SHA384 "$certificate" \
        -tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384
    check "$what: one that changes its keys" does "$who" K "$KEY_UPDATE" "$certificate"
}

for ours in "${RELEASES[@]}"; do
    PROGRAMS=$(programs_of "$ours")
    newest=$(newest_tls "$ours")
    BIN=$PROGRAMS start_relay one || { check "the relay of Debian $(release_of "$ours") listens" false; continue; }
    for theirs in "${RELEASES[@]}"; do
        openssl_of "$theirs"
        what="ours of Debian $(release_of "$ours"), $("${OPENSSL[@]}" version | cut -d' ' -f1-2)"
        client_claims "$what" "$newest"
        server_claims "$what" "$newest" agent relay-meet
        server_claims "$what" "$newest" operator host-one
    done
    kill "$RELAY_PID"
done
finish
