#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet-relay before real services: who is let in, who is not, and what both sides say.
. "$(dirname "$0")/lib.sh"
RECORD_NOTHING=1 RECORD_PARTIAL=4

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
declare -A ADDR=() RELAY=()
for name in one two; do
    start_service $name || { check "perfleetd opens its sockets" false; finish; }
    start "example-$name" "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    start_relay $name || { check "perfleet-relay listens" false; finish; }
    ADDR[$name]=$RELAY_ADDR
    RELAY[$name]=$RELAY_PID
done
config "$WORK/short.pbtx" 1000
config "$WORK/open.pbtx" 0

# record_tls OUT MORE...: the two hosts by their certificates' names
record_tls() {
    timeout 300 "$BIN/perfleet" record -c "$WORK/short.pbtx" -o "$WORK/$1.pftrace" \
        --host "tls://${ADDR[one]}" --host "tls://${ADDR[two]}" "${@:2}"
}
record_one() { # record_one ADDRESS TLS-OPTIONS...
    timeout 300 "$BIN/perfleet" record -c "$WORK/short.pbtx" -o "$WORK/x.pftrace" --host "tls://$1" "${@:2}"
}

check "two hosts are recorded over mutual TLS under their certificates' names" \
    says '^host two: ' record_tls both "${TLS_ME[@]}"
check "the file is whole" \
    $CHECK "$WORK/both.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 10

# --- who is not let in -------------------------------------------------------------------------
mkdir "$WORK/other"
"$ROOT/deploy/pki/perfleet-pki" init "$WORK/other/pki" --fleet test >/dev/null
"$ROOT/deploy/pki/perfleet-pki" operator "$WORK/other/pki" me >/dev/null
other=(--ca "$WORK/pki/ca.pem" --cert "$WORK/other/pki/operator-me.pem" --key "$WORK/other/pki/operator-me.key")
check "an operator of another authority is refused" exits_with $RECORD_NOTHING record_one "${ADDR[one]}" "${other[@]}"
check "and the relay's log says why" wait_for 10 grep -qiE 'refused|certificate' "$WORK/relay-one.log"

pki operator late --days -1
late=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-late.pem" --key "$WORK/pki/operator-late.key")
check "an operator whose certificate expired gets that reason" says 'expired' record_one "${ADDR[one]}" "${late[@]}"

pki operator gone && pki revoke operator gone
gone=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-gone.pem" --key "$WORK/pki/operator-gone.key")
start_relay two || check "the relay starts again with the new CRL" false
check "a revoked operator is refused" exits_with $RECORD_NOTHING record_one "$RELAY_ADDR" "${gone[@]}"
kill "$RELAY_PID"

host=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/host-one.pem" --key "$WORK/pki/host-one.key")
check "a host's certificate makes no operator" exits_with 2 record_one "${ADDR[one]}" "${host[@]}"
echo | timeout 60 openssl s_client -quiet -connect "${ADDR[one]}" >/dev/null 2>&1
check "a client without a certificate is refused" wait_for 20 grep -q 'showed no certificate' "$WORK/relay-one.log"

start_relay two --days -1 || check "the relay starts with an expired certificate" false
check "a host whose certificate expired is refused with words" says 'expired' \
    record_one "$RELAY_ADDR" "${TLS_ME[@]}"
kill "$RELAY_PID"
check "a host that is not who it should be is refused" says 'one' \
    "$BIN/perfleet" query --host "two=tls://${ADDR[one]}" "${TLS_ME[@]}"
check "and that is a failure" exits_with $RECORD_NOTHING timeout 300 "$BIN/perfleet" record \
    -c "$WORK/short.pbtx" -o "$WORK/x.pftrace" --host "two=tls://${ADDR[one]}" "${TLS_ME[@]}"
chmod 644 "$WORK/pki/operator-me.key"
check "a private key that others may read is refused" says 'operator-me.key' record_one "${ADDR[one]}" "${TLS_ME[@]}"
chmod 600 "$WORK/pki/operator-me.key"

# --- lists and dates, while connected ----------------------------------------------------------
# The operator's own list.
mkdir "$WORK/taken" && ln -s "$WORK/one/consumer.sock" "$WORK/taken/consumer.sock"
start_relay taken || check "a third relay listens" false
cp "$WORK/pki/crl.pem" "$WORK/mine.crl"
config "$WORK/long.pbtx" 120000
timeout 150 "$BIN/perfleet" record -c "$WORK/long.pbtx" -o "$WORK/revoked.pftrace" --host "tls://$RELAY_ADDR" \
    "${TLS_ME[@]}" --crl "$WORK/mine.crl" >"$WORK/revoked.log" 2>&1 &
RECORDING=$!
check "an operator with a list records from a host" wait_for 30 grep -q connection-started "$WORK/relay-taken.log"
pki revoke host taken && cp "$WORK/pki/crl.pem" "$WORK/mine.crl"
check "a list that revokes the host while the recording runs ends the connection" wait_for 30 \
    grep -q "the host's certificate was revoked" "$WORK/revoked.log"
