#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2153,SC2154
# What an operator gets wrong: each mistake ends with its exit code and with a message, said once, that docs/mistakes.md
# has to the letter. PFL_WRITE=FILE writes the rows as they are now, for that page.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
PAGE=$ROOT/docs/mistakes.md
export HOME=$WORK/home XDG_RUNTIME_DIR=$WORK
unset PERFLEET_RELAY PERFLEET_CONFIG_DIR XDG_CONFIG_HOME PERFLEET_CA PERFLEET_CERT PERFLEET_KEY PERFLEET_CRL
mkdir "$HOME"
cd "$WORK" || exit 1
[ -z "${PFL_WRITE:-}" ] || : >"$PFL_WRITE"

# What differs from one run to the next.
steady() {
    sed -E -e "s#$WORK/##g; s#$BIN/##g" -e "s#${RELAY:-0:0}#relay:9910#g" \
        -e 's/20[0-9]{2}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2} UTC)?/DATE/g' \
        -e 's/[+-]?[0-9]+\.[0-9]+ (s|ms|MB)/N \1/g; s/[0-9]+ (packets|bytes|chunks|gaps)/N \1/g; s/losses [1-9][0-9]*/losses N/g; s/of session [0-9]+/of session N/' -e 's/\|/\\|/g'
}
# What is there as well when all goes well, and what a loaded machine adds.
USUAL='^(starting|recording for|stopping|reading|start skew|trace |session .* runs|host [^ ]*: (started|read |N packets)|  note:|  lost: N (gaps|flushes))'
# row CODE COMMAND...: of the page.
row() {
    local code=$1 rc=0 command
    shift
    command=$(printf ' %s' "$@" | sed -E -e 's/ --(ca|crl) [^ ]*//g; s# --(cert|key) pki/operator-me[^ ]*##g; s/ -q\b//; s#=unix:(one|two)/consumer.sock##g' \
        -e 's#^ [^ ]*/perfleet ##; s#^ ##' | steady)
    timeout 120 "$@" >"$WORK/said" 2>&1 </dev/null || rc=$?
    printf '| `%s` | %s | %s |\n' "$command" "$(steady <"$WORK/said" | grep -vE "$USUAL" | sed 's/$/<br>/' | tr -d '\n' | sed 's/<br>$//')" "$rc"
    [ "$rc" -eq "$code" ]
}
# mistake CODE COMMAND...: what is said is on the page, once, with that exit code.
mistake() {
    local is_right=0 command=("$@")
    row "$@" >"$WORK/row" || is_right=1
    [ -z "${PFL_WRITE:-}" ] || cat "$WORK/row" >>"$PFL_WRITE"
    if [ $is_right -ne 0 ]; then echo "not exit code $1"; elif ! grep -qFxf "$WORK/row" "$PAGE"; then
        echo "docs/mistakes.md has no such row"; is_right=1
    elif [ -n "$(sort "$WORK/said" | uniq -d)" ]; then echo "said twice"; is_right=1; fi
    [ $is_right -eq 0 ] || cat "$WORK/row"
    return $is_right
}
# The program with a certificate: as NAME COMMAND ARGS...
tls() { TLS=(--ca pki/ca.pem --crl pki/crl.pem --cert "$1.pem" --key "$1.key"); }
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
for who in "operator late --days -1" "operator gone" "host one"; do
    # shellcheck disable=SC2086
    pki $who
done
pki operator soon --not-before "now + 10 days" --not-after "now + 40 days"
pki revoke operator gone
"$ROOT/deploy/pki/perfleet-pki" init other --fleet other >>pki.log 2>&1
"$ROOT/deploy/pki/perfleet-pki" operator other me >>pki.log 2>&1
MEETING=(--crl pki/crl.pem)
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_service two
start_service one
PERFETTO_PRODUCER_SOCK_NAME=$WORK/one/producer.sock start example "$BIN/perfleet-example" --track-events
start_agent one --label role=web
wait_for 20 says '^one  *up ' fleet hosts
wait_for_source track_event 1

