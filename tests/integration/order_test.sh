#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2153,SC2154
# The text of orders, as an operator checks it; mistakes in queries for traces; and what is said while
# no collector is connected.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet

order() { # order FIELDS...: a file with a preset
    printf 'name: "web"\nselect { label: "role=web" }\npreset: "sched"\n%s\n' "$*" >"$WORK/order.pbtx"
}
checked() { "$P" order check "$WORK/order.pbtx"; }

order 'continuous { segment_ms: 10000 }'
check "an order with a preset is valid" says '^web: continuous, valid$' checked
order 'schedule { every_ms: 60000 duration_ms: 5000 hosts_percent: 10 }'
check "one with a schedule is" says '^web: schedule, valid$' checked
order 'on_trigger { trigger: "slow" }'
check "one that waits for a trigger is" says '^web: on_trigger, valid$' checked
check "standard input is a file, too" says '^web: on_trigger, valid$' "$P" order check - <"$WORK/order.pbtx"
order 'once { duration_ms: 5000 } continuous { }'
check "one with two times is not" says 'order.pbtx: give exactly one of continuous' checked
check "that is exit 2" exits_with 2 checked
order 'once { duraton_ms: 5000 }'
check "a slip has its place and the name that was meant" says 'order.pbtx:? 4:8: .*did you mean "duration_ms"' checked
order 'once { duration_ms: 5000 }'
sed -i 's/"sched"/"shed"/' "$WORK/order.pbtx"
check "a preset that is none is refused" says 'there is no preset "shed"' checked
check "a file that is not there is" says 'No such file' "$P" order check "$WORK/none.pbtx"
check "a word that is no command is" says 'there are check, put, list' "$P" order sow x
check "without a relay nothing is put" says 'give --relay' "$P" order list

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
order 'once { duration_ms: 5000 }'
check "without a collector nothing is put, and the reason is clear" \
    says 'no collector is connected to it' fleet order put "$WORK/order.pbtx"
check "that is exit 1" exits_with 1 fleet order list
check "a collector that is not connected is named" \
    says 'collector away: ' fleet order list --collector away
check "what is no name of a collector is refused" says 'give its name' fleet order list --collector a/b

# ---- traces, without a collector
traces() { fleet traces "$@"; }
check "without a collector there are no traces" says 'no collector is connected to it' traces
check "a time that is none is refused" says '\-\-since "soon": give a time such as' traces --since soon
check "a window without a time is" says '\-\-window: give --at TIME, too' traces --window 5s
check "a range that ends before it begins is" says 'since is not before' traces --since 1h --until 2h
check "labels are patterns that fit" says 'give label=pattern' traces --select 'role!=web'
check "nothing is fetched without a choice" says 'traces get: which ones' traces get -o "$WORK/x"
check "nor without a file" says 'give -o FILE, or --url' traces get --host web1
check "nothing is removed without a choice" says 'traces rm: which ones' traces rm
check "a pin has a reason" says 'give --reason TEXT' traces pin ID
check "a word that is no command is refused" says 'there are list, get, open, pin' traces fetch
check "that is exit 2" exits_with 2 traces fetch
finish
