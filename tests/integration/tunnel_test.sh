#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet tunnel: a local socket that stands for a host, for our own clients and, where
# PERFETTO_BIN_DIR names it, for the stock one; files written at this end; hosts by ssh, with a
# played ssh and, where sshd is installed, a real one.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
NOTHING=1 USAGE=2

start_service one || { check "perfleetd opens its sockets" false; finish; }
start example-one "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
make_pki
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_agent one
config "$WORK/short.pbtx" 1000
cat >"$WORK/file.pbtx" <<END
buffers { size_kb: 8192 }
duration_ms: 3000
write_into_file: true
file_write_period_ms: 300
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END

is_connected() { fleet hosts | grep -q " up "; }
check "the agent dials" wait_for 20 is_connected
start tunnel "$P" tunnel one --relay "$RELAY" "${TLS_ME[@]}" --socket "$WORK/far.sock"
tunnel_pid=$STARTED
check "the tunnel listens" wait_for 20 test -S "$WORK/far.sock"
check "only its owner may use it" test "$(stat -c %a "$WORK/far.sock")" = 600
check "a client records through it" "$P" record -c "$WORK/short.pbtx" -o "$WORK/far.pftrace" \
    --host "one=unix:$WORK/far.sock"
check "nothing is lost" $CHECK "$WORK/far.pftrace" --contiguous --lossless --min-packets 10
start nowhere "$P" tunnel "unix:$WORK/no.sock" --socket "$WORK/nowhere.sock" --json
check "a second tunnel to what is not there says so to its client" eval '
    wait_for 20 test -S "$WORK/nowhere.sock"
    "$P" hosts --host "unix:$WORK/nowhere.sock"
    wait_for 10 grep -q "there is no socket .*: is perfleetd running" "$WORK/nowhere.log"'
check "which tells programs where it listens (--json)" \
    grep -qF "{\"listening\":[{\"host\":\"unix:$WORK/no.sock\",\"socket\":\"$WORK/nowhere.sock\"}]}" "$WORK/nowhere.log"
check "a tunnel needs a socket" exits_with $USAGE "$P" tunnel one
check "one that cannot be made is said" exits_with $NOTHING "$P" tunnel "unix:$WORK/one/consumer.sock" \
    --socket /no/such/place.sock

# --- files at this end: a client by hand that gives a descriptor ---------------------------------
pull() { # pull FILE STOP-AT: leaves when the file has so many bytes, or waits for the end with 0
    PYTHONPATH=$ROOT/tests/support python3 -B - "$WORK/far.sock" "$1" "$2" <<'END'
import os, sys, time
import service_peers as peers
path, name, stop_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
source = peers.field(1, peers.field(1, "com.example.load"))
config = (peers.field(1, peers.field(1, 8192)) + peers.field(2, source) +
          peers.field(3, 0 if stop_at else 2000) + peers.field(8, 1) + peers.field(9, 200))
with open(name, "wb") as file:
    client = peers.Consumer(path)
    client.enable(config, file.fileno())
    end = time.monotonic() + 60
    while time.monotonic() < end and not client.said and not 0 < stop_at < os.stat(name).st_size:
        if client.has_input(0.2):
            client.dispatch()
    client.close()
END
}
check "a file that the client asks for is written at this end" pull "$WORK/pull.pftrace" 0
check "it has the whole session" $CHECK "$WORK/pull.pftrace" --contiguous --lossless --min-packets 10
check "a client leaves in the middle" pull "$WORK/left.pftrace" 50000
settled() { $CHECK "$WORK/left.pftrace" --contiguous --lossless --min-packets 300; }
check "its file gets all up to then" wait_for 10 settled

tap_claims python3 -B "$ROOT/tests/support/clone_check.py" "$WORK/far.sock" "$WORK" --far