# ---- the relay
tls pki/operator-me
check "a relay that is not there" mistake 1 "$P" hosts --relay 127.0.0.1:1 "${TLS[@]}"
check "a relay's name that nobody knows" mistake 1 "$P" record --preset default -o x --select role=web --relay nowhere.invalid:9910 "${TLS[@]}"
check "a host that the relay does not know" mistake 2 "$P" hosts --relay "$RELAY" --host two "${TLS[@]}"
check "labels that no host has" mistake 2 "$P" record --preset default -o x --relay "$RELAY" --select role=db "${TLS[@]}"
check "a selection that is none" mistake 2 "$P" hosts --relay "$RELAY" --select =web "${TLS[@]}"
check "a page of a host that the relay does not know" mistake 2 "$P" ui --relay "$RELAY" --host two --port 0 "${TLS[@]}"
check "a page on a port that is none" mistake 2 "$P" ui --relay "$RELAY" --port 70000 "${TLS[@]}"
check "a page with a collector and no relay" mistake 2 "$P" ui --host one --collector keeper
check "forgetting a host that is connected" mistake 1 "$P" forget one --relay "$RELAY" "${TLS[@]}"
check "forgetting one that is not known" mistake 2 "$P" forget two --relay "$RELAY" "${TLS[@]}"
check "forgetting by nothing" mistake 2 "$P" forget --relay "$RELAY" "${TLS[@]}"
check "forgetting by a selection alone" mistake 2 "$P" forget --select role=web --relay "$RELAY" "${TLS[@]}"
check "forgetting by an age that is none" mistake 2 "$P" forget --older-than soon --relay "$RELAY" "${TLS[@]}"
check "forgetting without a relay" mistake 2 "$P" forget one

# ---- certificates
for who in late soon gone; do
    tls "pki/operator-$who"
    check "an operator's certificate: $who" mistake 1 "$P" hosts --relay "$RELAY" "${TLS[@]}"
done
tls other/operator-me
check "an operator of another fleet" mistake 1 "$P" hosts --relay "$RELAY" "${TLS[@]}"
tls pki/host-one
check "a host's certificate" mistake 2 "$P" hosts --relay "$RELAY" "${TLS[@]}"
tls pki/relay-meet
check "a relay's certificate" mistake 2 "$P" hosts --relay "$RELAY" "${TLS[@]}"
tls pki/operator-you
check "a certificate that is not there" mistake 2 "$P" hosts --relay "$RELAY" "${TLS[@]}"
TLS=(--ca pki/ca.pem --cert pki/operator-me.pem --key pki/operator-gone.key)
check "the key of another certificate" mistake 2 "$P" hosts --relay "$RELAY" "${TLS[@]}"

