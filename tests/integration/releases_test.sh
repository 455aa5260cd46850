#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A fleet of two Debian releases, whose mbedtls are 2.28 and 3.6: relay, agents and operator of both in every
# combination, what TLS they agree on, and what they say when they refuse each other.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/releases.sh"
WHY=$(why_one_release)
if [ -n "$WHY" ]; then
    skip "a fleet of two releases" "$WHY"
    finish
fi
echo "# here: Debian $(release_of here), TLS $(newest_tls here); there: Debian $(release_of there), TLS $(newest_tls there)"

# A relay of that release, with a log of its own: relay RELEASE; ADDRESS_OF[RELEASE]
declare -A ADDRESS_OF
relay() {
    local log=$WORK/meet-$1.log
    start "meet-$1" "$(programs_of "$1")/perfleet-relay" --listen 127.0.0.1:0 --ca "$WORK/pki/ca.pem" --crl "$WORK/pki/crl.pem" \
        --cert "$WORK/pki/relay-meet.pem" --key "$WORK/pki/relay-meet.key"
    wait_for 20 pfl_relay_port_in "$log" && ADDRESS_OF[$1]=127.0.0.1:$(pfl_relay_port_in "$log")
}
with() { BIN=$1 "${@:2}"; } # with FOLDER CMD...
operator() { with "$(programs_of "$1")" fleet "${@:2}"; } # operator RELEASE COMMAND ARGS...: through RELAY
hosts_are() { [ "$(fleet hosts | grep -cE "connected from| up ")" -eq "$1" ]; }
tls_of() { # tls_of HOST: as the relay tells it
    fleet hosts --json | python3 -c '
import json, sys
print(next(h["relay"].get("tls") for h in json.load(sys.stdin) if h["name"] == sys.argv[1]))' "$1"
}
is() { [ "$1" = "$2" ] || { echo "\"$1\" is not \"$2\""; return 1; }; }
host_speaks() { is "$(tls_of "$1")" "$2"; }
log_has() { grep -qE -- "$2" "$WORK/$1.log"; }

make_pki
pki relay meet --ip 127.0.0.1
pki host gone && pki revoke host gone
pki operator late --days -1
pki host last --days -1
LATE=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-late.pem" --key "$WORK/pki/operator-late.key")
for release in here there; do
    relay $release || { check "the relay $release listens" false; finish; }
done
for host in here there; do
    BIN=$(programs_of $host) start_service $host
    start "example-$host" "$(programs_of $host)/perfleet-example" --rate 1000 --smb-kb 4096
    BIN=$BIN_HERE check "the example $host registers" wait_for_source "$EXAMPLE_SOURCE" 1
    RELAY=${ADDRESS_OF[here]} BIN=$(programs_of $host) start_agent $host --relay "${ADDRESS_OF[there]}" --retry-max-ms 500
done
config "$WORK/short.pbtx" 700

# --- what is spoken, and that it carries ------------------------------------------------------------
for relay in here there; do
    RELAY=${ADDRESS_OF[$relay]}
    check "relay $relay: both agents come" wait_for 20 hosts_are 2
    for host in here there; do
        check "agent $host and relay $relay speak TLS $(spoken $host $relay)" host_speaks $host "$(spoken $host $relay)"
        check "and the agent's log says so" log_has "agent-$host" "relay-connected.*address=\"?${RELAY}\"? .*tls=$(spoken $host $relay)"
    done
    for operator in here there; do
        trace=$WORK/$relay-$operator.pftrace
        check "operator $operator records both through relay $relay" \
            operator $operator record -c "$WORK/short.pbtx" -o "$trace" --select '*' --quorum 100%
        check "every packet once, in order" $CHECK "$trace" --machines 2 --disjoint --contiguous --lossless --min-packets 10
        check "over TLS $(spoken $operator $relay)" log_has "meet-$relay" "tunnel-started.*operator=me tls=$(spoken $operator $relay)"
    done
done

# --- before one service, in direct mode ------------------------------------------------------------------
for host in here there; do
    use_service $host
    BIN=$(programs_of $host) start_relay $host || { check "the relay before the service $host listens" false; finish; }
    for operator in here there; do
        check "operator $operator records host $host directly" "$(programs_of $operator)/perfleet" record -c "$WORK/short.pbtx" \
            -o "$WORK/raw.pftrace" --host "tls://$RELAY_ADDR" "${TLS_ME[@]}"
        check "over TLS $(spoken $operator $host)" log_has "relay-$host" "connection-started.*tls=$(spoken $operator $host)"
        check "operator $operator with an expired certificate reads why, host $host" \
            says 'our certificate has expired: renew it \(TLS alert 45\)' "$(programs_of $operator)/perfleet" record \
            -c "$WORK/short.pbtx" -o "$WORK/raw.pftrace" --host "tls://$RELAY_ADDR" "${LATE[@]}"
    done
done

# --- the words of a refusal ---------------------------------------------------------------------------
stranger() { # stranger RELEASE CERTIFICATE RELAY: an agent that is not let in; its log is bad-CERTIFICATE-RELEASE-RELAY
    local name=bad-$2-$1-$3
    start "$name" "$(programs_of "$1")/perfleet-agent" --relay "${ADDRESS_OF[$3]}" --ca "$WORK/pki/ca.pem" \
        --cert "$WORK/pki/host-$2.pem" --key "$WORK/pki/host-$2.key" --consumer-socket "$WORK/$1/consumer.sock"
    wait_for 20 log_has "$name" "relay-lost.*$4"
}
for relay in here there; do
    RELAY=${ADDRESS_OF[$relay]}
    for peer in here there; do
        check "agent $peer with a revoked certificate reads so, relay $relay" \
            stranger $peer gone $relay 'our certificate is revoked: get a new one \(TLS alert 44\)'
        check "agent $peer with an expired certificate reads so, relay $relay" \
            stranger $peer last $relay 'our certificate has expired: renew it \(TLS alert 45\)'
        check "operator $peer with an expired certificate reads so, relay $relay" \
            says 'our certificate has expired: renew it \(TLS alert 45\)' timeout 120 "$(programs_of $peer)/perfleet" hosts \
            --relay "$RELAY" "${LATE[@]}"
    done
    check "the log of relay $relay says who was revoked" \
        wait_for 20 log_has "meet-$relay" "peer-refused.*host/gone.*the peer's certificate is revoked"
    check "the log of relay $relay says whose certificate expired" \
        wait_for 20 log_has "meet-$relay" "peer-refused.*the peer's certificate expired on"
done

# --- programs of an earlier commit, with both ---------------------------------------------------------
if find_old; then
    for relay in here there; do
        RELAY=${ADDRESS_OF[$relay]}
        check "an earlier operator records both through relay $relay" with "$OLD_PROGRAMS" fleet record \
            -c "$WORK/short.pbtx" -o "$WORK/old.pftrace" --select '*' --quorum 100%
        check "every packet once, in order, there too" $CHECK "$WORK/old.pftrace" --machines 2 --contiguous --lossless
    done
    BIN=$(programs_of here) start_service earlier
    RELAY=${ADDRESS_OF[there]} BIN=$OLD_PROGRAMS start_agent earlier
    RELAY=${ADDRESS_OF[there]}
    check "an earlier agent comes to the relay there" wait_for 20 hosts_are 3
    check "and speaks TLS 1.2" host_speaks earlier 1.2
else
    skip "an earlier commit's programs with both releases" "upgrade_test.sh has not built them"
fi
finish
