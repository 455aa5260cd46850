# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Hosts on one machine, for the demo and the integration tests (sourced, not run).
#
# With root a host is a network, UTS, PID, mount and TIME namespace of its own: its boot clock is ahead of
# this machine's by a known number of seconds, its address is on a bridge that only these hosts
# and the operator's namespace can reach, and killing its first process ends everything on it.
# Without root there are only directories: all hosts share this machine's clock and loopback.
#
#   pfl_hosts_init DIR          DIR: where a host keeps its files; sets PFL_HOSTS_KIND
#   pfl_host_add NAME SECONDS   a host whose boot clock is SECONDS ahead
#   pfl_host_run NAME CMD...    in the foreground;  pfl_host_start NAME CMD...  in the background
#   pfl_host_addr NAME          its address;        pfl_operator_addr           the operator's
#   pfl_operator_run CMD...     beside the hosts;   pfl_operator_start CMD...   in the background
#   pfl_host_kill NAME          as if its plug were pulled
#   pfl_hosts_fini              ends and removes everything; legal at any time, twice too
#
#        operator (namespace)                 NAME (namespaces)
#        bridge 10.198.51.1/24 ── veth ────── eth0 10.198.51.N/24

PFL_HOSTS_NET=10.198.51
# Whom the daemons and the browser run as when we are root.
PFL_HOSTS_USER=nobody

# shellcheck disable=SC2034
declare -A PFL_HOST_PID=() PFL_HOST_NUMBER=() PFL_HOST_AHEAD=()
PFL_HOSTS_JOBS=()

pfl_hosts_can_isolate() {
    [ "$(id -u)" -eq 0 ] || return 1
    unshare --net --uts --pid --mount-proc --propagation unchanged --time --boottime 1 \
        --fork true 2>/dev/null &&
        unshare --net ip link add pfl0 type bridge 2>/dev/null
}

pfl_hosts_init() {
    PFL_HOSTS_DIR=$1
    PFL_HOSTS_KIND=shared
    mkdir -p "$PFL_HOSTS_DIR"
    chmod 755 "$PFL_HOSTS_DIR"
    pfl_hosts_can_isolate || return 0
    PFL_HOSTS_KIND=isolated
    unshare --net --fork --kill-child sleep infinity 2>/dev/null &
    PFL_OPERATOR_JOB=$!
    PFL_OPERATOR_PID=$(pfl_child_of "$PFL_OPERATOR_JOB") || return 1
    nsenter -t "$PFL_OPERATOR_PID" --net sh -e -c "
        ip link set lo up
        ip link add pfl0 type bridge
        ip addr add $PFL_HOSTS_NET.1/24 dev pfl0
        ip link set pfl0 up"
}

# The child that unshare --fork made and that has become the command, once it is there.
pfl_child_of() {
    local child tries
    for tries in $(seq 6000); do
        child=$(cat "/proc/$1/task/$1/children" 2>/dev/null)
        child=${child%% *}
        if [ -n "$child" ] && grep -qs '^sleep' "/proc/$child/comm"; then
            echo "$child"
            return 0
        fi
        kill -0 "$1" 2>/dev/null || break
        sleep 0.01
    done
    echo "hosts: no namespace after $tries tries" >&2
    return 1
}