# ---- configs
config() { # config NAME SOURCE FILL-POLICY KB [MORE]
    printf 'buffers { size_kb: %s fill_policy: %s }\ndata_sources { config { name: "%s" } }\n%s\n' "$4" "$3" "$2" "${5:-}" \
        >"$1.pbtx"
}
LOCAL=(--host one=unix:one/consumer.sock -q)
config slip track_events DISCARD 4096
config later com.example.later DISCARD 4096
config whole track_event DISCARD 4096
config ring track_event RING_BUFFER 32
config again track_event RING_BUFFER 256 "incremental_state_config { clear_period_ms: 100 }"
sed 's/name:/nmae:/' slip.pbtx >words.pbtx
sed 1d slip.pbtx >bufferless.pbtx
echo not empty >kept.pftrace
check "a data source that is misspelt" mistake 6 "$P" record -c slip.pbtx --duration 1s -o kept.pftrace "${LOCAL[@]}"
check "and the file is as it was" grep -qx 'not empty' kept.pftrace
check "a data source that nobody offers" mistake 6 "$P" record -c later.pbtx --duration 1s -o x "${LOCAL[@]}"
check "a session may wait for a data source that is misspelt" mistake 0 "$P" start early -c slip.pbtx "${LOCAL[@]}"
check "but not silently, when it is read" mistake 6 "$P" read early -o x "${LOCAL[@]}"
check "one host of two without" mistake 6 "$P" record -c whole.pbtx --duration 1s -o x "${LOCAL[@]}" --host two=unix:two/consumer.sock
check "without that host all is well" exits_with 0 "$P" record -c whole.pbtx --duration 1s -o x "${LOCAL[@]}"
check "a ring of track events that are never said again" mistake 3 "$P" record -c ring.pbtx --duration 1s -o x --host one=unix:one/consumer.sock
check "with a session, too, whose ring may turn" exits_with 0 "$P" start turns -c ring.pbtx "${LOCAL[@]}"
has_turned() { says 'as a full ring does' "$P" snapshot turns -o x "${LOCAL[@]}"; }
check "and does turn" wait_for 20 has_turned
check "its snapshot says what is lost" mistake 3 "$P" snapshot turns -o x "${LOCAL[@]}"
"$P" kill turns "${LOCAL[@]:0:2}" >/dev/null
check "if they are said again it may turn" exits_with 0 "$P" start turns -c again.pbtx "${LOCAL[@]}"
turned_whole() { "$P" snapshot turns -o x "${LOCAL[@]}" >turned && grep -q 'as a full ring does' turned && grep -q 'losses 0' turned; }
check "and nothing is lost but its beginning" wait_for 20 turned_whole
"$P" kill turns "${LOCAL[@]:0:2}" >/dev/null
check "a config that is not there" mistake 2 "$P" record -c nowhere.pbtx -o x "${LOCAL[@]}"
check "a config with a wrong word" mistake 2 "$P" record -c words.pbtx -o x "${LOCAL[@]}"
check "a config without buffers" mistake 2 "$P" record -c bufferless.pbtx -o x "${LOCAL[@]}"
check "a preset that is not there" mistake 2 "$P" record --preset sytsem -o x "${LOCAL[@]}"
check "a trace file in a folder that is not there" mistake 5 "$P" record --preset default -o nowhere/x --duration 1s "${LOCAL[@]}"
check "a time that is none" mistake 2 "$P" record --preset default -o x --duration 10x "${LOCAL[@]}"
check "a session's name that is none" mistake 2 "$P" start "my session" --preset default "${LOCAL[@]}"
check "opening nothing" mistake 2 "$P" open
check "a live view of a file" mistake 2 "$P" open --live one --host one
check "a live view too often" mistake 2 "$P" open --live --every 1s --host one
check "an option of live views alone" mistake 2 "$P" open kept.pftrace --session flight
check "opening a file that is not there" mistake 1 "$P" open nowhere.pftrace
check "opening a folder" mistake 1 "$P" open one
check "a UI at no address" mistake 2 "$P" open kept.pftrace --ui-url ui.example.com
check "ui.perfetto.dev from another port" mistake 2 "$P" open kept.pftrace --ui-port 9002
check "two UIs" mistake 2 "$P" open kept.pftrace --ui-dir one --ui-url https://ui.example.com
check "a folder without a UI" mistake 1 "$P" open kept.pftrace --ui-dir one
: >ui.zip
check "a UI that is packed" mistake 1 "$P" open kept.pftrace --ui-dir ui.zip
check "opening standard output" mistake 2 "$P" record --preset default -o - --open --duration 1s "${LOCAL[@]}"
check "opening many files" mistake 2 "$P" record --preset default -o x --open --rotate-time 1s "${LOCAL[@]}"
check "how to open, without opening" mistake 2 "$P" record --preset default -o x --no-browser "${LOCAL[@]}"
check "opening a list" mistake 2 "$P" traces list --open
mkdir slow
start slow python3 -B "$ROOT/tests/support/endless_host.py" slow/consumer.sock one/consumer.sock -1
check "a host that sends slowly listens" wait_for 20 grep -q listening slow.log
check "a host that sends too slowly" mistake 4 "$P" record -c whole.pbtx --duration 1s --timeout 2s -o x --host slow=unix:slow/consumer.sock -q
check "a session that is not there" mistake 1 "$P" stop nobody "${LOCAL[@]:0:2}"

# ---- sessions, triggers
tls pki/operator-me
check "an order for a session that is not there" mistake 6 "$P" arm nobody boom --relay "$RELAY" --host one "${TLS[@]}"
check "it is kept, in case the session comes" says 'session "nobody": armed' "$P" alarms --relay "$RELAY" "${TLS[@]}"
check "a session without a trigger runs" exits_with 0 "$P" start plain -c whole.pbtx "${LOCAL[@]}"
check "is not waited for" mistake 1 "$P" trigger plain -o x "${LOCAL[@]}"
check "an order for it is taken" exits_with 0 "$P" arm plain boom --relay "$RELAY" --host one "${TLS[@]}"
check "and taken back" exits_with 0 "$P" disarm plain --relay "$RELAY" --host one "${TLS[@]}"
check "once it was stopped" exits_with 0 "$P" stop plain "${LOCAL[@]:0:2}"
check "an order for it is useless" mistake 6 "$P" arm plain boom --relay "$RELAY" --host one "${TLS[@]}"
check "a session of that name again" mistake 1 "$P" start plain -c whole.pbtx "${LOCAL[@]}"
"$P" kill plain "${LOCAL[@]:0:2}" >/dev/null
check "a snapshot of what is not there" mistake 1 "$P" snapshot nobody -o x "${LOCAL[@]}"
check "an order without a relay" mistake 2 "$P" arm nobody boom "${LOCAL[@]:0:2}"

