#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Other machines behind a perfleetd: network producer sockets, sockets from systemd, and, where
# PERFETTO_BIN_DIR names a v58.2 build, Perfetto's own traced_relay with its producers from a second
# machine (network, UTS, PID and TIME namespaces; its boot clock is 5000 s ahead), beside the same
# with the stock service as the host.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
AHEAD=5000

# --- what may be asked for -----------------------------------------------------------------------
refused() { # refused ADDR[,ADDR] [OPTION...]: does not start with these
    local addresses=$1
    shift
    exits_with 2 timeout 60 "$BIN/perfleetd" --producer-socket "$addresses" \
        --consumer-socket "$WORK/x.sock" "$@"
}
for address in 0.0.0.0:0 '[::]:0' :0 10.1.2.3:0; do
    check "$address is refused: others can reach it" refused "$address"
done
check "a relay endpoint on a socket that is none is refused" \
    refused "$WORK/p.sock" --enable-relay-endpoint-on "$WORK/q.sock"
check "consumers are not served on TCP" exits_with 2 timeout 60 "$BIN/perfleetd" \
    --producer-socket "$WORK/p.sock" --consumer-socket 127.0.0.1:0

# start_host NAME PROGRAM ARGS...: a service in this script's own network
start_tcp_service() {
    local name=$1
    shift
    mkdir -p "$WORK/$name"
    use_service "$name"
    start "$name" "$BIN/perfleetd" \
        --producer-socket "$PERFETTO_PRODUCER_SOCK_NAME,127.0.0.1:0" "$@"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
}
network_port_in() {
    grep -m1 'listening-on-network: ' "$1" | grep -oE 'port=[1-9][0-9]*' | cut -d= -f2 | grep .
}
start_tcp_service loop
check "it listens on loopback without being urged" network_port_in "$WORK/loop.log"
check "its local producers are served as ever" sh -c "'$BIN/perfleet' query \
    --host unix:$PERFETTO_CONSUMER_SOCK_NAME >/dev/null"

