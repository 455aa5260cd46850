#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# The disk of a host's spool is full: service and agent stay, what is missing is a gap, and recording goes on when
# there is room. A small tmpfs is the disk.
. "$(dirname "$0")/lib.sh"

mkdir -p "$WORK/spool.mnt" "$WORK/one" "$WORK/pulled"
mount -t tmpfs -o size=24m,mode=755 none "$WORK/spool.mnt" 2>/dev/null || { skip "a full disk" "needs the right to mount"; finish; }
make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
use_service one
start one "$BIN/perfleetd" --output-dir "$WORK/spool.mnt"
SERVICE_PID=$STARTED
wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 1000
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
start_agent one --segments-dir "$WORK/spool.mnt"
AGENT_PID=$STARTED
spool() {
    timeout 100 python3 -B "$ROOT/tests/support/spool_peer.py" "$PFL_BUILD/tests/tunnel_client" "$RELAY" test "$WORK/pki/ca.pem" \
        "$WORK/pki/operator-me.pem" "$WORK/pki/operator-me.key" spool one me -- "$@" 2>>"$WORK/spool.log"
}
"$PFL_BUILD/tests/config_encode" >"$WORK/order.bin" <<END
buffers { size_kb: 1024 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
order_is() { spool orders | grep -q "^me $1 $2.*$3"; } # NAME STATE WORDS
has_segments() { [ "$(spool list | grep -c bytes=)" -ge "$1" ]; }
has_trigger() { spool list | grep -q "$1.* trigger=$2 "; } # WHAT TRIGGER
raise() { "$BIN/perfleet-trigger" --socket "$WORK/one/producer.sock" "$1"; }
check "an agent that is connected takes an order" wait_for 30 spool put web "$WORK/order.bin" 1000
check "and one on a trigger" spool put-ring ring "$WORK/order.bin" boom 1000 0
check "both run" wait_for 60 eval 'order_is web running "" && order_is ring running ""'
check "there are segments" wait_for 60 has_segments 2
fill() { dd if=/dev/zero of="$WORK/spool.mnt/filler" bs=64k 2>/dev/null; [ -s "$WORK/spool.mnt/filler" ]; }
check "the disk is full" fill
check "the order waits, and says why" wait_for 60 order_is web waiting 'disk of the segments is full'
check "the ring runs on" order_is ring running ''
check "a trigger is raised" raise boom
check "its copy has no room, and the agent says so" \
    wait_for 60 grep -q 'order-copy-failed: .*trigger=boom .*disk of the segments is full' "$WORK/agent-one.log"
check "the service answers" "$BIN/perfleet" query --host "unix:$PERFETTO_CONSUMER_SOCK_NAME" --json
check "neither has ended" eval 'is_alive $SERVICE_PID && is_alive $AGENT_PID'
rm "$WORK/spool.mnt/filler"
check "with room the order runs again" wait_for 90 order_is web running ''
check "the copy is a gap that tells its trigger" wait_for 90 has_trigger 'gap-1 disk_full' boom
BEFORE=$(spool list | grep -c bytes=)
check "and has new segments" wait_for 90 has_segments $((BEFORE + 2))
copies() { raise boom && has_trigger bytes= boom; }
check "a trigger is copied again" wait_for 60 copies
check "the orders are removed" eval 'spool remove web && spool remove ring'
is_drained() { spool pull "$WORK/pulled" >>"$WORK/given.txt" && [ -z "$(ls "$WORK/spool.mnt")" ]; }
check "all is taken, and nothing is left on the disk" wait_for 120 is_drained
# The disk may end one that is being written within a packet: that one is LOST.
opens_alone() {
    local id number what
    while read -r id number what; do
        case $what in gap-* | *\ lost*) continue ;; esac
        $CHECK "$WORK/pulled/$id.$(printf %06d "$number").pftrace" --min-packets 1 || return
    done <"$WORK/given.txt"
}
check "each segment opens alone, but those that the disk cut short" opens_alone
has_no_hole() { # every number of each run is a segment or in a gap
    awk '{ last = $3 ~ /^gap-/ ? substr($3, 5) : $2; for (n = $2; n <= last; n++) seen[$1, n] = 1
           if (last > top[$1]) top[$1] = last }
         END { for (id in top) for (n = 1; n <= top[id]; n++) if (!((id, n) in seen)) { print id, n; bad = 1 }; exit bad }' \
        "$WORK/given.txt"
}
check "no number is missing" has_no_hole
finish
