#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Startup tracing of the stock SDK: it brings its own shared memory, writes before any session exists
# and hands that over to the session that adopts it. On perfleetd and, the same, on Perfetto's own
# service (PERFETTO_BIN_DIR, see stock_test.sh); at the end both must have delivered the same.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
CLAIM="startup tracing of the stock SDK works with perfleetd as with its own service"
if [ ! -x "$P/perfetto" ] || [ ! -x "$P/traced" ]; then
    skip "$CLAIM" "no PERFETTO_BIN_DIR"
    finish
fi
if ! says '--startup-ms' "$P/sdk_producer" --help >/dev/null; then
    skip "$CLAIM" "no sdk_producer with --startup-ms"
    finish
fi

has_said() { grep -qE -- "$2" "$WORK/$1.log"; }
said_or_died() { has_said "$@" || ! is_alive "$PRODUCER"; }
gets_to() { # gets_to LOG REGEX: the producer says this
    wait_for 20 said_or_died "$@"
    has_said "$@"
}
# produce NAME OPTIONS...: threads write their packets before a session, then wait for one. But for
# `full`, all that is ever written has room in the memory, 256 KiB, however slow the service is.
produce() {
    start "$S-$1" "$P/sdk_producer" --name "$1" --rate 1000 --count 100 --is-last "${@:2}"
    PRODUCER=$STARTED
    check "$S: $1: writes before a session" gets_to "$S-$1" '^startup written'
}
# record_until NAME TRACE REGEX [MORE-CONFIG]: a session that is ended when the producer has said this.
# The short stop timeout is for the SDK: some stops of adopted sources it never answers, whose ever the
# service is.
record_until() {
    local name=$1 client
    cat >"$D/$2.cfg" <<END
buffers { size_kb: 16384 }
data_source_stop_timeout_ms: 500
data_sources { config { name: "${SOURCE:-$name}" ${4-} } }
END
    start "$S-$2-client" "$P/perfetto" --txt -c "$D/$2.cfg" -o "$D/$2"
    client=$STARTED
    check "$S: $name: gets to \"${3#^}\"" gets_to "$S-$name" "$3"
    kill -INT "$client"
    wait "$client"
    check "$S: $name: the session ends well" test $? -eq 0
}
# delivered TRACE N:FIRST:LAST: of N writers these packets, each once, in order
delivered() {
    check "$S: $1: exactly $2" $CHECK "$D/$1" --contiguous --test-sequences "$2"
}
leave() {
    kill "$PRODUCER"
    wait "$PRODUCER" 2>/dev/null
}

before_the_service() {
    produce early --startup-ms 60000 --threads 3
    if [ "$S" = own ]; then start_service own; else start stock "$P/traced"; fi
    check "$S: the service starts after it" wait_for_source early 1
    record_until early early1 '^done run=0'
    check "$S: early: is adopted" has_said "$S-early" '^startup adopted'
    delivered early1 3:0:199
    record_until early early2 '^done run=1'
    delivered early2 3:0:99 # another session in the same memory
    leave
}

adopted() {
    produce many --startup-ms 60000 --threads 2 --startup-count 700 --once
    record_until many many '^done run=0'
    delivered many 2:0:799
    leave
    produce large --startup-ms 60000 --threads 2 --startup-count 4 --count 5 --size 12000 --once
    record_until large large '^done run=0'
    delivered large 2:0:8
    leave
    produce silent --startup-ms 60000 --threads 2 --delay-ms 60000
    record_until silent silent '^startup adopted' # its chunks are still open: they are scraped
    delivered silent 2:0:99
    leave
    produce full --startup-ms 60000 --startup-count 5000 --delay-ms 500 --once
    record_until full full '^done run=0'
    check "$S: full: keeps its order" $CHECK "$D/full" --ordered --test-sequences 1:0:5099
    check "$S: full: has a loss, where the memory was full" says '"test_gaps": \[\[[0-9]+, 5000\]\]' \
        $CHECK "$D/full" --json
    leave
}

not_adopted() {
    produce other --startup-ms 2000 --threads 2 --once
    record_until other other '^done run=0' 'legacy_config: "another"'
    check "$S: other: gave up" has_said "$S-other" '^startup aborted'
    delivered other 2:100:199
    leave
    produce alone --startup-ms 300 --threads 2 --once
    check "$S: alone: gives up" gets_to "$S-alone" '^startup aborted'
    record_until alone alone '^done run=0'
    delivered alone 2:100:199
    leave
}

instants() { # each event's number, with how many of them there are
    "$P/trace_processor_shell" -q /dev/stdin "$1" 2>/dev/null <<<"select int_value, count(*) from slice
        join args using (arg_set_id) where flat_key = 'debug.seq' group by 1 order by 1" | sed 1d | grep ,
}
track_events() {
    produce events --track-events --te-kind instant --startup-ms 60000 --threads 2 --once
    SOURCE=track_event record_until events events '^done run=0' 'track_event_config { enabled_categories: "load" }'
    instants "$D/events" >"$D/instants"
    check "$S: events: each of 200, of both threads" sh -c "seq 0 199 | sed 's/\$/,2/' | diff - '$D/instants'"
    leave
}

account() { # what was delivered, in words that do not depend on times
    local trace
    for trace in early1 early2 many large silent full other alone; do
        echo "$trace $($CHECK "$D/$trace" --json |
            python3 -c 'import json, sys
t = json.load(sys.stdin)
print(t["test_values"], t["test_ranges"], t["test_gaps"])')"
    done
}

startup() { # startup own|stock: all of it on that service, in a shell of its own
    JOBS=()
    S=$1 D=$WORK/$1
    mkdir -p "$D"
    use_service "$S"
    for form in before_the_service adopted not_adopted track_events; do $form; done
    account >"$D/account"
    kill "${JOBS[@]}" 2>/dev/null
    wait
}

(startup own) >"$WORK/own.tap" 2>&1 &
shells=$!
(startup stock) >"$WORK/stock.tap" 2>&1 &
wait $shells $!
for service in own stock; do
    tap_claims sed 's/ok [0-9]* - /ok - /' "$WORK/$service.tap"
done
check "both services delivered the same" diff "$WORK/own/account" "$WORK/stock/account"
check "perfleetd refused none of the memory" sh -c "! grep producer-memory-refused '$WORK/own.log'"
finish
