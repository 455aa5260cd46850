#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2015,SC2016
# GET /metrics of a relay and an agent before a service: over mutual TLS and over the socket, who may, what
# is said, and a Prometheus that reads it (fetched where none is installed).
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/packages.sh"

METRICS=(python3 -B "$ROOT/tests/support/metrics_check.py")
D=$WORK/pki
not() { ! "$@"; }
make_pki && pki relay meet --ip 127.0.0.1 && pki host one --ip 127.0.0.1
"$ROOT/deploy/pki/perfleet-pki" init "$WORK/other" --fleet test >"$WORK/other.log" 2>&1
"$ROOT/deploy/pki/perfleet-pki" operator "$WORK/other" me >>"$WORK/other.log" 2>&1

port_of() { sed -n 's/.*metrics-offered: .*port=\([0-9]*\).*/\1/p' "$WORK/$1.log" | tail -n1 | grep .; }
files() { echo "--ca $D/ca.pem --crl $D/crl.pem --cert $D/$1.pem --key $D/$1.key"; }
# scrape PORT OUT [CERT [FOLDER]]: prints the status
scrape() {
    local who=${3:-operator-me} pki=${4:-$D}
    curl -sS -m 60 -o "$2" -w '%{http_code}\n' --cacert "$D/ca.pem" --cert "$pki/$who.pem" --key "$pki/$who.key" \
        "https://127.0.0.1:$1/metrics"
}
local_scrape() { curl -sS -m 60 -o "$2" -w '%{http_code}\n' --unix-socket "$WORK/$1.metrics" "http://localhost${3:-/metrics}"; }
relay_says() { local_scrape relay "$WORK/now" >/dev/null && [ "$("${METRICS[@]}" value "$WORK/now" "$1")" = "$2" ]; }
agent_says() { local_scrape agent "$WORK/now" >/dev/null && [ "$("${METRICS[@]}" value "$WORK/now" "$1")" = "$2" ]; }
agent_is_above() { local_scrape agent "$WORK/now" >/dev/null && is_more "$("${METRICS[@]}" value "$WORK/now" "$1")" "$2" >/dev/null; }
DISCARDED='perfleet_losses_total{hop="buffer",cause="discarded"}'
value() { "${METRICS[@]}" value "$WORK/$1" "$2"; }
is_more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }' || { echo "$1 is not above $2"; return 1; }; }

start_service one
pki operator elsewhere
echo 'rule { name: "me" operator: "me" host: "*" }' >"$WORK/policy.pbtx"
# shellcheck disable=SC2046
start relay "$BIN/perfleet-relay" --listen 127.0.0.1:0 $(files relay-meet) \
    --metrics-listen 127.0.0.1:0 --metrics-socket "$WORK/relay.metrics" --policy "$WORK/policy.pbtx"
wait_for 20 pfl_relay_port_in "$WORK/relay.log" || { check "the relay starts" false; finish; }
RELAY=127.0.0.1:$(pfl_relay_port_in "$WORK/relay.log")
# shellcheck disable=SC2046
start agent "$BIN/perfleet-agent" --relay "$RELAY" $(files host-one) --consumer-socket "$WORK/one/consumer.sock" \
    --metrics-listen 127.0.0.1:0 --metrics-socket "$WORK/agent.metrics"
wait_for 20 port_of agent && wait_for 20 port_of relay
check "the relay says that the host is connected" wait_for 20 relay_says 'perfleet_relay_host_connected{host="one"}' 1
check "and the agent that the relay is" wait_for 20 agent_says perfleet_agent_relays_connected 1

# ---- who, and what they get
R=$(port_of relay) A=$(port_of agent)
check "an operator gets the relay's figures over TLS" says '^200$' scrape "$R" "$WORK/relay.txt"
check "and the agent's" says '^200$' scrape "$A" "$WORK/agent.txt"
check "the relay's socket needs no certificate" says '^200$' local_scrape relay "$WORK/relay.unix"
check "nor does the agent's" says '^200$' local_scrape agent "$WORK/agent.unix"
check "but only its owner and group may use it" eval '[ "$(stat -c %a "$WORK/relay.metrics")" = 660 ]'
check "an operator whom the policy shows no host gets figures" says '^200$' scrape "$R" "$WORK/elsewhere.txt" operator-elsewhere
check "without any host's name" eval '! grep -qE "host=|\"one\"" "$WORK/elsewhere.txt"'
check "who may use a host finds it there" grep -q 'perfleet_relay_host_connected{host="one"} 1' "$WORK/relay.txt"
check "and so does the socket's user" grep -q 'perfleet_relay_host_connected{host="one"} 1' "$WORK/relay.unix"
for text in elsewhere.txt relay.txt agent.txt relay.unix agent.unix; do
    check "$text is what a strict reader takes" "${METRICS[@]}" format "$WORK/$text"
    check "all of $text is in docs/metrics.md" "${METRICS[@]}" documented "$WORK/$text" "$ROOT/docs/metrics.md"