pfl_host_add() {
    local name=$1 ahead=$2 number pid
    number=$((${#PFL_HOST_NUMBER[@]} + 11))
    PFL_HOST_NUMBER[$name]=$number
    PFL_HOST_AHEAD[$name]=$ahead
    mkdir -p "$PFL_HOSTS_DIR/$name"
    [ "$PFL_HOSTS_KIND" = isolated ] || { PFL_HOST_AHEAD[$name]=0; return 0; }
    chown "$PFL_HOSTS_USER" "$PFL_HOSTS_DIR/$name"
    unshare --net --uts --pid --mount-proc --propagation unchanged --time --boottime "$ahead" \
        --monotonic "$ahead" --fork --kill-child sleep infinity 2>/dev/null &
    PFL_HOST_JOB=$!
    PFL_HOSTS_JOBS+=("$PFL_HOST_JOB")
    pid=$(pfl_child_of "$PFL_HOST_JOB") || return 1
    PFL_HOST_PID[$name]=$pid
    nsenter -t "$pid" --uts hostname "$name"
    nsenter -t "$PFL_OPERATOR_PID" --net sh -e -c "
        ip link add v$number type veth peer name eth0 netns $pid
        ip link set v$number master pfl0 up"
    nsenter -t "$pid" --net sh -e -c "
        ip link set lo up
        ip addr add $PFL_HOSTS_NET.$number/24 dev eth0
        ip link set eth0 up"
}

pfl_host_addr() {
    if [ "$PFL_HOSTS_KIND" = isolated ]; then
        echo "$PFL_HOSTS_NET.${PFL_HOST_NUMBER[$1]}"
    else
        echo 127.0.0.1
    fi
}

# Enters the host as an ordinary user (exec: the job's pid is the command's, or nsenter's).
pfl_host_exec() {
    local name=$1 dir=$PFL_HOSTS_DIR/$1
    shift
    local env=(env HOME="$dir" TMPDIR="$dir" PERFETTO_PRODUCER_SOCK_NAME="$dir/producer.sock"
        PERFETTO_CONSUMER_SOCK_NAME="$dir/consumer.sock" PERFETTO_MACHINE_NAME="$name")
    if [ "$PFL_HOSTS_KIND" = isolated ]; then
        exec nsenter -t "${PFL_HOST_PID[$name]}" --net --uts --pid --mount --time --root --wd \
            setpriv --reuid "$PFL_HOSTS_USER" --regid nogroup --clear-groups "${env[@]}" "$@"
    fi
    exec setsid "${env[@]}" "$@" # a group of its own: a browser's processes end with it
}

pfl_host_run() {
    (pfl_host_exec "$@")
}

# Starts it with its output in DIR/NAME/<program>.log; PFL_STARTED is its job.
pfl_host_start() {
    (pfl_host_exec "$@") >>"$PFL_HOSTS_DIR/$1/${2##*/}.log" 2>&1 </dev/null &
    PFL_STARTED=$!
    PFL_HOSTS_JOBS+=("$PFL_STARTED")
}

# Copies what `perfleet-pki` made for the host to where its relay may read it.
pfl_host_give_certificate() {
    local name=$1 pki=$2 dir=$PFL_HOSTS_DIR/$1 file
    cp "$pki/ca.pem" "$pki/crl.pem" "$dir/"
    cp "$pki/host-$name.pem" "$dir/cert.pem"
    cp "$pki/host-$name.key" "$dir/key.pem"
    for file in ca crl cert key; do
        [ "$PFL_HOSTS_KIND" = shared ] || chown "$PFL_HOSTS_USER" "$dir/$file.pem"
        chmod 600 "$dir/$file.pem"
    done
}

# perfleet-relay in front of the host's perfleetd, on a port that the kernel chooses.
pfl_host_start_relay() {
    local name=$1 program=$2 dir=$PFL_HOSTS_DIR/$1
    pfl_host_start "$name" "$program" --listen "$(pfl_host_addr "$name"):0" \
        --consumer-socket "$dir/consumer.sock" --ca "$dir/ca.pem" --crl "$dir/crl.pem" \
        --cert "$dir/cert.pem" --key "$dir/key.pem"
}

# The port that a relay says it listens on: pfl_relay_port_in LOGFILE; pfl_host_relay_port NAME
pfl_relay_port_in() {
    grep -m1 'listening: ' "$1" | grep -oE 'port=[1-9][0-9]*' | cut -d= -f2 | grep .
}

pfl_host_relay_port() {
    pfl_relay_port_in "$PFL_HOSTS_DIR/$1/perfleet-relay.log"
}

pfl_operator_run() {
    if [ "$PFL_HOSTS_KIND" = isolated ]; then
        nsenter -t "$PFL_OPERATOR_PID" --net "$@"
    else
        "$@"
    fi
}

pfl_operator_addr() {
    if [ "$PFL_HOSTS_KIND" = isolated ]; then echo "$PFL_HOSTS_NET.1"; else echo 127.0.0.1; fi
}

pfl_operator_exec() {
    [ "$PFL_HOSTS_KIND" = isolated ] || exec setsid "$@"
    exec nsenter -t "$PFL_OPERATOR_PID" --net "$@"
}

# Starts it with its output in DIR/<program>.log.
pfl_operator_start() {
    (pfl_operator_exec "$@") >>"$PFL_HOSTS_DIR/${1##*/}.log" 2>&1 </dev/null &
    PFL_STARTED=$!
    PFL_HOSTS_JOBS+=("$PFL_STARTED")
}

pfl_host_kill() {
    [ "$PFL_HOSTS_KIND" = isolated ] || return 1
    kill -9 "${PFL_HOST_PID[$1]}"
}

# Ends a job; without namespaces also the group of processes that it leads.
pfl_host_signal() {
    kill "-$1" -- "-$2" 2>/dev/null || kill "-$1" "$2" 2>/dev/null
}

pfl_hosts_fini() {
    local job
    for job in "${PFL_HOSTS_JOBS[@]}"; do
        pfl_host_signal TERM "$job"
    done
    for job in "${PFL_HOST_PID[@]}"; do
        kill -9 "$job" 2>/dev/null
    done
    [ -z "${PFL_OPERATOR_PID:-}" ] || kill -9 "$PFL_OPERATOR_PID" 2>/dev/null
    for job in "${PFL_HOSTS_JOBS[@]}" ${PFL_OPERATOR_JOB:-}; do
        pfl_wait_for 5 pfl_job_is_over "$job" || pfl_host_signal KILL "$job"
        wait "$job" 2>/dev/null
        kill -9 -- "-$job" 2>/dev/null
    done 2>/dev/null # bash, too, says who was killed
    PFL_HOSTS_JOBS=()
    PFL_HOST_PID=()
    PFL_OPERATOR_PID=
    PFL_OPERATOR_JOB=
    return 0
}

pfl_job_is_over() {
    ! kill -0 "$1" 2>/dev/null
}

# Waits until a command succeeds: pfl_wait_for SECONDS CMD...
pfl_wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# How a browser is run as a producer: no window, no sandbox of its own (the demo's hosts and CI have
# no user namespaces to give), no talk with anybody, and its processes connected to the service.
# shellcheck disable=SC2034
PFL_CHROMIUM_FLAGS=(--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync
    --disable-default-apps --enable-features=EnablePerfettoSystemTracing)