# A producer without shared memory, by hand: identity, bind, and garbage behind it.
hand() { # hand PORT: 200 connections that say half of something and leave
    python3 -B - "$1" <<'END'
import socket, struct, sys
def vi(n):
    out = b''
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out
def f(i, v):
    return vi(i << 3) + vi(v) if isinstance(v, int) else vi(i << 3 | 2) + vi(len(v)) + v
def frame(b):
    return struct.pack('<I', len(b)) + b
def call(i, m, a):
    return frame(f(2, i) + f(5, f(1, 1) + f(2, m) + f(3, a)))
chunk = bytes([1, 0, 0, 0, 5, 0, 1, 0, 6, 0xa2, 0x38, 3, 0x0a, 1]) + b'x'
said = (frame(f(8, f(1, 1) + f(2, 2) + f(3, b'h') + f(4, b'm'))) + frame(f(2, 1) + f(3, f(1, b'ProducerPort')))
        + call(2, 1, f(3, b'p')) + call(3, 5, b'') + call(4, 2, f(1, f(1, b'com.example.load')))
        + call(5, 4, f(1, f(3, 1) + f(4, chunk))))
for i in range(200):
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    s.sendall(said[:len(said) * (i + 1) // 200])
    s.close()
END
}
check "producers on TCP may leave at any point" hand "$(network_port_in "$WORK/loop.log")"
start example "$BIN/perfleet-example" --rate 1000
check "the example registers beside them" wait_for_source "$EXAMPLE_SOURCE" 1
config "$WORK/c.pbtx" 500
check "a recording of local producers is whole" record loop "$WORK/c.pbtx" "$WORK/loop.pftrace"
check "all of the example's packets are in it" $CHECK "$WORK/loop.pftrace" --contiguous --lossless

# --- sockets from systemd ------------------------------------------------------------------------
activate() { # activate NAME: what systemd does for two socket units
    exec python3 -B - "$BIN/perfleetd" "$WORK/$1" <<'END'
import os, socket, sys
fds = []
for name in ('producer.sock', 'consumer.sock'):
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.join(sys.argv[2], name))
    s.listen(16)
    fds.append(os.dup(s.fileno()))
high = [os.dup2(fd, 40 + i) for i, fd in enumerate(fds)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2', LISTEN_FDNAMES='perfleetd-producer.socket:perfleetd-consumer.socket')
os.execv(sys.argv[1], [sys.argv[1]])
END
}
mkdir "$WORK/active"
use_service active
start active activate active
wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
start example-active "$BIN/perfleet-example" --rate 1000
check "a producer reaches the socket that was passed" wait_for_source "$EXAMPLE_SOURCE" 1
check "and is recorded through the other one" record active "$WORK/c.pbtx" "$WORK/active.pftrace"
check "whole" $CHECK "$WORK/active.pftrace" --contiguous --lossless
not_listening() { timeout 60 sh -c "LISTEN_FDS=1 LISTEN_PID=\$\$ exec '$BIN/perfleetd'" 3</dev/null; }
check "a descriptor that does not listen ends the start" exits_with 1 not_listening
check "in words" says 'socket-not-inherited: fd=3' not_listening

# --- the stock relay of another machine ----------------------------------------------------------
if [ ! -x "$P/traced_relay" ]; then
    skip "the stock relay uses a perfleetd as its host" "no PERFETTO_BIN_DIR"
    finish
fi
pfl_hosts_init "$WORK/hosts"
if [ "$PFL_HOSTS_KIND" != isolated ]; then
    skip "the stock relay uses a perfleetd as its host" "needs root and namespaces"
    finish
fi
rows() {
    "$P/trace_processor_shell" -q /dev/stdin "$1" 2>/dev/null <<<"$2" | sed 1d | grep .
}
rows_are() { # rows_are EXPECTED TRACE QUERY
    local got
    got=$(rows "$2" "$3" | tr '\n' ' ')
    [ "${got% }" = "$1" ] || { echo "got '${got% }', expected '$1'"; return 1; }
}
rows_at_least() {
    local n
    n=$(rows "$2" "$3")
    [ "${n:-0}" -ge "$1" ] || { echo "${n:-nothing}, expected $1"; return 1; }
}
no_errors_in() { # a reader that does not run says nothing: not even 0
    [ "$(rows "$1" "select count(*) from stats where value > 0 and severity in ('error', 'data_loss')")" = 0 ] ||
        { rows "$1" "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"; return 1; }
}
cat >"$WORK/both.pbtx" <<END
buffers { size_kb: 32768 }
duration_ms: 1500
trace_all_machines: true
data_sources { config { name: "track_event" track_event_config { enabled_categories: "*" } } }
data_sources { config { name: "linux.process_stats" process_stats_config { scan_all_processes_on_start: true } } }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
END
filtered() { # filtered NAME: both, only on that machine
    sed "s/ } }\$/ } machine_name_filter: \"$1\" }/; s/trace_all_machines: true//" "$WORK/both.pbtx"
}
filtered host >"$WORK/host.pbtx"
grep -v track_event "$WORK/both.pbtx" >"$WORK/probes.pbtx"

# machines KIND: the service on the host KIND-main, a relay and its producers on KIND-vm
machines() {
    local kind=$1 main=$WORK/hosts/$1-main vm=$WORK/hosts/$1-vm addr port machine
    pfl_host_add "$kind-main" 0 && pfl_host_add "$kind-vm" $AHEAD || return
    addr=$(pfl_host_addr "$kind-main")
    filtered "$kind-vm" >"$WORK/vm.pbtx"
    if [ "$kind" = ours ]; then
        pfl_host_start "$kind-main" "$BIN/perfleetd" --producer-socket "$main/producer.sock,$addr:0" \
            --enable-relay-endpoint-on "$addr:0" --allow-plain-network
        wait_for 20 network_port_in "$main/perfleetd.log" || return
        port=$(network_port_in "$main/perfleetd.log")
    else
        port=20431 # in a network namespace of its own
        pfl_host_start "$kind-main" env "PERFETTO_PRODUCER_SOCK_NAME=$main/producer.sock,$addr:$port" \
            "$P/traced" --enable-relay-endpoint
    fi
    wait_for 20 test -S "$main/consumer.sock" || return
    pfl_host_start "$kind-vm" env "PERFETTO_RELAY_SOCK_NAME=$addr:$port" "$P/traced_relay"
    wait_for 20 test -S "$vm/producer.sock" || return
    for machine in "$kind-main" "$kind-vm"; do
        pfl_host_start "$machine" "$P/traced_probes"
        pfl_host_start "$machine" "$P/sdk_producer" --track-events --rate 1000 --size 20
    done
    wait_for 20 all_are_registered "$main/consumer.sock"
}
all_are_registered() {
    [ "$(PERFETTO_CONSUMER_SOCK_NAME=$1 "$P/perfetto" --query | grep -c 'track_event')" -ge 2 ] &&
        [ "$(PERFETTO_CONSUMER_SOCK_NAME=$1 "$P/perfetto" --query | grep -c 'linux.sys_stats')" -ge 2 ]
}
trace() { # trace KIND CONFIG: records KIND-CONFIG.pftrace
    pfl_host_run "$1-main" "$P/perfetto" --txt -c - -o - <"$WORK/$2.pbtx" >"$WORK/$1-$2.pftrace"
}
SLICES="select count(*) from slice s join thread_track t on s.track_id = t.id join machine m on t.machine_id = m.id where m.raw_id"
COUNTERS="select count(*) from counter c join track t on c.track_id = t.id where t.machine_id"
HOST="from counter c join track t on c.track_id = t.id where t.machine_id = 0"
SPAN="between (select min(c.ts) - 200000000 $HOST) and (select max(c.ts) + 200000000 $HOST)"
for kind in ours stock; do
    who="perfleetd"
    [ "$kind" = ours ] || who="the stock service, for comparison"
    machines $kind
    check "$who: traced_relay brings the producers of another machine" \
        all_are_registered "$WORK/hosts/$kind-main/consumer.sock"
    for what in both probes vm host; do
        check "$who: perfetto records ($what)" trace $kind $what
        check "$who: trace_processor finds no error ($what)" no_errors_in "$WORK/$kind-$what.pftrace"
    done
    T=$WORK/$kind-both.pftrace
    check "$who: two machines are in the table" rows_are 2 "$T" "select count(*) from machine"
    check "$who: events of the host are there" rows_at_least 1000 "$T" "$SLICES = 0"
    check "$who: events of the other machine are there" rows_at_least 1000 "$T" "$SLICES != 0"
    # Of traced_probes alone, whose packets have plain boot-clock times: v58.2's reader mixes up the
    # clocks of their own that SDK producers of two machines define, whichever service is the host.
    check "$who: counters of the other machine, its clock $AHEAD s ahead, lie between the host's own" \
        rows_at_least 100 "$WORK/$kind-probes.pftrace" "$COUNTERS = 1 and c.ts $SPAN"
    check "$who: all of them" rows_are 0 "$WORK/$kind-probes.pftrace" "$COUNTERS = 1 and not c.ts $SPAN"
    check "$who: the processes of both machines are there" rows_are 2 "$T" \
        "select count(distinct machine_id) from process where name is not null"
    check "$who: with machine_name_filter the other machine alone has events" \
        rows_are 0 "$WORK/$kind-vm.pftrace" "$SLICES = 0"
    check "$who: and has them" rows_at_least 1000 "$WORK/$kind-vm.pftrace" "$SLICES != 0"
    check "$who: the name host means the service's own" \
        rows_are 0 "$WORK/$kind-host.pftrace" "$SLICES != 0"
    pfl_host_kill "$kind-vm"
    pfl_host_kill "$kind-main"
done
finish