done
for listener in "relay $R" "agent $A"; do
    check "a host's certificate gets nothing of the ${listener% *}" not scrape "${listener#* }" "$WORK/no" host-one
    check "nor does a relay's" not scrape "${listener#* }" "$WORK/no" relay-meet
    check "nor an operator of another authority" not scrape "${listener#* }" "$WORK/no" operator-me "$WORK/other"
    check "nor anybody without a certificate" not curl -sSk -m 60 -o "$WORK/no" "https://127.0.0.1:${listener#* }/metrics"
    check "nor in the clear" not curl -sS -m 60 -o "$WORK/no" "http://127.0.0.1:${listener#* }/metrics"
done
check "nothing was given to them" eval '[ ! -s "$WORK/no" ]'
check "the log says who was refused" grep -q 'scraper-refused: uri="\?perfleet://test/host/one' "$WORK/relay.log"

# ---- requests
check "another path is 404" says '^404$' local_scrape relay "$WORK/no" /
check "another method is 405" says '^405$' curl -sS -m 60 -o "$WORK/no" -w '%{http_code}\n' -X DELETE \
    --unix-socket "$WORK/relay.metrics" http://localhost/metrics
check "a body is 400" says '^400$' curl -sS -m 60 -o "$WORK/no" -w '%{http_code}\n' -d x -X GET \
    --unix-socket "$WORK/relay.metrics" http://localhost/metrics
check "a head of 9000 bytes is 431" says '^431$' curl -sS -m 60 -o "$WORK/no" -w '%{http_code}\n' \
    -H "X: $(printf 'x%.0s' {1..9000})" --unix-socket "$WORK/relay.metrics" http://localhost/metrics
check "more than HTTP is 400" says '400 Bad Request' \
    bash -c "printf 'nonsense\r\n\r\n' | timeout 60 python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.stdin.buffer.read())
print(s.makefile().read())' $WORK/relay.metrics"

# ---- figures
config "$WORK/c" 500
start example "$BIN/perfleet-example"
wait_for_source "$EXAMPLE_SOURCE" 1
check "a recording runs through relay and agent" \
    fleet record -c "$WORK/c" -o "$WORK/t" --host one
check "its stream ended in the relay's figures" wait_for 10 relay_says perfleet_relay_streams 0
cp "$WORK/now" "$WORK/relay.after"
local_scrape agent "$WORK/agent.after" >/dev/null
check "streams were counted" is_more "$(value relay.after perfleet_relay_streams_total)" 0
check "and their bytes" is_more "$(value relay.after 'perfleet_relay_stream_bytes_total{direction="to_operator"}')" 1000
check "both ways" is_more "$(value relay.after 'perfleet_relay_stream_bytes_total{direction="to_host"}')" 10
check "the agent counted the same bytes" eval \
    '[ "$(value agent.after perfleet_agent_stream_sent_bytes_total)" = "$(value relay.after '\''perfleet_relay_stream_bytes_total{direction="to_operator"}'\'')" ]'
end=$(date -d "$(openssl x509 -in "$D/host-one.pem" -noout -enddate | cut -d= -f2)" +%s)
check "the agent knows when its certificate ends" agent_says perfleet_certificate_expiry_timestamp_seconds "$end"
check "and the relay the host's" relay_says 'perfleet_relay_host_certificate_expiry_timestamp_seconds{host="one"}' "$end"
OFFSET=$(value relay.after 'perfleet_relay_host_clock_offset_seconds{host="one"}')
check "a clock's offset is less than its error: it is the same clock" is_more \
    "$(value relay.after 'perfleet_relay_host_clock_error_seconds{host="one"}')" "$(awk -v o="$OFFSET" 'BEGIN { printf "%.17g", o < 0 ? -o : o }')"
check "the loop's longest turn has a metric" is_more "$(value relay.after perfleet_loop_longest_turn_seconds)" 0
check "the service can be reached" agent_says perfleet_agent_service_reachable 1

