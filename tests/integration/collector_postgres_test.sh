#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2016,SC2034,SC2153,SC2154
# perfleet-collector with an index in PostgreSQL: the server dies and comes back; two collectors share the fleet, and one
# takes over what another was doing when it died. Each segment is stored once, and none is missing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/postgres.sh"
C=$BIN/perfleet-collector
HOSTS=4

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }

# ---- settings
checks() { "$C" --relay 127.0.0.1 "${TLS_ME[@]}" --store "$WORK" "$@" --check-config; }
check "a connection string can be checked" checks --index 'postgres:host=db dbname=perfleet user=perfleet' --instance a
check "as a URL, too" checks --index 'postgres:postgresql://perfleet@db:5432/perfleet?sslmode=verify-full'
check "a connection string that libpq does not understand is refused with the form that is wanted" says '--index: wants postgres: and a connection string' \
    checks --index 'postgres:hots=db'
no_password() { ! says secretword checks --index "$1" >/dev/null && says '--index: has a password.*passfile=FILE' checks --index "$1"; }
check "a password is refused and not repeated" no_password 'postgres:host=db password=secretword'
check "in a URL, too" no_password 'postgres:postgresql://perfleet:secretword@db/perfleet'
check "an instance is a name" says '--instance: wants a name' checks --instance a/b

if ! postgres_find; then
    skip "collectors share an index" "PostgreSQL is not installed"
    finish
fi
postgres_init "$WORK/postgres" && postgres_start "$WORK/postgres" || { check "PostgreSQL starts" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -p "$WORK/store"
start_host() { # start_host NAME: its service, an example, its agent
    mkdir -p "$WORK/$1" "$WORK/spool-$1"
    use_service "$1"
    start "$1" "$BIN/perfleetd" --output-dir "$WORK/spool-$1"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || return
    start "example-$1" "$BIN/perfleet-example" --rate 200
    wait_for_source "$EXAMPLE_SOURCE" 1 && start_agent "$1" --segments-dir "$WORK/spool-$1"
}
declare -A PID
start_collector() { # start_collector INSTANCE
    rm -f "$WORK/metrics-$1.sock"
    start "collector-$1" "$C" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}" --index "$POSTGRES" --instance "$1" \
        --metrics-socket "$WORK/metrics-$1.sock"
    PID[$1]=$STARTED
}
kill_collector() {
    kill -9 "${PID[$1]}"
    wait_for 60 is_gone "${PID[$1]}"
}
count_stored() { find "$WORK/store/v1" -path "*/$1/*.pftrace" 2>/dev/null | wc -l; }
has_stored() { [ "$(count_stored "$1")" -ge "$2" ]; } # has_stored HOST N
more_come() { # from each host, N more
    local host had=()
    for host in $(seq "$HOSTS"); do had[host]=$(count_stored "h$host"); done
    for host in $(seq "$HOSTS"); do wait_for 120 has_stored "h$host" $((had[host] + $1)) || return; done
}
index() { PGPASSFILE=$WORK/postgres-client/pass "$PFL_BUILD/tests/order_index" "$POSTGRES" "$@"; }

cat >"$WORK/order.pbtx" <<END
name: "web"
select { }
config {
  buffers { size_kb: 4096 fill_policy: RING_BUFFER }
  data_sources { config { name: "$EXAMPLE_SOURCE" } }
}
continuous { segment_ms: 1000 }
END
for host in $(seq "$HOSTS"); do
    start_host "h$host" || { check "host $host is there" false; finish; }
done
check "the index takes an order" index put me <"$WORK/order.pbtx"
start_collector a
check "segments come into the store, with the index in PostgreSQL" more_come 2
check "the collector runs in its sandbox" says 'seccomp|landlock' grep -i sandbox "$WORK/collector-a.log"

# ---- PostgreSQL dies
for signal in QUIT KILL; do
    kill -s "$signal" "$POSTGRES_PID"
    wait_for 60 is_gone "$POSTGRES_PID"
    [ "$signal" = KILL ] || check "an index that is away is said so" \
        wait_for 120 grep -q 'index-failed\|index-beat-failed' "$WORK/collector-a.log"
    # Of one that was killed the other processes end by themselves, and only then may the next one begin.
    for _ in 1 2 3 4 5; do postgres_start "$WORK/postgres" && break; done
    check "after SIG$signal of PostgreSQL more come" more_come 1
done
check "the collector is the same process" is_alive "${PID[a]}"

# ---- two collectors
start_collector b
figure() { # figure INSTANCE NAME
    curl -sf --unix-socket "$WORK/metrics-$1.sock" http://localhost/metrics | sed -n "s/^$2 //p"
}
takes_part() { # takes_part INSTANCE
    local stored
    stored=$(figure "$1" perfleet_collector_segments_stored_total) && [ "${stored:-0}" -ge 3 ]
}
check "a second one with the same certificate takes its part" wait_for 120 takes_part b
check "and the first one goes on" more_come 1
kill -STOP "${PID[a]}"
check "when the first one stands still the second one has all hosts" more_come 2
check "and says that it is alone" wait_for 60 grep -q 'collector-lost: alive=1' "$WORK/collector-b.log"
kill -CONT "${PID[a]}"
check "it goes on as well" more_come 1
for round in 1 2 3; do
    victim=a
    [ $((round % 2)) -eq 1 ] || victim=b
    kill_collector "$victim"
    begin=$SECONDS
    check "after kill -9 of collector $victim the other one takes over" more_come 1
    echo "# $((SECONDS - begin)) s until each host had its next segment stored"
    start_collector "$victim"
done
check "the last one that was killed takes part again" wait_for 120 takes_part "$victim"
start second "$C" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}" --index "$POSTGRES" --instance a
check "another process of the same instance takes the first one's place" wait_for 60 is_gone "${PID[a]}"
check "which it says" grep -q 'replaced: reason=.*--instance' "$WORK/collector-a.log"

# ---- nothing is missing, nothing is there twice
check "the order is removed" index rm me web
is_drained() {
    local host
    for host in $(seq "$HOSTS"); do [ -z "$(ls "$WORK/spool-h$host")" ] || return; done
}
check "the collectors take the rest" wait_for 240 is_drained
whole() {
    postgres_ask "select object_key from segment where state = 1 and object_key <> ''" |
        python3 -B "$ROOT/tests/support/stored_check.py" "$WORK/store" "" h1,h2,h3,h4
}
check "each has its SHA-256, none is missing or there twice, and the index has what is in the store" whole
check "no death of a collector or of PostgreSQL ended a run at a host" test "$(postgres_ask 'select count(*) from run')" = "$HOSTS"
tells_no_secret() { ! grep -a 'secret-of-the-index' "$WORK"/*.log; }
check "no log has the password" tells_no_secret
kill -TERM "${PID[b]}"
wait "${PID[b]}"
ENDED=$?
check "SIGTERM ends a collector with 0" test "$ENDED" -eq 0
no_lease_is_left() { [ "$(postgres_ask "select count(*) from lease l join collector c on c.name = l.collector and c.generation = l.generation where c.name = 'b' and c.beat_ms > 0")" = 0 ]; }
check "and its leases are given back" no_lease_is_left
finish
