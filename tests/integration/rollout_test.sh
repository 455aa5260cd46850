#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# Orders of the collector's index come to the hosts whose labels fit, and only to them: segments arrive, and what fits no
# more, is paused, removed or forbidden is gone from the host, whatever was restarted meanwhile.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
policy() { # policy RIGHT...: what ann may
    cat >"$WORK/policy.pbtx" <<END
rule { name: "collector" host: "*" operator: "me" role: "collector" }
rule { name: "ann" host: "*" operator: "ann" role: "ann" }
role { name: "collector" collect: true }
role { name: "ann" $* }
END
}
policy 'order: true'
MEETING=(--policy "$WORK/policy.pbtx")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -m 700 "$WORK/store"
INDEX=sqlite:$WORK/store/index.sqlite
start_service_of() {
    use_service "$1"
    start "$1" "$BIN/perfleetd" --output-dir "$WORK/spool-$1"
    SERVICE_PID=$STARTED
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
}
start_host() { # start_host NAME LABEL: its service, an example, its agent
    mkdir -p "$WORK/$1" "$WORK/spool-$1"
    start_service_of "$1" || return
    start "example-$1" "$BIN/perfleet-example" --rate 1000
    wait_for_source "$EXAMPLE_SOURCE" 1 && start_host_agent "$1" "$2"
}
start_host_agent() { # start_host_agent NAME LABEL
    start_agent "$1" --segments-dir "$WORK/spool-$1" --label "$2"
    AGENT_PID=$STARTED
}
start_collector() {
    start collector "$BIN/perfleet-collector" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}"
    COLLECTOR_PID=$STARTED
}
index() { "$PFL_BUILD/tests/order_index" "$INDEX" "$@"; }
order() { # order NAME SELECT WHEN
    cat >"$WORK/$1.pbtx" <<END
name: "$1"
select { $2 }
config {
  buffers { size_kb: 4096 fill_policy: RING_BUFFER }
  data_sources { config { name: "$EXAMPLE_SOURCE" } }
}
$3
END
    index put ann <"$WORK/$1.pbtx"
}
has_file() { # has_file HOST: of an order that the agent keeps
    [ -n "$(find "$WORK/spool-$1" -name '*.order')" ]
}
has_none() { ! has_file "$1"; }
count_stored() { find "$WORK/store/v1" -path "*/$1/*.pftrace" 2>/dev/null | wc -l; }
has_stored() { [ "$(count_stored "$1")" -ge "$2" ]; } # has_stored HOST N
has_runs() { # has_runs ORDER N: of it, at each host
    local host
    for host in one two; do
        [ "$(grep -rl --include='*.json' "\"order\": *\"$1\"" "$WORK/store/v1" | grep "/$host/" |
            while read -r f; do grep -o '"incarnation": *"[^"]*"' "$f"; done | sort -u | wc -l)" -eq "$2" ] || return
    done
}
more_come() { wait_for 120 has_stored "$1" $(($(count_stored "$1") + 2)); }
state_is() { index states ann "$1" | grep -qE "^$2"; } # state_is ORDER REGEX

check "an order is put before there is a collector" \
    order web 'label: "role=web"' 'continuous { segment_ms: 1000 }'
start_collector
start_host one role=web || { check "the first host is there" false; finish; }
ONE_PID=$AGENT_PID SERVICE_ONE=$SERVICE_PID
start_host two role=db || { check "and the second" false; finish; }
check "segments of the host that fits come into the store" more_come one
check "the index has what the host says" wait_for 30 state_is web 'one RUNNING 1'
check "the other host has no order" has_none two
check "and none of its segments comes" test "$(count_stored two)" -eq 0

# ---- a new generation, for all
check "the order is put again, for all hosts" order web '' 'continuous { segment_ms: 1000 }'
check "now the other has it, too" wait_for 60 state_is web 'two RUNNING 2'
check "and its segments come" more_come two
check "the first has the new one" wait_for 60 state_is web 'one RUNNING 2'

# ---- restarts
kill -9 "$COLLECTOR_PID"
wait_for 20 is_gone "$COLLECTOR_PID"
order web 'label: "role=web"' 'continuous { segment_ms: 1000 }' >"$WORK/put.out"
start_collector
check "what changed while there was no collector is done after its start" wait_for 60 has_none two
check "the host that fits goes on" wait_for 60 state_is web 'one RUNNING 3'