# ---- the service through the agent
check "the agent knows the service's version" eval 'grep -q "^perfleet_service_info{version=\"perfleetd" "$WORK/agent.after"'
check "its producers" agent_says perfleet_service_producers 1
check "and data sources" is_more "$(value now perfleet_service_data_sources)" 0
check "that a session was" is_more "$(value agent.after perfleet_service_sessions_total)" 0
check "that none is left" wait_for 20 agent_says perfleet_service_sessions 0
check "bytes that came in are counted" is_more "$(value agent.after perfleet_service_written_bytes_total)" 1000
check "of a session that is gone, too, and of them those that were read" \
    is_more "$(value agent.after perfleet_service_read_bytes_total)" 1000
check "and a flush" is_more "$(value agent.after perfleet_service_flushes_total)" 0
printf 'buffers { size_kb: 64 fill_policy: DISCARD }\nbuffers { size_kb: 64 }\ndata_sources { config { name: "%s" target_buffer: 0 } }\n' \
    "$EXAMPLE_SOURCE" >"$WORK/small"
start small "$BIN/perfleet" record -c "$WORK/small" -o "$WORK/small.pftrace" --host "one=unix:$WORK/one/consumer.sock"
check "a buffer that fills is seen while it does" wait_for 20 agent_is_above 'perfleet_service_buffer_used_bytes{policy="discard"}' 50000
check "as is its size" agent_says 'perfleet_service_buffer_bytes{policy="discard"}' 65536
check "and what it loses" wait_for 20 agent_is_above "$DISCARDED" 0
check "a session that records is counted" agent_says perfleet_service_sessions_started 1
LOST=$(value now "$DISCARDED")
kill -INT "$STARTED"
check "the session is gone" wait_for 20 agent_says perfleet_service_sessions 0
check "what it lost is not forgotten" not is_more "$LOST" "$(value now "$DISCARDED")"
start mute env PYTHONPATH="$ROOT/tests/support" python3 -B -c 'import sys, time
from service_peers import Consumer
consumer = Consumer(sys.argv[1])
for _ in range(5000): consumer.invoke("QueryServiceState", b"", None)
time.sleep(3600)' "$WORK/one/consumer.sock"
check "what waits for a consumer who asks and does not read is seen" \
    wait_for 20 agent_is_above perfleet_service_send_queue_longest_bytes 10000
check "and counted among all" is_more "$(value now perfleet_service_send_queue_bytes)" 10000
kill "$STARTED"
check "and gone when he is" wait_for 20 agent_says perfleet_service_send_queue_bytes 0
check "the loop's turns of the service have a metric" is_more "$(value now perfleet_service_loop_busy_seconds_total)" 0
check "queues and windows have metrics" eval 'grep -q "^perfleet_agent_send_queue_bytes{towards=\"service\"}" "$WORK/now" && grep -q ^perfleet_agent_stream_window_bytes "$WORK/now"'
for text in agent.after now; do
    check "$text is what a strict reader takes" "${METRICS[@]}" format "$WORK/$text"
    check "all of $text is in docs/metrics.md" "${METRICS[@]}" documented "$WORK/$text" "$ROOT/docs/metrics.md"
done
scrape_twenty() { for _ in {1..20}; do local_scrape agent "$WORK/now" || return 1; done; }
cp "$WORK/one.log" "$WORK/one.before"
check "twenty scrapes are answered" says '^200$' scrape_twenty
check "and nothing of it is in the service's log" cmp "$WORK/one.log" "$WORK/one.before"
kill "$SERVICE_PID"
check "and cannot when it is gone" wait_for 10 agent_says perfleet_agent_service_reachable 0
check "and says nothing of it then" not grep -q ^perfleet_service_ "$WORK/now"

# ---- Perfetto's own service
if [ -x "${PERFETTO_BIN_DIR:-/nonexistent}/traced" ]; then
    mkdir "$WORK/stock"
    use_service stock
    start stock "$PERFETTO_BIN_DIR/traced"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
    start producer "$BIN/perfleet-example"
    pki host stock --ip 127.0.0.1
    # shellcheck disable=SC2046
    start stock_agent "$BIN/perfleet-agent" --relay "$RELAY" $(files host-stock) \
        --consumer-socket "$WORK/stock/consumer.sock" --metrics-socket "$WORK/stock.metrics"
    stock_says() { local_scrape stock "$WORK/now" >/dev/null && [ "$(value now "$1")" = "$2" ]; }
    check "an agent before Perfetto's service knows its producers" wait_for 20 stock_says perfleet_service_producers 1
    check "and sessions" stock_says perfleet_service_sessions 0
    check "and version" grep -q '^perfleet_service_info{version="Perfetto' "$WORK/now"
    check "and says of losses what it knows itself" \
        eval 'grep -q "^perfleet_losses_total{hop=\"tunnel\"" "$WORK/now" && ! grep -q "^perfleet_losses_total{hop=\"buffer\"" "$WORK/now"'
    check "that text is strict, too" "${METRICS[@]}" format "$WORK/now"
