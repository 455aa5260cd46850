# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2046
# What the integration tests share (sourced). They run real programs of one build, PFL_BUILD (set by
# ctest; build/release otherwise), in a directory of their own, and print TAP:
#   ok N - claim      not ok N - claim      ok N - claim # SKIP reason
# A script ends with `finish`, whose exit code says whether any claim failed.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PFL_BUILD=${PFL_BUILD:-$ROOT/build/release}
BIN=$PFL_BUILD/bin
export PERFLEET_CONFIG='' # no settings of this machine or user
CHECK="python3 -B $ROOT/tests/support/trace_check.py"
HOSTILE="python3 -B $ROOT/tests/support/hostile.py"
. "$ROOT/deploy/demo/hosts.sh"

# Socket names end at 107 bytes, Chromium's among them.
TMPDIR=${TMPDIR:-/tmp}
[ ${#TMPDIR} -lt 24 ] || TMPDIR=/tmp
WORK=$(mktemp -d "$TMPDIR/pfl.XXXXXX")
chmod 755 "$WORK"
CLAIMS=0
FAILED=0
JOBS=()

cleanup() {
    pfl_hosts_fini
    end_jobs
    umount "$WORK"/*.mnt 2>/dev/null
    if [ "$FAILED" -ne 0 ]; then
        for log in "$WORK"/*.log "$WORK"/*/*.log; do
            [ -s "$log" ] && { echo "# --- $log"; tail -n 25 "$log" | sed 's/^/# /'; }
        done
    fi
    rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Notes a process, which then ends with the script: note_job PID
note_job() { echo "$1 $(begin_of "$1")" >>"$WORK/.started"; }
# The processes below one, but those that were noted, and what these started: list_strays PID
list_strays() {
    local pid
    for pid in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        grep -q "^$pid " "$WORK/.started" && continue
        echo "$pid"
        list_strays "$pid"
    done
}
# Ends everything that was started, and waits for it: also what a claim started, in a shell of its own, and what the
# script started without `start`, with what that started. What ignores the signal is killed.
end_jobs() {
    local job since
    touch "$WORK/.started"
    for job in $(list_strays $$); do note_job "$job"; done
    while read -r job since; do
        ! is_that_job "$job" "$since" || end_job "$job" 2>/dev/null
    done <"$WORK/.started"
    for job in "${JOBS[@]}"; do
        grep -q "^$job " "$WORK/.started" || kill "$job" 2>/dev/null
        wait "$job" 2>/dev/null
    done
    wait_for 60 have_ended || while read -r job since; do
        job_has_ended "$job" "$since" || kill -9 $(list_strays "$job") "$job" 2>/dev/null
    done <"$WORK/.started"
    JOBS=()
    : >"$WORK/.started"
}
# One that stands still goes on first. Not the others: a leak check, at work already, would lose its own stop by that.
end_job() {
    ! grep -q '^State:.T (stopped)' "/proc/$1/status" || kill -CONT "$1"
    kill "$1"
}
# Is it there, and not another one that has got its number since?
is_that_job() {
    [ -n "$2" ] && [ "$(begin_of "$1")" = "$2" ]
}
job_has_ended() { ! is_that_job "$@"; }
have_ended() { # all that was started
    local job since
    while read -r job since; do job_has_ended "$job" "$since" || return; done <"$WORK/.started"
}
# Has it given back its ports? One that was killed may take its time.
is_gone() { [ -z "$(begin_of "$1")" ]; }
# When a process began; nothing when it has ended.
begin_of() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    read -r -a stat <<<"${stat##*) }"
    [ "${stat[0]}" = Z ] || echo "${stat[19]}"
}

# check CLAIM CMD...: the claim holds when the command succeeds; its output is shown when not.
check() {
    local claim=$1 out
    shift
    CLAIMS=$((CLAIMS + 1))
    if out=$("$@" 2>&1); then
        echo "ok $CLAIMS - $claim"
        return 0
    fi
    echo "not ok $CLAIMS - $claim"
    printf '%s\n' "$out" | tail -n 30 | sed 's/^/#   /'
    FAILED=$((FAILED + 1))
    return 1
}

# The claims of a program that prints lines of TAP without numbers become this script's. One that dies has
# failed, too: its other claims were not checked.
tap_claims() {
    local line
    while IFS= read -r line; do
        case $line in
        "ok - "*) CLAIMS=$((CLAIMS + 1)); echo "ok $CLAIMS - ${line#ok - }" ;;
        "not ok - "*)
            CLAIMS=$((CLAIMS + 1)) FAILED=$((FAILED + 1))
            echo "not ok $CLAIMS - ${line#not ok - }" ;;
        "# exit code 0") ;;
        "# exit code "*)
            CLAIMS=$((CLAIMS + 1)) FAILED=$((FAILED + 1))
            echo "not ok $CLAIMS - $* ends as it should  ${line}"
            ;;
        *) echo "# ${line#"# "}" ;;
        esac
    done < <("$@" 2>&1; echo "# exit code $?")
}

