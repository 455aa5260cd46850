#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Direct mode: any TLS tunnel in front of a client of the tracing protocol just works. socat and stunnel
# carry our own client and, where PERFETTO_BIN_DIR names it, the stock one; stunnel stands in for a relay.
# shellcheck disable=SC1091,SC2086,SC2153
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet

start_service one || { check "perfleetd opens its sockets" false; finish; }
start example-one "$BIN/perfleet-example" --rate 2000 --smb-kb 4096
wait_for_source "$EXAMPLE_SOURCE" 1
make_pki
start_relay one || { check "the relay listens" false; finish; }
config "$WORK/short.pbtx" 1000

# claims NAME SOCKET: what a client can do on SOCKET, which NAME carries
claims() {
    local name=$1 socket=$2
    check "$name: a client records" "$P" record -c "$WORK/short.pbtx" -o "$WORK/$name.pftrace" --host "one=unix:$socket"
    check "$name: whole" $CHECK "$WORK/$name.pftrace" --contiguous --lossless --min-packets 10
    if [ -x "${PERFETTO_BIN_DIR:-}/perfetto" ]; then
        stock() { PERFETTO_CONSUMER_SOCK_NAME=$socket "$PERFETTO_BIN_DIR/perfetto" "$@"; }
        check "$name: the stock client asks" says 'perfleet-example' stock --query
        check "$name: and records" stock --txt -c "$WORK/short.pbtx" -o "$WORK/$name-stock.pftrace"
        check "$name: whole" $CHECK "$WORK/$name-stock.pftrace" --contiguous --lossless --min-packets 10
    else
        skip "$name: the stock client records" "PERFETTO_BIN_DIR names no programs"
    fi
}

if command -v socat >/dev/null; then
    start socat socat "UNIX-LISTEN:$WORK/socat.sock,fork" \
        "OPENSSL:$RELAY_ADDR,cafile=$WORK/pki/ca.pem,cert=$WORK/pki/operator-me.pem,key=$WORK/pki/operator-me.key"
    wait_for 20 test -S "$WORK/socat.sock"
    claims socat "$WORK/socat.sock"
else
    skip "socat carries it" "no socat"
fi

if command -v stunnel >/dev/null; then
    cat >"$WORK/stunnel.conf" <<END
foreground = yes
pid =
syslog = no
debug = info
[one]
client = yes
accept = $WORK/stunnel.sock
connect = $RELAY_ADDR
CAfile = $WORK/pki/ca.pem
cert = $WORK/pki/operator-me.pem
key = $WORK/pki/operator-me.key
verifyChain = yes
checkIP = 127.0.0.1
END
    start stunnel stunnel "$WORK/stunnel.conf"
    wait_for 20 test -S "$WORK/stunnel.sock"
    claims stunnel "$WORK/stunnel.sock"
    check "stunnel, which puts AES-GCM first, is given ChaCha20" grep -qE 'ciphersuite: .*CHACHA20' "$WORK/stunnel.log"
    sed "s,stunnel.sock,bare.sock," "$WORK/stunnel.conf" >"$WORK/bare.conf"
    sed -i '/^cert =/d; /^key =/d' "$WORK/bare.conf"
    start bare stunnel "$WORK/bare.conf"
    wait_for 20 test -S "$WORK/bare.sock"
    not() { ! "$@"; }
    check "without a certificate nobody comes in" not timeout 60 "$P" query --host "unix:$WORK/bare.sock" --timeout 3s
    # The other way round: it stands before a service, in the place of a relay.
    FRONT=127.0.0.1:$(lasting_port)
    sed "s,^client = yes,client = no,; s,^accept = .*,accept = $FRONT,; s,^connect = .*,connect = $WORK/one/consumer.sock," \
        "$WORK/stunnel.conf" | sed "s,operator-me,host-one,; /^checkIP/d; s,^verifyChain = yes,&\nrequireCert = yes," >"$WORK/front.conf"
    start front stunnel "$WORK/front.conf"
    wait_for 20 grep -q 'Configuration successful' "$WORK/front.log"
    check "stunnel before a service: perfleet records" "$P" record -c "$WORK/short.pbtx" -o "$WORK/front.pftrace" \
        --host "one=tls://$FRONT" "${TLS_ME[@]}"
    check "whole" $CHECK "$WORK/front.pftrace" --contiguous --lossless --min-packets 10
    check "over ChaCha20" grep -qE 'ciphersuite: .*CHACHA20' "$WORK/front.log"
    check "and one that is another host is refused" says 'the host there is one, not two' \
        "$P" query --host "two=tls://$FRONT" "${TLS_ME[@]}"
else
    skip "stunnel carries it" "no stunnel"
fi
finish