else
    skip "an agent before Perfetto's service knows its producers" "PERFETTO_BIN_DIR does not name Perfetto's programs"
fi

# ---- a Prometheus
if PROMETHEUS=$(package_program prometheus /usr/bin/prometheus); then
    cat >"$WORK/prometheus.yml" <<END
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [ "$ROOT/deploy/prometheus/alerts.yaml" ]
scrape_configs:
  - job_name: perfleet
    scheme: https
    tls_config: { ca_file: $D/ca.pem, cert_file: $D/operator-me.pem, key_file: $D/operator-me.key }
    static_configs: [ { targets: [ "127.0.0.1:$R", "127.0.0.1:$A" ] } ]
END
    start prometheus "$PROMETHEUS" --config.file="$WORK/prometheus.yml" --storage.tsdb.path="$WORK/tsdb" \
        --web.listen-address=127.0.0.1:0
    prometheus_port() { ss -ltnpH 2>/dev/null | grep "pid=$STARTED," | grep -oE '127.0.0.1:[0-9]+' | head -n1 | grep .; }
    wait_for 20 prometheus_port
    knows() { [ "$(curl -sS -m 60 -G "http://$(prometheus_port)/api/v1/query" --data-urlencode "query=$1" | grep -o "\"$2\"\]" | wc -l)" -ge 1 ]; }
    check "a Prometheus scrapes both" wait_for 20 knows 'sum(up{job="perfleet"})' 2
    rules_are_well() {
        curl -sS -m 60 "http://$(prometheus_port)/api/v1/rules" >"$WORK/rules" &&
            [ "$(grep -o '"health":"ok"' "$WORK/rules" | wc -l)" = "$(grep -c -- '- alert:' "$ROOT/deploy/prometheus/alerts.yaml")" ]
    }
    check "it takes our rules, and each can be worked out on these figures" wait_for 20 rules_are_well
    check "and is about to call somebody for the service that is gone" wait_for 20 \
        knows 'count(ALERTS{alertname="PerfleetServiceDown"})' 1
    check "and has what they said" wait_for 20 knows 'perfleet_relay_host_connected{host="one"}' 1
else
    skip "a Prometheus scrapes both" "there is none"
fi

# ---- log levels at run time, in the sandbox
start probes "$BIN/perfleet-probes" --no-ftrace
PROBES_PID=$STARTED
log_has() { grep -q "$2" "$WORK/$1.log"; }
wait_for 20 log_has probes probes-started
louder() { # louder NAME PID
    kill -USR1 "$2" && wait_for 20 log_has "$1" 'info log-level: level=debug configured=info' &&
        kill -USR2 "$2" && wait_for 20 log_has "$1" 'info log-level: level=info configured=info'
}
start two "$BIN/perfleetd" --producer-socket "$WORK/two.producer" --consumer-socket "$WORK/two.consumer"
TWO_PID=$STARTED
wait_for 20 log_has two listening
# shellcheck disable=SC2046
start direct "$BIN/perfleet-relay" --listen 127.0.0.1:0 $(files host-one) --consumer-socket "$WORK/two.consumer" \
    --metrics-socket "$WORK/direct.metrics"
direct_says() { local_scrape direct "$WORK/now" >/dev/null && [ "$(value now "$1")" = "$2" ]; }
check "a relay before a service says its figures, too" wait_for 20 direct_says perfleet_relay_service_reachable 1
check "all of them" eval 'grep -q "^perfleet_service_sessions 0" "$WORK/now" && grep -q "^perfleet_losses_total{hop=\"buffer\"" "$WORK/now"'
check "as they are in docs/metrics.md" "${METRICS[@]}" documented "$WORK/now" "$ROOT/docs/metrics.md"
check "perfleetd's log is made to say more, and less again" louder two "$TWO_PID"
check "the relay's" louder relay "${JOBS[1]}"
check "the agent's" louder agent "${JOBS[2]}"
check "the probes'" louder probes "$PROBES_PID"
check "all go on" eval 'kill -0 "$TWO_PID" "${JOBS[1]}" "${JOBS[2]}" "$PROBES_PID"'

# ---- reload, stop
check "SIGHUP keeps both listeners open" eval 'kill -HUP "${JOBS[1]}" && sleep 0.1 && says "^200$" scrape "$R" "$WORK/no"'
kill "${JOBS[1]}"
wait "${JOBS[1]}" 2>/dev/null
check "a stopped relay leaves no log of a leak or a listener that failed" not grep -qE 'Assertion|listen-failed' "$WORK/relay.log"
finish
