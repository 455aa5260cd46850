#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host gets its next certificate by its present one: when it is time, through the relay and the signer,
# while it is recorded; who does not; the signer on a socket of a service manager.
. "$(dirname "$0")/lib.sh"
P="$BIN/perfleet"
D=$WORK/pki

make_pki && pki relay meet --ip 127.0.0.1
# Of 30 days, 5 are left.
pki host web1 --ip 127.0.0.1 --not-before "25 days ago" --not-after "5 days"
cp "$D/ca.pem" "$D/crl.pem" "$WORK"
mkdir "$WORK/web1" && cp "$D/ca.pem" "$D/crl.pem" "$WORK/web1" && cp "$D/host-web1.pem" "$WORK/web1/cert.pem" && cp "$D/host-web1.key" "$WORK/web1/key.pem"
chmod 400 "$WORK/web1/key.pem"
start signer python3 -B "$ROOT/tests/support/supervisor.py" --watchdog-ms 2000 --listen "x=$WORK/signer.sock" ready,connect,alive,wait -- "$P" pki serve "$D"
wait_for 20 grep -q "signing for" "$WORK/signer.log"
start meeting "$BIN/perfleet-relay" --listen 127.0.0.1:0 --join-listen 127.0.0.1:0 --signer "$WORK/signer.sock" \
    --ca "$D/ca.pem" --cert "$D/relay-meet.pem" --key "$D/relay-meet.key"
wait_for 20 grep -q ' listening: ' "$WORK/meeting.log"
RELAY=127.0.0.1:$(sed -n 's/.* listening: .* port=\([0-9]*\).*/\1/p' "$WORK/meeting.log")
JOIN_PORT=$(sed -n 's/.*join-listening: port=\([0-9]*\).*/\1/p' "$WORK/meeting.log")

start_service one
start example "$BIN/perfleet-example" --rate 2000 --smb-kb 4096
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
cat >"$WORK/agent.conf" <<END
relay: "$RELAY"
ca: "$WORK/web1/ca.pem"
cert: "$WORK/web1/cert.pem"
key: "$WORK/web1/key.pem"
crl: "$WORK/web1/crl.pem"
consumer_socket: "$WORK/one/consumer.sock"
metrics_socket: "$WORK/metrics.sock"
join_port: $JOIN_PORT
END
start agent "$BIN/perfleet-agent" --config "$WORK/agent.conf"
AGENT=$STARTED
renew() { "$BIN/perfleet-agent" renew "$@"; }
mine() { renew "$@" --config "$WORK/agent.conf"; }
end_of() { date -d "$(openssl x509 -in "$1" -noout -enddate | cut -d= -f2)" +%s; }
metric_is() { # metric_is EXPIRY: what the agent shows Prometheus
    curl -s --unix-socket "$WORK/metrics.sock" http://localhost/metrics |
        awk -v want="$1" '$1 == "perfleet_certificate_expiry_timestamp_seconds" { found = $2 == want } END { exit !found }'
}
host_is_there() { fleet hosts | grep -q '^web1'; }
check "the host is there" wait_for 20 host_is_there

# --- while it is recorded
BEFORE=$(end_of "$WORK/web1/cert.pem")
cp "$WORK/web1/cert.pem" "$WORK/old.pem"
config "$WORK/long.pbtx" 3000
fleet record -c "$WORK/long.pbtx" -o "$WORK/t.pftrace" --host web1 --json >"$WORK/t.json" 2>"$WORK/t.txt" &
RECORDER=$!
wait_for 20 grep -q "recording for" "$WORK/t.txt"
check "it is time, says --due" mine --due
check "the figures have the present end" metric_is "$BEFORE"
check "the next certificate is there" says "^renewed: perfleet://test/host/web1, good until " mine
AFTER=$(end_of "$WORK/web1/cert.pem")
check "as long as the one before" test $((AFTER - BEFORE)) -gt $((20 * 86400)) -a $((AFTER - BEFORE)) -lt $((31 * 86400))
check "with its names and its key" bash -c "openssl x509 -in '$WORK/web1/cert.pem' -noout -ext subjectAltName | grep -q 'IP Address:127.0.0.1' &&
    cmp <(openssl x509 -in '$WORK/web1/cert.pem' -noout -pubkey) <(openssl x509 -in '$WORK/old.pem' -noout -pubkey)"
check "readable by its owner alone, nothing beside it" test "$(stat -c %a "$WORK/web1/cert.pem") $(find "$WORK/web1" -type f | wc -l)" = "400 4"
kill -HUP "$AGENT"
check "the agent has it after SIGHUP" wait_for 20 metric_is "$AFTER"
wait "$RECORDER"
check "and no stream was dropped" grep -q '"exit_code": 0' "$WORK/t.json"
check "the recording is whole" $CHECK "$WORK/t.pftrace" --machines 1 --contiguous --lossless --min-packets 100
check "no stream had to be resumed" grep -q '"resumes": 0' "$WORK/t.json"
check "then it is not time" exits_with 1 mine --due
check "and nothing is done, which is said" says "^not due: perfleet://test/host/web1 is good until " mine
kill "$AGENT" && wait "$AGENT"
start agent2 "$BIN/perfleet-agent" --config "$WORK/agent.conf"
has_new_end() { fleet hosts --json | grep -q "\"certificate_end_s\": $AFTER"; }
check "the relay sees the new one" wait_for 20 has_new_end
check "list has the new one" says "host-web1.pem" "$P" pki list "$D"

