#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2153,SC2154
# Roles on real processes: what an operator may do at which host, how a refusal is reported, what
# he tries all the same, and what happens to what runs when the policy changes.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
CLIENT=$PFL_BUILD/tests/tunnel_client
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator guest
TLS_GUEST=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-guest.pem" --key "$WORK/pki/operator-guest.key")
guest() { timeout 300 "$P" "$1" --relay "$RELAY" "${TLS_GUEST[@]}" "${@:2}"; }

policy() { # policy ROLE-OF-GUESTS [MORE-RULES]
    cat <<END
rule { name: "me" operator: "me" host: "*" }
${2:-}
rule { name: "guests" operator: "guest" host: "*" label: "role=web" role: "guests" }
role { name: "guests" data_source: "$EXAMPLE_SOURCE" session: "g-*" $1 }
END
}
WIDE="max_duration_ms: 5000 max_buffer_kb: 8192"

# ---- the file
policy "$WIDE" >"$WORK/policy.pbtx"
check "a policy can be checked" says '2 rules, 1 roles' "$BIN/perfleet-relay" --check-policy "$WORK/policy.pbtx"
check "the example is one" "$BIN/perfleet-relay" --check-policy "$ROOT/deploy/conf/policy.pbtx"
policy "max_durations_ms: 5" >"$WORK/bad.pbtx"
check "a mistake is reported with file and line" says 'bad.pbtx:4:[0-9]+: .*max_duration_ms' \
    "$BIN/perfleet-relay" --check-policy "$WORK/bad.pbtx"
check "and exits with 1" exits_with 1 "$BIN/perfleet-relay" --check-policy "$WORK/bad.pbtx"

# ---- hosts
start_service one || { check "perfleetd opens its sockets" false; finish; }
start example-one "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
MEETING=(--policy "$WORK/policy.pbtx" --audit-log "$WORK/audit.jsonl")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_agent one --label role=web
AGENT_ONE=$STARTED
mkdir -p "$WORK/two"
ln -s "$WORK/one/consumer.sock" "$WORK/two/consumer.sock"
start_agent two --label role=db
has_hosts() { # has_hosts WHO N
    [ "$(timeout 60 "$CLIENT" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-$1.pem" \
        "$WORK/pki/operator-$1.key" call GET /v1/hosts 2>/dev/null | grep -o '"is_connected":true' | wc -l)" -eq "$2" ]
}
check "one operator sees both hosts" wait_for 20 has_hosts me 2
check "the other those with the rule's label" wait_for 20 has_hosts guest 1

