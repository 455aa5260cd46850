#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091
# perfleet-keep: what a program gave it outlives the program, messages of other processes are refused, and it ends as the
# program does. tests/support/kept_program.c judges what it finds in each of its processes.
. "$(dirname "$0")/lib.sh"

KEEP=$BIN/perfleet-keep
PROGRAM=$PFL_BUILD/tests/kept_program
export RUNTIME_DIRECTORY=$WORK/run
mkdir "$RUNTIME_DIRECTORY"

# keep MODE: until the program ends by itself; what both say is in WORK/MODE.log.
keep() {
    mkdir -p "$WORK/$1"
    timeout 120 "$KEEP" --restart-max-ms 50 -- "$PROGRAM" "$1" "$WORK/$1" >>"$WORK/$1.log" 2>&1
}
log_has() { grep -qE -- "$2" "$WORK/$1.log"; }
status_of() { # status_of PID: of a job that ends by itself; STATUS
    STATUS=0
    wait "$1" || STATUS=$?
}
starts() { wc -c <"$WORK/$1/starts"; }

check "sixty times killed at any moment: all is there that was given, once, with its name and content" keep lives
check "it was killed at least so often" test "$(starts lives)" -ge 60
check "768 descriptors and no more, in order; those removed are gone, and one file is kept once" keep fill
check "a descriptor past the maximum is reported" log_has fill 'descriptor-refused: name=n-768 kept=768 max=768'
check "another process of the same user neither stores nor removes" keep stranger
check "and is reported" log_has stranger 'datagram-refused: pid=[0-9]+ reason="not permitted"'
check "datagrams without sense do no harm" keep garbage
check "and are reported" log_has garbage 'datagram-refused'
check "nothing is left of the sockets" rmdir "$RUNTIME_DIRECTORY"
mkdir "$RUNTIME_DIRECTORY"

# --- how it ends ---------------------------------------------------------------------------------
ends_as() { # ends_as STATUS SCRIPT: the program is a shell
    exits_with "$1" timeout 120 "$KEEP" --restart-max-ms 50 -- sh -c "$2"
}
check "a program that is done ends it" ends_as 0 true
check "wrong usage ends it" ends_as 2 'exit 2'
check "a failure does not" ends_as 0 "echo >>'$WORK/failures'; [ \$(wc -l <'$WORK/failures') -ge 4 ] || exit 1"
check "a signal that nobody asked for does not" \
    ends_as 0 "echo >>'$WORK/signals'; [ \$(wc -l <'$WORK/signals') -ge 3 ] || kill -TERM \$\$"
check "a program that does not exist is reported at once" exits_with 127 "$KEEP" -- "$WORK/none"
check "one that cannot be executed, too" exits_with 126 "$KEEP" -- "$WORK"
check "no program is wrong usage" exits_with 2 "$KEEP" --restart-max-ms 50
check "an unknown option is" exits_with 2 "$KEEP" --fast -- true
check "a wait of nothing is" exits_with 2 "$KEEP" --restart-max-ms 0 -- true

cp "$(command -v sh)" "$WORK/shell" # it is away while another takes its place
echo "rm '$WORK/shell'; exit 1" >"$WORK/away.sh"
start away "$KEEP" --restart-max-ms 50 -- "$WORK/shell" "$WORK/away.sh"
check "one that was there before" wait_for 20 log_has away 'program-not-executed'
echo 'exit 0' >"$WORK/away.sh"
cp "$(command -v sh)" "$WORK/shell.new"
mv "$WORK/shell.new" "$WORK/shell"
status_of "$STARTED"
check "is waited for" test "$STATUS" -eq 0

# The last of twelve: all waits but the first are 50 ms at least.
spin="cut -d' ' -f1 /proc/uptime >>'$WORK/spin'; [ \$(wc -l <'$WORK/spin') -ge 12 ] || exit 1"
check "a program that dies at once is started again and again" ends_as 0 "$spin"
does_not_spin() {
    awk 'NR == 1 { begin = $1 } END { print NR " starts in " $1 - begin " s"; exit $1 - begin < 10 * 0.05 - 0.02 }' "$WORK/spin"
}
check "but not at once" does_not_spin
# It waits, or has just started it again: then that one is asked to stop, and may have ended before.
start waiting "$KEEP" -- sh -c 'exit 1'
wait_for 60 log_has waiting 'again_in_ms=[0-9]{3}'
kill "$STARTED"
status_of "$STARTED"
check "it can be stopped meanwhile" grep -qx "$STATUS" <<<$'0\n1\n143'

