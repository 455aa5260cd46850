# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# Hosts whose segments a collector stores, read as the operator `me`; for tests that have lib.sh.
# A test may change EXAMPLE and SOURCE before it starts hosts.
EXAMPLE=(--rate 1000)
SOURCE=$EXAMPLE_SOURCE

tls_of() { TLS=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-$1.pem" --key "$WORK/pki/operator-$1.key"); }
as() { # as OPERATOR COMMAND ARGS...
    local TLS
    tls_of "$1"
    timeout 600 "$BIN/perfleet" "$2" --relay "$RELAY" "${TLS[@]}" "${@:3}"
}
# Its service with a spool, an example, its agent: start_host NAME ROLE; AGENT_PID.
start_host() {
    mkdir -p "$WORK/$1" "$WORK/spool-$1"
    use_service "$1"
    start "$1" "$BIN/perfleetd" --output-dir "$WORK/spool-$1"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || return
    start "example-$1" "$BIN/perfleet-example" "${EXAMPLE[@]}"
    wait_for_source "$SOURCE" 1 && start_agent "$1" --segments-dir "$WORK/spool-$1" --label "role=$2"
    AGENT_PID=$STARTED
}
# In the name of the operator `keeper`, whom the policy lets collect; COLLECTOR_PID.
start_collector() {
    local TLS
    tls_of keeper
    mkdir -p -m 700 "$WORK/store"
    start collector "$BIN/perfleet-collector" --relay "$RELAY" --store "$WORK/store" "${TLS[@]}"
    COLLECTOR_PID=$STARTED
}
is_serving() { grep -q 'serving: ' "$WORK/collector.log"; }
# An order that records all hosts, in NAME.pbtx: write_order NAME
write_order() {
    cat >"$WORK/$1.pbtx" <<END
name: "$1"
select { host: "*" }
config { buffers { size_kb: 4096 fill_policy: RING_BUFFER } data_sources { config { name: "$SOURCE" } } }
continuous { segment_ms: 1000 }
END
}
count_traces() { as me traces --json "$@" 2>/dev/null | grep -c '"id"'; } # count_traces [OPTION...]
has_traces() { [ "$(count_traces "${@:2}")" -ge "$1" ]; }                 # has_traces N [OPTION...]
is_drained() { [ -z "$(ls "$WORK/spool-web1")" ] && [ -z "$(ls "$WORK/spool-db1")" ]; }
# A relay, web1 and db1, and a collector that has all that an order recorded there, N traces of each
# host at least: store_traces ORDER N
store_traces() {
    make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
    pki operator keeper
    cat >"$WORK/policy.pbtx" <<'END'
rule { name: "me" operator: "me" host: "*" }
rule { name: "keeper" operator: "keeper" host: "*" role: "collectors" }
role { name: "collectors" collect: true }
END
    MEETING=(--policy "$WORK/policy.pbtx")
    start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
    start_host web1 web || { check "the first host is there" false; finish; }
    start_host db1 db || { check "and the second" false; finish; }
    start_collector
    check "a collector serves" wait_for 20 is_serving
    write_order "$1"
    check "it takes an order" as me order put "$WORK/$1.pbtx"
    check "traces of both hosts are stored" wait_for 120 eval "has_traces $2 --host web1 && has_traces $2 --host db1"
    as me order rm "$1" >/dev/null
    check "and the rest" wait_for 120 is_drained
}