skip() {
    CLAIMS=$((CLAIMS + 1))
    echo "ok $CLAIMS - $1 # SKIP $2"
}

no_sanitizer_spoke() {
    ! grep -hE 'Sanitizer|runtime error:|Assertion' "$WORK"/*.log
}

# Everything is ended before the sanitizers are asked: leaks are reported at a program's end.
finish() {
    if [ ${#JOBS[@]} -ne 0 ] || [ -e "$WORK/.started" ]; then
        end_jobs
        check "no sanitizer and no assertion complained" no_sanitizer_spoke
    fi
    echo "1..$CLAIMS"
    [ "$FAILED" -eq 0 ] || exit 1
    exit 0
}

# The command exits with this code: exits_with CODE CMD...
exits_with() {
    local expected=$1 got=0
    shift
    "$@" || got=$?
    [ "$got" -eq "$expected" ] || { echo "exit code $got, expected $expected"; return 1; }
}

# Its output (both streams) has a line that matches: says REGEX CMD...
says() {
    local regex=$1 out
    shift
    out=$("$@" 2>&1)
    grep -qE -- "$regex" <<<"$out" || { printf 'no %s in:\n%s\n' "$regex" "$out"; return 1; }
}

# start NAME CMD...: in the background, its output in WORK/NAME.log; the job is STARTED.
start() {
    local name=$1
    shift
    "$@" >>"$WORK/$name.log" 2>&1 </dev/null &
    STARTED=$!
    JOBS+=("$STARTED")
    note_job "$STARTED"
}

is_alive() {
    kill -0 "$1" 2>/dev/null
}

# A service of its own in WORK/NAME, reached by use_service NAME; its process is SERVICE_PID.
start_service() {
    mkdir -p "$WORK/$1"
    use_service "$1"
    start "$1" "$BIN/perfleetd"
    SERVICE_PID=$STARTED
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
}

# Perfetto's own programs are there, in PERFETTO_BIN_DIR.
has_perfetto() {
    local name
    for name in traced traced_probes perfetto trace_processor_shell; do
        [ -x "${PERFETTO_BIN_DIR:-/nonexistent}/$name" ] || return 1
    done
}

use_service() {
    export PERFETTO_PRODUCER_SOCK_NAME=$WORK/$1/producer.sock
    export PERFETTO_CONSUMER_SOCK_NAME=$WORK/$1/consumer.sock
}

# Waits for what must come: wait_for SECONDS CMD...; a slow machine has a minute at least.
wait_for() {
    pfl_wait_for $(($1 < 60 ? 60 : $1)) "${@:2}"
}

# Waits until COUNT data sources called NAME are registered at the service in use.
wait_for_source() {
    wait_for 30 source_count_is "$@"
}

source_count_is() {
    [ "$("$BIN/perfleet" query --host "unix:$PERFETTO_CONSUMER_SOCK_NAME" --json |
        grep -o "\"$1\"" | wc -l)" -ge "$2" ]
}

# The data sources of perfleet-example, and a config that records it: config FILE MS [KB]
EXAMPLE_SOURCE=com.example.load
config() {
    cat >"$1" <<END
buffers { size_kb: ${3:-8192} fill_policy: RING_BUFFER }
duration_ms: $2
data_sources { config { name: "$EXAMPLE_SOURCE" } }
data_sources { config { name: "track_event" } }
END
}

# Records the service NAME over its socket: record NAME CONFIG OUT [MORE...]
record() {
    local name=$1 config=$2 out=$3
    shift 3
    "$BIN/perfleet" record -c "$config" -o "$out" --host "$name=unix:$WORK/$name/consumer.sock" "$@"
}

# The fleet's authority in WORK/pki, with the operator `me`: make_pki; pki COMMAND ARGS...
pki() {
    local command=$1
    shift
    "$ROOT/deploy/pki/perfleet-pki" "$command" "$WORK/pki" "$@" >>"$WORK/pki.log" 2>&1
}
make_pki() {
    pki init --fleet test && pki operator me
}
TLS_ME=(--ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-me.pem" --key "$WORK/pki/operator-me.key")

# A relay on loopback before the service NAME: start_relay NAME [PKI-OPTIONS]; RELAY_ADDR, RELAY_PID.
# Its certificate is made here, with those options of `perfleet-pki host`.
start_relay() {
    local name=$1 log=$WORK/relay-$1.log
    shift
    pki host "$name" --ip 127.0.0.1 --force "$@" || return
    rm -f "$log"
    start "relay-$name" "$BIN/perfleet-relay" --listen 127.0.0.1:0 \
        --consumer-socket "$WORK/$name/consumer.sock" --ca "$WORK/pki/ca.pem" --crl "$WORK/pki/crl.pem" \
        --cert "$WORK/pki/host-$name.pem" --key "$WORK/pki/host-$name.key"
    RELAY_PID=$STARTED
    wait_for 20 pfl_relay_port_in "$log" || return
    RELAY_ADDR=127.0.0.1:$(pfl_relay_port_in "$log")
}

# A port for one that is to come back to it: none of those that the kernel lends to whoever connects, be it in a test
# beside this one; and nobody's now.
lasting_port() {
    local port=0
    while [ "$port" -eq 0 ] || grep -qsi "$(printf ':%04x ' "$port")" /proc/net/tcp /proc/net/tcp6; do
        port=$((20000 + SRANDOM % 12000))
    done
    echo "$port"
}

# The meeting point at an address, with the options in MEETING: start_meeting 127.0.0.1:0 (a lasting port); RELAY,
# MEETING_PID.
MEETING=()
start_meeting() {
    if [ "${1##*:}" = 0 ]; then set -- "${1%:*}:$(lasting_port)"; else wait_for 60 is_gone "$MEETING_PID"; fi
    [ -e "$WORK/pki/relay-meet.pem" ] || pki relay meet --ip 127.0.0.1 || return
    rm -f "$WORK/meeting.log"
    start meeting "$BIN/perfleet-relay" --listen "$1" --ca "$WORK/pki/ca.pem" \
        --cert "$WORK/pki/relay-meet.pem" --key "$WORK/pki/relay-meet.key" "${MEETING[@]}"
    MEETING_PID=$STARTED
    wait_for 20 pfl_relay_port_in "$WORK/meeting.log" || return
    RELAY=127.0.0.1:$(pfl_relay_port_in "$WORK/meeting.log")
}
# The agent of the service NAME: start_agent NAME [OPTIONS]
start_agent() {
    local name=$1
    shift
    pki host "$name" --ip 127.0.0.1 --force || return
    start "agent-$name" "$BIN/perfleet-agent" --relay "$RELAY" --ca "$WORK/pki/ca.pem" \
        --cert "$WORK/pki/host-$name.pem" --key "$WORK/pki/host-$name.key" \
        --consumer-socket "$WORK/$name/consumer.sock" "$@"
}
# Through the relay, as the operator: fleet COMMAND ARGS...
fleet() {
    "$BIN/perfleet" "$1" --relay "$RELAY" "${TLS_ME[@]}" "${@:2}"
}
