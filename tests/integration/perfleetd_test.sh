#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleetd as a process: command line, readiness, permissions, memory, and its end. With Perfetto's
# own programs (PERFETTO_BIN_DIR) also recordings by the stock command; skipped without them.
. "$(dirname "$0")/lib.sh"

D=$BIN/perfleetd
mkdir -p "$WORK/one"
P=$WORK/one/producer.sock
C=$WORK/one/consumer.sock

check "--help goes to stdout and ends with 0" says "usage: perfleetd" "$D" --help
check "--version names the program" says "^perfleetd [0-9]" "$D" --version
check "an unknown option is wrong usage" exits_with 2 "$D" --no-such-thing
check "a number of sessions beyond the limit is wrong usage" exits_with 2 "$D" --max-sessions 1001
check "an argument is wrong usage" exits_with 2 "$D" thing
check "a producer address that other machines can reach is refused in words" \
    says "allow-plain-network" timeout 60 "$D" --producer-socket 0.0.0.0:1 --consumer-socket "$C"
check "permissions of the wrong form are refused" exits_with 2 \
    "$D" --set-socket-permissions a:660:b:660
check "a socket that cannot be bound ends with 1" exits_with 1 \
    "$D" --producer-socket "$WORK/no/such/dir/p" --consumer-socket "$C"

DAEMON=$("$D" --background --producer-socket "$P,$WORK/one/second.sock" --consumer-socket "$C" \
    --set-socket-permissions "$(id -g):0660:$(id -g):0600" 2>"$WORK/one/daemon.log")
[ -z "$DAEMON" ] || JOBS+=("$DAEMON")
check "--background prints the pid of a service that listens" is_alive "$DAEMON"
check "every producer socket of the list is there" test -S "$P" -a -S "$WORK/one/second.sock"
check "the producer socket has the mode asked for" says '^660$' stat -c %a "$P"
check "the consumer socket has the mode asked for" says '^600$' stat -c %a "$C"
rss_kb() { awk '/^VmRSS/ { print $2 }' "/proc/$DAEMON/status"; }
if [ -n "${PFL_SANITIZE:-}" ]; then
    skip "idle it takes less than 8 MiB" "a sanitizer takes memory of its own"
else
    check "idle it takes less than 8 MiB" test "$(rss_kb)" -lt 8192
fi
check "it can get no new privileges" says 'NoNewPrivs:[[:space:]]*1' grep NoNewPrivs "/proc/$DAEMON/status"
check "it makes only the system calls on its list" says 'Seccomp:[[:space:]]*2' grep Seccomp: "/proc/$DAEMON/status"
kill -TERM "$DAEMON"
daemon_is_gone() { ! is_alive "$DAEMON"; }
check "SIGTERM ends it" wait_for 10 daemon_is_gone
check "its sockets are gone with it" test ! -e "$P" -a ! -e "$C"

notified() {
    local byte
    mkfifo "$WORK/notify" || return
    exec {fd}<>"$WORK/notify"
    TRACED_NOTIFY_FD=$fd "$D" --producer-socket "$P" --consumer-socket "$C" 2>/dev/null &
    JOBS+=("$!")
    read -r -t 60 -N 1 byte <&"$fd"
    kill "$!"
    wait "$!" 2>/dev/null
    exec {fd}>&-
    [ "$byte" = 1 ]
}
check "TRACED_NOTIFY_FD gets its byte" notified

perfetto=${PERFETTO_BIN_DIR:-/nowhere}/perfetto
if [ ! -x "$perfetto" ] || [ ! -x "$BIN/perfleet-example" ]; then
    skip "the stock perfetto command records" "no PERFETTO_BIN_DIR with it"
    finish
fi
start_service one || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 2000 --smb-kb 4096
config "$WORK/c.pbtx" 1000
stock_query() { "$perfetto" --query 2>&1 | grep -q "$EXAMPLE_SOURCE"; }
check "perfetto --query sees the example" wait_for 20 stock_query
check "perfetto -c FILE --txt -o OUT records" timeout 30 "$perfetto" -c "$WORK/c.pbtx" --txt \
    -o "$WORK/stock.pftrace"
check "what it recorded is whole" $CHECK "$WORK/stock.pftrace" --contiguous --lossless
stock_interrupted() {
    config "$WORK/endless.pbtx" 0
    # --foreground: one signal; a second one would end the client at once
    timeout --foreground -s INT 2 "$perfetto" -c "$WORK/endless.pbtx" --txt -o "$WORK/int.pftrace" || true
    $CHECK "$WORK/int.pftrace" --contiguous --lossless
}
check "Ctrl-C of perfetto flushes, stops and reads" stock_interrupted
refused() {
    cp "$WORK/c.pbtx" "$WORK/bad.pbtx"
    echo 'buffers { size_kb: 0 }' >>"$WORK/bad.pbtx"
    "$perfetto" -c "$WORK/bad.pbtx" --txt -o "$WORK/bad.pftrace"
}
check "a config it cannot serve is refused with the field's name" says "size_kb" refused
finish