# --- who gets none
files() { # files CERT KEY: of somebody else
    echo --relay "$RELAY" --join-port "$JOIN_PORT" --ca "$D/ca.pem" --cert "$1" --key "$2"
}
pki host web2 --ip 127.0.0.1
cp "$D/host-web2.pem" "$WORK/web2.pem" && cp "$D/host-web2.key" "$WORK/web2.key"
# shellcheck disable=SC2046
check "another's certificate without its key is of no use" says "another key than the certificate" \
    renew --force $(files "$WORK/web2.pem" "$WORK/web1/key.pem")
# shellcheck disable=SC2046
check "an operator's is not renewed this way" says "no host's certificate" \
    renew --force $(files "$D/operator-me.pem" "$D/operator-me.key")
cp "$WORK/web2.pem" "$WORK/web2.before.pem"
pki revoke host web2
# shellcheck disable=SC2046
check "a revoked one gets no other" says "was revoked" renew --force $(files "$WORK/web2.pem" "$WORK/web2.key")
check "what was there is as it was" cmp "$WORK/web2.pem" "$WORK/web2.before.pem"
pki host busy --ip 127.0.0.1
cp "$D/host-busy.pem" "$WORK/busy.pem" && cp "$D/host-busy.key" "$WORK/busy.key"
ask_on_and_on() {
    for _ in {1..12}; do
        # shellcheck disable=SC2046
        renew --force $(files "$WORK/busy.pem" "$WORK/busy.key") || return 0
    done
}
check "one that asks on and on has to ask later" says "ask again later" ask_on_and_on
check "and has no more than 8" test "$(grep -c 'CN=busy$' "$D/index.txt")" -eq 8
renew_as_stranger() { # with a name and a serial of this fleet, of an authority that this machine trusts for the web
    local serial web=$WORK/web
    mkdir -p "$web/trusted"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$web/ca.key" -out "$web/ca.pem" \
        -subj "/CN=web" -days 9 2>/dev/null
    cp "$web/ca.pem" "$web/trusted/$(openssl x509 -in "$web/ca.pem" -noout -hash).0"
    serial=$(openssl x509 -in "$D/host-busy.pem" -noout -serial | cut -d= -f2)
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$web/key.pem" -out "$web/req.pem" \
        -subj "/O=x" 2>/dev/null
    openssl x509 -req -in "$web/req.pem" -CA "$web/ca.pem" -CAkey "$web/ca.key" -set_serial "0x$serial" -days 9 \
        -extfile <(echo "subjectAltName=URI:perfleet://test/host/web1") -out "$web/cert.pem" 2>/dev/null
    (echo "perfleet-renew 1" && cat "$web/cert.pem" "$web/req.pem") |
        SSL_CERT_DIR=$web/trusted "$ROOT/deploy/pki/perfleet-pki" sign "$D" 2>&1
}
check "a certificate of an authority that the machine trusts besides is of no use" \
    says "refused: the certificate is not of this authority" renew_as_stranger
renew_as_before() { # with the same certificate each time, as one does who kept the request
    for _ in {1..12}; do
        cp "$D/host-again.pem.first" "$WORK/again.pem"
        # shellcheck disable=SC2046
        renew --force $(files "$WORK/again.pem" "$WORK/again.key") || return 1
    done
}
pki host again --ip 127.0.0.1
cp "$D/host-again.pem" "$D/host-again.pem.first" && cp "$D/host-again.key" "$WORK/again.key"
check "a request that comes again is answered" renew_as_before
check "always with the same certificate" test "$(grep -c 'CN=again$' "$D/index.txt")" -eq 2
# shellcheck disable=SC2046
check "so the host itself still gets its next one" says "^renewed: " renew --force $(files "$WORK/again.pem" "$WORK/again.key")
cp "$D/host-again.pem" "$WORK/newest.pem"
check "an old request changes nothing at the signer" eval 'renew_as_before && cmp "$D/host-again.pem" "$WORK/newest.pem"'
pki revoke host busy
check "which are revoked with it" test "$(grep -c '^R.*CN=busy$' "$D/index.txt")" -eq 8
pki host late --days -1
# shellcheck disable=SC2046
check "one that has ended has to join" says "has ended: join again, with a token" \
    renew --force $(files "$D/host-late.pem" "$D/host-late.key")
"$P" pki init "$WORK/other" --fleet test >/dev/null
"$P" pki host "$WORK/other" web3 >/dev/null
check "a relay of another authority gets no request" says "the authority is not the one" \
    renew --force --relay "$RELAY" --join-port "$JOIN_PORT" --ca "$WORK/other/ca.pem" --cert "$WORK/other/host-web3.pem" --key "$WORK/other/host-web3.key"
pki revoke relay meet
cp "$WORK/web1/crl.pem" "$WORK/before.crl.pem" && cp "$D/crl.pem" "$WORK/web1/crl.pem"
check "a relay that is on the host's list gets no request" says "its certificate was revoked" mine --force
cp "$WORK/before.crl.pem" "$WORK/web1/crl.pem"
check "no relay: said, with the end of the present one" says "not renewed; the present certificate is good until" \
    mine --force --join-port 9
check "and exit code 1" exits_with 1 mine --force --join-port 9
check "the relays that answer are asked after those that do not" says "^renewed: " \
    mine --force --relay 127.0.0.9:1 --relay "$RELAY"
check "the list of the host stays, whatever the relay brings" eval \
    'cmp "$WORK/crl.pem" "$WORK/web1/crl.pem" && ! cmp -s "$D/crl.pem" "$WORK/crl.pem"'
check "port 0: not asked for" says "^not asked for: " mine --join-port 0
finish