# --- signals -------------------------------------------------------------------------------------
start_signals() { # start_signals NAME [PREFIX...]
    mkdir -p "$WORK/$1"
    chmod 0777 "$WORK/$1"
    start "$1" "$KEEP" -- "${@:2}" "$PROGRAM" signals "$WORK/$1"
    wait_for 20 log_has "$1" waiting && wait_for 20 log_has "$1" program-started
}
passes_on() { # passes_on NAME PID SIGNAL
    kill -s "$3" "$2" && wait_for 20 log_has "$1" "signal=$(kill -l "$3")"
}
child_of() { grep -oE 'pid=[0-9]+' "$WORK/$1.log" | tail -n 1 | cut -d= -f2; }

start_signals plain
K=$STARTED
for signal in HUP USR1 USR2; do check "SIG$signal is passed on" passes_on plain "$K" "$signal"; done
check "its keeper can get no privileges" grep -q 'NoNewPrivs:.1' "/proc/$K/status"
kill "$K"
status_of "$K"
check "SIGTERM is passed on, and what the program ends with is the status" test "$STATUS" -eq 7
check "one that knows no SIGTERM ends with 143" \
    exits_with 143 timeout --preserve-status 1 "$KEEP" -- sleep 600

start_signals orphaned
CHILD=$(child_of orphaned)
check "a program" is_alive "$CHILD"
kill -9 "$STARTED"
check "whose keeper is killed stops" wait_for 20 is_gone "$CHILD"

# --- the manager above ---------------------------------------------------------------------------
mkdir "$WORK/service"
use_service service
check "readiness, signs of life and the stop reach the manager above" timeout 300 \
    python3 -B "$ROOT/tests/support/supervisor.py" --watchdog-ms 2000 ready,alive,stop -- "$KEEP" -- "$BIN/perfleetd"

# --- as the first process of a container ---------------------------------------------------------
NEW_PIDS=(unshare --pid --mount --fork --kill-child --mount-proc)
[ "$(id -u)" -eq 0 ] || NEW_PIDS=(unshare --user --map-root-user "${NEW_PIDS[@]:1}")
if ! "${NEW_PIDS[@]}" true 2>/dev/null; then
    skip "the first process of a container" "no process namespaces"
    finish
fi
reaps='(sh -c "exit 3" & echo $! >orphan); until [ ! -e /proc/$(cat orphan) ]; do sleep 0.05; done'
check "as process 1 it reaps orphans" \
    exits_with 0 env -C "$WORK" timeout 120 "${NEW_PIDS[@]}" "$KEEP" -- sh -c "$reaps"
check "and ends on SIGTERM" exits_with 9 timeout 120 "${NEW_PIDS[@]}" "$KEEP" -- \
    sh -c 'trap "exit 9" TERM; kill -TERM 1; while :; do sleep 0.05; done'

if [ "$(id -u)" -ne 0 ]; then
    skip "where nothing can be written" "needs root"
    finish
fi
mkdir "$WORK/abstract"
# shellcheck disable=SC2016
nothing_is_writable='for dir in /run /tmp /dev/shm; do mount --bind $dir $dir && mount -o remount,ro,bind $dir || exit; done
    mount --bind "$0" "$0" && mount -o remount,rw,bind "$0" && cd "$0" && exec "$@"'
in_read_only_root() {
    env -u RUNTIME_DIRECTORY -u XDG_RUNTIME_DIR -u TMPDIR timeout 120 unshare --mount --net \
        sh -c "$nothing_is_writable" "$WORK/abstract" "$@" >>"$WORK/abstract.log" 2>&1
}
check "where nothing can be written it keeps as well" \
    in_read_only_root "$KEEP" -- "$PROGRAM" stranger "$WORK/abstract"
check "by an abstract name, which is reported" log_has abstract 'socket-abstract'

install -m 0755 "$PROGRAM" "$WORK/program"
PROGRAM=$WORK/program
OTHER=(setpriv --reuid=65534 --regid=65534 --clear-groups)
effective() { awk '/CapEff/ { print $2 }' "/proc/$1/status"; }
if ! "${OTHER[@]}" true 2>/dev/null; then
    skip "a program that changes its user" "no setpriv"
    finish
fi
start_signals other "${OTHER[@]}"
K=$STARTED
check "a program that changes its user has a keeper without capabilities but the one to signal it" test "$(effective "$K")" = 0000000000000020
kill "$K"
status_of "$K"
check "and is signalled as any" test "$STATUS" -eq 7
check "root's program has what it would have without a keeper" \
    test "$("$KEEP" --log-level error -- awk '/CapEff/ { print $2 }' /proc/self/status)" = "$(effective self)"
finish