wait "$RECORDING"
check "without a list the operator does not know that a host is revoked" \
    exits_with 0 timeout 60 "$BIN/perfleet" query --host "tls://$RELAY_ADDR" "${TLS_ME[@]}"
check "with one he does not talk to it" says "certificate is revoked" timeout 60 "$BIN/perfleet" query \
    --host "tls://$RELAY_ADDR" "${TLS_ME[@]}" --crl "$WORK/pki/crl.pem"
mkdir "$WORK/config"
cp "$WORK/pki/crl.pem" "$WORK/config/"
in_config() { PERFLEET_CONFIG_DIR=$WORK/config timeout 60 "$BIN/perfleet" "$@"; }
check "a list in the configuration folder is used" says "certificate is revoked" in_config query \
    --host "tls://$RELAY_ADDR" "${TLS_ME[@]}"
check "a list that was named and is not there is an error" says 'nowhere/crl.pem' timeout 60 "$BIN/perfleet" query \
    --host "tls://$RELAY_ADDR" "${TLS_ME[@]}" --crl "$WORK/nowhere/crl.pem"
kill "$RELAY_PID"

# An authority that is below the fleet's: the relay's list comes to revoke it, not the operator.
"$ROOT/tests/support/deep_pki.sh" "$WORK/deep" test && cp "$WORK/deep/all.crl" "$WORK/deep/now.crl"
deep=(--ca "$WORK/pki/ca.pem" --cert "$WORK/deep/operator-deep.pem" --key "$WORK/deep/operator-deep.key")
start deep-relay "$BIN/perfleet-relay" --listen 127.0.0.1:0 --consumer-socket "$WORK/one/consumer.sock" \
    --ca "$WORK/deep/root.pem" --crl "$WORK/deep/now.crl" --cert "$WORK/pki/host-one.pem" --key "$WORK/pki/host-one.key"
DEEP=$STARTED
wait_for 20 pfl_relay_port_in "$WORK/deep-relay.log"
start deep "$BIN/perfleet" record -c "$WORK/open.pbtx" -o "$WORK/deep.pftrace" \
    --host "tls://127.0.0.1:$(pfl_relay_port_in "$WORK/deep-relay.log")" "${deep[@]}"
RECORDING=$STARTED
check "an operator of an authority below the fleet's records" wait_for 20 grep -q 'recording until' "$WORK/deep.log"
cp "$WORK/deep/middle-revoked.crl" "$WORK/deep/now.crl"
kill -HUP "$DEEP"
check "when a list revokes that authority the relay ends the connection" wait_for 20 \
    grep -q "peer-dropped.*operator/deep.*its certificate was revoked" "$WORK/deep-relay.log"
deep_is_over() { ! is_alive "$RECORDING"; }
check "and the recording is ended" wait_for 20 deep_is_over
kill "$DEEP"

# A certificate that ends while it is connected.
pki operator brief --not-after '25 seconds'
brief=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-brief.pem" --key "$WORK/pki/operator-brief.key")
start brief "$BIN/perfleet" record -c "$WORK/open.pbtx" -o "$WORK/brief.pftrace" --host "tls://${ADDR[one]}" "${brief[@]}"
check "an operator whose certificate is about to end records" wait_for 20 grep -q 'recording until' "$WORK/brief.log"
check "when it ends the relay ends the connection and says why" wait_for 60 \
    grep -q "the peer's certificate has expired since it connected" "$WORK/relay-one.log"
ended_by_relay() { ! is_alive "$STARTED"; }
check "and his recording ends" wait_for 60 ended_by_relay

# --- what the network does ---------------------------------------------------------------------
check "garbage on the TLS port ends" timeout 600 $HOSTILE garbage "${ADDR[one]}" 200
coproc SILENT { $HOSTILE silent "${ADDR[one]}" 200; }
read -r -t 60 line <&"${SILENT[0]}"
echo "# $line"
check "beside connections that say nothing, a recording is whole" record_tls silent "${TLS_ME[@]}"
fd=${SILENT[1]}
exec {fd}>&-
check "it is whole" $CHECK "$WORK/silent.pftrace" --contiguous --lossless --machines 2

relay_dies() {
    local pid rc=0
    "$BIN/perfleet" record -c "$WORK/open.pbtx" -o "$WORK/dead.pftrace" \
        --host "tls://${ADDR[one]}" --host "tls://${ADDR[two]}" "${TLS_ME[@]}" >"$WORK/dead.log" 2>&1 &
    pid=$!
    wait_for 20 grep -q 'recording until' "$WORK/dead.log"
    kill -9 "${RELAY[two]}"
    sleep 0.3
    kill -INT $pid
    wait $pid || rc=$?
    return $rc
}
check "a relay that dies in the middle is a partial failure" exits_with $RECORD_PARTIAL relay_dies
check "the other host's data is whole" $CHECK "$WORK/dead.pftrace" --contiguous --lossless
check "the relay of the other host is alive" is_alive "${RELAY[one]}"
finish