# ---- a label that no longer fits
kill -TERM "$ONE_PID"
wait_for 20 is_gone "$ONE_PID"
start_host_agent one role=db
ONE_PID=$AGENT_PID
check "a host whose label fits no more loses the order" wait_for 60 has_none one
check "and the index says nothing of it" wait_for 60 says '^$' index states ann web
kill -TERM "$ONE_PID"
wait_for 20 is_gone "$ONE_PID"
start_host_agent one role=web
check "with the label it has it again" wait_for 60 has_file one

# ---- paused, forbidden, removed
index pause ann web
check "a paused order is gone from the host" wait_for 60 has_none one
index resume ann web
check "and back when it goes on" wait_for 60 has_file one
policy ''
kill -HUP "$MEETING_PID"
check "an operator who may order no more loses his orders" wait_for 60 has_none one
check "the index says why" wait_for 30 state_is web 'one REFUSED 3 the policy does not let operator ann'
policy 'order: true'
kill -HUP "$MEETING_PID"
check "and has them back when he may again" wait_for 60 has_file one
index rm ann web
check "an order that was removed is gone from the host" wait_for 60 has_none one

# ---- what a host says of its orders comes while nobody changes them
check "an order that each host runs once is put" order once '' 'once { duration_ms: 4000 segment_bytes: 1048576 }'
check "the index says that it runs" wait_for 60 state_is once 'one RUNNING [0-9]+'
check "and that it is over" wait_for 60 state_is once 'one ENDED [0-9]+'
check "at the other host, too" wait_for 60 state_is once 'two ENDED [0-9]+'
check "each ran it once" wait_for 60 has_runs once 1
kill -9 "$COLLECTOR_PID"
wait_for 20 is_gone "$COLLECTOR_PID"
start_collector
check "an order is put while the collector starts" order again '' 'continuous { segment_ms: 1000 }'
check "it runs" wait_for 60 state_is again 'one RUNNING [0-9]+'
check "what was over stays so" state_is once 'one ENDED [0-9]+'
kill -9 "$SERVICE_ONE"
wait_for 20 is_gone "$SERVICE_ONE"
check "the index says that a host's service is gone" wait_for 60 state_is again 'one WAITING [0-9]+ .'
start_service_of one
check "and that it is back" wait_for 60 state_is again 'one RUNNING [0-9]+'
check "each host still ran the other order once" has_runs once 1
index rm ann again
index rm ann once

# ---- more orders than the agent may have sessions at a service
fill() {
    local n
    for n in 1 2 3 4 5 6; do order "many$n" '' 'continuous { segment_ms: 5000 segment_bytes: 1048576 }' || return; done
}
waiting() { # at the first host, for a session
    local n
    for n in 1 2 3 4 5 6; do
        ! state_is "many$n" 'one WAITING .*has 5 sessions already, the most a user may have' || echo "many$n"
    done
}
running() { for n in 1 2 3 4 5 6; do ! state_is "many$n" 'one RUNNING' || echo "many$n"; done; }
is_full() { [ "$(waiting | wc -l)" -eq 1 ] && [ "$(running | wc -l)" -eq 5 ]; }
check "six orders are put" fill
check "five run, and the index says why the sixth waits" wait_for 120 is_full
WAITS=$(waiting)
index rm ann "$(running | head -n 1)"
check "when one is removed, that one runs" wait_for 180 state_is "$WAITS" 'one RUNNING'
for n in 1 2 3 4 5 6; do index rm ann "many$n"; done 2>/dev/null

# ---- a schedule: one of the two in each round
check "an order with a schedule is put" \
    order often '' 'schedule { every_ms: 10000 duration_ms: 3000 hosts_count: 1 segment_bytes: 1048576 }'
ONE=$(count_stored one) TWO=$(count_stored two)
check "each of two hosts has its turn" wait_for 120 has_stored one $((ONE + 1))
check "and the other" wait_for 120 has_stored two $((TWO + 1))

kill -TERM "$COLLECTOR_PID"
wait "$COLLECTOR_PID"
ENDED=$?
check "SIGTERM ends the collector with 0" test "$ENDED" -eq 0
finish