if [ -x "${PERFETTO_BIN_DIR:-}/perfetto" ]; then
    stock() {
        PERFETTO_CONSUMER_SOCK_NAME=$WORK/far.sock "$PERFETTO_BIN_DIR/perfetto" "$@"
    }
    check "the stock client queries through it" says 'perfleet-example' stock --query
    check "records" stock --txt -c "$WORK/short.pbtx" -o "$WORK/stock.pftrace"
    check "whole" $CHECK "$WORK/stock.pftrace" --contiguous --lossless --min-packets 10
    check "and has its file written (write_into_file)" \
        stock --txt -c "$WORK/file.pbtx" -o "$WORK/stockfile.pftrace"
    check "whole" $CHECK "$WORK/stockfile.pftrace" --contiguous --lossless --min-packets 10
    grep -v duration_ms "$WORK/file.pbtx" >"$WORK/open.pbtx"
    check "leaves a session behind that writes its file" \
        stock --txt -c "$WORK/open.pbtx" --detach=night -o "$WORK/night.pftrace"
    check "finds it again" stock --is_detached=night
    check "and none of another name" exits_with 2 stock --is_detached=day
    grows() { [ "$(stat -c %s "$WORK/night.pftrace")" -gt 50000 ]; }
    check "which goes on meanwhile" wait_for 20 grows
    check "attaches and stops it" stock --attach=night --stop
    check "whole" $CHECK "$WORK/night.pftrace" --contiguous --lossless --min-packets 10
    check "then it is gone" exits_with 2 stock --is_detached=night
    PERFETTO_CONSUMER_SOCK_NAME=$WORK/far.sock "$PERFETTO_BIN_DIR/perfetto" --txt \
        -c "$WORK/open.pbtx" -o "$WORK/source.pftrace" &
    source_pid=$!
    source_grows() { [ "$(stat -c %s "$WORK/source.pftrace" 2>/dev/null || echo 0)" -gt 50000 ]; }
    wait_for 20 source_grows
    session=$(stock --query | awk '/STARTED/ { id = $1 } END { print id }')
    check "clones a session whose file the tunnel writes" \
        stock --clone "$session" -o "$WORK/cloned.pftrace"
    check "whole: the file so far and what was in the buffers" \
        $CHECK "$WORK/cloned.pftrace" --contiguous --lossless --min-packets 10
    kill "$source_pid"
    wait "$source_pid"
    check "the session goes on until it is stopped" test $? = 0
    check "whole" $CHECK "$WORK/source.pftrace" --contiguous --lossless --min-packets 10
    relay_dies() {
        local pid rc=0
        stock --txt -c "$WORK/file.pbtx" -o "$WORK/resumed.pftrace" &
        pid=$!
        sleep 1
        kill -9 "$MEETING_PID"
        sleep 0.3
        start_meeting "$RELAY"
        wait $pid || rc=$?
        return $rc
    }
    check "it does not notice that the relay is killed and comes back" relay_dies
    check "nothing is missing" $CHECK "$WORK/resumed.pftrace" --contiguous --lossless --min-packets 10
else
    skip "the stock client works through the tunnel" "PERFETTO_BIN_DIR names no programs"
fi
kill "$tunnel_pid"
has_ended() { ! is_alive "$tunnel_pid"; }
check "a signal ends it" wait_for 20 has_ended
check "and its socket is gone" test ! -e "$WORK/far.sock"

# --- by ssh -----------------------------------------------------------------------------------------
mkdir "$WORK/bin"
ln -s "$ROOT/tests/support/fake_ssh.py" "$WORK/bin/ssh"
export FAKE_SSH_LOG=$WORK/ssh.calls
by_ssh() { PATH=$WORK/bin:$PATH "$P" "$@"; }
check "a host by ssh is recorded" by_ssh record -c "$WORK/short.pbtx" -o "$WORK/ssh.pftrace" \
    --host "ssh://me@web-1:2222$WORK/one/consumer.sock"
check "nothing is lost" $CHECK "$WORK/ssh.pftrace" --contiguous --lossless --min-packets 10
check "ssh was asked for no more than a forward" \
    grep -qE -- "^-N -T .* -L [^ ]+:$WORK/one/consumer.sock -p 2222 -- me@web-1$" "$FAKE_SSH_LOG"
SSH_FOLDER=$(grep -oE -m1 "/[^ ]*/perfleet-ssh-[^/]+" "$FAKE_SSH_LOG")
check "its folder is gone" test -n "$SSH_FOLDER" -a ! -e "$SSH_FOLDER"
check "an ssh that fails is said" says 'ssh made no forward' by_ssh hosts --host ssh://refused

if [ -x /usr/sbin/sshd ] && [ "$(id -u)" -eq 0 ]; then
    mkdir -p "$WORK/sshd" /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f "$WORK/sshd/host"
    ssh-keygen -q -t ed25519 -N '' -f "$WORK/sshd/me"
    cp "$WORK/sshd/me.pub" "$WORK/sshd/authorized"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat >"$WORK/sshd/config" <<END
ListenAddress 127.0.0.1:$port
HostKey $WORK/sshd/host
AuthorizedKeysFile $WORK/sshd/authorized
StrictModes no
PidFile none
END
    cat >"$WORK/sshd/client" <<END
#!/bin/sh
exec $(command -v ssh) -F none -i $WORK/sshd/me -o UserKnownHostsFile=$WORK/sshd/known \\
    -o StrictHostKeyChecking=accept-new "\$@"
END
    chmod 755 "$WORK/sshd/client"
    ln -sf "$WORK/sshd/client" "$WORK/bin/ssh"
    start sshd /usr/sbin/sshd -D -e -f "$WORK/sshd/config"
    listens() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
    wait_for 20 listens
    check "a host behind a real sshd is recorded" by_ssh record -c "$WORK/short.pbtx" \
        -o "$WORK/sshd.pftrace" --host "ssh://$(id -un)@127.0.0.1:$port$WORK/one/consumer.sock"
    check "nothing is lost there" $CHECK "$WORK/sshd.pftrace" --contiguous --lossless --min-packets 10
else
    skip "a host behind a real sshd is recorded" "needs root and openssh-server"
fi
finish
