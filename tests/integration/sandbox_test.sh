#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2153
# The daemons in their sandbox: what the kernel says of the running processes, what they can and
# cannot do there, and how they start where it cannot be had. Each forbidden call by itself is tried
# by tests/unit/base/sandbox; all other integration tests run with the sandbox on, too.
. "$(dirname "$0")/lib.sh"

D=$BIN/perfleetd
SESSION=(python3 -B "$ROOT/tests/support/file_session.py")
mkdir -p "$WORK/one" "$WORK/out" "$WORK/elsewhere"
C=$WORK/one/consumer.sock
AS=()
if [ "$(id -u)" -eq 0 ]; then
    AS=(--user nobody)
    chown nobody "$WORK/one" "$WORK/out" "$WORK/elsewhere"
fi

status() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$2/status"; }
status_is() { # status_is PID FIELD VALUE
    local value
    value=$(status "$2" "$1")
    [ "$value" = "$3" ] || { echo "$2 is $value, expected $3"; return 1; }
}
all_threads_are_filtered() {
    ! grep -L 'Seccomp:[[:space:]]*2' "/proc/$1/task"/*/status | grep -q .
}
has_no_ring() { # the loop was made without io_uring, whatever libuv and kernel would do
    local targets
    targets=$(readlink "/proc/$1/fd"/*)
    [[ $targets == *eventpoll* && $targets != *io_uring* ]] || { echo "$targets"; return 1; }
}
write_config() { # write_config FILE MORE
    cat >"$1" <<END
buffers { size_kb: 4096 }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
write_into_file: true
file_write_period_ms: 100
duration_ms: 700
$2
END
}

# --- the service ---------------------------------------------------------------------------------
use_service one
if ! start one "$D" --guardrails --sandbox require --output-dir "$WORK/out" "${AS[@]}" ||
    ! wait_for 20 grep -qs listening "$WORK/one.log"; then
    if grep -qs 'sandbox-failed: .*this kernel' "$WORK/one.log"; then
        skip "perfleetd in its sandbox" "this kernel lacks Landlock or seccomp"
        finish
    fi
    check "perfleetd starts with all of its sandbox" false
    finish
fi
S=$STARTED
check "one line of the log says what holds" grep -qE 'sandbox: uid=[0-9]+ capabilities=none landlock=[1-9][0-9]* seccomp=on' "$WORK/one.log"
check "it can get no new privileges" status_is "$S" NoNewPrivs 1
check "its system calls are filtered" status_is "$S" Seccomp 2
check "its loop has no io_uring, which the filter refuses" has_no_ring "$S"
check "it has no capability" status_is "$S" CapEff 0000000000000000
check "it can get none back" status_is "$S" CapPrm 0000000000000000
if [ "$(id -u)" -eq 0 ]; then
    check "as root it became the user it was given" status_is "$S" Uid "$(id -u nobody)"
    check "and no program it started could be more" status_is "$S" CapBnd 0000000000000000
else
    skip "as root it became the user it was given" "no root"
fi

start example "$BIN/perfleet-example" --rate 2000 --smb-kb 1024
check "a producer shares memory with it" wait_for_source "$EXAMPLE_SOURCE" 1
config "$WORK/c.pbtx" 500
check "a recording works" record one "$WORK/c.pbtx" "$WORK/a.pftrace"
check "and is whole" $CHECK "$WORK/a.pftrace" --contiguous --lossless --min-packets 10
{ cat "$WORK/c.pbtx"; echo 'compression_type: COMPRESSION_TYPE_DEFLATE'; } >"$WORK/deflate.pbtx"
check "threads that compress work" record one "$WORK/deflate.pbtx" "$WORK/z.pftrace"
check "and lose nothing" $CHECK "$WORK/z.pftrace" --contiguous --lossless --min-packets 10
check "each of its threads is filtered" all_threads_are_filtered "$S"

write_config "$WORK/in.pbtx" "output_path: \"$WORK/out/t.pftrace\""
check "a config's file is created in --output-dir" says '^ended$' "${SESSION[@]}" "$C" "$WORK/in.pbtx"
check "and is whole" $CHECK "$WORK/out/t.pftrace" --contiguous --lossless --min-packets 10
write_config "$WORK/away.pbtx" "output_path: \"$WORK/elsewhere/t.pftrace\""
check "and nowhere else; the reason names the field" says 'output_path.*Permission denied' \
    "${SESSION[@]}" "$C" "$WORK/away.pbtx"
check "nothing is there" test ! -e "$WORK/elsewhere/t.pftrace"
ln -s "$WORK/elsewhere" "$WORK/out/link"
write_config "$WORK/link.pbtx" "output_path: \"$WORK/out/link/t.pftrace\""
check "a symbolic link is no way out" says 'output_path.*Permission denied' "${SESSION[@]}" "$C" "$WORK/link.pbtx"
write_config "$WORK/fd.pbtx" ""
check "a consumer's own descriptor is written wherever it leads" says '^ended$' \
    "${SESSION[@]}" "$C" "$WORK/fd.pbtx" "$WORK/fd.pftrace"
check "and is whole" $CHECK "$WORK/fd.pftrace" --contiguous --lossless --min-packets 10
kill "$S"
wait "$S"
check "it ends by SIGTERM with 0" test $? -eq 0
check "its sockets are gone with it" test ! -e "$C" -a ! -e "$WORK/one/producer.sock"

# --- other ways to start ------------------------------------------------------------------------
check "--output-dir without a sandbox is wrong usage" exits_with 2 "$D" --sandbox off --output-dir "$WORK/out"
check "an output folder that is not there ends the start" exits_with 1 timeout 60 "$D" --output-dir "$WORK/no"
check "so does a user that is not there" exits_with 1 timeout 60 "$D" --user no-such-user-here
start two "$D" --sandbox off
check "--sandbox off starts" wait_for 20 grep -qs listening "$WORK/two.log"
check "without the filter" status_is "$STARTED" Seccomp 0
check "but with no new privileges" status_is "$STARTED" NoNewPrivs 1
check "and with no io_uring either" has_no_ring "$STARTED"
kill "$STARTED"

# --- the relay ------------------------------------------------------------------------------------
start_service three && make_pki && start_relay three ||
    { check "a relay starts" false; finish; }
LOG=$WORK/relay-three.log
check "the relay's log says what holds" grep -qE 'sandbox: uid=[0-9]+ capabilities=none landlock=[1-9][0-9]* seccomp=on' "$LOG"
check "its system calls are filtered" status_is "$RELAY_PID" Seccomp 2
check "its loop has no io_uring" has_no_ring "$RELAY_PID"
check "it has no capability" status_is "$RELAY_PID" CapEff 0000000000000000
start example3 "$BIN/perfleet-example" --rate 2000 --smb-kb 1024
wait_for_source "$EXAMPLE_SOURCE" 1
check "a recording through it works" "$BIN/perfleet" record -c "$WORK/c.pbtx" -o "$WORK/r.pftrace" \
    --host "three=tls://$RELAY_ADDR" "${TLS_ME[@]}"
check "and is whole" $CHECK "$WORK/r.pftrace" --contiguous --lossless --min-packets 10
pki host three --ip 127.0.0.1 --force
kill -HUP "$RELAY_PID"
check "it reads renewed certificates" wait_for 10 grep -q reload "$LOG"
check "a recording works with them" "$BIN/perfleet" record -c "$WORK/c.pbtx" -o "$WORK/h.pftrace" \
    --host "three=tls://$RELAY_ADDR" "${TLS_ME[@]}"
mkdir "$WORK/audit"
start audited "$BIN/perfleet-relay" --listen 127.0.0.1:0 --consumer-socket "$WORK/three/consumer.sock" \
    --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/host-three.pem" --key "$WORK/pki/host-three.key" \
    --audit-log "$WORK/audit/log"
AUDITED=$STARTED
check "a relay with an audit log listens" wait_for 20 grep -qs listening "$WORK/audited.log"
mv "$WORK/audit/log" "$WORK/audit/log.1"
kill -HUP "$AUDITED"
check "an audit log that was moved away is created again" wait_for 10 test -e "$WORK/audit/log"
check "no reading failed" sh -c "! grep -E 'error|not-reloaded|denied' '$LOG'"

# --- the agent --------------------------------------------------------------------------------------
SPOOL=$WORK/agent-spool
mkdir "$SPOOL"
AS=()
if [ "$(id -u)" -eq 0 ]; then
    AS=(--user nobody)
    chown nobody "$SPOOL"
    chmod 755 "$WORK/three"
    chmod 666 "$WORK/three/consumer.sock"
fi
start_meeting 127.0.0.1:0
RELAY_NUMBER=$RELAY
RELAY=localhost:${RELAY##*:}
start_agent three --sandbox require --spool-dir "$SPOOL" "${AS[@]}"
AGENT=$STARTED
[ "$(id -u)" -ne 0 ] || { chmod 755 "$WORK/pki" && chown nobody "$WORK/pki/host-three".*; }
RELAY=$RELAY_NUMBER
LOG=$WORK/agent-three.log
is_there() { fleet hosts --host three 2>/dev/null | grep -q " up "; }
check "the agent looks up a name and dials it" wait_for 20 is_there
check "its log says what holds" grep -qE 'sandbox: uid=[0-9]+ capabilities=none landlock=[1-9][0-9]* seccomp=on' "$LOG"
check "its system calls are filtered" status_is "$AGENT" Seccomp 2
check "each of its threads is filtered" all_threads_are_filtered "$AGENT"
check "its loop has no io_uring" has_no_ring "$AGENT"
check "it has no capability" status_is "$AGENT" CapEff 0000000000000000
check "a recording through it works" "$BIN/perfleet" record -c "$WORK/c.pbtx" -o "$WORK/a3.pftrace" \
    --relay "$RELAY" --host three "${TLS_ME[@]}"
check "and is whole" $CHECK "$WORK/a3.pftrace" --contiguous --lossless --min-packets 10
kill -HUP "$AGENT"
check "it reads its certificates again" wait_for 10 grep -q 'reloaded:' "$LOG"
if [ "$(id -u)" -eq 0 ]; then
    check "as root it became the user it was given" status_is "$AGENT" Uid "$(id -u nobody)"
    chmod 700 "$SPOOL"
    chown root "$SPOOL"
    start_agent three --spool-dir "$SPOOL" "${AS[@]}"
    check "a folder that is not that user's ends the start" wait_for 10 grep -q spool-unusable "$LOG"
else
    skip "as root it becomes the user it was given" "no root"
fi
finish
