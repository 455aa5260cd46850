#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# Orders on a trigger: rings at three hosts. A trigger at one of them becomes a segment at each, with the same id;
# how often is bounded, whoever raises it.
. "$(dirname "$0")/lib.sh"

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
cat >"$WORK/policy.pbtx" <<END
rule { name: "others" host: "three" operator: "guest" role: "reader" }
rule { name: "all" host: "*" operator: "me" role: "keeper" }
rule { name: "guests" host: "*" operator: "guest" role: "keeper" }
role { name: "keeper" collect: true order: true data_source: "*" }
role { name: "reader" collect: true }
END
MEETING=(--policy "$WORK/policy.pbtx" --audit-log "$WORK/audit.log")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
HOSTS="one two three"
mkdir -p "$WORK/pulled"
start_host() { # NAME
    mkdir -p "$WORK/$1" "$WORK/spool-$1"
    start_service "$1" || return
    start "example-$1" "$BIN/perfleet-example" --rate 1000
    wait_for_source "$EXAMPLE_SOURCE" 1 || return
    start_agent "$1" --segments-dir "$WORK/spool-$1"
}
for host in $HOSTS; do
    start_host "$host" || { check "host $host begins" false; finish; }
    [ "$host" != one ] || AGENT_PID=$STARTED
done
as_collector() { # ORDERER HOST WORD...
    timeout 100 python3 -B "$ROOT/tests/support/spool_peer.py" "$PFL_BUILD/tests/tunnel_client" "$RELAY" test "$WORK/pki/ca.pem" \
        "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key" spool "$2" ${1:+"$1"} -- "${@:3}" 2>>"$WORK/spool.log"
}
spool() { as_collector me "$@"; }
"$PFL_BUILD/tests/config_encode" >"$WORK/ring.bin" <<END
buffers { size_kb: 4096 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
at_all() { # COMMAND WORD...: with each host's name behind the command
    local host
    for host in $HOSTS; do "$1" "$host" "${@:2}" || return; done
}
put_ring() { spool "$1" put-ring "${@:2}"; }
order_is() { spool "$1" orders | grep -q "^me $2 $3.*$4\$"; } # HOST NAME STATE [FIGURES]
raise_at() { "$BIN/perfleet-trigger" --socket "$WORK/$1/producer.sock" "$2"; }
has_copies() { [ "$(spool "$1" list | grep -c "bytes=.* trigger=$2 raised_at=$3 ")" -eq "$4" ]; } # HOST TRIGGER WHERE COUNT

for host in $HOSTS; do
    check "an agent that is connected takes an order on a trigger ($host)" \
        wait_for 30 put_ring "$host" web "$WORK/ring.bin" boom 3600000 0
done
check "the rings run, and their triggers are watched" wait_for 60 at_all order_is web running
check "the trigger is raised at one host" raise_at one boom
check "each host has a segment that tells who raised it" wait_for 60 at_all has_copies boom one 1
ids() { for host in $HOSTS; do spool "$host" list | sed -n 's/.* trigger=boom .* id=//p'; done | sort -u; }
check "the event has one id at all hosts" test "$(ids | grep -c '^[0-9A-Z]\{26\}$')" -eq 1
check "another trigger is none of the order's" raise_at two bang
check "raised again at another host, before min_interval_ms is over" raise_at two boom
check "it is counted there" wait_for 30 order_is two web running 'copies=1 skipped=1'
check "and copied nowhere" at_all has_copies boom one 1
check "the audit log has the event's id, at the host that raised it and at the others" \
    wait_for 30 grep -q "\"order=web trigger=boom raised_at=one id=$(ids)\"" "$WORK/audit.log"
pull() { spool "$1" pull "$WORK/pulled"; }
check "they are read, verified and released" at_all pull
opens_alone() {
    local file
    [ "$(find "$WORK/pulled" -name '*.pftrace' | wc -l)" -eq 3 ] || return
    for file in "$WORK"/pulled/*.pftrace; do
        $CHECK "$file" --min-packets 1 --compressed zstd || return
    done
}
check "each opens alone, and is compressed" opens_alone
is_empty() { [ -z "$(find "$WORK/spool-$1" -name '*.run' -o -name '*.segment' -o -name '*.pftrace*')" ]; }
check "nothing is left in the folders" wait_for 60 at_all is_empty

# Another orderer, who may not order at three: his trigger has no effect there.
check "an orderer has his own order of the same name" as_collector guest one put-ring web "$WORK/ring.bin" gong 1000 500
check "at the next host too" as_collector guest two put-ring web "$WORK/ring.bin" gong 1000 500
may_order_at_three() { as_collector guest three put-ring web "$WORK/ring.bin" gong 1000 500; }
check "but not where he may not order" exits_with 1 may_order_at_three
guests_run() { as_collector guest "$1" orders | grep -q '^guest web running'; }
check "his rings run" wait_for 60 eval 'guests_run one && guests_run two'
check "his trigger is raised" raise_at two gong
check "after_ms later it is copied there" wait_for 60 has_copies two gong two 1
check "and at the other host of the order" wait_for 60 has_copies one gong two 1
check "not at the third" has_copies three gong two 0

# Without end: a copy a second at most, whatever a local user raises.
SINCE=$SECONDS
check "a local user raises it 100 times" eval 'for _ in $(seq 100); do raise_at two gong || exit; done'
raised_again() { raise_at two gong && few_copies "$1"; } # all of them could be within a second of the first copy
few_copies() { # of guest's order at HOST; the first one is from before
    local count
    count=$(spool "$1" list | grep -c 'trigger=gong')
    [ "$count" -ge 2 ] && [ "$count" -le $((SECONDS - SINCE + 3)) ]
}
check "there are few more copies there" wait_for 60 raised_again two
check "and at the other host" wait_for 60 raised_again one
skipped() { as_collector guest two orders | grep -q '^guest web running.*skipped=[1-9]'; }
check "the others are counted" skipped

# The agent's death: the order is there again, with a new ring; what was raised before is not copied again.
kill -9 "$AGENT_PID"
wait_for 20 is_gone "$AGENT_PID"
start_agent one --segments-dir "$WORK/spool-one"
check "after kill -9 of the agent the ring runs again" wait_for 60 order_is one web running
check "what was copied before is still there" few_copies one
check "without a second copy of the same event" has_copies one boom one 0

# More than fits: a gap with the trigger's name.
check "an order whose quota is smaller than its ring" put_ring one small "$WORK/ring.bin" tiny 1000 0 131072
check "runs" wait_for 60 order_is one small running
is_full() { raise_at one tiny && spool one list | grep -q "gap-1 quota trigger=tiny raised_at=one"; }
check "its copy is a gap that says so" wait_for 60 is_full
for host in $HOSTS; do check "the order is removed ($host)" spool "$host" remove web; done
finish