# ---- what is allowed, and what is not
config "$WORK/short.pbtx" 1000 4096
config "$WORK/long.pbtx" 6000 4096
config "$WORK/large.pbtx" 1000 16384
sed -i '/track_event/d' "$WORK"/*.pbtx
cp "$WORK/short.pbtx" "$WORK/other.pbtx"
echo 'data_sources { config { name: "linux.ftrace" } }' >>"$WORK/other.pbtx"
record_guest() { guest record -c "$WORK/$1.pbtx" -o "$WORK/$1.pftrace" --host one; }
check "a recording within the role works" record_guest short
check "and is whole" $CHECK "$WORK/short.pftrace" --contiguous --lossless --min-packets 10
check "another data source is refused by name" \
    says "role guests does not allow data source .*linux.ftrace.* \(allowed: $EXAMPLE_SOURCE\)" record_guest other
check "a longer one with what is allowed" says 'duration_ms of 6000; ask for 1 to 5000' record_guest long
check "a larger one, too" says 'size_kb \(together\) of 16384; ask for 1 to 8192' record_guest large
check "who has no role is not kept" fleet record -c "$WORK/large.pbtx" -o "$WORK/me.pftrace" --host one
check "a host without the label is refused" says 'the relay knows no such host' \
    guest record -c "$WORK/short.pbtx" -o "$WORK/x.pftrace" --host two
check "the agent's log names who asked for what" \
    grep -q 'request-refused: operator=guest .*method=EnableTracing' "$WORK/agent-one.log"
if [ -x "${PERFETTO_BIN_DIR:-}/perfetto" ]; then
    start tunnel "$P" tunnel one --relay "$RELAY" "${TLS_GUEST[@]}" --socket "$WORK/far.sock"
    wait_for 20 test -S "$WORK/far.sock"
    stock() { PERFETTO_CONSUMER_SOCK_NAME=$WORK/far.sock timeout 30 "$PERFETTO_BIN_DIR/perfetto" --txt \
        -c "$WORK/$1.pbtx" -o "$WORK/stock.pftrace"; }
    check "the stock perfetto records within the role" stock short
    check "and prints why not, beyond it" says "role guests does not allow data source" stock other
else
    skip "the stock perfetto prints refusals" "PERFETTO_BIN_DIR is not set"
fi

# ---- evasion
tap_claims timeout 600 env PYTHONPATH="$ROOT/tests/support" python3 -B "$ROOT/tests/support/policy_evasion.py" \
    "$CLIENT" "$RELAY" test "$WORK/pki/ca.pem" "$WORK/pki/operator-guest.pem" "$WORK/pki/operator-guest.key" one
sessions_are() { [ "$("$P" query --host "unix:$WORK/one/consumer.sock" --json | grep -o '"state"' | wc -l)" -eq "$1" ]; }
check "after all that no session is left" wait_for 20 sessions_are 0

# ---- another policy for what runs
set_policy() {
    policy "$@" >"$WORK/policy.pbtx"
    : >"$WORK/meeting.log"
    kill -HUP "$MEETING_PID"
    wait_for 20 grep -q reloaded "$WORK/meeting.log"
}
is_recording() { wait_for 20 sessions_are 1; }
config "$WORK/three.pbtx" 3000 4096
sed -i '/track_event/d' "$WORK/three.pbtx"
goes_on() {
    record_guest three >"$WORK/three.log" 2>&1 &
    local pid=$!
    is_recording && set_policy "max_duration_ms: 4000 max_buffer_kb: 4096"
    wait "$pid"
}
check "what a narrower role still allows goes on" goes_on
check "and is whole" $CHECK "$WORK/three.pftrace" --contiguous --lossless --min-packets 10
config "$WORK/minutes.pbtx" 600000 4096
sed -i '/track_event/d' "$WORK/minutes.pbtx"
MINUTES="max_duration_ms: 600000 max_buffer_kb: 8192"
ends() {
    set_policy "$MINUTES"
    record_guest minutes >"$WORK/ends.log" 2>&1 &
    local pid=$!
    is_recording && set_policy "max_duration_ms: 2000 max_buffer_kb: 8192"
    ! wait "$pid"
}
check "what it does not allow any more ends" ends
check "with its session" wait_for 20 sessions_are 0
check "and the audit log says so" grep -q '"action":"forbid".*"status":403' "$WORK/audit.jsonl"

# ---- a relay that dies under a role
set_policy "$MINUTES"
start dies "$P" record -c "$WORK/minutes.pbtx" -o "$WORK/minutes.pftrace" --host one --relay "$RELAY" "${TLS_GUEST[@]}"
pid=$STARTED
is_recording
wait_for 20 grep -q 'recording for' "$WORK/dies.log"
kill -9 "$MEETING_PID"
wait "$MEETING_PID" 2>/dev/null
start_meeting "$RELAY"
check "a recording is resumed under its role at a relay that was killed and came back" \
    wait_for 20 grep -q '"who":"guest".*"action":"resume"' "$WORK/audit.jsonl"
kill -INT "$pid"
rc=0
wait "$pid" || rc=$?
check "and that costs nothing, role and all" test "$rc" -eq 0
check "the recording is whole" $CHECK "$WORK/minutes.pftrace" --contiguous --lossless --min-packets 10
set_policy "$WIDE"

# ---- new streams, and resumes of streams that there never were
AS_GUEST=("$WORK/pki/ca.pem" "$WORK/pki/operator-guest.pem" "$WORK/pki/operator-guest.key")
client() { timeout 60 "$CLIENT" "$RELAY" test "${AS_GUEST[@]}" "$@" </dev/null; } # client MODE ARGS...: the guest's
# until_told REGEX FILE OUT MODE ARGS...: a client, who would try again for ever, until FILE has one more line like that.
until_told() {
    local count pid
    : >"$3"
    count=$(grep -cE "$1" "$2")
    "$CLIENT" "$RELAY" test "${AS_GUEST[@]}" "${@:4}" >"$3" 2>&1 </dev/null &
    pid=$!
    wait_for 60 has_more_or_over "$1" "$2" "$count" $pid
    kill $pid 2>/dev/null
    wait $pid 2>/dev/null
}
has_more_or_over() { [ "$(grep -cE "$1" "$2")" -gt "$3" ] || ! is_alive "$4"; }
until_heard() { until_told "$1" "$2" "${@:2}"; } # until_heard REGEX OUT MODE ARGS...: until it says that
# soon COMMAND: what it does belongs into one minute; on a machine where that takes longer than 20 s it is done again.
# One account for operator and role: after a policy without a rate, and a stream, it starts from a full minute.
soon() {
    local begin
    for _ in 1 2 3 4 5; do
        set_policy "$WIDE"
        until_heard '^ready' "$WORK/unrated.out" cat one
        begin=$SECONDS
        "$@"
        [ $((SECONDS - begin)) -ge 20 ] || return
    done
}
not_there() { grep -c '"action":"refuse".*"status":410' "$WORK/audit.jsonl"; }
one_and_another() {
    set_policy "$WIDE max_new_streams_per_min: 1"
    record_guest short >"$WORK/rate.1" 2>&1
    RC=$?
    guest record -c "$WORK/short.pbtx" -o "$WORK/x.pftrace" --host one --timeout 3 >"$WORK/rate.2" 2>&1
}
soon one_and_another
check "the first new stream of a minute is given" test $RC -eq 0
check "the second is refused, with the reason" says 'gives guest no more streams' cat "$WORK/rate.2"
strays() {
    local n
    set_policy "$WIDE max_new_streams_per_min: 2"
    STRAYS=$(not_there)
    for n in 1 2; do until_heard 'time-to-live' "$WORK/stray.$n" stray one; done
    until_heard 'no more streams' "$WORK/stray.pull" pull one
    until_told '"who":"guest".*"action":"refuse".*"status":429' "$WORK/audit.jsonl" "$WORK/stray.3" stray one
    STRAYS=$(($(not_there) - STRAYS))
}
soon strays
check "without a rate a stream is opened" says "^ready" cat "$WORK/unrated.out"
for n in 1 2; do
    check "resume $n of a stream that never was is refused by the host" says 'broken: not found.*time-to-live' cat "$WORK/stray.$n"
done
check "both counted as new streams of that minute" says 'gives guest no more streams' cat "$WORK/stray.pull"
check "and no third one comes as far as the host" test "$STRAYS" -eq 2
check "the audit log says why" grep -q '"who":"guest".*"action":"refuse".*"status":429' "$WORK/audit.jsonl"

# ---- a relay that has just started does not forbid what a label may allow
set_policy "$WIDE"
kill "$AGENT_ONE"
wait "$AGENT_ONE" 2>/dev/null
kill -9 "$MEETING_PID"
wait "$MEETING_PID" 2>/dev/null
start_meeting "$RELAY"
check "while a host has not said its labels it is not there yet: 503" says '^503' client call GET /v1/hosts/one/clock
check "in these words" says 'its agent has not said its labels yet' client call GET /v1/hosts/one/clock
check "and so is one that there may never be" says '^503' client call GET /v1/hosts/nobody/clock
start_agent one --label role=web --spool-mib 4
check "when it has, the rule's role holds" wait_for 20 says '^200' client call GET /v1/hosts/one/clock

# ---- a rate that holds the host back, and moves with the role
RATED="max_buffer_kb: 65536 max_bytes_per_s"
set_policy "$RATED: 16384" # 12 MiB take 12 minutes
start load "$BIN/perfleet-example" --rate 0 --size 900 --smb-kb 4096 --policy stall --count 20000
LOAD_PID=$STARTED
check "a second source registers" wait_for_source "$EXAMPLE_SOURCE" 2
mkfifo "$WORK/rated.fifo"
# shellcheck disable=SC2094
python3 -B "$ROOT/tests/support/rated_operator.py" 12 -- "$CLIENT" "$RELAY" test "$WORK/pki/ca.pem" \
    "$WORK/pki/operator-guest.pem" "$WORK/pki/operator-guest.key" cat one 60000 \
    <"$WORK/rated.fifo" >"$WORK/rated.log" 2>&1 &
pid=$!
exec 8>"$WORK/rated.fifo"
check "what is read at a rate is kept by the agent, which then holds the service back" \
    wait_for 60 grep -q spool-full "$WORK/agent-one.log"
clones() { grep -c "method=CloneSession" "$WORK/agent-one.log"; }
before=$(clones)
echo ask >&8
exec 8>&-
check "the operator asks for more, and for what his role does not allow" wait_for 20 grep -q asked "$WORK/rated.log"
sleep 1
check "no answer to that is made while there is no room for it" eval '[ "$(clones)" -eq "$before" ]'
set_policy "$RATED: 1000000000"
rc=0
wait "$pid" || rc=$?
check "with a role of another rate the stream goes on at that" test "$rc" -eq 0
rated() { cat "$WORK/rated.log"; grep -qE "^bytes=[1-9][0-9]{7} .*refused=.*role guests.*statistics=yes" "$WORK/rated.log"; }
check "all of it comes, and then the answers" rated
check "now the agent has judged them" eval '[ "$(clones)" -eq $((before + 1)) ]'
set_policy "$WIDE"
kill "$LOAD_PID"
wait "$LOAD_PID" 2>/dev/null
start large "$BIN/perfleet-example" --rate 1000 --size 900 --smb-kb 4096 # for the rate in direct mode

# ---- direct mode
pki host raw --ip 127.0.0.1
cat >"$WORK/raw.pbtx" <<END
rule { name: "guests" operator: "guest" host: "raw" role: "guests" }
role { name: "guests" data_source: "$EXAMPLE_SOURCE" $WIDE }
END
start relay-direct "$BIN/perfleet-relay" --listen 127.0.0.1:0 --consumer-socket "$WORK/one/consumer.sock" \
    --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/host-raw.pem" --key "$WORK/pki/host-raw.key" --policy "$WORK/raw.pbtx"
RAW_PID=$STARTED
wait_for 20 pfl_relay_port_in "$WORK/relay-direct.log"
RAW=127.0.0.1:$(pfl_relay_port_in "$WORK/relay-direct.log")
record_raw() { timeout 300 "$P" record -c "$WORK/$1.pbtx" -o "$WORK/raw.pftrace" --host "tls://$RAW" "${@:2}"; }
check "in direct mode what the role allows works" record_raw short "${TLS_GUEST[@]}"
check "what it does not is refused in words" says 'role guests does not allow data source' record_raw other "${TLS_GUEST[@]}"
check "and who has no rule is not let in" exits_with 1 record_raw short "${TLS_ME[@]}"
# ---- bytes a second: where they are not compressed
rate=$(($(stat -c %s "$WORK/raw.pftrace") / 4))
sed -i "s/role { name: \"guests\"/& max_bytes_per_s: $rate/" "$WORK/raw.pbtx"
: >"$WORK/relay-direct.log"
kill -HUP "$RAW_PID"
wait_for 20 grep -q reloaded "$WORK/relay-direct.log"
from=${EPOCHREALTIME/./}
check "at a rate everything comes" record_raw short "${TLS_GUEST[@]}"
took_ms=$(((${EPOCHREALTIME/./} - from) / 1000))
check "and nothing is lost" $CHECK "$WORK/raw.pftrace" --contiguous --lossless --min-packets 10
# However much was written: after a second of recording, and without what may come at once and the piece (one
# read of a socket) that empties the bucket. The file is a little larger than what passed the relay.
size=$(stat -c %s "$WORK/raw.pftrace")
at_once=$(((rate / 2 > 32768 ? rate / 2 : 32768) + 131072))
check "in no less than the time that it takes" \
    test "$took_ms" -ge $((1000 + (size * 9 / 10 - at_once) * 1000 / rate))
echo "# $size bytes at $rate a second after a second of recording: $took_ms ms"
finish