# ---- the authority
leaves_nothing() { "$P" pki init fresh "$@" >/dev/null 2>&1; [ ! -e fresh ]; }
check "an authority without a fleet" mistake 2 "$P" pki init fresh
check "an authority for no number of days" mistake 2 "$P" pki init fresh --fleet lab --days many
check "an authority until no time" mistake 2 "$P" pki init fresh --fleet lab --not-after someday
check "a fleet that is no name" mistake 2 "$P" pki init fresh --fleet "my lab"
for wrong in "" "--fleet lab --days many" "--fleet lab --not-after someday" "--fleet ../lab"; do
    # shellcheck disable=SC2086
    check "a wrong init leaves nothing behind: $wrong" leaves_nothing $wrong
done
check "a certificate where no authority is" mistake 1 "$P" pki operator home me
check "a signer where no authority is" mistake 1 "$P" pki serve home --socket sign.sock
check "a signer without a folder" mistake 2 "$P" pki serve
check "a signer without a socket" mistake 1 "$P" pki serve pki
check "a command of the authority that is none" mistake 2 "$P" pki revok pki host one
check "the authority's help names the signer" says '^  serve DIR' "$P" pki --help
check "which has a help of its own" says '^Usage: perfleet pki serve DIR' "$P" pki serve --help
check "and says all is well with it" exits_with 0 "$P" pki serve --help

# ---- shared memory that is too small
start small env PERFETTO_PRODUCER_SOCK_NAME="$WORK/two/producer.sock" "$BIN/perfleet-example" --rate 0 --threads 4 \
    --smb-kb 16 --name hasty
use_service two
wait_for_source com.example.load 1
config load com.example.load DISCARD 65536
check "a producer whose shared memory is full is named, with the setting that helps" \
    says '^    process [0-9]+ "hasty" at [0-9]+ places; more shared memory: producers \{ producer_name: "hasty" shm_size_kb: ' \
    "$P" record -c load.pbtx --duration 1s -o x --host two=unix:two/consumer.sock -q
use_service one

# ---- programs that wait
lonely() { # lonely LOG COMMAND...
    start "$1" env PERFETTO_PRODUCER_SOCK_NAME="$WORK/late.sock" "${@:2}"
}
lonely lonely-example "$BIN/perfleet-example"
check "a program that waits for a service says where" \
    wait_for 20 grep -q 'waiting for a tracing service (perfleetd) at .*/late.sock' lonely-example.log
lonely lonely-probes "$BIN/perfleet-probes" --no-ftrace
check "so do the probes" wait_for 20 grep -q 'waiting-for-service: .*remedy="start perfleetd' lonely-probes.log
lonely lonely-debug env PERFLEET_LOG=debug "$BIN/perfleet-example"
check "with PERFLEET_LOG=debug the library says why" \
    wait_for 20 grep -q '^perfleet\[[0-9]*\]: no tracing service at .*/late.sock: No such file' lonely-debug.log
start late-service env PERFETTO_PRODUCER_SOCK_NAME="$WORK/late.sock" PERFETTO_CONSUMER_SOCK_NAME="$WORK/late-consumer.sock" \
    "$BIN/perfleetd"
check "and when it is connected" wait_for 30 grep -q ': connected as perfleet-example' lonely-debug.log
check "the probes, too" wait_for 30 grep -q 'service-found' lonely-probes.log
check "without it the library says nothing" eval '! grep -q "^perfleet\[" lonely-example.log'
check "a service whose sockets are its owner's says so" grep -q 'socket-for-owner-only: socket=".*/late-consumer.sock" for=consumers' \
    late-service.log

# ---- questions to traces
unset TRACE_PROCESSOR
check "a question that is not asked" mistake 2 "$P" ask x.pftrace
check "a ready question that is none" mistake 2 "$P" ask --ready lossses x.pftrace
check "no Trace Processor" mistake 1 "$P" ask --query SELECT x.pftrace
check "a Trace Processor that is not there" mistake 1 "$P" ask --query SELECT --trace-processor nowhere x.pftrace
check "a question without traces" mistake 2 "$P" ask --query SELECT --trace-processor cat
check "an answer in two forms" mistake 2 "$P" ask --query SELECT --trace-processor cat --json -o x.sqlite x.pftrace
check "no place for a trace" mistake 2 "$P" ask --query SELECT --trace-processor cat --jobs 0 x.pftrace

# ---- sockets
check "a socket that is not there" mistake 1 "$P" hosts --host unix:nowhere.sock
check "a producers' socket" mistake 1 "$P" hosts --host unix:one/producer.sock
finish
